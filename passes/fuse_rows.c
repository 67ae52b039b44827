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

/* Does region c make whole rows of `value` in its load phase, were it to compute them?  A row program does, and what
 * multiplies the one row of a single token. */
static bool
makes_rows(const dop_pass_ctx *cx, const dop_graph *g, const dop_region *c, dop_node_id value)
{
    uint32_t cols = dop_node_cols(g, value);
    dop_unit unit;
    if (c->tpl == DOP_TPL_row)
        return dop_region_unit(c, &unit) && unit.units == 1 && unit.len == cols &&
               dop_node_per_token(g, c->nodes[0]) == dop_node_per_token(g, value);
    if (c->tpl != DOP_TPL_gemv || g->max_t > 1 || !dop_fuse_fits_shared(cx->target, cols))
        return false;
    for (uint32_t i = 0; i < c->n_nodes; i++) {
        const dop_node *n = dop_node_at(g, c->nodes[i]);
        if (n->op == DOP_OP_matmul && dop_node_cols(g, n->src[0]) == cols)
            return dop_fuse_feeds(g, c, value, n->src[0]);
    }
    return false;
}

/* What was left element-wise because several regions read it: if they have become one, that one computes it; else one of
 * them makes it on the way and stores it for the others. */
static dop_status
try_first_reader(dop_pass_ctx *cx, dop_graph *g, dop_flow *f, dop_region_id r, bool *changed)
{
    const dop_region *reg = &g->regions[r];
    bool only = dop_flow_n_readers(f, reg->outs[0]) == 1;
    for (uint32_t i = 0; i < g->n_outs; i++) /* a result of the graph has to be stored */
        only = only && dop_node_base(g, g->outs[i], NULL) != reg->outs[0];
    for (uint32_t k = f->first_reader[reg->outs[0]]; k < f->first_reader[reg->outs[0] + 1]; k++) {
        dop_region_id c = f->readers[k];
        bool around = false;
        if (reg->n_outs != 1 || (!only && !makes_rows(cx, g, &g->regions[c], reg->outs[0])) ||
            dop_fuse_may_prologue(cx, f, r, c) != DOP_REASON_none || dop_fuse_too_many_buffers(cx, f, r, c, only))
            continue;
        dop_status st = dop_flow_path_around(f, r, c, cx->diag, &around);
        if (st == DOP_OK && around)
            continue;
        if (st == DOP_OK)
            st = dop_fuse_log(cx, g, r, c, "fuse-rows", DOP_REASON_none, 1);
        if (st == DOP_OK)
            st = dop_region_absorb(g, c, r, g->regions[c].tpl, false, cx->diag);
        *changed = true;
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
    for (dop_region_id r = 1; st == DOP_OK && r < g->n_regions; r++)
        if (!g->regions[r].dead && g->regions[r].tpl == DOP_TPL_elementwise)
            st = try_first_reader(cx, g, &f, r, changed);
    dop_flow_finish(&f);
    return st;
}
