/* Tensor names and fields of the recurrent families, whose rows are in families/recurrent.def. */
#include "frontend/families/families_recurrent.h"
#include "frontend/families/families_experts.h"

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

/* Tensor names of a Mamba-2 mixer in transformers. `name`: the mixer's own name, with a dot. */
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

/* Common tensor names of Qwen's families with a gated delta rule. */
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

/* GGUF tensor names that differ from dop_gguf_names. */
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

/* Tensor names of the gated delta rule and of gated attention in files of llama.cpp's converter. */
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
    .gate_type = "output_gate_type",
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
    {DOP_W_gate, "shared_mlp.input_linear.weight", DOP_PART_GATE, false}, /* models without experts */
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
/* llama.cpp's converter stacks q, k and v of all groups, but leaves beta and dt interleaved by group. */
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
    .gate_type = "output_gate_type",
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

const dop_tensor_name dop_names_qwen3_5_moe[] = {
    DELTA,
    {DOP_W_mix_in, "linear_attn.in_proj_qkv.weight", DOP_PART_ALL, false},
    {DOP_W_mix_z, "linear_attn.in_proj_z.weight", DOP_PART_ALL, false},
    {DOP_W_mix_dt, "linear_attn.in_proj_a.weight", DOP_PART_ALL, false},
    {DOP_W_mix_beta, "linear_attn.in_proj_b.weight", DOP_PART_ALL, false},
    MLP_EXPERTS,
    SHARED_EXPERT("mlp.shared_expert"),
    {DOP_W_shared_router, "mlp.shared_expert_gate.weight", DOP_PART_ALL, false},
    {DOP_W_expert_gate, "mlp.experts.gate_up_proj", DOP_PART_GATE, false}, /* published checkpoints */
    {DOP_W_expert_up, "mlp.experts.gate_up_proj", DOP_PART_UP, false},
    {DOP_W_expert_down, "mlp.experts.down_proj", DOP_PART_ALL, false},
    {.role = DOP_W_none},
};

const dop_tensor_name dop_names_lfm2_moe[] = {
    {DOP_W_router, "feed_forward.gate.weight", DOP_PART_ALL, false},
    {DOP_W_router_correction, "feed_forward.expert_bias", DOP_PART_ALL, false},
    {DOP_W_expert_gate, "feed_forward.experts.*.w1.weight", DOP_PART_ALL, false},
    {DOP_W_expert_up, "feed_forward.experts.*.w3.weight", DOP_PART_ALL, false},
    {DOP_W_expert_down, "feed_forward.experts.*.w2.weight", DOP_PART_ALL, false},
    {DOP_W_embed, "embed_tokens.weight", DOP_PART_ALL, false},
    {DOP_W_lm_head, "lm_head.weight", DOP_PART_ALL, false},
    {DOP_W_q, "self_attn.q_proj.weight", DOP_PART_ALL, false},
    {DOP_W_k, "self_attn.k_proj.weight", DOP_PART_ALL, false},
    {DOP_W_v, "self_attn.v_proj.weight", DOP_PART_ALL, false},
    {.role = DOP_W_none},
};
const dop_expert_keys dop_experts_lfm2 = {
    .n = "num_experts",
    .active = "num_experts_per_tok",
    .width = "moe_intermediate_size",
    .normalized = "norm_topk_prob",
    .scale = "routed_scaling_factor",
    .correction = "use_expert_bias",
    .first = "num_dense_layers",
    .n_otherwise = 32,
    .active_otherwise = 4,
    .first_otherwise = 2,
    .facts = {.groups = 1,
              .group_best = 1,
              .group_keep = 1,
              .scale = 1,
              .score = DOP_SCORE_SIGMOID,
              .normalized = true,
              .sum_eps = 1e-6,
              .correction = true},
};
const dop_hf_recurrent dop_recurrent_lfm2_moe = {
    .kind = DOP_MIXER_CONV,
    .layer_types = {"conv"},
    .attention_list = "full_attn_idxs",
    .taps = {"conv_L_cache", 3},
    .conv_bias = {"conv_bias", false},
};

