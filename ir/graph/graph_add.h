/* Builds a graph: adds nodes one after the other, and outputs. graph_regions.c adds regions. */
#ifndef DOPPLER_IR_GRAPH_GRAPH_ADD_H
#define DOPPLER_IR_GRAPH_GRAPH_ADD_H

#include "ir/graph/graph.h"

/* Starts an empty graph with the dimensions T, S and Q.  Everything is allocated in `arena`, which must outlive the graph. */
dop_status dop_graph_init(dop_graph *g, dop_arena *arena, const char *name, uint32_t max_t, uint32_t max_s,
                          dop_diag *diag);
/* Starts an empty graph with the name and the dimensions of graph `from`. */
dop_status dop_graph_init_like(dop_graph *g, dop_arena *arena, const dop_graph *from, dop_diag *diag);
/* Starts a graph without dimensions; dop_graph_declare declares one with a bound >= 1.  A name is a capital letter and up to 7
 * letters or digits.  T, S and Q have fixed numbers, and R is reserved.  Errors: invalid or duplicate name, too many dimensions. */
dop_status dop_graph_open(dop_graph *g, dop_arena *arena, const char *name, dop_diag *diag);
dop_status dop_graph_declare(dop_graph *g, const char *name, uint32_t bound, dop_diag *diag);
/* Returns the dimension with this name of n bytes; DOP_SYM_1 if the graph has none. */
dop_sym dop_graph_dim(const dop_graph *g, const char *name, size_t n);
/* Appends a node, with type and shape from the op's shape rule.  Leaves, casts, reshapes and slices use the shape or type in
 * *want.  For other ops `want` may be NULL, and a want->type other than none sets the storage type.  attrs: values in the order
 * of the op's row; NULL if all are optional.  name: NULL generates one (x<number>).  Strings are copied.  Errors: wrong arity,
 * shapes that do not fit.  dop_graph_verify() checks for duplicate names and for states that are not threaded linearly. */
dop_status dop_graph_add(dop_graph *g, dop_op op, const char *name, const dop_node_id *srcs, uint32_t n_srcs,
                         const dop_attr *attrs, const dop_want *want, dop_diag *diag, dop_node_id *out_id);
/* Marks a node as a result of the graph.  Error: not a node. */
dop_status dop_graph_output(dop_graph *g, dop_node_id id, dop_diag *diag);

#endif
