/* merge-siblings: matmuls that read the same activation share a region although their row counts differ (q, k, v; gate
 * and up; a router beside a shared expert): the grid is partitioned by row range.  Runs first, so that an element-wise
 * consumer of two of them (act(gate) * up) finds both in one region.  Other roots that read
 * the same (a recurrence's values and its state) share a region too. */
#include "passes/fuse.h"

#include <stdlib.h>
#include <string.h>

typedef struct product {
    dop_node_id act;
    dop_region_id region;
} product;

static int
compare(const void *a, const void *b)
{
    const product *x = a, *y = b;
    if (x->act != y->act)
        return x->act < y->act ? -1 : 1;
    return x->region < y->region ? -1 : x->region > y->region;
}

static dop_status
try_pair(dop_pass_ctx *cx, dop_graph *g, dop_flow *f, dop_region_id a, dop_region_id b, bool *changed)
{
    if (dop_flow_path_between(f, a, b))
        return DOP_OK;
    dop_fusion_event e = {g->regions[a].nodes[0],
                          g->regions[b].nodes[0],
                          "merge-siblings",
                          DOP_REASON_none,
                          dop_node_bytes(g, dop_node_at(g, g->regions[a].info->root)->src[0]),
                          1};
    if (dop_fuse_disabled(cx, g, a, b))
        e.reason = DOP_REASON_disabled;
    e.dispatches = e.reason == DOP_REASON_none;
    dop_status st = dop_fusion_log_add(cx->log, &e, cx->diag);
    if (st != DOP_OK || e.reason != DOP_REASON_none)
        return st;
    *changed = true;
    st = dop_flow_absorb(f, g, a, b, g->regions[a].tpl, false, cx->diag);
    return st == DOP_OK ? dop_flow_settle(f, g, cx->diag) : st;
}

/* Other roots that read the same sources: what they read is loaded once. */
static dop_status
try_twins(dop_pass_ctx *cx, dop_graph *g, dop_flow *f, dop_region_id r, bool *changed)
{
    const dop_node *a = dop_node_at(g, g->regions[r].info->root);
    dop_status st = DOP_OK;
    /* Twins are near each other: looking further would only lengthen lifetimes. */
    for (dop_region_id k = r + 1; k < g->n_regions && k < r + 8 && st == DOP_OK; k++) {
        const dop_node *b = dop_node_at(g, g->regions[k].info->root);
        if (!g->regions[k].dead && g->regions[k].tpl == g->regions[r].tpl && a->n_srcs == b->n_srcs &&
            memcmp(a->src, b->src, a->n_srcs * sizeof *a->src) == 0)
            st = try_pair(cx, g, f, r, k, changed);
    }
    return st;
}

static int
by_region(const void *a, const void *b)
{
    const product *x = *(product *const *)a, *y = *(product *const *)b;
    return x->region < y->region ? -1 : x->region > y->region;
}

dop_status
dop_pass_merge_siblings(dop_pass_ctx *cx, dop_graph *g, bool *changed)
{
    dop_flow f = {0};
    uint32_t n = 0;
    product *items = calloc(g->n_regions, sizeof *items), **order = calloc(g->n_regions, sizeof *order);
    dop_status st = items && order ? dop_flow_start(g, cx->diag, &f) : DOP_FAIL(cx->diag, DOP_E_NOMEM, "out of memory");
    for (dop_region_id r = 1; st == DOP_OK && r < g->n_regions; r++)
        if (!g->regions[r].dead && g->regions[r].info->n_products)
            items[n++] = (product){g->regions[r].info->act, r};
    if (st == DOP_OK)
        qsort(items, n, sizeof *items, compare); /* siblings stand together */
    for (uint32_t i = 0; i < n && st == DOP_OK; i++)
        order[i] = &items[i];
    if (st == DOP_OK)
        qsort(order, n, sizeof *order, by_region);
    for (uint32_t i = 0; i < n && st == DOP_OK; i++) {
        const product *a = order[i];
        for (const product *b = a + 1; st == DOP_OK && b < items + n && b->act == a->act; b++)
            if (!g->regions[a->region].dead && !g->regions[b->region].dead &&
                g->regions[a->region].tpl == g->regions[b->region].tpl &&
                g->regions[a->region].info->ids == g->regions[b->region].info->ids &&
                g->regions[a->region].info->blocks == g->regions[b->region].info->blocks &&
                g->regions[a->region].info->slots == g->regions[b->region].info->slots)
                st = try_pair(cx, g, &f, a->region, b->region, changed);
    }
    for (dop_region_id r = 1; st == DOP_OK && r < g->n_regions; r++)
        if (!g->regions[r].dead && dop_template_of(g->regions[r].tpl)->twins)
            st = try_twins(cx, g, &f, r, changed);
    dop_flow_finish(&f);
    free(items);
    free(order);
    return st;
}
