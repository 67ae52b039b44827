/* Vision part of a GGUF model (mmproj): a separate file of pseudo-architecture "clip". */
#include "frontend/gguf/mmproj.h"
#include "frontend/gguf/gguf_import.h"
#include "frontend/vision/tower.h"
#include "ir/interp/interp.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Kind of vision part, selected by key clip.projector_type. */
typedef struct projector_row {
    const char *type, *model_type, *tower, *processor; /* corresponding names in Hugging Face files */
    uint32_t merge;                                    /* default merge */
    /* default bounds of features per picture, if its size is chosen within bounds */
    uint32_t min_features, max_features;
    bool rotated_pairs; /* q and k rows are ordered for rotation of pairs (2i, 2i+1) */
} projector_row;

static const projector_row projectors[] = {
    {"mlp", "llava", "clip", "CLIPImageProcessor", 1, 0, 0, false},
    {"gemma3", "gemma3", "siglip_", "Gemma3ImageProcessor", 4, 0, 0, false},
    {"gemma4v", "gemma4", "gemma4", "Gemma4ImageProcessor", 3, 0, 280, false},
    {"idefics3", "smolvlm", "smolvlm", "SmolVLMImageProcessor", 2, 0, 0, false},
    {"internvl", "internvl", "internvl", "GotOcr2ImageProcessor", 2, 0, 0, false},
    {"pixtral", "mistral3", "pixtral", "PixtralImageProcessor", 1, 0, 0, true},
    {"lfm2", "lfm2_vl", "siglip2", "Lfm2VlImageProcessor", 2, 64, 256, false},
    {"qwen2vl_merger", "qwen2_vl", "qwen2_vl", "Qwen2VLImageProcessor", 2, 8, 4096, false},
    {"qwen2.5vl_merger", "qwen2_5_vl", "qwen2_5_vl", "Qwen2VLImageProcessor", 2, 8, 4096, false},
    {"qwen3vl_merger", "qwen3_vl", "qwen3_vl", "Qwen2VLImageProcessor", 2, 8, 4096, false},
};

typedef struct reader {
    const dop_gguf *g;
    const projector_row *row;
    const dop_tower_kind *kind;
    const dop_projector_kind *projector;
    bool *taken;  /* [g->tensor_count] true if read */
    bool swapped; /* names of up and down projections are swapped, as in files of the first converters */
    /* norms_merged: mm.input_norm normalizes merged rows; otherwise single rows, which dop_tower_weights() looks up
     * first. */
    bool norms_merged, norm_asked;
    dop_checkpoint *model;
    dop_diag *diag;
    dop_vision_model m;
    dop_image_processor p;
} reader;

enum { WINDOW = 112, MOST = 1 << 24 };

/* ---- keys ----------------------------------------------------------------------------------------------------------- */

static dop_status
fail_wrong_key(const reader *r, const char *key)
{
    return DOP_FAIL_IN(r->diag, DOP_E_INPUT, r->g->path, "clip.vision.%s is missing or out of range", key);
}

/* Reads clip.vision.KEY with default `otherwise`; 0: the key is required. */
static dop_status
read_mmproj_size(const reader *r, const char *key, uint64_t most, uint64_t otherwise, uint64_t *out)
{
    char full[96];
    snprintf(full, sizeof full, "clip.vision.%s", key);
    const dop_gguf_kv *kv = dop_gguf_find(r->g, full);
    *out = otherwise;
    if (kv && (!dop_gguf_u64(kv, 0, out) || *out > most))
        return fail_wrong_key(r, key);
    return *out > 0 ? DOP_OK : fail_wrong_key(r, key);
}

static dop_status
read_mmproj_u32(const reader *r, const char *key, uint32_t most, uint32_t otherwise, uint32_t *out)
{
    uint64_t n = 0;
    const dop_status st = read_mmproj_size(r, key, most, otherwise, &n);
    *out = (uint32_t)n;
    return st;
}

