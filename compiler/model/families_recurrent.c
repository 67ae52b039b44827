/* What the recurrent families' rows in families.c point to: how their files spell things. */
#include "compiler/model/families_recurrent.h"
#include "compiler/model/families_experts.h"

const dop_hf_keys dop_keys_mamba2 = {
    .hidden = "hidden_size",
    .layers = "num_hidden_layers",
    .act = "hidden_act",
    .eps = "layer_norm_epsilon",
};

const dop_hf_keys dop_keys_lfm2 = {
    .hidden = "hidden_size",
    .layers = "num_hidden_layers",
    .heads = "num_attention_heads",
    .ctx = "max_position_embeddings",
    .ffn = "intermediate_size",
    .act = "hidden_act",
    .eps = "norm_eps",
    .theta = "theta",
};

/* Mamba-2 as transformers names it, below the mixer's own name. */
#define MAMBA(name)                                                                                                   \
    {DOP_W_mix_z, name "in_proj.weight", DOP_PART_MIX_Z, false},                                                      \
        {DOP_W_mix_in, name "in_proj.weight", DOP_PART_MIX_IN, false},                                                \
        {DOP_W_mix_dt, name "in_proj.weight", DOP_PART_MIX_DT, false},                                                \
        {DOP_W_mix_z_bias, name "in_proj.bias", DOP_PART_MIX_Z, false},                                               \
        {DOP_W_mix_in_bias, name "in_proj.bias", DOP_PART_MIX_IN, false},                                             \
        {DOP_W_mix_dt_in, name "in_proj.bias", DOP_PART_MIX_DT, false},                                               \
        {DOP_W_mix_out_bias, name "out_proj.bias", DOP_PART_ALL, false},                                              \
        {DOP_W_mix_dt_bias, name "dt_bias", DOP_PART_ALL, false},                                                     \
        {DOP_W_taps, name "conv1d.weight", DOP_PART_TAPS, false},                                                     \
        {DOP_W_taps_bias, name "conv1d.bias", DOP_PART_ALL, false}, {DOP_W_decay, name "A_log", DOP_PART_ALL, false}, \
        {DOP_W_skip, name "D", DOP_PART_ALL, false}, {DOP_W_mix_norm, name "norm.weight", DOP_PART_ALL, false},       \
    {                                                                                                                 \
        DOP_W_mix_out, name "out_proj.weight", DOP_PART_ALL, false                                                    \
    }

const dop_tensor_name dop_names_mamba2[] = {
    {DOP_W_embed, "embeddings.weight", DOP_PART_ALL, false},
    {DOP_W_final_norm, "norm_f.weight", DOP_PART_ALL, false},
    {DOP_W_lm_head, "lm_head.weight", DOP_PART_ALL, false},
    {DOP_W_attn_norm, "norm.weight", DOP_PART_ALL, false},
    MAMBA("mixer."),
    {.role = DOP_W_none},
};

const dop_tensor_name dop_names_falcon_h1[] = {
    {DOP_W_final_norm, "final_layernorm.weight", DOP_PART_ALL, false},
    {DOP_W_ffn_norm, "pre_ff_layernorm.weight", DOP_PART_ALL, false},
    {DOP_W_gate, "feed_forward.gate_proj.weight", DOP_PART_ALL, false},
    {DOP_W_up, "feed_forward.up_proj.weight", DOP_PART_ALL, false},
    {DOP_W_down, "feed_forward.down_proj.weight", DOP_PART_ALL, false},
    {DOP_W_gate_bias, "feed_forward.gate_proj.bias", DOP_PART_ALL, false},
    {DOP_W_up_bias, "feed_forward.up_proj.bias", DOP_PART_ALL, false},
    {DOP_W_down_bias, "feed_forward.down_proj.bias", DOP_PART_ALL, false},
    MAMBA("mamba."),
    {.role = DOP_W_none},
};

