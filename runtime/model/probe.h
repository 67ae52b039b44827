/* Probes: is an ordering right, and is it faster than barriers? */
#ifndef DOPPLER_RUNTIME_MODEL_PROBE_H
#define DOPPLER_RUNTIME_MODEL_PROBE_H

#include "runtime/model/model.h"

/* Compares one ordering with barriers from pos on, with the probe's own rows, step record, states and mailboxes. */
dop_status dop_probe_run(dop_model *model, uint32_t other, uint32_t pos, dop_diag *diag, dop_probe_result *out);
/* The same for two schedules of rows, with as many rows of one sequence as they hold, from position 0 on. */
dop_status dop_probe_rows(dop_model *model, uint32_t barriers, uint32_t other, dop_diag *diag, dop_probe_result *out);

#endif
