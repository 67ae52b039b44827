/* The vision part of a Hugging Face directory as the file (mmproj) that llama.cpp's converter makes of it.  Facts: conversion/ and
 * gguf-py/gguf/tensor_mapping.py of its repository. */
#include "tests/unit/hf_to_gguf.h"
#include "tests/unit/hf_to_gguf_parts.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A model with a vision part, by its model_type: the key clip.projector_type, the activation's flag, and tokens that stand for pictures, and
 * before and behind them. */
typedef struct vision_row {
    const char *model_type, *projector, *act, *image, *begin, *end;
} vision_row;

static const vision_row models[] = {
    {"gemma3", "gemma3", "clip.use_gelu", "<image_soft_token>", "<start_of_image>", "<end_of_image>"},
    {"gemma4", "gemma4v", NULL, "<|image|>", "<|image>", "<image|>"},
    {"smolvlm", "idefics3", "clip.use_gelu", "<image>", "<fake_token_around_image>", "<global-img>"},
    {"internvl", "internvl", "clip.use_gelu", "<IMG_CONTEXT>", "<img>", "</img>"},
    {"lfm2_vl", "lfm2", "clip.use_gelu", "<image>", "<|image_start|>", "<|image_end|>"},
    {"llava", "mlp", NULL, "<image>", NULL, NULL},
    {"mistral3", "pixtral", "clip.use_gelu", "[IMG]", "[IMG_BREAK]", "[IMG_END]"},
    {"qwen2_vl", "qwen2vl_merger", NULL, "<|image_pad|>", "<|vision_start|>", "<|vision_end|>"},
    {"qwen2_5_vl", "qwen2.5vl_merger", "clip.use_silu", "<|image_pad|>", "<|vision_start|>", "<|vision_end|>"},
    {"qwen3_vl", "qwen3vl_merger", "clip.use_gelu", "<|image_pad|>", "<|vision_start|>", "<|vision_end|>"},
    {"qwen3_vl_moe", "qwen3vl_merger", "clip.use_gelu", "<|image_pad|>", "<|vision_start|>", "<|vision_end|>"},
    {"qwen3_5", "qwen3vl_merger", "clip.use_gelu", "<|image_pad|>", "<|vision_start|>", "<|vision_end|>"},
};