const dop_tensor_name dop_names_lfm2[] = {
    {DOP_W_final_norm, "embedding_norm.weight", DOP_PART_ALL, false},
    {DOP_W_attn_norm, "operator_norm.weight", DOP_PART_ALL, false},
    {DOP_W_o, "self_attn.out_proj.weight", DOP_PART_ALL, false},
    {DOP_W_q_norm, "self_attn.q_layernorm.weight", DOP_PART_ALL, false},
    {DOP_W_k_norm, "self_attn.k_layernorm.weight", DOP_PART_ALL, false},
    {DOP_W_conv_b, "conv.in_proj.weight", DOP_PART_THIRD_1, false},
    {DOP_W_conv_c, "conv.in_proj.weight", DOP_PART_THIRD_2, false},
    {DOP_W_conv_x, "conv.in_proj.weight", DOP_PART_THIRD_3, false},
    {DOP_W_conv_b_bias, "conv.in_proj.bias", DOP_PART_THIRD_1, false},
    {DOP_W_conv_c_bias, "conv.in_proj.bias", DOP_PART_THIRD_2, false},
    {DOP_W_conv_x_bias, "conv.in_proj.bias", DOP_PART_THIRD_3, false},
    {DOP_W_mix_out_bias, "conv.out_proj.bias", DOP_PART_ALL, false},
    {DOP_W_taps, "conv.conv.weight", DOP_PART_TAPS, false},
    {DOP_W_taps_bias, "conv.conv.bias", DOP_PART_ALL, false},
    {DOP_W_mix_out, "conv.out_proj.weight", DOP_PART_ALL, false},
    {DOP_W_ffn_norm, "ffn_norm.weight", DOP_PART_ALL, false},
    {DOP_W_gate, "feed_forward.w1.weight", DOP_PART_ALL, false},
    {DOP_W_up, "feed_forward.w3.weight", DOP_PART_ALL, false},
    {DOP_W_down, "feed_forward.w2.weight", DOP_PART_ALL, false},
    {.role = DOP_W_none},
};

/* What Qwen's mixers with a delta rule have in common. */
#define DELTA                                                                    \
    {DOP_W_q, "self_attn.q_proj.weight", DOP_PART_PAIR_Q, false},                \
        {DOP_W_attn_gate, "self_attn.q_proj.weight", DOP_PART_PAIR_GATE, false}, \
        {DOP_W_mix_dt_bias, "linear_attn.dt_bias", DOP_PART_ALL, false},         \
        {DOP_W_taps, "linear_attn.conv1d.weight", DOP_PART_TAPS, false},         \
        {DOP_W_decay, "linear_attn.A_log", DOP_PART_ALL, false},                 \
        {DOP_W_mix_norm, "linear_attn.norm.weight", DOP_PART_ALL, false},        \
    {                                                                            \
        DOP_W_mix_out, "linear_attn.out_proj.weight", DOP_PART_ALL, false        \
    }

const dop_tensor_name dop_names_qwen3_5[] = {
    DELTA,
    {DOP_W_mix_in, "linear_attn.in_proj_qkv.weight", DOP_PART_ALL, false},
    {DOP_W_mix_z, "linear_attn.in_proj_z.weight", DOP_PART_ALL, false},
    {DOP_W_mix_dt, "linear_attn.in_proj_a.weight", DOP_PART_ALL, false},
    {DOP_W_mix_beta, "linear_attn.in_proj_b.weight", DOP_PART_ALL, false},
    {.role = DOP_W_none},
};

/* What GGUF files name in another way than dop_gguf_names. */
const dop_tensor_name dop_gguf_names_falcon_h1[] = {
    {DOP_W_ffn_norm, "ffn_norm", DOP_PART_ALL, false}, /* without ".weight" */
    {.role = DOP_W_none},
};

const dop_tensor_name dop_gguf_names_lfm2[] = {
    {DOP_W_final_norm, "token_embd_norm.weight", DOP_PART_ALL, false},
    {DOP_W_conv_b, "shortconv.in_proj.weight", DOP_PART_THIRD_1, false},
    {DOP_W_conv_c, "shortconv.in_proj.weight", DOP_PART_THIRD_2, false},
    {DOP_W_conv_x, "shortconv.in_proj.weight", DOP_PART_THIRD_3, false},
    {DOP_W_taps, "shortconv.conv.weight", DOP_PART_TAPS, false},
    {DOP_W_taps_bias, "shortconv.conv.bias", DOP_PART_ALL, false},
    {DOP_W_mix_out, "shortconv.out_proj.weight", DOP_PART_ALL, false},
    {.role = DOP_W_none},
};

