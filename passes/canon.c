/* canon: common subexpression elimination, so that later passes find each value once.  Also removes nodes that change neither
 * values nor type: scale by 1, offset by 0, reshape to an equal shape, cast to an equal type.  Runs first, on a graph without
 * regions. */
#include "ir/graph/dims.h"
#include "ir/graph/ops.h"
#include "passes/rewrite.h"

#include <string.h>

static bool
has_equal_attrs(const dop_graph *g, const dop_node *a, const dop_node *b)
{
    const dop_op_info *info = dop_op_of(a->op);
    (void)g;
    for (uint32_t i = 0; i < info->n_attrs; i++) {
        if (dop_attr_kind_of(info->attrs[i]) == DOP_ATTR_S) {
            if (strcmp(a->attr[i].s, b->attr[i].s) != 0)
                return false;
        } else if (memcmp(&a->attr[i], &b->attr[i], sizeof a->attr[i]) != 0) {
            return false;
        }
    }
    return true;
}

static bool
is_neutral(const dop_graph *g, dop_node_id id)
{
    const dop_node *n = dop_node_at(g, id);
    const dop_node *s = n->n_srcs ? dop_node_at(g, n->src[0]) : NULL;
    switch (n->op) {
    case DOP_OP_scale:
        return dop_node_f(g, id, DOP_A_by) == 1.0 && n->type == s->type;
    case DOP_OP_offset:
        return dop_node_f(g, id, DOP_A_by) == 0.0 && n->type == s->type;
    case DOP_OP_reshape:
        return dop_shape_equal(&n->shape, &s->shape);
    case DOP_OP_cast:
        return n->type == s->type;
    default:
        return false;
    }
}

static dop_status
merge_equal_node(dop_rewrite *rw, dop_node_id old, dop_node_id *out_id)
{
    const dop_node *o = dop_node_at(rw->from, old);
    if (dop_op_of(o->op)->traits & DOP_EFFECT)
        return DOP_OK;
    if (is_neutral(rw->from, old)) {
        *out_id = rw->map[o->src[0]];
        rw->changed = true;
        return DOP_OK;
    }
    if (o->op == DOP_OP_input || o->op == DOP_OP_received || o->op == DOP_OP_weight || o->op == DOP_OP_state)
        return DOP_OK;
    /* An equal node comes after the same sources, so the search can start after the last one. */
    dop_node_id after = 0;
    for (uint32_t i = 0; i < o->n_srcs; i++)
        if (rw->map[o->src[i]] > after)
            after = rw->map[o->src[i]];
    for (dop_node_id id = after + 1; id < rw->to.n_nodes; id++) {
        const dop_node *n = dop_node_at(&rw->to, id);
        if (n->op != o->op || n->n_srcs != o->n_srcs || n->type != o->type || !dop_shape_equal(&n->shape, &o->shape) ||
            !has_equal_attrs(rw->from, n, o))
            continue;
        bool same = true;
        for (uint32_t i = 0; i < o->n_srcs; i++)
            same = same && n->src[i] == rw->map[o->src[i]];
        if (same) {
            *out_id = id;
            rw->changed = true;
            return DOP_OK;
        }
    }
    return DOP_OK;
}

dop_status
dop_pass_canon(dop_pass_ctx *cx, dop_graph *g, bool *changed)
{
    return dop_rewrite_graph(cx, g, merge_equal_node, NULL, changed);
}
