/* hoist-row-scale: matmul(y * s, W) = matmul(y, W) * s if s is one scalar per row.  After split-norms, s is the row statistic of
 * a norm.  After the matmul, a GEMV accumulates s along with its dot product and applies it in the epilogue.  The norm thus needs
 * no separate pass over the row. */
#include "passes/rewrite.h"

/* True for mul(y, s) with s [T,1]; returns y and s. */
static bool
is_row_scaled(const dop_graph *g, dop_node_id id, dop_node_id *out_y, dop_node_id *out_s)
{
    const dop_node *n = dop_node_at(g, id);
    if (n->op != DOP_OP_mul || n->shape.rank != 2)
        return false;
    const dop_node *s = dop_node_at(g, n->src[1]);
    if (s->shape.rank != 2 || s->shape.dim[1].sym != DOP_SYM_1 || s->shape.dim[1].mul != 1)
        return false;
    *out_y = n->src[0];
    *out_s = n->src[1];
    return true;
}

/* True if only products of a few rows without matrix units (packed integers, or stages) read the value.  Every workgroup of such
 * a product computes the row and its statistic.  If there are more workgroups than multiprocessors, one dispatch that computes
 * both once is faster. */
static bool
is_for_lane_products(const dop_rewrite *rw, dop_node_id value)
{
    const dop_graph *g = rw->from;
    const dop_target *t = rw->cx->target;
    const uint32_t most = t->cores * t->schedule.hoist_columns;
    const bool ints = dop_few_in_integers(t, g->max_t);
    const bool floats = dop_matrix_fit_of(t, g->max_t, dop_node_cols(g, value)) == DOP_MATRIX_FIT_few;
    if (dop_graph_is_out(g, value))
        return false;
    for (dop_node_id id = value + 1; id < g->n_nodes; id++) {
        const dop_node *n = dop_node_at(g, id);
        for (uint32_t k = 0; k < n->n_srcs; k++)
            if (n->src[k] == value &&
                (n->op != DOP_OP_matmul || k > 0 || dop_node_cols(g, id) > most ||
                 !(dop_type_of(dop_node_at(g, n->src[1])->type)->kind == DOP_KIND_QUANT ? ints : floats)))
                return false;
    }
    return true;
}

static dop_status
hoist_row_scale(dop_rewrite *rw, dop_node_id old, dop_node_id *out_id)
{
    const dop_node *o = dop_node_at(rw->from, old);
    dop_node_id y, s, m;
    if (o->op != DOP_OP_matmul || !is_row_scaled(rw->from, o->src[0], &y, &s))
        return DOP_OK;
    /* Matrix units read f16: an activation that is not scaled yet may exceed its range. */
    if (rw->from->max_t > 1 && dop_node_per_token(rw->from, old) && (rw->cx->target->caps & DOP_CAP_coop) &&
        !is_for_lane_products(rw, o->src[0]))
        return DOP_OK;
    dop_node_id srcs[2] = {rw->map[y], rw->map[o->src[1]]};
    dop_want want = {o->type, o->shape};
    dop_status st = dop_rewrite_add(rw, old, "dot", DOP_OP_matmul, srcs, 2, NULL, &want, &m);
    if (st != DOP_OK)
        return st;
    rw->changed = true;
    return dop_rewrite_add(rw, old, NULL, DOP_OP_mul, (dop_node_id[]){m, rw->map[s]}, 2, NULL, &want, out_id);
}

dop_status
dop_pass_hoist_scale(dop_pass_ctx *cx, dop_graph *g, bool *changed)
{
    return dop_rewrite_graph(cx, g, hoist_row_scale, NULL, changed);
}
