#include "ir/graph.h"

#include "ir/region.h"
#include "ir/shapes.h"

#include <stdlib.h>
#include <string.h>

/* A hostile text cannot ask for more: 32-bit handles stay far from wrapping. */
enum { MAX_NODES = 1 << 22, MAX_REGIONS = 1 << 22 };

static dop_status
no_memory(dop_diag *diag)
{
    return DOP_FAIL(diag, DOP_E_NOMEM, "out of memory");
}

/* Room for one more item; the old array stays in the arena. */
static bool
grow(dop_arena *arena, void **items, uint32_t n, uint32_t *cap, size_t item_size)
{
    if (n < *cap)
        return true;
    uint32_t new_cap = *cap ? *cap * 2 : 64;
    void *p = dop_arena_alloc(arena, new_cap * item_size);
    if (!p)
        return false;
    if (n)
        memcpy(p, *items, n * item_size);
    *items = p;
    *cap = new_cap;
    return true;
}

dop_status
dop_graph_init(dop_graph *g, dop_arena *arena, const char *name, uint32_t max_t, uint32_t max_s, dop_diag *diag)
{
    memset(g, 0, sizeof *g);
    if (!dop_name_ok(name))
        return DOP_FAIL(diag, DOP_E_INTERNAL, "a graph cannot be named '%.100s'", name);
    if (max_t < 1 || max_s < 1)
        return DOP_FAIL(diag, DOP_E_INTERNAL, "graph %s: T and S must be at least 1", name);
    g->arena = arena;
    g->max_t = max_t;
    g->max_s = max_s;
    g->max_q = 1;
    g->name = dop_arena_strdup(arena, name);
    if (!g->name || !grow(arena, (void **)&g->nodes, 0, &g->cap_nodes, sizeof *g->nodes) ||
        !grow(arena, (void **)&g->regions, 0, &g->cap_regions, sizeof *g->regions))
        return no_memory(diag);
    g->n_nodes = g->n_regions = 1;
    g->nodes[0].name = g->nodes[0].label = "";
    return DOP_OK;
}

/* Made-up names are x<number>; the counter stays above every such name that was given. */
static void
note_name(dop_graph *g, const char *name)
{
    size_t digits = name[0] == 'x' ? strspn(name + 1, "0123456789") : 0;
    if (digits == 0 || digits > 18 || name[1 + digits] != 0)
        return;
    uint64_t v = strtoull(name + 1, NULL, 10);
    if (v >= g->next_name)
        g->next_name = v + 1;
}

dop_status
dop_graph_add(dop_graph *g, dop_op op, const char *name, const dop_node_id *srcs, uint32_t n_srcs,
              const dop_attr *attrs, const dop_want *want, dop_diag *diag, dop_node_id *out_id)
{
    const dop_op_info *info = dop_op_of(op);
    dop_node n = {.op = op, .n_srcs = n_srcs, .label = ""};
    for (uint32_t i = 0; i < n_srcs && i < DOP_MAX_SRCS; i++) /* before *out_id, which may be one of them */
        n.src[i] = srcs[i];
    *out_id = 0;
    if (g->n_nodes >= MAX_NODES)
        return DOP_FAIL(diag, DOP_E_INTERNAL, "graph %s: more than %d nodes", g->name, MAX_NODES);
    if (name && !dop_name_ok(name))
        return DOP_FAIL(diag, DOP_E_INTERNAL, "a node cannot be named '%.100s'", name);
    for (uint32_t i = 0; i < n_srcs && i < DOP_MAX_SRCS; i++) {
        if (n.src[i] == 0 || n.src[i] >= g->n_nodes)
            return DOP_FAIL(diag, DOP_E_INTERNAL, "%%%s: %s source %u is not a node", name ? name : "?", info->name, i);
    }
    char *own =
        name ? dop_arena_strdup(g->arena, name) : dop_arena_printf(g->arena, "x%llu", (unsigned long long)g->next_name);
    if (!own)
        return no_memory(diag);
    n.name = own;
    dop_want got;
    dop_status st = dop_shape_infer(g, op, own, n.src, n_srcs, attrs, want, diag, &got);
    if (st != DOP_OK)
        return st;
    n.type = got.type;
    n.shape = got.shape;
    for (uint8_t k = 0; k < info->n_attrs; k++) {
        n.attr[k] = attrs[k];
        if (dop_attr_kind_of(info->attrs[k]) == DOP_ATTR_S && !(n.attr[k].s = dop_arena_strdup(g->arena, attrs[k].s)))
            return no_memory(diag);
    }
    if (!grow(g->arena, (void **)&g->nodes, g->n_nodes, &g->cap_nodes, sizeof *g->nodes))
        return no_memory(diag);
    note_name(g, own);
    g->nodes[g->n_nodes] = n;
    *out_id = g->n_nodes++;
    if (dop_node_has(g, *out_id, DOP_A_window)) {
        int64_t window = dop_node_i(g, *out_id, DOP_A_window);
        g->windows_differ = g->windows_differ || (g->has_window && window != g->window);
        g->window = window;
        g->has_window = true;
    }
    return DOP_OK;
}

