/* split-norms: rewrites a norm as a row statistic and element-wise arithmetic, so that fusion can put each part where it costs
 * nothing: the weight into the reader's load phase, the statistic next to the reader's sum, the scale after it.  Norms of one row
 * share the statistic.  Runs before hoist-row-scale, which moves the scale. */
#include "ir/graph/dims.h"
#include "passes/rewrite.h"

/* Returns an existing equal node, or adds one: several norms of one row share their statistic. */
static dop_status
add_statistic_once(dop_rewrite *rw, dop_node_id old, const char *suffix, dop_op op, const dop_node_id *srcs,
                   uint32_t n_srcs, const dop_attr *eps, const dop_want *want, dop_node_id *out_id)
{
    dop_node_id after = 0;
    for (uint32_t i = 0; i < n_srcs; i++)
        after = srcs[i] > after ? srcs[i] : after;
    for (dop_node_id id = after + 1; id < rw->to.n_nodes; id++) {
        const dop_node *n = dop_node_at(&rw->to, id);
        bool same = n->op == op && n->n_srcs == n_srcs && (!eps || n->attr[0].f == eps->f) &&
                    (!want || (n->type == want->type && dop_shape_equal(&n->shape, &want->shape)));
        for (uint32_t i = 0; i < n_srcs; i++)
            same = same && n->src[i] == srcs[i];
        if (same) {
            *out_id = id;
            return DOP_OK;
        }
    }
    return dop_rewrite_add(rw, old, suffix, op, srcs, n_srcs, eps, want, out_id);
}

static dop_status
split_rmsnorm(dop_rewrite *rw, dop_node_id old, dop_node_id *out_id)
{
    const dop_node *o = dop_node_at(rw->from, old);
    dop_node_id x = rw->map[o->src[0]], w = rw->map[o->src[1]], stat, m;
    double add = dop_node_f(rw->from, old, DOP_A_add);
    dop_attr eps = {.f = dop_node_f(rw->from, old, DOP_A_eps)}, by = {.f = add};
    dop_want want = {o->type, o->shape};
    DOP_RETURN_IF_ERROR(add_statistic_once(rw, old, "rms", DOP_OP_row_rms, &x, 1, &eps, NULL, &stat));
    if (add != 0.0)
        DOP_RETURN_IF_ERROR(dop_rewrite_add(rw, old, "w", DOP_OP_offset, &w, 1, &by, NULL, &w));
    DOP_RETURN_IF_ERROR(dop_rewrite_add(rw, old, "xw", DOP_OP_mul, (dop_node_id[]){x, w}, 2, NULL, &want, &m));
    /* The statistic is multiplied last, so that hoist-row-scale can move it past a matmul. */
    return dop_rewrite_add(rw, old, NULL, DOP_OP_mul, (dop_node_id[]){m, stat}, 2, NULL, &want, out_id);
}

static dop_status
split_layernorm(dop_rewrite *rw, dop_node_id old, dop_node_id *out_id)
{
    const dop_node *o = dop_node_at(rw->from, old);
    dop_node_id x = rw->map[o->src[0]], w = rw->map[o->src[1]], mean, istd, v;
    dop_want centered = {DOP_TYPE_f32, o->shape}; /* f32, because rounding here would distort the second statistic */
    dop_attr eps = {.f = dop_node_f(rw->from, old, DOP_A_eps)};
    dop_want want = {o->type, o->shape};
    DOP_RETURN_IF_ERROR(add_statistic_once(rw, old, "mean", DOP_OP_row_mean, &x, 1, NULL, NULL, &mean));
    DOP_RETURN_IF_ERROR(add_statistic_once(rw, old, "c", DOP_OP_sub, (dop_node_id[]){x, mean}, 2, NULL, &centered, &v));
    /* The standard deviation is the root mean square of the centered row.  This gives one chain, hence one row program. */
    DOP_RETURN_IF_ERROR(add_statistic_once(rw, old, "istd", DOP_OP_row_rms, &v, 1, &eps, NULL, &istd));
    DOP_RETURN_IF_ERROR(add_statistic_once(rw, old, "n", DOP_OP_mul, (dop_node_id[]){v, istd}, 2, NULL, &want, &v));
    if (o->n_srcs < 3)
        return dop_rewrite_add(rw, old, NULL, DOP_OP_mul, (dop_node_id[]){v, w}, 2, NULL, &want, out_id);
    DOP_RETURN_IF_ERROR(dop_rewrite_add(rw, old, "nw", DOP_OP_mul, (dop_node_id[]){v, w}, 2, NULL, &want, &v));
    return dop_rewrite_add(rw, old, NULL, DOP_OP_add, (dop_node_id[]){v, rw->map[o->src[2]]}, 2, NULL, &want, out_id);
}

static dop_status
split_norm(dop_rewrite *rw, dop_node_id old, dop_node_id *out_id)
{
    dop_op op = dop_node_at(rw->from, old)->op;
    if (op != DOP_OP_rmsnorm && op != DOP_OP_layernorm)
        return DOP_OK;
    rw->changed = true;
    return op == DOP_OP_rmsnorm ? split_rmsnorm(rw, old, out_id) : split_layernorm(rw, old, out_id);
}

dop_status
dop_pass_split_norms(dop_pass_ctx *cx, dop_graph *g, bool *changed)
{
    return dop_rewrite_graph(cx, g, split_norm, NULL, changed);
}
