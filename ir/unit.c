#include "ir/graph.h"

dop_unit
dop_node_unit(const dop_graph *g, dop_node_id id)
{
    const dop_node *n = dop_node_at(g, id);
    switch (n->op) {
    case DOP_OP_row_rms:
    case DOP_OP_row_mean:
    case DOP_OP_row_istd:
        return dop_node_unit(g, n->src[0]);
    case DOP_OP_state_write:
        return dop_node_unit(g, n->src[1]);
    default:
        break;
    }
    if (n->shape.rank >= 3)
        return (dop_unit){n->shape.dim[n->shape.rank - 1].mul,
                          dop_node_cols(g, id) / n->shape.dim[n->shape.rank - 1].mul};
    return (dop_unit){dop_node_cols(g, id), 1};
}
