/* Imports GGUF files: finds the family, reads facts, and turns tensors into canonical weights. */
#include "frontend/gguf/import.h"
#include "frontend/facts/leftovers.h"
#include "frontend/facts/names.h"
#include "frontend/families/families.h"
#include "frontend/gguf/config.h"
#include "frontend/gguf/eagle.h"
#include "frontend/gguf/encoder.h"
#include "frontend/gguf/gguf_import.h"
#include "frontend/gguf/open.h"
#include "frontend/gguf/recurrent.h"
#include "ir/interp/interp.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static dop_status
get_gguf_type(const dop_gi *gi, const dop_gguf *part, const char *name, const dop_gguf_tensor *t, dop_type *out)
{
    dop_gguf_tensor_info info = {.name = "?"};
    char known[512] = "";
    size_t n = 0;
    dop_gguf_tensor_type(t->type, &info);
    if (dop_type_of_gguf(t->type, out) && dop_type_of(*out)->block == info.block &&
        dop_type_of(*out)->bytes == info.bytes)
        return DOP_OK;
    for (int k = 0; k < DOP_TYPE_COUNT; k++)
        for (const char *c = dop_type_of((dop_type)k)->name;
             dop_type_of((dop_type)k)->gguf >= 0 && n < sizeof known - 4; c++) {
            if (*c) {
                known[n++] = (char)(*c >= 'a' && *c <= 'z' ? *c - 32 : *c);
                continue;
            }
            known[n++] = ',';
            known[n++] = ' ';
            break;
        }
    known[n > 2 ? n - 2 : 0] = 0;
    return DOP_FAIL_IN(gi->diag, DOP_E_INPUT, part->path, "tensor %s: type %s is not supported; known: %s", name,
                       info.name, known);
}

/* Fails with "8 x 64 x 32 values, expected 4 x 64 x 32", slowest axis first (products sum over the last one). */
static dop_status
fail_gguf_shape(const dop_gi *gi, const dop_gguf *part, const char *name, const uint64_t *got, const uint64_t *want)
{
    char text[2][72];
    const uint64_t *dims[] = {got, want};
    for (int i = 0; i < 2; i++) {
        int n = 0;
        if (got[2] != 1 || want[2] != 1)
            n = snprintf(text[i], sizeof text[i], "%llu x ", (unsigned long long)dims[i][2]);
        snprintf(text[i] + n, sizeof text[i] - (size_t)n, "%llu x %llu", (unsigned long long)dims[i][1],
                 (unsigned long long)dims[i][0]);
    }
    return DOP_FAIL_IN(gi->diag, DOP_E_INPUT, part->path, "tensor %s: %s values, expected %s by the metadata", name,
                       text[0], text[1]);
}

/* NVFP4: sets w->factors from the tensor "blk.0.attn_q.scale" or "...weight.scale": one factor, or one per expert. "input_scale"
 * is unused, since activations are not quantized here. */
static dop_status
take_factors(const dop_gi *gi, const char *name, dop_weight *w)
{
    const char *end = strstr(name, ".weight");
    const uint64_t n = w->rank == 3 ? w->experts : 1;
    for (int with = 0; with < 2 && w->type == DOP_TYPE_nvfp4 && end; with++) {
        const dop_gguf *part = NULL;
        char scale[112];
        const int base = (int)(end - name) + (with ? 7 : 0);
        snprintf(scale, sizeof scale, "%.*s.input_scale", base, name);
        (void)dop_gi_take(gi, scale, &part);
        snprintf(scale, sizeof scale, "%.*s.scale", base, name);
        const dop_gguf_tensor *t = dop_gi_take(gi, scale, &part);
        if (!t)
            continue;
        if (t->type != 0 || t->bytes != 4 * n)
            return DOP_FAIL_IN(gi->diag, DOP_E_INPUT, part->path,
                               "tensor %s is not what values are multiplied by: %llu of F32 expected", scale,
                               (unsigned long long)n);
        w->factors = part->map.data + t->offset;
        for (uint64_t i = 0; i < n; i++) {
            float v;
            memcpy(&v, w->factors + 4 * i, sizeof v);
            if (!isfinite(v))
                return DOP_FAIL_IN(gi->diag, DOP_E_INPUT, part->path, "tensor %s has an infinity or NaN", scale);
        }
    }
    return DOP_OK;
}

/* DOP_PART_K_UP, _V_UP: builds w, latent attention's key or value matrices by head, from the matrix t, which has both. Key
 * matrices are used transposed; quantized ones are copied for that. */
