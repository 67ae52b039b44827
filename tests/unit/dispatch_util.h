/* Kernels on a device, one dispatch at a time: for tests that make SPIR-V themselves. */
#ifndef DOPPLER_TESTS_UNIT_DISPATCH_UTIL_H
#define DOPPLER_TESTS_UNIT_DISPATCH_UTIL_H

#include "runtime/device.h"

typedef struct test_device {
    dop_instance instance;
    dop_device device;
    VkPipelineLayout layout;
    VkCommandPool pool;
    VkCommandBuffer commands;
    VkSemaphore timeline;
    uint64_t ticks;
} test_device;

/* Memory that both sides see. */
typedef struct test_buffer {
    void *block;
    uint8_t *mapped;
    uint64_t address;
} test_buffer;

/* The best device with all it can; false: there is none. */
bool test_device_open(test_device *d);
void test_device_close(test_device *d);
test_buffer test_buffer_create(test_device *d, uint64_t size);
void test_buffer_destroy(test_device *d, test_buffer *b); /* accepts a zeroed one */
/* Runs main of a module whose push constants are n_args addresses, and waits.  subgroup: required size, 0: any. */
void test_dispatch(test_device *d, const void *spirv, size_t size, uint32_t subgroup, uint32_t n_args,
                   const uint64_t *args, const uint32_t grid[3]);

#endif
