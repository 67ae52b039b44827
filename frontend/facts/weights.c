#include "frontend/facts/weights.h"

#include "frontend/facts/vision.h"
#include "ir/interp/interp.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

dop_status
dop_weights_add(dop_weights *w, const dop_weight *item, dop_arena *arena, dop_diag *diag)
{
    if (w->n == w->cap) {
        /* The old list stays in the arena unused; it is a few kilobytes. */
        uint32_t cap = w->cap ? w->cap * 2 : 64;
        dop_weight *list = dop_arena_alloc(arena, (size_t)cap * sizeof *list);
        if (!list)
            return DOP_NO_MEMORY(diag);
        if (w->n)
            memcpy(list, w->items, w->n * sizeof *list);
        w->items = list;
        w->cap = cap;
    }
    dop_weight copy = *item;
    copy.name = dop_arena_strdup(arena, item->name);
    copy.source = dop_arena_strdup(arena, item->source ? item->source : item->name);
    if (!copy.name || !copy.source)
        return DOP_NO_MEMORY(diag);
    w->items[w->n++] = copy;
    return DOP_OK;
}

dop_status
dop_weights_keep(dop_weights *w, dop_map *maps, uint32_t n, dop_diag *diag)
{
    dop_map *all = realloc(w->maps, (w->n_maps + n + 1) * sizeof *all);
    if (!all)
        return DOP_NO_MEMORY(diag);
    if (n)
        memcpy(all + w->n_maps, maps, n * sizeof *all);
    free(maps);
    w->maps = all;
    w->n_maps += n;
    w->cap_maps = w->n_maps + 1;
    return DOP_OK;
}

static int
compare_weight_names(const void *a, const void *b)
{
    return strcmp(((const dop_weight *)a)->name, ((const dop_weight *)b)->name);
}

dop_status
dop_weights_seal(dop_weights *w, dop_diag *diag)
{
    if (w->n)
        qsort(w->items, w->n, sizeof *w->items, compare_weight_names);
    for (uint32_t i = 1; i < w->n; i++)
        if (strcmp(w->items[i - 1].name, w->items[i].name) == 0)
            return DOP_FAIL(diag, DOP_E_INPUT, "tensors %s and %s are both the weight %s", w->items[i - 1].source,
                            w->items[i].source, w->items[i].name);
    return DOP_OK;
}

const dop_weight *
dop_weights_find(const dop_weights *w, const char *name)
{
    dop_weight key = {.name = name};
    return w->n ? bsearch(&key, w->items, w->n, sizeof key, compare_weight_names) : NULL;
}

/* Adds the vector "v.input_pad": the per-layer inputs of picture rows, copied from those of a token. */
static dop_status
keep_pad(dop_checkpoint *m, dop_diag *diag)
{
    const dop_weight *table = dop_weights_find(&m->weights, "input_embed");
    if (!table || m->vision->pad >= table->rows || table->col_stride)
        return DOP_FAIL(diag, DOP_E_INPUT, "the per-layer inputs of pictures, those of token %u, are missing",
                        m->vision->pad);
    float *row = dop_arena_alloc(m->arena, (size_t)table->cols * sizeof *row);
    if (!row)
        return DOP_NO_MEMORY(diag);
    dop_decode_row(table->type, dop_weight_at(table, m->vision->pad), table->cols, row);
    const dop_weight w = {.name = "v.input_pad",
                          .type = DOP_TYPE_f32,
                          .rank = 1,
                          .rows = 1,
                          .cols = table->cols,
                          .data = (const uint8_t *)row,
                          .row_stride = (uint64_t)table->cols * sizeof *row,
                          .source = table->source};
    DOP_RETURN_IF_ERROR(dop_weights_add(&m->weights, &w, m->arena, diag));
    return dop_weights_seal(&m->weights, diag);
}

