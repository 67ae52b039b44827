/* Keys of GGUF files from config.json, as llama.cpp's converter writes them (conversion/base.py, set_gguf_parameters, and
 * the files of the families there). */
#include "tests/unit/hf_to_gguf_parts.h"

#include "base/words.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const json_t *
hg_field(const hg_model *m, const char *key)
{
    const size_t n = strcspn(key, ".");
    char first[64];
    snprintf(first, sizeof first, "%.*s", (int)n, key);
    const json_t *v = json_object_get(m->config, first);
    if (key[n])
        v = json_object_get(v, key + n + 1);
    return json_is_null(v) ? NULL : v;
}

double
hg_first(const hg_model *m, const char *const *keys, double otherwise)
{
    for (; *keys; keys++)
        if (json_is_number(hg_field(m, *keys)))
            return json_number_value(hg_field(m, *keys));
    return otherwise;
}

double
hg_number(const hg_model *m, const char *key, double otherwise)
{
    return NUMBER(m, otherwise, key);
}

void
hg_copy_u32(hg_model *m, const char *from, const char *key)
{
    if (json_is_number(hg_field(m, from)))
        gguf_u32(m->w, key, (uint32_t)json_number_value(hg_field(m, from)));
}

void
hg_copy_f32(hg_model *m, const char *from, const char *key)
{
    if (json_is_number(hg_field(m, from)))
        gguf_f32(m->w, key, json_number_value(hg_field(m, from)));
}

/* ---- rotary ------------------------------------------------------------------------------------------------------- */

/* The parameters of the rotary embedding (of full layers, where there are two); NULL: the old fields hold all. */
static const json_t *
rope_parameters(const hg_model *m)
{
    const json_t *p = hg_field(m, "rope_parameters") ? hg_field(m, "rope_parameters") : hg_field(m, "rope_scaling");
    const json_t *full = json_object_get(p, "full_attention");
    return full ? full : p;
}

static const char *
rope_type(const hg_model *m)
{
    const json_t *p = rope_parameters(m);
    const char *type = json_string_value(json_object_get(p, "rope_type"));
    if (!type)
        type = json_string_value(json_object_get(p, "type"));
    return type ? type : "default";
}

double
hg_rope_number(const hg_model *m, const char *key, double otherwise)
{
    const json_t *v = json_object_get(rope_parameters(m), key);
    return json_is_number(v) ? json_number_value(v) : NUMBER(m, otherwise, key);
}

/* Values of a head of full layers, where they have a size of their own: the config calls it global_head_dim, or lists the
 * layers that differ. */
static uint32_t
full_head_dim(const hg_model *m)
{
    uint32_t full = (uint32_t)NUMBER(m, m->head_dim, "global_head_dim");
    const char *layer;
    json_t *entry;
    json_object_foreach((json_t *)(uintptr_t)hg_field(m, "per_layer_config"), layer, entry)
    {
        const json_t *dim = json_object_get(entry, "head_dim");
        full = json_is_integer(dim) ? (uint32_t)json_integer_value(dim) : full;
    }
    return full;
}

static uint32_t
rope_dims(const hg_model *m)
{
    if (hg_field(m, "rotary_dim") || hg_field(m, "qk_rope_head_dim"))
        return (uint32_t)NUMBER(m, 0, "rotary_dim", "qk_rope_head_dim");
    const double partial = hg_rope_number(m, "partial_rotary_factor", NUMBER(m, 1, "rotary_pct"));
    return strcmp(rope_type(m), "proportional") == 0 ? full_head_dim(m) : (uint32_t)(m->head_dim * partial);
}

