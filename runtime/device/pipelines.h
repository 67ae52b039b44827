/* Compute pipelines of a plan's kernels, created by several threads and kept in a cache on disk.
 *
 * Every kernel takes device addresses as push constants, and at most the views of views.h, so all share one layout. */
#ifndef DOPPLER_RUNTIME_DEVICE_PIPELINES_H
#define DOPPLER_RUNTIME_DEVICE_PIPELINES_H

#include "base/os/log.h"
#include "base/progress.h"
#include "plan/plan.h"
#include "runtime/device/device.h"

typedef struct dop_pipelines {
    dop_device *device;
    VkPipelineLayout layout;
    VkPipeline *rows; /* one per kernel of the plan; VK_NULL_HANDLE: not used, or not finished yet */
    uint32_t n_rows;
    struct dop_pipeline_build *build; /* owned: what creates them */
} dop_pipelines;

/* Compares the capabilities, subgroup sizes and limits that the kernels and schedules in use need with the device.  Appends
 * what is missing ("needs 8-bit storage buffers, which X lacks (kernel Y)"), or nothing when the device has everything. */
void dop_pipelines_refuse(const dop_device_info *info, const dop_plan *plan, const bool *kernels,
                          const uint32_t *schedules, uint32_t n_used, uint32_t matrix, dop_buf *out_reason);

/* Starts threads that create the kernels ahead[0 .. n_ahead) in that order, and later others that are waited for; returns before any
 * is finished.  cache_dir: where pipeline caches are kept, NULL for none; a damaged or foreign cache is ignored, and failing to write
 * one is not an error.  It is saved whenever the threads have nothing left to do, and at the end. */
dop_status dop_pipelines_start(dop_device *device, const dop_plan *plan, const uint32_t *ahead, uint32_t n_ahead,
                               uint32_t n_threads, const char *cache_dir, const dop_log *log, dop_diag *diag,
                               dop_pipelines *out_pipelines);
/* Waits until the kernels with used[kernel] are finished, which come before all others that are not begun, and reports how many of all
 * are.  After a failure no more are created. */
dop_status dop_pipelines_wait(dop_pipelines *pipelines, const bool *used, const dop_progress *progress, dop_diag *diag);
/* The same, but waits for at most so many milliseconds; returns whether all are there.  Others are created all the same. */
bool dop_pipelines_come(dop_pipelines *pipelines, const bool *used, uint32_t most_ms);
/* Begins no more kernels, waits for those that the driver is at, and saves the cache.  Nothing may wait any more.  Accepts a zeroed one. */
void dop_pipelines_end(dop_pipelines *pipelines);
/* After the end.  Accepts a zeroed one. */
void dop_pipelines_destroy(dop_pipelines *pipelines);

/* Creates the pipeline of one kernel, which the caller destroys.  cache: VK_NULL_HANDLE for none. */
dop_status dop_pipeline_create(const dop_device *device, VkPipelineLayout layout, VkPipelineCache cache,
                               const dop_plan *plan, uint32_t kernel, VkPipeline *out_pipeline, dop_diag *diag);

/* pipeline_cache.c.  The file is named by device, driver and cache UUID; its bytes carry a digest. */
typedef struct dop_pipeline_cache {
    VkPipelineCache handle;
    char path[768]; /* "": not kept */
    uint64_t kept;  /* bytes that are in the file; a cache that has not grown is not written again */
} dop_pipeline_cache;

dop_status dop_pipeline_cache_load(dop_device *device, const char *cache_dir, const dop_log *log, dop_diag *diag,
                                   dop_pipeline_cache *out_cache);
void dop_pipeline_cache_save(dop_device *device, dop_pipeline_cache *cache, const dop_log *log);

#endif
