#include "compiler/import/hf/vision.h"
#include "compiler/model/import.h"

#include "ir/interp.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef enum kind { MATRIX, NORM, VALUES, TURNED, THIRDS } kind;
#define ROWS(n) (kind)(THIRDS + n)

typedef struct tensor_row {
    const char *role;
    kind kind;
    bool needed;
    const char *names;
} tensor_row;

static const tensor_row tensors[] = {
#define TENSOR(role, kind, needed, names) {role, kind, needed, names},
#include "compiler/import/hf/vision_names.def"
#undef TENSOR
};

/* Defaults of a kind of tower: published vision_config objects leave out what is as in the kind's first model. */
typedef struct tower_row {
    const char *model_type; /* vision_config.model_type, of which endings ("_vision", "_model") are ignored */
    uint32_t hidden, layers, heads, patch, frames, merge;
    double eps;
    dop_act_kind act;
    bool rotates, rope_apart, corners;
} tower_row;

static const tower_row towers[] = {
    {"clip", 768, 12, 12, 32, 1, 1, 1e-5, DOP_ACT_QUICK_GELU, false, false, false},
    {"siglip_", 768, 12, 12, 16, 1, 1, 1e-6, DOP_ACT_GELU_TANH, false, false, false},
    {"idefics3", 1152, 12, 16, 32, 1, 1, 1e-6, DOP_ACT_GELU_TANH, false, false, false},
    {"smolvlm", 1152, 12, 16, 32, 1, 1, 1e-6, DOP_ACT_GELU_TANH, false, false, false},
    {"internvl", 1024, 24, 16, 14, 1, 1, 1e-6, DOP_ACT_GELU, false, false, false},
    {"pixtral", 1024, 24, 16, 16, 1, 1, 1e-5, DOP_ACT_GELU, true, true, false},
    {"qwen2_vl", 1280, 32, 16, 14, 2, 2, 1e-6, DOP_ACT_QUICK_GELU, true, false, false},
    {"qwen2_5_vl", 1280, 32, 16, 14, 2, 2, 1e-6, DOP_ACT_SILU, true, false, false},
    {"qwen3_vl", 1152, 27, 16, 16, 2, 2, 1e-6, DOP_ACT_GELU_TANH, true, false, true},
    {"qwen3_5", 1152, 27, 16, 16, 2, 2, 1e-6, DOP_ACT_GELU_TANH, true, false, true},
};

/* The projector after the tower, by the whole model's model_type. */
typedef struct vision_row {
    const char *model_type;
    double merge_eps, merge_norm_add; /* dop_vision's; eps 0: the text model's */
    dop_act_kind merge_act;           /* default where the file is silent */
    bool pool, unfolds;
    bool sees_all;
    bool inner; /* the projector reads a layer's result, without the tower's last norm */
} vision_row;

static const vision_row models[] = {
    {"llava", .merge_act = DOP_ACT_GELU, .inner = true},
    {"gemma3", .merge_norm_add = 1, .pool = true, .sees_all = true},
    {"idefics3", .merge_act = DOP_ACT_GELU},
    {"smolvlm", .merge_act = DOP_ACT_GELU},
    {"internvl", .merge_eps = 1e-5, .merge_act = DOP_ACT_GELU},
    {"mistral3", .merge_act = DOP_ACT_GELU, .unfolds = true},
    {"qwen2_vl", .merge_eps = 1e-6, .merge_act = DOP_ACT_GELU},
    {"qwen2_5_vl", .merge_eps = 1e-6, .merge_act = DOP_ACT_GELU},
    {"qwen3_vl", .merge_eps = 1e-6, .merge_act = DOP_ACT_GELU},
    {"qwen3_vl_moe", .merge_eps = 1e-6, .merge_act = DOP_ACT_GELU},
    {"qwen3_5", .merge_eps = 1e-6, .merge_act = DOP_ACT_GELU},
    {"qwen3_5_moe", .merge_eps = 1e-6, .merge_act = DOP_ACT_GELU},
};

