#include "frontend/hf/vision.h"
#include "frontend/facts/names.h"
#include "frontend/vision/tower.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct reader {
    const dop_json *config;
    dop_json vision;
    const dop_st_set *set;
    const dop_tower_kind *kind;
    const dop_projector_kind *row;
    const char *tower, *after; /* prefixes of the tensor names of tower and projector */
    dop_arena *arena;
    dop_diag *diag;
    dop_vision_model *m;
} reader;

/* ---- facts ---------------------------------------------------------------------------------------------------------- */

static dop_status
read_act(const reader *r, const dop_json *j, const char *key, dop_act_kind otherwise, dop_act_kind *out)
{
    const char *name = NULL;
    dop_status st = dop_json_str_or(j, key, NULL, &name);
    *out = otherwise;
    if (st != DOP_OK || !name ||
        (dop_act_by_name(name, out) && *out != DOP_ACT_XIELU)) /* XIELU is not supported, because it has weights */
        return st;
    return DOP_FAIL_IN(r->diag, DOP_E_INPUT, j->path, "%s%s \"%.40s\" is not supported", j->where, key, name);
}

/* Reads the layer whose result is used, the layers with windows, and the layers with additional features. */
static dop_status
read_hf_vision_layers(reader *r)
{
    dop_vision *const v = &r->m->facts;
    const dop_json *const j = &r->vision;
    const json_t *layer = dop_json_get(r->config, "vision_feature_layer");
    dop_status st = dop_json_u32_or(j, dop_json_has(j, "depth") ? "depth" : "num_hidden_layers", 1,
                                    DOP_VISION_MAX_LAYERS, r->kind->layers, &v->n_layers);
    if (st != DOP_OK)
        return st;
    /* -1: the last layer's result, -2: the previous one's; 0: the input of the first layer */
    if (layer || r->row->layer) {
        const json_int_t n = !layer ? r->row->layer : json_is_integer(layer) ? json_integer_value(layer) : INT32_MAX;
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
read_vision_merge(reader *r)
{
    dop_vision *const v = &r->m->facts;
    double ratio = 0;
    dop_status st = DOP_OK;
    DOP_TRY(
        dop_json_u32_or(r->config, "scale_factor", 1, 64, r->row->merge ? r->row->merge : r->kind->merge, &v->merge));
    DOP_TRY(dop_json_u32_or(r->config, "downsample_factor", 1, 64, v->merge, &v->merge));
    DOP_TRY(dop_json_u32_or(r->config, "spatial_merge_size", 1, 64, v->merge, &v->merge));
    DOP_TRY(dop_json_u32_or(&r->vision, "spatial_merge_size", 1, 64, v->merge, &v->merge));
    DOP_TRY(dop_json_u32_or(&r->vision, "pooling_kernel_size", 1, 64, v->merge, &v->merge));
    DOP_TRY(dop_json_f64_or(r->config, "downsample_ratio", 1.0 / 64, 1, 0, &ratio));
error:
    if (ratio > 0)
        v->merge = (uint32_t)lround(1 / ratio);
    return st;
}

static bool
is_valid_merge(uint32_t merge)
{
    return merge >= 1 && merge <= DOP_TOWER_MAX_MERGE;
}

/* Gemma 3: computes `merge` from the number of features of a picture, which is a square. */
static dop_status
read_pool(reader *r, uint32_t patch)
{
    dop_vision *const v = &r->m->facts;
    uint32_t tokens = 0, image = 0;
    dop_status st = dop_json_u32_or(r->config, "mm_tokens_per_image", 1, 1 << 20, 256, &tokens);
    if (st == DOP_OK)
        st = dop_json_u32_or(&r->vision, "image_size", 1, 1 << 15, 224, &image);
    const uint32_t edge = (uint32_t)lround(sqrt(tokens));
    if (st == DOP_OK && (edge * edge != tokens || image / patch % edge != 0 || !is_valid_merge(image / patch / edge)))
        return DOP_FAIL_IN(r->diag, DOP_E_INPUT, r->config->path, "mm_tokens_per_image %u does not divide %u patches",
                           tokens, image / patch);
    v->merge = st == DOP_OK ? image / patch / edge : 1;
    return st;
}

static dop_status
read_first_number(const dop_json *j, const char *key, uint32_t otherwise, uint32_t *out)
{
    const json_t *v = dop_json_get(j, key);
    if (!json_is_array(v))
        return dop_json_u32_or(j, key, 1, DOP_TOWER_MAX_PATCH, otherwise, out);
    const json_int_t n = json_integer_value(json_array_get(v, 0));
    if (n < 1 || n > DOP_TOWER_MAX_PATCH)
        return DOP_FAIL_IN(j->diag, DOP_E_INPUT, j->path, "%s%s is out of range", j->where, key);
    *out = (uint32_t)n;
    return DOP_OK;
}

/* Gemma 4: reads whether picture rows attend to each other (larger models only), and the token whose per-layer inputs they
 * use. */
static dop_status
read_sight(reader *r, const dop_json *text)
{
    const json_t *sight = dop_json_get(text, "use_bidirectional_attention");
    r->m->facts.sees_all = json_is_string(sight) && strcmp(json_string_value(sight), "vision") == 0;
    return dop_json_u32_or(text, "pad_token_id", 0, INT32_MAX, 0, &r->m->facts.pad);
}

static dop_status
read_hf_vision_facts(reader *r)
{
    dop_vision *const v = &r->m->facts;
    const dop_json *const j = &r->vision;
    dop_json text = {0}, rope = {0};
    uint32_t patch = 0, frames = 1;
    DOP_RETURN_IF_ERROR(dop_json_u32_or(j, dop_json_has(j, "embed_dim") ? "embed_dim" : "hidden_size", 1, 1 << 16,
                                        r->kind->hidden, &v->hidden));
    DOP_RETURN_IF_ERROR(dop_json_u32_or(j, dop_json_has(j, "num_heads") ? "num_heads" : "num_attention_heads", 1,
                                        1 << 10, r->kind->heads, &v->heads));
    DOP_RETURN_IF_ERROR(dop_json_u32_or(j, "head_dim", 1, 1 << 12, v->hidden / v->heads, &v->head_dim));
    DOP_RETURN_IF_ERROR(read_first_number(j, "patch_size", r->kind->patch, &patch));
    DOP_RETURN_IF_ERROR(dop_json_u32_or(j, "temporal_patch_size", 1, 16, r->kind->frames, &frames));
    DOP_RETURN_IF_ERROR(dop_json_f64_or(j, dop_json_has(j, "rms_norm_eps") ? "rms_norm_eps" : "layer_norm_eps", 0, 1,
                                        r->kind->eps, &v->eps));
    DOP_RETURN_IF_ERROR(read_act(r, j, dop_json_has(j, "hidden_activation") ? "hidden_activation" : "hidden_act",
                                 r->kind->act, &v->act));
    DOP_RETURN_IF_ERROR(read_act(r, r->config, "projector_hidden_act", r->row->merge_act, &v->merge_act));
    DOP_RETURN_IF_ERROR(dop_json_sub(r->config, "text_config", &text));
    DOP_RETURN_IF_ERROR(dop_json_f64_or(&text, "rms_norm_eps", 0, 1, 1e-5, &v->merge_eps));
    DOP_RETURN_IF_ERROR(dop_json_sub(j, "rope_parameters", &rope));
    DOP_RETURN_IF_ERROR(dop_json_f64_or(rope.object ? &rope : j, "rope_theta", 1, 1e12,
                                        r->kind->theta > 0 ? r->kind->theta : 10000, &v->rope_theta));
    if (r->row->sees_near)
        DOP_RETURN_IF_ERROR(read_sight(r, &text));
    v->row_values = 3 * frames * patch * patch;
    v->rope_theta = r->kind->theta > 0 ? v->rope_theta : 0;
    v->merge_norm_add = r->row->merge_norm_add;
    dop_tower_facts_of(r->kind, r->row, v);
    if (r->row->merge_eps > 0)
        v->merge_eps = r->row->merge_eps;
    else if (r->row->pool)
        v->merge_eps = v->eps;
    if (v->rope_theta > 0 && v->head_dim % 4 != 0)
        return DOP_FAIL_IN(r->diag, DOP_E_INPUT, j->path, "heads of %u values cannot rotate by row and column",
                           v->head_dim);
    DOP_RETURN_IF_ERROR(read_hf_vision_layers(r));
    return r->row->pool && !r->row->root ? read_pool(r, patch) : read_vision_merge(r);
}

/* ---- weights -------------------------------------------------------------------------------------------------------- */

static bool
take_hf_vision_tensor(void *user, const char *name, dop_tower_tensor *out, dop_status *status)
{
    const dop_st_tensor *t = dop_st_take(user, name);
    (void)status;
    if (!t)
        return false;
    const dop_type type = dop_hf_type(t);
    const bool known = type == DOP_TYPE_f32 || type == DOP_TYPE_f16 || type == DOP_TYPE_bf16;
    *out = (dop_tower_tensor){.name = t->name,
                              .file = t->file,
                              .stored = t->dtype,
                              .type = known && t->rank <= DOP_TOWER_MAX_RANK ? type : DOP_TYPE_none,
                              .rank = t->rank,
                              .data = t->data};
    for (uint32_t i = 0; i < t->rank && i < DOP_TOWER_MAX_RANK; i++)
        out->shape[i] = t->shape[i];
    return true;
}

/* Fails for unread tensors of the vision part, except layers after the used one, and SigLIP's pooling head. */
static dop_status
check_hf_vision_leftovers(const reader *r)
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

/* Returns the first prefix for which one of the names, separated by '|', is a tensor. */
static const char *
find_name_prefix(const reader *r, const char *const *prefixes, size_t n, const char *names)
{
    char full[256];
    for (size_t i = 0; i < n; i++)
        for (const char *at = names; *at; at += strcspn(at, "|"), at += *at == '|') {
            snprintf(full, sizeof full, "%s%.*s", prefixes[i], (int)strcspn(at, "|"), at);
            if (dop_st_find(r->set, full))
                return prefixes[i];
        }
    return NULL;
}

static dop_status
read_hf_vision_weights(reader *r)
{
    static const char *const before[] = {
        "vision_tower.",       "vision_tower.vision_model.",       "model.vision_tower.",
        "model.vision_model.", "model.vision_tower.vision_model.", "visual.",
        "model.visual."};
    static const char *const afters[] = {"multi_modal_projector.", "model.multi_modal_projector.",
                                         "model.connector.modality_projection.", "embed_vision.",
                                         "model.embed_vision."};
    static const char patches[] = "embeddings.patch_embedding.weight|embeddings.patch_embeddings.projection.weight|"
                                  "patch_conv.weight|patch_embed.proj.weight|patch_embedder.input_proj.weight";
    r->tower = find_name_prefix(r, before, sizeof before / sizeof *before, patches);
    if (!r->tower)
        return DOP_FAIL_IN(r->diag, DOP_E_INPUT, r->set->path, "the tensors of the vision part are missing");
    r->after = find_name_prefix(r, afters, sizeof afters / sizeof *afters,
                                "linear_1.weight|proj.weight|mm_input_projection_weight|embedding_projection.weight");
    if (!r->after)
        r->after = r->tower;
    bool clipped = true; /* stated by Gemma 4; other towers have no bounds */
    DOP_RETURN_IF_ERROR(dop_json_bool_or(&r->vision, "use_clipped_linears", !r->kind->halves, &clipped));
    const dop_tower_files files = {.user = (void *)(uintptr_t)r->set,
                                   .take = take_hf_vision_tensor,
                                   .names = DOP_TOWER_HF,
                                   .tower = r->tower,
                                   .after = r->after,
                                   .path = r->set->path,
                                   .facts = "config.json",
                                   .no_post_norm = r->row->inner,
                                   .unfolds = r->row->unfolds,
                                   .places = r->kind->places,
                                   .channels_last = r->kind->places == DOP_PLACES_RESAMPLED || r->kind->halves,
                                   .halves = r->kind->halves,
                                   .unclipped = !clipped,
                                   .arena = r->arena,
                                   .diag = r->diag};
    DOP_RETURN_IF_ERROR(dop_tower_weights(&files, r->m));
    return check_hf_vision_leftovers(r);
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
    if (st == DOP_OK)
        r.row = dop_projector_kind_of(type);
    if (st == DOP_OK)
        st = dop_json_str_or(&r.vision, "model_type", type, &tower);
    if (st == DOP_OK)
        r.kind = dop_tower_kind_of(tower);
    if (st != DOP_OK || !r.row || !r.vision.object)
        return st;
    if (!r.kind)
        return DOP_FAIL_IN(diag, DOP_E_INPUT, config->path, "vision_config.model_type \"%.40s\" is not supported",
                           tower);
    st = read_hf_vision_facts(&r);
    if (st == DOP_OK)
        st = read_hf_vision_weights(&r);
    *out_present = st == DOP_OK;
    return st;
}