static bool
is_key_true(const dop_gguf *g, const char *key)
{
    bool yes = false;
    return dop_gguf_bool(dop_gguf_find(g, key), 0, &yes) && yes;
}

/* Finds the row of clip.projector_type; files for pictures and sounds have clip.vision.projector_type. */
static dop_status
find_projector(reader *r)
{
    const dop_gguf_kv *kv = dop_gguf_find(r->g, "clip.vision.projector_type");
    dop_gguf_str type = {.data = "", .len = 0};
    dop_buf known = {0};
    if (!dop_gguf_string(kv ? kv : dop_gguf_find(r->g, "clip.projector_type"), &type))
        return DOP_FAIL_IN(r->diag, DOP_E_INPUT, r->g->path, "clip.projector_type is missing: this is no vision part");
    if (!kv && !is_key_true(r->g, "clip.has_vision_encoder"))
        return DOP_FAIL_IN(r->diag, DOP_E_INPUT, r->g->path, "this file (mmproj) has no vision part");
    for (size_t i = 0; i < sizeof projectors / sizeof *projectors; i++) {
        if (strlen(projectors[i].type) == type.len && memcmp(projectors[i].type, type.data, (size_t)type.len) == 0)
            r->row = &projectors[i];
        dop_buf_printf(&known, "%s%s", i ? ", " : "", projectors[i].type);
    }
    dop_status st = DOP_OK;
    if (!r->row)
        st = DOP_FAIL_IN(r->diag, DOP_E_INPUT, r->g->path, "clip.projector_type \"%.*s\" is not supported; known: %s",
                         (int)(type.len > 40 ? 40 : type.len), type.data, known.data ? known.data : "");
    dop_buf_finish(&known);
    if (st == DOP_OK && dop_gguf_find(r->g, "clip.vision.image_grid_pinpoints"))
        st = DOP_FAIL_IN(r->diag, DOP_E_INPUT, r->g->path,
                         "clip.vision.image_grid_pinpoints: LLaVA 1.6's tiles are not supported");
    if (st == DOP_OK) {
        r->kind = dop_tower_kind_of(r->row->tower);
        r->projector = dop_projector_kind_of(r->row->model_type);
    }
    if (st == DOP_OK && r->kind->act == DOP_ACT_QUICK_GELU && is_key_true(r->g, "clip.use_gelu"))
        r->kind = dop_tower_kind_of("siglip_"); /* LLaVA's projector is also used with SigLIP towers */
    return st;
}

/* Reads the layer whose result is used, the layers with windows, and the layers with additional features. */
static dop_status
read_mmproj_layers(reader *r)
{
    dop_vision *const v = &r->m.facts;
    const dop_gguf_kv *feature = dop_gguf_find(r->g, "clip.vision.feature_layer"),
                      *full = dop_gguf_find(r->g, "clip.vision.wa_layer_indexes"),
                      *deep = dop_gguf_find(r->g, "clip.vision.is_deepstack_layers");
    uint32_t every = 0;
    uint64_t n = 0;
    DOP_RETURN_IF_ERROR(read_mmproj_u32(r, "block_count", DOP_VISION_MAX_LAYERS, 0, &v->n_layers));
    if (feature) {
        if (feature->count != 1 || !dop_gguf_u64(feature, 0, &n) || n < 1 || n > v->n_layers)
            return DOP_FAIL_IN(r->diag, DOP_E_INPUT, r->g->path,
                               "clip.vision.feature_layer is not one of the %u layers", v->n_layers);
        v->n_layers = (uint32_t)n;
    }
    if (dop_gguf_find(r->g, "clip.vision.n_wa_pattern"))
        DOP_RETURN_IF_ERROR(read_mmproj_u32(r, "n_wa_pattern", DOP_VISION_MAX_LAYERS, 0, &every));
    for (uint32_t i = 0; i < v->n_layers; i++) {
        v->windowed[i] = full || (every > 0 && (i + 1) % every != 0);
        for (uint64_t k = 0; full && k < full->count; k++)
            v->windowed[i] = v->windowed[i] && !(dop_gguf_u64(full, k, &n) && n == i);
        bool yes = false;
        if (!deep || i >= deep->count || !dop_gguf_bool(deep, i, &yes) || !yes)
            continue;
        if (v->n_deep == DOP_VISION_MAX_DEEP)
            return DOP_FAIL_IN(r->diag, DOP_E_INPUT, r->g->path,
                               "clip.vision.is_deepstack_layers has more than %d layers", DOP_VISION_MAX_DEEP);
        v->deep[v->n_deep++] = i;
    }
    return DOP_OK;
}

