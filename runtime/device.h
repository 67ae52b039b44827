/* Vulkan instance and device: what is there, which one to take, and the few objects everything else hangs on.
 *
 * A device needs Vulkan 1.2 with buffer device addresses and timeline semaphores; everything else is a capability
 * (caps.h) that a plan may or may not need. */
#ifndef DOPPLER_RUNTIME_DEVICE_H
#define DOPPLER_RUNTIME_DEVICE_H

#include "runtime/base.h"
#include "runtime/caps.h"

#include <pthread.h>
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
    uint32_t vendor_id, device_id, driver_version;
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
    bool has_portability; /* VK_KHR_portability_subset must be enabled */

    uint32_t queue_family;    /* compute */
    uint32_t transfer_family; /* copies only, beside it; equal to queue_family when there is none, or no use for it */
    uint32_t timestamp_bits;  /* valid bits of timestamps on the compute queue; 0: no timestamps */
    float timestamp_period;   /* nanoseconds per tick */
} dop_device_info;

typedef struct dop_instance {
    VkInstance handle;
    dop_device_info *devices;
    uint32_t n_devices;
} dop_instance;

dop_status dop_instance_create(dop_diag *diag, dop_instance *out_instance);
void dop_instance_destroy(dop_instance *instance); /* accepts a zeroed one */

/* Takes `which` (a number, or a part of a name in any case) or, when NULL, the best: discrete, integrated, virtual,
 * then software devices, in the driver's order. */
dop_status dop_instance_choose(const dop_instance *instance, const char *which, dop_diag *diag, uint32_t *out_index);
/* With `which` NULL: number n, counted round, of those that are as good as the best one. */
dop_status dop_instance_choose_nth(const dop_instance *instance, const char *which, uint32_t n, dop_diag *diag,
                                   uint32_t *out_index);

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

typedef struct dop_device {
    VkDevice handle;
    dop_device_info info;
    VkQueue queue;        /* compute; submit through dop_device_submit */
    VkQueue transfer;     /* may be the same as queue */
    pthread_mutex_t lock; /* around submissions: a queue may be shared with the upload threads */
    bool lock_made;
    _Atomic bool lost;                               /* lost or hung: nothing may wait for it any more */
    double timeout_s;                                /* longest wait for one submission */
    _Atomic uint64_t second_best;                    /* allocations that found no room in the memory that suits best */
    _Atomic uint64_t allocations;                    /* of device memory since creation */
    _Atomic uint64_t recordings;                     /* of command buffers */
    PFN_vkGetCalibratedTimestampsEXT get_calibrated; /* NULL when the device has none */
} dop_device;

/* wanted_caps: features to switch on beside the common ones; the device must have them. */
dop_status dop_device_create(const dop_instance *instance, uint32_t index, uint32_t wanted_caps, dop_diag *diag,
                             dop_device *out_device);
void dop_device_destroy(dop_device *device); /* accepts a zeroed one */

/* Begins recording, from empty. */
dop_status dop_device_begin(VkCommandBuffer commands, VkCommandBufferUsageFlags usage, dop_diag *diag);
/* Submits under the lock. */
dop_status dop_device_submit(dop_device *device, VkQueue queue, const VkSubmitInfo *submit, dop_diag *diag);
/* Waits until a timeline semaphore reaches a value; a device that hangs is an error after timeout_s and is not waited
 * for again. */
dop_status dop_device_wait(dop_device *device, VkSemaphore timeline, uint64_t value, dop_diag *diag);
dop_status dop_device_timeline(dop_device *device, dop_diag *diag, VkSemaphore *out_semaphore);

/* Turns a VkResult into a status with a message that says what to do. */
dop_status dop_vk_fail(dop_diag *diag, const char *src_file, int src_line, VkResult result, const char *what);
#define DOP_VK_FAIL(diag, result, what) dop_vk_fail((diag), __FILE__, __LINE__, (result), (what))

#endif
