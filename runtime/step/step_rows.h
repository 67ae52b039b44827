/* Steps of rows that the caller gives, and later commits or rolls back (step_ahead.c). */
#ifndef DOPPLER_RUNTIME_STEP_STEP_ROWS_H
#define DOPPLER_RUNTIME_STEP_STEP_ROWS_H

#include <doppler/doppler.h>

/* Allocates memory that steps need later, once schedules are known. */
dop_status dop_step_prepare_model(dop_model *model, dop_diag *diag);

/* The best number of groups, with a step for each, in which to run rows of different sequences so that all parts are busy; 1
 * for a plan in one part, or without a schedule for rows of several sequences. */
uint32_t dop_step_groups(const dop_model *model, uint32_t n_rows);
/* For plans in parts: starts a step of rows of sequences that are in no other started step and whose tokens are all in their
 * states.  With one sequence it may be a chunk of a prompt, of which only the last row may want something.  Returns when this part
 * has done its share.  Up to dop_step_groups may be in flight.  Meanwhile sequences that are in none of them may be rewound,
 * copied, given a mask, and given cached tokens; apart from that, steps may only be started and finished. */
dop_status dop_step_start(dop_model *model, const dop_step_row *rows, uint32_t n_rows, dop_diag *diag);
/* The oldest started step becomes the open step, as after dop_step_run. */
dop_status dop_step_end(dop_model *model, dop_diag *diag);

#endif
