#include "passes/region.h"

#include "ir/region.h"

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
    for (uint32_t i = 0; i + 1 < n->shape.rank; i++)
        rows *= dop_dim_value(g, n->shape.dim[i], g->max_t);
    if (!dop_type_row_bytes(n->type, dop_dim_value(g, n->shape.dim[n->shape.rank - 1], g->max_t), &bytes))
        return UINT64_MAX;
    return rows * bytes;
}

void
dop_region_reads(const dop_graph *g, const dop_region *r, dop_reads_fn fn, void *user)
{
    for (uint32_t i = 0; i < r->n_nodes; i++) {
        const dop_node *n = dop_node_at(g, r->nodes[i]);
        for (uint32_t j = 0; j < n->n_srcs; j++) {
            dop_node_id b = dop_node_base(g, n->src[j], NULL);
            if (dop_region_has(r, b))
                continue;
            bool seen = false;
            for (uint32_t k = 0; k <= i && !seen; k++) {
                const dop_node *p = dop_node_at(g, r->nodes[k]);
                for (uint32_t l = 0; l < (k == i ? j : p->n_srcs) && !seen; l++)
                    seen = dop_node_base(g, p->src[l], NULL) == b;
            }
            if (!seen)
                fn(user, b);
        }
    }
}

/* --- flow ------------------------------------------------------------------------------------------------------ */

typedef struct collect {
    dop_flow *f;
    dop_region_id region;
    uint32_t *fill; /* NULL: count */
} collect;

static void
collect_read(void *user, dop_node_id base)
{
    collect *c = user;
    if (!dop_node_computed(c->f->g, base))
        return;
    if (c->fill)
        c->f->readers[c->fill[base]++] = c->region;
    else
        c->f->first_reader[base + 1]++;
}

dop_status
dop_flow_init(const dop_graph *g, dop_diag *diag, dop_flow *out_flow)
{
    dop_flow *f = out_flow;
    uint32_t *fill = NULL;
    memset(f, 0, sizeof *f);
    f->g = g;
    f->owner = calloc(g->n_nodes, sizeof *f->owner);
    f->first_reader = calloc((size_t)g->n_nodes + 1, sizeof *f->first_reader);
    fill = calloc((size_t)g->n_nodes + 1, sizeof *fill);
    if (!f->owner || !f->first_reader || !fill)
        goto error;
    for (dop_region_id r = 1; r < g->n_regions; r++) {
        const dop_region *reg = &g->regions[r];
        if (reg->dead)
            continue;
        for (uint32_t i = 0; i < reg->n_nodes; i++)
            if (!f->owner[reg->nodes[i]])
                f->owner[reg->nodes[i]] = r;
        dop_region_reads(g, reg, collect_read, &(collect){f, r, NULL});
    }
    for (uint32_t i = 0; i < g->n_nodes; i++)
        f->first_reader[i + 1] += f->first_reader[i];
    f->readers = calloc((size_t)f->first_reader[g->n_nodes] + 1, sizeof *f->readers);
    if (!f->readers)
        goto error;
    memcpy(fill, f->first_reader, ((size_t)g->n_nodes + 1) * sizeof *fill);
    for (dop_region_id r = 1; r < g->n_regions; r++)
        if (!g->regions[r].dead)
            dop_region_reads(g, &g->regions[r], collect_read, &(collect){f, r, fill});
    free(fill);
    return DOP_OK;
error:
    free(fill);
    dop_flow_finish(f);
    return DOP_FAIL(diag, DOP_E_NOMEM, "out of memory");
}

void
dop_flow_finish(dop_flow *f)
{
    free(f->owner);
    free(f->first_reader);
    free(f->readers);
    memset(f, 0, sizeof *f);
}

uint32_t
dop_flow_n_readers(const dop_flow *f, dop_node_id id)
{
    return f->first_reader[id + 1] - f->first_reader[id];
}

static bool
is_output(const dop_graph *g, dop_node_id id)
{
    for (uint32_t i = 0; i < g->n_outs; i++)
        if (dop_node_base(g, g->outs[i], NULL) == id)
            return true;
    return false;
}

/* What region r stores, from who reads it: ids[], as many as the region has nodes. */
static uint32_t
find_outs(const dop_flow *f, dop_region_id r, dop_node_id *ids)
{
    const dop_graph *g = f->g;
    const dop_region *reg = &g->regions[r];
    uint32_t n = 0;
    for (uint32_t i = 0; i < reg->n_nodes; i++) {
        dop_node_id id = reg->nodes[i];
        bool effect = (dop_op_of(dop_node_at(g, id)->op)->traits & DOP_EFFECT) != 0; /* later steps read it */
        /* Partial results cross workgroups even when the region merges them itself: they are stored. */
        bool crosses = dop_node_at(g, id)->op == DOP_OP_attn_split;
        if (f->owner[id] == r && (effect || crosses || dop_flow_n_readers(f, id) > 0 || is_output(g, id)))
            ids[n++] = id;
    }
    return n;
}