dop_status
dop_graph_output(dop_graph *g, dop_node_id id, dop_diag *diag)
{
    if (id == 0 || id >= g->n_nodes)
        return DOP_FAIL(diag, DOP_E_INTERNAL, "graph %s: output %u is not a node", g->name, id);
    if (g->n_outs >= MAX_NODES || !grow(g->arena, (void **)&g->outs, g->n_outs, &g->cap_outs, sizeof *g->outs))
        return no_memory(diag);
    g->outs[g->n_outs++] = id;
    return DOP_OK;
}

static dop_node_id *
copy_ids(dop_arena *arena, const dop_node_id *ids, uint32_t n)
{
    dop_node_id *p = dop_arena_alloc(arena, n * sizeof *p);
    if (p && n)
        memcpy(p, ids, n * sizeof *p);
    return p;
}

dop_status
dop_graph_add_region(dop_graph *g, dop_template tpl, const dop_node_id *nodes, uint32_t n_nodes,
                     const dop_node_id *outs, uint32_t n_outs, dop_diag *diag, dop_region_id *out_id)
{
    *out_id = 0;
    if (g->n_regions >= MAX_REGIONS || (unsigned)tpl >= DOP_TPL_COUNT)
        return DOP_FAIL(diag, DOP_E_INTERNAL, "graph %s: too many regions or no such template", g->name);
    for (uint32_t i = 0; i < n_nodes + n_outs; i++) {
        dop_node_id id = i < n_nodes ? nodes[i] : outs[i - n_nodes];
        if (id == 0 || id >= g->n_nodes)
            return DOP_FAIL(diag, DOP_E_INTERNAL, "region @%u: %u is not a node", g->n_regions, id);
    }
    dop_region r = {.tpl = tpl, .n_nodes = n_nodes, .n_outs = n_outs};
    r.nodes = copy_ids(g->arena, nodes, n_nodes);
    r.outs = copy_ids(g->arena, outs, n_outs);
    if (!r.nodes || !r.outs || !grow(g->arena, (void **)&g->regions, g->n_regions, &g->cap_regions, sizeof r))
        return no_memory(diag);
    dop_status st = dop_region_describe(g, &r, diag);
    if (st != DOP_OK)
        return st;
    g->regions[g->n_regions] = r;
    *out_id = g->n_regions++;
    return DOP_OK;
}

/* The attribute's place in the op's row, or -1. */
static int
attr_index(const dop_graph *g, dop_node_id id, dop_attr_id a)
{
    const dop_op_info *info = dop_op_of(g->nodes[id].op);
    for (int k = 0; k < info->n_attrs; k++) {
        if (info->attrs[k] == a)
            return k;
    }
    return -1;
}

double
dop_node_f(const dop_graph *g, dop_node_id id, dop_attr_id a)
{
    int k = attr_index(g, id, a);
    return k < 0 || dop_attr_kind_of(a) != DOP_ATTR_F ? 0.0 : g->nodes[id].attr[k].f;
}

int64_t
dop_node_i(const dop_graph *g, dop_node_id id, dop_attr_id a)
{
    int k = attr_index(g, id, a);
    return k < 0 || (dop_attr_kind_of(a) != DOP_ATTR_I && dop_attr_kind_of(a) != DOP_ATTR_W) ? 0
                                                                                             : g->nodes[id].attr[k].i;
}

