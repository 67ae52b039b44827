/* Chooses the rows of each step, and runs it. */
#ifndef DOPPLER_SERVE_ENGINE_ENGINE_STEP_H
#define DOPPLER_SERVE_ENGINE_ENGINE_STEP_H

#include "serve/engine/engine_internal.h"

/* Ends jobs that must end, and assigns sequences to waiting ones. Blocks while there is nothing to do. Returns false
 * if the engine is stopped and all jobs have ended. */
bool dop_engine_take_jobs(dop_engine *e);
/* Computes incomplete token masks for some milliseconds. Jobs without a complete mask get no row in the next step,
 * so that they do not delay the other jobs. */
void dop_engine_prepare_masks(dop_engine *e);
/* Chooses the rows of the next step (e->rows). */
void dop_engine_plan_step(dop_engine *e);
/* Runs the rows that dop_engine_plan_step chose, and waits for the result. */
void dop_engine_run_step(dop_engine *e);
/* Before a step: ends jobs whose grammar allows no further token, so that their rows are ignored. */
void dop_engine_ready_picks(dop_engine *e);
/* Samples a token for each job with a row in the open step. With `flies`, it was the in-flight step of group
 * `group`. */
void dop_engine_pick_all(dop_engine *e, bool flies, uint32_t group, dop_engine_picks *out_picks);
/* Under the lock: appends the sampled tokens to their jobs. */
void dop_engine_write_all(dop_engine *e, const dop_engine_picks *picks);
/* After a step: makes checkpoints of the prompts that it has read. */
void dop_engine_mark_chunks(dop_engine *e);
/* After a failed step: runs the rows of each sequence separately, to find the job that causes the failure. */
void dop_engine_run_each(dop_engine *e, const dop_step_row *rows, uint32_t n_rows);
/* Under the lock: adds a step to the metrics. */
void dop_engine_count_step(dop_engine *e, uint32_t n_rows, double start_ms, double pick_ms);

#endif
