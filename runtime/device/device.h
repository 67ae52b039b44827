/* Vulkan instance and device: which devices there are, which one to use, and the few objects that everything else needs.
 *
 * A device needs Vulkan 1.2 with buffer device addresses and timeline semaphores; everything else is a capability
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

/* Takes `which` (a number, or a part of a name in any case) or, when NULL, the best: discrete, integrated, virtual,
 * then software devices, in the driver's order. */
dop_status dop_instance_choose(const dop_instance *instance, const char *which, dop_diag *diag, uint32_t *out_index);
/* With `which` NULL: number n, modulo their count, of the devices that are as good as the best one. */
dop_status dop_instance_choose_nth(const dop_instance *instance, const char *which, uint32_t n, dop_diag *diag,
                                   uint32_t *out_index);

typedef struct dop_device {
    VkDevice handle;
    dop_device_info info;
    VkQueue queue;        /* compute; submit through dop_device_submit */
    VkQueue transfer;     /* may be the same as queue */
    pthread_mutex_t lock; /* around submissions: a queue may be shared with the upload threads */
    bool lock_made;
    _Atomic bool lost;            /* lost or hung: it takes no more work, and nothing may wait for it any more */
    _Atomic bool hung;            /* it may still be working: nothing of it may be destroyed, which would wait for it */
    double timeout_s;             /* longest wait for one submission */
    double submit_ms;             /* longest that what one submission has for the driver shall take; 0: any time */
    _Atomic uint64_t second_best; /* allocations that did not fit the most suitable memory */
    _Atomic uint64_t allocations; /* of device memory since creation */
    _Atomic uint64_t recordings;  /* of command buffers */
    /* Told of each kernel whose pipeline the driver does not make, by any thread; NULL: nobody is. */
    void (*refused)(void *user, const char *variant);
    void *refused_user;
    PFN_vkGetCalibratedTimestampsEXT get_calibrated; /* NULL when the device has none */
    VkDescriptorSetLayout view_layout; /* of the set of each view (views.h); VK_NULL_HANDLE without DOP_CAP_texels */
} dop_device;

/* wanted_caps: features to enable in addition to the common ones; the device must have them. */
dop_status dop_device_create(const dop_instance *instance, uint32_t index, uint32_t wanted_caps, dop_diag *diag,
                             dop_device *out_device);
void dop_device_destroy(dop_device *device); /* accepts a zeroed one */

/* Begins recording, from empty. */
dop_status dop_device_begin(VkCommandBuffer commands, VkCommandBufferUsageFlags usage, dop_diag *diag);
/* Submits n command buffers under the lock.  When the device has done them, the timeline semaphore (VK_NULL_HANDLE: none) has this
 * value. */
dop_status dop_device_submit(dop_device *device, VkQueue queue, const VkCommandBuffer *commands, uint32_t n,
                             VkSemaphore timeline, uint64_t value, dop_diag *diag);
/* Waits until a timeline semaphore reaches a value; a device that hangs is an error after timeout_s and is not waited
 * for again. */
dop_status dop_device_wait(dop_device *device, VkSemaphore timeline, uint64_t value, dop_diag *diag);
dop_status dop_device_timeline(dop_device *device, dop_diag *diag, VkSemaphore *out_semaphore);

#endif
