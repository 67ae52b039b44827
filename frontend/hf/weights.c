/* Converts tensors of a Hugging Face directory to canonical weights: names from the family's table, fused tensors as row ranges,
 * Conv1D tensors by strides, experts as one tensor or one each. Matrices are not copied; some vectors are. */
#include "frontend/hf/weights.h"
#include "frontend/facts/leftovers.h"
#include "frontend/facts/names.h"
#include "frontend/hf/attention.h"
#include "frontend/hf/codes.h"
#include "frontend/hf/eagle.h"
#include "frontend/hf/encoder.h"
#include "frontend/hf/flat.h"
#include "frontend/hf/hf.h"
#include "frontend/hf/image.h"
#include "frontend/hf/keys.h"
#include "frontend/hf/quant.h"
#include "frontend/hf/vision.h"
#include "frontend/vision/tower.h"
#include "ir/interp/interp.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct filler {
    dop_hf *hf;
    dop_st_set set;
    const char *prefix;     /* prefix of all tensor names except lm_head's */
    const dop_layer *layer; /* layer of the current weight; NULL: outside of the layers */
    uint32_t apart;         /* number of separate blocks that hold the drafting layer; 0: it follows the other layers */
    /* Drafter: prefixes of tensor names outside and inside of its layer; NULL: not a drafter. */
    const char *root, *inside;
} filler;

/* True if the checkpoint has a tensor, or its quantized form. */
static bool
has_hf_tensor(void *user, const char *name)
{
    const filler *f = user;
    const size_t n = strlen(name);
    char words[300];
    snprintf(words, sizeof words, "%.*sqweight", (int)(n < 6 ? 0 : n - 6), name);
    return dop_st_find(&f->set, name) || dop_hf_has_codes(&f->set, name) ||
           (f->hf->quant.used && n > 7 && strcmp(name + n - 7, ".weight") == 0 && dop_st_find(&f->set, words));
}

/* Copies the values of a vector that are in several blocks of a tensor. */
static dop_status
collect_vector_blocks(const filler *f, const dop_st_tensor *t, const dop_rows *rows, dop_weight *w)
{
    const size_t value = dop_type_of(dop_hf_type(t))->bytes;
    uint8_t *copy = dop_arena_alloc(f->hf->arena, w->cols * value);
    if (!copy)
        return DOP_NO_MEMORY(f->hf->diag);
    for (uint32_t i = 0; i < w->cols; i++)
        memcpy(copy + i * value,
               t->data + (rows->start + (uint64_t)(i / rows->block) * rows->block_step + i % rows->block) * value,
               value);
    w->data = copy;
    return DOP_OK;
}

/* Copies and transposes convolution taps from [channels, taps] to [taps, channels], times the factor of the channel's values. */
static dop_status
transpose_taps(const filler *f, const dop_st_tensor *t, const dop_rows *rows, dop_weight *w)
{
    const dop_recurrent *s = f->layer ? dop_layer_recurrent(f->layer) : NULL;
    const uint32_t channels = rows->block, taps = rows->block_step, values = s ? s->n_heads * s->head_dim : 0;
    const uint64_t row = taps * dop_type_of(dop_hf_type(t))->bytes;
    float one[DOP_MAX_TAPS], *copy = dop_arena_alloc(f->hf->arena, w->cols * sizeof *copy);
    if (!copy)
        return DOP_NO_MEMORY(f->hf->diag);
    for (uint32_t c = 0; c < channels; c++) {
        double by = !s || !values                          ? 1
                    : c < values                           ? s->value_scale
                    : c < values + (channels - values) / 2 ? s->key_scale
                                                           : s->query_scale;
        dop_decode_row(dop_hf_type(t), t->data + c * row, taps, one);
        for (uint32_t k = 0; k < taps; k++)
            copy[(uint64_t)k * channels + c] = (float)(by * (double)one[k]);
    }
    w->type = DOP_TYPE_f32;
    w->row_stride = w->cols * sizeof *copy;
    w->data = (const uint8_t *)copy;
    return DOP_OK;
}