static void
rope_metadata(hg_model *m)
{
    const char *type = rope_type(m);
    const double ctx = NUMBER(m, 0, "max_position_embeddings");
    const double original = hg_rope_number(m, "original_max_position_embeddings", ctx);
    const json_t *local = json_object_get(hg_field(m, "rope_parameters"), "sliding_attention");
    const double base = hg_rope_number(m, "rope_theta", NUMBER(m, 1e4, "rotary_emb_base")), d = m->head_dim;
    const bool dynamic = strcmp(type, "dynamic") == 0; /* HunYuan */
    gguf_f32(m->w, "%.rope.freq_base", dynamic ? base * pow(hg_rope_number(m, "alpha", 1), d / (d - 2)) : base);
    if (dynamic)
        gguf_str(m->w, "%.rope.scaling.type", "none");
    gguf_u32(m->w, "%.rope.dimension_count", rope_dims(m));
    if (json_is_number(json_object_get(local, "rope_theta")))
        gguf_f32(m->w, "%.rope.freq_base_swa", json_number_value(json_object_get(local, "rope_theta")));
    else
        hg_copy_f32(m, "rope_local_base_freq", "%.rope.freq_base_swa");
    if (strcmp(type, "linear") == 0) {
        gguf_str(m->w, "%.rope.scaling.type", "linear");
        gguf_f32(m->w, "%.rope.scaling.factor", hg_rope_number(m, "factor", 1));
    } else if (strcmp(type, "yarn") == 0) {
        gguf_str(m->w, "%.rope.scaling.type", "yarn");
        gguf_f32(m->w, "%.rope.scaling.factor", hg_rope_number(m, "factor", 1));
        gguf_u32(m->w, "%.rope.scaling.original_context_length", (uint32_t)original);
    } else if (strcmp(type, "longrope") == 0 || strcmp(type, "su") == 0) {
        gguf_u32(m->w, "%.rope.scaling.original_context_length", (uint32_t)original);
        gguf_f32(m->w, "%.rope.scaling.attn_factor",
                 ctx > original ? sqrt(1 + log(ctx / original) / log(original)) : 1);
    }
}

/* By how much Llama 3's scaling divides each frequency. */
static void
llama3_factors(hg_model *m, uint64_t n, float *out)
{
    const double base = hg_rope_number(m, "rope_theta", 1e4), factor = hg_rope_number(m, "factor", 8);
    const double low = hg_rope_number(m, "low_freq_factor", 1), high = hg_rope_number(m, "high_freq_factor", 4);
    const double old = hg_rope_number(m, "original_max_position_embeddings", 8192);
    for (uint64_t i = 0; i < n; i++) {
        const double wavelength = 2 * 3.14159265358979323846 * pow(base, (double)i / (double)n);
        const double smooth = (old / wavelength - low) / (high - low);
        out[i] = (float)(wavelength < old / high  ? 1
                         : wavelength > old / low ? factor
                                                  : 1 / ((1 - smooth) / factor + smooth));
    }
}

static void
list_tensor(hg_model *m, const char *name, const json_t *list)
{
    const uint64_t n = json_array_size(list);
    float *v = calloc(n ? n : 1, sizeof *v);
    for (size_t i = 0; i < n; i++)
        v[i] = (float)json_number_value(json_array_get(list, i));
    gguf_tensor(m->w, name, GGUF_F32, 1, &n, v);
    free(v);
}

void
hg_extra_tensors(hg_model *m)
{
    const char *type = rope_type(m);
    const uint64_t n = rope_dims(m) / 2;
    float *v = calloc(n ? n : 1, sizeof *v);
    if (strcmp(type, "longrope") == 0 || strcmp(type, "su") == 0) {
        list_tensor(m, "rope_factors_long.weight", json_object_get(rope_parameters(m), "long_factor"));
        list_tensor(m, "rope_factors_short.weight", json_object_get(rope_parameters(m), "short_factor"));
    } else if (strcmp(type, "llama3") == 0) {
        llama3_factors(m, n, v);
        gguf_tensor(m->w, "rope_freqs.weight", GGUF_F32, 1, &n, v);
    } else if (strcmp(type, "proportional") == 0) { /* the last pairs stand still */
        const uint64_t turn = (uint64_t)(full_head_dim(m) * hg_rope_number(m, "partial_rotary_factor", 1) / 2);
        for (uint64_t i = 0; i < n; i++)
            v[i] = i < turn ? 1 : 1e30f;
        gguf_tensor(m->w, "rope_freqs.weight", GGUF_F32, 1, &n, v);
    }
    free(v);
}

/* ---- every family ------------------------------------------------------------------------------------------------- */

