/* Functions of unit.c. */
#ifndef DOPPLER_IR_GRAPH_UNIT_H
#define DOPPLER_IR_GRAPH_UNIT_H

#include "ir/graph/graph.h"

/* The unit of one node: heads for [T,H,D], else the row; a statistic has the unit of its source, a cache write that of the
 * value it writes. */
dop_unit dop_node_unit(const dop_graph *g, dop_node_id id);

#endif
