/* select: binds a kernel variant and a tile to each region.  The compiler's callback chooses, since it has the kernels, kernel
 * paths and tuning files.  The choice is stored in the graph, so that dumps and plans show it.  Runs last: a region that changes
 * afterwards could need another kernel. */
#include "passes/pass.h"

dop_status
dop_pass_select(dop_pass_ctx *cx, dop_graph *g, bool *changed)
{
    const uint64_t before = dop_graph_hash(g);
    dop_status st = DOP_OK;
    for (dop_region_id r = 1; cx->select && r < g->n_regions; r++)
        if (!g->regions[r].dead)
            DOP_TRY(cx->select(cx->user, g, r, &g->regions[r].variant, &g->regions[r].tile));
error:
    *changed = dop_graph_hash(g) != before;
    return st;
}
