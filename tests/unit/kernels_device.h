/* A Vulkan device for tests that make kernels themselves: one heap that host and kernels see, and pipelines known by their
 * text, so that a kernel that several cases need is made once. */
#ifndef DOPPLER_TESTS_UNIT_KERNELS_DEVICE_H
#define DOPPLER_TESTS_UNIT_KERNELS_DEVICE_H

#include "base/base.h"

enum { LAB_HEAP = 64 << 20, LAB_RECORDS = 1 << 20 }; /* bytes; of them for parameter records, behind */
enum { LAB_ARGS = 64 };                              /* most of a dispatch */

typedef struct lab_device lab_device;

typedef struct lab_dispatch {
    uint32_t kernel, grid[3], n_args;
    uint64_t args[LAB_ARGS];
    bool barrier; /* before it */
} lab_dispatch;

/* The first software device with the capabilities `caps`, or (any) the device that the runtime would take, with all that it
 * has.  DOP_E_DEVICE: there is none.  *out_device must be closed also after a failure. */
dop_status lab_device_open(bool any, uint32_t caps, dop_diag *diag, lab_device **out_device);
void lab_device_close(lab_device *device);          /* accepts NULL */
uint32_t lab_device_caps(const lab_device *device); /* DOP_CAP_* bits that it could have */
uint32_t lab_device_subgroup(const lab_device *device);
/* LAB_HEAP bytes that kernels reach through addresses. */
uint8_t *lab_device_heap(const lab_device *device, uint64_t *out_address);
/* Kernels are kept and known by their text. */
bool lab_device_find(const lab_device *device, const char *glsl, uint32_t *out_kernel);
dop_status lab_device_add(lab_device *device, const char *glsl, const dop_buf *spirv, uint32_t subgroup, dop_diag *diag,
                          uint32_t *out_kernel);
/* From now on dispatch number n of every list is left out; UINT32_MAX: none, as in the beginning. */
void lab_device_lose(lab_device *device, uint32_t n);
/* Runs them in order and waits. */
dop_status lab_device_run(lab_device *device, const lab_dispatch *list, uint32_t n, dop_diag *diag);

#endif
