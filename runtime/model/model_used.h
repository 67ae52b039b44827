/* The table of the schedules that a model uses, and their kernels and slots. */
#ifndef DOPPLER_RUNTIME_MODEL_MODEL_USED_H
#define DOPPLER_RUNTIME_MODEL_MODEL_USED_H

#include "runtime/model/model.h"

/* Allocates a struct in which nothing is used; free() its `schedules`. */
dop_status dop_used_init(const dop_plan *plan, dop_diag *diag, dop_used *out_used);
/* Adds a schedule that is not in the table yet, its kernels and its slots. */
void dop_used_add(const dop_plan *plan, uint32_t schedule, dop_used *out);
/* The schedules of a profile; orderings: bits 1 << DOP_ORDER_*; scoring: also those that score and embed. */
void dop_used_add_profile(const dop_plan *plan, uint32_t profile, uint32_t orderings, bool scoring, dop_used *out);
/* The schedules of a kind and an ordering, [*out_n], fewest rows first. */
const uint32_t *dop_used_of(const dop_used *used, uint32_t kind, uint32_t ordering, uint32_t *out_n);
/* Among those that are ordered by barriers: the smallest one for at least n rows as `kind`, where decode stands in for one row of
 * every kind that gives logits; UINT32_MAX: there is none. */
uint32_t dop_model_schedule_for(const dop_model *model, uint32_t kind, uint32_t n);
/* The one of that kind for exactly so many rows; UINT32_MAX: there is none. */
uint32_t dop_model_schedule_of(const dop_model *model, uint32_t kind, uint32_t max_rows);
/* The schedule that does for rows with adapters what this one does without: of its ordering, or ordered by barriers.  It itself: there is
 * no other. */
uint32_t dop_model_schedule_adapted(const dop_model *model, uint32_t schedule);

#endif
