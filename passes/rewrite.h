/* Rebuilds a graph with some nodes replaced.  Handles stay in topological order, since nodes are only appended. */
#ifndef DOPPLER_PASSES_REWRITE_H
#define DOPPLER_PASSES_REWRITE_H

#include "passes/pass.h"

typedef struct dop_rewrite {
    dop_pass_ctx *cx;
    const dop_graph *from;
    dop_graph to;
    dop_node_id *map; /* [from->n_nodes] corresponding node of `to` */
    bool changed;
    void *user;
} dop_rewrite;

/* Adds the replacement of `old` to rw->to and sets *out_id, or leaves it 0 to have the node copied.  Sources must be mapped with
 * rw->map. */
typedef dop_status (*dop_rewrite_fn)(dop_rewrite *rw, dop_node_id old, dop_node_id *out_id);

/* Applies fn to every node in order.  If anything changed, replaces *g and drops its regions.  user: passed to fn as rw->user. */
dop_status dop_rewrite_graph(dop_pass_ctx *cx, dop_graph *g, dop_rewrite_fn fn, void *user, bool *changed);

/* Adds a node to rw->to, named "<base>.<suffix>" (without suffix if NULL) after `old`, with its label and origin. */
dop_status dop_rewrite_add(dop_rewrite *rw, dop_node_id old, const char *suffix, dop_op op, const dop_node_id *srcs,
                           uint32_t n_srcs, const dop_attr *attrs, const dop_want *want, dop_node_id *out_id);

#endif
