/* hoist-last-row: computes only the last row where possible, by last_row(f(x)) = f(last_row(x)) for ops that work row by row.  A
 * prefill chunk needs the logits of its last token only.  Everything after the last attention is then computed for one row, with
 * decode kernels.  A node qualifies only if no reader needs its other rows.  Runs before norms are split. */
#include "passes/rewrite.h"

typedef struct tail {
    bool *only_last;      /* [n_nodes] true if only the last row of the value is read */
    dop_node_id *last_of; /* [n_nodes] last_row of the node in the new graph; 0: not created yet */
} tail;

static bool
works_on_rows(const dop_graph *g, dop_node_id id)
{
    const dop_node *n = dop_node_at(g, id);
    if (n->shape.rank != 2 || !dop_node_per_token(g, id))
        return false;
    switch (n->op) {
    case DOP_OP_matmul:
    case DOP_OP_slice:
    case DOP_OP_rmsnorm:
    case DOP_OP_layernorm:
    case DOP_OP_softmax:
        return true;
    default:
        return dop_op_of(n->op)->expr[0] != 0;
    }
}

static void
find_last_only(const dop_graph *g, tail *t)
{
    for (dop_node_id id = 1; id < g->n_nodes; id++)
        t->only_last[id] = works_on_rows(g, id);
    for (uint32_t i = 0; i < g->n_outs; i++)
        t->only_last[g->outs[i]] = false;
    /* Readers have higher handles, so each is decided before its sources. */
    for (dop_node_id id = g->n_nodes; id-- > 1;) {
        const dop_node *n = dop_node_at(g, id);
        for (uint32_t k = 0; k < n->n_srcs; k++)
            if (n->op != DOP_OP_last_row && !t->only_last[id])
                t->only_last[n->src[k]] = false;
    }
}

static dop_status
map_last_row(dop_rewrite *rw, dop_node_id old, dop_node_id *out_id)
{
    tail *t = rw->user;
    *out_id = rw->map[old];
    if (t->only_last[old] || !dop_node_per_token(rw->from, old))
        return DOP_OK;
    dop_status st = DOP_OK;
    if (!t->last_of[old])
        st = dop_rewrite_add(rw, old, "last", DOP_OP_last_row, &rw->map[old], 1, NULL, NULL, &t->last_of[old]);
    *out_id = t->last_of[old];
    return st;
}

static dop_status
reduce_to_last_row(dop_rewrite *rw, dop_node_id old, dop_node_id *out_id)
{
    const tail *t = rw->user;
    const dop_node *o = dop_node_at(rw->from, old);
    dop_node_id srcs[DOP_MAX_SRCS];
    if (o->op == DOP_OP_last_row && t->only_last[o->src[0]]) {
        rw->changed = true;
        *out_id = rw->map[o->src[0]];
        return DOP_OK;
    }
    if (!t->only_last[old])
        return DOP_OK;
    for (uint32_t i = 0; i < o->n_srcs; i++) {
        dop_status st = map_last_row(rw, o->src[i], &srcs[i]);
        if (st != DOP_OK)
            return st;
    }
    dop_want want = {o->type, o->shape};
    want.shape.dim[0] = (dop_dim){1, DOP_SYM_1};
    return dop_rewrite_add(rw, old, NULL, o->op, srcs, o->n_srcs, o->attr, &want, out_id);
}

dop_status
dop_pass_hoist_last(dop_pass_ctx *cx, dop_graph *g, bool *changed)
{
    bool any = false;
    for (dop_node_id id = 1; id < g->n_nodes; id++)
        any = any || dop_node_at(g, id)->op == DOP_OP_last_row;
    if (!any)
        return DOP_OK;
    tail t = {dop_arena_alloc(cx->arena, g->n_nodes * sizeof *t.only_last),
              dop_arena_alloc(cx->arena, g->n_nodes * sizeof *t.last_of)};
    if (!t.only_last || !t.last_of)
        return DOP_NO_MEMORY(cx->diag);
    find_last_only(g, &t);
    return dop_rewrite_graph(cx, g, reduce_to_last_row, &t, changed);
}
