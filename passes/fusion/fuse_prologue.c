/* fuse-prologue: moves an element-wise producer into the prologue of every region that reads it, if recomputation is faster than
 * a round trip through memory.  Runs before fuse-epilogue, and leaves to it everything that can be computed from a value still in
 * a register. */
#include "ir/graph/access.h"
#include "passes/fusion/fuse.h"

/* Decides whether to leave the region for fuse-epilogue.  It should join a costly region that computes one of its sources for it
 * alone, since that source then need not be stored.  The same holds after a region that is left for this reason (`later`). */
static dop_status
prefers_epilogue(dop_pass_ctx *cx, const dop_flow *f, const bool *later, dop_region_id r, bool *out_yes)
{
    const dop_graph *g = f->g;
    const dop_region *reg = &g->regions[r];
    *out_yes = dop_fuse_may_wait(cx, f, later, r);
    for (uint32_t i = 0; i < reg->n_nodes && !*out_yes; i++) {
        const dop_node *n = dop_node_at(g, reg->nodes[i]);
        for (uint32_t k = 0; k < n->n_srcs; k++) {
            dop_node_id b = dop_node_base(g, n->src[k], NULL);
            dop_region_id p = f->owner[b];
            if (!p || p == r || dop_flow_n_readers(f, b) != 1 || (dop_fuse_is_element(&g->regions[p]) && !later[p]))
                continue;
            dop_reason why;
            dop_status st = dop_fuse_may_epilogue(cx, f, p, r, &why);
            if (st != DOP_OK)
                return st;
            if (why == DOP_REASON_none) {
                *out_yes = true;
                return DOP_OK;
            }
        }
    }
    return DOP_OK;
}

/* True if computing the region in each of its n readers is faster than storing its value once.  Gathered rows are always stored
 * for costly readers: recomputation would give the first layer kernels of its own, while every other layer reads its input from
 * memory. fuse-rows then finds the reader that computes them.  A region that reads several rows for each of its own is stored,
 * too, since every reader would read all of them again. */
static bool
recompute_pays(const dop_graph *g, const dop_target *t, const dop_region *reg, const dop_region_id *readers, uint32_t n)
{
    bool gathers = false, costly = false;
    for (uint32_t i = 0; i < reg->n_nodes; i++) {
        gathers = gathers || dop_node_gathers(g, reg->nodes[i]);
        for (uint32_t k = 0; k < dop_node_at(g, reg->nodes[i])->n_srcs; k++)
            if (g->max_t > 1 && dop_node_map(g, reg->nodes[i], k, DOP_AXIS_row).reach == DOP_REACH_FEW)
                return false;
    }
    for (uint32_t i = 0; i < n; i++)
        costly = costly || !dop_fuse_is_element(&g->regions[readers[i]]);
    if (gathers && costly)
        return false;
    const dop_fuse_times times = dop_fuse_times_of(g, t, reg, n);
    return times.again_us <= times.stored_us;
}

typedef struct work {
    bool *later;            /* [n_regions] true if left for fuse-epilogue */
    dop_region_id *readers; /* [n_regions] readers of the current region */
    dop_reason *each;       /* [n_regions] reason why each reader cannot compute the value */
} work;

/* Lists the distinct regions that read any output of `reg`. */
static uint32_t
list_reader_regions(dop_flow *f, const dop_region *reg, dop_region_id *out)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < reg->n_outs; i++)
        for (uint32_t k = 0; k < f->readers[reg->outs[i]].n; k++) {
            dop_region_id to = f->readers[reg->outs[i]].ids[k];
            if (!f->seen[to])
                out[n++] = to;
            f->seen[to] = 1;
        }
    for (uint32_t i = 0; i < n; i++)
        f->seen[out[i]] = 0;
    return n;
}

/* The value stays stored, since some reader cannot compute it or should not.  Readers that a kernel path names still compute it,
 * and are removed from w->readers. */