static dop_status
take_up(const dop_gi *gi, const dop_gguf *part, const dop_gguf_tensor *t, const dop_rows *rows, bool transposed,
        dop_weight *w)
{
    const uint32_t inner = transposed ? w->rows : w->cols;
    const uint64_t value = dop_type_of(w->type)->bytes, each = rows->each / inner;
    uint64_t row = 0;
    if (!dop_type_row_bytes(w->type, inner, &row))
        return DOP_FAIL_IN(gi->diag, DOP_E_INPUT, part->path, "tensor %s: rows of %u values are no blocks of %s",
                           w->source, inner, dop_type_of(w->type)->name);
    w->data = part->map.data + t->offset + rows->start * row;
    w->expert_stride = each * row;
    w->row_stride = transposed ? value : row;
    w->col_stride = transposed ? row : 0;
    if (!transposed || dop_type_of(w->type)->block == 1)
        return DOP_OK;
    float *copy = dop_arena_alloc(gi->model->arena, (uint64_t)w->experts * w->rows * w->cols * sizeof *copy);
    float *one = dop_arena_alloc(gi->model->arena, w->rows * sizeof *one);
    if (!copy || !one)
        return DOP_NO_MEMORY(gi->diag);
    for (uint64_t h = 0; h < w->experts; h++)
        for (uint64_t c = 0; c < w->cols; c++) {
            dop_decode_row(w->type, w->data + h * w->expert_stride + c * row, w->rows, one);
            for (uint64_t r = 0; r < w->rows; r++)
                copy[(h * w->rows + r) * w->cols + c] = one[r];
        }
    w->type = DOP_TYPE_f32;
    w->row_stride = w->cols * sizeof *copy;
    w->expert_stride = w->rows * w->row_stride;
    w->col_stride = 0;
    w->data = (const uint8_t *)copy;
    return DOP_OK;
}

/* Builds w from `rows` of the tensor `name` (rank 1: values; rank 3: rows of each expert). */
static dop_status
take_gguf_weight(const dop_gi *gi, const char *name, const dop_rows *rows, bool transposed, dop_weight *w)
{
    const dop_gguf *part = NULL;
    const dop_gguf_tensor *t = dop_gi_take(gi, name, &part);
    if (!t)
        return DOP_FAIL_IN(gi->diag, DOP_E_INPUT, gi->path, "tensor %s is missing", name);
    uint64_t row = 0, want[4] = {w->cols, rows->total, w->rank == 3 ? w->experts : 1, 1};
    if (w->rank == 1) {
        want[0] = rows->turned ? rows->block_step : rows->total;
        want[1] = rows->turned ? rows->block : 1;
    }
    /* Files may store a recurrent layer's vector as a column or with a row per group, and a norm with a row per
     * head. */
    const bool folded = w->rank == 1 && !rows->turned && t->dims[1] != 1 && t->dims[2] == 1 && t->dims[3] == 1 &&
                        (gi->family->recurrent || gi->family->flags & DOP_FAM_HEAD_NORM) && t->dims[0] <= rows->total &&
                        t->dims[1] <= rows->total && t->dims[0] * t->dims[1] == rows->total;
    if (rows->each) { /* the matrices of all heads are stacked in one matrix */
        want[0] = transposed ? w->rows : w->cols;
        want[1] = w->experts * (rows->each / want[0]);
        want[2] = 1;
    }
    if (!folded && memcmp(t->dims, want, sizeof want) != 0)
        return fail_gguf_shape(gi, part, name, t->dims, want);
    dop_status st = get_gguf_type(gi, part, name, t, &w->type);
    if (st != DOP_OK)
        return st;
    w->source = dop_arena_strdup(gi->model->arena, name);
    if (!w->source)
        return DOP_NO_MEMORY(gi->diag);
    if (!dop_type_row_bytes(w->type, (uint32_t)(rows->each ? want[0] : w->cols), &row) ||
        (w->rank == 1 && dop_type_of(w->type)->block != 1))
        return DOP_FAIL_IN(gi->diag, DOP_E_INPUT, part->path, "tensor %s: type %s is not supported for a vector", name,
                           dop_type_of(w->type)->name);
    if (rows->each)
        return take_up(gi, part, t, rows, transposed, w);
    w->row_stride = row;
    if (w->rank == 2) {
        w->block_rows = rows->block;
        w->block_stride = rows->block_step * row;
    }
    w->expert_stride = w->rank == 3 ? rows->total * row : 0;
    w->data = part->map.data + t->offset + rows->start * (w->rank == 1 ? dop_type_of(w->type)->bytes : row);
    return take_factors(gi, name, w);
}