static void
norm_metadata(hg_model *m)
{
    const bool rms = m->family->flags & HG_RMS, nemotron = strcmp(m->w->arch, "nemotron") == 0;
    const bool silent = strcmp(m->w->arch, "olmo") == 0 || strcmp(m->w->arch, "dbrx") == 0;
    if (m->family->flags & HG_LAYER_NORM) {
        gguf_f32(m->w, "%.attention.layer_norm_epsilon", NUMBER(m, 0, "norm_eps"));
        return;
    }
    if (rms)
        gguf_f32(m->w, "%.attention.layer_norm_rms_epsilon",
                 NUMBER(m, 0, "layer_norm_epsilon", "rms_norm_eps", "norm_eps"));
    else if (hg_field(m, "rms_norm_eps") || hg_field(m, "norm_eps"))
        gguf_f32(m->w, "%.attention.layer_norm_rms_epsilon", NUMBER(m, 0, "rms_norm_eps", "norm_eps"));
    if (silent)
        gguf_f32(m->w, "%.attention.layer_norm_epsilon", 1e-5);
    if (!rms && !silent &&
        (hg_field(m, "layer_norm_eps") || hg_field(m, "layer_norm_epsilon") || hg_field(m, "norm_epsilon") || nemotron))
        gguf_f32(m->w, "%.attention.layer_norm_epsilon",
                 NUMBER(m, 0, "layer_norm_eps", "layer_norm_epsilon", "norm_epsilon", "norm_eps"));
}

void
hg_metadata(hg_model *m)
{
    gguf_writer *w = m->w;
    const unsigned own = m->family->flags;
    m->layers = (uint32_t)NUMBER(m, (double)json_array_size(hg_field(m, "layers_block_type")), "num_hidden_layers",
                                 "num_layers", "n_layer", "n_layers");
    m->hidden = (uint32_t)NUMBER(m, 0, "hidden_size", "n_embd", "d_model", "dim");
    m->heads = (uint32_t)NUMBER(m, 0, "num_attention_heads", "n_head", "n_heads", "num_heads");
    m->kv_heads = (uint32_t)NUMBER(m, m->heads, "num_key_value_heads", "num_kv_heads", "attn_config.kv_n_heads");
    m->head_dim = (uint32_t)NUMBER(m, m->heads ? m->hidden / m->heads : 0, "head_dim", "d_kv");
    char draft[64];
    snprintf(draft, sizeof draft, "model.layers.%u.eh_proj.weight", m->layers);
    const bool drafts = json_object_get(m->header, draft) || json_object_get(m->header, "mtp.fc.weight") ||
                        json_object_get(m->header, "mtp.layers.0.eh_proj.weight");
    gguf_u32(w, "%.block_count", m->layers + drafts);
    if (drafts)
        gguf_u32(w, "%.nextn_predict_layers", 1);
    gguf_u32(w, "%.context_length",
             (uint32_t)NUMBER(m, 1 << 20, "max_position_embeddings", "n_positions", "max_seq_len", "seq_length",
                              "model_max_length") -
                 (m->family->rules[0] == hg_roberta ? 2u : 0u)); /* positions count from 2 */
    gguf_u32(w, "%.embedding_length", m->hidden);
    if (!(own & HG_OWN_FFN))
        gguf_u32(w, "%.feed_forward_length",
                 (uint32_t)NUMBER(m, m->heads ? 4.0 * m->hidden : 0, "intermediate_size_mlp", "intermediate_size",
                                  "n_inner", "ffn_hidden_size", "ffn_config.ffn_hidden_size", "hidden_dim", "d_ff"));
    if (strcmp(w->arch, "laguna") != 0)
        gguf_u32(w, "%.attention.head_count", m->heads);
    if (!(own & HG_OWN_KV) && (m->kv_heads != m->heads || hg_field(m, "num_key_value_heads")))
        gguf_u32(w, "%.attention.head_count_kv", m->kv_heads);
    norm_metadata(m);
    if (m->heads && !hg_field(m, "n_positions") && !(own & HG_NO_ROPE))
        rope_metadata(m);
    if (m->heads && (hg_field(m, "head_dim") || hg_field(m, "d_kv")) && !(own & HG_OWN_HEADS)) {
        gguf_u32(w, "%.attention.key_length", m->head_dim);
        gguf_u32(w, "%.attention.value_length", m->head_dim);
    }
    if (m->family->metadata)
        m->family->metadata(m);
    hg_copy_u32(m, "vocab_size", "%.vocab_size");
    if (own & HG_OWN_WORDS)
        return;
    hg_tokenizer(m, rope_type(m));
    hg_copy_u32(m, "bos_token_id", "tokenizer.ggml.bos_token_id");
    if (hg_number(m, "pad_token_id", -1) >= 0)
        hg_copy_u32(m, "pad_token_id", "tokenizer.ggml.padding_token_id");
    hg_copy_u32(m, "eos_token_id", "tokenizer.ggml.eos_token_id");
}

