/* Shape, type and attribute rules of every op, shared by dop_graph_add() and the verifier.  Internal to ir/. */
#ifndef DOPPLER_IR_GRAPH_SHAPES_H
#define DOPPLER_IR_GRAPH_SHAPES_H

#include "ir/graph/graph.h"

enum { DOP_SHAPE_TEXT = 96 }; /* bytes that hold any shape's text */

/* "[T,32,128]"; an axis prints as 7, T, 4T or S. */
const char *dop_shape_text(const dop_graph *g, const dop_shape *s, char out_text[DOP_SHAPE_TEXT]);

/* May a dimension have this name of n bytes?  A capital letter and up to 7 letters or digits, but not R. */
bool dop_dim_name_ok(const char *name, size_t n);

/* What the op gives for these sources: type and shape of the new node.  srcs are valid ids.  `want` as for
 * dop_graph_add().  `name` is for messages.  Errors: wrong arity, attributes out of range, types or shapes that do not
 * fit; all DOP_E_INTERNAL, since a well-built compiler does not ask for them (the parser makes them DOP_E_INPUT). */
dop_status dop_shape_infer(const dop_graph *g, dop_op op, const char *name, const dop_node_id *srcs, uint32_t n_srcs,
                           const dop_attr *attrs, const dop_want *want, dop_diag *diag, dop_want *out);

/* True for names that print and parse back: 1 to 200 of A-Z a-z 0-9 _ . - and slash. */
bool dop_name_ok(const char *s);

/* Product of the multipliers, and how many axes have each symbol.  Every factor is far below 2^32, and ranks are small. */
uint64_t dop_shape_product(const dop_shape *s, uint32_t out_n_sym[DOP_N_SYMS]);

#endif