/* DOP_PART_KEY: builds w, a single value, from a key with a value per layer or one for all layers. */
static dop_status
take_key(const dop_gi *gi, const char *key, int32_t layer, dop_weight *w)
{
    const dop_gguf_kv *kv = dop_gguf_find(&gi->parts[0], key);
    const uint64_t n = gi->model->arch.n_layers;
    double v = 0;
    float *value = dop_arena_alloc(gi->model->arena, sizeof *value);
    if (!value)
        return DOP_NO_MEMORY(gi->diag);
    if (!kv)
        return DOP_FAIL_IN(gi->diag, DOP_E_INPUT, gi->path, "%s is missing", key);
    if ((kv->type == DOP_GGUF_ARRAY && kv->count != n) ||
        !dop_gguf_f64(kv, kv->type == DOP_GGUF_ARRAY ? (uint64_t)layer : 0, &v))
        return DOP_FAIL_IN(gi->diag, DOP_E_INPUT, gi->path, "%s is not one number per layer", key);
    *value = (float)v;
    w->type = DOP_TYPE_f32;
    w->row_stride = sizeof *value;
    w->data = (const uint8_t *)value;
    w->source = key;
    return DOP_OK;
}

static void
get_gguf_tensor_name(const dop_gi *gi, const dop_weight_need *need, const char *source, char *out, size_t size)
{
    if (need->layer >= 0 && source[0] != '/')
        snprintf(out, size, "%s%d.%s", dop_gguf_layer_prefix(gi->family), (int)need->layer, source);
    else
        snprintf(out, size, "%s", source + (source[0] == '/'));
}

/* Returns the table row that names a weight's tensor or key: the first whose tensor is in the file. For consecutive rows of one
 * role (parts of a matrix) this is the first part. */
static const dop_tensor_name *
find_gguf_name(const dop_gi *gi, const dop_weight_need *need)
{
    const dop_tensor_name *lists[] = {need->layer >= 0 ? dop_gguf_names_fused : NULL, gi->family->more_gguf_names,
                                      dop_gguf_names},
                          *first = NULL;
    for (unsigned k = 0; k < 3; k++)
        for (const dop_tensor_name *n = lists[k]; n && n->role != DOP_W_none; n++) {
            char name[96];
            if (n->role != need->role || (n != lists[k] && n[-1].role == n->role))
                continue;
            get_gguf_tensor_name(gi, need, n->source, name, sizeof name);
            if (dop_gi_tensor(gi, name, NULL))
                return n;
            first = first || k == 0 ? first : n;
        }
    return first;
}

/* Fills the rows of w after the first `own`, from the tensors of the table rows after n with n's role. */
static dop_status
take_gguf_below(const dop_gi *gi, const dop_tensor_name *n, const dop_weight_need *need, uint32_t own, dop_weight *w)
{
    dop_weight *above = w;
    for (; n[1].role == n->role; n++) {
        char name[96];
        const dop_rows rows =
            dop_part_rows(need->layer >= 0 ? &gi->model->arch.layers[need->layer] : NULL, n[1].part, need->rows);
        dop_weight *below = dop_arena_alloc(gi->model->arena, sizeof *below);
        if (!below)
            return DOP_NO_MEMORY(gi->diag);
        if (need->rank != 2 || own == 0 || own >= above->rows)
            return DOP_FAIL_IN(gi->diag, DOP_E_INTERNAL, gi->path, "weight %s cannot be made of parts", need->name);
        get_gguf_tensor_name(gi, need, n[1].source, name, sizeof name);
        *below = (dop_weight){.name = need->name, .rank = 2, .rows = above->rows - own, .cols = need->cols};
        DOP_RETURN_IF_ERROR(take_gguf_weight(gi, name, &rows, false, below));
        if (below->type != w->type)
            return DOP_FAIL_IN(gi->diag, DOP_E_INPUT, gi->path, "tensor %s: type %s, but %s, which it follows, is %s",
                               name, dop_type_of(below->type)->name, w->source, dop_type_of(w->type)->name);
        above->own_rows = own;
        above->below = below;
        above = below;
        own = rows.own;
    }
    return DOP_OK;
}