/* Layers of the gated delta rule and attention with a gate, as llama.cpp's converter names them. */
#define GGUF_DELTA                                                                                                     \
    {DOP_W_q, "attn_q.weight", DOP_PART_PAIR_Q, false}, {DOP_W_attn_gate, "attn_q.weight", DOP_PART_PAIR_GATE, false}, \
        {DOP_W_mix_in, "attn_qkv.weight", DOP_PART_ALL, false},                                                        \
        {DOP_W_mix_z, "attn_gate.weight", DOP_PART_ALL, false},                                                        \
    {                                                                                                                  \
        DOP_W_ffn_norm, "post_attention_norm.weight", DOP_PART_ALL, false                                              \
    }

const dop_tensor_name dop_gguf_names_qwen3_5[] = {
    GGUF_DELTA,
    {DOP_W_mix_dt, "ssm_alpha.weight", DOP_PART_ALL, false},
    {DOP_W_mix_beta, "ssm_beta.weight", DOP_PART_ALL, false},
    {.role = DOP_W_none},
};

const dop_hf_recurrent dop_recurrent_mamba2 = {
    .kind = DOP_MIXER_SSM,
    .taps = {"conv_kernel", 4},
    .heads = {"num_heads", 128},
    .head_dim = {"head_dim", 64},
    .groups = {"n_groups", 8},
    .state_dim = {"state_size", 128},
    .expand = "expand",
    .conv_bias = {"use_conv_bias", true},
    .norm = true,
    .norm_rows = true,
};
const dop_hf_recurrent dop_recurrent_falcon_h1 = {
    .kind = DOP_MIXER_SSM,
    .beside = true,
    .taps = {"mamba_d_conv", 4},
    .heads = {"mamba_n_heads", 128},
    .head_dim = {"mamba_d_head", 0},
    .groups = {"mamba_n_groups", 1},
    .state_dim = {"mamba_d_state", 256},
    .width = "mamba_d_ssm",
    .expand = "mamba_expand",
    .conv_bias = {"mamba_conv_bias", true},
    .multipliers = true,
};
const dop_hf_recurrent dop_recurrent_lfm2 = {
    .kind = DOP_MIXER_CONV,
    .layer_types = {"conv"},
    .attention_list = "full_attn_idxs",
    .taps = {"conv_L_cache", 3},
    .conv_bias = {"conv_bias", false},
    .adjusts_ffn = true,
};
const dop_hf_recurrent dop_recurrent_qwen3_5 = {
    .kind = DOP_MIXER_DELTA,
    .layer_types = {"linear_attention"},
    .interval = "full_attention_interval",
    .taps = {"linear_conv_kernel_dim", 4},
    .heads = {"linear_num_value_heads", 32},
    .head_dim = {"linear_value_head_dim", 128},
    .groups = {"linear_num_key_heads", 16},
    .state_dim = {"linear_key_head_dim", 128},
    .norm = true,
    .gguf_in_turn = true,
};