static dop_status
read_mmproj_facts(reader *r)
{
    dop_vision *const v = &r->m.facts;
    double eps = r->kind->eps;
    uint32_t merge = r->row->merge;
    const dop_gguf_kv *kv = dop_gguf_find(r->g, "clip.vision.attention.layer_norm_epsilon");
    dop_status st = read_mmproj_u32(r, "embedding_length", 1 << 16, 0, &v->hidden);
    if (st == DOP_OK)
        st = read_mmproj_u32(r, "attention.head_count", 1 << 10, 0, &v->heads);
    if (st == DOP_OK)
        st = read_mmproj_u32(r, "patch_size", DOP_TOWER_MAX_PATCH, 0, &r->p.patch);
    if (st == DOP_OK)
        st = read_mmproj_u32(r, "projector.scale_factor", DOP_TOWER_MAX_MERGE, merge, &merge);
    if (st == DOP_OK)
        st = read_mmproj_u32(r, "spatial_merge_size", DOP_TOWER_MAX_MERGE, merge, &v->merge);
    if (st == DOP_OK && kv && (!dop_gguf_f64(kv, 0, &eps) || !(eps >= 0 && eps <= 1)))
        st = fail_wrong_key(r, "attention.layer_norm_epsilon");
    if (st == DOP_OK)
        st = read_mmproj_layers(r);
    if (st != DOP_OK)
        return st;
    v->eps = eps;
    v->head_dim = v->hidden / v->heads;
    v->act = is_key_true(r->g, "clip.use_silu") ? DOP_ACT_SILU : r->kind->act;
    v->row_values = 3 * r->kind->frames * r->p.patch * r->p.patch;
    v->rope_theta = r->kind->theta;
    dop_tower_facts_of(r->kind, r->projector, v);
    /* Published models with per-layer inputs process pictures causally, like text; files do not state it. */
    if (v->sees_near)
        v->sees_all = r->model->arch.inputs.width == 0;
    v->merge_act = r->projector->merge_act;
    v->merge_eps = r->projector->merge_eps > 0 ? r->projector->merge_eps : v->eps;
    if (v->rope_theta > 0 && v->head_dim % 4 != 0)
        return DOP_FAIL_IN(r->diag, DOP_E_INPUT, r->g->path, "heads of %u values cannot rotate by row and column",
                           v->head_dim);
    return DOP_OK;
}

/* ---- pictures ------------------------------------------------------------------------------------------------------- */

static dop_status
read_mmproj_colors(const reader *r, const char *key, float out[3])
{
    char full[64];
    snprintf(full, sizeof full, "clip.vision.%s", key);
    const dop_gguf_kv *kv = dop_gguf_find(r->g, full);
    for (uint64_t c = 0; kv && c < 3; c++) {
        double d = 0;
        if (kv->type != DOP_GGUF_ARRAY || kv->count != 3 || !dop_gguf_f64(kv, c, &d))
            return DOP_FAIL_IN(r->diag, DOP_E_INPUT, r->g->path, "%s is not a list of three numbers", full);
        out[c] = (float)d;
    }
    return DOP_OK;
}

