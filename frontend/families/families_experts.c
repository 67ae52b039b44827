/* Tensor names and fields of the families with experts, whose rows are in families/experts.def. */
#include "frontend/families/families_experts.h"

#include <math.h>

#define ONE_GROUP .groups = 1, .group_best = 1, .group_keep = 1, .scale = 1

const dop_expert_keys dop_experts_mixtral = {
    .n = "num_local_experts",
    .active = "num_experts_per_tok",
    .width = "intermediate_size",
    .n_otherwise = 8,
    .active_otherwise = 2,
    .facts = {ONE_GROUP, .normalized = true},
};
const dop_expert_keys dop_experts_qwen2 = {
    .n = "num_experts",
    .n_too = "num_local_experts",
    .active = "num_experts_per_tok",
    .width = "moe_intermediate_size",
    .shared_width = "shared_expert_intermediate_size",
    .normalized = "norm_topk_prob",
    .step = "decoder_sparse_step",
    .dense = "mlp_only_layers",
    .n_otherwise = 60,
    .active_otherwise = 4,
    .shared_otherwise = 5632,
    .facts = {ONE_GROUP, .shared_gate = true},
};
const dop_expert_keys dop_experts_qwen3 = {
    .n = "num_experts",
    .n_too = "num_local_experts",
    .active = "num_experts_per_tok",
    .width = "moe_intermediate_size",
    .normalized = "norm_topk_prob",
    .step = "decoder_sparse_step",
    .dense = "mlp_only_layers",
    .n_otherwise = 128,
    .active_otherwise = 8,
    .gguf_normalized = true,
    .facts = {ONE_GROUP},
};
const dop_expert_keys dop_experts_olmoe = {
    .n = "num_experts",
    .n_too = "num_local_experts",
    .active = "num_experts_per_tok",
    .width = "intermediate_size",
    .normalized = "norm_topk_prob",
    .n_otherwise = 64,
    .active_otherwise = 8,
    .facts = {ONE_GROUP},
};
const dop_expert_keys dop_experts_ernie4_5 = {
    .n = "moe_num_experts",
    .active = "moe_k",
    .width = "moe_intermediate_size",
    .shared_n = "moe_num_shared_experts",
    .first = "moe_layer_start_index",
    .last = "moe_layer_end_index",
    .step = "moe_layer_interval",
    .n_otherwise = 64,
    .active_otherwise = 6,
    .shared_otherwise = 2,
    .first_otherwise = 1,
    .facts = {ONE_GROUP, .normalized = true, .correction = true},
};
const dop_expert_keys dop_experts_minimax_m2 = {
    .n = "num_local_experts",
    .active = "num_experts_per_tok",
    .width = "intermediate_size",
    .n_otherwise = 256,
    .active_otherwise = 8,
    .facts = {ONE_GROUP, .score = DOP_SCORE_SIGMOID, .normalized = true, .correction = true},
};
#define GLM4                                                                                                           \
    .n = "n_routed_experts", .active = "num_experts_per_tok", .width = "moe_intermediate_size",                        \
    .shared_n = "n_shared_experts", .normalized = "norm_topk_prob", .scale = "routed_scaling_factor",                  \
    .groups = "n_group", .group_keep = "topk_group", .n_otherwise = 128, .active_otherwise = 8, .shared_otherwise = 1, \
    .facts = {.groups = 1,                                                                                             \
              .group_best = 2,                                                                                         \
              .group_keep = 1,                                                                                         \
              .scale = 1,                                                                                              \
              .score = DOP_SCORE_SIGMOID,                                                                              \
              .normalized = true,                                                                                      \
              .sum_eps = 1e-20,                                                                                        \
              .correction = true}