const dop_tensor_name dop_names_granite_hybrid[] = {
    {DOP_W_router, "block_sparse_moe.router.layer.weight", DOP_PART_ALL, false},
    {DOP_W_expert_gate, "block_sparse_moe.input_linear.weight", DOP_PART_GATE, false},
    {DOP_W_expert_up, "block_sparse_moe.input_linear.weight", DOP_PART_UP, false},
    {DOP_W_expert_down, "block_sparse_moe.output_linear.weight", DOP_PART_ALL, false},
    {DOP_W_shared_gate, "shared_mlp.input_linear.weight", DOP_PART_GATE, false},
    {DOP_W_shared_up, "shared_mlp.input_linear.weight", DOP_PART_UP, false},
    {DOP_W_shared_down, "shared_mlp.output_linear.weight", DOP_PART_ALL, false},
    {DOP_W_gate, "shared_mlp.input_linear.weight", DOP_PART_GATE, false}, /* of models without experts */
    {DOP_W_up, "shared_mlp.input_linear.weight", DOP_PART_UP, false},
    {DOP_W_down, "shared_mlp.output_linear.weight", DOP_PART_ALL, false},
    MAMBA("mamba."),
    {.role = DOP_W_none},
};
const dop_hf_recurrent dop_recurrent_granite_hybrid = {
    .kind = DOP_MIXER_SSM,
    .layer_types = {"linear_attention", "mamba"},
    .positions = "position_embedding_type",
    .taps = {"mamba_d_conv", 4},
    .heads = {"mamba_n_heads", 128},
    .head_dim = {"mamba_d_head", 0},
    .groups = {"mamba_n_groups", 1},
    .state_dim = {"mamba_d_state", 256},
    .expand = "mamba_expand",
    .conv_bias = {"mamba_conv_bias", true},
    .norm = true,
    .norm_rows = true,
};
const dop_expert_keys dop_experts_granite_hybrid = {
    .n = "num_local_experts",
    .active = "num_experts_per_tok",
    .width = "intermediate_size",
    .shared_width = "shared_intermediate_size",
    .shared_alone = true,
    .n_otherwise = 8,
    .active_otherwise = 2,
    .shared_otherwise = 1024,
    .facts = {.groups = 1, .group_best = 1, .group_keep = 1, .scale = 1, .normalized = true},
};

const dop_tensor_name dop_names_qwen3_next[] = {
    DELTA,
    {DOP_W_mix_in, "linear_attn.in_proj_qkvz.weight", DOP_PART_GROUP_Q, false},
    {DOP_W_mix_in, "linear_attn.in_proj_qkvz.weight", DOP_PART_GROUP_K, false},
    {DOP_W_mix_in, "linear_attn.in_proj_qkvz.weight", DOP_PART_GROUP_V, false},
    {DOP_W_mix_z, "linear_attn.in_proj_qkvz.weight", DOP_PART_GROUP_Z, false},
    {DOP_W_mix_beta, "linear_attn.in_proj_ba.weight", DOP_PART_GROUP_BETA, false},
    {DOP_W_mix_dt, "linear_attn.in_proj_ba.weight", DOP_PART_GROUP_DT, false},
    MLP_EXPERTS,
    SHARED_EXPERT("mlp.shared_expert"),
    {DOP_W_shared_router, "mlp.shared_expert_gate.weight", DOP_PART_ALL, false},
    {.role = DOP_W_none},
};
/* llama.cpp's converter puts q, k and v of all groups below each other, but leaves beta and dt as they are. */
const dop_tensor_name dop_gguf_names_qwen3_next[] = {
    GGUF_DELTA,
    {DOP_W_mix_beta, "ssm_ba.weight", DOP_PART_GROUP_BETA, false},
    {DOP_W_mix_dt, "ssm_ba.weight", DOP_PART_GROUP_DT, false},
    {.role = DOP_W_none},
};
const dop_hf_recurrent dop_recurrent_qwen3_next = {
    .kind = DOP_MIXER_DELTA,
    .layer_types = {"linear_attention"},
    .interval = "full_attention_interval",
    .taps = {"linear_conv_kernel_dim", 4},
    .heads = {"linear_num_value_heads", 32},
    .head_dim = {"linear_value_head_dim", 128},
    .groups = {"linear_num_key_heads", 16},
    .state_dim = {"linear_key_head_dim", 128},
    .norm = true,
};
const dop_expert_keys dop_experts_qwen3_next = {
    .n = "num_experts",
    .n_too = "num_local_experts",
    .active = "num_experts_per_tok",
    .width = "moe_intermediate_size",
    .shared_width = "shared_expert_intermediate_size",
    .normalized = "norm_topk_prob",
    .step = "decoder_sparse_step",
    .dense = "mlp_only_layers",
    .n_otherwise = 512,
    .active_otherwise = 10,
    .shared_otherwise = 512,
    .gguf_normalized = true,
    .facts = {.groups = 1, .group_best = 1, .group_keep = 1, .scale = 1, .normalized = true, .shared_gate = true},
};