typedef struct reader {
    const dop_json *config;
    dop_json vision;
    const dop_st_set *set;
    const tower_row *kind;
    const vision_row *row;
    const char *tower, *after; /* prefixes of tensor names: of the tower, and of the projector */
    dop_arena *arena;
    dop_diag *diag;
    dop_vision_model *m;
} reader;

enum { MAX_PATCH = 256, MAX_MERGE = 64 }; /* largest edge of a patch in pixels, and of a feature in patches */

/* ---- facts ---------------------------------------------------------------------------------------------------------- */

static dop_status
read_act(const reader *r, const dop_json *j, const char *key, dop_act_kind otherwise, dop_act_kind *out)
{
    const char *name = NULL;
    dop_status st = dop_json_str_or(j, key, NULL, &name);
    *out = otherwise;
    if (st != DOP_OK || !name || (dop_act_by_name(name, out) && *out != DOP_ACT_XIELU)) /* that one has weights */
        return st;
    return DOP_FAIL_IN(r->diag, DOP_E_INPUT, j->path, "%s%s \"%.40s\" is not supported", j->where, key, name);
}

/* Reads the number of layers up to the one whose result becomes features, which layers see windows, and which layers' results
 * also become features. */
static dop_status
read_layers(reader *r)
{
    dop_vision *const v = &r->m->facts;
    const dop_json *const j = &r->vision;
    const json_t *layer = dop_json_get(r->config, "vision_feature_layer");
    dop_status st = dop_json_u32_or(j, dop_json_has(j, "depth") ? "depth" : "num_hidden_layers", 1,
                                    DOP_VISION_MAX_LAYERS, r->kind->layers, &v->n_layers);
    if (st != DOP_OK)
        return st;
    if (layer) { /* -1: the last layer's result, -2 the one before; 0: the input of the first layer */
        const json_int_t n = json_is_integer(layer) ? json_integer_value(layer) : INT32_MAX;
        const json_int_t of = n < 0 ? n + v->n_layers + 1 : n;
        if (of < 0 || of > v->n_layers)
            return DOP_FAIL_IN(r->diag, DOP_E_INPUT, j->path, "vision_feature_layer is not one of the %u layers",
                               v->n_layers);
        v->n_layers = (uint32_t)of;
    }
    const json_t *full = dop_json_get(j, "fullatt_block_indexes"), *deep = dop_json_get(j, "deepstack_visual_indexes");
    for (uint32_t i = 0; i < v->n_layers; i++) {
        v->windowed[i] = json_is_array(full);
        for (size_t k = 0; k < json_array_size(full); k++)
            v->windowed[i] = v->windowed[i] && json_integer_value(json_array_get(full, k)) != i;
    }
    if (json_array_size(deep) > DOP_VISION_MAX_DEEP)
        return DOP_FAIL_IN(r->diag, DOP_E_INPUT, j->path, "deepstack_visual_indexes has more than %d layers",
                           DOP_VISION_MAX_DEEP);
    for (size_t k = 0; k < json_array_size(deep); k++) {
        const json_int_t n = json_integer_value(json_array_get(deep, k));
        if (n < 0 || n >= v->n_layers || (k > 0 && n <= v->deep[k - 1]))
            return DOP_FAIL_IN(r->diag, DOP_E_INPUT, j->path,
                               "deepstack_visual_indexes is not a rising list of layers");
        v->deep[v->n_deep++] = (uint32_t)n;
    }
    return DOP_OK;
}