/* Reads the sizes of pictures and tiles. */
static dop_status
read_mmproj_sizes(reader *r)
{
    dop_image_processor *p = &r->p;
    const uint64_t feature = (uint64_t)p->patch * p->merge * p->patch * p->merge;
    uint32_t image = 0, window = 0;
    DOP_RETURN_IF_ERROR(read_mmproj_u32(r, "image_size", MOST, p->form == DOP_IMAGE_PIXELS ? 1 : 0, &image));
    p->width = p->height = p->shortest = p->crop_width = p->crop_height = image;
    p->longest = image;
    if (p->form != DOP_IMAGE_PIXELS) {
        p->tile = image;
        p->split = false;
    }
    if (p->form == DOP_IMAGE_TILES)
        DOP_RETURN_IF_ERROR(read_mmproj_u32(r, "preproc_image_size", MOST, 4 * image, &p->longest));
    if (p->form == DOP_IMAGE_TILES)
        p->split = p->longest > p->tile;
    if (p->form == DOP_IMAGE_CANVAS) {
        DOP_RETURN_IF_ERROR(read_mmproj_u32(r, "preproc_min_tiles", 64, 1, &p->min_tiles));
        DOP_RETURN_IF_ERROR(read_mmproj_u32(r, "preproc_max_tiles", 64, 1, &p->max_tiles));
        p->split = p->max_tiles > 1;
    }
    if (p->form == DOP_IMAGE_BUDGET) {
        uint64_t most = 0;
        DOP_RETURN_IF_ERROR(read_mmproj_size(r, "image_max_pixels", UINT32_MAX, r->row->max_features * feature, &most));
        p->max_patches = (uint32_t)(most / ((uint64_t)p->patch * p->patch));
    }
    if (p->form == DOP_IMAGE_PIXELS) {
        DOP_RETURN_IF_ERROR(
            read_mmproj_size(r, "image_min_pixels", UINT32_MAX, r->row->min_features * feature, &p->min_pixels));
        DOP_RETURN_IF_ERROR(
            read_mmproj_size(r, "image_max_pixels", UINT32_MAX, r->row->max_features * feature, &p->max_pixels));
        if (p->max_pixels > DOP_PICTURE_MAX_PIXELS / p->frames)
            p->max_pixels = DOP_PICTURE_MAX_PIXELS / p->frames;
    }
    bool windows = false;
    for (uint32_t i = 0; i < r->m.facts.n_layers; i++)
        windows = windows || r->m.facts.windowed[i];
    if (windows)
        DOP_RETURN_IF_ERROR(read_mmproj_u32(r, "window_size", MOST, WINDOW, &window));
    p->window = window / (p->patch * p->merge);
    return DOP_OK;
}

/* Finds a token by its text in the text model's vocabulary; false: none. */
static bool
find_vocab_token(const dop_gguf *g, const char *text, uint32_t *out)
{
    const dop_gguf_kv *tokens = dop_gguf_find(g, "tokenizer.ggml.tokens");
    dop_gguf_str s;
    uint64_t at = 0;
    for (uint32_t id = 0; dop_gguf_next_string(tokens, &at, &s); id++)
        if (s.len == strlen(text) && memcmp(s.data, text, (size_t)s.len) == 0) {
            *out = id;
            return true;
        }
    return false;
}

/* Finds the token id of a picture row. If the vocabulary has none (LLaVA's token is not in GGUF files), the unknown token is
 * used. */