const dop_expert_keys dop_experts_glm4 = {GLM4, .first = "first_k_dense_replace", .first_otherwise = 1};
/* All layers have experts; first_k_dense_replace is ignored (transformers, SolarOpenDecoderLayer). */
const dop_expert_keys dop_experts_solar = {GLM4};
const dop_expert_keys dop_experts_glm4_lite = {
    .n = "n_routed_experts",
    .active = "num_experts_per_tok",
    .width = "moe_intermediate_size",
    .shared_n = "n_shared_experts",
    .normalized = "norm_topk_prob",
    .scale = "routed_scaling_factor",
    .groups = "n_group",
    .group_keep = "topk_group",
    .first = "first_k_dense_replace",
    .n_otherwise = 64,
    .active_otherwise = 4,
    .shared_otherwise = 1,
    .first_otherwise = 1,
    .facts = {.groups = 1,
              .group_best = 2,
              .group_keep = 1,
              .scale = 1.8,
              .score = DOP_SCORE_SIGMOID,
              .normalized = true,
              .sum_eps = 1e-20,
              .correction = true},
};
const dop_expert_keys dop_experts_mistral4 = {
    .n = "n_routed_experts",
    .n_too = "num_local_experts",
    .active = "num_experts_per_tok",
    .width = "moe_intermediate_size",
    .shared_n = "n_shared_experts",
    .normalized = "norm_topk_prob",
    .scale = "routed_scaling_factor",
    .groups = "n_group",
    .group_keep = "topk_group",
    .first = "first_k_dense_replace",
    .n_otherwise = 128,
    .active_otherwise = 4,
    .shared_otherwise = 1,
    .first_otherwise = 0,
    .facts = {.groups = 1,
              .group_best = 2,
              .group_keep = 1,
              .scale = 1,
              .score = DOP_SCORE_SOFTMAX,
              .normalized = true,
              .sum_eps = 1e-20},
};
const dop_expert_keys dop_experts_glm_dsa = {
    .n = "n_routed_experts",
    .n_too = "num_experts",
    .active = "num_experts_per_tok",
    .width = "moe_intermediate_size",
    .shared_n = "n_shared_experts",
    .normalized = "norm_topk_prob",
    .scale = "routed_scaling_factor",
    .groups = "n_group",
    .group_keep = "topk_group",
    .first = "first_k_dense_replace",
    .n_otherwise = 256,
    .active_otherwise = 8,
    .shared_otherwise = 1,
    .first_otherwise = 3,
    .facts = {.groups = 1,
              .group_best = 2,
              .group_keep = 1,
              .scale = 2.5,
              .score = DOP_SCORE_SIGMOID,
              .normalized = true,
              .sum_eps = 1e-20,
              .correction = true},
};
void
dop_set_experts(const dop_expert_keys *k, const dop_arch *a, const dop_experts *x, dop_layer *layer)
{
    dop_ffn *f = &layer->ffn;
    f->kind = k->beside ? DOP_FFN_BOTH : DOP_FFN_EXPERTS;
    f->experts = *x;
    if (k->limit)
        f->act = DOP_ACT_CLAMPED;
    if (!k->beside)
        return;
    f->post_dense_norm = f->experts.router_norm = f->experts.norm = f->experts.post_norm = layer->ffn_norm;
    f->experts.router_scale = 1 / sqrt(a->hidden);
}

/* Gemma 4 (transformers, modeling_gemma4.py, Gemma4TextRouter and Gemma4TextDecoderLayer). */
const dop_expert_keys dop_experts_gemma4 = {
    .n = "num_experts",
    .active = "top_k_experts",
    .width = "moe_intermediate_size",
    .enabled = "enable_moe_block",
    .beside = true,
    .n_otherwise = UINT32_MAX,
    .active_otherwise = UINT32_MAX,
    .facts = {ONE_GROUP, .normalized = true, .scaled = true},
};
const dop_expert_keys dop_experts_gpt_oss = {
    .n = "num_local_experts",
    .active = "num_experts_per_tok",
    .width = "intermediate_size",
    .limit = "swiglu_limit",
    .n_otherwise = 128,
    .active_otherwise = 4,
    .facts = {ONE_GROUP, .normalized = true, .bias = true, .router_bias = true},
};