dop_status
dop_checkpoint_tower(dop_checkpoint *m, const dop_vision_model *tower, dop_diag *diag)
{
    dop_status st = DOP_OK;
    for (uint32_t i = 0; i < tower->weights.n && st == DOP_OK; i++)
        st = dop_weights_add(&m->weights, &tower->weights.items[i], m->arena, diag);
    if (st == DOP_OK)
        st = dop_weights_seal(&m->weights, diag);
    dop_vision *facts = dop_arena_alloc(m->arena, sizeof *facts);
    if (!facts)
        return DOP_NO_MEMORY(diag);
    *facts = tower->facts;
    m->vision = facts;
    return st == DOP_OK && m->arch.inputs.width ? keep_pad(m, diag) : st;
}

dop_weight
dop_weight_expert(const dop_weight *w, uint32_t expert)
{
    if (w->rank != 3)
        return *w;
    dop_weight m = w->each ? w->each[expert] : *w;
    m.changes = w->changes;
    m.n_changes = w->n_changes;
    m.expert = expert;
    if (w->each)
        return m;
    m.rank = 2;
    m.experts = 0;
    m.expert_stride = 0;
    m.data = w->data + expert * w->expert_stride;
    m.factors = w->factors ? w->factors + 4 * (size_t)expert : NULL;
    return m;
}

/* True if a weight that starts inside a mapped file also ends there. A weight outside of all maps was assembled in
 * memory. */
static bool
is_inside_its_map(const dop_weights *w, const dop_weight *x, uint64_t bytes)
{
    uintptr_t at = (uintptr_t)x->data;
    for (uint32_t i = 0; i < w->n_maps; i++) {
        uintptr_t begin = (uintptr_t)w->maps[i].data;
        if (w->maps[i].data && at >= begin && at - begin <= w->maps[i].size)
            return bytes <= w->maps[i].size - (at - begin);
    }
    return true;
}

/* Computes the bytes from the first to the last value of a matrix, including strides; false on overflow. */
static bool
get_matrix_extent(const dop_weight *x, uint64_t *out)
{
    uint64_t row = 0, skip = 0;
    if (x->col_stride) {
        if (!dop_mul_u64(x->col_stride, x->cols - 1, &row) || !dop_add_u64(row, dop_type_of(x->type)->bytes, &row))
            return false;
    } else if (!dop_type_row_bytes(x->type, x->cols, &row)) {
        return false;
    }
    if (x->block_rows)
        return dop_add_u64((uint64_t)(dop_weight_at(x, x->rows - 1) - x->data), row, out);
    return dop_mul_u64(x->row_stride, x->rows - 1, &skip) && dop_add_u64(skip, row, out);
}

/* Computes the bytes from the first to the last value of a weight with all experts in one tensor; false on overflow. */
static bool
get_weight_extent(const dop_weight *x, uint64_t *out)
{
    const dop_weight first = dop_weight_expert(x, 0);
    uint64_t skip = 0;
    return get_matrix_extent(&first, out) && dop_mul_u64(x->expert_stride, dop_weight_experts(x) - 1, &skip) &&
           dop_add_u64(skip, *out, out);
}

typedef struct checker {
    const dop_weights *w;
    const char *path;
    dop_diag *diag;
} checker;

/* Checks type and extent of a weight, or of one expert's tensor. */
static dop_status
check_tensor(const checker *c, const dop_weight *x)
{
    const dop_type_info *type = dop_type_of(x->type);
    if (type->kind == DOP_KIND_INT || (x->rank == 1 && type->kind != DOP_KIND_FLOAT))
        return DOP_FAIL_IN(c->diag, DOP_E_INPUT, c->path, "tensor %s: type %s is not supported here", x->source,
                           type->name);
    if (x->col_stride && type->kind != DOP_KIND_FLOAT)
        return DOP_FAIL_IN(c->diag, DOP_E_INPUT, c->path, "tensor %s: transposed values of type %s are not supported",
                           x->source, type->name);
    if (x->parts) /* the importer has checked the whole tensors of parts */
        return DOP_OK;
    for (const dop_weight *below = x; below; below = below->below) {
        dop_weight own = *below;
        uint64_t bytes = 0;
        if (own.type != x->type || own.col_stride != x->col_stride || own.parts ||
            (own.below && (own.own_rows == 0 || own.rows != own.own_rows + own.below->rows)))
            return DOP_FAIL_IN(c->diag, DOP_E_INTERNAL, c->path, "the parts of weight %s do not fit", x->name);
        own.rows = own.below ? own.own_rows : own.rows;
        own.below = NULL;
        if (!own.data || !get_weight_extent(&own, &bytes) || !is_inside_its_map(c->w, &own, bytes))
            return DOP_FAIL_IN(c->diag, DOP_E_INPUT, c->path, "tensor %s ends past its file", x->source);
    }
    return DOP_OK;
}