/* Checks the shape of a tensor whose `rows` are w; the experts' axis is first. */
static dop_status
check_hf_shape(const filler *f, const dop_st_tensor *t, bool transposed, const dop_rows *rows, const dop_weight *w)
{
    const uint64_t taps[] = {rows->block, 1, rows->block_step};
    const bool one = t->rank == 0 && w->rank == 1 && rows->total == 1; /* a scalar, of shape [] */
    const uint64_t single[] = {1, rows->total}, headed[] = {rows->row ? rows->total / rows->row : 1, rows->row};
    const uint64_t vector[] = {rows->total}, matrix[] = {w->experts, rows->total, w->cols},
                   turned[] = {w->experts, w->cols, rows->total};
    if (one)
        return DOP_OK;
    if (rows->loose) {
        uint64_t n = 1;
        for (uint32_t i = 0; i < t->rank; i++)
            n = dop_mul_u64(n, t->shape[i], &n) ? n : 0;
        return n == rows->total ? DOP_OK : dop_st_check_shape(t, 1, vector, f->hf->diag);
    }
    if (rows->flat) {
        const uint64_t below[] = {w->experts * (uint64_t)(transposed ? w->cols : w->rows),
                                  transposed ? w->rows : w->cols};
        return dop_st_check_shape(t, 2, below, f->hf->diag);
    }
    if (rows->row && t->rank == 2)
        return dop_st_check_shape(t, 2, headed, f->hf->diag);
    if (rows->each) { /* the matrices of all experts are stacked in one matrix */
        const uint64_t inner = transposed ? w->rows : w->cols, below[] = {w->experts * rows->each / inner, inner};
        return dop_st_check_shape(t, 2, below, f->hf->diag);
    }
    if (rows->turned)
        return dop_st_check_shape(t, 3, taps, f->hf->diag);
    if (rows->one_row)
        return dop_st_check_shape(t, 2, single, f->hf->diag);
    if (w->rank == 1)
        return dop_st_check_shape(t, 1, vector, f->hf->diag);
    return dop_st_check_shape(t, w->rank, (transposed ? turned : matrix) + 3 - w->rank, f->hf->diag);
}

/* Sets data and strides of w to `rows` of the floats in t (rank 1: values; rank 3: rows of each expert). */
static dop_status
place_tensor_rows(const filler *f, const dop_st_tensor *t, bool transposed, const dop_rows *rows, dop_weight *w)
{
    dop_diag *diag = f->hf->diag;
    dop_status st = check_hf_shape(f, t, transposed, rows, w);
    if (st != DOP_OK)
        return st;
    if (dop_hf_block_type(t) != DOP_TYPE_none && w->rank == 2 && !transposed && !rows->turned) {
        w->type = dop_hf_block_type(t);
        w->source = t->name;
        (void)dop_type_row_bytes(w->type, w->cols, &w->row_stride); /* cannot overflow: the tensor has these bytes */
        w->data = t->data + rows->start * w->row_stride;
        w->block_rows = rows->block;
        w->block_stride = rows->block_step * w->row_stride;
        return DOP_OK;
    }
    st = dop_hf_check_float(t, diag);
    if (st != DOP_OK)
        return st;
    const uint64_t value = dop_type_of(dop_hf_type(t))->bytes;
    w->type = dop_hf_type(t);
    w->source = t->name;
    if (w->rank > 1 && transposed) {
        w->row_stride = value;
        w->col_stride = rows->total * value;
    } else {
        w->row_stride = w->cols * value;
    }
    if (rows->turned)
        return transpose_taps(f, t, rows, w);
    if (w->rank == 1 && rows->block)
        return collect_vector_blocks(f, t, rows, w);
    w->expert_stride = w->rank == 3 ? (rows->each ? rows->each : rows->total * w->cols) * value : 0;
    w->block_rows = rows->block;
    w->block_stride = rows->block_step * w->row_stride;
    w->data = t->data + rows->start * (w->rank == 1 ? value : w->row_stride);
    return DOP_OK;
}

/* Cuts "weight" off "model.layers.0.mlp.up_proj.weight", which leaves the prefix of a quantized matrix's tensors. */
static bool
cut_weight(char *name)
{
    size_t n = strlen(name);
    const bool ends = n > 7 && strcmp(name + n - 7, ".weight") == 0;
    if (ends)
        name[n - 6] = 0;
    return ends;
}

/* Builds w, a matrix with a row per expert, from a tensor with a vector per expert. Uses the values `rows` of each
 * vector. */
static dop_status
place_vectors(const filler *f, const dop_st_tensor *t, const dop_rows *rows, dop_weight *w)
{
    const uint64_t shape[] = {w->rows, rows->total};
    dop_status st = dop_st_check_shape(t, 2, shape, f->hf->diag);
    if (st == DOP_OK)
        st = dop_hf_check_float(t, f->hf->diag);
    if (st != DOP_OK)
        return st;
    const uint64_t value = dop_type_of(dop_hf_type(t))->bytes;
    w->type = dop_hf_type(t);
    w->source = t->name;
    w->row_stride = rows->total * value;
    /* each block is a single value, so blocks are a column stride */
    w->col_stride = rows->block ? rows->block_step * value : 0;
    w->data = t->data + rows->start * value;
    return DOP_OK;
}

/* True if the shape of an expert tensor is [experts, inputs, outputs] instead of [experts, outputs, inputs]; checkpoints have
 * either. False if both would fit. */
static bool
is_transposed(const dop_st_tensor *t, const dop_rows *rows, const dop_weight *w)
{
    return w->rank == 3 && t->rank == 3 && !rows->each && !rows->flat && t->shape[1] == w->cols &&
           t->shape[2] == rows->total && rows->total != w->cols;
}