const dop_tensor_name dop_hf_names_mixtral[] = {
    {DOP_W_router, "block_sparse_moe.gate.weight", DOP_PART_ALL, false},
    {DOP_W_router_correction, "block_sparse_moe.e_score_correction_bias", DOP_PART_ALL, false},
    {DOP_W_expert_gate, "block_sparse_moe.experts.*.w1.weight", DOP_PART_ALL, false},
    {DOP_W_expert_down, "block_sparse_moe.experts.*.w2.weight", DOP_PART_ALL, false},
    {DOP_W_expert_up, "block_sparse_moe.experts.*.w3.weight", DOP_PART_ALL, false},
    {.role = DOP_W_none},
};
const dop_tensor_name dop_hf_names_qwen_experts[] = {
    MLP_EXPERTS,
    SHARED_EXPERT("mlp.shared_expert"),
    {DOP_W_shared_router, "mlp.shared_expert_gate.weight", DOP_PART_ALL, false},
    {.role = DOP_W_none},
};
const dop_tensor_name dop_hf_names_qwen3_experts[] = {
    MLP_EXPERTS,
    {DOP_W_expert_gate, "mlp.experts.gate_up_proj", DOP_PART_GATE, false}, /* vision models, in either order of axes */
    {DOP_W_expert_up, "mlp.experts.gate_up_proj", DOP_PART_UP, false},
    {DOP_W_expert_down, "mlp.experts.down_proj", DOP_PART_ALL, false},
    {.role = DOP_W_none},
};
const dop_tensor_name dop_hf_names_shared_experts[] = {
    MLP_EXPERTS,
    {DOP_W_router_correction, "mlp.gate.e_score_correction_bias", DOP_PART_ALL, false},
    SHARED_EXPERT("mlp.shared_experts"),
    {.role = DOP_W_none},
};
const dop_tensor_name dop_hf_names_ernie_experts[] = {
    MLP_EXPERTS,
    {DOP_W_router_correction, "mlp.moe_statics.e_score_correction_bias", DOP_PART_ROW, false},
    SHARED_EXPERT("mlp.shared_experts"),
    {.role = DOP_W_none},
};
const dop_tensor_name dop_hf_names_gemma4[] = {
    {DOP_W_post_dense_norm, "post_feedforward_layernorm_1.weight", DOP_PART_ALL, false},
    {DOP_W_router_norm, "router.scale", DOP_PART_ALL, false},
    {DOP_W_router, "router.proj.weight", DOP_PART_ALL, false},
    {DOP_W_expert_scale, "router.per_expert_scale", DOP_PART_ALL, false},
    {DOP_W_expert_norm, "pre_feedforward_layernorm_2.weight", DOP_PART_ALL, false},
    {DOP_W_expert_gate, "experts.gate_up_proj", DOP_PART_GATE, false},
    {DOP_W_expert_up, "experts.gate_up_proj", DOP_PART_UP, false},
    {DOP_W_expert_down, "experts.down_proj", DOP_PART_ALL, false},
    {DOP_W_post_expert_norm, "post_feedforward_layernorm_2.weight", DOP_PART_ALL, false},
    {DOP_W_post_attn_norm, "post_attention_layernorm.weight", DOP_PART_ALL, false},
    {DOP_W_ffn_norm, "pre_feedforward_layernorm.weight", DOP_PART_ALL, false},
    {DOP_W_post_ffn_norm, "post_feedforward_layernorm.weight", DOP_PART_ALL, false},
    {.role = DOP_W_none},
};
const dop_tensor_name dop_gguf_names_gemma4[] = {
    {DOP_W_post_dense_norm, "post_ffw_norm_1.weight", DOP_PART_ALL, false},
    {DOP_W_router_norm, "ffn_gate_inp.scale", DOP_PART_ALL, false},
    {DOP_W_expert_scale, "ffn_down_exps.scale", DOP_PART_ALL, false},
    {DOP_W_expert_norm, "pre_ffw_norm_2.weight", DOP_PART_ALL, false},
    {DOP_W_post_expert_norm, "post_ffw_norm_2.weight", DOP_PART_ALL, false},
    {.role = DOP_W_none},
};
const dop_tensor_name dop_hf_names_gpt_oss[] = {
    {DOP_W_sinks, "self_attn.sinks", DOP_PART_ALL, false},
    {DOP_W_router, "mlp.router.weight", DOP_PART_ALL, false},
    {DOP_W_router_bias, "mlp.router.bias", DOP_PART_ALL, false},
    /* `transposed` applies to floats, stored [inputs, outputs] (also what transformers saves dequantized); mxfp4 is
     * [outputs, inputs]. */
    {DOP_W_expert_gate, "mlp.experts.gate_up_proj", DOP_PART_EVEN, true},
    {DOP_W_expert_up, "mlp.experts.gate_up_proj", DOP_PART_ODD, true},
    {DOP_W_expert_down, "mlp.experts.down_proj", DOP_PART_ALL, true},
    {DOP_W_expert_gate_bias, "mlp.experts.gate_up_proj_bias", DOP_PART_EVEN, false},
    {DOP_W_expert_up_bias, "mlp.experts.gate_up_proj_bias", DOP_PART_ODD, false},
    {DOP_W_expert_down_bias, "mlp.experts.down_proj_bias", DOP_PART_ALL, false},
    {.role = DOP_W_none},
};

