/* Creates kernels and schedules when they are needed. Threads create kernels in the order of need, largest first among
 * equals, because the driver takes longest for these. A schedule is recorded when opening or a call needs it. */
#ifndef DOPPLER_RUNTIME_MODEL_MODEL_LOAD_H
#define DOPPLER_RUNTIME_MODEL_MODEL_LOAD_H

#include "runtime/device/replay.h"

#include <doppler/doppler.h>

/* Lists the kernels to create in advance: first those of the schedules marked in first[], then those of other decode
 * forms (including steps that check drafts), then the rest unless `on_demand` excludes it. Each group has its largest
 * kernels first. out_order: [n_kernels]. */
dop_status dop_model_order_kernels(const dop_model *model, const bool *first, const dop_open_options *options,
                                   dop_diag *diag, uint32_t *out_order, uint32_t *out_n);
/* Starts the threads that create pipelines in that order. */
dop_status dop_model_start_pipelines(dop_model *model, const bool *first, const dop_open_options *options,
                                     uint32_t threads, dop_diag *diag);
bool dop_model_has(const dop_model *model, uint32_t schedule);
/* Waits up to 100 ms for a schedule, and returns true if it is ready. Kernels from a cache are ready 5 to 10 ms after
 * opening; kernels that the driver must compile need seconds (tests/bench/log/2026-11-27-cold-starts.md). */
bool dop_model_await(dop_model *model, uint32_t schedule);
/* Makes a schedule ready for submission: waits for its pipelines, which get priority, and records it. */
dop_status dop_model_need(dop_model *model, uint32_t schedule, dop_diag *diag);
/* Forces a software driver to compile the kernels of a schedule, which it otherwise does at first run. Empty dispatches
 * trigger it, so that the time counts as waiting and not as part of the step. */
dop_status dop_model_make_code(dop_model *model, uint32_t schedule, dop_form form, dop_diag *diag);

#endif