/* Nemotron-H: a layer is a mixer or a feed-forward part; files name either "mixer". */
const dop_hf_keys dop_keys_nemotron_h = {
    .hidden = "hidden_size",
    .layers = "num_hidden_layers",
    .heads = "num_attention_heads",
    .ctx = "max_position_embeddings",
    .ffn = "intermediate_size",
    .act = "mlp_hidden_act",
    .eps = "layer_norm_epsilon",
};
const dop_tensor_name dop_names_nemotron_h[] = {
    {DOP_W_embed, "embeddings.weight", DOP_PART_ALL, false},
    {DOP_W_final_norm, "norm_f.weight", DOP_PART_ALL, false},
    {DOP_W_lm_head, "lm_head.weight", DOP_PART_ALL, false},
    {DOP_W_attn_norm, "norm.weight", DOP_PART_ALL, false},
    {DOP_W_ffn_norm, "norm.weight", DOP_PART_ALL, false},
    {DOP_W_q, "mixer.q_proj.weight", DOP_PART_ALL, false},
    {DOP_W_k, "mixer.k_proj.weight", DOP_PART_ALL, false},
    {DOP_W_v, "mixer.v_proj.weight", DOP_PART_ALL, false},
    {DOP_W_o, "mixer.o_proj.weight", DOP_PART_ALL, false},
    {DOP_W_q_bias, "mixer.q_proj.bias", DOP_PART_ALL, false},
    {DOP_W_k_bias, "mixer.k_proj.bias", DOP_PART_ALL, false},
    {DOP_W_v_bias, "mixer.v_proj.bias", DOP_PART_ALL, false},
    {DOP_W_o_bias, "mixer.o_proj.bias", DOP_PART_ALL, false},
    {DOP_W_up, "mixer.up_proj.weight", DOP_PART_ALL, false},
    {DOP_W_down, "mixer.down_proj.weight", DOP_PART_ALL, false},
    {DOP_W_up_bias, "mixer.up_proj.bias", DOP_PART_ALL, false},
    {DOP_W_down_bias, "mixer.down_proj.bias", DOP_PART_ALL, false},
    {DOP_W_router, "mixer.gate.weight", DOP_PART_ALL, false},
    {DOP_W_router_correction, "mixer.gate.e_score_correction_bias", DOP_PART_ALL, false},
    {DOP_W_expert_up, "mixer.experts.*.up_proj.weight", DOP_PART_ALL, false},
    {DOP_W_expert_down, "mixer.experts.*.down_proj.weight", DOP_PART_ALL, false},
    {DOP_W_shared_up, "mixer.shared_experts.up_proj.weight", DOP_PART_ALL, false},
    {DOP_W_shared_down, "mixer.shared_experts.down_proj.weight", DOP_PART_ALL, false},
    MAMBA("mixer."),
    {.role = DOP_W_none},
};
const dop_hf_recurrent dop_recurrent_nemotron_h = {
    .kind = DOP_MIXER_SSM,
    .positions = "position_embedding_type",
    .taps = {"conv_kernel", 4},
    .heads = {"mamba_num_heads", 128},
    .head_dim = {"mamba_head_dim", 64},
    .groups = {"n_groups", 8},
    .state_dim = {"ssm_state_size", 128},
    .conv_bias = {"use_conv_bias", true},
    .norm = true,
    .norm_rows = true,
    .norm_groups = true,
    .blocks = true,
    .own_act = true,
};
const dop_expert_keys dop_experts_nemotron_h = {
    .n = "n_routed_experts",
    .active = "num_experts_per_tok",
    .width = "moe_intermediate_size",
    .shared_width = "moe_shared_expert_intermediate_size",
    .normalized = "norm_topk_prob",
    .scale = "routed_scaling_factor",
    .groups = "n_group",
    .group_keep = "topk_group",
    .n_otherwise = 8,
    .active_otherwise = 2,
    .shared_otherwise = 7688,
    .facts = {.groups = 1,
              .group_best = 2,
              .group_keep = 1,
              .scale = 1,
              .score = DOP_SCORE_SIGMOID,
              .normalized = true,
              .sum_eps = 1e-20,
              .correction = true},
};