/* Builds w from the tensor `name`, or from its quantized form. */
static dop_status
take_hf_weight(filler *f, char *name, const dop_tensor_name *n, const dop_rows *rows, dop_weight *w)
{
    dop_hf *hf = f->hf;
    if (w->rank == 2 && !n->transposed && !rows->each && dop_hf_has_flat(hf, &f->set, name) && cut_weight(name))
        return dop_hf_flat_weight(hf, &f->set, name, rows, w);
    if (w->rank == 2 && !n->transposed && !rows->each && dop_hf_has_codes(&f->set, name) && cut_weight(name))
        return dop_hf_codes_weight(hf, &f->set, name, rows, w);
    if (w->rank == 3 && !n->transposed && !rows->each && !rows->flat && dop_hf_has_expert_codes(&f->set, name))
        return dop_hf_expert_codes(hf, &f->set, name, rows, w);
    const dop_st_tensor *t = dop_st_take(&f->set, name);
    if (t) /* quantizers leave some matrices unquantized */
        return place_tensor_rows(f, t, n->transposed || (hf->family->experts_either && is_transposed(t, rows, w)), rows,
                                 w);
    if (hf->quant.mxfp4 && w->rank == 3)
        return dop_hf_mxfp4_weight(hf, &f->set, name, rows, w);
    if (hf->quant.used && w->rank == 2 && !rows->block && cut_weight(name))
        return dop_hf_quant_weight(hf, &f->set, name, rows->total, rows->start, w);
    return DOP_FAIL_IN(hf->diag, DOP_E_INPUT, f->set.path, "tensor %s is missing", name);
}

/* Fills the rows of w after the first `own`, from the tensors of the table rows after n with n's role. */
static dop_status
take_hf_below(filler *f, const dop_tensor_name *n, const dop_weight_need *need, uint32_t own, dop_weight *w)
{
    dop_hf *hf = f->hf;
    dop_weight *above = w;
    for (; n[1].role == n->role; n++) {
        char name[256];
        const dop_rows rows = dop_part_rows(f->layer, n[1].part, need->rows);
        dop_weight *below = dop_arena_alloc(hf->arena, sizeof *below);
        if (!below)
            return DOP_NO_MEMORY(hf->diag);
        if (need->rank != 2 || own == 0 || own >= above->rows || above->parts)
            return DOP_FAIL_IN(hf->diag, DOP_E_INTERNAL, hf->path, "weight %s cannot be made of parts", need->name);
        dop_hf_full_name(f->prefix, hf->family->layer_prefix, need, n[1].source, name, sizeof name);
        *below = (dop_weight){.name = need->name, .rank = 2, .rows = above->rows - own, .cols = need->cols};
        DOP_RETURN_IF_ERROR(take_hf_weight(f, name, &n[1], &rows, below));
        above->own_rows = own;
        above->below = below;
        above = below;
        own = rows.own;
    }
    return DOP_OK;
}

static dop_status
take_floats(const filler *f, const char *name, uint32_t n, float *out)
{
    const dop_st_tensor *t = dop_st_take(&f->set, name);
    DOP_RETURN_IF_ERROR(t ? dop_st_check_shape(t, 1, (const uint64_t[]){n}, f->hf->diag)
                          : DOP_FAIL_IN(f->hf->diag, DOP_E_INPUT, f->set.path, "tensor %s is missing", name));
    DOP_RETURN_IF_ERROR(dop_hf_check_float(t, f->hf->diag));
    dop_decode_row(dop_hf_type(t), t->data, n, out);
    return DOP_OK;
}

/* Builds w, a vector, from one tensor per head; the * in `pattern` is the head's number. */
static dop_status
take_head_vectors(filler *f, const char *pattern, dop_weight *w)
{
    const bool streams = f->layer && f->layer->eagle.vocab; /* a drafter's streams instead of heads */
    const uint32_t n = streams                                     ? f->hf->model->arch.hidden
                       : f->layer && dop_layer_attention(f->layer) ? dop_layer_attention(f->layer)->head_dim
                                                                   : 0;
    float *all = dop_arena_alloc(f->hf->arena, w->cols * sizeof *all);
    if (!all)
        return DOP_NO_MEMORY(f->hf->diag);
    for (uint32_t i = 0; n && i < w->cols / n; i++) {
        char name[272];
        dop_expert_name(pattern, i, name, sizeof name);
        dop_status st = take_floats(f, name, n, all + (size_t)i * n);
        if (st != DOP_OK)
            return st;
    }
    w->type = DOP_TYPE_f32;
    w->row_stride = w->cols * sizeof *all;
    w->data = (const uint8_t *)all;
    w->source = pattern;
    return DOP_OK;
}