const dop_expert_keys dop_experts_deepseek_v3 = {
    .n = "n_routed_experts",
    .active = "num_experts_per_tok",
    .width = "moe_intermediate_size",
    .shared_n = "n_shared_experts",
    .normalized = "norm_topk_prob",
    .scale = "routed_scaling_factor",
    .groups = "n_group",
    .group_keep = "topk_group",
    .first = "first_k_dense_replace",
    .n_otherwise = 256,
    .active_otherwise = 8,
    .shared_otherwise = 1,
    .first_otherwise = 3,
    .gguf_plain = true, /* DeepSeek-V2's GGUF files do not state the score function */
    .facts = {.groups = 8,
              .group_best = 2,
              .group_keep = 4,
              .scale = 2.5,
              .score = DOP_SCORE_SIGMOID,
              .normalized = true,
              .sum_eps = 1e-20,
              .correction = true},
};
const dop_tensor_name dop_hf_names_deepseek_v3[] = {
    {DOP_W_q_a, "self_attn.q_a_proj.weight", DOP_PART_ALL, false},
    {DOP_W_q_a_bias, "self_attn.q_a_proj.bias", DOP_PART_ALL, false},
    {DOP_W_q_a_norm, "self_attn.q_a_layernorm.weight", DOP_PART_ALL, false},
    {DOP_W_q_plain, "self_attn.q_b_proj.weight", DOP_PART_PLAIN, false},
    {DOP_W_q_rotated, "self_attn.q_b_proj.weight", DOP_PART_ROTATED, false},
    {DOP_W_q_whole_plain, "self_attn.q_proj.weight", DOP_PART_PLAIN, false},
    {DOP_W_q_whole_rotated, "self_attn.q_proj.weight", DOP_PART_ROTATED, false},
    {DOP_W_kv_a, "self_attn.kv_a_proj_with_mqa.weight", DOP_PART_LATENT, false},
    {DOP_W_kv_a_bias, "self_attn.kv_a_proj_with_mqa.bias", DOP_PART_LATENT, false},
    {DOP_W_k_rotated, "self_attn.kv_a_proj_with_mqa.weight", DOP_PART_LATENT_ROTATED, false},
    {DOP_W_k_rotated_bias, "self_attn.kv_a_proj_with_mqa.bias", DOP_PART_LATENT_ROTATED, false},
    {DOP_W_kv_a_norm, "self_attn.kv_a_layernorm.weight", DOP_PART_ALL, false},
    {DOP_W_k_up, "self_attn.kv_b_proj.weight", DOP_PART_K_UP, true},
    {DOP_W_v_up, "self_attn.kv_b_proj.weight", DOP_PART_V_UP, false},
    {DOP_W_index_q, "self_attn.indexer.wq_b.weight", DOP_PART_ALL, false},
    {DOP_W_index_k, "self_attn.indexer.wk.weight", DOP_PART_ALL, false},
    {DOP_W_index_k_norm, "self_attn.indexer.k_norm.weight", DOP_PART_ALL, false},
    {DOP_W_index_k_norm_bias, "self_attn.indexer.k_norm.bias", DOP_PART_ALL, false},
    {DOP_W_index_weights, "self_attn.indexer.weights_proj.weight", DOP_PART_ALL, false},
    MLP_EXPERTS,
    {DOP_W_expert_gate, "mlp.experts.gate_up_proj", DOP_PART_GATE, false}, /* as saved by transformers 5 */
    {DOP_W_expert_up, "mlp.experts.gate_up_proj", DOP_PART_UP, false},
    {DOP_W_expert_down, "mlp.experts.down_proj", DOP_PART_ALL, false},
    {DOP_W_router_correction, "mlp.gate.e_score_correction_bias", DOP_PART_ALL, false},
    SHARED_EXPERT("mlp.shared_experts"),
    {.role = DOP_W_none},
};

