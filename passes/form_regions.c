/* regions: one region per computed node, the starting point of fusion and the whole of --no-fuse.  The template follows
 * from what the node is and how many rows it has. */
#include "passes/region.h"

static dop_template
template_for(const dop_graph *g, dop_node_id id)
{
    const dop_node *n = dop_node_at(g, id);
    switch (n->op) {
    case DOP_OP_matmul:
        return dop_dim_value(g, n->shape.dim[0], g->max_t) == 1 ? DOP_TPL_gemv : DOP_TPL_matmul;
    case DOP_OP_attention:
    case DOP_OP_attn_split:
        return DOP_TPL_attention;
    case DOP_OP_argmax:
    case DOP_OP_argmax_part:
    case DOP_OP_argmax_merge:
        return DOP_TPL_argmax;
    case DOP_OP_rope:
    case DOP_OP_row_rms:
    case DOP_OP_row_mean:
    case DOP_OP_row_istd:
    case DOP_OP_rmsnorm:
    case DOP_OP_layernorm:
    case DOP_OP_softmax:
        return DOP_TPL_row;
    default:
        return DOP_TPL_elementwise;
    }
}

/* Kernels for experts are to come. */
static bool
has_template(const dop_graph *g, dop_node_id id)
{
    const dop_node *n = dop_node_at(g, id);
    switch (n->op) {
    case DOP_OP_top_k:
    case DOP_OP_pick:
    case DOP_OP_matmul_at:
    case DOP_OP_weighted_sum:
        return false;
    case DOP_OP_gather:
        return dop_node_at(g, n->src[1])->shape.rank == 1;
    default:
        return true;
    }
}

dop_status
dop_pass_form_regions(dop_pass_ctx *cx, dop_graph *g, bool *changed)
{
    g->n_regions = 1;
    for (dop_node_id id = 1; id < g->n_nodes; id++) {
        dop_region_id r;
        if (!dop_node_computed(g, id))
            continue;
        if (!has_template(g, id))
            return DOP_FAIL(cx->diag, DOP_E_INPUT, "no template makes %%%s (%s)", dop_node_at(g, id)->name,
                            dop_op_of(dop_node_at(g, id)->op)->name);
        dop_status st = dop_graph_add_region(g, template_for(g, id), &id, 1, &id, 1, cx->diag, &r);
        if (st != DOP_OK)
            return st;
        *changed = true;
    }
    dop_flow f = {0};
    dop_status st = dop_flow_update(g, cx->diag, &f);
    dop_flow_finish(&f);
    return st;
}
