/* narrow: stores values that only matrix units read as f16 instead of f32.  Products on matrix units round their activations to
 * f16 anyway.  The value is now rounded once where it is computed, instead of in every tile that reads it.  This halves the
 * bytes, and results are bit-identical.  Runs when products have their final sources. */
#include "passes/rewrite.h"

/* True if the product runs on matrix units.  The tile of an expert product has the rows of one group_rows block. */
static bool
uses_matrix_units(const dop_graph *g, const dop_target *t, dop_node_id id)
{
    const dop_node *n = dop_node_at(g, id);
    uint32_t rows = n->op == DOP_OP_matmul                       ? g->max_t
                    : n->op == DOP_OP_matmul_at && n->n_srcs > 3 ? dop_node_cols(g, n->src[3]) - 1
                                                                 : 0;
    if (n->op == DOP_OP_matmul && dop_few_in_integers(t, rows) &&
        dop_type_of(dop_node_at(g, n->src[1])->type)->kind == DOP_KIND_QUANT)
        return false; /* its activations are rounded to 8 bits instead, as in single-row products */
    return rows > 0 && dop_node_per_token(g, id) &&
           dop_matrix_fit_of(t, rows, dop_product_depth(g, id)) == DOP_MATRIX_FIT_yes;
}

/* True for values with memory of their own: not caches, leaves or views. */
static bool
has_own_storage(const dop_graph *g, dop_node_id id)
{
    dop_op op = dop_node_at(g, id)->op;
    return op == DOP_OP_attention || op == DOP_OP_rmsnorm || op == DOP_OP_layernorm || dop_op_of(op)->expr[0] != 0;
}

/* Sets wide[id] if the value must keep its own type, because it does not qualify or some reader needs it.  Readers have higher
 * handles, so they are decided before their sources. */
static void
mark_wide_values(const dop_graph *g, const dop_target *t, bool *wide, bool *read)
{
    for (uint32_t i = 0; i < g->n_outs; i++)
        wide[g->outs[i]] = true;
    for (dop_node_id id = g->n_nodes; id-- > 1;) {
        const dop_node *n = dop_node_at(g, id);
        for (uint32_t k = 0; k < n->n_srcs; k++) {
            bool view = n->op == DOP_OP_reshape && read[id], product = k == 0 && uses_matrix_units(g, t, id);
            read[n->src[k]] = true;
            if (view ? wide[id] : !product && (n->op != DOP_OP_last_row || dop_graph_is_out(g, id)))
                wide[n->src[k]] = true;
        }
    }
    /* A view has the type of its source. */
    for (dop_node_id id = 1; id < g->n_nodes; id++) {
        const dop_node *n = dop_node_at(g, id);
        bool view = n->op == DOP_OP_reshape;
        if (!read[id] || n->type != DOP_TYPE_f32 || (view ? wide[n->src[0]] : !has_own_storage(g, id)))
            wide[id] = true;
    }
}

static dop_status
narrow_node(dop_rewrite *rw, dop_node_id old, dop_node_id *out_id)
{
    const bool *wide = rw->user;
    const dop_node *o = dop_node_at(rw->from, old);
    if (wide[old])
        return DOP_OK;
    dop_node_id srcs[DOP_MAX_SRCS];
    for (uint32_t i = 0; i < o->n_srcs; i++)
        srcs[i] = rw->map[o->src[i]];
    dop_want want = {DOP_TYPE_f16, o->shape};
    rw->changed = true;
    return dop_rewrite_add(rw, old, NULL, o->op, srcs, o->n_srcs, o->attr, &want, out_id);
}

dop_status
dop_pass_narrow(dop_pass_ctx *cx, dop_graph *g, bool *changed)
{
    if (dop_matrix_fit_of(cx->target, g->max_t, 0) != DOP_MATRIX_FIT_yes)
        return DOP_OK;
    bool *wide = dop_arena_alloc(cx->arena, g->n_nodes * sizeof *wide);
    bool *read = dop_arena_alloc(cx->arena, g->n_nodes * sizeof *read);
    if (!wide || !read)
        return DOP_NO_MEMORY(cx->diag);
    mark_wide_values(g, cx->target, wide, read);
    return dop_rewrite_graph(cx, g, narrow_node, wide, changed);
}
