/* Adds and drops regions of a graph, which keeps the regions' analyses up to date; and counts how often a region stores each output. */
#ifndef DOPPLER_IR_REGION_GRAPH_REGIONS_H
#define DOPPLER_IR_REGION_GRAPH_REGIONS_H

#include "ir/graph/graph.h"

/* A region over these nodes, described (region.h). */
dop_status dop_graph_add_region(dop_graph *g, dop_template tpl, const dop_node_id *nodes, uint32_t n_nodes,
                                const dop_node_id *outs, uint32_t n_outs, dop_diag *diag, dop_region_id *out_id);

/* Rows of what the region stores for each row of the step; at least 1. */
uint32_t dop_region_row_multiple(const dop_graph *g, const dop_region *r);
/* The graph as kernels of the region see it, whose dimension T counts the rows of what the region stores: g, or a copy with another
 * bound. */
const dop_graph *dop_graph_by_rows(const dop_graph *g, const dop_region *r, dop_graph *out_copy);
/* Drops dead regions and unreachable nodes, keeping order.  A node whose sources were replaced by later nodes moves
 * behind them, so a pass may rewrite freely and compact afterwards; ids change.  Error: a cycle. */
dop_status dop_graph_compact(dop_graph *g, dop_diag *diag);

#endif
