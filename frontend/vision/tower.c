/* Converts the tensors of a vision part's file to weights in the form that graphs need. */
#include "frontend/vision/tower.h"

#include "base/step_record.h"
#include "ir/interp/interp.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

typedef enum kind { MATRIX, NORM, VALUES, TURNED, CLIPS, THIRDS } kind;
#define ROWS(n) (kind)(THIRDS + n)

typedef struct tensor_row {
    const char *role;
    kind kind;
    bool needed;
    const char *names[2]; /* [dop_tower_names] candidate names, separated by '|' */
} tensor_row;

static const tensor_row tensors[] = {
#define TENSOR(role, kind, needed, names, gguf) {role, kind, needed, {names, gguf}},
#include "frontend/vision/tower_names.def"
#undef TENSOR
};

static const dop_tower_kind towers[] = {
    {"clip", 768, 12, 12, 32, 1, 1, 1e-5, DOP_ACT_QUICK_GELU, 0, false, DOP_PLACES_NONE, false},
    {"siglip2", 768, 12, 12, 16, 1, 1, 1e-6, DOP_ACT_GELU_TANH, 0, false, DOP_PLACES_RESAMPLED, false},
    {"siglip_", 768, 12, 12, 16, 1, 1, 1e-6, DOP_ACT_GELU_TANH, 0, false, DOP_PLACES_NONE, false},
    {"idefics3", 1152, 12, 16, 32, 1, 1, 1e-6, DOP_ACT_GELU_TANH, 0, false, DOP_PLACES_NONE, false},
    {"smolvlm", 1152, 12, 16, 32, 1, 1, 1e-6, DOP_ACT_GELU_TANH, 0, false, DOP_PLACES_NONE, false},
    {"internvl", 1024, 24, 16, 14, 1, 1, 1e-6, DOP_ACT_GELU, 0, false, DOP_PLACES_NONE, false},
    {"pixtral", 1024, 24, 16, 16, 1, 1, 1e-5, DOP_ACT_GELU, 10000, true, DOP_PLACES_NONE, false},
    {"qwen2_vl", 1280, 32, 16, 14, 2, 2, 1e-6, DOP_ACT_QUICK_GELU, 10000, false, DOP_PLACES_NONE, false},
    {"qwen2_5_vl", 1280, 32, 16, 14, 2, 2, 1e-6, DOP_ACT_SILU, 10000, false, DOP_PLACES_NONE, false},
    {"qwen3_vl", 1152, 27, 16, 16, 2, 2, 1e-6, DOP_ACT_GELU_TANH, 10000, false, DOP_PLACES_CORNERS, false},
    {"qwen3_5", 1152, 27, 16, 16, 2, 2, 1e-6, DOP_ACT_GELU_TANH, 10000, false, DOP_PLACES_CORNERS, false},
    {"gemma4", 768, 16, 12, 16, 1, 3, 1e-6, DOP_ACT_GELU_TANH, 100, false, DOP_PLACES_AXES, true},
};

/* Projector after the tower, identified by the whole model's model_type. */
static const dop_projector_kind models[] = {
    {"llava", .merge_act = DOP_ACT_GELU, .inner = true, .layer = -2},
    {"gemma3", .merge_norm_add = 1, .pool = true, .sees_all = true},
    {"gemma4", .merge_eps = 1e-6, .pool = true, .sees_all = true, .sees_near = true, .root = true},
    {"idefics3", .merge_act = DOP_ACT_GELU, .merge = 2},
    {"smolvlm", .merge_act = DOP_ACT_GELU, .merge = 2},
    {"internvl", .merge_eps = 1e-5, .merge_act = DOP_ACT_GELU, .merge = 2},
    {"mistral3", .merge_act = DOP_ACT_GELU, .unfolds = true, .merge = 2},
    {"lfm2_vl", .merge_eps = 1e-5, .merge_act = DOP_ACT_GELU, .merge = 2},
    {"qwen2_vl", .merge_eps = 1e-6, .merge_act = DOP_ACT_GELU},
    {"qwen2_5_vl", .merge_eps = 1e-6, .merge_act = DOP_ACT_GELU},
    {"qwen3_vl", .merge_eps = 1e-6, .merge_act = DOP_ACT_GELU},
    {"qwen3_vl_moe", .merge_eps = 1e-6, .merge_act = DOP_ACT_GELU},
    {"qwen3_5", .merge_eps = 1e-6, .merge_act = DOP_ACT_GELU},
    {"qwen3_5_moe", .merge_eps = 1e-6, .merge_act = DOP_ACT_GELU},
};

