/* merge-rows: row programs over vectors of one length that do not depend on each other (rotation of q, rotation and
 * cache write of k) share a dispatch; the grid is partitioned by unit.  Runs after fuse-rows took what it could. */
#include "passes/fuse.h"

static bool
may_merge(const dop_graph *g, const dop_region *a, const dop_region *b)
{
    return b->tpl == DOP_TPL_row && a->info->has_unit && b->info->has_unit && a->info->unit.len == b->info->unit.len &&
           dop_node_per_token(g, a->nodes[0]) == dop_node_per_token(g, b->nodes[0]);
}

dop_status
dop_pass_merge_rows(dop_pass_ctx *cx, dop_graph *g, bool *changed)
{
    dop_flow f = {0};
    dop_status st = dop_flow_start(g, cx->diag, &f);
    for (dop_region_id a = 1; st == DOP_OK && a < g->n_regions; a++) {
        if (g->regions[a].dead || g->regions[a].tpl != DOP_TPL_row)
            continue;
        /* Siblings are near each other: looking further would only lengthen lifetimes. */
        for (dop_region_id b = a + 1; st == DOP_OK && b < g->n_regions && b < a + 16; b++) {
            if (g->regions[b].dead || !may_merge(g, &g->regions[a], &g->regions[b]))
                continue;
            bool direct = false;
            for (uint32_t i = 0; i < g->regions[a].n_outs; i++)
                for (uint32_t k = 0; k < f.readers[g->regions[a].outs[i]].n; k++)
                    direct = direct || f.readers[g->regions[a].outs[i]].ids[k] == b;
            if (direct || dop_flow_path_between(&f, a, b))
                continue;
            dop_fusion_event e = {g->regions[a].outs[0], g->regions[b].outs[0], "merge-rows", DOP_REASON_none, 0, 1};
            if (dop_fuse_disabled(cx, g, a, b)) {
                e.reason = DOP_REASON_disabled;
                e.dispatches = 0;
            }
            st = dop_fusion_log_add(cx->log, &e, cx->diag);
            if (st == DOP_OK && e.reason != DOP_REASON_none)
                continue;
            if (st == DOP_OK)
                st = dop_flow_absorb(&f, g, a, b, DOP_TPL_row, false, cx->diag);
            if (st == DOP_OK)
                st = dop_flow_settle(&f, g, cx->diag);
            *changed = true;
        }
    }
    dop_flow_finish(&f);
    return st;
}
