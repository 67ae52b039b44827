#include "ir/graph/unit.h"
#include "ir/graph/graph.h"

dop_unit
dop_node_unit(const dop_graph *g, dop_node_id id)
{
    const dop_node *n = dop_node_at(g, id);
    if (dop_node_is(g, id, DOP_STATISTIC))
        return dop_node_unit(g, n->src[0]);
    if (dop_node_is(g, id, DOP_EFFECT))
        return dop_node_unit(g, dop_node_space(g, id));
    if (n->shape.rank >= 3)
        return (dop_unit){n->shape.dim[n->shape.rank - 1].mul,
                          dop_node_cols(g, id) / n->shape.dim[n->shape.rank - 1].mul};
    return (dop_unit){dop_node_cols(g, id), 1};
}
