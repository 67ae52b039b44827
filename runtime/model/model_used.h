/* Table of the schedules that a model uses, with their kernels and slots. */
#ifndef DOPPLER_RUNTIME_MODEL_MODEL_USED_H
#define DOPPLER_RUNTIME_MODEL_MODEL_USED_H

#include "runtime/model/model.h"

/* Allocates an empty table. Free it with free(out_used->schedules). */
dop_status dop_used_init(const dop_plan *plan, dop_diag *diag, dop_used *out_used);
/* Adds a schedule that is not in the table yet, with its kernels and slots. */
void dop_used_add(const dop_plan *plan, uint32_t schedule, dop_used *out);
/* Adds the schedules of a profile. orderings: bits 1 << DOP_ORDER_*; scoring: include those that score and embed. */
void dop_used_add_profile(const dop_plan *plan, uint32_t profile, uint32_t orderings, bool scoring, dop_used *out);
/* Returns the schedules of a kind and ordering, [*out_n], fewest rows first. */
const uint32_t *dop_used_of(const dop_used *used, uint32_t kind, uint32_t ordering, uint32_t *out_n);
/* Returns the smallest schedule with barriers for at least n rows of `kind`; UINT32_MAX: none. For one row of a kind
 * that gives logits this is the decode schedule. */
uint32_t dop_model_schedule_for(const dop_model *model, uint32_t kind, uint32_t n);
/* Returns the schedule of this kind, with barriers, for exactly max_rows rows; UINT32_MAX: none. */
uint32_t dop_model_schedule_of(const dop_model *model, uint32_t kind, uint32_t max_rows);
/* Returns the variant of a schedule for rows with adapters, of the same ordering or else with barriers. Returns
 * `schedule` if there is none. */
uint32_t dop_model_schedule_adapted(const dop_model *model, uint32_t schedule);

#endif
