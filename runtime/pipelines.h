/* Compute pipelines of a plan's kernels, created by several threads and kept in a cache on disk.
 *
 * No descriptor sets: every kernel takes device addresses as push constants, so all share one layout. */
#ifndef DOPPLER_RUNTIME_PIPELINES_H
#define DOPPLER_RUNTIME_PIPELINES_H

#include "runtime/device.h"
#include "runtime/log.h"
#include "runtime/plan.h"

typedef struct dop_pipelines {
    dop_device *device;
    VkPipelineLayout layout;
    VkPipeline *rows; /* one per kernel of the plan; VK_NULL_HANDLE: not used, or not waited for yet */
    uint32_t n_rows;
    struct dop_pipeline_build *build; /* owned: what creates them */
} dop_pipelines;

/* Capabilities, subgroup sizes and limits that the kernels and schedules in use need, against the device.  Appends what is
 * missing, and to whom ("needs 8-bit storage buffers, which X lacks (kernel Y)"); nothing when the device has it all. */
void dop_pipelines_refuse(const dop_device_info *info, const dop_plan *plan, const bool *kernels, const bool *schedules,
                          uint32_t matrix, dop_buf *out_reason);

/* Starts threads that create the kernels order[0 .. n_order) in that order, and returns before they are there.
 * cache_dir: where pipeline caches are kept, NULL for none; a damaged or foreign cache is ignored, and failing to write
 * one is not an error. */
dop_status dop_pipelines_start(dop_device *device, const dop_plan *plan, const uint32_t *order, uint32_t n_order,
                               uint32_t n_threads, const char *cache_dir, const dop_log *log, dop_diag *diag,
                               dop_pipelines *out_pipelines);
/* Blocks until the kernels with used[kernel] are there, which must be among those of the order.  After a failure no
 * more are created. */
dop_status dop_pipelines_wait(dop_pipelines *pipelines, const bool *used, dop_diag *diag);
/* Blocks until all are there and the cache is kept.  One thread may do this while others wait. */
void dop_pipelines_end(dop_pipelines *pipelines);
/* No thread may be inside any of the above; those that create give up.  Accepts a zeroed one. */
void dop_pipelines_destroy(dop_pipelines *pipelines);

/* pipeline_cache.c.  The file is named by device, driver and cache UUID; its bytes carry a digest. */
typedef struct dop_pipeline_cache {
    VkPipelineCache handle;
    char path[768];  /* "": not kept */
    uint64_t loaded; /* bytes that came from the file; a cache that has not grown is not written again */
} dop_pipeline_cache;

dop_status dop_pipeline_cache_load(dop_device *device, const char *cache_dir, const dop_log *log, dop_diag *diag,
                                   dop_pipeline_cache *out_cache);
void dop_pipeline_cache_save(dop_device *device, const dop_pipeline_cache *cache, const dop_log *log);

#endif
