/* The rules of llama.cpp's converter for the families that the tests have, as tables: which name a tensor takes and what is
 * done to its values.  Facts: conversion/ and gguf-py/gguf/{constants,tensor_mapping}.py of its repository. */
#include "tests/unit/hf_to_gguf.h"
#include "tests/unit/hf_to_gguf_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- names -------------------------------------------------------------------------------------------------------- */

/* Without endings; the first list that has a name decides. */
static const hg_rule common[] = {
    {"embed_tokens", "token_embd", HG_PLAIN},
    {"norm", "output_norm", HG_NORM},
    {"lm_head", "output", HG_PLAIN},
    {"*.input_layernorm", "attn_norm", HG_NORM},
    {"*.self_attn.q_proj", "attn_q", HG_Q},
    {"*.self_attn.k_proj", "attn_k", HG_K},
    {"*.self_attn.v_proj", "attn_v", HG_PLAIN},
    {"*.self_attn.o_proj", "attn_output", HG_PLAIN},
    {"*.self_attn.q_norm", "attn_q_norm", HG_NORM},
    {"*.self_attn.k_norm", "attn_k_norm", HG_NORM},
    {"*.post_attention_layernorm", "ffn_norm", HG_NORM},
    {"*.mlp.gate_proj", "ffn_gate", HG_PLAIN},
    {"*.mlp.up_proj", "ffn_up", HG_PLAIN},
    {"*.mlp.down_proj", "ffn_down", HG_PLAIN},
    {0},
};
static const hg_rule sandwich[] = {
    {"*.post_attention_layernorm", "post_attention_norm", HG_NORM},
    {"*.pre_feedforward_layernorm", "ffn_norm", HG_NORM},
    {"*.post_feedforward_layernorm", "post_ffw_norm", HG_NORM},
    {"*.layer_scalar", "layer_output_scale.weight", HG_WHOLE_NAME},
    {0},
};
static const hg_rule gemma4[] = {
    {"embed_tokens_per_layer", "per_layer_token_embd", HG_PLAIN},
    {"per_layer_model_projection", "per_layer_model_proj", HG_PLAIN},
    {"per_layer_projection_norm", "per_layer_proj_norm", HG_PLAIN},
    {"*.per_layer_input_gate", "inp_gate", HG_PLAIN},
    {"*.per_layer_projection", "proj", HG_PLAIN},
    {"*.post_per_layer_input_norm", "post_norm", HG_PLAIN},
    {"*.post_feedforward_layernorm_1", "post_ffw_norm_1", HG_NORM},
    {"*.pre_feedforward_layernorm_2", "pre_ffw_norm_2", HG_NORM},
    {"*.post_feedforward_layernorm_2", "post_ffw_norm_2", HG_NORM},
    {"*.router.proj", "ffn_gate_inp", HG_PLAIN},
    {"*.router.scale", "ffn_gate_inp.scale", HG_WHOLE_NAME},
    {"*.router.per_expert_scale", "ffn_down_exps.scale", HG_WHOLE_NAME},
    {"*.experts.gate_up_proj", "ffn_gate_up_exps.weight", HG_WHOLE_NAME},
    {"*.experts.down_proj", "ffn_down_exps.weight", HG_WHOLE_NAME},
    {0},
};
static const hg_rule phi3[] = {
    {"*.self_attn.qkv_proj", "attn_qkv", HG_PLAIN},
    {"*.mlp.gate_up_proj", "ffn_up", HG_PLAIN},
    {0},
};
static const hg_rule gpt2[] = {
    {"wte", "token_embd", HG_PLAIN},
    {"wpe", "position_embd", HG_PLAIN},
    {"ln_f", "output_norm", HG_PLAIN},
    {"*.ln_1", "attn_norm", HG_PLAIN},
    {"*.ln_2", "ffn_norm", HG_PLAIN},
    {"*.attn.c_attn", "attn_qkv", HG_TRANSPOSED},
    {"*.attn.c_proj", "attn_output", HG_TRANSPOSED},
    {"*.mlp.c_fc", "ffn_up", HG_TRANSPOSED},
    {"*.mlp.c_proj", "ffn_down", HG_TRANSPOSED},
    {0},
};
static const hg_rule seed_oss[] = {
    {"*.post_attention_layernorm", "post_attention_norm", HG_PLAIN},
    {0},
};
static const hg_rule starcoder2[] = {
    {"*.mlp.c_fc", "ffn_up", HG_PLAIN},
    {"*.mlp.c_proj", "ffn_down", HG_PLAIN},
    {0},
};
static const hg_rule glm4[] = {
    {"*.post_self_attn_layernorm", "post_attention_norm", HG_PLAIN},
    {"*.post_mlp_layernorm", "post_ffw_norm", HG_PLAIN},
    {"*.mlp.gate_up_proj", "ffn_up", HG_PLAIN},
    {0},
};
static const hg_rule gpt_neox[] = {
    {"embed_in", "token_embd", HG_PLAIN},           {"embed_out", "output", HG_PLAIN},
    {"final_layer_norm", "output_norm", HG_PLAIN},  {"*.attention.query_key_value", "attn_qkv", HG_QKV_BY_HEAD},
    {"*.attention.dense", "attn_output", HG_PLAIN}, {"*.mlp.dense_h_to_4h", "ffn_up", HG_PLAIN},
    {"*.mlp.dense_4h_to_h", "ffn_down", HG_PLAIN},  {0},
};
static const hg_rule apertus[] = {
    {"*.attention_layernorm", "attn_norm", HG_PLAIN},
    {"*.feedforward_layernorm", "ffn_norm", HG_PLAIN},
    {"*.mlp.act_fn.alpha_p", NULL, HG_DROPPED},
    {"*.mlp.act_fn.alpha_n", NULL, HG_DROPPED},
    {"*.mlp.act_fn.beta", NULL, HG_DROPPED},
    {"*.mlp.act_fn.eps", NULL, HG_DROPPED},
    {0},
};

