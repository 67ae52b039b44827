#include "tools/dopplerc/tune_memory.h"

#include "ir/graph/dims.h"
#include "passes/fusion/region.h"

#include <stdlib.h>
#include <string.h>

enum {
    AT_POSITION = 511, /* position of a single-row step */
    SLACK = 4096,
    STATE_ROWS = 32 /* rows after a cache that tiles may read */
};

/* Memory layout: the step record and optional page tables, then workgroup counters at COUNTS_AT, then values at
 * VALUES_AT. Everything before VALUES_AT except the step record is zero. */
enum { VALUES_AT = 1 << 20, COUNTS_AT = VALUES_AT - 8192 };

static uint64_t
get_value_bytes(const dop_tune_memory *m, dop_node_id id)
{
    const dop_graph *g = &m->s->g;
    const dop_node *n = dop_node_at(g, id);
    const dop_packed *x = n->op == DOP_OP_weight ? dop_pack_find(&m->c->pack, &n->origin) : NULL;
    const uint64_t bytes = x ? x->size : dop_node_bytes(g, id);
    if (n->op != DOP_OP_state)
        return bytes;
    return dop_shape_appends(&n->shape) ? bytes + STATE_ROWS * (bytes / dop_node_rows(g, id, 1)) : g->copies * bytes;
}

dop_status
dop_tune_place(dop_tune_memory *m, const dop_kernel *k, dop_kernel_run *out)
{
    *out = (dop_kernel_run){.grid = {k->grid[0], k->grid[1], k->grid[2]},
                            .n_args = k->n_args,
                            .args = dop_arena_alloc(&m->c->arena, k->n_args * sizeof *out->args + 1),
                            .kinds = dop_arena_alloc(&m->c->arena, k->n_args * sizeof *out->kinds + 1)};
    if (!out->args || !out->kinds)
        return DOP_NO_MEMORY(m->diag);
    for (uint32_t i = 0; i < k->n_args; i++) {
        const dop_kernel_arg *a = &k->args[i];
        if (a->numbers) {
            out->args[i] = a->number[0] | (uint64_t)a->number[1] << 32;
            out->kinds[i] = DOP_RUN_NUMBERS;
            continue;
        }
        if (a->value && !m->places[a->value]) {
            m->places[a->value] = m->used;
            m->used = dop_align_u64(m->used + get_value_bytes(m, a->value) + SLACK, 256);
        }
        if (a->kind == DOP_ARG_SUMS && a->bytes > m->sums_bytes) {
            m->sums_at = m->used;
            m->sums_bytes = a->bytes;
            m->used = dop_align_u64(m->used + a->bytes, 256);
        }
        out->args[i] = a->value                    ? m->places[a->value]
                       : a->kind == DOP_ARG_COUNTS ? COUNTS_AT
                       : a->kind == DOP_ARG_SUMS   ? m->sums_at
                                                   : 0;
        out->kinds[i] = a->view ? DOP_RUN_VIEW : DOP_RUN_ADDRESS;
    }
    return DOP_OK;
}

dop_status
dop_tune_memory_make(dop_tune_memory *m, dop_kernel_run *runs, size_t n)
{
    const dop_graph *g = &m->s->g;
    uint64_t base = 0;
    memset(&m->step, 0, sizeof m->step);
    m->step.n_rows = g->max_t;
    for (uint32_t i = 0; i < g->max_t; i++)
        m->step.rows[i].position = g->max_t > 1 ? i : AT_POSITION < m->c->ctx ? AT_POSITION : m->c->ctx - 1;
    DOP_RETURN_IF_ERROR(dop_kernel_bench_memory(m->bench, m->used, m->diag, &base));
    DOP_RETURN_IF_ERROR(dop_kernel_bench_write(m->bench, 0, &m->step, sizeof m->step, m->diag));
    DOP_RETURN_IF_ERROR(dop_kernel_bench_write(m->bench, sizeof m->step, NULL, VALUES_AT - sizeof m->step, m->diag));
    for (dop_node_id id = 1; id < g->n_nodes; id++)
        if (m->places[id] && dop_node_at(g, id)->type == DOP_TYPE_u32)
            DOP_RETURN_IF_ERROR(dop_kernel_bench_write(m->bench, m->places[id], NULL,
                                                       dop_align_u64(get_value_bytes(m, id), 4), m->diag));
    for (size_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < runs[i].n_args; k++)
            runs[i].args[k] += runs[i].kinds[k] == DOP_RUN_ADDRESS ? base : 0;
    return DOP_OK;
}

dop_status
dop_tune_compile(dop_tune_memory *m, const dop_kernel *k, dop_diag *diag, uint32_t *out_kernel)
{
    dop_buf spirv = {0};
    uint32_t shared = 0;
    dop_status st = DOP_OK;
    DOP_TRY(dop_kernel_compile("--tune", k, m->c->target, diag, &spirv, &shared));
    if (shared > m->c->target->shared_bytes)
        DOP_TRY(DOP_FAIL(diag, DOP_E_INPUT, "too much shared memory"));
    DOP_TRY(dop_kernel_bench_add(m->bench, &spirv, k->subgroup, k->local, diag, out_kernel));
error:
    dop_buf_finish(&spirv);
    return st;
}

dop_status
dop_tune_memory_init(dop_compilation *c, const dop_schedule *s, dop_kernel_bench *bench, dop_diag *diag,
                     dop_tune_memory *out)
{
    *out = (dop_tune_memory){.c = c,
                             .s = s,
                             .bench = bench,
                             .diag = diag,
                             .places = calloc(s->g.n_nodes, sizeof *out->places),
                             .used = VALUES_AT};
    return out->places ? DOP_OK : DOP_NO_MEMORY(diag);
}

void
dop_tune_memory_finish(dop_tune_memory *m)
{
    free(m->places);
    m->places = NULL;
}

void
dop_tune_memory_clear(dop_tune_memory *m)
{
    m->used = VALUES_AT;
    m->sums_bytes = 0;
    memset(m->places, 0, m->s->g.n_nodes * sizeof *m->places);
}
