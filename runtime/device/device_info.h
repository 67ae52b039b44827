/* Properties and capabilities of a physical device, as reported by its driver. */
#ifndef DOPPLER_RUNTIME_DEVICE_DEVICE_INFO_H
#define DOPPLER_RUNTIME_DEVICE_DEVICE_INFO_H

#include "base/base.h"
#include "base/caps.h"

#include <vulkan/vulkan.h>

enum { DOP_MAX_MATRIX_SHAPES = 8 };
typedef struct dop_matrix_list {
    uint32_t n, shapes[DOP_MAX_MATRIX_SHAPES];
} dop_matrix_list;

/* One physical device. */
typedef struct dop_device_info {
    VkPhysicalDevice physical;
    uint32_t index; /* index in vkEnumeratePhysicalDevices, the N of --device N */
    VkPhysicalDeviceType type;
    uint32_t api_version;
    uint32_t driver_version;
    uint8_t driver_uuid[VK_UUID_SIZE], device_uuid[VK_UUID_SIZE];
    dop_device_caps caps;
    char missing[128]; /* reason why it cannot be used at all; "" if it can */
    /* Shapes of matrix units with f16 factors and f32 sums at subgroup scope, as DOP_MATRIX_SHAPE: of the NV and the
     * KHR extension. matrix_khr_f16: shapes of the KHR extension with f16 sums. */
    dop_matrix_list matrix_nv, matrix_khr, matrix_khr_f16;

    uint32_t subgroup_min, subgroup_max; /* range of subgroup sizes that a kernel may require */
    uint32_t max_subgroups;              /* maximum subgroups per workgroup if a size is required */
    bool subgroup_control;               /* a kernel may require a subgroup size */
    bool full_subgroups;
    uint32_t max_local[3], max_grid[3];
    uint64_t max_buffer; /* maximum size of one buffer, in bytes */
    VkPhysicalDeviceMemoryProperties memory;
    bool maps_all;        /* the host can map all device memory (on a discrete GPU: resizable BAR) */
    bool has_budget;      /* VK_EXT_memory_budget */
    bool has_calibration; /* VK_EXT_calibrated_timestamps with CLOCK_MONOTONIC */
    bool has_statistics;  /* VK_KHR_pipeline_executable_properties */
    bool statistics;      /* set before dop_device_create to enable the driver's pipeline statistics */
    bool has_portability; /* VK_KHR_portability_subset must be enabled */

    uint32_t queue_family; /* compute */
    /* queue family for copies only; equal to queue_family if there is none or it is not needed */
    uint32_t transfer_family;
    uint32_t timestamp_bits; /* valid bits of timestamps on the compute queue; 0: no timestamps */
    float timestamp_period;  /* nanoseconds per tick */
} dop_device_info;

/* Appends one line for --list-devices, including the newline. */
void dop_device_describe(const dop_device_info *info, dop_buf *out);

/* Fills in one entry for dop_instance_create. */
dop_status dop_device_query(VkInstance instance, VkPhysicalDevice physical, uint32_t index, dop_diag *diag,
                            dop_device_info *out_info);

/* True if the device supports matrix products of this shape in every form named in caps. */
bool dop_device_has_matrix(const dop_device_info *info, uint32_t caps, uint32_t shape);
/* Appends the shapes, such as "16x16x16, 8x16x16", or "none". */
void dop_matrix_names(const dop_matrix_list *list, dop_buf *out);

/* Appends the names of the capability bits, separated by commas, for error messages. */
void dop_caps_names(uint32_t caps, dop_buf *out);

#endif
