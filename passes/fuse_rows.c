/* fuse-rows: run a row program (statistics, sandwich norms, qk-norm with rotation) in the load phase of the region that
 * reads it.  A statistic wanted only after the sum is accumulated beside it; anything else is staged in shared memory by
 * each workgroup, which costs less than a dispatch and a barrier when there is one token.  Values that others read too
 * are stored by one workgroup.  Runs last: only now the row programs are complete. */
#include "passes/fuse.h"

static dop_status
try_region(dop_pass_ctx *cx, dop_graph *g, dop_flow *f, dop_region_id r, bool *changed)
{
    const dop_region *reg = &g->regions[r];
    for (uint32_t i = 0; i < reg->n_outs; i++)
        for (uint32_t k = f->first_reader[reg->outs[i]]; k < f->first_reader[reg->outs[i] + 1]; k++) {
            dop_region_id c = f->readers[k];
            dop_reason why;
            dop_status st = dop_fuse_may_stage(cx, f, r, c, &why);
            if (st == DOP_OK && (g->regions[c].tpl == DOP_TPL_gemv || g->regions[c].tpl == DOP_TPL_matmul ||
                                 g->regions[c].tpl == DOP_TPL_attention))
                st = dop_fuse_log(cx, g, r, c, "fuse-rows", why, why == DOP_REASON_none);
            if (st != DOP_OK)
                return st;
            if (why != DOP_REASON_none)
                continue;
            *changed = true;
            st = dop_region_absorb(g, c, r, g->regions[c].tpl, false, cx->diag);
            return st == DOP_OK ? dop_flow_update(g, cx->diag, f) : st;
        }
    return DOP_OK;
}

dop_status
dop_pass_fuse_rows(dop_pass_ctx *cx, dop_graph *g, bool *changed)
{
    dop_flow f = {0};
    dop_status st = dop_flow_update(g, cx->diag, &f);
    for (dop_region_id r = 1; st == DOP_OK && r < g->n_regions; r++)
        if (!g->regions[r].dead && g->regions[r].tpl == DOP_TPL_row)
            st = try_region(cx, g, &f, r, changed);
    dop_flow_finish(&f);
    return st;
}
