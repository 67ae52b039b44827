/* A model that is one part of several (the end of plan_format.h): what it receives before a step and sends after it.
 *
 * A step of a part is a step like any other: the same row table, dop_step_finish or a submission and a wait.  Before it
 * is submitted, the rows of its inputs must be where dop_part_inputs says; after the wait, those of its outputs are where
 * dop_part_outputs says.  All schedules share that memory, so only one step at a time can use it. */
#ifndef DOPPLER_RUNTIME_MODEL_PART_H
#define DOPPLER_RUNTIME_MODEL_PART_H

#include "runtime/model/model.h"

typedef struct dop_part_value {
    const char *name; /* of the IR; the plan's */
    uint8_t *bytes;   /* mapped; row t of the step at t * row_bytes */
    uint32_t slot;    /* of the plan: where kernels have it, from byte `offset` on */
    uint64_t offset;
    uint64_t row_bytes; /* bytes of a row */
    bool one_row;       /* the value always has one row; else one for each row of the step */
    uint32_t type;      /* row of base/storage/types.def */
} dop_part_value;

/* Values of a schedule (row of the plan), and how many: none into part 0 and out of the last one.  The outputs of a
 * part and the inputs of the next, of the schedule with the same kind and max_rows, are the same values in the same
 * order.  An output may be an input that is forwarded.  Pointers stay valid until the model is closed. */
uint32_t dop_part_inputs(const dop_model *model, uint32_t schedule, dop_part_value out_values[DOP_PART_MAX_VALUES]);
uint32_t dop_part_outputs(const dop_model *model, uint32_t schedule, dop_part_value out_values[DOP_PART_MAX_VALUES]);

/* Is the model a part that makes no logits and no picks? */
bool dop_part_is_inner(const dop_model *model);

#endif
