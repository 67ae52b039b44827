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
    VkPipeline *rows; /* one per kernel of the plan; VK_NULL_HANDLE when not used */
    uint32_t n_rows;
} dop_pipelines;

/* Capabilities, subgroup sizes and limits that the kernels and schedules in use need, against the device.  Appends what is
 * missing, and to whom ("needs 8-bit storage buffers, which X lacks (kernel Y)"); nothing when the device has it all. */
void dop_pipelines_refuse(const dop_device_info *info, const dop_plan *plan, const bool *kernels, const bool *schedules,
                          dop_buf *out_reason);

/* used[kernel]: which ones to create.  cache_dir: where pipeline caches are kept, NULL for none; a damaged or foreign
 * cache is ignored, and failing to write one is not an error. */
dop_status dop_pipelines_create(dop_device *device, const dop_plan *plan, const bool *used, uint32_t n_threads,
                                const char *cache_dir, const dop_log *log, dop_diag *diag,
                                dop_pipelines *out_pipelines);
void dop_pipelines_destroy(dop_pipelines *pipelines); /* accepts a zeroed one */

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