const dop_hf_keys dop_hf_keys_llama4 = {
    .hidden = "hidden_size",
    .layers = "num_hidden_layers",
    .heads = "num_attention_heads",
    .ctx = "max_position_embeddings",
    .ffn = "intermediate_size_mlp",
    .act = "hidden_act",
    .eps = "rms_norm_eps",
};
const dop_expert_keys dop_experts_llama4 = {
    .n = "num_local_experts",
    .active = "num_experts_per_tok",
    .width = "intermediate_size",
    .shared_width = "intermediate_size",
    .step = "interleave_moe_layer_step",
    .only = "moe_layers",
    .n_otherwise = 16,
    .active_otherwise = 1,
    .shared_otherwise = 8192,
    .facts = {ONE_GROUP, .score = DOP_SCORE_SIGMOID, .scales_input = true},
};
const dop_tensor_name dop_hf_names_llama4[] = {
    {DOP_W_gate, "feed_forward.gate_proj.weight", DOP_PART_ALL, false},
    {DOP_W_up, "feed_forward.up_proj.weight", DOP_PART_ALL, false},
    {DOP_W_down, "feed_forward.down_proj.weight", DOP_PART_ALL, false},
    {DOP_W_router, "feed_forward.router.weight", DOP_PART_ALL, false},
    {DOP_W_expert_gate, "feed_forward.experts.gate_up_proj", DOP_PART_GATE, true},
    {DOP_W_expert_up, "feed_forward.experts.gate_up_proj", DOP_PART_UP, true},
    {DOP_W_expert_down, "feed_forward.experts.down_proj", DOP_PART_ALL, true},
    SHARED_EXPERT("feed_forward.shared_expert"),
    {.role = DOP_W_none},
};

/* DeepSeek-V3's routing, for families otherwise like Qwen3 or EXAONE 4. */
#define DEEPSEEK_CHOICE                                                                                              \
    .groups = 1, .group_best = 2, .group_keep = 1, .score = DOP_SCORE_SIGMOID, .normalized = true, .sum_eps = 1e-20, \
    .correction = true