/* Older files have a tensor per expert, "ffn_gate.0" to "ffn_gate.7", instead of "ffn_gate_exps". */
static void
split_name(const dop_gi *gi, const dop_weight_need *need, char *name, size_t size)
{
    char one[96], pattern[96];
    const char *mark = strstr(name, "_exps.");
    if (need->rank != 3 || !mark || dop_gi_tensor(gi, name, NULL))
        return;
    snprintf(pattern, sizeof pattern, "%.*s.*.%s", (int)(mark - name), name, mark + strlen("_exps."));
    dop_expert_name(pattern, 0, one, sizeof one);
    if (dop_gi_tensor(gi, one, NULL))
        snprintf(name, size, "%s", pattern);
}

static dop_status
fill_gguf_weight(void *user, const dop_weight_need *need)
{
    dop_gi *gi = user;
    const dop_tensor_name *n = find_gguf_name(gi, need);
    if (!n)
        return DOP_FAIL_IN(gi->diag, DOP_E_INPUT, gi->path,
                           "the metadata calls for a tensor that files of %s do not have (%s)", gi->family->name,
                           dop_role_name(need->role));
    char name[96], one[112];
    if (n->part == DOP_PART_KEY)
        snprintf(name, sizeof name, "%s", n->source);
    else
        get_gguf_tensor_name(gi, need, n->source, name, sizeof name);
    dop_weight *each = NULL, w = {.name = need->name,
                                  .rank = need->rank,
                                  .experts = need->experts,
                                  .rows = need->rows,
                                  .cols = need->cols};
    const uint32_t own = need->rank == 1 ? need->cols : need->rows;
    const dop_rows rows = dop_part_rows(need->layer >= 0 ? &gi->model->arch.layers[need->layer] : NULL, n->part, own);
    split_name(gi, need, name, sizeof name);
    dop_status st = dop_expert_list(need, name, gi->model->arena, gi->diag, &each);
    if (st == DOP_OK && need->role == DOP_W_draft_ids)
        st = dop_gi_eagle_list(gi, name, &w);
    else if (st == DOP_OK && n->part == DOP_PART_KEY)
        st = take_key(gi, n->source, need->layer, &w);
    else if (st == DOP_OK && rows.turned && n[1].role == n->role)
        return (st = dop_gi_taps(gi, n, need, &rows, &w)) == DOP_OK
                   ? dop_weights_add(&gi->model->weights, &w, gi->model->arena, gi->diag)
                   : st;
    else if (st == DOP_OK && !each)
        st = take_gguf_weight(gi, name, &rows, n->transposed, &w);
    if (st == DOP_OK && !each && need->rank == 2)
        st = take_gguf_below(gi, n, need, rows.own, &w);
    if (st == DOP_OK && (rows.turned || n->part == DOP_PART_DECAY))
        st = dop_gi_vector(gi, &rows, &w);
    if (st == DOP_OK)
        st = dop_gi_swap_classes(gi, need, &w);
    for (uint32_t e = 0; each && e < need->experts && st == DOP_OK; e++) {
        dop_expert_name(name, e, one, sizeof one);
        st = take_gguf_weight(gi, one, &rows, false, &each[e]);
    }
    if (st == DOP_OK && each) {
        w.each = each;
        w.type = each[0].type;
        w.source = each[0].source;
    }
    return st == DOP_OK ? dop_weights_add(&gi->model->weights, &w, gi->model->arena, gi->diag) : st;
}

dop_status
dop_gi_weights(dop_gi *gi)
{
    DOP_RETURN_IF_ERROR(dop_arch_each_weight(&gi->model->arch, fill_gguf_weight, gi));
    return dop_weights_seal(&gi->model->weights, gi->diag);
}

static bool
key_has_value(const dop_gguf *g, const char *key, const char *value)
{
    dop_gguf_str s;
    return dop_gguf_string(dop_gguf_find(g, key), &s) && s.len == strlen(value) && memcmp(s.data, value, s.len) == 0;
}