static dop_status
read_marks(reader *r)
{
    dop_gguf text;
    dop_image_processor *p = &r->p;
    dop_image_marks_of(r->row->model_type, p);
    if (!r->model->tokenizer_gguf_path)
        return DOP_FAIL_IN(r->diag, DOP_E_INPUT, r->g->path, "the text model has no vocabulary to name pictures with");
    dop_status st = dop_gguf_open(r->model->tokenizer_gguf_path, r->diag, &text);
    if (st != DOP_OK)
        return st;
    if (!find_vocab_token(&text, p->image, &p->image_id)) {
        uint64_t unknown = 0, at = 0;
        dop_gguf_str s = {0};
        const dop_gguf_kv *tokens = dop_gguf_find(&text, "tokenizer.ggml.tokens");
        (void)dop_gguf_u64(dop_gguf_find(&text, "tokenizer.ggml.unknown_token_id"), 0, &unknown);
        for (uint64_t id = 0; id <= unknown && dop_gguf_next_string(tokens, &at, &s); id++)
            p->image_id = (uint32_t)id;
        if (p->image_id != unknown || s.len == 0 || s.len >= sizeof p->image || memchr(s.data, 0, (size_t)s.len))
            st = DOP_FAIL_IN(r->diag, DOP_E_INPUT, r->g->path, "the text model has no token %s", p->image);
        else
            snprintf(p->image, sizeof p->image, "%.*s", (int)s.len, s.data);
    }
    uint64_t pad = 0;
    if (dop_gguf_u64(dop_gguf_find(&text, "tokenizer.ggml.padding_token_id"), 0, &pad) && pad <= INT32_MAX)
        r->m.facts.pad = (uint32_t)pad;
    dop_gguf_close(&text);
    return st;
}

static dop_status
read_mmproj_processor(reader *r)
{
    dop_image_processor *p = &r->p;
    const uint32_t patch = p->patch;
    dop_diag why = {0};
    if (!dop_image_processor_of(r->row->processor, p))
        return DOP_FAIL(r->diag, DOP_E_INTERNAL, "no image processor %s", r->row->processor);
    p->patch = patch;
    p->merge = r->m.facts.merge;
    p->frames = r->kind->frames;
    DOP_RETURN_IF_ERROR(read_mmproj_colors(r, "image_mean", p->mean));
    DOP_RETURN_IF_ERROR(read_mmproj_colors(r, "image_std", p->std));
    DOP_RETURN_IF_ERROR(read_mmproj_sizes(r));
    DOP_RETURN_IF_ERROR(read_marks(r));
    if (dop_image_processor_check(p, &why) != DOP_OK)
        return DOP_FAIL_IN(r->diag, DOP_E_INPUT, r->g->path, "%.200s", why.message);
    return DOP_OK;
}

/* ---- tensors -------------------------------------------------------------------------------------------------------- */

/* Finds a tensor without marking it. */
static bool
find_mmproj_tensor(const reader *r, const char *name, dop_tower_tensor *out)
{
    dop_gguf_tensor_info info = {.name = "?"};
    const dop_gguf_tensor *t = dop_gguf_find_tensor(r->g, name);
    if (!t)
        return false;
    dop_gguf_tensor_type(t->type, &info);
    *out = (dop_tower_tensor){
        .file = r->g->path, .stored = info.name, .rank = t->dims_count, .data = r->g->map.data + t->offset};
    if (!dop_type_of_gguf(t->type, &out->type) || dop_type_of(out->type)->block != info.block ||
        dop_type_of(out->type)->bytes != info.bytes)
        out->type = DOP_TYPE_none;
    for (uint32_t i = 0; i < t->dims_count; i++)
        out->shape[i] = t->dims[t->dims_count - 1 - i];
    r->taken[t - r->g->tensors] = true;
    return true;
}

/* Copies a tensor's values as f32 into the arena, with space for `times` as many; NULL: out of memory, or an
 * unsupported type. */
static float *
copy_tensor_values(reader *r, const dop_tower_tensor *t, uint32_t times, uint64_t *out_n)
{
    uint64_t n = 1;
    for (uint32_t i = 0; i < t->rank; i++)
        if (!dop_mul_u64(n, t->shape[i], &n))
            return NULL;
    float *v = n <= UINT32_MAX ? dop_arena_alloc(r->model->arena, n * times * sizeof *v) : NULL;
    if (v && t->type != DOP_TYPE_none && n % dop_type_of(t->type)->block == 0)
        dop_decode_row(t->type, t->data, (uint32_t)n, v);
    *out_n = n;
    return t->type == DOP_TYPE_none ? NULL : v;
}