static dop_status
read_merge(reader *r)
{
    dop_vision *const v = &r->m->facts;
    double ratio = 0;
    dop_status st = dop_json_u32_or(r->config, "scale_factor", 1, 64, r->kind->merge, &v->merge);
    if (st == DOP_OK)
        st = dop_json_u32_or(r->config, "spatial_merge_size", 1, 64, v->merge, &v->merge);
    if (st == DOP_OK)
        st = dop_json_u32_or(&r->vision, "spatial_merge_size", 1, 64, v->merge, &v->merge);
    if (st == DOP_OK)
        st = dop_json_f64_or(r->config, "downsample_ratio", 1.0 / 64, 1, 0, &ratio);
    if (ratio > 0)
        v->merge = (uint32_t)lround(1 / ratio);
    return st;
}

static bool
image_merge(uint32_t merge)
{
    return merge >= 1 && merge <= MAX_MERGE;
}

/* Gemma 3: reads the number of features of a picture, which is a square, and computes `merge` from it. */
static dop_status
read_pool(reader *r, uint32_t patch)
{
    dop_vision *const v = &r->m->facts;
    uint32_t tokens = 0, image = 0;
    dop_status st = dop_json_u32_or(r->config, "mm_tokens_per_image", 1, 1 << 20, 256, &tokens);
    if (st == DOP_OK)
        st = dop_json_u32_or(&r->vision, "image_size", 1, 1 << 15, 224, &image);
    const uint32_t edge = (uint32_t)lround(sqrt(tokens));
    if (st == DOP_OK && (edge * edge != tokens || image / patch % edge != 0 || !image_merge(image / patch / edge)))
        return DOP_FAIL_IN(r->diag, DOP_E_INPUT, r->config->path, "mm_tokens_per_image %u does not divide %u patches",
                           tokens, image / patch);
    v->merge = st == DOP_OK ? image / patch / edge : 1;
    v->pool = true;
    return st;
}

static dop_status
first_of(const dop_json *j, const char *key, uint32_t otherwise, uint32_t *out)
{
    const json_t *v = dop_json_get(j, key);
    if (!json_is_array(v))
        return dop_json_u32_or(j, key, 1, MAX_PATCH, otherwise, out);
    const json_int_t n = json_integer_value(json_array_get(v, 0));
    if (n < 1 || n > MAX_PATCH)
        return DOP_FAIL_IN(j->diag, DOP_E_INPUT, j->path, "%s%s is out of range", j->where, key);
    *out = (uint32_t)n;
    return DOP_OK;
}

static dop_status
read_facts(reader *r)
{
    dop_vision *const v = &r->m->facts;
    const dop_json *const j = &r->vision;
    dop_json text = {0}, rope = {0};
    uint32_t patch = 0, frames = 1;
    dop_status st = dop_json_u32_or(j, dop_json_has(j, "embed_dim") ? "embed_dim" : "hidden_size", 1, 1 << 16,
                                    r->kind->hidden, &v->hidden);
    if (st == DOP_OK)
        st = dop_json_u32_or(j, dop_json_has(j, "num_heads") ? "num_heads" : "num_attention_heads", 1, 1 << 10,
                             r->kind->heads, &v->heads);
    if (st == DOP_OK)
        st = dop_json_u32_or(j, "head_dim", 1, 1 << 12, v->hidden / v->heads, &v->head_dim);
    if (st == DOP_OK)
        st = first_of(j, "patch_size", r->kind->patch, &patch);
    if (st == DOP_OK)
        st = dop_json_u32_or(j, "temporal_patch_size", 1, 16, r->kind->frames, &frames);
    if (st == DOP_OK)
        st = dop_json_f64_or(j, "layer_norm_eps", 0, 1, r->kind->eps, &v->eps);
    if (st == DOP_OK)
        st = read_act(r, j, "hidden_act", r->kind->act, &v->act);
    if (st == DOP_OK)
        st = read_act(r, r->config, "projector_hidden_act", r->row->merge_act, &v->merge_act);
    if (st == DOP_OK)
        st = dop_json_sub(r->config, "text_config", &text);
    if (st == DOP_OK)
        st = dop_json_f64_or(&text, "rms_norm_eps", 0, 1, 1e-5, &v->merge_eps);
    if (st == DOP_OK)
        st = dop_json_sub(j, "rope_parameters", &rope);
    if (st == DOP_OK)
        st = dop_json_f64_or(rope.object ? &rope : j, "rope_theta", 1, 1e12, 10000, &v->rope_theta);
    if (st != DOP_OK)
        return st;
    v->row_values = 3 * frames * patch * patch;
    v->rope_theta = r->kind->rotates ? v->rope_theta : 0;
    v->rope_apart = r->kind->rope_apart;
    v->merge_norm_add = r->row->merge_norm_add;
    v->sees_all = r->row->sees_all;
    if (r->row->merge_eps > 0)
        v->merge_eps = r->row->merge_eps;
    else if (r->row->pool)
        v->merge_eps = v->eps;
    if (v->rope_theta > 0 && v->head_dim % 4 != 0)
        return DOP_FAIL_IN(r->diag, DOP_E_INPUT, j->path, "heads of %u values cannot rotate by row and column",
                           v->head_dim);
    st = read_layers(r);
    if (st == DOP_OK)
        st = r->row->pool ? read_pool(r, patch) : read_merge(r);
    return st;
}

