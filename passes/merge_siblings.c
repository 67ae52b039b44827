/* merge-siblings: matmuls that read the same activation share a region although their row counts differ (q, k, v; gate
 * and up; a router beside a shared expert): the grid is partitioned by row range.  Runs first, so that an element-wise
 * consumer of two of them (act(gate) * up) finds both in one region. */
#include "passes/fuse.h"

static dop_node_id
activation(const dop_graph *g, const dop_region *r)
{
    for (uint32_t i = 0; i < r->n_nodes; i++)
        if (dop_node_at(g, r->nodes[i])->op == DOP_OP_matmul)
            return dop_node_at(g, r->nodes[i])->src[0];
    return 0;
}

dop_status
dop_pass_merge_siblings(dop_pass_ctx *cx, dop_graph *g, bool *changed)
{
    dop_flow f = {0};
    dop_status st = dop_flow_update(g, cx->diag, &f);
    for (dop_region_id a = 1; st == DOP_OK && a < g->n_regions; a++) {
        if (g->regions[a].dead || (g->regions[a].tpl != DOP_TPL_gemv && g->regions[a].tpl != DOP_TPL_matmul))
            continue;
        for (dop_region_id b = a + 1; st == DOP_OK && b < g->n_regions; b++) {
            if (g->regions[b].dead || g->regions[b].tpl != g->regions[a].tpl ||
                activation(g, &g->regions[a]) != activation(g, &g->regions[b]))
                continue;
            bool ab = false, ba = false;
            st = dop_flow_path_around(&f, a, b, cx->diag, &ab);
            if (st == DOP_OK)
                st = dop_flow_path_around(&f, b, a, cx->diag, &ba);
            if (st != DOP_OK || ab || ba)
                continue;
            dop_fusion_event e = {g->regions[a].nodes[0],
                                  g->regions[b].nodes[0],
                                  "merge-siblings",
                                  DOP_REASON_none,
                                  dop_node_bytes(g, activation(g, &g->regions[a])),
                                  1};
            if (dop_fuse_disabled(cx, g, a, b)) {
                e.reason = DOP_REASON_disabled;
                e.dispatches = 0;
            } else if (dop_fuse_too_many_buffers(cx, &f, a, b, false)) {
                e.reason = DOP_REASON_arguments;
                e.dispatches = 0;
            }
            st = dop_fusion_log_add(cx->log, &e, cx->diag);
            if (st == DOP_OK && e.reason != DOP_REASON_none)
                continue;
            if (st == DOP_OK)
                st = dop_region_absorb(g, a, b, g->regions[a].tpl, false, cx->diag);
            if (st == DOP_OK)
                st = dop_flow_update(g, cx->diag, &f);
            *changed = true;
        }
    }
    dop_flow_finish(&f);
    return st;
}