static dop_status
replace_tensor_values(const reader *r, dop_tower_tensor *t, const float *values)
{
    t->type = DOP_TYPE_f32;
    t->data = (const uint8_t *)values;
    return values ? DOP_OK : DOP_NO_MEMORY(r->diag);
}

/* Joins the two tensors of a convolution over two frames, [hidden, 3, patch, patch] each, to one [hidden, 3, 2, patch,
 * patch]. */
static dop_status
join_frames(reader *r, dop_tower_tensor *t)
{
    dop_tower_tensor second;
    uint64_t n = 0, m = 0;
    if (!find_mmproj_tensor(r, "v.patch_embd.weight.1", &second))
        return DOP_FAIL_IN(r->diag, DOP_E_INPUT, r->g->path, "tensor v.patch_embd.weight.1 is missing");
    if (t->type == DOP_TYPE_none || second.type == DOP_TYPE_none || t->rank != 4 || second.rank != 4 ||
        memcmp(t->shape, second.shape, sizeof t->shape) != 0)
        return DOP_FAIL_IN(r->diag, DOP_E_INPUT, r->g->path,
                           "tensors v.patch_embd.weight and v.patch_embd.weight.1 differ in shape");
    float *both = copy_tensor_values(r, t, 2, &n), *late = copy_tensor_values(r, &second, 1, &m);
    if (!both || !late)
        return replace_tensor_values(r, t, NULL);
    const uint64_t each = t->shape[2] * t->shape[3];
    for (uint64_t i = n / each; i-- > 0;) {
        memmove(both + 2 * i * each, both + i * each, each * sizeof *both);
        memcpy(both + (2 * i + 1) * each, late + i * each, each * sizeof *both);
    }
    t->rank = 5;
    t->shape[4] = t->shape[3];
    t->shape[3] = t->shape[2];
    t->shape[2] = 2;
    return replace_tensor_values(r, t, both);
}

/* Reorders rows of q or k from rotation pairs (2i, 2i+1) to rotation by halves. */
static dop_status
unpair_rotated_rows(reader *r, dop_tower_tensor *t)
{
    const dop_vision *v = &r->m.facts;
    uint64_t n = 0, m = 0;
    const uint64_t rows = t->rank > 0 ? t->shape[0] : 0, half = v->head_dim / 2;
    if (rows != (uint64_t)v->heads * v->head_dim)
        return DOP_OK; /* dop_tower_weights() reports it */
    const float *from = copy_tensor_values(r, t, 1, &n);
    float *to = copy_tensor_values(r, t, 1, &m);
    if (!from || !to)
        return replace_tensor_values(r, t, NULL);
    const uint64_t cols = n / rows;
    for (uint64_t i = 0; i < rows; i++) {
        const uint64_t in = i % v->head_dim, at = i - in + 2 * (in % half) + in / half;
        memcpy(to + i * cols, from + at * cols, cols * sizeof *to);
    }
    return replace_tensor_values(r, t, to);
}

static bool
take_mmproj_tensor(void *user, const char *name, dop_tower_tensor *out, dop_status *status)
{
    reader *r = user;
    char other[96];
    const char *part = strstr(name, ".ffn_up."), *down = strstr(name, ".ffn_down.");
    if (r->swapped && (part || down))
        snprintf(other, sizeof other, "%.*s.ffn_%s.%s", (int)((part ? part : down) - name), name, part ? "down" : "up",
                 part ? part + 8 : down + 10);
    else
        snprintf(other, sizeof other, "%s", name);
    if (strcmp(name, "mm.input_norm.weight") == 0) {
        const bool second = r->norm_asked;
        r->norm_asked = true;
        if (second != r->norms_merged)
            return false;
    }
    if (!find_mmproj_tensor(r, other, out))
        return false;
    out->name = dop_arena_strdup(r->model->arena, other);
    if (!out->name)
        *status = DOP_NO_MEMORY(r->diag);
    else if (r->kind->frames == 2 && strcmp(name, "v.patch_embd.weight") == 0)
        *status = join_frames(r, out);
    else if (r->row->rotated_pairs && (strstr(name, ".attn_q.") || strstr(name, ".attn_k.")))
        *status = unpair_rotated_rows(r, out);
    return true;
}