/* A tensor's name without the tower's prefix and ending, with '#' for the layer; and what the file calls it. */
static const char *const names[][2] = {
    {"embeddings.patch_embedding", "v.patch_embd"},
    {"embeddings.patch_embeddings.projection", "v.patch_embd"},
    {"patch_conv", "v.patch_embd"},
    {"patch_embed.proj", "v.patch_embd"},
    {"embeddings.class_embedding", "v.class_embd"},
    {"embeddings.cls_token", "v.class_embd"},
    {"embeddings.position_embedding", "v.position_embd"},
    {"embeddings.position_embeddings", "v.position_embd.weight"},
    {"pos_embed", "v.position_embd"},
    {"pre_layrnorm", "v.pre_ln"},
    {"ln_pre", "v.pre_ln"},
    {"post_layernorm", "v.post_ln"},
    {"merger.ln_q", "v.post_ln"},
    {"merger.norm", "v.post_ln"},
    {"merger.mlp.0", "mm.0"},
    {"merger.mlp.2", "mm.2"},
    {"merger.linear_fc1", "mm.0"},
    {"merger.linear_fc2", "mm.2"},
    {"deepstack_merger_list.#.norm", "v.deepstack.#.norm"},
    {"deepstack_merger_list.#.linear_fc1", "v.deepstack.#.fc1"},
    {"deepstack_merger_list.#.linear_fc2", "v.deepstack.#.fc2"},
    {"mm_soft_emb_norm", "mm.soft_emb_norm"},
    {"mm_input_projection_weight", "mm.input_projection.weight"},
    {"norm", "mm.input_norm"},
    {"patch_merger.merging_layer", "mm.patch_merger"},
    {"proj", "mm.model.fc"},
    {"patch_embedder.input_proj", "v.patch_embd"},
    {"patch_embedder.position_embedding_table", "v.position_embd.weight"},
    {"std_bias", "v.std_bias"},
    {"std_scale", "v.std_scale"},
    {"embedding_projection", "mm.input_projection"},
};
static const char *const layers[][2] = {
    {"layer_norm1", "ln1"},
    {"layernorm_before", "ln1"},
    {"attention_norm", "ln1"},
    {"norm1", "ln1"},
    {"layer_norm2", "ln2"},
    {"layernorm_after", "ln2"},
    {"ffn_norm", "ln2"},
    {"norm2", "ln2"},
    {"self_attn.q_proj", "attn_q"},
    {"self_attn.k_proj", "attn_k"},
    {"self_attn.v_proj", "attn_v"},
    {"self_attn.out_proj", "attn_out"},
    {"attention.q_proj", "attn_q"},
    {"attention.k_proj", "attn_k"},
    {"attention.v_proj", "attn_v"},
    {"attention.o_proj", "attn_out"},
    {"attention.projection_layer", "attn_out"},
    {"attn.qkv", "attn_qkv"},
    {"attn.proj", "attn_out"},
    {"mlp.fc1", "ffn_up"},
    {"mlp.fc2", "ffn_down"},
    {"mlp.linear_fc1", "ffn_up"},
    {"mlp.linear_fc2", "ffn_down"},
    {"mlp.up_proj", "ffn_up"},
    {"mlp.gate_proj", "ffn_gate"},
    {"mlp.down_proj", "ffn_down"},
    {"feed_forward.up_proj", "ffn_up"},
    {"feed_forward.gate_proj", "ffn_gate"},
    {"feed_forward.down_proj", "ffn_down"},
    {"input_layernorm", "ln1"},
    {"pre_feedforward_layernorm", "ln2"},
    {"post_attention_layernorm", "attn_post_norm"},
    {"post_feedforward_layernorm", "ffn_post_norm"},
    {"self_attn.q_norm", "attn_q_norm"},
    {"self_attn.k_norm", "attn_k_norm"},
    {"self_attn.o_proj", "attn_out"},
    {"lambda_1", "ls1.weight"},
    {"lambda_2", "ls2.weight"},
};

/* The projectors of two linear layers: what the first and the second are called, and the norm before them. */
static const char *const linear[][4] = {
    {"mlp", "mm.0", "mm.2", NULL},
    {"pixtral", "mm.1", "mm.2", NULL},
    {"lfm2", "mm.1", "mm.2", "mm.input_norm"},
    {"internvl", "mm.model.mlp.1", "mm.model.mlp.3", "mm.model.mlp.0"},
};

static const char *const towers[] = {"model.vision_tower.vision_model.",
                                     "vision_tower.vision_model.",
                                     "model.vision_tower.",
                                     "vision_tower.",
                                     "model.vision_model.",
                                     "model.visual.",
                                     "visual.",
                                     "model.multi_modal_projector.",
                                     "multi_modal_projector.",
                                     "model.connector.modality_projection.",
                                     "model.embed_vision."};

static const char *
below(const char *name)
{
    for (size_t i = 0; i < sizeof towers / sizeof *towers; i++)
        if (strncmp(name, towers[i], strlen(towers[i])) == 0)
            return name + strlen(towers[i]);
    return NULL;
}

bool
hg_is_of_tower(const char *name)
{
    return below(name) != NULL;
}

static const vision_row *
row_of(const hg_model *m)
{
    const char *type = json_string_value(json_object_get(m->root, "model_type"));
    for (size_t i = 0; type && i < sizeof models / sizeof *models; i++)
        if (strcmp(models[i].model_type, type) == 0)
            return &models[i];
    return NULL;
}

