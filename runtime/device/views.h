/* Uniform texel buffer views, through which kernels with DOP_CAP_texels read memory (caps.h). Some drivers compile a
 * load from an address into a loop over the invocations, but fetch a 16-byte texel at once.
 *
 * View v is the only binding of descriptor set v - 1. Each block that is read this way has one buffer view and one
 * descriptor set, created with the memory and never changed. */
#ifndef DOPPLER_RUNTIME_DEVICE_VIEWS_H
#define DOPPLER_RUNTIME_DEVICE_VIEWS_H

#include "runtime/device/device.h"

typedef struct dop_views {
    const dop_device *device;
    VkDescriptorPool pool;
    uint32_t n;
    VkBufferView *views; /* by block; VK_NULL_HANDLE: none */
    VkDescriptorSet *sets;
} dop_views;

/* Creates the layout of all pipelines: 128 bytes of push constants and, on devices created with DOP_CAP_texels, the
 * descriptor sets of the views. */
dop_status dop_pipeline_layout(const dop_device *device, dop_diag *diag, VkPipelineLayout *out_layout);

/* Allocates space for the views of n blocks, at most `most` of which get one. */
dop_status dop_views_create(const dop_device *device, uint32_t n, uint32_t most, dop_diag *diag, dop_views *out_views);
/* Adds the view of block i, a buffer of `bytes` bytes. A partial texel at its end is not accessible. */
dop_status dop_views_add(dop_views *views, uint32_t i, VkBuffer buffer, uint64_t bytes, dop_diag *diag);
void dop_views_destroy(dop_views *views); /* accepts a zeroed one */

#endif
