/* Views of device memory: uniform texel buffers through which kernels with DOP_CAP_texels read (caps.h).  Some drivers
 * compile a load through an address into a loop over the invocations, but fetch the 16 bytes of a texel at once.
 *
 * View v is the only binding of descriptor set v - 1.  Each piece of memory that is read so has one buffer view and one set,
 * made when memory is; dispatches bind them and nothing is written to them afterwards. */
#ifndef DOPPLER_RUNTIME_DEVICE_VIEWS_H
#define DOPPLER_RUNTIME_DEVICE_VIEWS_H

#include "runtime/device/device.h"

typedef struct dop_views {
    const dop_device *device;
    VkDescriptorPool pool;
    uint32_t n;
    VkBufferView *views; /* of each piece of memory; VK_NULL_HANDLE: none */
    VkDescriptorSet *sets;
} dop_views;

/* The layout of all pipelines: 128 bytes of push constants, and on devices made with DOP_CAP_texels the sets of views. */
dop_status dop_pipeline_layout(const dop_device *device, dop_diag *diag, VkPipelineLayout *out_layout);

/* Room for views of n pieces of memory, at most `most` of which get one. */
dop_status dop_views_create(const dop_device *device, uint32_t n, uint32_t most, dop_diag *diag, dop_views *out_views);
/* Piece i: a buffer of so many bytes, the whole texels of which are visible. */
dop_status dop_views_add(dop_views *views, uint32_t i, VkBuffer buffer, uint64_t bytes, dop_diag *diag);
void dop_views_destroy(dop_views *views); /* accepts a zeroed one */

#endif
