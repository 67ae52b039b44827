/* Adds and drops regions of a graph and keeps their analyses up to date. */
#ifndef DOPPLER_IR_REGION_GRAPH_REGIONS_H
#define DOPPLER_IR_REGION_GRAPH_REGIONS_H

#include "ir/graph/graph.h"

/* Adds a region over these nodes and analyses it (region.h). */
dop_status dop_graph_add_region(dop_graph *g, dop_template tpl, const dop_node_id *nodes, uint32_t n_nodes,
                                const dop_node_id *outs, uint32_t n_outs, dop_diag *diag, dop_region_id *out_id);

/* Returns the maximum number of rows that the region stores for each row of the step; at least 1. */
uint32_t dop_region_row_multiple(const dop_graph *g, const dop_region *r);
/* Returns the graph in which T counts the rows that the region stores, as its kernels do: g itself, or *out_copy with a larger
 * bound. */
const dop_graph *dop_graph_by_rows(const dop_graph *g, const dop_region *r, dop_graph *out_copy);
/* Drops dead regions and unreachable nodes, keeping order.  A node whose sources were replaced by later nodes moves after them,
 * so passes may rewrite in any order and compact afterwards.  Node ids change.  Error: a cycle. */
dop_status dop_graph_compact(dop_graph *g, dop_diag *diag);

#endif