const char *
hg_picture_token(const hg_model *m, unsigned id)
{
    const vision_row *row = row_of(m);
    const json_t *image = json_object_get(m->root, "image_token_id");
    if (!image)
        image = json_object_get(m->root, "image_token_index");
    if (!row || !image)
        return NULL;
    const unsigned at = (unsigned)json_integer_value(image);
    return id == at ? row->image : id + 2 == at ? row->begin : id + 1 == at ? row->end : NULL;
}

/* ---- metadata ------------------------------------------------------------------------------------------------------- */

/* A number of vision_config, by the first key that is there; of a list its first number. */
static double
number(const json_t *vision, const char *const *keys, double otherwise)
{
    for (; *keys; keys++) {
        const json_t *v = json_object_get(vision, *keys);
        v = json_is_array(v) ? json_array_get(v, 0) : v;
        if (json_is_number(v))
            return json_number_value(v);
    }
    return otherwise;
}
#define OF(vision, otherwise, ...) number(vision, (const char *const[]){__VA_ARGS__, NULL}, otherwise)

static void
three(gguf_writer *w, const char *key, const json_t *list)
{
    gguf_array(w, key, 6, 3);
    for (size_t i = 0; i < 3; i++) {
        const float v = (float)json_number_value(json_array_get(list, i));
        dop_buf_append(&w->kvs, &v, sizeof v);
    }
}

/* How many layers the file has: of LLaVA's those up to the one whose result is used. */
static uint32_t
n_layers(const hg_model *m, const json_t *vision)
{
    const uint32_t n = (uint32_t)OF(vision, 0, "depth", "num_hidden_layers");
    return strcmp(row_of(m)->projector, "mlp") == 0 ? n - 1 : n;
}

