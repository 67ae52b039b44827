/* Location of a plan's weights: in the plan, in a separate file, or in ranges of the model's own files. */
#ifndef DOPPLER_PLAN_PLAN_RANGES_H
#define DOPPLER_PLAN_PLAN_RANGES_H

#include "plan/plan.h"

/* Returns a pointer to a WEIGHTS slot's bytes at `offset`; *out_size is the number of contiguous bytes.  Unquantized tensors are
 * contiguous as a whole.  NULL: the bytes are packed from blocks at load; use dop_plan_copy_slot. */
const uint8_t *dop_plan_slot_bytes(const dop_plan *plan, uint32_t slot, uint64_t offset, uint64_t *out_size);
/* Copies bytes offset .. offset + size - 1 of a WEIGHTS slot. */
void dop_plan_copy_slot(const dop_plan *plan, uint32_t slot, uint64_t offset, uint64_t size, uint8_t *out);
/* Returns the bytes of a model file that a range reads; 0 for GROUPS, which share the bytes of their UNITS. */
uint64_t dop_plan_range_bytes(const dop_plan_range *range);
/* Checks the rows of DOP_SEC_RANGES.  Slots, files and tensors must have been checked. */
dop_status dop_plan_check_ranges(const dop_plan *plan, dop_diag *diag);

/* Verifies the digests of all weights: embedded, external and in model files.  Reads all of them; stop: as in plan_weights.h. */
dop_status dop_plan_verify_weights(const dop_plan *plan, const _Atomic bool *stop, dop_diag *diag);

#endif
