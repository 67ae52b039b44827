/* Reductions, shared by all kernels: accumulation in an invocation, and reduction across invocations. */
#ifndef DOPPLER_KERNELS_NEST_REDUCE_H
#define DOPPLER_KERNELS_NEST_REDUCE_H

#include "kernels/nest/nest.h"

typedef enum dop_reduction { DOP_REDUCE_sum, DOP_REDUCE_squares, DOP_REDUCE_most } dop_reduction;

/* Scope of a reduction: one invocation; the lanes of a subgroup; the workgroup; or the workgroup by an own sum, the first or
 * second of a stage (dop_own_sum of common.glsl). */
typedef enum dop_reduce_by { DOP_BY_alone, DOP_BY_lanes, DOP_BY_workgroup, DOP_BY_own } dop_reduce_by;

/* Declares the invocation's partial result, initialized to the neutral element. */
void dop_reduce_begin(dop_nest *n, dop_reduction r, const char *name);
/* Returns the statement, without its semicolon, that accumulates a value of `width` 1 or 4. */
const char *dop_reduce_add(dop_nest *n, dop_reduction r, const char *name, const char *value, uint32_t width);
/* Returns the expression that reduces the partial results of all invocations. */
const char *dop_reduce_all(dop_nest *n, dop_reduction r, dop_reduce_by by, const char *name);
/* Marks a statement with such an expression as containing a barrier, if it has one. */
void dop_reduce_note(dop_stmt *s, dop_reduce_by by);

#endif
