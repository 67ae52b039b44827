/* Names and fields of the families with experts; their rows are in families_experts.def. */
#include "compiler/families_experts.h"

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
const dop_expert_keys dop_experts_glm4 = {
    .n = "n_routed_experts",
    .active = "num_experts_per_tok",
    .width = "moe_intermediate_size",
    .shared_n = "n_shared_experts",
    .normalized = "norm_topk_prob",
    .scale = "routed_scaling_factor",
    .groups = "n_group",
    .group_keep = "topk_group",
    .first = "first_k_dense_replace",
    .n_otherwise = 128,
    .active_otherwise = 8,
    .shared_otherwise = 1,
    .first_otherwise = 1,
    .facts = {.groups = 1,
              .group_best = 2,
              .group_keep = 1,
              .scale = 1,
              .score = DOP_SCORE_SIGMOID,
              .normalized = true,
              .sum_eps = 1e-20,
              .correction = true},
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
    {DOP_W_router, "mlp.gate.weight", DOP_PART_ALL, false},
    {DOP_W_expert_gate, "mlp.experts.*.gate_proj.weight", DOP_PART_ALL, false},
    {DOP_W_expert_up, "mlp.experts.*.up_proj.weight", DOP_PART_ALL, false},
    {DOP_W_expert_down, "mlp.experts.*.down_proj.weight", DOP_PART_ALL, false},
    {DOP_W_shared_gate, "mlp.shared_expert.gate_proj.weight", DOP_PART_ALL, false},
    {DOP_W_shared_up, "mlp.shared_expert.up_proj.weight", DOP_PART_ALL, false},
    {DOP_W_shared_down, "mlp.shared_expert.down_proj.weight", DOP_PART_ALL, false},
    {DOP_W_shared_router, "mlp.shared_expert_gate.weight", DOP_PART_ALL, false},
    {.role = DOP_W_none},
};
const dop_tensor_name dop_hf_names_shared_experts[] = {
    {DOP_W_router, "mlp.gate.weight", DOP_PART_ALL, false},
    {DOP_W_router_correction, "mlp.gate.e_score_correction_bias", DOP_PART_ALL, false},
    {DOP_W_expert_gate, "mlp.experts.*.gate_proj.weight", DOP_PART_ALL, false},
    {DOP_W_expert_up, "mlp.experts.*.up_proj.weight", DOP_PART_ALL, false},
    {DOP_W_expert_down, "mlp.experts.*.down_proj.weight", DOP_PART_ALL, false},
    {DOP_W_shared_gate, "mlp.shared_experts.gate_proj.weight", DOP_PART_ALL, false},
    {DOP_W_shared_up, "mlp.shared_experts.up_proj.weight", DOP_PART_ALL, false},
    {DOP_W_shared_down, "mlp.shared_experts.down_proj.weight", DOP_PART_ALL, false},
    {.role = DOP_W_none},
};
const dop_tensor_name dop_hf_names_ernie_experts[] = {
    {DOP_W_router, "mlp.gate.weight", DOP_PART_ALL, false},
    {DOP_W_router_correction, "mlp.moe_statics.e_score_correction_bias", DOP_PART_ROW, false},
    {DOP_W_expert_gate, "mlp.experts.*.gate_proj.weight", DOP_PART_ALL, false},
    {DOP_W_expert_up, "mlp.experts.*.up_proj.weight", DOP_PART_ALL, false},
    {DOP_W_expert_down, "mlp.experts.*.down_proj.weight", DOP_PART_ALL, false},
    {DOP_W_shared_gate, "mlp.shared_experts.gate_proj.weight", DOP_PART_ALL, false},
    {DOP_W_shared_up, "mlp.shared_experts.up_proj.weight", DOP_PART_ALL, false},
    {DOP_W_shared_down, "mlp.shared_experts.down_proj.weight", DOP_PART_ALL, false},
    {.role = DOP_W_none},
};
const dop_tensor_name dop_hf_names_gpt_oss[] = {
    {DOP_W_sinks, "self_attn.sinks", DOP_PART_ALL, false},
    {DOP_W_router, "mlp.router.weight", DOP_PART_ALL, false},
    {DOP_W_router_bias, "mlp.router.bias", DOP_PART_ALL, false},
    {DOP_W_expert_gate, "mlp.experts.gate_up_proj", DOP_PART_EVEN, false},
    {DOP_W_expert_up, "mlp.experts.gate_up_proj", DOP_PART_ODD, false},
    {DOP_W_expert_down, "mlp.experts.down_proj", DOP_PART_ALL, false},
    {DOP_W_expert_gate_bias, "mlp.experts.gate_up_proj_bias", DOP_PART_EVEN, false},
    {DOP_W_expert_up_bias, "mlp.experts.gate_up_proj_bias", DOP_PART_ODD, false},
    {DOP_W_expert_down_bias, "mlp.experts.down_proj_bias", DOP_PART_ALL, false},
    {.role = DOP_W_none},
};
