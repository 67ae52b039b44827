/* Functions of axes and shapes, shared by the graph and the shape rules. */
#ifndef DOPPLER_IR_GRAPH_DIMS_H
#define DOPPLER_IR_GRAPH_DIMS_H

#include "ir/graph/graph.h"

/* Returns the number of leading axes that count rows: the leading symbolic dimensions, but at least one axis. */
uint32_t dop_shape_row_axes(const dop_shape *s);
/* True if kernels can treat a value of this shape as a matrix: only axis 0 is symbolic, or the value is append state. */
bool dop_shape_is_rows(const dop_shape *s);
/* Returns the length of an axis, with `t` for T and the bound of any other dimension. */
uint64_t dop_dim_value(const dop_graph *g, dop_dim d, uint32_t t);
/* True if a state of this shape is append state, which has an axis of positions (S or a ring).  Replace state has none. */
bool dop_shape_appends(const dop_shape *s);
/* True if a state of this shape can be stored in blocks of this type. */
bool dop_shape_blocks(const dop_shape *s, dop_type type);
bool dop_shape_equal(const dop_shape *a, const dop_shape *b);

#endif
