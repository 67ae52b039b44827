/* Functions of plan_names.c. */
#ifndef DOPPLER_PLAN_PLAN_NAMES_H
#define DOPPLER_PLAN_PLAN_NAMES_H

#include "plan/plan.h"

/* Number of rows whose logits, or hidden states, a schedule gives. */
uint32_t dop_plan_logit_rows(const dop_plan_schedule *schedule);
/* Bytes of one row of logits or hidden states, in whichever part it is computed, and of all rows that this plan computes. */
uint64_t dop_plan_result_row_bytes(const dop_plan *plan, const dop_plan_schedule *schedule);
uint64_t dop_plan_result_bytes(const dop_plan *plan, const dop_plan_schedule *schedule);

/* The program whose schedules are of this kind; NULL: the plan has none. */
const dop_plan_program *dop_plan_program_of(const dop_plan *plan, uint32_t kind);
/* Does a step of sequences receive the value, which is a long one, only for those of its rows that are features of pictures? */
bool dop_plan_is_of_features(const dop_plan *plan, const dop_plan_crossing *crossing);
/* Does the plan have schedules that advance sequences? */
bool dop_plan_steps(const dop_plan *plan);

/* Number of pages of a sequence that fills its context; 0: states are in one piece. */
uint32_t dop_plan_sequence_pages(const dop_plan *plan);
/* Bytes of the step record, tables of pages and masks included. */
uint64_t dop_plan_step_bytes(const dop_plan *plan);
/* Bytes from the step record to the mask of the sequence at a place. */
uint64_t dop_plan_mask_offset(const dop_plan *plan, uint32_t place);
/* Bytes from the step record to the dop_row_way of the sequence at a place. */
uint64_t dop_plan_way_offset(const dop_plan *plan, uint32_t place);

/* A string of the plan; every offset in a row of an open plan is valid. */
const char *dop_plan_string(const dop_plan *plan, uint32_t offset);

/* "barriers" or "persistent", of DOP_ORDER_*. */
const char *dop_plan_ordering_name(uint32_t ordering);
/* Does the profile have a decode schedule with this DOP_ORDER_*? */
bool dop_plan_decodes(const dop_plan *plan, uint32_t profile, uint32_t ordering);

#endif
