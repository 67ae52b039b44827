/* Pairs of matrices: groups the tensors of an adapter file by module. */
#include "base/format/adapter_file.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_TENSORS = 1 << 20 };

dop_status
dop_adapter_add(dop_adapter_file *f, const char *module, size_t len, dop_arena *arena, dop_diag *diag,
                dop_adapter_pair **out)
{
    if (f->n_pairs == MAX_TENSORS)
        return DOP_FAIL_IN(diag, DOP_E_INPUT, f->path, "more than %d tensors", MAX_TENSORS);
    char *name = dop_arena_printf(arena, "%.*s", (int)len, module);
    if (!name || !dop_arena_grow(arena, (void **)&f->pairs, f->n_pairs, &f->cap_pairs, sizeof *f->pairs))
        return DOP_NO_MEMORY(diag);
    f->pairs[f->n_pairs] = (dop_adapter_pair){.module = name, .scale = 1};
    *out = &f->pairs[f->n_pairs++];
    return DOP_OK;
}

static int
compare_modules(const void *a, const void *b)
{
    return strcmp(((const dop_adapter_pair *)a)->module, ((const dop_adapter_pair *)b)->module);
}

/* Moves a matrix into the pair of its module. */
static dop_status
move_pair_matrix(const dop_adapter_file *f, const dop_adapter_matrix *from, dop_adapter_matrix *to, dop_diag *diag)
{
    if (from->tensor && to->tensor)
        return DOP_FAIL_IN(diag, DOP_E_INPUT, f->path, "tensors %s and %s are for one module", to->tensor,
                           from->tensor);
    if (from->tensor)
        *to = *from;
    return DOP_OK;
}

dop_status
dop_adapter_join(dop_adapter_file *f, dop_diag *diag)
{
    uint32_t n = 0;
    if (f->n_pairs)
        qsort(f->pairs, f->n_pairs, sizeof *f->pairs, compare_modules);
    for (uint32_t i = 0; i < f->n_pairs; i++) {
        const dop_adapter_pair *p = &f->pairs[i];
        dop_adapter_pair *to = n > 0 ? &f->pairs[n - 1] : NULL;
        if (!to || strcmp(to->module, p->module) != 0) {
            f->pairs[n++] = *p;
            continue;
        }
        DOP_RETURN_IF_ERROR(move_pair_matrix(f, &p->a, &to->a, diag));
        DOP_RETURN_IF_ERROR(move_pair_matrix(f, &p->b, &to->b, diag));
        DOP_RETURN_IF_ERROR(move_pair_matrix(f, &p->lengths, &to->lengths, diag));
        DOP_RETURN_IF_ERROR(move_pair_matrix(f, &p->whole, &to->whole, diag));
        DOP_RETURN_IF_ERROR(move_pair_matrix(f, &p->alpha, &to->alpha, diag));
        to->embedding |= p->embedding;
        to->turned |= p->turned;
    }
    f->n_pairs = n;
    return DOP_OK;
}

static uint16_t
load_u16_le(const uint8_t *p)
{
    return (uint16_t)(p[0] | p[1] << 8);
}

float
dop_adapter_value(const dop_adapter_matrix *m, uint64_t i)
{
    const uint8_t *block;
    float v;
    switch (m->type) {
    case DOP_ADAPTER_F32:
        memcpy(&v, m->data + 4 * i, sizeof v);
        return v;
    case DOP_ADAPTER_F16:
        return dop_f16_to_f32(load_u16_le(m->data + 2 * i));
    case DOP_ADAPTER_BF16:
        return dop_bf16_to_f32(load_u16_le(m->data + 2 * i));
    default:
        block = m->data + i / 32 * 34;
        return dop_f16_to_f32(load_u16_le(block)) * (float)(int8_t)block[2 + i % 32];
    }
}
