/* Metadata that llama.cpp's converter writes for single families, besides hf_to_gguf_metadata.c. */
#include "tests/unit/hf_to_gguf_parts.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

void
hg_starcoder(hg_model *m)
{
    gguf_u32(m->w, "%.attention.head_count_kv", 1);
}

void
hg_mistral3(hg_model *m)
{
    gguf_f32(m->w, "%.rope.scaling.yarn_log_multiplier", hg_rope_number(m, "mscale_all_dim", 1));
    gguf_f32(m->w, "%.attention.temperature_scale", hg_rope_number(m, "llama_4_scaling_beta", 0));
}

/* Limits of queries, keys and values, and MPT's ALiBi. */
void
hg_clip(hg_model *m)
{
    hg_copy_f32(m, "clip_qkv", "%.attention.clamp_kqv");
    hg_copy_f32(m, "attn_config.clip_qkv", "%.attention.clamp_kqv");
    hg_copy_f32(m, "attn_config.alibi_bias_max", "%.attention.max_alibi_bias");
}

void
hg_dbrx(hg_model *m)
{
    hg_clip(m);
    hg_copy_f32(m, "attn_config.rope_theta", "%.rope.freq_base");
    gguf_u32(m->w, "%.expert_count", (uint32_t)hg_number(m, "ffn_config.moe_num_experts", 0));
    gguf_u32(m->w, "%.expert_used_count", (uint32_t)hg_number(m, "ffn_config.moe_top_k", 0));
}

void
hg_hunyuan(hg_model *m)
{
    hg_experts(m);
    hg_copy_u32(m, "intermediate_size", "%.expert_shared_feed_forward_length");
}

void
hg_cohere(hg_model *m)
{
    hg_copy_f32(m, "logit_scale", "%.logit_scale");
    gguf_str(m->w, "%.rope.scaling.type", "none");
}

void
hg_minicpm3(hg_model *m)
{
    const double rotated = hg_number(m, "qk_rope_head_dim", 0);
    hg_copy_u32(m, "q_lora_rank", "%.attention.q_lora_rank");
    hg_copy_u32(m, "kv_lora_rank", "%.attention.kv_lora_rank");
    gguf_u32(m->w, "%.attention.key_length", (uint32_t)(hg_number(m, "qk_nope_head_dim", 0) + rotated));
}

/* A factor on normed queries becomes the weights of a norm that has none. */
void
hg_muse_glimmer(hg_model *m)
{
    const double by[] = {hg_number(m, "qk_scale_factor", 1), 1};
    static const char *const names[] = {"attn_q_norm", "attn_k_norm"};
    const uint64_t n = m->head_dim;
    float v[256];
    hg_window_flags(m);
    hg_copy_f32(m, "final_logit_softcapping", "%.final_logit_softcapping");
    hg_copy_f32(m, "output_multiplier", "%.logit_scale");
    for (uint32_t i = 0; i < 2 * m->layers; i++) {
        char name[64];
        snprintf(name, sizeof name, "blk.%u.%s.weight", i / 2, names[i % 2]);
        for (uint64_t k = 0; k < n && k < 256; k++)
            v[k] = (float)by[i % 2];
        gguf_tensor(m->w, name, GGUF_F32, 1, &n, v);
    }
}

/* How many standard deviations above its mean a share s of a normal distribution ends. */
static double
deviations(double s)
{
    double low = -10, high = 10;
    for (int i = 0; i < 100; i++) {
        const double x = (low + high) / 2;
        if (erf(x / sqrt(2)) < 2 * s - 1)
            low = x;
        else
            high = x;
    }
    return low;
}