/* ---- names of experts and recurrent layers ------------------------------------------------------------------------ */

static const hg_rule experts[] = {
    {"*.mlp.gate", "ffn_gate_inp", HG_PLAIN},
    {"*.mlp.experts.*.gate_proj", "ffn_gate_exps", HG_EXPERTS},
    {"*.mlp.experts.*.up_proj", "ffn_up_exps", HG_EXPERTS},
    {"*.mlp.experts.*.down_proj", "ffn_down_exps", HG_EXPERTS},
    {"*.mlp.shared_expert.gate_proj", "ffn_gate_shexp", HG_PLAIN},
    {"*.mlp.shared_expert.up_proj", "ffn_up_shexp", HG_PLAIN},
    {"*.mlp.shared_expert.down_proj", "ffn_down_shexp", HG_PLAIN},
    {"*.mlp.shared_expert_gate", "ffn_gate_inp_shexp", HG_PLAIN},
    {"*.mlp.shared_experts.gate_proj", "ffn_gate_shexp", HG_PLAIN},
    {"*.mlp.shared_experts.up_proj", "ffn_up_shexp", HG_PLAIN},
    {"*.mlp.shared_experts.down_proj", "ffn_down_shexp", HG_PLAIN},
    {"*.mlp.gate.e_score_correction_bias", "exp_probs_b.bias", HG_WHOLE_NAME},
    {"*.mlp.moe_statics.e_score_correction_bias", "exp_probs_b.bias", HG_WHOLE_NAME},
    {"*.block_sparse_moe.gate", "ffn_gate_inp", HG_PLAIN},
    {"*.block_sparse_moe.experts.*.w1", "ffn_gate_exps", HG_EXPERTS},
    {"*.block_sparse_moe.experts.*.w3", "ffn_up_exps", HG_EXPERTS},
    {"*.block_sparse_moe.experts.*.w2", "ffn_down_exps", HG_EXPERTS},
    {"*.block_sparse_moe.e_score_correction_bias", "exp_probs_b.bias", HG_WHOLE_NAME},
    {0},
};
static const hg_rule gpt_oss[] = {
    {"*.self_attn.sinks", "attn_sinks.weight", HG_WHOLE_NAME},
    {"*.mlp.router", "ffn_gate_inp", HG_PLAIN},
    {"*.mlp.experts.gate_up_proj_bias", "ffn_gate_exps.bias,ffn_up_exps.bias", HG_EVEN_ODD},
    {"*.mlp.experts.down_proj_bias", "ffn_down_exps.bias", HG_WHOLE_NAME},
    {"*.mlp.experts.gate_up_proj_blocks", "ffn_gate_exps.weight,ffn_up_exps.weight", HG_MXFP4_EVEN_ODD},
    {"*.mlp.experts.down_proj_blocks", "ffn_down_exps.weight", HG_MXFP4},
    {"*.mlp.experts.gate_up_proj_scales", NULL, HG_DROPPED}, /* taken with the blocks */
    {"*.mlp.experts.down_proj_scales", NULL, HG_DROPPED},
    {0},
};
static const hg_rule llama4[] = {
    {"*.feed_forward.gate_proj", "ffn_gate", HG_PLAIN},
    {"*.feed_forward.up_proj", "ffn_up", HG_PLAIN},
    {"*.feed_forward.down_proj", "ffn_down", HG_PLAIN},
    {"*.feed_forward.router", "ffn_gate_inp", HG_PLAIN},
    {"*.feed_forward.experts.gate_up_proj", "ffn_gate_exps.weight,ffn_up_exps.weight", HG_COLUMN_HALVES},
    {"*.feed_forward.experts.down_proj", "ffn_down_exps.weight", HG_TURNED},
    {"*.feed_forward.shared_expert.gate_proj", "ffn_gate_shexp", HG_PLAIN},
    {"*.feed_forward.shared_expert.up_proj", "ffn_up_shexp", HG_PLAIN},
    {"*.feed_forward.shared_expert.down_proj", "ffn_down_shexp", HG_PLAIN},
    {0},
};
static const hg_rule deepseek[] = {
    {"*.self_attn.q_a_proj", "attn_q_a", HG_PLAIN},
    {"*.self_attn.q_a_layernorm", "attn_q_a_norm", HG_PLAIN},
    {"*.self_attn.q_b_proj", "attn_q_b", HG_PLAIN},
    {"*.self_attn.kv_a_proj_with_mqa", "attn_kv_a_mqa", HG_PLAIN},
    {"*.self_attn.kv_a_layernorm", "attn_kv_a_norm", HG_PLAIN},
    {"*.self_attn.kv_b_proj", "attn_k_b.weight,attn_v_b.weight", HG_KV_B},
    {0},
};
static const hg_rule qwen3_next[] = {
    {"*.post_attention_layernorm", "post_attention_norm", HG_NORM},
    {"*.linear_attn.in_proj_qkvz", "attn_qkv.weight,attn_gate.weight", HG_QKVZ},
    {"*.linear_attn.in_proj_ba", "ssm_ba", HG_PLAIN},
    {"*.linear_attn.conv1d", "ssm_conv1d", HG_TAPS},
    {"*.linear_attn.dt_bias", "ssm_dt.bias", HG_WHOLE_NAME},
    {"*.linear_attn.A_log", "ssm_a", HG_DECAY},
    {"*.linear_attn.norm", "ssm_norm", HG_PLAIN},
    {"*.linear_attn.out_proj", "ssm_out", HG_PLAIN},
    {0},
};
static const hg_rule qwen3_5[] = {
    {"*.post_attention_layernorm", "post_attention_norm", HG_NORM},
    {"*.linear_attn.in_proj_qkv", "attn_qkv", HG_V_ROWS},
    {"*.linear_attn.in_proj_z", "attn_gate", HG_V_ALL_ROWS},
    {"*.linear_attn.in_proj_a", "ssm_alpha", HG_V_VALUES},
    {"*.linear_attn.in_proj_b", "ssm_beta", HG_V_VALUES},
    {"*.linear_attn.conv1d", "ssm_conv1d", HG_V_TAPS},
    {"*.linear_attn.dt_bias", "ssm_dt.bias", HG_V_VALUES},
    {"*.linear_attn.A_log", "ssm_a", HG_V_DECAY},
    {"*.linear_attn.norm", "ssm_norm", HG_PLAIN},
    {"*.linear_attn.out_proj", "ssm_out", HG_V_COLUMNS},
    {0},
};
/* Mamba-2's own names, and those of hybrid models, where its parts are below "mamba". */
static const hg_rule mamba2[] = {
    {"embeddings", "token_embd", HG_PLAIN},
    {"norm_f", "output_norm", HG_PLAIN},
    {"*.norm", "attn_norm", HG_PLAIN},
    {"*.mixer.in_proj", "ssm_in", HG_PLAIN},
    {"*.mixer.conv1d", "ssm_conv1d", HG_TAPS},
    {"*.mixer.dt_bias", "ssm_dt.bias", HG_WHOLE_NAME},
    {"*.mixer.A_log", "ssm_a", HG_DECAY_COLUMN},
    {"*.mixer.D", "ssm_d", HG_COLUMN},
    {"*.mixer.norm", "ssm_norm", HG_GROUPS},
    {"*.mixer.out_proj", "ssm_out", HG_PLAIN},
    {0},
};
static const hg_rule hybrid[] = {
    {"*.mamba.conv1d", "ssm_conv1d", HG_TAPS},
    {"*.mamba.dt_bias", "ssm_dt.bias", HG_WHOLE_NAME},
    {"*.mamba.A_log", "ssm_a", HG_DECAY_COLUMN},
    {"*.mamba.D", "ssm_d", HG_COLUMN},
    {"*.mamba.norm", "ssm_norm", HG_GROUPS},
    {"*.mamba.out_proj", "ssm_out", HG_PLAIN},
    {0},
};
static const hg_rule granite_hybrid[] = {
    {"*.mamba.in_proj", "ssm_in", HG_PLAIN},
    {"*.block_sparse_moe.router.layer", "ffn_gate_inp", HG_PLAIN},
    {"*.block_sparse_moe.input_linear", "ffn_gate_exps.weight,ffn_up_exps.weight", HG_HALVES},
    {"*.block_sparse_moe.output_linear", "ffn_down_exps", HG_PLAIN},
    {"*.shared_mlp.input_linear", "ffn_gate_shexp.weight,ffn_up_shexp.weight", HG_HALVES},
    {"*.shared_mlp.output_linear", "ffn_down_shexp", HG_PLAIN},
    {0},
};
static const hg_rule falcon_h1[] = {
    {"final_layernorm", "output_norm", HG_PLAIN},
    {"*.pre_ff_layernorm", "ffn_norm", HG_WHOLE_NAME},
    {"*.mamba.in_proj", "ssm_in", HG_MIX_IN},
    {"*.feed_forward.gate_proj", "ffn_gate", HG_PLAIN},
    {"*.feed_forward.up_proj", "ffn_up", HG_PLAIN},
    {"*.feed_forward.down_proj", "ffn_down", HG_PLAIN},
    {0},
};
static const hg_rule lfm2[] = {
    {"embedding_norm", "token_embd_norm", HG_PLAIN},
    {"*.operator_norm", "attn_norm", HG_PLAIN},
    {"*.ffn_norm", "ffn_norm", HG_PLAIN},
    {"*.self_attn.q_layernorm", "attn_q_norm", HG_PLAIN},
    {"*.self_attn.k_layernorm", "attn_k_norm", HG_PLAIN},
    {"*.self_attn.out_proj", "attn_output", HG_PLAIN},
    {"*.conv.conv", "shortconv.conv", HG_TAPS},
    {"*.conv.in_proj", "shortconv.in_proj", HG_PLAIN},
    {"*.conv.out_proj", "shortconv.out_proj", HG_PLAIN},
    {"*.feed_forward.w1", "ffn_gate", HG_PLAIN},
    {"*.feed_forward.w3", "ffn_up", HG_PLAIN},
    {"*.feed_forward.w2", "ffn_down", HG_PLAIN},
    {0},
};

