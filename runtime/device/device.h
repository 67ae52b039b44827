/* Vulkan instance and device: enumeration, choice of a device, and the few objects that everything else needs.
 *
 * A device needs Vulkan 1.2 with buffer device addresses and timeline semaphores. Everything else is a capability
 * (caps.h) that a plan may or may not need. */
#ifndef DOPPLER_RUNTIME_DEVICE_DEVICE_H
#define DOPPLER_RUNTIME_DEVICE_DEVICE_H

#include "runtime/device/device_info.h"
#include "runtime/device/vk_result.h"

#include <pthread.h>

typedef struct dop_instance {
    VkInstance handle;
    dop_device_info *devices;
    uint32_t n_devices;
} dop_instance;

dop_status dop_instance_create(dop_diag *diag, dop_instance *out_instance);
void dop_instance_destroy(dop_instance *instance); /* accepts a zeroed one */

/* Chooses device `which`: a number, or a part of the name in any case. NULL means the best: discrete, integrated,
 * virtual, then software devices, in the driver's order. */
dop_status dop_instance_choose(const dop_instance *instance, const char *which, dop_diag *diag, uint32_t *out_index);
/* Like dop_instance_choose, but with `which` NULL it chooses among the equally good best devices: number n modulo their
 * count. */
dop_status dop_instance_choose_nth(const dop_instance *instance, const char *which, uint32_t n, dop_diag *diag,
                                   uint32_t *out_index);

typedef struct dop_device {
    VkDevice handle;
    dop_device_info info;
    VkQueue queue;        /* compute; submit through dop_device_submit */
    VkQueue transfer;     /* transfer queue; may be the same as `queue` */
    pthread_mutex_t lock; /* held during submissions: a queue may be shared with the upload threads */
    bool lock_made;
    _Atomic bool lost; /* lost or hung: no more submissions or waits */
    /* no answer within the timeout; its objects must not be destroyed, because that would wait for it */
    _Atomic bool hung;
    double timeout_s;             /* timeout for one submission, in seconds */
    double submit_ms;             /* maximum duration of one submission to the driver, in milliseconds; 0: no limit */
    _Atomic uint64_t second_best; /* number of allocations that did not get the most suitable memory type */
    _Atomic uint64_t allocations; /* number of device memory allocations since creation */
    _Atomic uint64_t recordings;  /* number of recorded command buffers */
    /* Callback for each kernel whose pipeline the driver refuses, called from any thread; NULL: none. */
    void (*refused)(void *user, const char *variant);
    void *refused_user;
    PFN_vkGetCalibratedTimestampsEXT get_calibrated; /* NULL if the device lacks it */
    /* layout of each view's descriptor set (views.h); VK_NULL_HANDLE without DOP_CAP_texels */
    VkDescriptorSetLayout view_layout;
} dop_device;

/* Creates a device. wanted_caps: features to enable in addition to the common ones; the device must support them. */
dop_status dop_device_create(const dop_instance *instance, uint32_t index, uint32_t wanted_caps, dop_diag *diag,
                             dop_device *out_device);
void dop_device_destroy(dop_device *device); /* accepts a zeroed one */

/* Begins recording an empty command buffer. */
dop_status dop_device_begin(VkCommandBuffer commands, VkCommandBufferUsageFlags usage, dop_diag *diag);
/* Submits n command buffers under the lock. At completion, the timeline semaphore (VK_NULL_HANDLE: none) gets this
 * value. */
dop_status dop_device_submit(dop_device *device, VkQueue queue, const VkCommandBuffer *commands, uint32_t n,
                             VkSemaphore timeline, uint64_t value, dop_diag *diag);
/* Waits until a timeline semaphore reaches a value. Fails if the device hangs for timeout_s, and marks it so that
 * nothing waits for it again. */
dop_status dop_device_wait(dop_device *device, VkSemaphore timeline, uint64_t value, dop_diag *diag);
dop_status dop_device_timeline(dop_device *device, dop_diag *diag, VkSemaphore *out_semaphore);

#endif
