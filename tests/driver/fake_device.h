/* What the two halves of the fake driver share: fake_device.c, what is said of devices and which calls fail; fake_driver.c,
 * what a device does. */
#ifndef DOPPLER_TESTS_DRIVER_FAKE_DEVICE_H
#define DOPPLER_TESTS_DRIVER_FAKE_DEVICE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <vulkan/vk_icd.h>
#include <vulkan/vulkan.h>

enum { MAX_DEVICES = 8, MAX_FAILURES = 16, MAX_REFUSED = 8, MAX_QUEUES = 4 };

typedef struct facts {
    char name[64];
    VkPhysicalDeviceType type;
    uint32_t api;
    bool f16, int16, int8, int64, storage16, storage8, scalar, address, timeline, subgroup, control, dot, memory_model;
    uint64_t workgroup, shared, push, grid, local, alloc, range, subgroup_size, subgroups;
    uint64_t subgroup_least; /* that kernels may require; 0: subgroup_size */
    uint32_t vendor_id, device_id;
    uint32_t matrix[3]; /* rows, columns and depth of its matrix units; zeroes: none */
    uint32_t n_queues, queues[MAX_QUEUES];
    uint32_t bits;
    VkPhysicalDeviceMemoryProperties memory;
    bool own_queues, own_heaps, own_types;
} facts;

typedef struct physical {
    VK_LOADER_DATA loader;
    facts f;
} physical;

/* Once, before anything else: fake_driver.txt. */
void fake_read_settings(void);
/* The devices that there are. */
physical *fake_devices(uint32_t *out_n);
/* Are modules with this instruction of SPIR-V refused? */
bool fake_refuses(uint32_t opcode);
/* Does this submission, counted from 1, never end? */
bool fake_hangs(uint32_t submission);

/* Are all devices to be lost now?  Once for each time that the file fake_driver.lose is there. */
bool fake_loses(void);
/* How many objects there are that must be given back. */
extern _Atomic int64_t fake_left;

/* The result that this call of a function is to have; `number` is 0 before its first. */
VkResult fake_lie(const char *function, _Atomic uint32_t *number);
#define LIE()                                            \
    do {                                                 \
        static _Atomic uint32_t number;                  \
        VkResult said = fake_lie(__func__ + 5, &number); \
        if (said != VK_SUCCESS)                          \
            return said;                                 \
    } while (0)

VKAPI_ATTR void VKAPI_CALL fake_vkGetPhysicalDeviceProperties(VkPhysicalDevice device, VkPhysicalDeviceProperties *out);
VKAPI_ATTR void VKAPI_CALL fake_vkGetPhysicalDeviceProperties2(VkPhysicalDevice device,
                                                               VkPhysicalDeviceProperties2 *out);
VKAPI_ATTR void VKAPI_CALL fake_vkGetPhysicalDeviceFeatures(VkPhysicalDevice device, VkPhysicalDeviceFeatures *out);
VKAPI_ATTR void VKAPI_CALL fake_vkGetPhysicalDeviceFeatures2(VkPhysicalDevice device, VkPhysicalDeviceFeatures2 *out);
VKAPI_ATTR void VKAPI_CALL fake_vkGetPhysicalDeviceMemoryProperties(VkPhysicalDevice device,
                                                                    VkPhysicalDeviceMemoryProperties *out);
VKAPI_ATTR void VKAPI_CALL fake_vkGetPhysicalDeviceMemoryProperties2(VkPhysicalDevice device,
                                                                     VkPhysicalDeviceMemoryProperties2 *out);
VKAPI_ATTR void VKAPI_CALL fake_vkGetPhysicalDeviceQueueFamilyProperties(VkPhysicalDevice device, uint32_t *n,
                                                                         VkQueueFamilyProperties *out);

#endif