static dop_status
compute_where_asked(dop_pass_ctx *cx, dop_graph *g, dop_flow *f, work *w, dop_region_id r, uint32_t *io_n,
                    bool *changed)
{
    uint32_t left = 0;
    dop_status st = DOP_OK;
    for (uint32_t i = 0; i < *io_n && st == DOP_OK; i++) {
        const dop_region_id reader = w->readers[i];
        if (w->each[i] != DOP_REASON_none || !dop_fuse_asked(cx, g, r, reader)) {
            w->each[left] = w->each[i];
            w->readers[left++] = reader;
            continue;
        }
        st = dop_fuse_log(cx, g, r, reader, "fuse-prologue", DOP_REASON_none, 0);
        if (st == DOP_OK)
            st = dop_flow_absorb(f, g, reader, r, g->regions[reader].tpl, true, cx->diag);
        if (st == DOP_OK)
            st = dop_flow_settle(f, g, cx->diag);
        *changed = true;
    }
    *io_n = left;
    return st;
}

static dop_status
try_prologue_of(dop_pass_ctx *cx, dop_graph *g, dop_flow *f, work *w, dop_region_id r, bool *changed)
{
    dop_region *reg = &g->regions[r];
    dop_region_id *readers = w->readers;
    dop_reason why = DOP_REASON_none, *each = w->each;
    uint32_t n = list_reader_regions(f, reg, readers);
    dop_status st = DOP_OK;
    if (n == 0)
        return DOP_OK;
    for (uint32_t i = 0; i < reg->n_nodes; i++)
        if (f->output[reg->nodes[i]])
            return DOP_OK; /* a result of the graph must be stored */
    for (uint32_t i = 0; i < n && st == DOP_OK; i++) {
        st = dop_fuse_may_prologue(cx, f, r, readers[i], &each[i]);
        if (why == DOP_REASON_none)
            why = each[i];
    }
    if (st != DOP_OK)
        return st;
    if (why == DOP_REASON_none) {
        st = prefers_epilogue(cx, f, w->later, r, &w->later[r]);
        if (st != DOP_OK || w->later[r])
            return st;
        if (n > 1 && !recompute_pays(g, cx->target, reg, readers, n))
            why = DOP_REASON_multiple_readers;
    }
    if (why != DOP_REASON_none)
        st = compute_where_asked(cx, g, f, w, r, &n, changed);
    /* If one reader cannot compute the value, it is stored, and the others read it too. */
    for (uint32_t i = 0; i < n && st == DOP_OK; i++)
        st = dop_fuse_log(cx, g, r, readers[i], "fuse-prologue",
                          why != DOP_REASON_none && each[i] == DOP_REASON_none ? DOP_REASON_multiple_readers : each[i],
                          why == DOP_REASON_none && i == 0);
    if (why != DOP_REASON_none)
        return st;
    for (uint32_t i = 0; i < n && st == DOP_OK; i++)
        st = dop_flow_absorb(f, g, readers[i], r, g->regions[readers[i]].tpl, i + 1 < n, cx->diag);
    *changed = true;
    return st == DOP_OK ? dop_flow_settle(f, g, cx->diag) : st;
}

dop_status
dop_pass_fuse_prologue(dop_pass_ctx *cx, dop_graph *g, bool *changed)
{
    dop_flow f = {0};
    work w = {dop_arena_alloc(cx->arena, g->n_regions * sizeof *w.later),
              dop_arena_alloc(cx->arena, g->n_regions * sizeof *w.readers),
              dop_arena_alloc(cx->arena, g->n_regions * sizeof *w.each)};
    if (!w.later || !w.readers || !w.each)
        return DOP_NO_MEMORY(cx->diag);
    dop_status st = DOP_OK;
    DOP_TRY(dop_flow_start(g, cx->diag, &f));
    for (dop_region_id r = 1; r < g->n_regions; r++)
        if (!g->regions[r].dead && dop_fuse_is_element(&g->regions[r]))
            DOP_TRY(try_prologue_of(cx, g, &f, &w, r, changed));
error:
    dop_flow_finish(&f);
    return st;
}
