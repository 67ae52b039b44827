/* regions: makes one region per computed node, the starting point of fusion and the final result with --no-fuse.  The template
 * depends on the op and on its number of rows. */
#include "ir/graph/dims.h"
#include "ir/region/graph_regions.h"
#include "passes/fusion/region.h"

static dop_template
choose_template(const dop_graph *g, dop_node_id id)
{
    const dop_node *n = dop_node_at(g, id);
    switch (dop_node_root(g, id)) {
    case DOP_ROOT_product:
        if (dop_node_has_experts(g, id))
            return dop_dim_value(g, n->shape.dim[0], g->max_t) == 1 ? DOP_TPL_expert : DOP_TPL_expert_tiles;
        return dop_dim_value(g, n->shape.dim[0], g->max_t) == 1 ? DOP_TPL_gemv : DOP_TPL_matmul;
    case DOP_ROOT_attention:
        return DOP_TPL_attention;
    case DOP_ROOT_argmax:
        return DOP_TPL_argmax;
    case DOP_ROOT_scan:
        return DOP_TPL_scan;
    case DOP_ROOT_index:
        return DOP_TPL_index;
    case DOP_ROOT_positions:
        return DOP_TPL_positions;
    case DOP_ROOT_group:
        return DOP_TPL_group;
    case DOP_ROOT_moments:
        return DOP_TPL_moments;
    case DOP_ROOT_choice:
        return DOP_TPL_choice;
    case DOP_ROOT_row:
        return DOP_TPL_row;
    default:
        return DOP_TPL_elementwise;
    }
}

dop_status
dop_pass_form_regions(dop_pass_ctx *cx, dop_graph *g, bool *changed)
{
    const uint64_t before = dop_graph_hash(g); /* an earlier run may have formed regions */
    g->n_regions = 1;
    for (dop_node_id id = 1; id < g->n_nodes; id++) {
        dop_region_id r;
        if (!dop_node_computed(g, id))
            continue;
        if (dop_op_of(dop_node_at(g, id)->op)->root == DOP_ROOT_none)
            return DOP_FAIL(cx->diag, DOP_E_INPUT, "no template makes %%%s (%s)", dop_node_at(g, id)->name,
                            dop_op_of(dop_node_at(g, id)->op)->name);
        dop_status st = dop_graph_add_region(g, choose_template(g, id), &id, 1, &id, 1, cx->diag, &r);
        if (st != DOP_OK)
            return st;
    }
    dop_flow f = {0};
    dop_status st = dop_flow_start(g, cx->diag, &f);
    dop_flow_finish(&f);
    *changed = dop_graph_hash(g) != before;
    return st;
}