/* DOP_PART_PAIRED: reorders w, which has all value heads, to heads i and i + half for each i, and stores the result twice. */
static dop_status
pair_heads(const filler *f, const dop_attention *t, dop_weight *w)
{
    const uint32_t half = t->n_kv_heads / 2, n = 2 * t->n_kv_heads, dim = t->head_dim;
    dop_weight *pieces = dop_arena_alloc(f->hf->arena, n * sizeof *pieces);
    if (!pieces)
        return DOP_NO_MEMORY(f->hf->diag);
    if (w->parts || half == 0)
        return DOP_FAIL_IN(f->hf->diag, DOP_E_INPUT, f->set.path, "tensor %s: heads of it cannot be paired", w->source);
    for (uint32_t i = n; i-- > 0;) {
        const uint32_t head = i / 2 % half + i % 2 * half;
        pieces[i] = *w;
        pieces[i].data += (uint64_t)head * dim * w->row_stride;
        pieces[i].rows = (n - i) * dim;
        pieces[i].own_rows = i + 1 < n ? dim : 0;
        pieces[i].below = i + 1 < n ? &pieces[i + 1] : NULL;
    }
    *w = pieces[0];
    return DOP_OK;
}

/* DOP_PART_FOURFOLD: repeats each row or value of w four times. */
static dop_status
repeat_fourfold(const filler *f, dop_weight *w)
{
    if (w->rank == 2) {
        w->block_rows = 4;
        w->block_stride = w->row_stride;
        w->row_stride = 0;
        return w->parts ? DOP_FAIL_IN(f->hf->diag, DOP_E_INPUT, f->set.path, "tensor %s cannot be in parts", w->source)
                        : DOP_OK;
    }
    const size_t value = dop_type_of(w->type)->bytes;
    uint8_t *copy = dop_arena_alloc(f->hf->arena, w->cols * value);
    if (!copy)
        return DOP_NO_MEMORY(f->hf->diag);
    for (uint32_t i = 0; i < w->cols; i++)
        memcpy(copy + i * value, w->data + i / 4 * value, value);
    w->data = copy;
    return DOP_OK;
}

/* DiffLlamaAttention: computes w, the factor lambda: exp(q1 . k1) - exp(q2 . k2) plus a constant. */
static dop_status
take_lambda(filler *f, const char *name, int32_t layer, dop_weight *w)
{
    static const char *const ends[] = {"_q1", "_k1", "_q2", "_k2"};
    const uint32_t n = f->layer && dop_layer_attention(f->layer) ? dop_layer_attention(f->layer)->head_dim : 0;
    float *v = dop_arena_alloc(f->hf->arena, (4 * (size_t)n + 1) * sizeof *v);
    double dots[2] = {0};
    if (!v)
        return DOP_NO_MEMORY(f->hf->diag);
    for (uint32_t i = 0; i < 4; i++) {
        char full[272];
        snprintf(full, sizeof full, "%s%s", name, ends[i]);
        dop_status st = take_floats(f, full, n, v + 1 + (size_t)i * n);
        if (st != DOP_OK)
            return st;
    }
    for (uint32_t i = 0; i < n; i++) {
        dots[0] += (double)v[1 + i] * (double)v[1 + n + i];
        dots[1] += (double)v[1 + 2 * n + i] * (double)v[1 + 3 * n + i];
    }
    v[0] = (float)(exp(dots[0]) - exp(dots[1]) + dop_hf_lambda_init(layer));
    w->type = DOP_TYPE_f32;
    w->row_stride = sizeof *v;
    w->data = (const uint8_t *)v;
    w->source = name;
    return DOP_OK;
}

/* Builds w, the taps of a convolution, from several tensors with a group of channels each. */
static dop_status
take_taps(filler *f, const dop_tensor_name *n, const dop_weight_need *need, const dop_rows *rows, dop_weight *w)
{
    const uint32_t taps = rows->block_step;
    uint64_t done = 0;
    dop_status st = DOP_OK;
    float *all = dop_arena_alloc(f->hf->arena, w->cols * sizeof *all);
    if (!all)
        return DOP_NO_MEMORY(f->hf->diag);
    for (const dop_tensor_name *at = n; st == DOP_OK && at->role == n->role; at++) {
        char name[256];
        dop_hf_full_name(f->prefix, f->hf->family->layer_prefix, need, at->source, name, sizeof name);
        const dop_st_tensor *t = dop_st_take(&f->set, name);
        if (!t)
            return DOP_FAIL_IN(f->hf->diag, DOP_E_INPUT, f->set.path, "tensor %s is missing", name);
        const uint64_t shape[] = {t->rank == 3 ? t->shape[0] : 0, 1, taps};
        st = dop_st_check_shape(t, 3, shape, f->hf->diag);
        if (st == DOP_OK)
            st = dop_hf_check_float(t, f->hf->diag);
        if (st == DOP_OK && shape[0] > rows->block - done)
            st = DOP_FAIL_IN(f->hf->diag, DOP_E_INPUT, t->file, "tensor %s: more channels than the %u expected",
                             t->name, rows->block);
        if (st != DOP_OK)
            return st;
        dop_decode_row(dop_hf_type(t), t->data, shape[0] * taps, all + done * taps);
        done += shape[0];
        w->source = t->name;
    }
    if (done != rows->block)
        return DOP_FAIL_IN(f->hf->diag, DOP_E_INPUT, f->set.path, "weight %s: %llu channels, expected %u", need->name,
                           (unsigned long long)done, rows->block);
    const dop_st_tensor whole = {.dtype = "F32", .data = (const uint8_t *)all};
    return transpose_taps(f, &whole, rows, w);
}

