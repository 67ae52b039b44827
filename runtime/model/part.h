/* Inputs and outputs of a model that is one part of several (the end of plan_format.h).
 *
 * A part runs steps like any other model: it fills the row table, then calls dop_step_finish, or submits and waits. The
 * caller puts input rows where dop_part_inputs says before submission, and reads output rows where dop_part_outputs
 * says after the wait. All schedules share that memory, so only one step at a time can use it. */
#ifndef DOPPLER_RUNTIME_MODEL_PART_H
#define DOPPLER_RUNTIME_MODEL_PART_H

#include "runtime/model/model.h"

typedef struct dop_part_value {
    const char *name; /* name of the value in the IR; owned by the plan */
    uint8_t *bytes;   /* mapped; row t of the step begins at t * row_bytes */
    uint32_t slot;    /* slot of the plan with the value, at byte `offset` */
    uint64_t offset;
    uint64_t row_bytes; /* bytes of a row */
    bool one_row;       /* true if the value always has one row; otherwise it has one per row of the step */
    uint32_t type;      /* row of base/storage/types.def */
} dop_part_value;

/* List the inputs or outputs of a schedule, and return their number. Part 0 has no inputs and the last part no outputs.
 * The outputs of a part equal the inputs of the next, in the same order, for the schedule with the same kind and
 * max_rows. An output may be a forwarded input. Pointers are valid until the model is closed. */
uint32_t dop_part_inputs(const dop_model *model, uint32_t schedule, dop_part_value out_values[DOP_PART_MAX_VALUES]);
uint32_t dop_part_outputs(const dop_model *model, uint32_t schedule, dop_part_value out_values[DOP_PART_MAX_VALUES]);

/* True if the model is a part that makes no logits and no picks. */
bool dop_part_is_inner(const dop_model *model);

#endif