/* DeepseekV2Moe: a group is ranked by its best expert; the weights are softmax scores, not normalized. */
const dop_expert_keys dop_experts_deepseek_v2 = {
    .n = "n_routed_experts",
    .active = "num_experts_per_tok",
    .width = "moe_intermediate_size",
    .shared_n = "n_shared_experts",
    .scale = "routed_scaling_factor",
    .groups = "n_group",
    .group_keep = "topk_group",
    .first = "first_k_dense_replace",
    .n_otherwise = 64,
    .active_otherwise = 6,
    .shared_otherwise = 2,
    .first_otherwise = 0,
    .facts = {ONE_GROUP},
};
const dop_expert_keys dop_experts_deepseek = {
    .n = "n_routed_experts",
    .active = "num_experts_per_tok",
    .width = "moe_intermediate_size",
    .shared_n = "n_shared_experts",
    .normalized = "norm_topk_prob",
    .first = "first_k_dense_replace",
    .n_otherwise = 64,
    .active_otherwise = 6,
    .shared_otherwise = 2,
    .first_otherwise = 0,
    .facts = {ONE_GROUP},
};
const dop_expert_keys dop_experts_bailing = {
    .n = "num_experts",
    .active = "num_experts_per_tok",
    .width = "moe_intermediate_size",
    .shared_n = "num_shared_experts",
    .normalized = "norm_topk_prob",
    .scale = "routed_scaling_factor",
    .groups = "n_group",
    .group_keep = "topk_group",
    .first = "first_k_dense_replace",
    .correction = "moe_router_enable_expert_bias",
    .n_otherwise = 256,
    .active_otherwise = 8,
    .shared_otherwise = 1,
    .first_otherwise = 0,
    .facts = {DEEPSEEK_CHOICE, .scale = 1},
};
/* Ling 1, Ling-Coder (modeling_bailing_moe.py of inclusionAI/Ling-lite) */
const dop_expert_keys dop_experts_bailing_1 = {
    .n = "num_experts",
    .active = "num_experts_per_tok",
    .width = "moe_intermediate_size",
    .shared_n = "num_shared_experts",
    .normalized = "norm_topk_prob",
    .first = "first_k_dense_replace",
    .n_otherwise = 16,
    .active_otherwise = 2,
    .shared_otherwise = 0,
    .first_otherwise = 0,
    .facts = {ONE_GROUP},
};
const dop_tensor_name dop_hf_names_bailing[] = {
    {DOP_W_embed, "word_embeddings.weight", DOP_PART_ALL, false},
    {DOP_W_q, "attention.query_key_value.weight", DOP_PART_Q, false},
    {DOP_W_k, "attention.query_key_value.weight", DOP_PART_K, false},
    {DOP_W_v, "attention.query_key_value.weight", DOP_PART_V, false},
    {DOP_W_q_bias, "attention.query_key_value.bias", DOP_PART_Q, false},
    {DOP_W_k_bias, "attention.query_key_value.bias", DOP_PART_K, false},
    {DOP_W_v_bias, "attention.query_key_value.bias", DOP_PART_V, false},
    {DOP_W_q_norm, "attention.query_layernorm.weight", DOP_PART_ALL, false},
    {DOP_W_k_norm, "attention.key_layernorm.weight", DOP_PART_ALL, false},
    {DOP_W_o, "attention.dense.weight", DOP_PART_ALL, false},
    {DOP_W_o_bias, "attention.dense.bias", DOP_PART_ALL, false},
    MLP_EXPERTS,
    {DOP_W_router_correction, "mlp.gate.expert_bias", DOP_PART_ALL, false},
    SHARED_EXPERT("mlp.shared_experts"),
    {.role = DOP_W_none},
};
const dop_expert_keys dop_experts_exaone = {
    .n = "num_experts",
    .active = "num_experts_per_tok",
    .width = "moe_intermediate_size",
    .shared_n = "num_shared_experts",
    .normalized = "norm_topk_prob",
    .scale = "routed_scaling_factor",
    .groups = "n_group",
    .group_keep = "topk_group",
    .first = "first_k_dense_replace",
    .n_otherwise = 64,
    .active_otherwise = 8,
    .shared_otherwise = 1,
    .first_otherwise = 1,
    .facts = {DEEPSEEK_CHOICE, .scale = 2.5},
};
const dop_expert_keys dop_experts_hunyuan = {
    .n = "num_experts",
    .active = "moe_topk",
    .width = "intermediate_size",
    .shared_n = "num_shared_expert",
    .n_otherwise = 1,
    .active_otherwise = 1,
    .shared_otherwise = 1,
    .facts = {ONE_GROUP, .normalized = true},
};
const dop_expert_keys dop_experts_hy_v3 = {
    .n = "num_experts",
    .active = "num_experts_per_tok",
    .width = "moe_intermediate_size",
    .shared_n = "num_shared_experts",
    .scale = "router_scaling_factor",
    .n_otherwise = 192,
    .active_otherwise = 8,
    .shared_otherwise = 1,
    .first_otherwise = 1,
    .facts = {.groups = 1,
              .group_best = 1,
              .group_keep = 1,
              .scale = 2.826,
              .score = DOP_SCORE_SIGMOID,
              .normalized = true,
              .sum_eps = 1e-20,
              .correction = true},
};
const dop_expert_keys dop_experts_afmoe = {
    .n = "num_experts",
    .active = "num_experts_per_tok",
    .width = "moe_intermediate_size",
    .shared_n = "num_shared_experts",
    .scale = "route_scale",
    .first = "num_dense_layers",
    .n_otherwise = 64,
    .active_otherwise = 6,
    .shared_otherwise = 2,
    .first_otherwise = 1,
    .facts = {ONE_GROUP, .score = DOP_SCORE_SIGMOID, .normalized = true, .sum_eps = 1e-20, .correction = true},
};
const dop_expert_keys dop_experts_laguna = {
    .n = "num_experts",
    .active = "num_experts_per_tok",
    .width = "moe_intermediate_size",
    .shared_width = "shared_expert_intermediate_size",
    .scale = "moe_routed_scaling_factor",
    .n_otherwise = 256,
    .active_otherwise = 8,
    .shared_otherwise = 512,
    .first_otherwise = 1,
    .facts = {ONE_GROUP, .score = DOP_SCORE_SIGMOID, .normalized = true, .correction = true},
};
const dop_expert_keys dop_experts_mimo = {
    .n = "n_routed_experts",
    .active = "num_experts_per_tok",
    .width = "moe_intermediate_size",
    .normalized = "norm_topk_prob",
    .scale = "routed_scaling_factor",
    .groups = "n_group",
    .group_keep = "topk_group",
    .n_otherwise = 256,
    .active_otherwise = 8,
    .first_otherwise = 1,
    .facts = {DEEPSEEK_CHOICE, .scale = 1},
};
const dop_hf_keys dop_hf_keys_mimo = {
    .hidden = "hidden_size",
    .layers = "num_hidden_layers",
    .heads = "num_attention_heads",
    .ctx = "max_position_embeddings",
    .ffn = "intermediate_size",
    .act = "hidden_act",
    .eps = "rms_norm_eps|layernorm_epsilon",
};
const dop_expert_keys dop_experts_granite = {
    .n = "num_local_experts",
    .active = "num_experts_per_tok",
    .width = "intermediate_size",
    .shared_width = "shared_intermediate_size",
    .n_otherwise = 8,
    .active_otherwise = 2,
    .facts = {ONE_GROUP, .normalized = true},
};
const dop_expert_keys dop_experts_dbrx = {
    .n = "ffn_config.moe_num_experts",
    .active = "ffn_config.moe_top_k",
    .width = "ffn_config.ffn_hidden_size",
    .norm_order = "ffn_config.moe_normalize_expert_weights",
    .n_otherwise = 4,
    .active_otherwise = 1,
    .facts = {ONE_GROUP, .normalized = true},
};