/* ---- families ----------------------------------------------------------------------------------------------------- */

static const hg_family families[] = {
    {"llama", "llama", {common}, HG_PERMUTE, NULL},
    {"mistral", "llama", {common}, HG_PERMUTE, hg_window},
    {"qwen2", "qwen2", {common}, 0, NULL},
    {"qwen3", "qwen3", {common}, 0, NULL},
    {"gemma", "gemma", {common}, HG_ADD_1, NULL},
    {"gemma2", "gemma2", {sandwich, common}, HG_ADD_1, hg_gemma},
    {"gemma3_text", "gemma3", {sandwich, common}, HG_ADD_1, hg_gemma},
    {"gemma4_text", "gemma4", {gemma4, sandwich, common}, 0, hg_gemma4},
    {"phi3", "phi3", {phi3, common}, 0, hg_window},
    {"gpt2", "gpt2", {gpt2, common}, 0, NULL},
    {"granite", "granite", {common}, HG_PERMUTE, hg_granite},
    {"olmo2", "olmo2", {sandwich, common}, 0, NULL},
    {"smollm3", "smollm3", {common}, HG_PERMUTE, NULL},
    {"arcee", "arcee", {common}, HG_PERMUTE, NULL},
    {"seed_oss", "seed_oss", {seed_oss, common}, 0, NULL},
    {"ernie4_5", "ernie4_5", {common}, 0, NULL},
    {"starcoder2", "starcoder2", {starcoder2, common}, 0, NULL},
    {"stablelm", "stablelm", {common}, 0, hg_parallel},
    {"exaone4", "exaone4", {sandwich, common}, 0, hg_window_flags},
    {"glm4", "glm4", {glm4, common}, 0, NULL},
    {"gpt_neox", "gptneox", {gpt_neox, common}, 0, hg_parallel},
    {"cohere2", "cohere2", {common}, 0, hg_cohere2},
    {"nemotron", "nemotron", {common}, HG_ADD_1, NULL},
    {"apertus", "apertus", {apertus, common}, 0, hg_apertus},
    {"mixtral", "llama", {experts, common}, HG_PERMUTE, hg_experts},
    {"qwen2_moe", "qwen2moe", {experts, common}, 0, hg_experts},
    {"qwen3_moe", "qwen3moe", {experts, common}, 0, hg_experts},
    {"olmoe", "olmoe", {experts, common}, 0, hg_experts},
    {"gpt_oss", "gpt-oss", {gpt_oss, seed_oss, common}, 0, hg_gpt_oss},
    {"deepseek_v3", "deepseek2", {deepseek, experts, common}, 0, hg_deepseek},
    {"glm4_moe", "glm4moe", {seed_oss, experts, common}, 0, hg_experts},
    {"ernie4_5_moe", "ernie4_5-moe", {experts, common}, 0, hg_experts},
    {"minimax_m2", "minimax-m2", {experts, common}, 0, hg_experts},
    {"llama4_text", "llama4", {llama4, common}, 0, hg_llama4},
    {"qwen3_next", "qwen3next", {qwen3_next, experts, common}, HG_ADD_1, hg_delta},
    {"qwen3_5_text", "qwen35", {qwen3_5, common}, HG_ADD_1, hg_delta},
    {"granitemoehybrid", "granitehybrid", {granite_hybrid, hybrid, common}, HG_PERMUTE, hg_granite_hybrid},
    {"falcon_h1", "falcon-h1", {falcon_h1, hybrid, common}, 0, hg_ssm},
    {"lfm2", "lfm2", {lfm2, common}, 0, hg_lfm2},
    {"mamba2", "mamba2", {mamba2, common}, 0, hg_ssm},
};

