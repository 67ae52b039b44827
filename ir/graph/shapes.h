/* Shape, type and attribute rules of every op, shared by dop_graph_add() and the verifier.  Internal to ir/. */
#ifndef DOPPLER_IR_GRAPH_SHAPES_H
#define DOPPLER_IR_GRAPH_SHAPES_H

#include "ir/graph/graph.h"

enum { DOP_SHAPE_TEXT = 96 }; /* bytes that fit the text of any shape */

/* Formats a shape as "[T,32,128]".  An axis prints as 7, T, 4T or S. */
const char *dop_shape_text(const dop_graph *g, const dop_shape *s, char out_text[DOP_SHAPE_TEXT]);

/* True if these n bytes are a valid name of a dimension: a capital letter and up to 7 letters or digits, but not R alone. */
bool dop_dim_name_ok(const char *name, size_t n);

/* Computes type and shape of the node that the op makes from these sources. srcs must be valid ids; `want` is as for
 * dop_graph_add(); `name` is for messages.  Errors: wrong arity, attributes out of range, types or shapes that do not fit.  All
 * are DOP_E_INTERNAL, since a correct compiler never causes them; the parser turns them into DOP_E_INPUT. */
dop_status dop_shape_infer(const dop_graph *g, dop_op op, const char *name, const dop_node_id *srcs, uint32_t n_srcs,
                           const dop_attr *attrs, const dop_want *want, dop_diag *diag, dop_want *out);

/* True for names that can be printed and parsed back: 1 to 200 characters of A-Z a-z 0-9 _ . - and slash. */
bool dop_name_ok(const char *s);

/* Returns the product of the multipliers, and counts the axes of each symbol.  Cannot overflow: every factor is far below 2^32,
 * and ranks are small. */
uint64_t dop_shape_product(const dop_shape *s, uint32_t out_n_sym[DOP_N_SYMS]);

#endif
