#include "passes/fusion/region.h"

#include "ir/graph/cache_row.h"
#include "ir/graph/dims.h"
#include "ir/region/region.h"

#include <stdlib.h>
#include <string.h>

bool
dop_node_computed(const dop_graph *g, dop_node_id id)
{
    return !(dop_op_of(dop_node_at(g, id)->op)->traits & (DOP_LEAF | DOP_VIEW));
}

uint64_t
dop_node_bytes(const dop_graph *g, dop_node_id id)
{
    const dop_node *n = dop_node_at(g, id);
    uint64_t rows = 1, bytes = 0;
    if (dop_cache_blocks(n->type) && dop_shape_appends(&n->shape))
        return dop_node_rows(g, id, g->max_t) * dop_cache_row_bytes(n->type, dop_node_cols(g, id));
    for (uint32_t i = 0; i + 1 < n->shape.rank; i++)
        rows *= dop_dim_value(g, n->shape.dim[i], g->max_t);
    if (!dop_type_row_bytes(n->type, dop_dim_value(g, n->shape.dim[n->shape.rank - 1], g->max_t), &bytes))
        return UINT64_MAX;
    return rows * bytes;
}

void
dop_region_reads(const dop_region *r, dop_reads_fn fn, void *user)
{
    for (uint32_t i = 0; i < r->info->n_reads; i++)
        fn(user, r->info->reads[i]);
}

/* --- sets -------------------------------------------------------------------------------------------------------- */

static uint32_t
find_in_set(const dop_region_set *s, dop_region_id r)
{
    uint32_t i = s->n; /* new regions mostly come last, and sets are small */
    while (i > 0 && s->ids[i - 1] >= r)
        i--;
    return i;
}

static dop_status
add_to_set(dop_region_set *s, dop_region_id r, dop_diag *diag)
{
    uint32_t at = find_in_set(s, r);
    if (at < s->n && s->ids[at] == r)
        return DOP_OK;
    if (s->n == s->cap) {
        uint32_t cap = s->cap ? s->cap * 2 : 2;
        dop_region_id *ids = realloc(s->ids, cap * sizeof *ids);
        if (!ids)
            return DOP_NO_MEMORY(diag);
        s->ids = ids;
        s->cap = cap;
    }
    memmove(s->ids + at + 1, s->ids + at, (s->n - at) * sizeof *s->ids);
    s->ids[at] = r;
    s->n++;
    return DOP_OK;
}

static void
remove_from_set(dop_region_set *s, dop_region_id r)
{
    uint32_t at = find_in_set(s, r);
    if (at == s->n || s->ids[at] != r)
        return;
    s->n--;
    memmove(s->ids + at, s->ids + at + 1, (s->n - at) * sizeof *s->ids);
}

/* --- flow -------------------------------------------------------------------------------------------------------- */

static dop_status
mark_dirty(dop_flow *f, dop_region_id r, dop_diag *diag)
{
    if (!r || f->is_dirty[r] || f->g->regions[r].dead)
        return DOP_OK;
    if (f->n_dirty == f->cap_dirty) {
        uint32_t cap = f->cap_dirty ? f->cap_dirty * 2 : 64;
        dop_region_id *p = realloc(f->dirty, cap * sizeof *p);
        if (!p)
            return DOP_NO_MEMORY(diag);
        f->dirty = p;
        f->cap_dirty = cap;
    }
    f->dirty[f->n_dirty++] = r;
    f->is_dirty[r] = true;
    return DOP_OK;
}

static dop_status
add_flow_reads(dop_flow *f, dop_region_id r, dop_diag *diag)
{
    const dop_analysis *a = f->g->regions[r].info;
    for (uint32_t i = 0; i < a->n_reads; i++)
        if (dop_node_computed(f->g, a->reads[i])) {
            DOP_RETURN_IF_ERROR(add_to_set(&f->readers[a->reads[i]], r, diag));
            DOP_RETURN_IF_ERROR(mark_dirty(f, f->owner[a->reads[i]], diag));
        }
    return DOP_OK;
}

static dop_status
drop_flow_reads(dop_flow *f, dop_region_id r, dop_diag *diag)
{
    const dop_analysis *a = f->g->regions[r].info;
    for (uint32_t i = 0; i < a->n_reads; i++) {
        remove_from_set(&f->readers[a->reads[i]], r);
        DOP_RETURN_IF_ERROR(mark_dirty(f, f->owner[a->reads[i]], diag));
    }
    return DOP_OK;
}