/* ---- tensors ------------------------------------------------------------------------------------------------------ */

static bool
fail(hg_model *m, const char *what, const char *name)
{
    snprintf(m->error, m->error_size, "%s: %s", what, name);
    return false;
}

bool
hg_find(const hg_model *m, const char *name, hg_tensor *out)
{
    const json_t *entry = json_object_get(m->header, name), *shape = json_object_get(entry, "shape");
    *out = (hg_tensor){.dtype = json_string_value(json_object_get(entry, "dtype")), .count = 1};
    if (!entry || !out->dtype || json_array_size(shape) > HG_MAX_RANK)
        return false;
    out->rank = (uint32_t)json_array_size(shape);
    for (uint32_t i = 0; i < out->rank; i++) {
        out->shape[i] = (uint64_t)json_integer_value(json_array_get(shape, i));
        out->count *= out->shape[i];
    }
    out->data = m->data + json_integer_value(json_array_get(json_object_get(entry, "data_offsets"), 0));
    return true;
}

float *
hg_values(const hg_tensor *t)
{
    float *v = calloc(t->count ? t->count : 1, sizeof *v);
    for (uint64_t i = 0; v && i < t->count; i++) {
        uint16_t h;
        if (strcmp(t->dtype, "F32") == 0) {
            memcpy(&v[i], t->data + 4 * i, 4);
            continue;
        }
        memcpy(&h, t->data + 2 * i, 2);
        v[i] = strcmp(t->dtype, "BF16") == 0 ? dop_bf16_to_f32(h) : dop_f16_to_f32(h);
    }
    return v;
}

