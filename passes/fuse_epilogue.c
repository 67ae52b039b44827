/* fuse-epilogue: move a consumer into its producer's region when every element it reads was made by the same workgroup.
 * Of several possible producers the heaviest is taken (a matmul before a row reduction before element-wise code), since
 * its output is the one that would cost a dispatch of its own.  Runs after fuse-prologue. */
#include "passes/fuse.h"

static int
weight_of(dop_template t)
{
    switch (t) {
    case DOP_TPL_gemv:
    case DOP_TPL_matmul:
    case DOP_TPL_attention:
        return 3;
    case DOP_TPL_row:
        return 2;
    default:
        return 1;
    }
}

/* Distinct regions that make what r reads. */
static uint32_t
producers_of(const dop_flow *f, dop_region_id r, dop_region_id *out, uint32_t cap)
{
    const dop_region *reg = &f->g->regions[r];
    uint32_t n = 0;
    for (uint32_t i = 0; i < reg->n_nodes; i++) {
        const dop_node *x = dop_node_at(f->g, reg->nodes[i]);
        for (uint32_t k = 0; k < x->n_srcs; k++) {
            dop_node_id b = dop_node_base(f->g, x->src[k], NULL);
            dop_region_id p = f->owner[b];
            bool seen = !p || p == r || dop_region_has(reg, b);
            for (uint32_t j = 0; j < n && !seen; j++)
                seen = out[j] == p;
            if (!seen && n < cap)
                out[n++] = p;
        }
    }
    return n;
}

static dop_status
try_region(dop_pass_ctx *cx, dop_graph *g, dop_flow *f, dop_region_id r, bool *changed)
{
    dop_region_id producers[64], best = 0;
    dop_template best_tpl = DOP_TPL_none;
    uint32_t n = producers_of(f, r, producers, 64);
    for (uint32_t i = 0; i < n; i++) {
        dop_reason why;
        dop_template tpl;
        dop_status st = dop_fuse_may_epilogue(cx, f, producers[i], r, &why, &tpl);
        if (st == DOP_OK && why != DOP_REASON_none)
            st = dop_fuse_log(cx, g, producers[i], r, "fuse-epilogue", why, 0);
        if (st != DOP_OK)
            return st;
        if (why != DOP_REASON_none)
            continue;
        int a = weight_of(g->regions[producers[i]].tpl), b = best ? weight_of(g->regions[best].tpl) : 0;
        if (a > b || (a == b && producers[i] > best)) {
            best = producers[i];
            best_tpl = tpl;
        }
    }
    if (!best)
        return DOP_OK;
    dop_status st = dop_fuse_log(cx, g, best, r, "fuse-epilogue", DOP_REASON_none, 1);
    if (st == DOP_OK)
        st = dop_region_absorb(g, best, r, best_tpl, false, cx->diag);
    *changed = true;
    return st == DOP_OK ? dop_flow_update(g, cx->diag, f) : st;
}

dop_status
dop_pass_fuse_epilogue(dop_pass_ctx *cx, dop_graph *g, bool *changed)
{
    dop_flow f = {0};
    dop_status st = dop_flow_update(g, cx->diag, &f);
    for (dop_region_id r = 1; st == DOP_OK && r < g->n_regions; r++)
        if (!g->regions[r].dead)
            st = try_region(cx, g, &f, r, changed);
    dop_flow_finish(&f);
    return st;
}