static dop_status
set_outs(dop_graph *g, dop_region *reg, const dop_node_id *ids, uint32_t n, dop_diag *diag)
{
    if (n == reg->n_outs && memcmp(ids, reg->outs, n * sizeof *ids) == 0)
        return DOP_OK;
    reg->outs = dop_arena_alloc(g->arena, n * sizeof *ids);
    if (!reg->outs)
        return DOP_FAIL(diag, DOP_E_NOMEM, "out of memory");
    memcpy(reg->outs, ids, n * sizeof *ids);
    reg->n_outs = n;
    return dop_region_describe(g, reg, diag);
}

dop_status
dop_flow_update(dop_graph *g, dop_diag *diag, dop_flow *f)
{
    dop_node_id *ids = malloc(g->n_nodes * sizeof *ids);
    dop_status st = ids ? DOP_OK : DOP_FAIL(diag, DOP_E_NOMEM, "out of memory");
    /* Dropping a region may leave another without readers, so repeat; chains of such are short. */
    for (bool again = true; again && st == DOP_OK;) {
        again = false;
        dop_flow_finish(f);
        st = dop_flow_init(g, diag, f);
        for (dop_region_id r = 1; r < g->n_regions && st == DOP_OK; r++) {
            dop_region *reg = &g->regions[r];
            if (reg->dead)
                continue;
            uint32_t n = find_outs(f, r, ids);
            if (n == 0)
                reg->dead = again = true;
            else
                st = set_outs(g, reg, ids, n, diag);
        }
    }
    free(ids);
    return st;
}

dop_status
dop_flow_path_around(const dop_flow *f, dop_region_id a, dop_region_id b, dop_diag *diag, bool *out_path)
{
    const dop_graph *g = f->g;
    *out_path = false;
    uint32_t n = 0;
    uint8_t *seen = calloc(g->n_regions, 1);
    dop_region_id *stack = calloc(g->n_regions, sizeof *stack);
    if (!seen || !stack) {
        free(seen);
        free(stack);
        return DOP_FAIL(diag, DOP_E_NOMEM, "out of memory");
    }
    stack[n++] = a;
    seen[a] = 1;
    while (n > 0 && !*out_path) {
        dop_region_id r = stack[--n];
        const dop_region *reg = &g->regions[r];
        for (uint32_t i = 0; i < reg->n_nodes && !*out_path; i++) {
            if (f->owner[reg->nodes[i]] != r)
                continue;
            for (uint32_t k = f->first_reader[reg->nodes[i]]; k < f->first_reader[reg->nodes[i] + 1]; k++) {
                dop_region_id to = f->readers[k];
                if (to == b && r != a) {
                    *out_path = true;
                    break;
                }
                if (to != b && !seen[to]) {
                    seen[to] = 1;
                    stack[n++] = to;
                }
            }
        }
    }
    free(seen);
    free(stack);
    return DOP_OK;
}

static int
compare_id(const void *a, const void *b)
{
    dop_node_id x = *(const dop_node_id *)a, y = *(const dop_node_id *)b;
    return x < y ? -1 : x > y;
}

dop_status
dop_region_absorb(dop_graph *g, dop_region_id dst, dop_region_id src, dop_template tpl, bool keep_src, dop_diag *diag)
{
    dop_region *d = &g->regions[dst], *s = &g->regions[src];
    dop_node_id *nodes = dop_arena_alloc(g->arena, (d->n_nodes + s->n_nodes) * sizeof *nodes);
    if (!nodes)
        return DOP_FAIL(diag, DOP_E_NOMEM, "out of memory");
    memcpy(nodes, d->nodes, d->n_nodes * sizeof *nodes);
    uint32_t n = d->n_nodes;
    for (uint32_t i = 0; i < s->n_nodes; i++)
        if (!dop_region_has(d, s->nodes[i]))
            nodes[n++] = s->nodes[i];
    qsort(nodes, n, sizeof *nodes, compare_id); /* handles are in topological order */
    d->nodes = nodes;
    d->n_nodes = n;
    d->tpl = tpl;
    if (!keep_src)
        s->dead = true;
    return dop_region_describe(g, d, diag);
}
