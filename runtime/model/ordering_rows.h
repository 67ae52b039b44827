/* Chooses the ordering of steps with a few rows of several sequences: barriers, or a persistent dispatch if a probe
 * found it correct and faster. */
#ifndef DOPPLER_RUNTIME_MODEL_ORDERING_ROWS_H
#define DOPPLER_RUNTIME_MODEL_ORDERING_ROWS_H

#include <doppler/doppler.h>

/* Finds the persistent variants of multi-row schedules, after loading. They are probed before use unless `wanted`
 * requests them. */
void dop_model_find_rows_orders(dop_model *model, dop_ordering wanted);
/* Returns the schedule to run in place of `schedule`, which has barriers. The first call for a size runs a probe.
 * Nothing may be in flight. */
dop_status dop_model_order_rows(dop_model *model, uint32_t schedule, dop_diag *diag, uint32_t *out_schedule);

#endif