/* Tensor names of Mamba's selective scan in transformers. `name`: the mixer's own name, with a dot. */
#define SELECTIVE(name)                                                                                  \
    {DOP_W_mix_in, name "in_proj.weight", DOP_PART_GATE, false},                                         \
        {DOP_W_mix_z, name "in_proj.weight", DOP_PART_UP, false},                                        \
        {DOP_W_mix_in_bias, name "in_proj.bias", DOP_PART_GATE, false},                                  \
        {DOP_W_mix_z_bias, name "in_proj.bias", DOP_PART_UP, false},                                     \
        {DOP_W_mix_dt_a, name "x_proj.weight", DOP_PART_SELECT_DT, false},                               \
        {DOP_W_mix_k, name "x_proj.weight", DOP_PART_SELECT_K, false},                                   \
        {DOP_W_mix_q, name "x_proj.weight", DOP_PART_SELECT_Q, false},                                   \
        {DOP_W_mix_dt, name "dt_proj.weight", DOP_PART_ALL, false},                                      \
        {DOP_W_mix_dt_bias, name "dt_proj.bias", DOP_PART_ALL, false},                                   \
        {DOP_W_taps, name "conv1d.weight", DOP_PART_TAPS, false},                                        \
        {DOP_W_taps_bias, name "conv1d.bias", DOP_PART_ALL, false},                                      \
        {DOP_W_decay, name "A_log", DOP_PART_LOOSE, false}, {DOP_W_skip, name "D", DOP_PART_ALL, false}, \
        {DOP_W_mix_out, name "out_proj.weight", DOP_PART_ALL, false},                                    \
    {                                                                                                    \
        DOP_W_mix_out_bias, name "out_proj.bias", DOP_PART_ALL, false                                    \
    }

const dop_tensor_name dop_names_mamba[] = {
    {DOP_W_embed, "embeddings.weight", DOP_PART_ALL, false},
    {DOP_W_final_norm, "norm_f.weight", DOP_PART_ALL, false},
    {DOP_W_lm_head, "lm_head.weight", DOP_PART_ALL, false},
    {DOP_W_attn_norm, "norm.weight", DOP_PART_ALL, false},
    SELECTIVE("mixer."),
    {.role = DOP_W_none},
};
const dop_tensor_name dop_names_jamba[] = {
    {DOP_W_final_norm, "final_layernorm.weight", DOP_PART_ALL, false},
    {DOP_W_ffn_norm, "pre_ff_layernorm.weight", DOP_PART_ALL, false},
    {DOP_W_gate, "feed_forward.gate_proj.weight", DOP_PART_ALL, false},
    {DOP_W_up, "feed_forward.up_proj.weight", DOP_PART_ALL, false},
    {DOP_W_down, "feed_forward.down_proj.weight", DOP_PART_ALL, false},
    {DOP_W_router, "feed_forward.router.weight", DOP_PART_ALL, false},
    {DOP_W_expert_gate, "feed_forward.experts.*.gate_proj.weight", DOP_PART_ALL, false},
    {DOP_W_expert_up, "feed_forward.experts.*.up_proj.weight", DOP_PART_ALL, false},
    {DOP_W_expert_down, "feed_forward.experts.*.down_proj.weight", DOP_PART_ALL, false},
    {DOP_W_dt_norm, "mamba.dt_layernorm.weight", DOP_PART_ALL, false},
    {DOP_W_key_norm, "mamba.b_layernorm.weight", DOP_PART_ALL, false},
    {DOP_W_query_norm, "mamba.c_layernorm.weight", DOP_PART_ALL, false},
    SELECTIVE("mamba."),
    {.role = DOP_W_none},
};
const dop_hf_recurrent dop_recurrent_mamba = {
    .kind = DOP_MIXER_SSM,
    .selective = true,
    .taps = {"conv_kernel", 4},
    .state_dim = {"state_size", 16},
    .dt_rank = {"time_step_rank", 0},
    .expand = "expand",
    .conv_bias = {"use_conv_bias", true},
    .norm_rows = true,
};
const dop_hf_recurrent dop_recurrent_jamba = {
    .kind = DOP_MIXER_SSM,
    .selective = true,
    .small_norms = true,
    .period = "attn_layer_period",
    .offset = "attn_layer_offset",
    .positions = "position_embedding_type",
    .taps = {"mamba_d_conv", 4},
    .state_dim = {"mamba_d_state", 16},
    .dt_rank = {"mamba_dt_rank", 0},
    .expand = "mamba_expand",
    .conv_bias = {"mamba_conv_bias", true},
    .norm_rows = true,
};
const dop_expert_keys dop_experts_jamba = {
    .n = "num_experts",
    .active = "num_experts_per_tok",
    .width = "intermediate_size",
    .step = "expert_layer_period",
    .offset = "expert_layer_offset",
    .n_otherwise = 16,
    .active_otherwise = 2,
    .facts = {.groups = 1, .group_best = 1, .group_keep = 1, .scale = 1},
};