/* Sets the owner of a value: the first region that holds it.  This may change with the holders. */
static dop_status
set_owner(dop_flow *f, dop_node_id id, dop_diag *diag)
{
    dop_region_id before = f->owner[id], now = f->holders[id].n ? f->holders[id].ids[0] : 0;
    f->owner[id] = now;
    if (now == before)
        return DOP_OK;
    DOP_RETURN_IF_ERROR(mark_dirty(f, before, diag));
    return mark_dirty(f, now, diag);
}

/* Orders regions by depth-first search, producers before readers, so that dependent regions are neighbours. */
static dop_status
find_flow_order(dop_flow *f, dop_diag *diag)
{
    const dop_graph *g = f->g;
    enum { NEW, OPEN, DONE };
    uint32_t *next = calloc(g->n_regions, sizeof *next); /* [n_regions] next read to visit */
    if (!next)
        return DOP_NO_MEMORY(diag);
    f->n_order = 0;
    for (dop_region_id root = 1; root < g->n_regions; root++) {
        uint32_t depth = 0;
        if (g->regions[root].dead || f->seen[root] != NEW)
            continue;
        f->stack[depth++] = root;
        while (depth) {
            dop_region_id r = f->stack[depth - 1], from = 0;
            const dop_analysis *a = g->regions[r].info;
            f->seen[r] = OPEN;
            while (next[r] < a->n_reads && !from) {
                from = f->owner[a->reads[next[r]++]];
                from = from && f->seen[from] == NEW ? from : 0;
            }
            if (from) {
                f->stack[depth++] = from;
                continue;
            }
            f->seen[r] = DONE;
            f->place[r] = f->n_order;
            f->order[f->n_order++] = r;
            depth--;
        }
    }
    memset(f->seen, 0, g->n_regions);
    free(next);
    return DOP_OK;
}

dop_status
dop_flow_init(const dop_graph *g, dop_diag *diag, dop_flow *out_flow)
{
    dop_flow *f = out_flow;
    dop_status st = DOP_OK;
    *f = (dop_flow){.g = g};
    f->owner = calloc(g->n_nodes, sizeof *f->owner);
    f->readers = calloc(g->n_nodes, sizeof *f->readers);
    f->holders = calloc(g->n_nodes, sizeof *f->holders);
    f->output = calloc(g->n_nodes, sizeof *f->output);
    f->place = calloc(g->n_regions, sizeof *f->place);
    f->order = calloc(g->n_regions, sizeof *f->order);
    f->seen = calloc(g->n_regions, sizeof *f->seen);
    f->stack = calloc(g->n_regions, sizeof *f->stack);
    f->is_dirty = calloc(g->n_regions, sizeof *f->is_dirty);
    if (!f->owner || !f->readers || !f->holders || !f->output || !f->place || !f->order || !f->seen || !f->stack ||
        !f->is_dirty) {
        st = DOP_NO_MEMORY(diag);
        goto error;
    }
    for (uint32_t i = 0; i < g->n_outs; i++)
        f->output[dop_node_base(g, g->outs[i], NULL)] = true;
    for (dop_region_id r = 1; r < g->n_regions; r++)
        for (uint32_t i = 0; !g->regions[r].dead && i < g->regions[r].n_nodes && st == DOP_OK; i++) {
            dop_node_id id = g->regions[r].nodes[i];
            st = add_to_set(&f->holders[id], r, diag);
            f->owner[id] = f->owner[id] ? f->owner[id] : r;
        }
    for (dop_region_id r = 1; r < g->n_regions && st == DOP_OK; r++)
        if (!g->regions[r].dead)
            st = add_flow_reads(f, r, diag);
    if (st == DOP_OK)
        st = find_flow_order(f, diag);
error:
    if (st != DOP_OK)
        dop_flow_finish(f);
    return st;
}

void
dop_flow_finish(dop_flow *f)
{
    for (dop_node_id id = 0; f->g && id < f->g->n_nodes; id++) {
        if (f->readers)
            free(f->readers[id].ids);
        if (f->holders)
            free(f->holders[id].ids);
    }
    free(f->owner);
    free(f->readers);
    free(f->holders);
    free(f->output);
    free(f->place);
    free(f->order);
    free(f->seen);
    free(f->stack);
    free(f->dirty);
    free(f->is_dirty);
    memset(f, 0, sizeof *f);
}

/* True if region r must store the node, given its readers. */
static bool
must_store_node(const dop_flow *f, dop_region_id r, dop_node_id id)
{
    /* State is for later steps; partial results cross workgroups even if the region merges them itself. */
    return f->owner[id] == r && (dop_node_is(f->g, id, DOP_EFFECT | DOP_PARTIAL) || f->readers[id].n || f->output[id] ||
                                 dop_region_hands_on(&f->g->regions[r], id));
}