/* ---- single families ---------------------------------------------------------------------------------------------- */

/* Multimodal rotary embedding: pairs for each of a row's three positions. */
void
hg_sections(hg_model *m)
{
    const json_t *list = json_object_get(hg_field(m, "rope_parameters"), "mrope_section");
    gguf_array(m->w, "%.rope.dimension_sections", 5, 4);
    for (size_t i = 0; i < 4; i++)
        gguf_put_u32(&m->w->kvs, (uint32_t)json_integer_value(json_array_get(list, i)));
    if (hg_field(m, "num_experts_per_tok"))
        hg_experts(m);
}

void
hg_window(hg_model *m)
{
    hg_copy_u32(m, "sliding_window", "%.attention.sliding_window");
}

void
hg_window_flags(hg_model *m)
{
    const json_t *types = hg_field(m, "layer_types");
    hg_window(m);
    if (!types || !hg_field(m, "sliding_window"))
        return;
    gguf_array(m->w, "%.attention.sliding_window_pattern", 7, json_array_size(types));
    for (size_t i = 0; i < json_array_size(types); i++) {
        const char *type = json_string_value(json_array_get(types, i));
        dop_buf_append(&m->w->kvs, type && strcmp(type, "sliding_attention") == 0 ? "\1" : "\0", 1);
    }
}

/* llama.cpp knows Gemma's pattern and query scale by the number of layers.  The small models have other numbers, and so
 * state what llama.cpp's files of other families state. */
void
hg_gemma(hg_model *m)
{
    const double scalar = NUMBER(m, m->head_dim, "query_pre_attn_scalar");
    hg_window_flags(m);
    hg_copy_f32(m, "attn_logit_softcapping", "%.attn_logit_softcapping");
    hg_copy_f32(m, "final_logit_softcapping", "%.final_logit_softcapping");
    if (scalar != m->head_dim)
        gguf_f32(m->w, "%.attention.scale", 1 / sqrt(scalar));
}

/* Numbers by layer: heads of keys and values, and the width of feed-forward parts, where they are not all the same. */
static void
gemma4_layers(hg_model *m)
{
    const json_t *types = hg_field(m, "layer_types");
    const uint32_t shared = (uint32_t)NUMBER(m, 0, "num_kv_shared_layers"),
                   wide = json_is_true(hg_field(m, "use_double_wide_mlp")) ? 2 : 1;
    const double own = NUMBER(m, 1, "num_key_value_heads");
    const double of_full =
        json_is_true(hg_field(m, "attention_k_eq_v")) ? NUMBER(m, own, "num_global_key_value_heads") : own;
    gguf_array(m->w, "%.attention.head_count_kv", 5, m->layers);
    for (uint32_t i = 0; i < m->layers; i++) {
        const char *type = json_string_value(json_array_get(types, i));
        gguf_put_u32(&m->w->kvs, (uint32_t)(type && strcmp(type, "full_attention") == 0 ? of_full : own));
    }
    gguf_array(m->w, "%.feed_forward_length", 5, m->layers);
    for (uint32_t i = 0; i < m->layers; i++)
        gguf_put_u32(&m->w->kvs, (uint32_t)NUMBER(m, 0, "intermediate_size") * (i + shared >= m->layers ? wide : 1));
}