/* Tensor names of a delta rule with separate matrices for queries, keys and values, and with convolution taps in three
 * tensors. */
#define DELTA_APART(name)                                             \
    {DOP_W_mix_in, name "q_proj.weight", DOP_PART_KEYS, false},       \
        {DOP_W_mix_in, name "k_proj.weight", DOP_PART_KEYS, false},   \
        {DOP_W_mix_in, name "v_proj.weight", DOP_PART_VALUES, false}, \
        {DOP_W_taps, name "q_conv1d.weight", DOP_PART_TAPS, false},   \
        {DOP_W_taps, name "k_conv1d.weight", DOP_PART_TAPS, false},   \
        {DOP_W_taps, name "v_conv1d.weight", DOP_PART_TAPS, false},   \
        {DOP_W_mix_beta, name "b_proj.weight", DOP_PART_ALL, false},  \
        {DOP_W_decay, name "A_log", DOP_PART_LOOSE, false},           \
        {DOP_W_mix_dt_bias, name "dt_bias", DOP_PART_LOOSE, false},   \
        {DOP_W_mix_norm, name "o_norm.weight", DOP_PART_ALL, false},  \
    {                                                                 \
        DOP_W_mix_out, name "o_proj.weight", DOP_PART_ALL, false      \
    }

const dop_tensor_name dop_names_olmo_hybrid[] = {
    DELTA_APART("linear_attn."),
    {DOP_W_mix_z, "linear_attn.g_proj.weight", DOP_PART_ALL, false},
    {DOP_W_mix_dt, "linear_attn.a_proj.weight", DOP_PART_ALL, false},
    {DOP_W_attn_norm, "attention_layer_norm.weight", DOP_PART_ALL, false},
    {DOP_W_ffn_norm, "feedforward_layer_norm.weight", DOP_PART_ALL, false},
    {DOP_W_post_attn_norm, "feedforward_layer_norm.weight", DOP_PART_ALL, false},
    {DOP_W_post_ffn_norm, "post_feedforward_layernorm.weight", DOP_PART_ALL, false},
    {DOP_W_embed, "embed_tokens.weight", DOP_PART_ALL, false},
    {DOP_W_post_attn_norm, "post_attention_layernorm.weight", DOP_PART_ALL, false},
    {.role = DOP_W_none},
};
const dop_hf_recurrent dop_recurrent_olmo_hybrid = {
    .kind = DOP_MIXER_DELTA,
    .layer_types = {"linear_attention"},
    .interval = "full_attention_interval",
    .taps = {"linear_conv_kernel_dim", 4},
    .heads = {"linear_num_value_heads", 0},
    .head_dim = {"linear_value_head_dim", 0},
    .groups = {"linear_num_key_heads", 0},
    .state_dim = {"linear_key_head_dim", 0},
    .norm = true,
    .norm_eps = 1e-5,
    .pre_norm = true,
    .doubles_beta = "linear_allow_neg_eigval",
};