const dop_tower_kind *
dop_tower_kind_of(const char *name)
{
    for (size_t i = 0; i < sizeof towers / sizeof *towers; i++)
        if (strncmp(towers[i].model_type, name, strlen(towers[i].model_type)) == 0)
            return &towers[i];
    return NULL;
}

const dop_projector_kind *
dop_projector_kind_of(const char *model_type)
{
    for (size_t i = 0; i < sizeof models / sizeof *models; i++)
        if (strcmp(models[i].model_type, model_type) == 0)
            return &models[i];
    return NULL;
}

void
dop_tower_facts_of(const dop_tower_kind *tower, const dop_projector_kind *projector, dop_vision *v)
{
    v->rope_apart = tower->rope_apart;
    v->scale = tower->halves ? 1 : 0;
    v->norm_values = v->centered = tower->halves;
    v->pool = projector->pool;
    v->pool_scale = projector->root ? sqrt(v->hidden) : 0;
    v->merge_plain = projector->root;
    v->sees_near = projector->sees_near;
    if (!projector->sees_near) /* otherwise stated by the text model */
        v->sees_all = projector->sees_all;
}

/* ---- tensors -------------------------------------------------------------------------------------------------------- */

typedef struct reader {
    const dop_tower_files *files;
    dop_arena *arena;
    dop_diag *diag;
    dop_vision_model *m;
    dop_status status; /* status of the last take() */
} reader;

/* Finds the tensor PREFIX NAME SUFFIX for the first existing name of a role; '#' in the name is `number`. */
static bool
find_tower_tensor(reader *r, const char *prefix, const tensor_row *row, uint32_t number, const char *suffix,
                  dop_tower_tensor *out)
{
    char full[256];
    for (const char *at = row->names[r->files->names]; *at; at += *at == '|') {
        const size_t n = strcspn(at, "|"), hash = strcspn(at, "#|");
        if (hash < n)
            snprintf(full, sizeof full, "%s%.*s%u%.*s%s", prefix, (int)hash, at, number, (int)(n - hash - 1),
                     at + hash + 1, suffix);
        else
            snprintf(full, sizeof full, "%s%.*s%s", prefix, (int)n, at, suffix);
        if (r->files->take(r->files->user, full, out, &r->status))
            return true;
        at += n;
    }
    return false;
}

static uint64_t
count_tensor_values(const dop_tower_tensor *t)
{
    uint64_t n = 1;
    for (uint32_t i = 0; i < t->rank; i++)
        n = dop_mul_u64(n, t->shape[i], &n) ? n : 0;
    return n;
}

static dop_status
add_tower_weight(const reader *r, const char *role, const char *suffix, uint32_t number, dop_weight w)
{
    char name[64];
    const size_t hash = strcspn(role, "#");
    if (role[hash])
        snprintf(name, sizeof name, "v.%.*s%u%s%s", (int)hash, role, number, role + hash + 1, suffix);
    else
        snprintf(name, sizeof name, "v.%s%s", role, suffix);
    if (!(w.name = dop_arena_strdup(r->arena, name)))
        return DOP_NO_MEMORY(r->diag);
    return dop_weights_add(&r->m->weights, &w, r->arena, r->diag);
}

/* Decodes a tensor's values to f32, in the arena. */
static float *
decode_tensor_values(const reader *r, dop_type type, const uint8_t *data, uint64_t rows, uint32_t cols, uint64_t stride)
{
    float *out = dop_arena_alloc(r->arena, rows * cols * sizeof *out);
    for (uint64_t i = 0; out && i < rows; i++)
        dop_decode_row(type, data + i * stride, cols, out + i * cols);
    return out;
}

/* Adds n rows of a tensor, from `first` on, as a matrix. Axes after the first are flattened to columns. A transposed quantized
 * matrix is decoded, because its blocks do not run along its rows. */
