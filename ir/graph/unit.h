/* The vector that a node's row program iterates over. */
#ifndef DOPPLER_IR_GRAPH_UNIT_H
#define DOPPLER_IR_GRAPH_UNIT_H

#include "ir/graph/graph.h"

/* Returns the unit of one node: a head for [T,H,D], otherwise the row.  A statistic has the unit of its source, and a cache write
 * the unit of the written value. */
dop_unit dop_node_unit(const dop_graph *g, dop_node_id id);

#endif