/* ---- weights -------------------------------------------------------------------------------------------------------- */

/* The tensor PREFIX NAME SUFFIX of the first name in `names` for which there is one; a '#' in the name stands for `number`. */
static const dop_st_tensor *
find(const reader *r, const char *prefix, const char *names, uint32_t number, const char *suffix)
{
    char full[256];
    for (const char *at = names; *at; at += *at == '|') {
        const size_t n = strcspn(at, "|"), hash = strcspn(at, "#|");
        if (hash < n)
            snprintf(full, sizeof full, "%s%.*s%u%.*s%s", prefix, (int)hash, at, number, (int)(n - hash - 1),
                     at + hash + 1, suffix);
        else
            snprintf(full, sizeof full, "%s%.*s%s", prefix, (int)n, at, suffix);
        const dop_st_tensor *t = dop_st_take(r->set, full);
        if (t)
            return t;
        at += n;
    }
    return NULL;
}

static uint64_t
count(const dop_st_tensor *t)
{
    uint64_t n = 1;
    for (uint32_t i = 0; i < t->rank; i++)
        n = dop_mul_u64(n, t->shape[i], &n) ? n : 0;
    return n;
}

static dop_status
add(const reader *r, const char *role, const char *suffix, uint32_t number, dop_weight w)
{
    char name[64];
    const size_t hash = strcspn(role, "#");
    if (role[hash])
        snprintf(name, sizeof name, "v.%.*s%u%s%s", (int)hash, role, number, role + hash + 1, suffix);
    else
        snprintf(name, sizeof name, "v.%s%s", role, suffix);
    if (!(w.name = dop_arena_strdup(r->arena, name)))
        return DOP_FAIL(r->diag, DOP_E_NOMEM, "out of host memory");
    return dop_weights_add(&r->m->weights, &w, r->arena, r->diag);
}

/* Adds n rows of a tensor, from `first` on, as a matrix; axes after the first are flattened to columns. */
static dop_status
add_matrix(const reader *r, const tensor_row *row, uint32_t number, const dop_st_tensor *t, uint64_t first, uint64_t n)
{
    const dop_type_info *type = dop_type_of(dop_hf_type(t));
    const bool turned = row->kind == TURNED;
    const uint64_t cols = t->rank > 0 && t->shape[0] > 0 ? count(t) / t->shape[0] : 0;
    if (t->rank < 2 || cols == 0 || cols > UINT32_MAX || t->shape[0] > UINT32_MAX)
        return DOP_FAIL_IN(r->diag, DOP_E_INPUT, t->file, "tensor %s is no matrix", t->name);
    dop_weight w = {.type = dop_hf_type(t),
                    .rank = 2,
                    .rows = (uint32_t)(turned ? cols : n),
                    .cols = (uint32_t)(turned ? t->shape[0] : cols),
                    .data = t->data + first * cols * type->bytes,
                    .row_stride = (turned ? 1 : cols) * type->bytes,
                    .col_stride = turned ? cols * type->bytes : 0,
                    .source = t->name};
    return add(r, row->role, "", number, w);
}