static dop_status
add_tower_matrix(const reader *r, const tensor_row *row, uint32_t number, const dop_tower_tensor *t, uint64_t first,
                 uint64_t n)
{
    const bool turned = row->kind == TURNED && !r->files->projection_straight;
    const uint64_t cols = t->rank > 0 && t->shape[0] > 0 ? count_tensor_values(t) / t->shape[0] : 0;
    dop_type type = t->type;
    const uint8_t *data = t->data;
    uint64_t stride = 0;
    if (t->rank < 2 || cols == 0 || cols > UINT32_MAX || t->shape[0] > UINT32_MAX ||
        !dop_type_row_bytes(type, (uint32_t)cols, &stride))
        return DOP_FAIL_IN(r->diag, DOP_E_INPUT, t->file, "tensor %s is no matrix", t->name);
    if (turned && dop_type_of(type)->block > 1) {
        data = (const uint8_t *)decode_tensor_values(r, type, data, t->shape[0], (uint32_t)cols, stride);
        if (!data)
            return DOP_NO_MEMORY(r->diag);
        type = DOP_TYPE_f32;
        stride = cols * sizeof(float);
    }
    dop_weight w = {.type = type,
                    .rank = 2,
                    .rows = (uint32_t)(turned ? cols : n),
                    .cols = (uint32_t)(turned ? t->shape[0] : cols),
                    .data = data + first * stride,
                    .row_stride = turned ? dop_type_of(type)->bytes : stride,
                    .col_stride = turned ? stride : 0,
                    .source = t->name};
    return add_tower_weight(r, row->role, "", number, w);
}

static dop_status
add_vector(const reader *r, const tensor_row *row, const char *suffix, uint32_t number, const dop_tower_tensor *t,
           uint64_t first, uint64_t n)
{
    const dop_type_info *type = dop_type_of(t->type);
    if (type->block > 1)
        return DOP_FAIL_IN(r->diag, DOP_E_INPUT, t->file, "tensor %s: type %s is not supported for a vector", t->name,
                           t->stored);
    dop_weight w = {.type = t->type,
                    .rank = 1,
                    .rows = 1,
                    .cols = (uint32_t)n,
                    .data = t->data + first * type->bytes,
                    .row_stride = n * type->bytes,
                    .source = t->name};
    return add_tower_weight(r, row->role, suffix, number, w);
}

/* Reads the bounds of a product: scalars, each of which may be missing. */
static dop_status
read_clips(reader *r, const char *prefix, const tensor_row *row, uint32_t number, uint32_t in_file)
{
    static const char *const suffixes[] = {".input_min", ".input_max", ".output_min", ".output_max"};
    float *bounds = dop_arena_alloc(r->arena, 4 * sizeof *bounds);
    bool any = false;
    if (!bounds)
        return DOP_NO_MEMORY(r->diag);
    for (uint32_t i = 0; i < 4; i++) {
        dop_tower_tensor t = {0};
        bounds[i] = i % 2 ? INFINITY : -INFINITY;
        if (!find_tower_tensor(r, prefix, row, in_file, suffixes[i], &t))
            continue;
        if (count_tensor_values(&t) != 1 || t.type == DOP_TYPE_none || dop_type_of(t.type)->block > 1)
            return DOP_FAIL_IN(r->diag, DOP_E_INPUT, t.file, "tensor %s is no single value", t.name);
        dop_decode_row(t.type, t.data, 1, &bounds[i]);
        any = true;
    }
    const dop_weight w = {.type = DOP_TYPE_f32,
                          .rank = 1,
                          .rows = 1,
                          .cols = 4,
                          .data = (const uint8_t *)bounds,
                          .row_stride = 4 * sizeof *bounds,
                          .source = row->role};
    return any && !r->files->unclipped ? add_tower_weight(r, row->role, "", number, w) : r->status;
}

