/* Plans that are a part of a model: the directory of a file of several, and the rows that say what crosses. */
#ifndef DOPPLER_PLAN_PLAN_PART_H
#define DOPPLER_PLAN_PLAN_PART_H

#include "plan/plan.h"

/* The digest that the header of a file of several parts must have. */
uint64_t dop_plan_set_digest(const dop_plan_set_header *header, const dop_plan_set_row *rows);
/* For a plan that is only mapped: sets data and size to those of the part, where the file has several.  Fails for a file with
 * another number of parts. */
dop_status dop_plan_find_part(dop_plan *plan, uint32_t n_parts, uint32_t part, dop_diag *diag);
/* Fails if the open plan is not that part. */
dop_status dop_plan_is_part(const dop_plan *plan, uint32_t n_parts, uint32_t part, dop_diag *diag);
/* Number of parts of the plan whose file or files have this name, without opening it: 1 where there is no readable file; 0 where
 * a file for a part does not tell, for example because it is cut short. */
uint32_t dop_plan_count_parts(const char *path);
/* Does a file of this name begin like one of several parts? */
bool dop_plan_is_set(const char *path);
/* The error for a part that is to be run without the others. */
dop_status dop_plan_wants_ranks(const char *path, uint32_t n_parts, dop_diag *diag);
/* Checks the rows that describe parts against plan_format.h. */
dop_status dop_plan_check_part(const dop_plan *plan, dop_diag *diag);

#endif