static void
put_metadata(const hg_model *m, const json_t *vision, const json_t *pictures)
{
    gguf_writer *w = m->w;
    const vision_row *row = row_of(m);
    const json_t *size = json_object_get(pictures, "size"), *full = json_object_get(vision, "fullatt_block_indexes"),
                 *deep = json_object_get(vision, "deepstack_visual_indexes");
    const double patch = OF(vision, 14, "patch_size");
    const double positions = OF(vision, 0, "num_position_embeddings");
    const bool qwen = strncmp(row->projector, "qwen", 4) == 0;
    gguf_str(w, "general.architecture", "clip");
    gguf_str(w, "general.type", "mmproj");
    gguf_bool(w, "clip.has_vision_encoder", true);
    gguf_str(w, "clip.projector_type", row->projector);
    gguf_u32(w, "clip.vision.projection_dim", m->hidden);
    gguf_u32(w, "clip.vision.image_size",
             (uint32_t)OF(vision, positions > 0 ? sqrt(positions) * patch : 560, "image_size"));
    gguf_u32(w, "clip.vision.patch_size", (uint32_t)patch);
    gguf_u32(w, "clip.vision.embedding_length", (uint32_t)OF(vision, 0, "embed_dim", "hidden_size"));
    gguf_u32(w, "clip.vision.feed_forward_length", (uint32_t)OF(vision, 0, "intermediate_size"));
    gguf_u32(w, "clip.vision.block_count", n_layers(m, vision));
    gguf_u32(w, "clip.vision.attention.head_count", (uint32_t)OF(vision, 0, "num_heads", "num_attention_heads"));
    gguf_f32(w, "clip.vision.attention.layer_norm_epsilon",
             OF(vision, strcmp(row->projector, "pixtral") == 0 ? 1e-5 : 1e-6, "layer_norm_eps"));
    three(w, "clip.vision.image_mean", json_object_get(pictures, "image_mean"));
    three(w, "clip.vision.image_std", json_object_get(pictures, "image_std"));
    if (row->act)
        gguf_bool(w, row->act, true);
    if (strcmp(row->projector, "idefics3") == 0) {
        gguf_u32(w, "clip.vision.projector.scale_factor", (uint32_t)OF(m->root, 2, "scale_factor"));
        gguf_u32(w, "clip.vision.preproc_image_size", (uint32_t)OF(size, 0, "longest_edge"));
    } else if (strcmp(row->projector, "internvl") == 0) {
        gguf_u32(w, "clip.vision.projector.scale_factor", (uint32_t)(1 / OF(m->root, 0.5, "downsample_ratio")));
    } else if (strcmp(row->projector, "gemma3") == 0) {
        const double edge = sqrt(OF(m->root, 256, "mm_tokens_per_image"));
        gguf_u32(w, "clip.vision.projector.scale_factor", (uint32_t)(OF(vision, 0, "image_size") / patch / edge));
    } else if (strcmp(row->projector, "pixtral") == 0) {
        gguf_u32(w, "clip.vision.spatial_merge_size", (uint32_t)OF(m->root, 1, "spatial_merge_size"));
    } else if (qwen) {
        gguf_u32(w, "clip.vision.spatial_merge_size", (uint32_t)OF(vision, 2, "spatial_merge_size"));
        gguf_u32(w, "clip.vision.image_min_pixels", (uint32_t)OF(size, 0, "shortest_edge"));
        gguf_u32(w, "clip.vision.image_max_pixels", (uint32_t)OF(size, 0, "longest_edge"));
    }
    if (strcmp(row->projector, "lfm2") == 0) {
        gguf_u32(w, "clip.vision.projector.scale_factor", (uint32_t)OF(m->root, 2, "downsample_factor"));
        gguf_u32(w, "clip.vision.image_min_pixels",
                 (uint32_t)(OF(pictures, 64, "min_image_tokens") * 4 * patch * patch));
        gguf_u32(w, "clip.vision.image_max_pixels",
                 (uint32_t)(OF(pictures, 256, "max_image_tokens") * 4 * patch * patch));
    }
    if (strcmp(row->projector, "gemma4v") == 0)
        gguf_u32(w, "clip.vision.image_max_pixels",
                 (uint32_t)(OF(pictures, 280, "max_soft_tokens") * 9 * patch * patch));
    if (full) {
        gguf_u32(w, "clip.vision.n_wa_pattern", (uint32_t)json_integer_value(json_array_get(full, 0)) + 1);
        gguf_u32(w, "clip.vision.window_size", (uint32_t)OF(vision, 112, "window_size"));
    }
    if (deep) {
        const uint32_t n = n_layers(m, vision);
        gguf_array(w, "clip.vision.is_deepstack_layers", 7, n);
        for (uint32_t i = 0; i < n; i++) {
            uint8_t yes = 0;
            for (size_t k = 0; k < json_array_size(deep); k++)
                yes |= json_integer_value(json_array_get(deep, k)) == i;
            dop_buf_append(&w->kvs, &yes, 1);
        }
    }
}

/* ---- tensors -------------------------------------------------------------------------------------------------------- */

static const char *
lookup(const char *const (*list)[2], size_t n, const char *stem)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(list[i][0], stem) == 0)
            return list[i][1];
    return NULL;
}