static dop_status
read_tower_tensor(reader *r, const char *prefix, const tensor_row *row, uint32_t number, uint32_t in_file,
                  bool *out_found)
{
    const bool plain = row->kind == VALUES || row->kind == TURNED, thirds = row->kind >= THIRDS;
    dop_tower_tensor t = {0}, bias = {0};
    if (row->kind == CLIPS) {
        *out_found = true;
        return read_clips(r, prefix, row, number, in_file);
    }
    *out_found = find_tower_tensor(r, prefix, row, in_file, plain ? "" : ".weight", &t);
    if (!*out_found || r->status != DOP_OK)
        return r->status;
    if (t.type == DOP_TYPE_none)
        return DOP_FAIL_IN(r->diag, DOP_E_INPUT, t.file, "tensor %s is stored as %s, which is not supported here",
                           t.name, t.stored);
    const bool biased = !plain && find_tower_tensor(r, prefix, row, in_file, ".bias", &bias);
    if (r->status != DOP_OK)
        return r->status;
    const uint64_t outs = t.rank > 0 ? t.shape[0] : 0, third = thirds ? outs / 3 : 0;
    const uint64_t first = thirds ? (uint64_t)(row->kind - THIRDS) * third : 0;
    if (count_tensor_values(&t) == 0 || count_tensor_values(&t) > UINT32_MAX ||
        (biased && (count_tensor_values(&bias) != outs || bias.type == DOP_TYPE_none)) || (thirds && outs % 3 != 0))
        return DOP_FAIL_IN(r->diag, DOP_E_INPUT, t.file, "tensor %s and its bias do not fit", t.name);
    const bool matrix = row->kind != NORM && row->kind != VALUES;
    DOP_RETURN_IF_ERROR(matrix ? add_tower_matrix(r, row, number, &t, first, third ? third : outs)
                               : add_vector(r, row, "", number, &t, 0, count_tensor_values(&t)));
    if (biased)
        DOP_RETURN_IF_ERROR(add_vector(r, row, "_bias", number, &bias, first, third ? third : outs));
    return DOP_OK;
}

/* Returns a weight's values as f32, in the arena. */
static float *
decode_weight_values(const reader *r, const dop_weight *w)
{
    return decode_tensor_values(r, w->type, w->data, w->rows, w->cols, w->row_stride);
}

static dop_weight *
find_own_weight(reader *r, const char *name)
{
    return (dop_weight *)(uintptr_t)dop_weights_find(&r->m->weights, name);
}

static void
set_weight_values(dop_weight *w, uint32_t rows, uint32_t cols, const float *values)
{
    w->type = DOP_TYPE_f32;
    w->rank = 2;
    w->rows = rows;
    w->cols = cols;
    w->data = (const uint8_t *)values;
    w->row_stride = cols * sizeof *values;
    w->col_stride = 0;
}

/* Makes the position table a matrix. The class token becomes its last row, minus the patch projection's bias, which is added to
 * every row. */
static dop_status
settle_places(reader *r)
{
    dop_vision *const v = &r->m->facts;
    dop_weight *pos = find_own_weight(r, "v.pos"), *class = find_own_weight(r, "v.class");
    const dop_weight *bias = find_own_weight(r, "v.patch_bias");
    const uint32_t h = v->hidden;
    v->class_token = class != NULL;
    if (!pos)
        return class ? DOP_FAIL(r->diag, DOP_E_INPUT, "the tower has a class token and no table of places") : DOP_OK;
    float *t = decode_weight_values(r, pos), *c = class ? decode_weight_values(r, class) : NULL,
          *b = bias ? decode_weight_values(r, bias) : NULL;
    if (!t || (class && !c) || (bias && !b))
        return DOP_NO_MEMORY(r->diag);
    const uint32_t n = pos->cols * pos->rows / h;
    if (n == 0 || n * h != pos->cols * pos->rows || (class && class->cols != h) || (bias && bias->cols != h))
        return DOP_FAIL(r->diag, DOP_E_INPUT, "the table of places does not fit rows of %u values", h);
    v->n_places = n;
    v->places = r->files->places ? r->files->places : DOP_PLACES_TABLE;
    if (class) {
        float *sum = dop_arena_alloc(r->arena, (uint64_t)n * h * sizeof *sum);
        if (!sum)
            return DOP_NO_MEMORY(r->diag);
        memcpy(sum, t + h, (uint64_t)(n - 1) * h * sizeof *sum);
        for (uint32_t i = 0; i < h; i++)
            sum[(uint64_t)(n - 1) * h + i] = t[i] + c[i] - (b ? b[i] : 0);
        t = sum;
    }
    set_weight_values(pos, n, h, t);
    if (v->places == DOP_PLACES_AXES && n / 2 > DOP_STEP_EDGE) { /* no picture has more patch columns or rows */
        memmove(t + (uint64_t)DOP_STEP_EDGE * h, t + (uint64_t)(n / 2) * h, (uint64_t)DOP_STEP_EDGE * h * sizeof *t);
        v->n_places = 2 * DOP_STEP_EDGE;
        set_weight_values(pos, v->n_places, h, t);
    }
    if (v->places == DOP_PLACES_RESAMPLED) { /* a product with the rows' weights resizes the table */
        pos->rows = h;
        pos->cols = n;
        pos->row_stride = sizeof *t;
        pos->col_stride = h * sizeof *t;
    }
    return DOP_OK;
}

