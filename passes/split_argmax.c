/* split-argmax: splits the arg-max of one row into two steps.  Each workgroup of the LM head computes a partial result, and a
 * merge reads only these, so that the logits need not be read again. */
#include "passes/rewrite.h"

enum { PART_COLS = 64, MAX_PARTS = 512 };

static dop_status
split_argmax_node(dop_rewrite *rw, dop_node_id old, dop_node_id *out_id)
{
    const dop_graph *g = rw->from;
    const dop_node *o = dop_node_at(g, old);
    if (o->op != DOP_OP_argmax)
        return DOP_OK;
    const dop_node *x = dop_node_at(g, o->src[0]);
    if (x->shape.rank != 2 || (x->shape.dim[0].sym == DOP_SYM_T && g->max_t != 1))
        return DOP_OK;
    uint32_t cols = x->shape.dim[1].mul;
    uint32_t parts = dop_div_up_u32(cols, PART_COLS);
    if (parts > MAX_PARTS)
        parts = MAX_PARTS;
    if (parts < 2)
        return DOP_OK;
    dop_attr n_parts = {.i = parts};
    dop_node_id src = rw->map[o->src[0]], of[2] = {0, o->n_srcs > 1 ? rw->map[o->src[1]] : 0};
    dop_status st = dop_rewrite_add(rw, old, "part", DOP_OP_argmax_part, &src, 1, &n_parts, NULL, &of[0]);
    if (st != DOP_OK)
        return st;
    rw->changed = true;
    return dop_rewrite_add(rw, old, NULL, DOP_OP_argmax_merge, of, o->n_srcs, NULL, NULL, out_id);
}

dop_status
dop_pass_split_argmax(dop_pass_ctx *cx, dop_graph *g, bool *changed)
{
    return dop_rewrite_graph(cx, g, split_argmax_node, NULL, changed);
}