/* Writes the full name of a drafting layer's tensor that is stored separately. If there are two blocks, the second has the
 * feed-forward part, whose norm has the same name as the first block's. */
static void
name_apart(filler *f, const dop_weight_need *need, const char *source, char *out, size_t size)
{
    const bool whole = strncmp(source, "mtp.", strlen("mtp.")) == 0;
    snprintf(out, size, "%s%s", whole ? "" : "mtp.layers.0.", source);
    if (!whole && f->apart > 1 && (need->role == DOP_W_ffn_norm || !has_hf_tensor(f, out)))
        snprintf(out, size, "mtp.layers.1.%s", source);
}

/* Writes the full name of a tensor. Zamba 2: # stands for dop_side.index, and a shared block's tensors are in the first layer
 * with the block. */
static void
write_full_tensor_name(filler *f, const dop_weight_need *need, const char *source, char *out, size_t size)
{
    static const char shared[] = "shared_transformer.";
    const dop_family *family = f->hf->family;
    const dop_arch *a = &f->hf->model->arch;
    const dop_layer *y = need->layer >= 0 ? &a->layers[need->layer] : NULL;
    const char *mark = y && y->side.width ? strchr(source, '#') : NULL;
    dop_weight_need at = *need;
    char numbered[160];
    if (mark) {
        snprintf(numbered, sizeof numbered, "%.*s%u%s", (int)(mark - source), source, y->side.index, mark + 1);
        source = numbered;
    }
    if (f->root) {
        const bool beside = need->role == DOP_W_draft_head || need->role == DOP_W_draft_ids, outside = source[0] == '/';
        snprintf(out, size, "%s%s", beside ? "" : outside ? f->root : f->inside, source + outside);
        return;
    }
    if (source[0] == '/') {
        snprintf(out, size, "%s", source + 1);
        return;
    }
    if (f->apart && need->layer == (int32_t)a->n_layers) {
        name_apart(f, need, source, out, size);
        return;
    }
    dop_hf_full_name(f->prefix, family->layer_prefix, need, source, out, size);
    if (!y || !y->side.width || strncmp(source, shared, strlen(shared)) != 0)
        return;
    for (at.layer = 0; at.layer < need->layer && !has_hf_tensor(f, out); at.layer++)
        if (a->layers[at.layer].side.width && a->layers[at.layer].side.block == y->side.block)
            dop_hf_full_name(f->prefix, family->layer_prefix, &at, source, out, size);
    if (!has_hf_tensor(f, out))
        dop_hf_full_name(f->prefix, family->layer_prefix, need, source, out, size);
}

/* Returns the table row that names a weight's tensor: the first whose tensor is in the checkpoint. For consecutive rows of one
 * role (parts of a matrix) this is the first part. */
static const dop_tensor_name *
find_hf_name(filler *f, const dop_weight_need *need)
{
    const dop_family *a = f->hf->family;
    const dop_tensor_name *lists[] = {a->more_names, a->names, dop_hf_names_draft}, *first = NULL;
    char pattern[256], name[272];
    for (unsigned k = 0; k < 3; k++)
        for (const dop_tensor_name *n = lists[k]; n && n->role != DOP_W_none; n++) {
            if (n->role != need->role || (n != lists[k] && n[-1].role == n->role))
                continue;
            write_full_tensor_name(f, need, n->source, pattern, sizeof pattern);
            dop_expert_name(pattern, 0, name, sizeof name);
            const dop_st_tensor *t = k && dop_means_other(a->more_names, n) ? dop_st_find(&f->set, name) : NULL;
            if (has_hf_tensor(f, name) && !(t && f->set.taken[t - f->set.tensors]))
                return n;
            first = first ? first : n;
        }
    return first;
}

/* Builds the dense layer of a reranker that answers in words, from the two rows of the output matrix (or tied embedding) of its
 * answers. */
static dop_status
fill_answers(filler *f, const dop_weight_need *need)
{
    dop_hf *hf = f->hf;
    const uint32_t *id = hf->answers, first = id[0] < id[1] ? id[0] : id[1];
    const dop_weight_need head = {.role = DOP_W_lm_head, .layer = -1}, embed = {.role = DOP_W_embed, .layer = -1};
    const dop_tensor_name *n = find_hf_name(f, &head);
    const dop_rows rows = {
        .total = hf->model->arch.vocab, .start = first, .block = 1, .block_step = id[0] + id[1] - 2 * first};
    dop_weight w = {.name = need->name, .rank = 2, .rows = 2, .cols = need->cols};
    char name[256] = "";
    if (n)
        write_full_tensor_name(f, &head, n->source, name, sizeof name);
    if (!n || !has_hf_tensor(f, name)) {
        n = find_hf_name(f, &embed);
        write_full_tensor_name(f, &embed, n->source, name, sizeof name);
    }
    dop_status st = take_hf_weight(f, name, n, &rows, &w);
    if (st != DOP_OK)
        return st;
    if (w.parts || dop_type_of(w.type)->block != 1)
        return DOP_FAIL_IN(hf->diag, DOP_E_INPUT, hf->path, "tensor %s: rows of a quantized matrix cannot be scores",
                           name);
    uint8_t *copy = dop_arena_alloc(hf->arena, 2 * w.row_stride);
    if (!copy)
        return DOP_NO_MEMORY(hf->diag);
    for (int i = 0; i < 2; i++)
        memcpy(copy + (size_t)i * w.row_stride, w.data + (id[i] == first ? 0 : w.block_stride), w.row_stride);
    w.data = copy;
    w.block_rows = 0;
    w.block_stride = 0;
    return dop_weights_add(&hf->model->weights, &w, hf->arena, hf->diag);
}