/* SigLIP 2: reorders columns of the patch projection from [patch, patch, 3] to [3, patch, patch], the order of patch
 * rows. */
static dop_status
settle_patches(reader *r)
{
    dop_weight *w = find_own_weight(r, "v.patch");
    if (!w || !r->files->channels_last || w->cols % 3 != 0)
        return DOP_OK;
    const float *from = decode_weight_values(r, w);
    float *to = dop_arena_alloc(r->arena, (uint64_t)w->rows * w->cols * sizeof *to);
    if (!from || !to)
        return DOP_NO_MEMORY(r->diag);
    for (uint64_t i = 0; i < (uint64_t)w->rows * w->cols; i++) {
        const uint64_t col = i % w->cols;
        to[i - col + col % 3 * (w->cols / 3) + col / 3] = from[i];
    }
    set_weight_values(w, w->rows, w->cols, to);
    return DOP_OK;
}

/* Gemma 4: reorders rows of query and key matrices, and their norms. In files, the halves of a head rotate separately in pairs
 * (i, i + head_dim / 4), the first half by column, the second by row. Here a head rotates in pairs (i, i + head_dim / 2), the
 * first head_dim / 4 pairs by row. Scores are unchanged. */
static dop_status
settle_halves(reader *r)
{
    const dop_vision *v = &r->m->facts;
    const uint32_t half = v->head_dim / 2, quarter = half / 2;
    for (uint32_t i = 0; r->files->halves && i < 4 * v->n_layers; i++) {
        static const char *const roles[] = {"q", "k", "q_norm", "k_norm"};
        char name[32];
        snprintf(name, sizeof name, "v.L%u.%s", i / 4, roles[i % 4]);
        dop_weight *w = find_own_weight(r, name);
        const bool matrix = i % 4 < 2;
        const uint64_t n = !w       ? 0
                           : matrix ? w->rows
                                    : w->cols,
                       each = !w       ? 0
                              : matrix ? w->row_stride
                                       : dop_type_of(w->type)->bytes;
        if (!w || n % v->head_dim != 0)
            continue; /* if the length is wrong, check_tower_shapes() reports it */
        uint8_t *to = dop_arena_alloc(r->arena, n * each);
        if (!to)
            return DOP_NO_MEMORY(r->diag);
        for (uint64_t k = 0; k < n; k++) {
            const uint64_t in = k % v->head_dim, pair = in % half,
                           from = (pair < quarter ? half : 0) + (in >= half ? quarter : 0) + pair % quarter;
            memcpy(to + k * each, w->data + (k - in + from) * each, each);
        }
        w->data = to;
    }
    return DOP_OK;
}

/* Mistral 3: reorders columns of the merging matrix. The file's unfolded input has all patches of one value adjacent; graphs have
 * all values of one patch adjacent. */
static dop_status
settle_unfolded(reader *r)
{
    dop_weight *w = find_own_weight(r, "v.merge");
    const uint32_t k = r->m->facts.merge * r->m->facts.merge;
    if (!w || !r->files->unfolds || k == 1)
        return DOP_OK;
    const float *from = decode_weight_values(r, w);
    float *to = dop_arena_alloc(r->arena, (uint64_t)w->rows * w->cols * sizeof *to);
    if (!from || !to)
        return DOP_NO_MEMORY(r->diag);
    if (w->cols % k != 0)
        return DOP_FAIL(r->diag, DOP_E_INPUT, "tensor %s has no columns of %u patches", w->source, k);
    for (uint64_t i = 0; i < (uint64_t)w->rows * w->cols; i++) {
        const uint64_t col = i % w->cols;
        to[i - col + col % k * (w->cols / k) + col / k] = from[i];
    }
    set_weight_values(w, w->rows, w->cols, to);
    return DOP_OK;
}

/* True if a vector has the required length. */
static bool
vector_fits(const reader *r, const dop_weight *w)
{
    const dop_vision *const v = &r->m->facts;
    const char *const dot = strrchr(w->name, '.');
    const size_t n = strlen(w->name);
    const uint32_t merged = v->hidden * v->merge * v->merge;
    if (n > 5 && strcmp(w->name + n - 5, "_bias") == 0) /* checked when its matrix or norm was read */
        return true;
    if (strcmp(dot, ".q_norm") == 0 || strcmp(dot, ".k_norm") == 0)
        return w->cols == v->heads * v->head_dim || w->cols == v->head_dim;
    if (n > 5 && strcmp(w->name + n - 5, "_clip") == 0)
        return w->cols == 4;
    if (strcmp(dot, ".norm") == 0)
        return w->cols == (w->name[2] != 'D' && v->pool ? v->hidden : merged);
    return w->cols == v->hidden;
}