const dop_tensor_name dop_hf_names_exaone_moe[] = {
    MLP_EXPERTS,
    {DOP_W_router_correction, "mlp.e_score_correction_bias", DOP_PART_ALL, false},
    SHARED_EXPERT("mlp.shared_experts"),
    {.role = DOP_W_none},
};
const dop_tensor_name dop_hf_names_hunyuan_moe[] = {
    MLP_EXPERTS,
    {DOP_W_q_norm, "self_attn.query_layernorm.weight", DOP_PART_ALL, false},
    {DOP_W_k_norm, "self_attn.key_layernorm.weight", DOP_PART_ALL, false},
    SHARED_EXPERT("mlp.shared_mlp"),
    {DOP_W_router, "mlp.gate.wg.weight", DOP_PART_ALL, false},
    {.role = DOP_W_none},
};
const dop_tensor_name dop_hf_names_hy_v3[] = {
    MLP_EXPERTS,
    SHARED_EXPERT("mlp.shared_mlp"),
    {DOP_W_router, "mlp.router.gate.weight", DOP_PART_ALL, false},
    {DOP_W_router_correction, "mlp.expert_bias", DOP_PART_ALL, false},
    {.role = DOP_W_none},
};
const dop_tensor_name dop_hf_names_afmoe[] = {
    MLP_EXPERTS,
    SHARED_EXPERT("mlp.shared_experts"),
    {DOP_W_router, "mlp.router.gate.weight", DOP_PART_ALL, false},
    {DOP_W_router_correction, "mlp.expert_bias", DOP_PART_ALL, false},
    {DOP_W_attn_gate, "self_attn.gate_proj.weight", DOP_PART_ALL, false},
    {DOP_W_post_attn_norm, "post_attention_layernorm.weight", DOP_PART_ALL, false},
    {DOP_W_ffn_norm, "pre_mlp_layernorm.weight", DOP_PART_ALL, false},
    {DOP_W_post_ffn_norm, "post_mlp_layernorm.weight", DOP_PART_ALL, false},
    {.role = DOP_W_none},
};
const dop_tensor_name dop_hf_names_laguna[] = {
    MLP_EXPERTS,
    SHARED_EXPERT("mlp.shared_expert"),
    {DOP_W_router_correction, "mlp.experts.e_score_correction_bias", DOP_PART_ALL, false},
    {DOP_W_attn_gate, "self_attn.g_proj.weight", DOP_PART_ALL, false},
    {.role = DOP_W_none},
};
const dop_tensor_name dop_hf_names_mimo[] = {
    MLP_EXPERTS,
    {DOP_W_router_correction, "mlp.gate.e_score_correction_bias", DOP_PART_ALL, false},
    {DOP_W_sinks, "self_attn.attention_sink_bias", DOP_PART_ALL, false},
    {.role = DOP_W_none},
};
const dop_tensor_name dop_hf_names_flex_olmo[] = {
    MLP_EXPERTS,
    {DOP_W_post_attn_norm, "post_attention_layernorm.weight", DOP_PART_ALL, false},
    {DOP_W_post_ffn_norm, "post_feedforward_layernorm.weight", DOP_PART_ALL, false},
    {.role = DOP_W_none},
};
const dop_hf_keys dop_hf_keys_dbrx = {
    .hidden = "d_model",
    .layers = "n_layers",
    .heads = "n_heads",
    .kv_heads = "attn_config.kv_n_heads",
    .ctx = "max_seq_len",
    .ffn = "ffn_config.ffn_hidden_size",
    .act = "ffn_config.ffn_act_fn.name",
    .eps = "layer_norm_eps",
    .theta = "attn_config.rope_theta",
};
const dop_tensor_name dop_hf_names_dbrx[] = {
    {DOP_W_embed, "wte.weight", DOP_PART_ALL, false},
    {DOP_W_final_norm, "norm_f.weight", DOP_PART_ALL, false},
    {DOP_W_lm_head, "lm_head.weight", DOP_PART_ALL, false},
    {DOP_W_attn_norm, "norm_attn_norm.norm_1.weight", DOP_PART_ALL, false},
    {DOP_W_ffn_norm, "norm_attn_norm.norm_2.weight", DOP_PART_ALL, false},
    {DOP_W_q, "norm_attn_norm.attn.Wqkv.weight", DOP_PART_Q, false},
    {DOP_W_k, "norm_attn_norm.attn.Wqkv.weight", DOP_PART_K, false},
    {DOP_W_v, "norm_attn_norm.attn.Wqkv.weight", DOP_PART_V, false},
    {DOP_W_o, "norm_attn_norm.attn.out_proj.weight", DOP_PART_ALL, false},
    {DOP_W_router, "ffn.router.layer.weight", DOP_PART_ALL, false},
    {DOP_W_expert_gate, "ffn.experts.mlp.w1", DOP_PART_FLAT, false},
    {DOP_W_expert_up, "ffn.experts.mlp.v1", DOP_PART_FLAT, false},
    {DOP_W_expert_down, "ffn.experts.mlp.w2", DOP_PART_FLAT, true},
    {.role = DOP_W_none},
};
const dop_expert_keys dop_experts_phimoe = {
    .n = "num_local_experts",
    .active = "num_experts_per_tok",
    .width = "intermediate_size",
    .jitter = "router_jitter_noise",
    .n_otherwise = 16,
    .active_otherwise = 2,
    .facts = {ONE_GROUP, .score = DOP_SCORE_NEAR, .near = 0.02},
};