/* Fills a weight of a dense layer after the final norm, from a module's own file or from the model's files. */
static dop_status
fill_dense(filler *f, const dop_weight_need *need, const char *source, uint32_t dense)
{
    static const dop_tensor_name plain = {.part = DOP_PART_ALL};
    dop_hf *hf = f->hf;
    dop_weights *all = &hf->model->weights;
    const dop_rows rows = {.total = need->rank == 1 ? need->cols : need->rows};
    dop_weight w = {.name = need->name, .rank = need->rank, .rows = need->rows, .cols = need->cols};
    char name[256];
    f->layer = NULL;
    snprintf(name, sizeof name, "%s", source);
    if (hf->answers[0] != hf->answers[1])
        return fill_answers(f, need);
    if (!hf->dense_dirs[dense]) {
        char own[256];
        snprintf(own, sizeof own, "%s%s", f->prefix, source); /* BERT's pooler is a part of the model */
        return take_hf_weight(f, has_hf_tensor(f, own) ? own : name, &plain, &rows, &w) == DOP_OK
                   ? dop_weights_add(all, &w, hf->arena, hf->diag)
                   : DOP_E_INPUT;
    }
    filler other = {.hf = hf, .prefix = ""};
    dop_map *maps = NULL;
    uint32_t n_maps = 0;
    DOP_RETURN_IF_ERROR(dop_st_open_dir(hf->dense_dirs[dense], hf->arena, hf->diag, &other.set, &maps, &n_maps));
    DOP_RETURN_IF_ERROR(dop_weights_keep(all, maps, n_maps, hf->diag));
    DOP_RETURN_IF_ERROR(take_hf_weight(&other, name, &plain, &rows, &w));
    return dop_weights_add(all, &w, hf->arena, hf->diag);
}

static dop_status
fill_hf_weight(void *user, const dop_weight_need *need)
{
    filler *f = user;
    dop_hf *hf = f->hf;
    uint32_t dense = 0;
    const char *of_dense = dop_hf_dense_name(hf, need->role, &dense);
    if (of_dense)
        return fill_dense(f, need, of_dense, dense);
    const dop_tensor_name *n = find_hf_name(f, need);
    if (!n)
        return DOP_FAIL_IN(hf->diag, DOP_E_INTERNAL, hf->path, "no tensor name for %s in family %s",
                           dop_role_name(need->role), hf->family->name);
    char name[256], one[272];
    write_full_tensor_name(f, need, n->source, name, sizeof name);
    dop_weight *each = NULL, w = {.name = need->name,
                                  .rank = need->rank,
                                  .experts = need->experts,
                                  .rows = need->rows,
                                  .cols = need->cols};
    const uint32_t own = need->rank == 1 || need->vectors ? need->cols : need->rows; /* size along the fused axis */
    f->layer = need->layer >= 0 ? &hf->model->arch.layers[need->layer] : NULL;
    const dop_rows rows = dop_part_rows(f->layer, n->part, own);
    const bool heads = need->rank == 1 && strchr(name, '*');
    dop_status st = heads ? take_head_vectors(f, name, &w) : dop_expert_list(need, name, hf->arena, hf->diag, &each);
    if (heads) { /* done */
    } else if (need->role == DOP_W_draft_ids) {
        st = dop_hf_eagle_list(hf, &f->set, name, &w);
    } else if (st == DOP_OK && n->part == DOP_PART_LAMBDA) {
        st = take_lambda(f, name, need->layer, &w);
    } else if (st == DOP_OK && rows.turned && n[1].role == n->role) {
        st = take_taps(f, n, need, &rows, &w);
    } else if (st == DOP_OK && need->vectors) {
        const dop_st_tensor *t = dop_st_take(&f->set, name);
        st = t ? place_vectors(f, t, &rows, &w)
               : DOP_FAIL_IN(hf->diag, DOP_E_INPUT, f->set.path, "tensor %s is missing", name);
    } else if (st == DOP_OK && !each) {
        st = take_hf_weight(f, name, n, &rows, &w);
        if (st == DOP_OK && n->part == DOP_PART_FOURFOLD)
            st = repeat_fourfold(f, &w);
        else if (st == DOP_OK && n->part == DOP_PART_PAIRED && f->layer)
            st = pair_heads(f, dop_layer_attention(f->layer), &w);
        else if (st == DOP_OK)
            st = take_hf_below(f, n, need, rows.own, &w);
    }
    for (uint32_t e = 0; each && e < need->experts && st == DOP_OK; e++) {
        dop_expert_name(name, e, one, sizeof one);
        st = take_hf_weight(f, one, n, &rows, &each[e]);
    }
    if (st == DOP_OK && each) {
        w.each = each;
        w.type = each[0].type;
        w.source = name;
    }
    return st == DOP_OK ? dop_weights_add(&hf->model->weights, &w, hf->arena, hf->diag) : st;
}