static dop_status
add_vector(const reader *r, const tensor_row *row, const char *suffix, uint32_t number, const dop_st_tensor *t,
           uint64_t first, uint64_t n)
{
    const dop_type_info *type = dop_type_of(dop_hf_type(t));
    dop_weight w = {.type = dop_hf_type(t),
                    .rank = 1,
                    .rows = 1,
                    .cols = (uint32_t)n,
                    .data = t->data + first * type->bytes,
                    .row_stride = n * type->bytes,
                    .source = t->name};
    return add(r, row->role, suffix, number, w);
}

static dop_status
read_tensor(const reader *r, const char *prefix, const tensor_row *row, uint32_t number, bool *out_found)
{
    const bool plain = row->kind == VALUES || row->kind == TURNED;
    const dop_st_tensor *t = find(r, prefix, row->names, number, plain ? "" : ".weight"), *bias = NULL;
    *out_found = t != NULL;
    if (!t)
        return DOP_OK;
    if (dop_hf_type(t) != DOP_TYPE_f32 && dop_hf_type(t) != DOP_TYPE_f16 && dop_hf_type(t) != DOP_TYPE_bf16)
        return DOP_FAIL_IN(r->diag, DOP_E_INPUT, t->file, "tensor %s is stored as %s, which is not supported here",
                           t->name, t->dtype);
    if (!plain)
        bias = find(r, prefix, row->names, number, ".bias");
    const uint64_t outs = t->rank > 0 ? t->shape[0] : 0, third = row->kind >= THIRDS ? outs / 3 : 0;
    const uint64_t first = row->kind >= THIRDS ? (uint64_t)(row->kind - THIRDS) * third : 0;
    if (count(t) == 0 || count(t) > UINT32_MAX ||
        (bias && (count(bias) != outs || dop_hf_type(bias) != dop_hf_type(t))) ||
        (row->kind >= THIRDS && outs % 3 != 0))
        return DOP_FAIL_IN(r->diag, DOP_E_INPUT, t->file, "tensor %s and its bias do not fit", t->name);
    const bool matrix = row->kind != NORM && row->kind != VALUES;
    dop_status st = matrix ? add_matrix(r, row, number, t, first, third ? third : outs)
                           : add_vector(r, row, "", number, t, 0, count(t));
    if (st == DOP_OK && bias)
        st = add_vector(r, row, "_bias", number, bias, first, third ? third : outs);
    return st;
}

/* A weight's values as f32, in the arena. */
static float *
values_of(const reader *r, const dop_weight *w)
{
    float *out = dop_arena_alloc(r->arena, (uint64_t)w->rows * w->cols * sizeof *out);
    for (uint32_t i = 0; out && i < w->rows; i++)
        dop_decode_row(w->type, w->data + i * w->row_stride, w->cols, out + (uint64_t)i * w->cols);
    return out;
}

static dop_weight *
own(reader *r, const char *name)
{
    return (dop_weight *)(uintptr_t)dop_weights_find(&r->m->weights, name);
}

static void
become(dop_weight *w, uint32_t rows, uint32_t cols, const float *values)
{
    w->type = DOP_TYPE_f32;
    w->rank = 2;
    w->rows = rows;
    w->cols = cols;
    w->data = (const uint8_t *)values;
    w->row_stride = cols * sizeof *values;
    w->col_stride = 0;
}

/* Makes the table of position embeddings a matrix.  The class token becomes its last row, less the bias of the patch projection,
 * which is added to every row. */
