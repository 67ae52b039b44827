/* Names, sizes and lookups of an open plan. */
#ifndef DOPPLER_PLAN_PLAN_NAMES_H
#define DOPPLER_PLAN_PLAN_NAMES_H

#include "plan/plan.h"

/* Returns the number of rows of logits or hidden states that a schedule returns. */
uint32_t dop_plan_logit_rows(const dop_plan_schedule *schedule);
/* Return the bytes of one row of logits or hidden states (in whichever part computes it), and of all rows that this plan computes. */
uint64_t dop_plan_result_row_bytes(const dop_plan *plan, const dop_plan_schedule *schedule);
uint64_t dop_plan_result_bytes(const dop_plan *plan, const dop_plan_schedule *schedule);

/* Returns the program whose schedules have this kind; NULL: none. */
const dop_plan_program *dop_plan_program_of(const dop_plan *plan, uint32_t kind);
/* True if a crossing delivers image features to steps of sequences (only rows with feature ids use it). */
bool dop_plan_is_of_features(const dop_plan *plan, const dop_plan_crossing *crossing);
/* True if the plan has schedules that advance sequences. */
bool dop_plan_steps(const dop_plan *plan);

/* Returns the number of cache pages of a full sequence; 0 if states are contiguous. */
uint32_t dop_plan_sequence_pages(const dop_plan *plan);
/* Returns the bytes of the step record, including page tables, masks and sampling parameters. */
uint64_t dop_plan_step_bytes(const dop_plan *plan);
/* Returns the byte offset in the step record of the mask of sequence `place`. */
uint64_t dop_plan_mask_offset(const dop_plan *plan, uint32_t place);
/* Returns the byte offset in the step record of the sampling parameters (dop_row_way) of sequence `place`. */
uint64_t dop_plan_way_offset(const dop_plan *plan, uint32_t place);

/* Returns a string of the plan.  Offsets in rows of an open plan are always valid. */
const char *dop_plan_string(const dop_plan *plan, uint32_t offset);

/* Returns "barriers" or "persistent" for DOP_ORDER_*. */
const char *dop_plan_ordering_name(uint32_t ordering);
/* True if the profile has a decode schedule with this DOP_ORDER_*. */
bool dop_plan_decodes(const dop_plan *plan, uint32_t profile, uint32_t ordering);

#endif
