/* Making a graph: its nodes, one after the other, and its outputs.  graph_regions.c makes its regions. */
#ifndef DOPPLER_IR_GRAPH_GRAPH_ADD_H
#define DOPPLER_IR_GRAPH_GRAPH_ADD_H

#include "ir/graph/graph.h"

/* Everything is allocated in `arena`, which outlives the graph. */
dop_status dop_graph_init(dop_graph *g, dop_arena *arena, const char *name, uint32_t max_t, uint32_t max_s,
                          dop_diag *diag);
/* Starts an empty graph with the name and the dimensions of graph `from`. */
dop_status dop_graph_init_like(dop_graph *g, dop_arena *arena, const dop_graph *from, dop_diag *diag);
/* Starts a graph without dimensions, and declares one, whose bound is at least 1.  A name is a capital letter and up to 7 letters
 * or digits; T, S and Q have their numbers, and R is no name.  Errors: a bad or second name, too many. */
dop_status dop_graph_open(dop_graph *g, dop_arena *arena, const char *name, dop_diag *diag);
dop_status dop_graph_declare(dop_graph *g, const char *name, uint32_t bound, dop_diag *diag);
/* The number of a dimension by its name of n bytes; DOP_SYM_1: the graph has none. */
dop_sym dop_graph_dim(const dop_graph *g, const char *name, size_t n);
dop_status dop_graph_add(dop_graph *g, dop_op op, const char *name, const dop_node_id *srcs, uint32_t n_srcs,
                         const dop_attr *attrs, const dop_want *want, dop_diag *diag, dop_node_id *out_id);
dop_status dop_graph_output(dop_graph *g, dop_node_id id, dop_diag *diag);

#endif
