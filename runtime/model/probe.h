/* Probes: test whether an ordering is correct, and faster than barriers. */
#ifndef DOPPLER_RUNTIME_MODEL_PROBE_H
#define DOPPLER_RUNTIME_MODEL_PROBE_H

#include "runtime/model/model.h"

/* Compares one ordering with barriers from pos on, using separate rows, step record, states and mailboxes. */
dop_status dop_probe_run(dop_model *model, uint32_t other, uint32_t pos, dop_diag *diag, dop_probe_result *out);
/* Compares two multi-row schedules, with max_rows rows of one sequence, from position 0 on. */
dop_status dop_probe_rows(dop_model *model, uint32_t barriers, uint32_t other, dop_diag *diag, dop_probe_result *out);

#endif
