#include "tests/unit/checkpoint_leaves.h"

#include "compiler/pack/pack_rows.h"
#include "frontend/build/build.h"
#include "ir/graph/dims.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct value {
    char name[64];
    bool state;
    uint64_t count;
    float *f;
} value;

struct dop_checkpoint_leaves {
    const dop_checkpoint *m;
    value *values;
    uint32_t n, cap;
    uint32_t *tokens, *positions, *sequences; /* [n_tokens] */
    uint32_t n_tokens;
};

dop_status
dop_checkpoint_leaves_create(const dop_checkpoint *m, dop_diag *diag, dop_checkpoint_leaves **out_leaves)
{
    *out_leaves = calloc(1, sizeof **out_leaves);
    if (!*out_leaves)
        return DOP_NO_MEMORY(diag);
    (*out_leaves)->m = m;
    return DOP_OK;
}

void
dop_checkpoint_leaves_destroy(dop_checkpoint_leaves *l)
{
    if (!l)
        return;
    for (uint32_t i = 0; i < l->n; i++)
        free(l->values[i].f);
    free(l->values);
    free(l->tokens);
    free(l->positions);
    free(l->sequences);
    free(l);
}

dop_status
dop_checkpoint_leaves_step(dop_checkpoint_leaves *l, const uint32_t *tokens, uint32_t n, uint32_t first, dop_diag *diag)
{
    uint32_t *t = calloc(n ? n : 1, sizeof *t), *p = calloc(n ? n : 1, sizeof *p), *q = calloc(n ? n : 1, sizeof *q);
    if (!t || !p || !q) {
        free(t);
        free(p);
        free(q);
        return DOP_NO_MEMORY(diag);
    }
    for (uint32_t i = 0; i < n; i++) {
        t[i] = tokens[i];
        p[i] = first + i;
    }
    free(l->tokens);
    free(l->positions);
    free(l->sequences);
    l->tokens = t;
    l->positions = p;
    l->sequences = q; /* one, number 0 */
    l->n_tokens = n;
    return DOP_OK;
}

void
dop_checkpoint_leaves_reset(dop_checkpoint_leaves *l)
{
    for (uint32_t i = 0; i < l->n; i++)
        if (l->values[i].state)
            memset(l->values[i].f, 0, l->values[i].count * sizeof(float));
}

void
dop_checkpoint_leaves_name(const dop_weights *w, dop_graph *g)
{
    for (dop_node_id id = 1; id < g->n_nodes; id++) {
        dop_node *n = dop_node_at(g, id);
        const dop_weight *x = n->op == DOP_OP_weight ? dop_weights_find(w, dop_node_s(g, id, DOP_A_name)) : NULL;
        if (x)
            n->origin = (dop_origin){.kind = DOP_FROM_WEIGHT, .index = (uint32_t)(x - w->items)};
    }
}

/* Fills a new value: a weight, a rotary table, or zeros for a state. */
static dop_status
fill(const dop_checkpoint_leaves *l, const dop_graph *g, const dop_origin *from, value *v, dop_diag *diag)
{
    const dop_arch *a = &l->m->arch;
    if (v->state)
        return DOP_OK;
    if (from->kind == DOP_FROM_ROPE && from->index < a->n_ropes) {
        if (v->count != (uint64_t)dop_rope_rows(g->max_s) * a->ropes[from->index].dims)
            return DOP_FAIL(diag, DOP_E_INTERNAL, "leaf %s has an unexpected shape", v->name);
        return dop_rope_table(&a->ropes[from->index], g->max_s, v->f, diag);
    }
    if (from->kind == DOP_FROM_TEMPER && v->count == g->max_s) {
        dop_temper_table(&a->temper, g->max_s, v->f);
        return DOP_OK;
    }
    const bool is = from->kind == DOP_FROM_WEIGHT && from->index < l->m->weights.n;
    const dop_weight *w = is ? &l->m->weights.items[from->index] : NULL;
    const uint32_t first = from->first, rows = w && !from->rows ? w->rows : from->rows;
    if (!w || (uint64_t)rows * w->cols * dop_weight_experts(w) != v->count)
        return DOP_FAIL(diag, DOP_E_INTERNAL, "leaf %s is no weight of the model or has another shape", v->name);
    float *at = v->f;
    for (uint32_t e = 0; e < dop_weight_experts(w); e++) {
        const dop_weight one = dop_weight_expert(w, e);
        for (uint32_t r = first; r < first + rows; r++, at += w->cols)
            dop_weight_row(&one, r, at);
    }
    return DOP_OK;
}

static dop_status
find_or_make(dop_checkpoint_leaves *l, const dop_graph *g, dop_node_id id, uint64_t count, dop_diag *diag, float **out)
{
    const char *name = dop_node_s(g, id, DOP_A_name);
    const bool state = dop_node_at(g, id)->op == DOP_OP_state;
    for (uint32_t i = 0; i < l->n; i++)
        if (l->values[i].state == state && strcmp(l->values[i].name, name) == 0) {
            if (l->values[i].count != count)
                return DOP_FAIL(diag, DOP_E_INTERNAL, "leaf %s changed its shape between graphs", name);
            *out = l->values[i].f;
            return DOP_OK;
        }
    if (l->n == l->cap) {
        uint32_t cap = l->cap ? 2 * l->cap : 64;
        value *list = realloc(l->values, cap * sizeof *list);
        if (!list)
            return DOP_NO_MEMORY(diag);
        l->values = list;
        l->cap = cap;
    }
    value v = {.state = state, .count = count};
    snprintf(v.name, sizeof v.name, "%s", name);
    v.f = calloc(count ? count : 1, sizeof *v.f);
    if (!v.f)
        return DOP_NO_MEMORY(diag);
    dop_status st = fill(l, g, &dop_node_at(g, id)->origin, &v, diag);
    if (st != DOP_OK) {
        free(v.f);
        return st;
    }
    l->values[l->n++] = v;
    *out = v.f;
    return DOP_OK;
}

static dop_status
get(void *user, const dop_graph *g, dop_node_id id, uint32_t t, dop_tensor *out, dop_diag *diag)
{
    dop_checkpoint_leaves *l = user;
    const dop_node *n = dop_node_at(g, id);
    const char *name = dop_node_s(g, id, DOP_A_name);
    *out = (dop_tensor){.shape = {.rank = n->shape.rank}, .count = 1};
    for (uint32_t i = 0; i < n->shape.rank; i++) {
        uint64_t dim = dop_dim_value(g, n->shape.dim[i], t);
        if (dim > UINT32_MAX || !dop_mul_u64(out->count, dim, &out->count) || out->count > SIZE_MAX / sizeof(float))
            return DOP_FAIL(diag, DOP_E_INTERNAL, "leaf %s is too large", name);
        out->shape.dim[i] = dop_dim_n((uint32_t)dim);
    }
    if (n->op == DOP_OP_input) {
        out->u = strcmp(name, "tokens") == 0      ? l->tokens
                 : strcmp(name, "positions") == 0 ? l->positions
                 : strcmp(name, "sequences") == 0 ? l->sequences
                                                  : NULL;
        if (!out->u || out->count != l->n_tokens)
            return DOP_FAIL(diag, DOP_E_INTERNAL, "input %s is not set for %u tokens", name, t);
        return DOP_OK;
    }
    return find_or_make(l, g, id, out->count, diag, &out->f);
}

dop_leaf_provider
dop_checkpoint_leaves_provider(dop_checkpoint_leaves *l)
{
    return (dop_leaf_provider){.user = l, .get = get};
}
