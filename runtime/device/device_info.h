/* What a physical device is and can do, as its driver says. */
#ifndef DOPPLER_RUNTIME_DEVICE_DEVICE_INFO_H
#define DOPPLER_RUNTIME_DEVICE_DEVICE_INFO_H

#include "base/base.h"
#include "base/caps.h"

#include <vulkan/vulkan.h>

enum { DOP_MAX_MATRIX_SHAPES = 8 };
typedef struct dop_matrix_list {
    uint32_t n, shapes[DOP_MAX_MATRIX_SHAPES];
} dop_matrix_list;

/* One physical device as its driver describes it. */
typedef struct dop_device_info {
    VkPhysicalDevice physical;
    uint32_t index; /* in the order of vkEnumeratePhysicalDevices: what --device N names */
    VkPhysicalDeviceType type;
    uint32_t api_version;
    uint32_t driver_version;
    uint8_t driver_uuid[VK_UUID_SIZE], device_uuid[VK_UUID_SIZE];
    dop_device_caps caps;
    char missing[128]; /* why it cannot be used at all; "" when it can */
    /* Matrix units, f16 factors and f32 sums, all invocations of a subgroup: DOP_MATRIX_SHAPE each, the first
     * dop_matrix_list.n, of each form that the device has; and those of the KHR form with f16 sums. */
    dop_matrix_list matrix_nv, matrix_khr, matrix_khr_f16;

    uint32_t subgroup_min, subgroup_max; /* sizes that a kernel may require */
    uint32_t max_subgroups;              /* per workgroup when a size is required */
    bool subgroup_control;               /* a kernel may require a size */
    bool full_subgroups;
    uint32_t max_local[3], max_grid[3];
    uint64_t max_buffer; /* bytes of one buffer */
    VkPhysicalDeviceMemoryProperties memory;
    bool maps_all;        /* the host can map all of the device's memory (on a discrete GPU: a BAR of its size) */
    bool has_budget;      /* VK_EXT_memory_budget */
    bool has_calibration; /* VK_EXT_calibrated_timestamps with CLOCK_MONOTONIC */
    bool has_statistics;  /* VK_KHR_pipeline_executable_properties */
    bool statistics;      /* what the driver made of kernels shall be told: set before dop_device_create */
    bool has_portability; /* VK_KHR_portability_subset must be enabled */

    uint32_t queue_family;    /* compute */
    uint32_t transfer_family; /* copies only, beside it; equal to queue_family when there is none, or no use for it */
    uint32_t timestamp_bits;  /* valid bits of timestamps on the compute queue; 0: no timestamps */
    float timestamp_period;   /* nanoseconds per tick */
} dop_device_info;

/* One line for --list-devices, with its newline. */
void dop_device_describe(const dop_device_info *info, dop_buf *out);

/* Fills one entry; used by dop_instance_create. */
dop_status dop_device_query(VkInstance instance, VkPhysicalDevice physical, uint32_t index, dop_diag *diag,
                            dop_device_info *out_info);

/* Does the device have products of that shape in the forms that caps asks for? */
bool dop_device_has_matrix(const dop_device_info *info, uint32_t caps, uint32_t shape);
/* "16x16x16, 8x16x16", or "none". */
void dop_matrix_names(const dop_matrix_list *list, dop_buf *out);

/* Names of the capability bits, comma separated, as an error message wants them. */
void dop_caps_names(uint32_t caps, dop_buf *out);

#endif
