/* Adds and drops regions of a graph and keeps their analyses up to date; counts how often a region stores each
 * output. */
#include "ir/region/graph_regions.h"
#include "ir/region/region.h"

#include <stdlib.h>
#include <string.h>

/* Limit for untrusted text: keeps 32-bit handles far from wrapping. */
enum { MAX_REGIONS = 1 << 22 };

static dop_node_id *
copy_node_ids(dop_arena *arena, const dop_node_id *ids, uint32_t n)
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
    r.nodes = copy_node_ids(g->arena, nodes, n_nodes);
    r.outs = copy_node_ids(g->arena, outs, n_outs);
    if (!r.nodes || !r.outs || !dop_arena_grow(g->arena, (void **)&g->regions, g->n_regions, &g->cap_regions, sizeof r))
        return DOP_NO_MEMORY(diag);
    dop_status st = dop_region_describe(g, &r, diag);
    if (st != DOP_OK)
        return st;
    g->regions[g->n_regions] = r;
    *out_id = g->n_regions++;
    return DOP_OK;
}

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

/* Sets map[id] = 1 for every node that the outputs need. stack holds n_nodes ids; each is pushed once. */
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

/* Lists the marked nodes in order[0..*out_n): each after its sources, otherwise in the order of ids.  seen: 0 not visited, 1 on
 * the stack, 2 listed. */
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
compare_remapped_ids(const void *a, const void *b)
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
        qsort(rg.nodes, rg.n_nodes, sizeof *rg.nodes, compare_remapped_ids);
        qsort(rg.outs, rg.n_outs, sizeof *rg.outs, compare_remapped_ids);
        if (rg.n_nodes && rg.n_outs) /* a region that stores nothing is not needed */
            g->regions[n_regions++] = rg;
    }
    g->n_regions = n_regions;
}

dop_status
dop_graph_compact(dop_graph *g, dop_diag *diag)
{
    dop_status st;
    uint32_t n = 0;
    dop_node_id *map =
        calloc(g->n_nodes, sizeof *map); /* 0: the node is dropped; otherwise first a mark, then the new id */
    dop_node_id *stack = calloc(g->n_nodes, sizeof *stack);
    dop_node_id *order = calloc(g->n_nodes, sizeof *order);
    dop_node *nodes = calloc(g->n_nodes, sizeof *nodes);
    uint8_t *seen = calloc(g->n_nodes, sizeof *seen);
    if (!map || !stack || !order || !nodes || !seen) {
        st = DOP_NO_MEMORY(diag);
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

bool
dop_region_is_out(const dop_region *r, dop_node_id id)
{
    return dop_ids_find(r->outs, r->n_outs, id) < r->n_outs;
}

static void
count_outs(const dop_region *r, const dop_node_id *ids, uint32_t n, uint32_t *counts)
{
    for (uint32_t i = 0; i < n; i++) {
        uint32_t at = dop_ids_find(r->outs, r->n_outs, ids[i]);
        if (at < r->n_outs)
            counts[at]++;
    }
}

void
dop_region_storers(const dop_region *r, uint32_t *counts)
{
    const dop_analysis *a = r->info;
    memset(counts, 0, r->n_outs * sizeof *counts);
    switch (r->tpl) {
    case DOP_TPL_gemv:
    case DOP_TPL_matmul:
    case DOP_TPL_expert:
    case DOP_TPL_expert_tiles:
        count_outs(r, a->experts.choice.nodes, a->experts.choice.n_nodes, counts);
        for (uint32_t i = 0; i < a->product.n_parts; i++) {
            count_outs(r, a->product.parts[i].outs, a->product.parts[i].n_outs, counts);
            count_outs(r, &a->product.parts[i].argmax, 1, counts);
        }
        if (a->product.staged && r->tpl == DOP_TPL_gemv) /* tiled products run no row programs */
            count_outs(r, a->product.prog.nodes, a->product.prog.n_nodes, counts);
        count_outs(r, &a->tail.id, 1, counts);
        break;
    case DOP_TPL_row:
        for (uint32_t i = 0; i < a->row.n_programs; i++)
            count_outs(r, a->row.programs[i].nodes, a->row.programs[i].n_nodes, counts);
        break;
    case DOP_TPL_attention:
        count_outs(r, a->attn.after, a->attn.n_after, counts);
        count_outs(r, &a->attn.merged, 1, counts);
        count_outs(r, &a->tail.id, 1, counts);
        if (a->attn.query_runs)
            count_outs(r, a->attn.query.nodes, a->attn.query.n_nodes, counts);
        for (uint32_t i = 0; i < a->attn.n_writes && !a->attn.writes[i].again; i++)
            count_outs(r, a->attn.writes[i].prog.nodes, a->attn.writes[i].prog.n_nodes, counts);
        break;
    case DOP_TPL_scan:
        count_outs(r, a->scan.behind.nodes, a->scan.behind.n_nodes, counts);
        count_outs(r, &a->scan.made[1], 1, counts);
        count_outs(r, &a->scan.saved, 1, counts);
        break;
    case DOP_TPL_argmax:
        count_outs(r, &a->root, 1, counts);
        break;
    default:
        count_outs(r, r->nodes, r->n_nodes, counts);
        break;
    }
}

uint32_t
dop_region_row_multiple(const dop_graph *g, const dop_region *r)
{
    uint32_t most = 1;
    for (uint32_t i = 0; i < r->n_outs; i++) {
        const uint32_t n = dop_node_row_multiple(g, dop_node_space(g, r->outs[i]));
        most = n > most ? n : most;
    }
    return most;
}

const dop_graph *
dop_graph_by_rows(const dop_graph *g, const dop_region *r, dop_graph *out_copy)
{
    const uint32_t n = dop_region_row_multiple(g, r);
    if (n == 1)
        return g;
    *out_copy = *g;
    out_copy->max_t *= n;
    return out_copy;
}
