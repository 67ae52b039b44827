/* Where the weights of a plan are: in the plan, in a file beside it, or in ranges of the model's own files. */
#ifndef DOPPLER_PLAN_PLAN_RANGES_H
#define DOPPLER_PLAN_PLAN_RANGES_H

#include "plan/plan.h"

/* Finds the bytes of a WEIGHTS slot from `offset` on.  *out_size: how many follow each other there; all of a tensor of no quantized type
 * that begins at the offset do.  NULL: they are made of blocks of a file, and can only be copied. */
const uint8_t *dop_plan_slot_bytes(const dop_plan *plan, uint32_t slot, uint64_t offset, uint64_t *out_size);
/* Copies bytes offset .. offset + size - 1 of a WEIGHTS slot. */
void dop_plan_copy_slot(const dop_plan *plan, uint32_t slot, uint64_t offset, uint64_t size, uint8_t *out);
/* Bytes of a model's file that a row of DOP_SEC_RANGES reads; 0 for groups, which are made of the same bytes as their units. */
uint64_t dop_plan_range_bytes(const dop_plan_range *range);
/* Checks the rows of DOP_SEC_RANGES; those of slots, files and tensors are sound. */
dop_status dop_plan_check_ranges(const dop_plan *plan, dop_diag *diag);

/* Checks the digests of the weights, embedded, external and in the model's files.  Reads all of them; stop as in plan_weights.h. */
dop_status dop_plan_verify_weights(const dop_plan *plan, const _Atomic bool *stop, dop_diag *diag);

#endif