static dop_status
drop_region(dop_flow *f, dop_graph *g, dop_region_id r, dop_diag *diag)
{
    dop_region *reg = &g->regions[r];
    reg->dead = true;
    for (uint32_t i = 0; i < reg->n_nodes; i++) {
        remove_from_set(&f->holders[reg->nodes[i]], r);
        DOP_RETURN_IF_ERROR(set_owner(f, reg->nodes[i], diag));
    }
    return drop_flow_reads(f, r, diag);
}

static dop_status
find_outs(dop_flow *f, dop_graph *g, dop_region_id r, dop_diag *diag)
{
    dop_region *reg = &g->regions[r];
    uint32_t n = 0;
    bool same = true;
    for (uint32_t i = 0; i < reg->n_nodes; i++)
        if (must_store_node(f, r, reg->nodes[i])) {
            same = same && n < reg->n_outs && reg->outs[n] == reg->nodes[i];
            n++;
        }
    if (n == 0)
        return drop_region(f, g, r, diag);
    if (same && n == reg->n_outs)
        return DOP_OK;
    dop_node_id *outs = n <= reg->n_outs ? reg->outs : dop_arena_alloc(g->arena, n * sizeof *outs);
    if (!outs)
        return DOP_NO_MEMORY(diag);
    reg->outs = outs;
    reg->n_outs = n;
    for (uint32_t i = 0, k = 0; i < reg->n_nodes; i++)
        if (must_store_node(f, r, reg->nodes[i]))
            outs[k++] = reg->nodes[i];
    return dop_region_describe(g, reg, diag);
}

dop_status
dop_flow_settle(dop_flow *f, dop_graph *g, dop_diag *diag)
{
    while (f->n_dirty) {
        /* dropping a region may leave another one without readers */
        dop_region_id r = f->dirty[--f->n_dirty];
        f->is_dirty[r] = false;
        if (!g->regions[r].dead)
            DOP_RETURN_IF_ERROR(find_outs(f, g, r, diag));
    }
    return DOP_OK;
}

dop_status
dop_flow_start(dop_graph *g, dop_diag *diag, dop_flow *out_flow)
{
    DOP_RETURN_IF_ERROR(dop_flow_init(g, diag, out_flow));
    for (dop_region_id r = g->n_regions; r-- > 1;)
        DOP_RETURN_IF_ERROR(mark_dirty(out_flow, r, diag));
    return dop_flow_settle(out_flow, g, diag);
}

/* Marks in f->seen the regions reachable from a without passing b, up to place `last`.  The caller clears f->seen for places from
 * a's to `last`.  *out_meets: b is reachable through a region other than a. */
static void
mark_readers(const dop_flow *f, dop_region_id a, dop_region_id b, uint32_t last, bool *out_meets)
{
    uint32_t n = 0;
    *out_meets = false;
    f->stack[n++] = a;
    f->seen[a] = 1;
    while (n > 0) {
        dop_region_id r = f->stack[--n];
        const dop_region *reg = &f->g->regions[r];
        for (uint32_t i = 0; i < reg->n_nodes; i++) {
            const dop_region_set *to = &f->readers[reg->nodes[i]];
            for (uint32_t k = 0; f->owner[reg->nodes[i]] == r && k < to->n; k++) {
                dop_region_id next = to->ids[k];
                *out_meets = *out_meets || (next == b && r != a);
                if (next == b || f->seen[next] || f->place[next] > last)
                    continue;
                f->seen[next] = 1;
                f->stack[n++] = next;
            }
        }
    }
}

static void
clear_seen(const dop_flow *f, uint32_t first, uint32_t last)
{
    for (uint32_t i = first; i <= last; i++)
        f->seen[f->order[i]] = 0;
}

bool
dop_flow_path_around(const dop_flow *f, dop_region_id a, dop_region_id b)
{
    bool path = false;
    if (f->place[a] > f->place[b]) /* readers come later */
        return false;
    mark_readers(f, a, b, f->place[b], &path);
    clear_seen(f, f->place[a], f->place[b]);
    return path;
}

bool
dop_flow_path_between(const dop_flow *f, dop_region_id a, dop_region_id b)
{
    return f->place[a] < f->place[b] ? dop_flow_path_around(f, a, b) : dop_flow_path_around(f, b, a);
}