const char *
dop_node_s(const dop_graph *g, dop_node_id id, dop_attr_id a)
{
    int k = attr_index(g, id, a);
    return k < 0 || dop_attr_kind_of(a) != DOP_ATTR_S ? "" : g->nodes[id].attr[k].s;
}

bool
dop_node_has(const dop_graph *g, dop_node_id id, dop_attr_id a)
{
    return attr_index(g, id, a) >= 0;
}

static dop_extent
access_extent(const dop_graph *g, dop_node_id id, uint32_t k)
{
    const dop_access *a = dop_node_access(g, id, k);
    bool head = a->axis[DOP_AXIS_head] == DOP_ACCESS_same && g->nodes[g->nodes[id].src[k]].shape.rank >= 3;
    if (a->axis[DOP_AXIS_col] == DOP_ACCESS_all || a->axis[DOP_AXIS_col] == DOP_ACCESS_span ||
        a->axis[DOP_AXIS_part] == DOP_ACCESS_all)
        return head ? DOP_EXTENT_head : DOP_EXTENT_row;
    return a->axis[DOP_AXIS_col] == DOP_ACCESS_few ? DOP_EXTENT_few : DOP_EXTENT_element;
}

dop_extent
dop_node_extent(const dop_graph *g, dop_node_id id)
{
    const dop_node *n = &g->nodes[id];
    dop_extent most = DOP_EXTENT_none;
    dop_root root = dop_op_of(n->op)->root;
    if (root == DOP_ROOT_product || root == DOP_ROOT_attention)
        return DOP_EXTENT_all;
    for (uint32_t k = 0; k < n->n_srcs; k++) {
        dop_extent x = access_extent(g, id, k);
        most = x > most ? x : most;
    }
    return most;
}

bool
dop_node_is_input(const dop_graph *g, dop_node_id id)
{
    return g->nodes[id].op == DOP_OP_input;
}

bool
dop_node_gathers(const dop_graph *g, dop_node_id id)
{
    for (uint32_t k = 0; k < g->nodes[id].n_srcs; k++) {
        const dop_access *a = dop_node_access(g, id, k);
        if (a->axis[DOP_AXIS_row] == DOP_ACCESS_at && a->by != DOP_BY_STEP)
            return true;
    }
    return false;
}

bool
dop_node_merges(const dop_graph *g, dop_node_id id)
{
    for (uint32_t k = 0; k < g->nodes[id].n_srcs; k++)
        if (dop_node_access(g, id, k)->axis[DOP_AXIS_part] == DOP_ACCESS_all)
            return true;
    return false;
}

dop_node_id
dop_node_base(const dop_graph *g, dop_node_id id, uint32_t *out_start)
{
    uint32_t start = 0;
    while (dop_op_of(g->nodes[id].op)->traits & DOP_VIEW) {
        start += (uint32_t)dop_node_i(g, id, DOP_A_start);
        id = g->nodes[id].src[0];
    }
    if (out_start)
        *out_start = start;
    return id;
}

dop_node_id
dop_storage_node(const dop_graph *g, dop_node_id id)
{
    id = dop_node_base(g, id, NULL);
    while (dop_node_is(g, id, DOP_EFFECT))
        id = dop_node_base(g, g->nodes[id].src[0], NULL);
    return id;
}

uint32_t
dop_split_len(const dop_graph *g, dop_node_id id, uint32_t n)
{
    uint32_t splits = (uint32_t)dop_node_i(g, id, DOP_A_splits), least = (uint32_t)dop_node_i(g, id, DOP_A_least);
    uint32_t share = n / splits + (n % splits != 0);
    return n <= (uint32_t)dop_node_i(g, id, DOP_A_whole) ? n : share < least ? least : share;
}

uint32_t
dop_node_cols(const dop_graph *g, dop_node_id id)
{
    const dop_shape *s = &g->nodes[id].shape;
    if (s->rank == 1)
        return s->dim[0].sym == DOP_SYM_1 ? s->dim[0].mul : 1;
    uint32_t cols = 1; /* fits: checked when the node was made */
    for (uint32_t i = 1; i < s->rank; i++)
        cols *= s->dim[i].mul;
    return cols;
}

bool
dop_node_per_token(const dop_graph *g, dop_node_id id)
{
    return g->nodes[id].shape.dim[0].sym == DOP_SYM_T;
}

