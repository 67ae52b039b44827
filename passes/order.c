/* order: level scheduling.  Sorts regions by their depth in the data flow, so that independent dispatches are adjacent and one
 * barrier serves a whole level.  Within a level the order of the graph is kept.  A region without computed sources, such as
 * expanded weights, is placed one level before its first reader.  Its memory is then free most of the time.  Dead regions are
 * dropped. */
#include "passes/fusion/region.h"

#include <stdlib.h>

typedef struct item {
    uint32_t depth;
    dop_region_id id;
} item;

static int
compare_items(const void *a, const void *b)
{
    const item *x = a, *y = b;
    if (x->depth != y->depth)
        return x->depth < y->depth ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

/* Computes the longest path from the inputs to each region.  In the flow's order producers come before their readers. */
static void
compute_depths(const dop_flow *f, item *items)
{
    for (uint32_t n = 0; n < f->n_order; n++) {
        dop_region_id r = f->order[n];
        const dop_region *reg = &f->g->regions[r];
        for (uint32_t i = 0; i < reg->n_outs && !reg->dead; i++)
            for (uint32_t k = 0; k < f->readers[reg->outs[i]].n; k++) {
                item *to = &items[f->readers[reg->outs[i]].ids[k]];
                if (to->depth < items[r].depth + 1)
                    to->depth = items[r].depth + 1;
            }
    }
}

/* Moves regions of depth 0 to the level before their first reader. */
static void
delay_source_regions(const dop_flow *f, item *items)
{
    const dop_graph *g = f->g;
    for (dop_region_id r = 1; r < g->n_regions; r++) {
        const dop_region *reg = &g->regions[r];
        uint32_t first = UINT32_MAX;
        if (reg->dead || items[r].depth > 0)
            continue;
        for (uint32_t i = 0; i < reg->n_outs; i++)
            for (uint32_t k = 0; k < f->readers[reg->outs[i]].n; k++) {
                uint32_t depth = items[f->readers[reg->outs[i]].ids[k]].depth;
                first = depth < first ? depth : first;
            }
        if (first != UINT32_MAX && first > 0)
            items[r].depth = first - 1;
    }
}

dop_status
dop_pass_order(dop_pass_ctx *cx, dop_graph *g, bool *changed)
{
    dop_flow f = {0};
    item *items = NULL;
    dop_region *sorted = NULL;
    dop_status st = dop_flow_start(g, cx->diag, &f);
    if (st != DOP_OK)
        goto error;
    items = calloc(g->n_regions, sizeof *items);
    sorted = dop_arena_alloc(g->arena, g->n_regions * sizeof *sorted);
    if (!items || !sorted) {
        st = DOP_NO_MEMORY(cx->diag);
        goto error;
    }
    for (dop_region_id r = 0; r < g->n_regions; r++)
        items[r].id = r;
    compute_depths(&f, items);
    delay_source_regions(&f, items);
    qsort(items + 1, g->n_regions - 1, sizeof *items, compare_items);
    uint32_t n = 1;
    dop_region_id last = 0;
    for (uint32_t i = 1; i < g->n_regions; i++) {
        if (g->regions[items[i].id].dead)
            continue;
        *changed = *changed || items[i].id < last; /* dropping dead regions does not count as a change */
        last = items[i].id;
        sorted[n++] = g->regions[items[i].id];
    }
    g->regions = sorted;
    g->n_regions = n;
    g->cap_regions = n;
error:
    free(items);
    dop_flow_finish(&f);
    return st;
}
