/* Functions of axes and shapes alone, which the graph and the shape rules share. */
#ifndef DOPPLER_IR_GRAPH_DIMS_H
#define DOPPLER_IR_GRAPH_DIMS_H

#include "ir/graph/graph.h"

/* Number of leading axes that make the rows of a value of this shape: the symbolic dimensions in front, at least one axis. */
uint32_t dop_shape_row_axes(const dop_shape *s);
/* Is a value of this shape a matrix to kernels: has it a symbolic dimension on axis 0 only, or is it append state? */
bool dop_shape_is_rows(const dop_shape *s);
/* A value as a matrix [rows, cols]: rows are the axes in front that are dimensions (1 for a rank-1 weight vector that broadcasts),
 * cols the product of the others (of append state, what one position has).  `t` replaces T, others have their bounds. */
uint64_t dop_dim_value(const dop_graph *g, dop_dim d, uint32_t t);
/* Is a state of this shape append state?  That has an axis of positions, S or a ring; replace state has none. */
bool dop_shape_appends(const dop_shape *s);
/* May a state of this shape be stored in blocks of this type? */
bool dop_shape_blocks(const dop_shape *s, dop_type type);
bool dop_shape_equal(const dop_shape *a, const dop_shape *b);

#endif
