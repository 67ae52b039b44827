/* Reductions, the same for all kernels: what an invocation adds up by itself, and how the invocations of a team meet. */
#ifndef DOPPLER_KERNELS_NEST_REDUCE_H
#define DOPPLER_KERNELS_NEST_REDUCE_H

#include "kernels/nest/nest.h"

typedef enum dop_reduction { DOP_REDUCE_sum, DOP_REDUCE_squares, DOP_REDUCE_most } dop_reduction;

/* Who adds up: an invocation alone; the lanes of a subgroup; the workgroup; or the workgroup in an own sum, the first or the second
 * of a stage (dop_own_sum of common.glsl). */
typedef enum dop_team { DOP_TEAM_alone, DOP_TEAM_lanes, DOP_TEAM_workgroup, DOP_TEAM_own } dop_team;

/* Declares the invocation's share, as the result of no value. */
void dop_reduce_begin(dop_nest *n, dop_reduction r, const char *name);
/* The statement, without its semicolon, that adds a value of `width` 1 or 4. */
const char *dop_reduce_add(dop_nest *n, dop_reduction r, const char *name, const char *value, uint32_t width);
/* The expression of the team's result, from every invocation's share. */
const char *dop_reduce_all(dop_nest *n, dop_reduction r, dop_team team, const char *name);
/* Notes in a statement with such an expression what it means for the invocations. */
void dop_reduce_meet(dop_stmt *s, dop_team team);

#endif
