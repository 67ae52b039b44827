/* Rebuilding a graph with some nodes replaced: handles stay in topological order without insertion. */
#ifndef DOPPLER_PASSES_REWRITE_H
#define DOPPLER_PASSES_REWRITE_H

#include "passes/pass.h"

typedef struct dop_rewrite {
    dop_pass_ctx *cx;
    const dop_graph *from;
    dop_graph to;
    dop_node_id *map; /* [from->n_nodes] -> node of `to` */
    bool changed;
    void *user;
} dop_rewrite;

/* Makes the replacement of `old` in rw->to and sets *out_id, or leaves it 0 to have the node copied.  Sources are
 * mapped with rw->map. */
typedef dop_status (*dop_rewrite_fn)(dop_rewrite *rw, dop_node_id old, dop_node_id *out_id);

/* Applies fn to every node in order and replaces *g when anything changed.  Regions are dropped.  user: rw->user, for fn. */
dop_status dop_rewrite_graph(dop_pass_ctx *cx, dop_graph *g, dop_rewrite_fn fn, void *user, bool *changed);

/* Adds a node to rw->to named "<base>.<suffix>" (or base when suffix is NULL) with the label of `old`. */
dop_status dop_rewrite_add(dop_rewrite *rw, dop_node_id old, const char *suffix, dop_op op, const dop_node_id *srcs,
                           uint32_t n_srcs, const dop_attr *attrs, const dop_want *want, dop_node_id *out_id);

#endif