static dop_status
settle_places(reader *r)
{
    dop_vision *const v = &r->m->facts;
    dop_weight *pos = own(r, "v.pos"), *class = own(r, "v.class");
    const dop_weight *bias = own(r, "v.patch_bias");
    const uint32_t h = v->hidden;
    v->class_token = class != NULL;
    if (!pos)
        return class ? DOP_FAIL(r->diag, DOP_E_INPUT, "the tower has a class token and no table of places") : DOP_OK;
    float *t = values_of(r, pos), *c = class ? values_of(r, class) : NULL, *b = bias ? values_of(r, bias) : NULL;
    if (!t || (class && !c) || (bias && !b))
        return DOP_FAIL(r->diag, DOP_E_NOMEM, "out of host memory");
    const uint32_t n = pos->cols * pos->rows / h;
    if (n == 0 || n * h != pos->cols * pos->rows || (class && class->cols != h) || (bias && bias->cols != h))
        return DOP_FAIL(r->diag, DOP_E_INPUT, "the table of places does not fit rows of %u values", h);
    v->n_places = n;
    v->places = r->kind->corners ? DOP_PLACES_CORNERS : DOP_PLACES_TABLE;
    if (class) {
        float *sum = dop_arena_alloc(r->arena, (uint64_t)n * h * sizeof *sum);
        if (!sum)
            return DOP_FAIL(r->diag, DOP_E_NOMEM, "out of host memory");
        memcpy(sum, t + h, (uint64_t)(n - 1) * h * sizeof *sum);
        for (uint32_t i = 0; i < h; i++)
            sum[(uint64_t)(n - 1) * h + i] = t[i] + c[i] - (b ? b[i] : 0);
        t = sum;
    }
    become(pos, n, h, t);
    return DOP_OK;
}

/* Mistral 3: reorders the columns of the merging matrix.  Its unfolded input has one value of all patches side by side, ours all
 * values of one patch. */
static dop_status
settle_unfolded(reader *r)
{
    dop_weight *w = own(r, "v.merge");
    const uint32_t k = r->m->facts.merge * r->m->facts.merge;
    if (!w || !r->row->unfolds || k == 1)
        return DOP_OK;
    const float *from = values_of(r, w);
    float *to = dop_arena_alloc(r->arena, (uint64_t)w->rows * w->cols * sizeof *to);
    if (!from || !to)
        return DOP_FAIL(r->diag, DOP_E_NOMEM, "out of host memory");
    if (w->cols % k != 0)
        return DOP_FAIL(r->diag, DOP_E_INPUT, "tensor %s has no columns of %u patches", w->source, k);
    for (uint64_t i = 0; i < (uint64_t)w->rows * w->cols; i++) {
        const uint64_t col = i % w->cols;
        to[i - col + col % k * (w->cols / k) + col / k] = from[i];
    }
    become(w, w->rows, w->cols, to);
    return DOP_OK;
}

/* Has a vector the length that its place asks for? */
static bool
fits(const reader *r, const dop_weight *w)
{
    const dop_vision *const v = &r->m->facts;
    const char *const dot = strrchr(w->name, '.');
    const size_t n = strlen(w->name);
    const uint32_t merged = v->hidden * v->merge * v->merge;
    if (n > 5 && strcmp(w->name + n - 5, "_bias") == 0) /* checked when its matrix or norm was read */
        return true;
    if (strcmp(dot, ".q_norm") == 0 || strcmp(dot, ".k_norm") == 0)
        return w->cols == v->heads * v->head_dim;
    if (strcmp(dot, ".norm") == 0)
        return w->cols == (w->name[2] != 'D' && v->pool ? v->hidden : merged);
    return w->cols == v->hidden;
}

