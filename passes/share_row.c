/* share-row: products whose sources differ, but are made of one row (of a residual by the weights of several norms: a router
 * beside a feed-forward part, a feed-forward part beside attention), share a region: the grid is partitioned by product, and a
 * workgroup makes only the source that its product reads.  Runs after fuse-epilogue and meet-products, when it is known what
 * each product takes along, and before fuse-rows, which brings what the row is made of into the one dispatch that then needs
 * it. */
#include "passes/fuse.h"

enum { MOST_ROWS = 8 };

/* The rows, which need not be made, that sources of products are made of element by element. */
typedef struct rows {
    uint32_t n;
    dop_node_id ids[MOST_ROWS];
    bool other; /* they are too many, or something else is done to them */
} rows;

static void
add_row(const dop_graph *g, dop_node_id value, rows *out)
{
    if (!dop_node_per_token(g, value) || dop_node_cols(g, value) == 1)
        return; /* weights, statistics */
    for (uint32_t i = 0; i < out->n; i++)
        if (out->ids[i] == value)
            return;
    if (out->n < MOST_ROWS)
        out->ids[out->n++] = value;
    else
        out->other = true;
}

static rows
rows_of(const dop_graph *g, const dop_region *r)
{
    const dop_analysis *a = r->info;
    rows out = {0};
    for (uint32_t i = 0; i < a->n_acts; i++) {
        const dop_node_id act = dop_node_base(g, a->acts[i], NULL);
        if (!dop_region_has(r, act))
            add_row(g, act, &out);
    }
    for (uint32_t i = 0; i < r->n_nodes; i++)
        for (uint32_t k = 0; a->feeds[i] && k < dop_node_at(g, r->nodes[i])->n_srcs; k++) {
            const dop_node_id b = dop_node_base(g, dop_node_at(g, r->nodes[i])->src[k], NULL);
            const uint8_t col = dop_node_access(g, r->nodes[i], k)->axis[DOP_AXIS_col];
            out.other = out.other || (col != DOP_ACCESS_same && col != DOP_ACCESS_none);
            if (!dop_region_has(r, b))
                add_row(g, b, &out);
        }
    return out;
}

static bool
same_rows(const dop_graph *g, const dop_region *a, const dop_region *b)
{
    const rows x = rows_of(g, a), y = rows_of(g, b);
    bool same = x.n > 0 && x.n == y.n && !x.other && !y.other;
    for (uint32_t i = 0; i < x.n && same; i++) {
        bool found = false;
        for (uint32_t k = 0; k < y.n; k++)
            found = found || x.ids[i] == y.ids[k];
        same = found;
    }
    return same;
}

/* Are both regions products of whole rows of one length, and nothing that must be made before them? */
static bool
are_alike(const dop_graph *g, const dop_region *a, const dop_region *b)
{
    const dop_analysis *x = a->info, *y = b->info;
    if (a->tpl != b->tpl || !x->n_products || !y->n_products || x->depth != y->depth || x->staged || y->staged ||
        x->beside || y->beside || x->tail || y->tail || dop_node_has_experts(g, x->products[0]) ||
        dop_node_has_experts(g, y->products[0]) ||
        dop_node_per_token(g, x->products[0]) != dop_node_per_token(g, y->products[0]))
        return false;
    for (uint32_t i = 0; i < x->n_parts + y->n_parts; i++)
        if ((i < x->n_parts ? x->parts[i] : y->parts[i - x->n_parts]).argmax)
            return false;
    return same_rows(g, a, b);
}

static dop_reason
may_share(const dop_pass_ctx *cx, const dop_graph *g, dop_region_id a, dop_region_id b)
{
    const dop_template_info *has = dop_template_of(g->regions[a].tpl);
    const uint32_t acts = g->regions[a].info->n_acts + g->regions[b].info->n_acts;
    if (dop_fuse_disabled(cx, g, a, b))
        return DOP_REASON_disabled;
    if (acts > has->acts)
        return DOP_REASON_capacity;
    /* The few workgroups of a CPU make products of all parts. */
    return cx->target->cpu && !dop_fuse_fits_shared(cx->target, acts * g->regions[a].info->depth)
               ? DOP_REASON_shared_memory
               : DOP_REASON_none;
}

static dop_status
try_pair(dop_pass_ctx *cx, dop_graph *g, dop_flow *f, dop_region_id a, dop_region_id b, bool *changed)
{
    if (dop_flow_path_between(f, a, b))
        return DOP_OK;
    const dop_reason why = may_share(cx, g, a, b);
    const dop_node_id x = g->regions[a].info->products[0], y = g->regions[b].info->products[0];
    const dop_fusion_event e = {
        x, y, "share-row", why, dop_node_bytes(g, dop_node_at(g, x)->src[0]), why == DOP_REASON_none};
    dop_status st = dop_fusion_log_add(cx->log, &e, cx->diag);
    if (st != DOP_OK || why != DOP_REASON_none)
        return st;
    *changed = true;
    st = dop_flow_absorb(f, g, a, b, g->regions[a].tpl, false, cx->diag);
    return st == DOP_OK ? dop_flow_settle(f, g, cx->diag) : st;
}

dop_status
dop_pass_share_row(dop_pass_ctx *cx, dop_graph *g, bool *changed)
{
    dop_flow f = {0};
    dop_status st = dop_flow_start(g, cx->diag, &f);
    for (dop_region_id a = 1; st == DOP_OK && a < g->n_regions; a++) {
        if (g->regions[a].dead || dop_template_of(g->regions[a].tpl)->acts < 2)
            continue;
        /* Readers of one row are near each other: looking further would only lengthen lifetimes. */
        uint32_t looked = 0;
        for (dop_region_id b = a + 1; st == DOP_OK && b < g->n_regions && looked < 16; b++) {
            looked += !g->regions[b].dead;
            if (!g->regions[b].dead && are_alike(g, &g->regions[a], &g->regions[b]))
                st = try_pair(cx, g, &f, a, b, changed);
        }
    }
    dop_flow_finish(&f);
    return st;
}
