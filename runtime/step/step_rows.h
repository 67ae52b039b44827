/* Steps of rows that the caller chooses, and later commits or rolls back (step_ahead.c). */
#ifndef DOPPLER_RUNTIME_STEP_STEP_ROWS_H
#define DOPPLER_RUNTIME_STEP_STEP_ROWS_H

#include <doppler/doppler.h>

/* Allocates memory that steps need later, once schedules are known. */
dop_status dop_step_prepare_model(dop_model *model, dop_diag *diag);

/* Returns the best number of groups into which to split rows of different sequences, each with its own step, so that
 * all parts are busy. 1 for a plan in one part, or without a schedule for rows of several sequences. */
uint32_t dop_step_groups(const dop_model *model, uint32_t n_rows);
/* For plans in parts: starts a step of rows, and returns when this part has finished its share. Its sequences must be
 * in no other started step, and all their tokens must be in their states. A single sequence may run a chunk of a
 * prompt, in which only the last row may request a result. Up to dop_step_groups steps may be in flight. Meanwhile,
 * steps may be started and finished; sequences in none of them may be rewound, copied, given a mask, and given cached
 * tokens. Nothing else is allowed. */
dop_status dop_step_start(dop_model *model, const dop_step_row *rows, uint32_t n_rows, dop_diag *diag);
/* Waits for the oldest started step, and makes it the open step, as after dop_step_run. */
dop_status dop_step_end(dop_model *model, dop_diag *diag);

#endif