/* Checks the shapes of a projector's matrices; place: "", or "D0." and so on for the results of layers in `deep`. */
static bool
merges(reader *r, const char *place)
{
    dop_vision *const v = &r->m->facts;
    const uint32_t merged = v->hidden * (v->pool ? 1 : v->merge * v->merge);
    char name[3][48];
    static const char *const roles[] = {"merge", "linear1", "linear2"};
    for (size_t i = 0; i < 3; i++)
        snprintf(name[i], sizeof name[i], "v.%s%s", place, roles[i]);
    const dop_weight *merge = own(r, name[0]), *first = own(r, name[1]), *last = own(r, name[2]);
    if (!first || (last && last->cols != first->rows) || first->cols != (merge ? merge->rows : merged) ||
        (merge && merge->cols != merged))
        return false;
    const uint32_t features = last ? last->rows : first->rows;
    v->features = v->features ? v->features : features;
    return v->features == features;
}

/* Checks that shapes are as the graph builder needs them. */
static dop_status
check(reader *r)
{
    dop_vision *const v = &r->m->facts;
    const uint32_t all = v->heads * v->head_dim, edge = (uint32_t)lround(sqrt(v->n_places));
    bool ok = own(r, "v.patch")->rows == v->hidden && own(r, "v.patch")->cols == v->row_values && merges(r, "") &&
              (v->places != DOP_PLACES_CORNERS || edge * edge == v->n_places);
    for (uint32_t i = 0; ok && i < v->n_deep; i++) {
        char place[16];
        snprintf(place, sizeof place, "D%u.", i);
        ok = merges(r, place);
    }
    for (uint32_t i = 0; ok && i < r->m->weights.n; i++)
        ok = r->m->weights.items[i].rank > 1 || fits(r, &r->m->weights.items[i]);
    for (uint32_t i = 0; ok && i < v->n_layers; i++) {
        static const char *const names[] = {"q", "k", "v", "o", "up", "gate", "down"};
        for (size_t k = 0; ok && k < 7; k++) {
            char name[32];
            snprintf(name, sizeof name, "v.L%u.%s", i, names[k]);
            const dop_weight *w = own(r, name);
            if (!w && k == 5)
                continue;
            v->ffn = k == 4 && i == 0 && w ? w->rows : v->ffn;
            const uint32_t outs = k < 3 ? all : k == 4 || k == 5 ? v->ffn : v->hidden;
            ok = w && w->rows == outs && w->cols == (k == 3 ? all : k == 6 ? v->ffn : v->hidden);
        }
    }
    return ok ? DOP_OK
              : DOP_FAIL_IN(r->diag, DOP_E_INPUT, r->set->path,
                            "the tensors of the vision part have other shapes than config.json says");
}

/* Fails for tensors of the vision part that nothing has read, except those after the layer whose result is used, and SigLIP's
 * pooling, which are for other uses of the tower. */
static dop_status
check_leftovers(const reader *r)
{
    const size_t n = strlen(r->tower), after = strlen(r->after);
    for (uint32_t i = 0; i < r->set->n; i++) {
        const char *name = r->set->tensors[i].name, *rest = name + n;
        uint32_t layer = 0;
        if (r->set->taken[i] || (strncmp(name, r->tower, n) != 0 && strncmp(name, r->after, after) != 0))
            continue;
        const bool inner =
            r->row->inner && (strncmp(rest, "post_layernorm.", 15) == 0 ||
                              (sscanf(rest, "encoder.layers.%u.", &layer) == 1 && layer >= r->m->facts.n_layers));
        if (strncmp(name, r->tower, n) != 0 ||
            !(inner || strncmp(rest, "head.", 5) == 0 || strstr(rest, "position_ids")))
            return DOP_FAIL_IN(r->diag, DOP_E_INPUT, r->set->tensors[i].file, "nothing reads tensor %s", name);
        r->set->taken[i] = true;
    }
    return DOP_OK;
}