void
hg_reorder(float *v, const uint64_t *from, uint64_t rows, uint64_t cols)
{
    float *old = malloc(rows * cols * sizeof *old);
    memcpy(old, v, rows * cols * sizeof *old);
    for (uint64_t r = 0; r < rows; r++)
        memcpy(v + r * cols, old + from[r] * cols, cols * sizeof *v);
    free(old);
}

/* Heads of rotated halves as heads of pairs: value j of half k becomes value 2j + k. */
static void
permute(const hg_model *m, float *v, uint64_t rows, uint64_t cols)
{
    uint64_t *from = malloc(rows * sizeof *from);
    const uint64_t d = m->head_dim;
    for (uint64_t r = 0; r < rows; r++)
        from[r] = r / d * d + r % 2 * (d / 2) + r % d / 2;
    hg_reorder(v, from, rows, cols);
    free(from);
}

/* q, k and v of the first head, then of the second, ...: all q first, then all k, all v. */
static void
split_heads(const hg_model *m, float *v, uint64_t rows, uint64_t cols)
{
    uint64_t *from = malloc(rows * sizeof *from);
    const uint64_t d = m->head_dim, third = rows / 3;
    for (uint64_t r = 0; r < rows; r++)
        from[r] = (r % third / d * 3 + r / third) * d + r % d;
    hg_reorder(v, from, rows, cols);
    free(from);
}