/* What the file calls the tensor below the prefix, without ending; *out_layer: a number in its place. */
static const char *
renamed(const hg_model *m, const char *stem, char *text, size_t size, long *out_layer)
{
    static const char *const lists[] = {"encoder.layers.", "encoder.layer.", "transformer.layers.", "blocks.",
                                        "deepstack_merger_list."};
    const vision_row *row = row_of(m);
    char *end;
    *out_layer = -1;
    for (size_t i = 0; i < sizeof linear / sizeof *linear; i++) {
        static const char *const parts[] = {NULL, "linear_1", "linear_2", "layer_norm"};
        for (size_t k = 1; k < 4 && strcmp(linear[i][0], row->projector) == 0; k++)
            if (strcmp(stem, parts[k]) == 0)
                return linear[i][k];
    }
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        if (strncmp(stem, lists[i], strlen(lists[i])) == 0) {
            *out_layer = strtol(stem + strlen(lists[i]), &end, 10);
            if (i + 1 < sizeof lists / sizeof *lists) {
                const char *part = lookup(layers, sizeof layers / sizeof *layers, end + 1);
                snprintf(text, size, "v.blk.%ld.%s", *out_layer, part ? part : "?");
                return part ? text : NULL;
            }
            char with[96];
            snprintf(with, sizeof with, "%s#%s", lists[i], end);
            const char *to = lookup(names, sizeof names / sizeof *names, with), *rest = to ? strchr(to, '#') : NULL;
            const json_t *deep = json_object_get(json_object_get(m->root, "vision_config"), "deepstack_visual_indexes");
            if (rest)
                snprintf(text, size, "%.*s%lld%s", (int)(rest - to), to,
                         json_integer_value(json_array_get(deep, (size_t)*out_layer)), rest + 1);
            *out_layer = -1;
            return rest ? text : NULL;
        }
    return lookup(names, sizeof names / sizeof *names, stem);
}

static void
put(const hg_model *m, const char *name, const hg_tensor *t, const float *v)
{
    const bool bf16 = strcmp(t->dtype, "BF16") == 0 && t->rank > 1 && !strstr(name, "position_embd");
    hg_tensor flat = *t;
    if (t->rank == 0)
        flat.shape[flat.rank++] = 1;
    if (t->rank == 3 && flat.shape[0] == 1) { /* position_embeddings [1, n, hidden], cls_token [1, 1, hidden] */
        flat.rank = flat.shape[1] == 1 ? 1 : 2;
        flat.shape[0] = flat.rank == 1 ? flat.shape[2] : flat.shape[1];
        flat.shape[1] = flat.shape[2];
    }
    gguf_tensor(m->w, name, bf16 ? GGUF_BF16 : GGUF_F32, flat.rank, flat.shape, v);
}

/* Qwen's patches of two frames: [hidden, 3, 2, patch, patch] becomes two tensors. */
static void
put_frames(const hg_model *m, hg_tensor t, const float *v)
{
    const uint64_t each = t.shape[3] * t.shape[4], n = t.count / each / 2;
    float *half = malloc(n * each * sizeof *half);
    t.shape[2] = t.shape[3];
    t.shape[3] = t.shape[4];
    t.rank = 4;
    for (uint64_t frame = 0; frame < 2; frame++) {
        for (uint64_t i = 0; i < n; i++)
            memcpy(half + i * each, v + (2 * i + frame) * each, each * sizeof *half);
        put(m, frame ? "v.patch_embd.weight.1" : "v.patch_embd.weight", &t, half);
    }
    free(half);
}

static void
put_thirds(const hg_model *m, const char *ending, long layer, hg_tensor t, const float *v)
{
    const uint64_t each = t.count / 3;
    t.shape[0] /= 3;
    for (size_t k = 0; k < 3; k++) {
        char name[96];
        snprintf(name, sizeof name, "v.blk.%ld.attn_%c%s", layer, "qkv"[k], ending);
        put(m, name, &t, v + k * each);
    }
}

static void
pairs(const json_t *vision, const hg_tensor *t, float *v)
{
    const uint64_t rows = t->shape[0], d = rows / (uint64_t)OF(vision, 1, "num_attention_heads");
    uint64_t *from = malloc(rows * sizeof *from);
    for (uint64_t r = 0; r < rows; r++)
        from[r] = r / d * d + r % 2 * (d / 2) + r % d / 2;
    hg_reorder(v, from, rows, t->count / rows);
    free(from);
}