/* Fails for unread tensors of the vision part. Exceptions: layers after the used one, the audio part, and the embedding row of a
 * token that the text model also has. */
static dop_status
check_mmproj_leftovers(const reader *r)
{
    for (size_t i = 0; i < r->g->tensor_count; i++) {
        const dop_gguf_str name = r->g->tensors[i].name;
        char text[96];
        uint32_t layer = 0;
        snprintf(text, sizeof text, "%.*s", (int)(name.len < 95 ? name.len : 95), name.data);
        const bool beyond = sscanf(text, "v.blk.%u.", &layer) == 1 && layer >= r->m.facts.n_layers;
        if (!r->taken[i] && !beyond && strcmp(text, "v.token_embd.img_break") != 0 && strncmp(text, "a.", 2) != 0 &&
            strncmp(text, "mm.a.", 5) != 0)
            return DOP_FAIL_IN(r->diag, DOP_E_INPUT, r->g->path, "nothing reads tensor %s", text);
    }
    return DOP_OK;
}

static dop_status
read_mmproj_weights(reader *r)
{
    const dop_tower_files files = {.user = r,
                                   .take = take_mmproj_tensor,
                                   .names = DOP_TOWER_GGUF,
                                   .tower = "",
                                   .after = "",
                                   .path = r->g->path,
                                   .facts = "the metadata",
                                   .unfolds = r->projector->unfolds,
                                   .places = r->kind->places,
                                   .halves = r->kind->halves,
                                   .projection_straight = r->projector->root,
                                   .deep_by_layer = true,
                                   .arena = r->model->arena,
                                   .diag = r->diag};
    dop_tower_tensor up, norm;
    r->swapped = find_mmproj_tensor(r, "v.blk.0.ffn_up.weight", &up) && up.rank == 2 &&
                 up.shape[0] == r->m.facts.hidden && up.shape[1] != r->m.facts.hidden;
    r->norms_merged =
        find_mmproj_tensor(r, "mm.input_norm.weight", &norm) && norm.rank == 1 && norm.shape[0] != r->m.facts.hidden;
    const dop_status st = dop_tower_weights(&files, &r->m);
    return st == DOP_OK ? check_mmproj_leftovers(r) : st;
}

dop_status
dop_import_mmproj(const char *path, dop_diag *diag, dop_checkpoint *m)
{
    dop_gguf g;
    dop_status st = dop_gguf_open(path, diag, &g);
    if (st != DOP_OK)
        return st;
    reader r = {.g = &g, .model = m, .diag = diag};
    r.taken = dop_arena_alloc(m->arena, g.tensor_count + 1);
    st = r.taken ? find_projector(&r) : DOP_NO_MEMORY(diag);
    if (st == DOP_OK)
        st = read_mmproj_facts(&r);
    if (st == DOP_OK)
        st = read_mmproj_processor(&r);
    if (st == DOP_OK)
        st = read_mmproj_weights(&r);
    if (st == DOP_OK)
        st = dop_checkpoint_tower(m, &r.m, diag);
    if (st == DOP_OK)
        st = dop_image_processor_keep(m, &r.p, diag);
    dop_map *map = st == DOP_OK ? malloc(sizeof *map) : NULL;
    if (map) {
        *map = g.map;
        g.map = (dop_map){0};
        st = dop_weights_keep(&m->weights, map, 1, diag);
    } else if (st == DOP_OK) {
        st = DOP_NO_MEMORY(diag);
    }
    dop_gguf_close(&g);
    return st;
}
