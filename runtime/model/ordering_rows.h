/* The ordering of steps of a few rows of several sequences: barriers, or a persistent dispatch where a probe has found that its logits are right and that it is faster. */
#ifndef DOPPLER_RUNTIME_MODEL_ORDERING_ROWS_H
#define DOPPLER_RUNTIME_MODEL_ORDERING_ROWS_H

#include <doppler/doppler.h>

/* After loading: finds the persistent forms of schedules of rows, which probes are to judge unless they are wanted. */
void dop_model_find_rows_orders(dop_model *model, dop_ordering wanted);
/* Which schedule to run for a step that `schedule`, of rows and ordered by barriers, holds; the first time a probe decides.
 * Nothing may be in flight. */
dop_status dop_model_order_rows(dop_model *model, uint32_t schedule, dop_diag *diag, uint32_t *out_schedule);

#endif
