/* fuse-rows: runs a row program (statistics, sandwich norms, qk-norm with rotation) in the prologue of the region that reads it.
 * A statistic needed only after the sum is accumulated along with it.  Everything else is staged in shared memory by each
 * workgroup; for a single token this costs less than a dispatch and a barrier.  Values with other readers are stored by one
 * workgroup.  Runs last, when the row programs are complete. */
#include "ir/graph/ops.h"
#include "passes/fusion/fuse.h"

static dop_status
try_stage_of(dop_pass_ctx *cx, dop_graph *g, dop_flow *f, dop_region_id r, bool *changed)
{
    const dop_region *reg = &g->regions[r];
    for (uint32_t i = 0; i < reg->n_outs; i++)
        for (uint32_t k = 0; k < f->readers[reg->outs[i]].n; k++) {
            dop_region_id c = f->readers[reg->outs[i]].ids[k];
            dop_reason why;
            dop_status st = dop_fuse_may_stage(cx, f, r, c, &why);
            if (st == DOP_OK && dop_fuse_stages(&g->regions[c]))
                st = dop_fuse_log(cx, g, r, c, "fuse-rows", why, why == DOP_REASON_none);
            if (st != DOP_OK)
                return st;
            if (why != DOP_REASON_none)
                continue;
            return dop_flow_join(f, g, c, r, cx->diag, changed);
        }
    return DOP_OK;
}

/* True if region c, when it computes `value`, computes whole rows of it in its prologue.  Row programs do, and so do products of
 * a single token. */
static bool
computes_whole_rows(const dop_pass_ctx *cx, const dop_graph *g, const dop_region *c, dop_node_id value)
{
    uint32_t cols = dop_node_cols(g, value);
    const dop_template_info *t = dop_template_of(c->tpl);
    if (t->tile[DOP_AXIS_col] == DOP_TILE_whole && t->tile[DOP_AXIS_row] != DOP_TILE_whole)
        return c->info->has_unit && c->info->unit.units == 1 && c->info->unit.len == cols &&
               dop_node_row_multiple(g, c->nodes[0]) == dop_node_row_multiple(g, value);
    return (t->hole[0] & DOP_HOLE_ROWS) && g->max_t == 1 && dop_fuse_fits_shared(cx->target, cols) &&
           c->info->product.n_mats && c->info->product.depth == cols && dop_region_feeds(g, c, value);
}

/* Handles element-wise regions that were not fused because several regions read them.  If those have become one region, it
 * computes the value.  Otherwise one of them computes the value in its prologue and stores it for the others.  A reader that a
 * kernel path names computes it for itself. */
static dop_status
try_first_reader(dop_pass_ctx *cx, dop_graph *g, dop_flow *f, dop_region_id r, bool *changed)
{
    const dop_region *reg = &g->regions[r];
    /* A result of the graph must be stored. */
    bool only = dop_flow_n_readers(f, reg->outs[0]) == 1 && !f->output[reg->outs[0]];
    for (uint32_t k = 0; k < f->readers[reg->outs[0]].n; k++) {
        dop_region_id c = f->readers[reg->outs[0]].ids[k];
        dop_reason why = DOP_REASON_none;
        dop_status st = DOP_OK;
        if (reg->n_outs != 1)
            continue;
        const bool stores = !only && computes_whole_rows(cx, g, &g->regions[c], reg->outs[0]);
        if (!only && !stores && !dop_fuse_asked(cx, g, r, c))
            continue;
        st = dop_fuse_may_prologue(cx, f, r, c, &why);
        if (st != DOP_OK)
            return st;
        if (why != DOP_REASON_none || ((only || stores) && dop_flow_path_around(f, r, c)))
            continue;
        st = dop_fuse_log(cx, g, r, c, "fuse-rows", DOP_REASON_none, only || stores);
        if (st == DOP_OK)
            st = dop_flow_absorb(f, g, c, r, g->regions[c].tpl, !only && !stores, cx->diag);
        *changed = true;
        return st == DOP_OK ? dop_flow_settle(f, g, cx->diag) : st;
    }
    return DOP_OK;
}

dop_status
dop_pass_fuse_rows(dop_pass_ctx *cx, dop_graph *g, bool *changed)
{
    dop_flow f = {0};
    dop_status st = dop_flow_start(g, cx->diag, &f);
    for (bool more = true; more && st == DOP_OK;) { /* repeat: a joined region can now fuse its own producers */
        more = false;
        for (dop_region_id r = 1; st == DOP_OK && r < g->n_regions; r++)
            if (!g->regions[r].dead && dop_fuse_is_program(&g->regions[r]))
                st = try_stage_of(cx, g, &f, r, &more);
        *changed = *changed || more;
    }
    for (dop_region_id r = 1; st == DOP_OK && r < g->n_regions; r++)
        for (bool joined = true;
             joined && st == DOP_OK && !g->regions[r].dead && dop_fuse_is_element(&g->regions[r]);) {
            joined = false;
            st = try_first_reader(cx, g, &f, r, &joined);
            *changed = *changed || joined;
        }
    dop_flow_finish(&f);
    return st;
}