uint64_t
dop_node_rows(const dop_graph *g, dop_node_id id, uint32_t t)
{
    const dop_shape *s = &g->nodes[id].shape;
    return dop_dim_value(g, s->dim[0], t) * (dop_shape_appends(s) ? dop_dim_value(g, s->dim[1], t) : 1);
}

uint32_t
dop_cache_heads(const dop_graph *g, dop_node_id cache)
{
    const dop_shape *s = &g->nodes[cache].shape;
    return s->dim[s->rank - 2].mul;
}

dop_node_id
dop_graph_replaces(const dop_graph *g)
{
    for (dop_node_id id = 1; id < g->n_nodes; id++)
        if (g->nodes[id].op == DOP_OP_state && !dop_shape_appends(&g->nodes[id].shape))
            return id;
    return 0;
}

dop_status
dop_graph_use_counts(dop_graph *g, dop_diag *diag, uint32_t **out_counts)
{
    uint32_t *counts = dop_arena_alloc(g->arena, g->n_nodes * sizeof *counts);
    *out_counts = counts;
    if (!counts)
        return no_memory(diag);
    for (dop_node_id id = 1; id < g->n_nodes; id++) {
        for (uint32_t i = 0; i < g->nodes[id].n_srcs; i++)
            counts[g->nodes[id].src[i]]++;
    }
    for (uint32_t i = 0; i < g->n_outs; i++)
        counts[g->outs[i]]++;
    return DOP_OK;
}

/* ---- digest: FNV-1a over exactly what the text shows ---- */

static uint64_t
mix(uint64_t h, const void *bytes, size_t n)
{
    const unsigned char *p = bytes;
    for (size_t i = 0; i < n; i++)
        h = (h ^ p[i]) * 0x100000001b3u;
    return h;
}

static uint64_t
mix_u64(uint64_t h, uint64_t v)
{
    return mix(h, &v, sizeof v);
}

static uint64_t
mix_s(uint64_t h, const char *s)
{
    return mix(h, s, strlen(s) + 1);
}

static uint64_t
mix_ids(uint64_t h, const dop_node_id *ids, uint32_t n)
{
    return n ? mix(mix_u64(h, n), ids, n * sizeof *ids) : mix_u64(h, 0);
}

static uint64_t
mix_node(uint64_t h, const dop_node *n)
{
    h = mix_u64(mix_u64(mix_u64(h, n->op), n->type), n->shape.rank);
    for (uint32_t i = 0; i < n->shape.rank; i++)
        h = mix_u64(h, (uint64_t)n->shape.dim[i].mul << 8 | n->shape.dim[i].sym);
    h = mix_ids(h, n->src, n->n_srcs);
    const dop_op_info *info = dop_op_of(n->op);
    for (uint8_t k = 0; k < info->n_attrs; k++) {
        if (dop_attr_kind_of(info->attrs[k]) == DOP_ATTR_S)
            h = mix_s(h, n->attr[k].s);
        else
            h = mix(h, &n->attr[k], sizeof(double));
    }
    return mix_s(mix_s(h, n->name), n->label);
}

uint64_t
dop_graph_hash(const dop_graph *g)
{
    uint64_t h = mix_s(0xcbf29ce484222325u, g->name);
    h = mix_u64(h, (uint64_t)g->max_t << 32 | g->max_s);
    h = mix_u64(h, (uint64_t)g->max_q << 32 | g->n_nodes);
    for (dop_node_id id = 1; id < g->n_nodes; id++)
        h = mix_node(h, &g->nodes[id]);
    h = mix_ids(h, g->outs, g->n_outs);
    for (dop_region_id r = 1; r < g->n_regions; r++) {
        const dop_region *rg = &g->regions[r];
        if (rg->dead)
            continue;
        h = mix_s(mix_u64(h, rg->tpl), rg->variant ? rg->variant : "");
        h = mix_ids(mix_ids(h, rg->nodes, rg->n_nodes), rg->outs, rg->n_outs);
    }
    return h;
}

/* ---- compaction ---- */

static uint32_t
remap_ids(dop_node_id *ids, uint32_t n, const dop_node_id *map)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (map[ids[i]])
            ids[kept++] = map[ids[i]];
    }
    return kept;
}