static void
transpose(float *v, uint64_t *shape)
{
    const uint64_t rows = shape[0], cols = shape[1];
    float *old = malloc(rows * cols * sizeof *old);
    memcpy(old, v, rows * cols * sizeof *old);
    for (uint64_t r = 0; r < rows; r++)
        for (uint64_t c = 0; c < cols; c++)
            v[c * rows + r] = old[r * cols + c];
    shape[0] = cols;
    shape[1] = rows;
    free(old);
}

/* Falcon-H1 multiplies what its other families have as it is; the file has the products. */
static void
scale_falcon(const hg_model *m, const char *gguf, hg_tensor *t, float *v)
{
    const json_t *mlp = json_object_get(m->config, "mlp_multipliers");
    const double in = hg_number(m, "attention_in_multiplier", 1);
    const struct {
        const char *name;
        double by;
    } scales[] = {
        {"attn_q", in},
        {"attn_k", in * hg_number(m, "key_multiplier", 1)},
        {"attn_v", in},
        {"attn_output", hg_number(m, "attention_out_multiplier", 1)},
        {"ssm_out", hg_number(m, "ssm_out_multiplier", 1)},
        {"ffn_gate", json_number_value(json_array_get(mlp, 0))},
        {"ffn_down", json_number_value(json_array_get(mlp, 1))},
        {"token_embd", hg_number(m, "embedding_multiplier", 1)},
        {"output", hg_number(m, "lm_head_multiplier", 1)},
    };
    for (size_t k = 0; k < sizeof scales / sizeof *scales; k++)
        for (uint64_t i = 0; strcmp(scales[k].name, gguf) == 0 && i < t->count; i++)
            v[i] *= (float)scales[k].by;
}