void
hg_gemma4(hg_model *m)
{
    const uint32_t sliding = m->head_dim, full = full_head_dim(m);
    gemma4_layers(m);
    hg_window_flags(m);
    gguf_u32(m->w, "%.attention.shared_kv_layers", (uint32_t)NUMBER(m, 0, "num_kv_shared_layers"));
    gguf_u32(m->w, "%.embedding_length_per_layer_input", (uint32_t)NUMBER(m, 0, "hidden_size_per_layer_input"));
    gguf_u32(m->w, "%.attention.key_length", full);
    gguf_u32(m->w, "%.attention.value_length", full);
    gguf_u32(m->w, "%.attention.key_length_swa", sliding);
    gguf_u32(m->w, "%.attention.value_length_swa", sliding);
    gguf_u32(m->w, "%.rope.dimension_count_swa", sliding);
    hg_copy_f32(m, "final_logit_softcapping", "%.final_logit_softcapping");
    if (json_is_true(hg_field(m, "enable_moe_block")))
        hg_experts(m);
}

void
hg_granite(hg_model *m)
{
    hg_copy_f32(m, "attention_multiplier", "%.attention.scale");
    hg_copy_f32(m, "embedding_multiplier", "%.embedding_scale");
    hg_copy_f32(m, "residual_multiplier", "%.residual_scale");
    hg_copy_f32(m, "logits_scaling", "%.logit_scale");
}

void
hg_minicpm(hg_model *m)
{
    gguf_f32(m->w, "%.embedding_scale", NUMBER(m, 1, "scale_emb"));
    gguf_f32(m->w, "%.residual_scale", NUMBER(m, 1, "scale_depth") / sqrt(m->layers));
    gguf_f32(m->w, "%.logit_scale", NUMBER(m, 0, "hidden_size") / NUMBER(m, 1, "dim_model_base"));
}

void
hg_bailing(hg_model *m)
{
    hg_experts(m);
    gguf_u32(m->w, "%.expert_gating_func", 2);
    gguf_bool(m->w, "%.expert_weights_norm", true);
    hg_copy_u32(m, "n_group", "%.expert_group_count");
    hg_copy_u32(m, "topk_group", "%.expert_group_used_count");
}

void
hg_parallel(hg_model *m)
{
    const json_t *v = hg_field(m, "use_parallel_residual");
    gguf_bool(m->w, "%.use_parallel_residual", v ? json_is_true(v) : true);
}

void
hg_cohere2(hg_model *m)
{
    hg_copy_f32(m, "logit_scale", "%.logit_scale");
    hg_window(m); /* one full layer in four, which is not stated */
    gguf_str(m->w, "%.rope.scaling.type", "none");
}

/* Three values of each layer's activation become metadata. */
void
hg_apertus(hg_model *m)
{
    static const char *const names[] = {"alpha_p", "alpha_n", "beta", "eps"};
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        char name[96];
        snprintf(name, sizeof name, "xielu.%s", names[k]);
        gguf_array(m->w, name, 6, m->layers);
        for (uint32_t i = 0; i < m->layers; i++) {
            hg_tensor t;
            float *v = NULL, value = 0;
            snprintf(name, sizeof name, "model.layers.%u.mlp.act_fn.%s", i, names[k]);
            if (hg_find(m, name, &t) && (v = hg_values(&t)))
                value = v[0];
            dop_buf_append(&m->w->kvs, &value, sizeof value);
            free(v);
        }
    }
}

/* ---- experts ------------------------------------------------------------------------------------------------------ */

