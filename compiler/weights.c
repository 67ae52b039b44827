#include "compiler/arch.h"

#include <stdlib.h>
#include <string.h>

dop_status
dop_weights_add(dop_weights *w, const dop_weight *item, dop_arena *arena, dop_diag *diag)
{
    if (w->n == w->cap) {
        /* The old list stays in the arena: it at most doubles a few kilobytes. */
        uint32_t cap = w->cap ? w->cap * 2 : 64;
        dop_weight *list = dop_arena_alloc(arena, (size_t)cap * sizeof *list);
        if (!list)
            return DOP_FAIL(diag, DOP_E_NOMEM, "out of host memory");
        if (w->n)
            memcpy(list, w->items, w->n * sizeof *list);
        w->items = list;
        w->cap = cap;
    }
    dop_weight copy = *item;
    copy.name = dop_arena_strdup(arena, item->name);
    copy.source = dop_arena_strdup(arena, item->source ? item->source : item->name);
    if (!copy.name || !copy.source)
        return DOP_FAIL(diag, DOP_E_NOMEM, "out of host memory");
    w->items[w->n++] = copy;
    return DOP_OK;
}

static int
compare(const void *a, const void *b)
{
    return strcmp(((const dop_weight *)a)->name, ((const dop_weight *)b)->name);
}

dop_status
dop_weights_seal(dop_weights *w, dop_diag *diag)
{
    if (w->n)
        qsort(w->items, w->n, sizeof *w->items, compare);
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
    return w->n ? bsearch(&key, w->items, w->n, sizeof key, compare) : NULL;
}

/* A weight that starts inside a mapped file must end there too (one that lies in none was assembled in memory). */
static bool
inside_its_map(const dop_weights *w, const dop_weight *x, uint64_t bytes)
{
    uintptr_t at = (uintptr_t)x->data;
    for (uint32_t i = 0; i < w->n_maps; i++) {
        uintptr_t begin = (uintptr_t)w->maps[i].data;
        if (w->maps[i].data && at >= begin && at - begin <= w->maps[i].size)
            return bytes <= w->maps[i].size - (at - begin);
    }
    return true;
}

/* Bytes from a weight's first to its last value, strides included; false on overflow. */
static bool
extent(const dop_weight *x, uint64_t *out)
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

typedef struct checker {
    const dop_weights *w;
    const char *path;
    dop_diag *diag;
} checker;

static dop_status
check_weight(void *user, const dop_weight_need *need)
{
    const checker *c = user;
    const dop_weight *x = dop_weights_find(c->w, need->name);
    if (!x)
        return DOP_FAIL_IN(c->diag, DOP_E_INPUT, c->path, "weight %s is missing", need->name);
    if (x->rank != need->rank || x->rows != need->rows || x->cols != need->cols)
        return DOP_FAIL_IN(c->diag, DOP_E_INPUT, c->path, "tensor %s: %u x %u values, expected %u x %u", x->source,
                           x->rows, x->cols, need->rows, need->cols);
    const dop_type_info *type = dop_type_of(x->type);
    if (type->kind == DOP_KIND_INT || (need->rank == 1 && type->kind != DOP_KIND_FLOAT))
        return DOP_FAIL_IN(c->diag, DOP_E_INPUT, c->path, "tensor %s: type %s is not supported here", x->source,
                           type->name);
    if (x->col_stride && type->kind != DOP_KIND_FLOAT)
        return DOP_FAIL_IN(c->diag, DOP_E_INPUT, c->path, "tensor %s: transposed values of type %s are not supported",
                           x->source, type->name);
    if (x->parts) /* of whole tensors, which the importer has checked */
        return DOP_OK;
    uint64_t bytes = 0;
    if (!x->data || !extent(x, &bytes) || !inside_its_map(c->w, x, bytes))
        return DOP_FAIL_IN(c->diag, DOP_E_INPUT, c->path, "tensor %s ends past its file", x->source);
    return DOP_OK;
}

dop_status
dop_arch_check_weights(const dop_arch *a, const dop_weights *w, const char *path, dop_diag *diag)
{
    checker c = {w, path, diag};
    return dop_arch_each_weight(a, check_weight, &c);
}