static bool
is_region_read_by(const dop_flow *f, dop_region_id a, dop_region_id b)
{
    const dop_region *r = &f->g->regions[a];
    bool reads = false;
    for (uint32_t i = 0; i < r->n_outs; i++)
        for (uint32_t k = 0; k < f->readers[r->outs[i]].n; k++)
            reads = reads || f->readers[r->outs[i]].ids[k] == b;
    return reads;
}

bool
dop_flow_reads(const dop_flow *f, dop_region_id a, dop_region_id b)
{
    return is_region_read_by(f, a, b) || is_region_read_by(f, b, a);
}

/* Moves both regions to adjacent places in the order.  Regions between them that depend on the first move after these places, the
 * others before. */
static dop_status
join_places(dop_flow *f, dop_region_id dst, dop_region_id src, dop_diag *diag)
{
    dop_region_id first = f->place[dst] < f->place[src] ? dst : src, second = first == dst ? src : dst;
    uint32_t from = f->place[first], to = f->place[second], n = from;
    bool meets;
    if (from == to)
        return DOP_OK;
    dop_region_id *after = malloc((to - from) * sizeof *after);
    uint32_t n_after = 0;
    if (!after)
        return DOP_NO_MEMORY(diag);
    mark_readers(f, first, second, to, &meets);
    for (uint32_t i = from + 1; i < to; i++) {
        dop_region_id r = f->order[i];
        if (f->seen[r])
            after[n_after++] = r;
        else
            f->order[n++] = r;
        f->seen[r] = 0;
    }
    f->seen[first] = f->seen[second] = 0;
    f->order[n++] = src; /* both places belong to the joined region; the dead one is never looked up */
    f->order[n++] = dst;
    for (uint32_t i = 0; i < n_after; i++)
        f->order[n++] = after[i];
    for (uint32_t i = from; i <= to; i++)
        f->place[f->order[i]] = i;
    free(after);
    return DOP_OK;
}

static dop_status
join_nodes(dop_graph *g, dop_region *d, const dop_region *s, dop_diag *diag)
{
    dop_node_id *nodes = dop_arena_alloc(g->arena, (d->n_nodes + s->n_nodes) * sizeof *nodes);
    uint32_t n = 0, i = 0, k = 0;
    if (!nodes)
        return DOP_NO_MEMORY(diag);
    while (i < d->n_nodes || k < s->n_nodes) {
        bool left = k == s->n_nodes || (i < d->n_nodes && d->nodes[i] <= s->nodes[k]);
        dop_node_id id = left ? d->nodes[i] : s->nodes[k];
        i += i < d->n_nodes && d->nodes[i] == id;
        k += k < s->n_nodes && s->nodes[k] == id;
        nodes[n++] = id;
    }
    d->nodes = nodes;
    d->n_nodes = n;
    return DOP_OK;
}

dop_status
dop_flow_absorb(dop_flow *f, dop_graph *g, dop_region_id dst, dop_region_id src, dop_template tpl, bool keep_src,
                dop_diag *diag)
{
    dop_region *d = &g->regions[dst], *s = &g->regions[src];
    dop_status st = keep_src ? DOP_OK : join_places(f, dst, src, diag);
    if (st == DOP_OK)
        st = drop_flow_reads(f, dst, diag);
    if (st == DOP_OK && !keep_src)
        st = drop_flow_reads(f, src, diag);
    if (st == DOP_OK)
        st = join_nodes(g, d, s, diag);
    if (st != DOP_OK)
        return st;
    d->tpl = tpl;
    s->dead = !keep_src;
    for (uint32_t i = 0; i < s->n_nodes && st == DOP_OK; i++) {
        dop_node_id id = s->nodes[i];
        st = add_to_set(&f->holders[id], dst, diag);
        if (!keep_src)
            remove_from_set(&f->holders[id], src);
        remove_from_set(&f->readers[id], dst);
        if (st == DOP_OK)
            st = set_owner(f, id, diag);
    }
    if (st == DOP_OK)
        st = dop_region_describe(g, d, diag);
    if (st == DOP_OK)
        st = add_flow_reads(f, dst, diag);
    return st == DOP_OK ? mark_dirty(f, dst, diag) : st;
}

dop_status
dop_flow_join(dop_flow *f, dop_graph *g, dop_region_id dst, dop_region_id src, dop_diag *diag, bool *changed)
{
    dop_status st = dop_flow_absorb(f, g, dst, src, g->regions[dst].tpl, false, diag);
    *changed = true;
    return st == DOP_OK ? dop_flow_settle(f, g, diag) : st;
}