/* Fails for GGUF files that are not models. */
static dop_status
refuse_type(const dop_gi *gi)
{
    const dop_gguf *g = &gi->parts[0];
    dop_gguf_str base;
    if (key_has_value(g, "general.type", "adapter")) {
        const bool named = dop_gguf_string(dop_gguf_find(g, "general.base_model.0.name"), &base) && base.len < 100;
        return DOP_FAIL_IN(gi->diag, DOP_E_INPUT, gi->path,
                           "this is a LoRA adapter%s%.*s, not a model: name its model, and this with `loras`",
                           named ? " of " : "", named ? (int)base.len : 0, named ? base.data : "");
    }
    if (key_has_value(g, "general.type", "mmproj") || key_has_value(g, "general.architecture", "clip"))
        return DOP_FAIL_IN(
            gi->diag, DOP_E_INPUT, gi->path,
            "this is the vision part (mmproj) of a model: name the GGUF file of its text part, and this one with "
            "`mmproj`");
    if (key_has_value(g, "general.type", "imatrix"))
        return DOP_FAIL_IN(gi->diag, DOP_E_INPUT, gi->path, "this is an importance matrix, not a model");
    return DOP_OK;
}

static dop_status
find_gguf_family(dop_gi *gi)
{
    dop_gguf_str arch;
    dop_status st = refuse_type(gi);
    if (st != DOP_OK)
        return st;
    if (!dop_gguf_string(dop_gguf_find(&gi->parts[0], "general.architecture"), &arch))
        return DOP_FAIL_IN(gi->diag, DOP_E_INPUT, gi->path, "general.architecture is missing or not a string");
    char key[96];
    uint64_t experts = 0, window = 0;
    snprintf(key, sizeof key, "%.*s.expert_count", (int)(arch.len > 60 ? 60 : arch.len), arch.data);
    dop_gguf_u64(dop_gguf_find(&gi->parts[0], key), 0, &experts);
    snprintf(key, sizeof key, "%.*s.attention.sliding_window", (int)(arch.len > 60 ? 60 : arch.len), arch.data);
    dop_gguf_u64(dop_gguf_find(&gi->parts[0], key), 0, &window);
    gi->family = dop_family_by_gguf(arch.data, (size_t)arch.len, experts > 0, window > 0);
    gi->name = dop_arena_printf(gi->model->arena, "%.*s", (int)(arch.len > 60 ? 60 : arch.len), arch.data);
    if (!gi->name)
        return DOP_NO_MEMORY(gi->diag);
    if (gi->family)
        return DOP_OK;
    dop_buf known = {0};
    dop_family_list_gguf(&known);
    st = DOP_FAIL_IN(gi->diag, DOP_E_INPUT, gi->path,
                     "architecture \"%.*s\" is not supported in GGUF files; "
                     "known: %s",
                     (int)(arch.len > 60 ? 60 : arch.len), arch.data, known.data ? known.data : "");
    dop_buf_finish(&known);
    return st;
}

static dop_status
check_gguf_leftovers(const dop_gi *gi)
{
    char key[64];
    snprintf(key, sizeof key, "%s.block_count", gi->name);
    dop_leftovers l = {.model = gi->model,
                       .diag = gi->diag,
                       .facts = "the metadata",
                       .layer_prefix = dop_gguf_layer_prefix(gi->family),
                       .layers_key = key,
                       .draft_layers = gi->draft};
    size_t at = 0;
    for (uint32_t i = 0; i < gi->n_parts; i++)
        for (size_t k = 0; k < gi->parts[i].tensor_count; k++) {
            const dop_gguf_tensor *t = &gi->parts[i].tensors[k];
            if (gi->taken[at++])
                continue;
            char *name = dop_arena_printf(gi->model->arena, "%.*s", (int)t->name.len, t->name.data);
            DOP_RETURN_IF_ERROR(name ? dop_leftovers_add(&l, name, t->dims_count, gi->parts[i].path)
                                     : DOP_NO_MEMORY(gi->diag));
        }
    return dop_leftovers_finish(&l);
}

dop_status
dop_import_gguf(const char *path, dop_diag *diag, dop_checkpoint *m)
{
    dop_gi gi = {.path = path, .diag = diag, .model = m};
    dop_status st = dop_gi_open(&gi);
    if (st == DOP_OK)
        st = find_gguf_family(&gi);
    if (st == DOP_OK)
        st = dop_gi_config(&gi);
    if (st == DOP_OK)
        st = dop_arch_check(&m->arch, path, diag);
    if (st == DOP_OK)
        st = dop_gi_weights(&gi);
    if (st == DOP_OK)
        st = check_gguf_leftovers(&gi);
    dop_gi_close(&gi);
    if (st == DOP_OK && m->weights.n_maps != gi.n_parts)
        st = DOP_NO_MEMORY(diag);
    return st == DOP_OK ? dop_arch_check_weights(&m->arch, &m->weights, path, diag) : st;
}
