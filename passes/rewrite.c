#include "passes/rewrite.h"
#include "ir/graph/graph_add.h"
#include "ir/region/graph_regions.h"

dop_status
dop_rewrite_add(dop_rewrite *rw, dop_node_id old, const char *suffix, dop_op op, const dop_node_id *srcs,
                uint32_t n_srcs, const dop_attr *attrs, const dop_want *want, dop_node_id *out_id)
{
    const dop_node *o = dop_node_at(rw->from, old);
    const char *name = o->name;
    if (suffix && !(name = dop_arena_printf(rw->cx->arena, "%s.%s", o->name, suffix)))
        return DOP_NO_MEMORY(rw->cx->diag);
    DOP_RETURN_IF_ERROR(dop_graph_add(&rw->to, op, name, srcs, n_srcs, attrs, want, rw->cx->diag, out_id));
    dop_node_carry(dop_node_at(&rw->to, *out_id), o);
    return DOP_OK;
}

static dop_status
copy_rewritten_node(dop_rewrite *rw, dop_node_id old, dop_node_id *out_id)
{
    const dop_node *o = dop_node_at(rw->from, old);
    dop_node_id srcs[DOP_MAX_SRCS];
    for (uint32_t i = 0; i < o->n_srcs; i++)
        srcs[i] = rw->map[o->src[i]];
    dop_want want = {o->type, o->shape};
    return dop_rewrite_add(rw, old, NULL, o->op, srcs, o->n_srcs, o->attr, &want, out_id);
}

dop_status
dop_rewrite_graph(dop_pass_ctx *cx, dop_graph *g, dop_rewrite_fn fn, void *user, bool *changed)
{
    dop_rewrite rw = {.cx = cx, .from = g, .user = user};
    dop_status st = dop_graph_init_like(&rw.to, cx->arena, g, cx->diag);
    if (st != DOP_OK)
        return st;
    rw.map = dop_arena_alloc(cx->arena, g->n_nodes * sizeof *rw.map);
    if (!rw.map)
        return DOP_NO_MEMORY(cx->diag);
    for (dop_node_id id = 1; id < g->n_nodes; id++) {
        st = fn(&rw, id, &rw.map[id]);
        if (st == DOP_OK && rw.map[id] == 0)
            st = copy_rewritten_node(&rw, id, &rw.map[id]);
        if (st != DOP_OK)
            return st;
    }
    for (uint32_t i = 0; i < g->n_outs; i++) {
        st = dop_graph_output(&rw.to, rw.map[g->outs[i]], cx->diag);
        if (st != DOP_OK)
            return st;
    }
    if (rw.changed) {
        st = dop_graph_compact(&rw.to, cx->diag);
        if (st != DOP_OK)
            return st;
        *g = rw.to;
        *changed = true;
    }
    return DOP_OK;
}
