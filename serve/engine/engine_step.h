/* Which rows a step has. */
#ifndef DOPPLER_SERVE_ENGINE_ENGINE_STEP_H
#define DOPPLER_SERVE_ENGINE_ENGINE_STEP_H

#include "serve/engine/engine_internal.h"

/* Ends jobs, and gives sequences to waiting ones; blocks while there is nothing to do.  False: nothing more will come. */
bool dop_engine_take_jobs(dop_engine *e);
/* Works for some milliseconds on masks that are not ready.  Jobs whose masks are not complete then have no row in the next step,
 * so that they hold up nobody else. */
void dop_engine_prepare_masks(dop_engine *e);
/* Chooses the rows of the next step: e->rows. */
void dop_engine_plan_step(dop_engine *e);
/* Runs the rows that dop_engine_plan_step chose, and waits. */
void dop_engine_run_step(dop_engine *e);
/* Before a step: ends jobs whose grammar allows nothing more, so that the results of their rows are not used. */
void dop_engine_ready_picks(dop_engine *e);
/* Picks a token for each job with a row in the open step.  flies: the step was in flight, as group `group`. */
void dop_engine_pick_all(dop_engine *e, bool flies, uint32_t group, dop_engine_picks *out_picks);
/* Under the lock: appends the picked tokens to their jobs. */
void dop_engine_write_all(dop_engine *e, const dop_engine_picks *picks);
/* After a step: checkpoints of prompts whose tokens it has read. */
void dop_engine_mark_chunks(dop_engine *e);
/* After a step that failed: runs the rows of each sequence alone, to find the one that causes the failure. */
void dop_engine_run_each(dop_engine *e, const dop_step_row *rows, uint32_t n_rows);
/* Under the lock: adds a step to the metrics. */
void dop_engine_count_step(dop_engine *e, uint32_t n_rows, double start_ms, double pick_ms);

#endif
