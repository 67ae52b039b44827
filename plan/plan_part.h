/* Plans in parts: the directory of a file of several parts, and the checks of crossings. */
#ifndef DOPPLER_PLAN_PLAN_PART_H
#define DOPPLER_PLAN_PLAN_PART_H

#include "plan/plan.h"

/* Computes the digest of the directory: the header, with its digest field zero, and the rows. */
uint64_t dop_plan_set_digest(const dop_plan_set_header *header, const dop_plan_set_row *rows);
/* Sets data and size of a mapped plan to those of the part, if the file has several.  Fails if it has another number of parts. */
dop_status dop_plan_find_part(dop_plan *plan, uint32_t n_parts, uint32_t part, dop_diag *diag);
/* Fails unless the open plan is that part of n_parts. */
dop_status dop_plan_is_part(const dop_plan *plan, uint32_t n_parts, uint32_t part, dop_diag *diag);
/* Returns the number of parts of the plan at `path` without opening it.  1 if no file is readable; 0 if a part's file does not state
 * it, for example because it is truncated. */
uint32_t dop_plan_count_parts(const char *path);
/* True if the file begins with the magic of a file of several parts. */
bool dop_plan_is_set(const char *path);
/* Fails: the part cannot run without the others. */
dop_status dop_plan_wants_ranks(const char *path, uint32_t n_parts, dop_diag *diag);
/* Checks part and crossing rows against plan_format.h. */
dop_status dop_plan_check_part(const dop_plan *plan, dop_diag *diag);

#endif
