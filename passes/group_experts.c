/* group-experts: products by expert read a matrix for each row and choice.  Where many rows choose the same one, its pairs are
 * brought together first (group_rows), and the products make them in that order.  The target says from how many rows on, and
 * how many pairs make a tile.  Runs when products have got their final sources. */
#include "passes/rewrite.h"

/* user: for each node of the graph the blocks that were made of it as ids, 0: none yet. */
static dop_status
visit(dop_rewrite *rw, dop_node_id old, dop_node_id *out_id)
{
    const dop_graph *g = rw->from;
    const dop_node *o = dop_node_at(g, old);
    dop_node_id *blocks = rw->user, srcs[4];
    if (o->op != DOP_OP_matmul_at || o->n_srcs != 3)
        return DOP_OK;
    uint64_t pairs = dop_node_rows(g, o->src[2], g->max_t) * dop_node_cols(g, o->src[2]);
    uint32_t experts = dop_node_at(g, o->src[1])->shape.dim[0].mul;
    uint32_t span = pairs > UINT32_MAX ? 0 : dop_expert_span(rw->cx->target, (uint32_t)pairs, experts);
    if (g->max_t == 1 || span == 0)
        return DOP_OK;
    dop_attr attrs[2] = {{.i = experts}, {.i = span}};
    dop_node_id *b = &blocks[o->src[2]];
    dop_status st =
        *b ? DOP_OK
           : dop_rewrite_add(rw, o->src[2], "blocks", DOP_OP_group_rows, &rw->map[o->src[2]], 1, attrs, NULL, b);
    if (st != DOP_OK)
        return st;
    for (uint32_t i = 0; i < 3; i++)
        srcs[i] = rw->map[o->src[i]];
    srcs[3] = *b;
    dop_want want = {o->type, o->shape};
    rw->changed = true;
    return dop_rewrite_add(rw, old, NULL, DOP_OP_matmul_at, srcs, 4, NULL, &want, out_id);
}

dop_status
dop_pass_group_experts(dop_pass_ctx *cx, dop_graph *g, bool *changed)
{
    dop_node_id *blocks = dop_arena_alloc(cx->arena, g->n_nodes * sizeof *blocks);
    if (!blocks)
        return DOP_FAIL(cx->diag, DOP_E_NOMEM, "out of memory");
    return dop_rewrite_graph(cx, g, visit, blocks, changed);
}