const dop_hf_keys dop_keys_kimi_linear = {
    .hidden = "hidden_size",
    .layers = "num_hidden_layers",
    .heads = "num_attention_heads",
    .ctx = "model_max_length",
    .ffn = "intermediate_size",
    .act = "hidden_act",
    .eps = "rms_norm_eps",
};
const dop_tensor_name dop_names_kimi_linear[] = {
    {DOP_W_q_whole_plain, "self_attn.q_proj.weight", DOP_PART_PLAIN, false},
    {DOP_W_q_whole_rotated, "self_attn.q_proj.weight", DOP_PART_ROTATED, false},
    {DOP_W_kv_a, "self_attn.kv_a_proj_with_mqa.weight", DOP_PART_LATENT, false},
    {DOP_W_k_rotated, "self_attn.kv_a_proj_with_mqa.weight", DOP_PART_LATENT_ROTATED, false},
    {DOP_W_kv_a_norm, "self_attn.kv_a_layernorm.weight", DOP_PART_ALL, false},
    {DOP_W_k_up, "self_attn.kv_b_proj.weight", DOP_PART_K_UP, true},
    {DOP_W_v_up, "self_attn.kv_b_proj.weight", DOP_PART_V_UP, false},
    DELTA_APART("self_attn."),
    {DOP_W_mix_dt_a, "self_attn.f_a_proj.weight", DOP_PART_ALL, false},
    {DOP_W_mix_dt, "self_attn.f_b_proj.weight", DOP_PART_ALL, false},
    {DOP_W_mix_z_a, "self_attn.g_a_proj.weight", DOP_PART_ALL, false},
    {DOP_W_mix_z, "self_attn.g_b_proj.weight", DOP_PART_ALL, false},
    {DOP_W_gate, "block_sparse_moe.gate_proj.weight", DOP_PART_ALL, false},
    {DOP_W_up, "block_sparse_moe.up_proj.weight", DOP_PART_ALL, false},
    {DOP_W_down, "block_sparse_moe.down_proj.weight", DOP_PART_ALL, false},
    {DOP_W_router, "block_sparse_moe.gate.weight", DOP_PART_ALL, false},
    {DOP_W_router_correction, "block_sparse_moe.gate.e_score_correction_bias", DOP_PART_ALL, false},
    {DOP_W_expert_gate, "block_sparse_moe.experts.*.w1.weight", DOP_PART_ALL, false},
    {DOP_W_expert_down, "block_sparse_moe.experts.*.w2.weight", DOP_PART_ALL, false},
    {DOP_W_expert_up, "block_sparse_moe.experts.*.w3.weight", DOP_PART_ALL, false},
    SHARED_EXPERT("block_sparse_moe.shared_experts"),
    {.role = DOP_W_none},
};
const dop_hf_recurrent dop_recurrent_kimi_linear = {
    .kind = DOP_MIXER_DELTA,
    .layer_types = {"linear_attention", "kda_attention"},
    .attention_list = "linear_attn_config.full_attn_layers",
    .counts_from_1 = true,
    .positions = "position_embedding_type",
    .taps = {"linear_conv_kernel_dim|linear_attn_config.short_conv_kernel_size", 4},
    .heads = {"linear_num_heads|linear_attn_config.num_heads", 32},
    .head_dim = {"linear_head_dim|linear_attn_config.head_dim", 128},
    .each = true,
    .low_rank_gate = true,
    .gate_sigmoid = true,
    .norm = true,
};
const dop_expert_keys dop_experts_kimi_linear = {
    .n = "num_experts",
    .active = "num_experts_per_token",
    .width = "moe_intermediate_size",
    .shared_n = "num_shared_experts",
    .normalized = "moe_renormalize",
    .scale = "routed_scaling_factor",
    .groups = "num_expert_group",
    .group_keep = "topk_group",
    .first = "first_k_dense_replace",
    .n_otherwise = 256,
    .active_otherwise = 8,
    .shared_otherwise = 1,
    .first_otherwise = 1,
    .facts = {.groups = 1,
              .group_best = 2,
              .group_keep = 1,
              .scale = 2.446,
              .score = DOP_SCORE_SIGMOID,
              .normalized = true,
              .sum_eps = 1e-20,
              .correction = true},
};

