/* expand-weights: dequantizes a weight matrix in a dispatch of its own if a kernel path asks for it.  The matmul then reads f16
 * or f32 values from scratch memory.  With many tokens a weight is thus decoded once instead of once per tile of tokens.  The
 * values live from one dispatch to the next, so that all layers share the same memory. */
#include "ir/graph/dims.h"
#include "passes/fusion/region.h"
#include "passes/rewrite.h"

enum { UNIT = 8 }; /* float weights are read eight values at a time, and computed rows have no padding */

/* Excludes single tokens, which read each weight only once. */
static bool
can_expand_weight(const dop_pass_ctx *cx, const dop_graph *g, dop_node_id id)
{
    const dop_node *n = dop_node_at(g, id);
    if (n->op != DOP_OP_matmul || dop_dim_value(g, n->shape.dim[0], g->max_t) == 1)
        return false;
    const dop_node *w = dop_node_at(g, n->src[1]);
    uint64_t values = (uint64_t)w->shape.dim[0].mul * dop_node_cols(g, n->src[1]);
    return w->op == DOP_OP_weight && dop_type_of(w->type)->kind == DOP_KIND_QUANT &&
           dop_node_cols(g, n->src[1]) % UNIT == 0 && values <= cx->target->max_alloc / 4;
}

static dop_status
expand_weight(dop_rewrite *rw, dop_node_id old, dop_node_id *out_id)
{
    const dop_graph *g = rw->from;
    const dop_pass_ctx *cx = rw->cx;
    const dop_node *o = dop_node_at(g, old);
    if (!can_expand_weight(cx, g, old))
        return DOP_OK;
    dop_want want = {cx->expand(cx->user, g, old), dop_node_at(g, o->src[1])->shape};
    if (want.type == DOP_TYPE_none)
        return DOP_OK;
    dop_node_id srcs[2] = {rw->map[o->src[0]], 0};
    dop_status st = dop_rewrite_add(rw, old, "weight", DOP_OP_dequant, &rw->map[o->src[1]], 1, NULL, &want, &srcs[1]);
    if (st != DOP_OK)
        return st;
    rw->changed = true;
    want = (dop_want){o->type, o->shape};
    return dop_rewrite_add(rw, old, NULL, DOP_OP_matmul, srcs, 2, NULL, &want, out_id);
}

dop_status
dop_pass_expand_weights(dop_pass_ctx *cx, dop_graph *g, bool *changed)
{
    return cx->expand ? dop_rewrite_graph(cx, g, expand_weight, NULL, changed) : DOP_OK;
}