/* LFM2-VL's patch projection [hidden, patch * patch * 3] becomes a convolution [hidden, 3, patch, patch]. */
static void
put_patches(const hg_model *m, hg_tensor t, const float *v)
{
    const uint64_t cols = t.shape[1], edge = (uint64_t)lround(sqrt((double)cols / 3));
    float *turned = malloc(t.count * sizeof *turned);
    for (uint64_t i = 0; i < t.count; i++)
        turned[i / cols * cols + i % cols % 3 * (cols / 3) + i % cols / 3] = v[i];
    t.rank = 4;
    t.shape[1] = 3;
    t.shape[2] = t.shape[3] = edge;
    put(m, "v.patch_embd.weight", &t, turned);
    free(turned);
}

static bool
convert(const hg_model *m, const json_t *vision, const char *hf)
{
    const vision_row *row = row_of(m);
    const char *name = below(hf), *dot = strrchr(hf, '.');
    static const char *const endings[] = {".weight", ".bias", ".input_min", ".input_max", ".output_min", ".output_max"};
    const char *ending = "";
    for (size_t i = 0; dot && i < sizeof endings / sizeof *endings; i++)
        ending = strcmp(dot, endings[i]) == 0 ? dot : ending;
    char stem[128], text[128], full[160];
    long layer;
    hg_tensor t;
    const bool unused = strcmp(row->projector, "mlp") == 0 && name && strncmp(name, "post_layernorm", 14) == 0;
    if (!name || unused)
        return true;
    snprintf(stem, sizeof stem, "%.*s", (int)(strlen(name) - strlen(ending)), name);
    char *inner = strstr(stem, ".linear"); /* of Gemma 4's products */
    if (inner && inner[7] == 0)
        *inner = 0;
    const char *to = renamed(m, stem, text, sizeof text, &layer);
    if (layer >= (long)n_layers(m, vision))
        return true;
    float *v = to && hg_find(m, hf, &t) ? hg_values(&t) : NULL;
    if (!v) {
        snprintf(m->error, m->error_size, "no rule for tensor: %s", hf);
        return false;
    }
    snprintf(full, sizeof full, "%s%s", to, ending);
    if (strcmp(row->projector, "gemma3") == 0 && strcmp(to, "mm.soft_emb_norm") == 0)
        for (uint64_t i = 0; i < t.count; i++)
            v[i] += 1;
    if (strcmp(row->projector, "pixtral") == 0 && (strstr(to, "attn_q") || strstr(to, "attn_k")))
        pairs(vision, &t, v);
    if (strncmp(row->projector, "qwen2", 5) == 0 && strstr(to, "attn_qkv"))
        put_thirds(m, ending, layer, t, v);
    else if (strcmp(full, "v.patch_embd.weight") == 0 && t.rank == 2)
        put_patches(m, t, v);
    else if (t.rank == 5)
        put_frames(m, t, v);
    else
        put(m, full, &t, v);
    free(v);
    return true;
}

bool
hf_to_mmproj(const char *dir, gguf_writer *w, char *error, size_t size)
{
    hg_model m = {.w = w, .error = error, .error_size = size};
    char path[1200];
    json_error_t err;
    const char *name;
    json_t *entry;
    bool ok = hg_open(&m, dir);
    snprintf(path, sizeof path, "%s/preprocessor_config.json", dir);
    json_t *pictures = json_load_file(path, 0, &err);
    if (!pictures) {
        snprintf(path, sizeof path, "%s/processor_config.json", dir);
        json_t *processor = json_load_file(path, 0, &err);
        pictures = json_incref(json_object_get(processor, "image_processor"));
        json_decref(processor);
    }
    const json_t *vision = json_object_get(m.root, "vision_config");
    if (ok && (!pictures || !row_of(&m))) {
        snprintf(error, size, "%s: no vision part that is known", dir);
        ok = false;
    }
    if (ok) {
        m.hidden = (uint32_t)hg_number(&m, "hidden_size", 0);
        put_metadata(&m, vision, pictures);
        json_object_foreach(m.header, name, entry) ok = ok && convert(&m, vision, name);
    }
    json_decref(pictures);
    hg_close(&m);
    if (!ok)
        gguf_finish(w);
    return ok;
}