/* Checks the shapes of a projector's matrices. place: "", or "D0." and so on for additional features. */
static bool
check_merge_shapes(reader *r, const char *place)
{
    dop_vision *const v = &r->m->facts;
    const uint32_t merged = v->hidden * (v->pool ? 1 : v->merge * v->merge);
    char name[3][48];
    static const char *const roles[] = {"merge", "linear1", "linear2"};
    for (size_t i = 0; i < 3; i++)
        snprintf(name[i], sizeof name[i], "v.%s%s", place, roles[i]);
    const dop_weight *merge = find_own_weight(r, name[0]), *first = find_own_weight(r, name[1]),
                     *last = find_own_weight(r, name[2]);
    if (!first || (last && last->cols != first->rows) || first->cols != (merge ? merge->rows : merged) ||
        (merge && merge->cols != merged))
        return false;
    const uint32_t features = last ? last->rows : first->rows;
    v->features = v->features ? v->features : features;
    return v->features == features;
}

/* Checks that a weight of one layer exists in all layers. A bias or norm missing from the file would otherwise be
 * skipped silently. */
static dop_status
check_alike(reader *r)
{
    const uint32_t n = r->m->facts.n_layers;
    for (uint32_t i = 0; i < r->m->weights.n; i++) {
        const char *const name = r->m->weights.items[i].name;
        uint32_t layer;
        int end = 0;
        char next[64];
        if (sscanf(name, "v.L%" SCNu32 ".%n", &layer, &end) != 1 || end == 0 || strstr(name, "_clip"))
            continue;
        layer = (layer + 1) % n;
        snprintf(next, sizeof next, "v.L%u.%s", layer, name + end);
        if (!find_own_weight(r, next))
            return DOP_FAIL_IN(r->diag, DOP_E_INPUT, r->files->path,
                               "layer %u of the vision part lacks %s, which another layer has", layer, name + end);
    }
    return DOP_OK;
}

/* Checks that shapes are as the graph builder needs them. */
static dop_status
check_tower_shapes(reader *r)
{
    dop_vision *const v = &r->m->facts;
    const uint32_t all = v->heads * v->head_dim, edge = (uint32_t)lround(sqrt(v->n_places));
    bool ok = find_own_weight(r, "v.patch")->rows == v->hidden &&
              find_own_weight(r, "v.patch")->cols == v->row_values && check_merge_shapes(r, "") &&
              ((v->places != DOP_PLACES_CORNERS && v->places != DOP_PLACES_RESAMPLED) || edge * edge == v->n_places) &&
              (v->places != DOP_PLACES_AXES || v->n_places % 2 == 0);
    for (uint32_t i = 0; ok && i < v->n_deep; i++) {
        char place[16];
        snprintf(place, sizeof place, "D%u.", i);
        ok = check_merge_shapes(r, place);
    }
    for (uint32_t i = 0; ok && i < r->m->weights.n; i++)
        ok = r->m->weights.items[i].rank > 1 || vector_fits(r, &r->m->weights.items[i]);
    for (uint32_t i = 0; ok && i < v->n_layers; i++) {
        static const char *const names[] = {"q", "k", "v", "o", "up", "gate", "down"};
        for (size_t k = 0; ok && k < 7; k++) {
            char name[32];
            snprintf(name, sizeof name, "v.L%u.%s", i, names[k]);
            const dop_weight *w = find_own_weight(r, name);
            if (!w && k == 5)
                continue;
            v->ffn = k == 4 && i == 0 && w ? w->rows : v->ffn;
            const uint32_t outs = k < 3 ? all : k == 4 || k == 5 ? v->ffn : v->hidden;
            ok = w && w->rows == outs && w->cols == (k == 3 ? all : k == 6 ? v->ffn : v->hidden);
        }
    }
    return ok ? check_alike(r)
              : DOP_FAIL_IN(r->diag, DOP_E_INPUT, r->files->path,
                            "the tensors of the vision part have other shapes than %s says", r->files->facts);
}

