/* fuse-epilogue: moves a consumer into its producer's region if the same workgroup computes every element that it reads.  Among
 * several possible producers it joins the costliest: a matmul before a row reduction before element-wise code.  That output would
 * otherwise need a dispatch of its own.  Runs after fuse-prologue. */
#include "ir/graph/ops.h"
#include "passes/fusion/fuse.h"

/* Lists the distinct regions that compute the sources of r, in the order in which its nodes read them: out[n_regions]. */
static uint32_t
list_producers(dop_flow *f, dop_region_id r, dop_region_id *out)
{
    const dop_region *reg = &f->g->regions[r];
    uint32_t n = 0;
    for (uint32_t i = 0; i < reg->n_nodes; i++) {
        const dop_node *x = dop_node_at(f->g, reg->nodes[i]);
        for (uint32_t k = 0; k < x->n_srcs; k++) {
            dop_node_id b = dop_node_base(f->g, x->src[k], NULL);
            dop_region_id p = f->owner[b];
            if (!p || p == r || f->seen[p] || dop_region_has(reg, b))
                continue;
            f->seen[p] = 1;
            out[n++] = p;
        }
    }
    for (uint32_t i = 0; i < n; i++)
        f->seen[out[i]] = 0;
    return n;
}

static dop_status
try_epilogue_of(dop_pass_ctx *cx, dop_graph *g, dop_flow *f, dop_region_id *producers, dop_region_id r, bool *changed)
{
    dop_region_id best = 0;
    uint32_t n = list_producers(f, r, producers);
    for (uint32_t i = 0; i < n; i++) {
        dop_reason why;
        dop_status st = dop_fuse_may_epilogue(cx, f, producers[i], r, &why);
        if (st == DOP_OK && why != DOP_REASON_none)
            st = dop_fuse_log(cx, g, producers[i], r, "fuse-epilogue", why, 0);
        if (st != DOP_OK)
            return st;
        if (why != DOP_REASON_none)
            continue;
        uint32_t a = dop_template_of(g->regions[producers[i]].tpl)->cost,
                 b = best ? dop_template_of(g->regions[best].tpl)->cost : 0;
        if (a > b || (a == b && producers[i] > best))
            best = producers[i];
    }
    if (!best)
        return DOP_OK;
    dop_status st = dop_fuse_log(cx, g, best, r, "fuse-epilogue", DOP_REASON_none, 1);
    return st == DOP_OK ? dop_flow_join(f, g, best, r, cx->diag, changed) : st;
}

dop_status
dop_pass_fuse_epilogue(dop_pass_ctx *cx, dop_graph *g, bool *changed)
{
    dop_flow f = {0};
    dop_region_id *producers = dop_arena_alloc(cx->arena, g->n_regions * sizeof *producers);
    dop_status st = DOP_OK;
    DOP_TRY(producers ? dop_flow_start(g, cx->diag, &f) : DOP_NO_MEMORY(cx->diag));
    for (dop_region_id r = 1; r < g->n_regions; r++)
        if (!g->regions[r].dead)
            DOP_TRY(try_epilogue_of(cx, g, &f, producers, r, changed));
error:
    dop_flow_finish(&f);
    return st;
}
