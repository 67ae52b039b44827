/* place: memory planning.  Barriers follow from the data flow, and offsets of stored values from their lifetimes.
 *
 * A region needs a barrier before it if it reads output of a region after the last barrier.
 * Lifetimes are counted in groups (the regions between two barriers).  Two values share memory only if their groups are
 * disjoint, so that reuse never needs another barrier.  Placement is greedy, largest value first. */
#include "passes/fusion/region.h"

#include <stdlib.h>

enum { ALIGN = 256 };

typedef struct life {
    dop_node_id id;
    uint32_t first, last; /* first and last group in which the value is live */
    uint64_t size, offset;
} life;

static int
compare_lives(const void *a, const void *b)
{
    const life *x = a, *y = b;
    if (x->size != y->size)
        return x->size > y->size ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

static dop_status
compute_barrier_groups(dop_pass_ctx *cx, const dop_graph *g, const dop_flow *f, uint32_t *group)
{
    dop_placement *p = &cx->placement;
    uint32_t now = 0;
    uint32_t *reads = calloc(g->n_regions, sizeof *reads); /* 1 + the last group whose output the region reads */
    if (!reads)
        return DOP_NO_MEMORY(cx->diag);
    for (dop_region_id r = 1; r < g->n_regions; r++) {
        if (g->regions[r].dead)
            continue;
        if (reads[r] == now + 1) {
            now++;
            p->barrier[r] = true;
            p->n_barriers++;
        }
        group[r] = now;
        const dop_region *reg = &g->regions[r];
        for (uint32_t i = 0; i < reg->n_outs; i++)
            for (uint32_t k = 0; k < f->readers[reg->outs[i]].n; k++)
                reads[f->readers[reg->outs[i]].ids[k]] = now + 1;
    }
    free(reads);
    return DOP_OK;
}

static void
assign_offsets(life *lives, uint32_t n, dop_placement *p)
{
    qsort(lives, n, sizeof *lives, compare_lives);
    for (uint32_t i = 0; i < n; i++) {
        life *a = &lives[i];
        /* Finds the lowest offset that is free of all placed values with overlapping lifetimes: moves past each conflict until
         * none is left. */
        for (bool moved = true; moved;) {
            moved = false;
            for (uint32_t j = 0; j < i; j++) {
                const life *b = &lives[j];
                bool meet = a->first <= b->last && b->first <= a->last;
                if (meet && a->offset < b->offset + b->size && b->offset < a->offset + a->size) {
                    a->offset = b->offset + b->size;
                    moved = true;
                }
            }
        }
        p->values[a->id] = (dop_value_place){a->offset, a->size};
        if (a->offset + a->size > p->scratch)
            p->scratch = a->offset + a->size;
        p->unshared += a->size;
    }
}

dop_status
dop_pass_place(dop_pass_ctx *cx, dop_graph *g, bool *changed)
{
    (void)changed; /* the graph does not change; the placement is the result */
    dop_flow f = {0};
    uint32_t *group = NULL, n = 0;
    life *lives = NULL;
    dop_placement *p = &cx->placement;
    *p = (dop_placement){0};
    dop_status st = dop_flow_start(g, cx->diag, &f);
    if (st != DOP_OK)
        goto error;
    p->values = dop_arena_alloc(cx->arena, g->n_nodes * sizeof *p->values);
    p->barrier = dop_arena_alloc(cx->arena, g->n_regions * sizeof *p->barrier);
    group = calloc(g->n_regions, sizeof *group);
    lives = calloc(g->n_nodes, sizeof *lives);
    if (!p->values || !p->barrier || !group || !lives) {
        st = DOP_NO_MEMORY(cx->diag);
        goto error;
    }
    st = compute_barrier_groups(cx, g, &f, group);
    if (st != DOP_OK)
        goto error;
    for (dop_region_id r = 1; r < g->n_regions; r++)
        for (uint32_t i = 0; !g->regions[r].dead && i < g->regions[r].n_outs; i++) {
            dop_node_id id = g->regions[r].outs[i];
            /* State has a buffer of its own, and so has each result of the graph. */
            if (dop_node_is(g, id, DOP_EFFECT) || f.output[id])
                continue;
            life l = {id, group[r], group[r], dop_align_u64(dop_node_bytes(g, id), ALIGN), 0};
            for (uint32_t k = 0; k < f.readers[id].n; k++)
                if (group[f.readers[id].ids[k]] > l.last)
                    l.last = group[f.readers[id].ids[k]];
            lives[n++] = l;
        }
    assign_offsets(lives, n, p);
error:
    free(group);
    free(lives);
    dop_flow_finish(&f);
    return st;
}