static const char *
prefix_of(const reader *r, const char *const *prefixes, size_t n, const char *names, const char *suffix)
{
    for (size_t i = 0; i < n; i++) {
        const dop_st_tensor *t = find(r, prefixes[i], names, 0, suffix);
        if (t)
            return prefixes[i];
    }
    return NULL;
}

static dop_status
read_weights(reader *r)
{
    static const char *const before[] = {
        "vision_tower.",       "vision_tower.vision_model.",       "model.vision_tower.",
        "model.vision_model.", "model.vision_tower.vision_model.", "visual.",
        "model.visual."};
    static const char *const afters[] = {"multi_modal_projector.", "model.multi_modal_projector.",
                                         "model.connector.modality_projection."};
    dop_vision *const v = &r->m->facts;
    dop_status st = DOP_OK;
    r->tower = prefix_of(r, before, sizeof before / sizeof *before, tensors[0].names, ".weight");
    if (!r->tower)
        return DOP_FAIL_IN(r->diag, DOP_E_INPUT, r->set->path, "the tensors of the vision part are missing");
    r->after = prefix_of(r, afters, sizeof afters / sizeof *afters, "linear_1|proj", ".weight");
    if (!r->after)
        r->after = prefix_of(r, afters, sizeof afters / sizeof *afters, "mm_input_projection_weight", "");
    if (!r->after)
        r->after = r->tower;
    bool behind = false; /* `i` is past the tower's tensors */
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors && st == DOP_OK; i++) {
        const char *const role = tensors[i].role;
        behind = behind || strcmp(role, "row_norm") == 0;
        if (r->row->inner && strcmp(role, "post_norm") == 0)
            continue;
        const uint32_t n = strncmp(role, "L#", 2) == 0 ? v->n_layers : strncmp(role, "D#", 2) == 0 ? v->n_deep : 1;
        for (uint32_t k = 0; k < n && st == DOP_OK; k++) {
            bool found;
            st = read_tensor(r, behind ? r->after : r->tower, &tensors[i], k, &found);
            if (st == DOP_OK && !found && tensors[i].needed)
                st = DOP_FAIL_IN(r->diag, DOP_E_INPUT, r->set->path, "the vision part has no tensor %s", role);
        }
    }
    if (st == DOP_OK)
        st = dop_weights_seal(&r->m->weights, r->diag);
    if (st == DOP_OK)
        st = settle_places(r);
    if (st == DOP_OK)
        st = settle_unfolded(r);
    if (st == DOP_OK)
        st = check(r);
    return st == DOP_OK ? check_leftovers(r) : st;
}

dop_status
dop_hf_vision(const dop_json *config, const dop_st_set *set, dop_arena *arena, dop_diag *diag, bool *out_present,
              dop_vision_model *m)
{
    reader r = {.config = config, .set = set, .arena = arena, .diag = diag, .m = m};
    const char *type = NULL, *tower = NULL;
    *out_present = false;
    dop_status st = dop_json_str_or(config, "model_type", "", &type);
    if (st == DOP_OK)
        st = dop_json_sub(config, "vision_config", &r.vision);
    for (size_t i = 0; i < sizeof models / sizeof *models && st == DOP_OK; i++)
        if (strcmp(models[i].model_type, type) == 0)
            r.row = &models[i];
    if (st == DOP_OK)
        st = dop_json_str_or(&r.vision, "model_type", type, &tower);
    for (size_t i = 0; i < sizeof towers / sizeof *towers && st == DOP_OK; i++)
        if (strncmp(towers[i].model_type, tower, strlen(towers[i].model_type)) == 0)
            r.kind = &towers[i];
    if (st != DOP_OK || !r.row || !r.vision.object)
        return st;
    if (!r.kind)
        return DOP_FAIL_IN(diag, DOP_E_INPUT, config->path, "vision_config.model_type \"%.40s\" is not supported",
                           tower);
    st = read_facts(&r);
    if (st == DOP_OK)
        st = read_weights(&r);
    *out_present = st == DOP_OK;
    return st;
}
