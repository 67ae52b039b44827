/* Reductions, the same for all kernels: what an invocation adds up by itself, and how invocations add up their shares. */
#ifndef DOPPLER_KERNELS_NEST_REDUCE_H
#define DOPPLER_KERNELS_NEST_REDUCE_H

#include "kernels/nest/nest.h"

typedef enum dop_reduction { DOP_REDUCE_sum, DOP_REDUCE_squares, DOP_REDUCE_most } dop_reduction;

/* How far a reduction reaches: an invocation alone; the lanes of a subgroup; the workgroup; or the workgroup in an own sum, the first
 * or the second of a stage (dop_own_sum of common.glsl). */
typedef enum dop_reduce_by { DOP_BY_alone, DOP_BY_lanes, DOP_BY_workgroup, DOP_BY_own } dop_reduce_by;

/* Declares the invocation's share, as the result of no value. */
void dop_reduce_begin(dop_nest *n, dop_reduction r, const char *name);
/* The statement, without its semicolon, that adds a value of `width` 1 or 4. */
const char *dop_reduce_add(dop_nest *n, dop_reduction r, const char *name, const char *value, uint32_t width);
/* The expression of the result, from every invocation's share. */
const char *dop_reduce_all(dop_nest *n, dop_reduction r, dop_reduce_by by, const char *name);
/* Notes in a statement with such an expression what it means for the invocations. */
void dop_reduce_note(dop_stmt *s, dop_reduce_by by);

#endif
