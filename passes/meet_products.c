/* meet-products: a product of a row of its own (a shared expert's, attention's output) joins the product whose epilogue reads
 * it (the chosen experts' sum, another mixer's output, that of a feed-forward part beside attention).  The rows of both products have the
 * same length, so that a workgroup sums up the same columns of both.  Runs after fuse-epilogue, which has made the node that
 * reads both an epilogue of one of them. */
#include "passes/fuse.h"

enum { DEPTH = 32 }; /* values of a row that kernels take at once, of any type of weights */

static dop_node_id
weights_of(const dop_graph *g, dop_node_id product)
{
    return dop_node_at(g, product)->src[1];
}

/* May region p, which makes something by one product, join region c, which reads it behind the only product it has? */
static dop_reason
may_join(const dop_pass_ctx *cx, const dop_flow *f, dop_region_id from, dop_region_id to)
{
    const dop_graph *g = f->g;
    const dop_region *p = &g->regions[from], *c = &g->regions[to];
    const dop_analysis *a = p->info, *b = c->info;
    if (dop_fuse_disabled(cx, g, from, to))
        return DOP_REASON_disabled;
    if (!dop_template_of(c->tpl)->beside || b->n_products != 1 || b->beside || b->tail ||
        (dop_node_has_experts(g, b->products[0]) && !b->sum))
        return DOP_REASON_template_limit;
    if (p->tpl != DOP_TPL_gemv || a->n_products != 1 || a->staged || a->n_stats || a->tail || a->parts[0].argmax)
        return DOP_REASON_template_limit;
    if (dop_product_cols(g, a->products[0]) != dop_product_cols(g, b->products[0]) || a->depth % DEPTH ||
        !dop_region_wide(g, p, a->act) ||
        dop_node_at(g, weights_of(g, a->products[0]))->type != dop_node_at(g, weights_of(g, b->products[0]))->type)
        return DOP_REASON_tile_mismatch;
    if (dop_node_bytes(g, weights_of(g, a->products[0])) > dop_template_of(c->tpl)->beside &&
        !dop_fuse_asked(cx, g, from, to))
        return DOP_REASON_cost;
    for (uint32_t i = 0; i < p->n_outs; i++)
        if (dop_flow_n_readers(f, p->outs[i]) != 1 || f->output[p->outs[i]])
            return DOP_REASON_multiple_readers;
    return DOP_REASON_none;
}

/* Is `value`, of as many columns as the region's product, read element by element behind that and nowhere else? */
static bool
is_behind(const dop_graph *g, const dop_region *c, dop_node_id value)
{
    bool behind = c->info->n_parts == 1 && dop_node_cols(g, value) == c->info->parts[0].rows;
    for (uint32_t i = 0; i < c->n_nodes; i++) {
        const dop_node *n = dop_node_at(g, c->nodes[i]);
        const bool element = dop_op_of(n->op)->root == DOP_ROOT_element && dop_region_part(c, c->nodes[i]) == 0;
        for (uint32_t k = 0; k < n->n_srcs; k++)
            if (dop_node_base(g, n->src[k], NULL) == value)
                behind = behind && element && n->src[k] == value;
    }
    return behind;
}

static dop_status
try_value(dop_pass_ctx *cx, dop_graph *g, dop_flow *f, dop_node_id value, dop_region_id to, bool *changed)
{
    const dop_region_id from = f->owner[value];
    if (!from || from == to || !g->regions[from].info->n_products || !is_behind(g, &g->regions[to], value))
        return DOP_OK;
    dop_reason why = may_join(cx, f, from, to);
    if (why == DOP_REASON_none && dop_flow_path_around(f, from, to))
        why = DOP_REASON_cycle;
    dop_status st = dop_fuse_log(cx, g, from, to, "meet-products", why, why == DOP_REASON_none);
    if (st != DOP_OK || why != DOP_REASON_none)
        return st;
    *changed = true;
    st = dop_flow_absorb(f, g, to, from, g->regions[to].tpl, false, cx->diag);
    return st == DOP_OK ? dop_flow_settle(f, g, cx->diag) : st;
}

dop_status
dop_pass_meet_products(dop_pass_ctx *cx, dop_graph *g, bool *changed)
{
    dop_flow f = {0};
    dop_status st = dop_flow_start(g, cx->diag, &f);
    for (dop_region_id r = 1; st == DOP_OK && r < g->n_regions; r++) {
        bool joined = false;
        if (g->regions[r].dead || !dop_template_of(g->regions[r].tpl)->beside)
            continue;
        for (uint32_t i = 0; st == DOP_OK && !joined && i < g->regions[r].info->n_reads; i++)
            st = try_value(cx, g, &f, g->regions[r].info->reads[i], r, &joined);
        *changed = *changed || joined;
    }
    dop_flow_finish(&f);
    return st;
}