/* Marks what the outputs need: map[id] = 1.  stack holds n_nodes ids; each is pushed once. */
static void
mark_reachable(const dop_graph *g, dop_node_id *map, dop_node_id *stack)
{
    uint32_t depth = 0;
    for (uint32_t i = 0; i < g->n_outs; i++) {
        if (!map[g->outs[i]])
            stack[depth++] = g->outs[i];
        map[g->outs[i]] = 1;
    }
    while (depth) {
        const dop_node *n = &g->nodes[stack[--depth]];
        for (uint32_t i = 0; i < n->n_srcs; i++) {
            if (!map[n->src[i]])
                stack[depth++] = n->src[i];
            map[n->src[i]] = 1;
        }
    }
}

/* Lists the marked nodes, each behind its sources and otherwise in the order of their ids: order[0..*out_n).
 * seen: 0 not yet, 1 on the stack, 2 listed. */
static dop_status
order_nodes(const dop_graph *g, const dop_node_id *map, uint8_t *seen, dop_node_id *stack, dop_node_id *order,
            uint32_t *out_n, dop_diag *diag)
{
    uint32_t n = 0;
    for (dop_node_id root = 1; root < g->n_nodes; root++) {
        uint32_t depth = 0;
        if (map[root] && !seen[root])
            stack[depth++] = root;
        while (depth) {
            dop_node_id id = stack[depth - 1], next = 0;
            seen[id] = 1;
            for (uint32_t i = 0; i < g->nodes[id].n_srcs && !next; i++) {
                dop_node_id s = g->nodes[id].src[i];
                if (seen[s] == 1)
                    return DOP_FAIL(diag, DOP_E_INTERNAL, "%%%s depends on itself", g->nodes[id].name);
                next = seen[s] ? 0 : s;
            }
            if (next) {
                stack[depth++] = next;
            } else {
                seen[id] = 2;
                order[n++] = id;
                depth--;
            }
        }
    }
    *out_n = n;
    return DOP_OK;
}

static int
compare_ids(const void *a, const void *b)
{
    dop_node_id x = *(const dop_node_id *)a, y = *(const dop_node_id *)b;
    return x < y ? -1 : x > y;
}

static void
remap_regions(dop_graph *g, const dop_node_id *map)
{
    uint32_t n_regions = 1;
    for (dop_region_id r = 1; r < g->n_regions; r++) {
        dop_region rg = g->regions[r];
        if (rg.dead)
            continue;
        rg.n_nodes = remap_ids(rg.nodes, rg.n_nodes, map);
        rg.n_outs = remap_ids(rg.outs, rg.n_outs, map);
        qsort(rg.nodes, rg.n_nodes, sizeof *rg.nodes, compare_ids);
        qsort(rg.outs, rg.n_outs, sizeof *rg.outs, compare_ids);
        if (rg.n_nodes && rg.n_outs) /* nobody needs a region that writes nothing */
            g->regions[n_regions++] = rg;
    }
    g->n_regions = n_regions;
}

dop_status
dop_graph_compact(dop_graph *g, dop_diag *diag)
{
    dop_status st;
    uint32_t n = 0;
    dop_node_id *map = calloc(g->n_nodes, sizeof *map); /* 0 for what goes; first a mark, then the new id */
    dop_node_id *stack = calloc(g->n_nodes, sizeof *stack);
    dop_node_id *order = calloc(g->n_nodes, sizeof *order);
    dop_node *nodes = calloc(g->n_nodes, sizeof *nodes);
    uint8_t *seen = calloc(g->n_nodes, sizeof *seen);
    if (!map || !stack || !order || !nodes || !seen) {
        st = no_memory(diag);
        goto error;
    }
    mark_reachable(g, map, stack);
    st = order_nodes(g, map, seen, stack, order, &n, diag);
    if (st != DOP_OK)
        goto error;
    for (uint32_t i = 0; i < n; i++)
        map[order[i]] = i + 1;
    for (uint32_t i = 0; i < n; i++) {
        nodes[i] = g->nodes[order[i]];
        remap_ids(nodes[i].src, nodes[i].n_srcs, map);
    }
    memcpy(g->nodes + 1, nodes, n * sizeof *nodes);
    g->n_nodes = n + 1;
    remap_ids(g->outs, g->n_outs, map);
    remap_regions(g, map);
    st = dop_graph_describe(g, diag);
error:
    free(map);
    free(stack);
    free(order);
    free(nodes);
    free(seen);
    return st;
}