/* Formats a shape, experts first: "8 x 64 x 32". */
static const char *
format_shape(uint32_t rank, uint32_t experts, uint32_t rows, uint32_t cols, char *out, size_t size)
{
    if (rank == 3)
        snprintf(out, size, "%u x %u x %u", experts, rows, cols);
    else
        snprintf(out, size, "%u x %u", rows, cols);
    return out;
}

static dop_status
check_weight_shape(const checker *c, const dop_weight *x, uint32_t rank, uint32_t experts, uint32_t rows, uint32_t cols)
{
    char got[40], want[40];
    if (x->rank == rank && x->experts == experts && x->rows == rows && x->cols == cols)
        return DOP_OK;
    return DOP_FAIL_IN(c->diag, DOP_E_INPUT, c->path, "tensor %s: %s values, expected %s", x->source,
                       format_shape(x->rank, x->experts, x->rows, x->cols, got, sizeof got),
                       format_shape(rank, experts, rows, cols, want, sizeof want));
}

static dop_status
check_weight(void *user, const dop_weight_need *need)
{
    const checker *c = user;
    const dop_weight *x = dop_weights_find(c->w, need->name);
    if (!x)
        return DOP_FAIL_IN(c->diag, DOP_E_INPUT, c->path, "weight %s is missing", need->name);
    DOP_RETURN_IF_ERROR(check_weight_shape(c, x, need->rank, need->experts, need->rows, need->cols));
    if (!x->each)
        return check_tensor(c, x);
    for (uint32_t e = 0; e < x->experts; e++) {
        const dop_weight *one = &x->each[e];
        DOP_RETURN_IF_ERROR(check_weight_shape(c, one, 2, 0, need->rows, need->cols));
        if (one->type != x->type)
            /* kernels use the same type and stride for all experts */
            return DOP_FAIL_IN(c->diag, DOP_E_INPUT, c->path, "tensor %s: type %s, but %s of the first expert is %s",
                               one->source, dop_type_of(one->type)->name, x->each[0].source,
                               dop_type_of(x->type)->name);
        DOP_RETURN_IF_ERROR(check_tensor(c, one));
    }
    return DOP_OK;
}

dop_status
dop_arch_check_weights(const dop_arch *a, const dop_weights *w, const char *path, dop_diag *diag)
{
    checker c = {w, path, diag};
    return dop_arch_each_weight(a, check_weight, &c);
}

dop_status
dop_drafter_list(const uint8_t *data, uint32_t bytes, bool relative, uint32_t vocab, const char *path,
                 const char *tensor, dop_arena *arena, dop_diag *diag, dop_weight *w)
{
    float *list = dop_arena_alloc(arena, w->cols * sizeof *list);
    if (!list)
        return DOP_NO_MEMORY(diag);
    for (uint32_t i = 0; i < w->cols; i++) {
        int64_t id = 0;
        int32_t half = 0;
        if (bytes == sizeof id)
            memcpy(&id, data + (size_t)i * bytes, sizeof id);
        else
            memcpy(&half, data + (size_t)i * bytes, sizeof half);
        id = bytes == sizeof id ? id : half;
        if (id < -(int64_t)vocab || id > vocab || (id += relative ? i : 0) < 0 || id >= vocab)
            return DOP_FAIL_IN(diag, DOP_E_INPUT, path, "tensor %s: entry %u names a token that is none of %u", tensor,
                               i, vocab);
        list[i] = (float)id;
    }
    w->type = DOP_TYPE_f32;
    w->row_stride = w->cols * sizeof *list;
    w->data = (const uint8_t *)list;
    w->source = tensor;
    return DOP_OK;
}