/* Gemma multiplies embeddings by sqrt of their width (modeling_gemma3.py, Gemma3TextScaledWordEmbedding). The factor is rounded
 * only if the embedding is computed in fewer bits; here it is f32, as in GGUF files. */
static void
scale_embedding(const dop_hf *hf, const char *name, uint32_t width, double *out)
{
    if ((hf->family->flags & DOP_FAM_EMBED_SQRT) && dop_weights_find(&hf->model->weights, name))
        *out = (double)sqrtf((float)width);
}

/* True for a bias of zeros. Quantizers write one for every matrix, even if the model has no bias. */
static bool
is_zero_bias(const dop_hf *hf, const dop_st_tensor *t)
{
    const size_t n = strlen(t->name);
    if (!hf->quant.used || t->rank != 1 || n < 5 || strcmp(t->name + n - 5, ".bias") != 0)
        return false;
    for (uint64_t i = 0; i < t->bytes; i++)
        if (t->data[i] != 0)
            return false;
    return true;
}

static dop_status
check_hf_leftovers(const filler *f)
{
    dop_hf *hf = f->hf;
    dop_leftovers l = {.model = hf->model,
                       .diag = hf->diag,
                       .facts = "config.json",
                       .layer_prefix = hf->family->layer_prefix,
                       .layers_key = hf->family->keys->layers};
    char first[64];
    l.layers_key = dop_hf_key(hf, l.layers_key, first, sizeof first);
    DOP_RETURN_IF_ERROR(dop_fact_u32_or(&hf->cfg, DOP_HF(draft_layers), 0, &l.draft_layers));
    for (uint32_t i = 0; i < f->set.n; i++) {
        const dop_st_tensor *t = &f->set.tensors[i];
        if (f->set.taken[i])
            continue;
        if (is_zero_bias(hf, t))
            l.excused[DOP_EXCUSE_ZERO_BIAS]++;
        else
            DOP_RETURN_IF_ERROR(dop_leftovers_add(&l, t->name, t->rank, t->file));
    }
    return dop_leftovers_finish(&l);
}

/* Reads the image preprocessing. Without it, the plan has a vision part but does not accept picture files. */
static dop_status
keep_image_processor(filler *f)
{
    dop_hf *hf = f->hf;
    dop_checkpoint *m = hf->model;
    dop_image_processor p;
    dop_diag why = {0};
    bool present = false;
    char note[sizeof why.message + 64];
    dop_status st = dop_hf_image_processor(hf->dir, &hf->top, &why, &present, &p);
    if (st == DOP_E_INPUT || (st == DOP_OK && !present)) {
        snprintf(note, sizeof note, "pictures cannot be prepared: %s",
                 st == DOP_OK ? "preprocessor_config.json is missing" : why.message);
        return dop_checkpoint_note(m, note, hf->diag);
    }
    if (st != DOP_OK)
        return DOP_FAIL(hf->diag, st, "%s", why.message);
    return dop_image_processor_keep(m, &p, hf->diag);
}

/* Reads the vision part if it is supported and complete; otherwise the plan is for text only, and a note gives the reason. */
static dop_status
read_vision(filler *f)
{
    dop_hf *hf = f->hf;
    dop_checkpoint *m = hf->model;
    dop_vision_model v = {0};
    dop_diag why = {0};
    bool present = false;
    char note[sizeof why.message + 64];
    bool *taken = dop_arena_alloc(hf->arena, f->set.n + 1);
    if (!taken)
        return DOP_NO_MEMORY(hf->diag);
    memcpy(taken, f->set.taken, f->set.n);
    dop_status st = dop_hf_vision(&hf->top, &f->set, hf->arena, &why, &present, &v);
    if (st == DOP_E_INPUT) {
        memcpy(f->set.taken, taken, f->set.n);
        snprintf(note, sizeof note, "the vision part is left out: %s", why.message);
        return dop_checkpoint_note(m, note, hf->diag);
    }
    if (st != DOP_OK || !present)
        return st != DOP_OK ? DOP_FAIL(hf->diag, st, "%s", why.message) : DOP_OK;
    st = dop_checkpoint_tower(m, &v, hf->diag);
    return st == DOP_OK ? keep_image_processor(f) : st;
}