static void
change(const hg_model *m, const hg_rule *rule, bool weight, hg_tensor *t, float *v)
{
    const uint64_t cols = t->rank > 1 ? t->count / t->shape[0] : 1;
    if (rule->how == HG_NORM && weight && m->family->flags & HG_ADD_1)
        for (uint64_t i = 0; i < t->count; i++)
            v[i] += 1;
    if ((rule->how == HG_Q || rule->how == HG_K) && m->family->flags & HG_PERMUTE)
        permute(m, v, t->shape[0], cols);
    if (rule->how == HG_QKV_BY_HEAD)
        split_heads(m, v, t->shape[0], cols);
    if (rule->how == HG_TRANSPOSED && t->rank == 2)
        transpose(v, t->shape);
    if (m->family->rules[0] == falcon_h1) {
        scale_falcon(m, rule->gguf, t, v);
        t->dtype = "F32"; /* no other type holds the products */
    }
}

/* Vectors, routers and taps are always f32; matrices stay what they are. */
static bool
always_f32(const char *name)
{
    static const char *const parts[] = {"ffn_gate_inp", "ssm_conv1d", "shortconv.conv.", "_norm", ".bias"};
    static const char *const bare[] = {".ssm_a", ".ssm_d"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (strstr(name, parts[i]))
            return true;
    const char *dot = strrchr(name, '.');
    return dot && (strcmp(dot, bare[0]) == 0 || strcmp(dot, bare[1]) == 0);
}

void
hg_write(hg_model *m, const char *name, const hg_tensor *t, const float *v)
{
    const uint64_t one = 1;
    const uint32_t type = t->rank < 2 || m->f32 || always_f32(name) ? GGUF_F32
                          : strcmp(t->dtype, "BF16") == 0           ? GGUF_BF16
                          : strcmp(t->dtype, "F16") == 0            ? GGUF_F16
                                                                    : GGUF_F32;
    gguf_tensor(m->w, name, type, t->rank ? t->rank : 1, t->rank ? t->shape : &one, v);
}

/* "model.layers.3.mlp.up_proj.weight": layer 3, "*.mlp.up_proj", ".weight"; "model.norm.weight": layer -1, "norm". */
static void
split_name(const char *name, long *layer, char *stem, size_t size, const char **ending)
{
    static const char *const prefixes[] = {"model.", "transformer.", "gpt_neox.", "backbone."};
    static const char *const layers[] = {"layers.", "h."};
    char *end;
    *layer = -1;
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
        if (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0)
            name += strlen(prefixes[i]);
    for (size_t i = 0; i < sizeof layers / sizeof *layers && *layer < 0; i++)
        if (strncmp(name, layers[i], strlen(layers[i])) == 0) {
            *layer = strtol(name + strlen(layers[i]), &end, 10);
            name = end;
        }
    const char *dot = strrchr(name, '.');
    *ending = dot && (strcmp(dot, ".weight") == 0 || strcmp(dot, ".bias") == 0) ? dot : "";
    snprintf(stem, size, "%s%.*s", *layer >= 0 ? "*" : "", (int)(strlen(name) - strlen(*ending)), name);
    char *number = strstr(stem, ".experts.");
    if (!number || number[9] < '0' || number[9] > '9')
        return;
    number += 9; /* the number of an expert becomes a star too */
    const size_t digits = strspn(number, "0123456789");
    *number = '*';
    memmove(number + 1, number + digits, strlen(number + digits) + 1);
}

static const hg_rule *
find_rule(const hg_family *f, const char *stem)
{
    for (size_t k = 0; k < sizeof f->rules / sizeof *f->rules && f->rules[k]; k++)
        for (const hg_rule *r = f->rules[k]; r->hf; r++)
            if (strcmp(r->hf, stem) == 0)
                return r;
    return NULL;
}

static bool
convert_tensor(hg_model *m, const char *name)
{
    char stem[160], full[200] = "";
    const char *ending;
    long layer;
    hg_tensor t;
    split_name(name, &layer, stem, sizeof stem, &ending);
    const hg_rule *rule = find_rule(m->family, stem);
    if (!rule)
        return fail(m, "no rule for tensor", name);
    if (rule->how == HG_DROPPED)
        return true;
    if (!hg_find(m, name, &t))
        return fail(m, "cannot read tensor", name);
    const int n = layer >= 0 ? snprintf(full, sizeof full, "blk.%ld.", layer) : 0;
    const bool whole = rule->how == HG_WHOLE_NAME || rule->how >= HG_EXPERTS;
    snprintf(full + n, sizeof full - (size_t)n, "%s%s", rule->gguf, whole ? "" : ending);
    if (rule->how >= HG_EXPERTS)
        return hg_split(m, rule, name, full, ending) || fail(m, "cannot convert tensor", name);
    float *v = hg_values(&t);
    if (!v)
        return fail(m, "out of memory for tensor", name);
    change(m, rule, strcmp(ending, ".weight") == 0, &t, v);
    hg_write(m, full, &t, v);
    free(v);
    return true;
}

/* ---- the model ---------------------------------------------------------------------------------------------------- */

static bool
open_model(hg_model *m, const char *dir)
{
    char path[1200];
    json_error_t err;
    snprintf(path, sizeof path, "%s/config.json", dir);
    m->root = json_load_file(path, 0, &err);
    if (!m->root)
        return fail(m, "cannot read", path);
    m->config = json_object_get(m->root, "text_config");
    if (!m->config)
        m->config = m->root;
    snprintf(path, sizeof path, "%s/model.safetensors", dir);
    if (dop_map_open(path, NULL, &m->map) != DOP_OK || m->map.size < 8)
        return fail(m, "cannot read", path);
    uint64_t n;
    memcpy(&n, m->map.data, 8);
    m->header = n <= m->map.size - 8 ? json_loadb((const char *)m->map.data + 8, (size_t)n, 0, &err) : NULL;
    if (!m->header)
        return fail(m, "no header in", path);
    json_object_del(m->header, "__metadata__");
    m->data = m->map.data + 8 + n;
    const char *type = json_string_value(json_object_get(m->config, "model_type"));
    for (size_t i = 0; type && i < sizeof families / sizeof *families; i++)
        if (strcmp(families[i].model_type, type) == 0)
            m->family = &families[i];
    return m->family ? true : fail(m, "no rules for model_type", type ? type : "(none)");
}

bool
hf_to_gguf(const char *dir, bool f32, gguf_writer *w, char *error, size_t size)
{
    hg_model m = {.w = w, .f32 = f32, .error = error, .error_size = size};
    const char *name;
    json_t *entry;
    bool ok = open_model(&m, dir);
    if (ok) {
        const char *slash = strrchr(dir, '/');
        snprintf(w->arch, sizeof w->arch, "%s", m.family->arch);
        gguf_str(w, "general.architecture", w->arch);
        gguf_str(w, "general.name", slash ? slash + 1 : dir);
        hg_metadata(&m);
        json_object_foreach(m.header, name, entry) ok = ok && convert_tensor(&m, name);
        hg_extra_tensors(&m);
    }
    json_decref(m.root);
    json_decref(m.header);
    dop_map_close(&m.map);
    if (!ok)
        gguf_finish(w);
    return ok;
}