void
hg_gemma3n(hg_model *m)
{
    const json_t *shares = hg_field(m, "activation_sparsity_pattern"), *widths = hg_field(m, "intermediate_size");
    hg_window_flags(m);
    gguf_array(m->w, "%.feed_forward_length", 5, m->layers);
    for (uint32_t i = 0; i < m->layers; i++)
        gguf_put_u32(&m->w->kvs, (uint32_t)json_integer_value(json_array_get(widths, i)));
    gguf_array(m->w, "%.activation_sparsity_scale", 6, m->layers);
    for (uint32_t i = 0; i < m->layers; i++) {
        const double s = json_number_value(json_array_get(shares, i));
        const float v = s > 0 ? (float)deviations(s) : -INFINITY;
        dop_buf_append(&m->w->kvs, &v, sizeof v);
    }
    hg_copy_u32(m, "altup_active_idx", "%.altup.active_idx");
    hg_copy_u32(m, "altup_num_inputs", "%.altup.num_inputs");
    hg_copy_u32(m, "hidden_size_per_layer_input", "%.embedding_length_per_layer_input");
    hg_copy_u32(m, "num_kv_shared_layers", "%.attention.shared_kv_layers");
    hg_copy_f32(m, "final_logit_softcapping", "%.final_logit_softcapping");
}

void
hg_experts_in_windows(hg_model *m)
{
    hg_experts(m);
    hg_window_flags(m);
}

/* llama.cpp takes every fourth layer for a full one, the first to begin with.  The small model has another period, and states it by
 * the key that is read there. */
void
hg_laguna(hg_model *m)
{
    const json_t *heads = hg_field(m, "num_attention_heads_per_layer"), *types = hg_field(m, "layer_types");
    const json_t *rope = json_object_get(hg_field(m, "rope_parameters"), "sliding_attention");
    uint32_t period = 1;
    hg_experts(m);
    hg_window(m);
    while (period < m->layers && strcmp(json_string_value(json_array_get(types, period)), "full_attention") != 0)
        period++;
    gguf_u32(m->w, "%.attention.sliding_window_pattern", period);
    gguf_array(m->w, "%.attention.head_count", 5, m->layers);
    for (uint32_t i = 0; i < m->layers; i++)
        gguf_put_u32(&m->w->kvs, (uint32_t)json_integer_value(json_array_get(heads, i)));
    gguf_u32(m->w, "%.attention.key_length", m->head_dim);
    gguf_u32(m->w, "%.attention.value_length", m->head_dim);
    gguf_bool(m->w, "%.expert_weights_norm", true);
    gguf_u32(m->w, "%.rope.dimension_count_swa",
             (uint32_t)(m->head_dim * json_number_value(json_object_get(rope, "partial_rotary_factor"))));
}

/* The converter takes the whole part of a third of a head, which is even in the published sizes.  Where it is not, frequencies go by the
 * odd number, which is said here by an even one and another base. */
void
hg_mimo2(hg_model *m)
{
    const json_t *types = hg_field(m, "layer_types"),
                 *local = json_object_get(hg_field(m, "rope_parameters"), "sliding_attention");
    const double turned = floor(m->head_dim * hg_rope_number(m, "partial_rotary_factor", 0.334));
    const double even = ceil(turned / 2) * 2, by = even / turned;
    hg_experts(m);
    gguf_u32(m->w, "%.attention.sliding_window", (uint32_t)hg_number(m, "sliding_window", 0));
    gguf_array(m->w, "%.attention.sliding_window_pattern", 5, m->layers); /* numbers there */
    for (uint32_t i = 0; i < m->layers; i++)
        gguf_put_u32(&m->w->kvs, strcmp(json_string_value(json_array_get(types, i)), "sliding_attention") == 0);
    gguf_array(m->w, "%.attention.head_count_kv", 5, m->layers);
    for (uint32_t i = 0; i < m->layers; i++) {
        const bool slides = strcmp(json_string_value(json_array_get(types, i)), "sliding_attention") == 0;
        gguf_put_u32(&m->w->kvs,
                     (uint32_t)(slides ? hg_number(m, "swa_num_key_value_heads", 2.0 * m->kv_heads) : m->kv_heads));
    }
    gguf_u32(m->w, "%.attention.key_length", m->head_dim);
    gguf_u32(m->w, "%.attention.value_length", (uint32_t)hg_number(m, "v_head_dim", m->head_dim));
    gguf_u32(m->w, "%.rope.dimension_count", (uint32_t)even);
    gguf_f32(m->w, "%.rope.freq_base", pow(hg_rope_number(m, "rope_theta", 1e4), by));
    gguf_f32(m->w, "%.rope.freq_base_swa", pow(json_number_value(json_object_get(local, "rope_theta")), by));
    hg_copy_f32(m, "attention_value_scale", "%.attention.value_scale");
}