/* Reads the encoder for cross-attention. */
static dop_status
read_audio(filler *f)
{
    dop_checkpoint *m = f->hf->model;
    dop_vision_model v = {0};
    uint32_t *suppressed = NULL;
    DOP_RETURN_IF_ERROR(dop_hf_audio(f->hf, &f->set, &v));
    DOP_RETURN_IF_ERROR(dop_hf_suppressed(f->hf, &suppressed));
    m->suppressed = suppressed;
    return dop_checkpoint_tower(m, &v, f->hf->diag);
}

/* True if the checkpoint has an output matrix. */
static bool
has_head(filler *f)
{
    const dop_tensor_name *head = dop_find_tensor_name(f->hf->family->more_names, f->hf->family->names, DOP_W_lm_head);
    const dop_weight_need need = {.role = DOP_W_lm_head, .layer = -1};
    char name[256];
    dop_hf_full_name(f->prefix, f->hf->family->layer_prefix, &need, head ? head->source : "", name, sizeof name);
    return has_hf_tensor(f, name);
}

/* Multimodal models state twice whether embedding and output matrix are tied. The outer field has precedence; if they differ, a
 * missing output matrix means tied. */
static dop_status
settle_tied(filler *f)
{
    dop_hf *hf = f->hf;
    bool outer = false;
    DOP_RETURN_IF_ERROR(dop_json_bool_or(&hf->top, "tie_word_embeddings", false, &outer));
    if (outer && !hf->model->arch.tied && !has_head(f))
        hf->model->arch.tied = true;
    return DOP_OK;
}

/* A model without output matrix returns hidden states; it is treated as tied. */
static dop_status
use_embedding_as_head(filler *f)
{
    char note[256];
    if (has_head(f))
        return DOP_OK;
    f->hf->model->arch.tied = true;
    snprintf(note, sizeof note,
             "%.80s has no output matrix: its plan is for vectors (`embed`), and its logits mean nothing",
             f->hf->headless);
    return dop_checkpoint_note(f->hf->model, note, f->hf->diag);
}

/* Finds the drafting layer by its first product. Nemotron-H stores it as two blocks: attention and a feed-forward
 * part. */
static void
find_drafting(filler *f)
{
    dop_arch *a = &f->hf->model->arch;
    const dop_weight_need need = {.role = DOP_W_draft_in, .layer = (int32_t)a->n_layers};
    const dop_hf_recurrent *r = f->hf->family->recurrent;
    char name[256];
    if (has_hf_tensor(f, "mtp.fc.weight"))
        f->apart = 1;
    else if (r && r->blocks && has_hf_tensor(f, "mtp.layers.0.mixer.q_proj.weight") &&
             has_hf_tensor(f, "mtp.layers.1.norm.weight") && !has_hf_tensor(f, "mtp.layers.2.norm.weight"))
        f->apart = 2;
    write_full_tensor_name(f, &need, f->apart == 1 ? "mtp.fc.weight" : "eh_proj.weight", name, sizeof name);
    a->drafts = has_hf_tensor(f, name) && dop_arch_draft_layer(a);
    a->drafts_normed = a->drafts && f->apart;
}

dop_status
dop_hf_weights(dop_hf *hf)
{
    filler f = {.hf = hf};
    dop_weights *w = &hf->model->weights;
    dop_status st = DOP_OK;
    if (hf->tensors)
        f.set = *hf->tensors;
    else
        st = dop_st_open_dir(hf->dir, hf->arena, hf->diag, &f.set, &w->maps, &w->n_maps);
    w->cap_maps = w->n_maps;
    if (st != DOP_OK)
        return st;
    const dop_tensor_name *embed = dop_find_tensor_name(hf->family->more_names, hf->family->names, DOP_W_embed);
    f.prefix = dop_hf_prefix(has_hf_tensor, &f, embed ? embed->source : "", hf->family->prefix);
    st = hf->headless && !hf->model->arch.encoder.used ? use_embedding_as_head(&f) : settle_tied(&f);
    if (hf->family->flags & DOP_FAM_EAGLE)
        dop_hf_eagle_tensors(hf, &f.set, &f.root, &f.inside);
    else if (st == DOP_OK && !hf->headless && !hf->classes && !dop_arch_is_drafter(&hf->model->arch))
        find_drafting(&f);
    if (st == DOP_OK)
        st = dop_arch_each_weight(&hf->model->arch, fill_hf_weight, &f);
    if (st == DOP_OK)
        st = dop_weights_seal(w, hf->diag);
    if (st == DOP_OK)
        st = dop_arch_check_weights(&hf->model->arch, w, f.set.path, hf->diag);
    if (st == DOP_OK)
        st = hf->model->arch.cross.rows ? read_audio(&f) : read_vision(&f);
    if (st == DOP_OK)
        st = check_hf_leftovers(&f);
    if (st == DOP_OK)
        scale_embedding(hf, "embed", hf->model->arch.hidden, &hf->model->arch.embed_scale);
    if (st == DOP_OK)
        scale_embedding(hf, "input_embed", hf->model->arch.inputs.width, &hf->model->arch.inputs.scale);
    return st;
}