/* The converter's general rules, and what single families add.  Gating functions: 1 softmax, 2 sigmoid. */
void
hg_experts(hg_model *m)
{
    gguf_writer *w = m->w;
    const double width = NUMBER(m, NUMBER(m, 0, "intermediate_size"), "moe_intermediate_size");
    const double shared =
        NUMBER(m, 0, "n_shared_experts", "moe_num_shared_experts", "num_shared_experts", "num_shared_expert");
    const bool ernie = strcmp(w->arch, "ernie4_5-moe") == 0;
    const bool v2 = dop_has_word("deepseek_v2", json_string_value(hg_field(m, "model_type")));
    const bool sigmoid = !v2 && dop_has_word("glm4moe deepseek2 minimax-m2 lfm2moe laguna kimi-linear", w->arch);
    gguf_u32(w, "%.expert_count",
             (uint32_t)NUMBER(m, 0, "num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts",
                              "ffn_config.moe_num_experts"));
    gguf_u32(w, "%.expert_used_count",
             (uint32_t)NUMBER(m, 0, "num_experts_per_tok", "moe_k", "top_k_experts", "moe_topk",
                              "num_experts_per_token", "ffn_config.moe_top_k"));
    gguf_u32(w, "%.expert_feed_forward_length", (uint32_t)width);
    hg_copy_u32(m, "shared_expert_intermediate_size", "%.expert_shared_feed_forward_length");
    hg_copy_u32(m, "first_k_dense_replace", "%.leading_dense_block_count");
    hg_copy_u32(m, "moe_layer_start_index", "%.leading_dense_block_count");
    hg_copy_u32(m, "moe_layer_interval", "%.interleave_moe_layer_step");
    hg_copy_u32(m, "num_dense_layers", "%.leading_dense_block_count");
    if (strcmp(w->arch, "lfm2moe") != 0)
        hg_copy_f32(m, "routed_scaling_factor", "%.expert_weights_scale");
    hg_copy_f32(m, "route_scale", "%.expert_weights_scale");
    hg_copy_f32(m, "router_scaling_factor", "%.expert_weights_scale");
    hg_copy_f32(m, "moe_routed_scaling_factor", "%.expert_weights_scale");
    if (shared > 0)
        gguf_u32(w, "%.expert_shared_count", (uint32_t)shared);
    if (shared > 0 && ernie)
        gguf_u32(w, "%.expert_shared_feed_forward_length", (uint32_t)(shared * width));
    if (sigmoid)
        gguf_u32(w, "%.expert_gating_func", 2);
    if (hg_field(m, "norm_topk_prob") && (sigmoid || dop_has_word("dots1 exaone-moe nemotron_h_moe", w->arch)))
        gguf_bool(w, "%.expert_weights_norm", json_is_true(hg_field(m, "norm_topk_prob")));
    if (strcmp(w->arch, "llama") == 0)
        hg_window(m);
}

void
hg_gpt_oss(hg_model *m)
{
    hg_experts(m);
    hg_window(m); /* every second layer has it, the first to begin with */
}

/* llama.cpp knows the length of chunks and of the scale's steps (8192) and which layers have none.  The small model has
 * others, which are stated by the keys that come closest. */
void
hg_llama4(hg_model *m)
{
    hg_experts(m);
    hg_copy_u32(m, "interleave_moe_layer_step", "%.interleave_moe_layer_step");
    hg_copy_u32(m, "attention_chunk_size", "%.attention.sliding_window");
    hg_copy_u32(m, "floor_scale", "%.attention.temperature_length");
}

/* Attention there has one head of keys and values, the compressed cache itself. */
void
hg_deepseek(hg_model *m)
{
    const uint32_t rank = (uint32_t)NUMBER(m, 0, "kv_lora_rank"), rotated = (uint32_t)NUMBER(m, 0, "qk_rope_head_dim");
    hg_experts(m);
    if (strcmp(m->w->arch, "kimi-linear") != 0)
        gguf_u32(m->w, "%.attention.head_count_kv", 1);
    hg_copy_u32(m, "q_lora_rank", "%.attention.q_lora_rank");
    gguf_u32(m->w, "%.attention.kv_lora_rank", rank);
    gguf_u32(m->w, "%.attention.key_length", rank + rotated);
    gguf_u32(m->w, "%.attention.value_length", rank);
    gguf_u32(m->w, "%.attention.key_length_mla", (uint32_t)NUMBER(m, 0, "qk_nope_head_dim") + rotated);
    hg_copy_u32(m, "v_head_dim", "%.attention.value_length_mla");
    hg_copy_u32(m, "n_group", "%.expert_group_count");
    hg_copy_u32(m, "topk_group", "%.expert_group_used_count");
    if (hg_rope_number(m, "mscale_all_dim", 0) > 0)
        gguf_f32(m->w, "%.rope.scaling.yarn_log_multiplier", 0.1 * hg_rope_number(m, "mscale_all_dim", 0));
    if (hg_rope_number(m, "llama_4_scaling_beta", 0) > 0) {
        gguf_f32(m->w, "%.attention.temperature_scale", hg_rope_number(m, "llama_4_scaling_beta", 0));
        gguf_u32(m->w, "%.attention.temperature_length",
                 (uint32_t)hg_rope_number(m, "original_max_position_embeddings", 0));
    }
    hg_copy_u32(m, "index_n_heads", "%.attention.indexer.head_count");
    hg_copy_u32(m, "index_head_dim", "%.attention.indexer.key_length");
    hg_copy_u32(m, "index_topk", "%.attention.indexer.top_k");
}