void
hg_granite_moe(hg_model *m)
{
    hg_granite(m);
    hg_experts(m);
    hg_copy_u32(m, "shared_intermediate_size", "%.expert_shared_feed_forward_length");
}

void
hg_nemotron_h(hg_model *m)
{
    const json_t *types = hg_field(m, "layers_block_type");
    bool experts = false;
    for (uint32_t i = 0; i < m->layers; i++)
        experts = experts || strcmp(json_string_value(json_array_get(types, i)), "moe") == 0;
    hg_ssm(m);
    hg_kv_heads_by_layer(m);
    gguf_array(m->w, "%.feed_forward_length", 5, m->layers);
    for (uint32_t i = 0; i < m->layers; i++) {
        const char *type = json_string_value(json_array_get(types, i));
        gguf_put_u32(&m->w->kvs, strcmp(type, "mlp") == 0   ? (uint32_t)hg_number(m, "intermediate_size", 0)
                                 : strcmp(type, "moe") == 0 ? (uint32_t)hg_number(m, "moe_intermediate_size", 0)
                                                            : 0);
    }
    if (!experts)
        return;
    hg_experts(m);
    hg_copy_u32(m, "moe_shared_expert_intermediate_size", "%.expert_shared_feed_forward_length");
    hg_copy_u32(m, "n_group", "%.expert_group_count");
}

/* Mamba and Jamba */
void
hg_selective(hg_model *m)
{
    const double period = hg_number(m, "attn_layer_period", 1), offset = hg_number(m, "attn_layer_offset", 1);
    gguf_u32(m->w, "%.ssm.conv_kernel", (uint32_t)NUMBER(m, 4, "mamba_d_conv", "conv_kernel"));
    gguf_u32(m->w, "%.ssm.inner_size", (uint32_t)(NUMBER(m, 2, "mamba_expand", "expand") * m->hidden));
    gguf_u32(m->w, "%.ssm.state_size", (uint32_t)NUMBER(m, 16, "mamba_d_state", "state_size"));
    gguf_u32(m->w, "%.ssm.time_step_rank",
             (uint32_t)NUMBER(m, ceil(m->hidden / 16.0), "mamba_dt_rank", "time_step_rank"));
    if (!m->heads)
        return;
    gguf_array(m->w, "%.attention.head_count_kv", 5, m->layers);
    for (uint32_t i = 0; i < m->layers; i++)
        gguf_put_u32(&m->w->kvs, i % (uint32_t)period == (uint32_t)offset ? m->kv_heads : 0);
    gguf_u32(m->w, "%.expert_count", (uint32_t)hg_number(m, "num_experts", 0));
    gguf_u32(m->w, "%.expert_used_count", (uint32_t)hg_number(m, "num_experts_per_tok", 0));
}

void
hg_kimi_linear(hg_model *m)
{
    m->kv_heads = 1;
    hg_deepseek(m);
    hg_kv_heads_by_layer(m);
    gguf_u32(m->w, "%.ssm.conv_kernel", (uint32_t)hg_number(m, "linear_conv_kernel_dim", 4));
    gguf_u32(m->w, "%.kda.head_dim", (uint32_t)hg_number(m, "linear_head_dim", 0));
}
