/* Kernels and schedules as they are needed.  Kernels are created by threads in the order in which they will be needed, and the largest first among equals, because the driver takes longest for it; a schedule is recorded when opening or a call needs it. */
#ifndef DOPPLER_RUNTIME_MODEL_MODEL_LOAD_H
#define DOPPLER_RUNTIME_MODEL_MODEL_LOAD_H

#include "runtime/device/replay.h"

#include <doppler/doppler.h>

/* The kernels that are created before a call needs them, in order: those of the schedules with first[schedule], then those of other
 * forms of decoding, also of steps that check a layer's drafts, then, unless `on_demand` has them left out, the rest, and of each the
 * largest first, because the driver takes longest for it.  out_order: [n_kernels]. */
dop_status dop_model_order_kernels(const dop_model *model, const bool *first, const dop_open_options *options,
                                   dop_diag *diag, uint32_t *out_order, uint32_t *out_n);
/* Starts creating pipelines in that order. */
dop_status dop_model_start_pipelines(dop_model *model, const bool *first, const dop_open_options *options,
                                     uint32_t threads, dop_diag *diag);
bool dop_model_has(const dop_model *model, uint32_t schedule);
/* Waits for a schedule, but not long: where its kernels come from a cache they are there 5 to 10 ms after opening, and where a driver compiles
 * them after seconds (tests/bench/log/2026-11-27-cold-starts.md).  Whether it is there. */
bool dop_model_await(dop_model *model, uint32_t schedule);
/* Makes that a schedule can be submitted: waits for its pipelines, which come before others, and records it. */
dop_status dop_model_need(dop_model *model, uint32_t schedule, dop_diag *diag);
/* A software driver compiles a kernel to machine code when it first runs.  Dispatches without workgroups make it do so before the
 * step that needs the kernel, so that the time counts as waiting and not as the step's. */
dop_status dop_model_make_code(dop_model *model, uint32_t schedule, dop_form form, dop_diag *diag);

#endif