/* ---- recurrent layers --------------------------------------------------------------------------------------------- */

void
hg_delta(hg_model *m)
{
    const json_t *list = json_object_get(hg_field(m, "rope_parameters"), "mrope_section");
    const uint32_t half = rope_dims(m) / 2, sections[] = {half - half / 3 * 2, half / 3, half / 3, 0};
    const double inner = NUMBER(m, 0, "linear_num_value_heads") * NUMBER(m, 0, "linear_value_head_dim");
    const json_t *types = hg_field(m, "layer_types");
    uint32_t interval = 4;
    for (size_t i = json_array_size(types); i-- > 0;) /* the first layer that attends */
        if (strcmp(json_string_value(json_array_get(types, i)), "full_attention") == 0)
            interval = (uint32_t)i + 1;
    hg_copy_u32(m, "linear_conv_kernel_dim", "%.ssm.conv_kernel");
    gguf_u32(m->w, "%.ssm.inner_size", (uint32_t)inner);
    hg_copy_u32(m, "linear_key_head_dim", "%.ssm.state_size");
    hg_copy_u32(m, "linear_num_value_heads", "%.ssm.time_step_rank");
    hg_copy_u32(m, "linear_num_key_heads", "%.ssm.group_count");
    gguf_u32(m->w, "%.full_attention_interval", interval);
    if (strncmp(m->w->arch, "qwen35", 6) == 0 && list) {
        hg_sections(m);
    } else if (strncmp(m->w->arch, "qwen35", 6) == 0) { /* text positions are the same in every section */
        gguf_array(m->w, "%.rope.dimension_sections", 5, 4);
        dop_buf_append(&m->w->kvs, sections, sizeof sections);
    }
    if (hg_field(m, "num_experts"))
        hg_experts(m);
}

void
hg_kv_heads_by_layer(hg_model *m)
{
    const json_t *types = hg_field(m, "layer_types") ? hg_field(m, "layer_types") : hg_field(m, "layers_block_type");
    gguf_array(m->w, "%.attention.head_count_kv", 5, m->layers);
    for (uint32_t i = 0; i < m->layers; i++) {
        const char *type = json_string_value(json_array_get(types, i));
        const bool attends = type && (strcmp(type, "full_attention") == 0 || strcmp(type, "attention") == 0);
        gguf_put_u32(&m->w->kvs, attends ? m->kv_heads : 0);
    }
}

void
hg_ssm(hg_model *m)
{
    const double heads = NUMBER(m, 0, "mamba_n_heads", "mamba_num_heads", "num_heads");
    const double dim = NUMBER(m, 0, "mamba_d_head", "mamba_head_dim", "head_dim");
    gguf_u32(m->w, "%.ssm.conv_kernel", (uint32_t)NUMBER(m, 4, "mamba_d_conv", "conv_kernel"));
    gguf_u32(m->w, "%.ssm.inner_size", (uint32_t)(heads * dim));
    gguf_u32(m->w, "%.ssm.state_size", (uint32_t)NUMBER(m, 128, "mamba_d_state", "ssm_state_size", "state_size"));
    gguf_u32(m->w, "%.ssm.time_step_rank", (uint32_t)heads);
    gguf_u32(m->w, "%.ssm.group_count", (uint32_t)NUMBER(m, 1, "mamba_n_groups", "n_groups"));
}

void
hg_granite_hybrid(hg_model *m)
{
    hg_granite(m);
    hg_experts(m);
    hg_copy_u32(m, "shared_intermediate_size", "%.expert_shared_feed_forward_length");
    hg_ssm(m);
    hg_kv_heads_by_layer(m);
    gguf_bool(m->w, "%.rope.scaling.finetuned", false); /* layers that attend do not rotate */
}

void
hg_lfm2(hg_model *m)
{
    if (hg_field(m, "num_experts"))
        hg_experts(m);
    hg_kv_heads_by_layer(m);
    hg_copy_u32(m, "conv_L_cache", "%.shortconv.l_cache");
}