#define SHARED "shared_transformer."
const dop_tensor_name dop_names_zamba2[] = {
    {DOP_W_final_norm, "final_layernorm.weight", DOP_PART_ALL, false},
    MAMBA("mamba."),
    {DOP_W_side_norm, SHARED "input_layernorm.weight", DOP_PART_ALL, false},
    {DOP_W_q, SHARED "self_attn.q_proj.weight", DOP_PART_ALL, false},
    {DOP_W_k, SHARED "self_attn.k_proj.weight", DOP_PART_ALL, false},
    {DOP_W_v, SHARED "self_attn.v_proj.weight", DOP_PART_ALL, false},
    {DOP_W_q_low_a, SHARED "self_attn.linear_q_adapter_list.#.0.weight", DOP_PART_ALL, false},
    {DOP_W_q_low_b, SHARED "self_attn.linear_q_adapter_list.#.1.weight", DOP_PART_ALL, false},
    {DOP_W_k_low_a, SHARED "self_attn.linear_k_adapter_list.#.0.weight", DOP_PART_ALL, false},
    {DOP_W_k_low_b, SHARED "self_attn.linear_k_adapter_list.#.1.weight", DOP_PART_ALL, false},
    {DOP_W_v_low_a, SHARED "self_attn.linear_v_adapter_list.#.0.weight", DOP_PART_ALL, false},
    {DOP_W_v_low_b, SHARED "self_attn.linear_v_adapter_list.#.1.weight", DOP_PART_ALL, false},
    {DOP_W_o, SHARED "self_attn.o_proj.weight", DOP_PART_ALL, false},
    {DOP_W_side_ffn_norm, SHARED "pre_ff_layernorm.weight", DOP_PART_ALL, false},
    {DOP_W_side_gate, SHARED "feed_forward.gate_up_proj.weight", DOP_PART_GATE, false},
    {DOP_W_side_up, SHARED "feed_forward.gate_up_proj.weight", DOP_PART_UP, false},
    {DOP_W_side_a, SHARED "feed_forward.gate_up_proj_adapter_list.#.0.weight", DOP_PART_ALL, false},
    {DOP_W_side_gate_b, SHARED "feed_forward.gate_up_proj_adapter_list.#.1.weight", DOP_PART_GATE, false},
    {DOP_W_side_up_b, SHARED "feed_forward.gate_up_proj_adapter_list.#.1.weight", DOP_PART_UP, false},
    {DOP_W_side_down, SHARED "feed_forward.down_proj.weight", DOP_PART_ALL, false},
    {DOP_W_side_out, "linear.weight", DOP_PART_ALL, false},
    {DOP_W_embed, "embed_tokens.weight", DOP_PART_ALL, false},
    {DOP_W_lm_head, "lm_head.weight", DOP_PART_ALL, false},
    {DOP_W_attn_norm, "input_layernorm.weight", DOP_PART_ALL, false},
    MAMBA("mamba_decoder.mamba."), /* layers with a shared block */
    {DOP_W_attn_norm, "mamba_decoder.input_layernorm.weight", DOP_PART_ALL, false},
    {.role = DOP_W_none},
};
const dop_hf_keys dop_keys_zamba2 = {
    .hidden = "hidden_size",
    .layers = "num_hidden_layers",
    .heads = "num_attention_heads",
    .ctx = "max_position_embeddings",
    .act = "hidden_act",
    .eps = "rms_norm_eps",
};
const dop_hf_recurrent dop_recurrent_zamba2 = {
    .kind = DOP_MIXER_SSM,
    .hybrid = true,
    .own_act = true,
    .taps = {"mamba_d_conv", 4},
    .heads = {"n_mamba_heads", 0},
    .head_dim = {"mamba_headdim", 0},
    .groups = {"mamba_ngroups", 1},
    .state_dim = {"mamba_d_state", 64},
    .expand = "mamba_expand",
    .conv_bias = {"use_conv_bias", true},
    .norm = true,
    .norm_rows = true,
    .norm_eps = 1e-5,
};
