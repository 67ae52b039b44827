/* Compute pipelines of a plan's kernels, created by several threads and cached on disk.
 *
 * All kernels share one pipeline layout: device addresses as push constants, and at most the views of views.h. */
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
    struct dop_pipeline_build *build; /* owned: threads and state of pipeline creation */
} dop_pipelines;

/* Checks that the device has the capabilities, subgroup sizes and limits that the used kernels and schedules need.
 * Appends what is missing ("needs 8-bit storage buffers, which X lacks (kernel Y)"), or nothing. */
void dop_pipelines_refuse(const dop_device_info *info, const dop_plan *plan, const bool *kernels,
                          const uint32_t *schedules, uint32_t n_used, uint32_t matrix, dop_buf *out_reason);

/* Starts threads that create the kernels ahead[0 .. n_ahead) in that order, and later others on demand. Returns before
 * any is finished. cache_dir: folder of the pipeline cache, NULL for none. A damaged or foreign cache is ignored, and
 * failing to write one is not an error. The cache is saved when the threads run out of work, and at the end. */
dop_status dop_pipelines_start(dop_device *device, const dop_plan *plan, const uint32_t *ahead, uint32_t n_ahead,
                               uint32_t n_threads, const char *cache_dir, const dop_log *log, dop_diag *diag,
                               dop_pipelines *out_pipelines);
/* Waits until the kernels with used[kernel] are finished, and reports the progress of all. These kernels get priority
 * over others that are not started. After a failure no more are created. */
dop_status dop_pipelines_wait(dop_pipelines *pipelines, const bool *used, const dop_progress *progress, dop_diag *diag);
/* Like dop_pipelines_wait, but waits at most most_ms milliseconds. Returns true if all are finished; otherwise they
 * continue in the background. */
bool dop_pipelines_come(dop_pipelines *pipelines, const bool *used, uint32_t most_ms);
/* Stops: starts no more kernels, waits for those that the driver is compiling, and saves the cache. Nothing may wait
 * for pipelines any more. Accepts a zeroed one. */
void dop_pipelines_end(dop_pipelines *pipelines);
/* Frees everything; call after dop_pipelines_end. Accepts a zeroed one. */
void dop_pipelines_destroy(dop_pipelines *pipelines);

/* Creates the pipeline of one kernel, which the caller destroys. cache: VK_NULL_HANDLE for none. */
dop_status dop_pipeline_create(const dop_device *device, VkPipelineLayout layout, VkPipelineCache cache,
                               const dop_plan *plan, uint32_t kernel, VkPipeline *out_pipeline, dop_diag *diag);

/* pipeline_cache.c. The file is named by device, driver and cache UUID, and its content carries a digest. */
typedef struct dop_pipeline_cache {
    VkPipelineCache handle;
    char path[768]; /* "": not saved */
    uint64_t kept;  /* bytes in the file; a cache that has not grown is not written again */
} dop_pipeline_cache;

dop_status dop_pipeline_cache_load(dop_device *device, const char *cache_dir, const dop_log *log, dop_diag *diag,
                                   dop_pipeline_cache *out_cache);
void dop_pipeline_cache_save(dop_device *device, dop_pipeline_cache *cache, const dop_log *log);

#endif