/* Appends rows of zeros to a matrix. */
static dop_status
append_zero_rows(const reader *r, dop_weight *w, uint32_t more)
{
    uint64_t bytes;
    dop_weight *zeros = dop_arena_alloc(r->arena, sizeof *zeros);
    const uint8_t *data = dop_type_row_bytes(w->type, w->cols, &bytes) ? dop_arena_alloc(r->arena, more * bytes) : NULL;
    if (!zeros || !data)
        return DOP_NO_MEMORY(r->diag);
    *zeros = (dop_weight){.name = w->name,
                          .type = w->type,
                          .rank = 2,
                          .rows = more,
                          .cols = w->cols,
                          .data = data,
                          .row_stride = bytes,
                          .source = w->source};
    w->below = zeros;
    w->own_rows = w->rows;
    w->rows += more;
    return DOP_OK;
}

/* Appends zeros to each row. */
static dop_status
append_zero_columns(const reader *r, dop_weight *w, uint32_t more)
{
    uint64_t had, has;
    uint8_t *to = dop_type_row_bytes(w->type, w->cols, &had) && dop_type_row_bytes(w->type, w->cols + more, &has)
                      ? dop_arena_alloc(r->arena, w->rows * has)
                      : NULL;
    if (!to)
        return DOP_NO_MEMORY(r->diag);
    for (uint64_t i = 0; i < w->rows; i++)
        memcpy(to + i * has, w->data + i * w->row_stride, had);
    w->data = to;
    w->row_stride = has;
    w->cols += more;
    return DOP_OK;
}

/* Pads the feed-forward width with zeros to a size that matrix units support: Qwen2.5-VL has 3420. */
static dop_status
settle_ffn(reader *r)
{
    static const char *const roles[] = {"gate", "up", "gate_bias", "up_bias", "down"};
    enum { UNIT = 8, MATRICES = 2, N = 5 };
    dop_vision *const v = &r->m->facts;
    const uint32_t more = (UNIT - v->ffn % UNIT) % UNIT;
    dop_weight *w;
    char name[32];
    for (uint32_t i = 0; i < v->n_layers; i++) {
        snprintf(name, sizeof name, "v.L%u.down", i);
        w = find_own_weight(r, name);
        if (more == 0 || w->col_stride || dop_type_of(w->type)->block > 1)
            return DOP_OK;
    }
    for (uint32_t i = 0; i < N * v->n_layers; i++) {
        snprintf(name, sizeof name, "v.L%u.%s", i / N, roles[i % N]);
        if ((w = find_own_weight(r, name)))
            DOP_RETURN_IF_ERROR(i % N < MATRICES ? append_zero_rows(r, w, more) : append_zero_columns(r, w, more));
    }
    v->ffn += more;
    return DOP_OK;
}

dop_status
dop_tower_weights(const dop_tower_files *files, dop_vision_model *m)
{
    reader r = {.files = files, .arena = files->arena, .diag = files->diag, .m = m};
    const dop_vision *v = &m->facts;
    bool behind = false; /* `i` is past the tower's tensors */
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++) {
        const char *const role = tensors[i].role;
        const bool deep = strncmp(role, "D#", 2) == 0;
        behind = behind || strcmp(role, "row_norm") == 0;
        if (files->no_post_norm && strcmp(role, "post_norm") == 0)
            continue;
        const uint32_t n = strncmp(role, "L#", 2) == 0 ? v->n_layers : deep ? v->n_deep : 1;
        for (uint32_t k = 0; k < n; k++) {
            bool found;
            const uint32_t in_file = deep && files->deep_by_layer ? v->deep[k] : k;
            DOP_RETURN_IF_ERROR(
                read_tower_tensor(&r, behind ? files->after : files->tower, &tensors[i], k, in_file, &found));
            if (!found && tensors[i].needed)
                return DOP_FAIL_IN(files->diag, DOP_E_INPUT, files->path, "the vision part has no tensor %s", role);
        }
    }
    DOP_RETURN_IF_ERROR(dop_weights_seal(&m->weights, files->diag));
    DOP_RETURN_IF_ERROR(settle_places(&r));
    DOP_RETURN_IF_ERROR(settle_patches(&r));
    DOP_RETURN_IF_ERROR(settle_unfolded(&r));
    DOP_RETURN_IF_ERROR(settle_halves(&r));
    DOP_RETURN_IF_ERROR(check_tower_shapes(&r));
    return settle_ffn(&r);
}
