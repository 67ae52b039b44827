/* Family table (dop_families) and its look-up functions. Fields and their defaults in config.json follow the configuration
 * classes of Hugging Face transformers (configuration_<model>.py, releases 4.40 to 5.x). */
#include "frontend/families/families.h"
#include "base/words.h"
#include "frontend/families/families_dense.h"
#include "frontend/families/families_experts.h"
#include "frontend/families/families_recurrent.h"

#include <stdio.h>
#include <string.h>

static const dop_hf_keys keys_common = {
    .hidden = "hidden_size",
    .layers = "num_hidden_layers",
    .heads = "num_attention_heads",
    .ctx = "max_position_embeddings",
    .ffn = "intermediate_size",
    .act = "hidden_act",
    .eps = "rms_norm_eps",
};
static const dop_hf_keys keys_gemma = {
    .hidden = "hidden_size",
    .layers = "num_hidden_layers",
    .heads = "num_attention_heads",
    .ctx = "max_position_embeddings",
    .ffn = "intermediate_size",
    .act = "hidden_activation", /* early Gemma files state hidden_act "gelu", which the model never used */
    .eps = "rms_norm_eps",
};
static const dop_hf_keys keys_gpt2 = {
    .hidden = "n_embd",
    .layers = "n_layer",
    .heads = "n_head",
    .ctx = "n_positions",
    .ffn = "n_inner",
    .act = "activation_function",
    .eps = "layer_norm_epsilon",
};

static const dop_hf_keys keys_starcoder2 = {
    .hidden = "hidden_size",
    .layers = "num_hidden_layers",
    .heads = "num_attention_heads",
    .ctx = "max_position_embeddings",
    .ffn = "intermediate_size",
    .act = "hidden_act",
    .eps = "norm_epsilon",
};

static const dop_hf_keys keys_layer_norm = {
    .hidden = "hidden_size",
    .layers = "num_hidden_layers",
    .heads = "num_attention_heads",
    .ctx = "max_position_embeddings",
    .ffn = "intermediate_size",
    .act = "hidden_act",
    .eps = "layer_norm_eps",
};

static const dop_hf_keys keys_gpt_neox = {
    .hidden = "hidden_size",
    .layers = "num_hidden_layers",
    .heads = "num_attention_heads",
    .ctx = "max_position_embeddings",
    .ffn = "intermediate_size",
    .act = "hidden_act",
    .eps = "layer_norm_eps",
    .theta = "rotary_emb_base",
    .partial = "rotary_pct",
};

static const dop_hf_keys keys_nemotron = {
    .hidden = "hidden_size",
    .layers = "num_hidden_layers",
    .heads = "num_attention_heads",
    .ctx = "max_position_embeddings",
    .ffn = "intermediate_size",
    .act = "hidden_act",
    .eps = "norm_eps",
};

const dop_tensor_name dop_hf_names_common[] = {
    {DOP_W_embed, "embed_tokens.weight", DOP_PART_ALL, false},
    {DOP_W_final_norm, "norm.weight", DOP_PART_ALL, false},
    {DOP_W_final_norm_bias, "norm.bias", DOP_PART_ALL, false},
    {DOP_W_lm_head, "lm_head.weight", DOP_PART_ALL, false},
    {DOP_W_lm_head_bias, "lm_head.bias", DOP_PART_ALL, false},
    {DOP_W_attn_norm, "input_layernorm.weight", DOP_PART_ALL, false},
    {DOP_W_attn_norm_bias, "input_layernorm.bias", DOP_PART_ALL, false},
    {DOP_W_q, "self_attn.q_proj.weight", DOP_PART_ALL, false},
    {DOP_W_k, "self_attn.k_proj.weight", DOP_PART_ALL, false},
    {DOP_W_v, "self_attn.v_proj.weight", DOP_PART_ALL, false},
    {DOP_W_o, "self_attn.o_proj.weight", DOP_PART_ALL, false},
    {DOP_W_q_bias, "self_attn.q_proj.bias", DOP_PART_ALL, false},
    {DOP_W_k_bias, "self_attn.k_proj.bias", DOP_PART_ALL, false},
    {DOP_W_v_bias, "self_attn.v_proj.bias", DOP_PART_ALL, false},
    {DOP_W_o_bias, "self_attn.o_proj.bias", DOP_PART_ALL, false},
    {DOP_W_q_norm, "self_attn.q_norm.weight", DOP_PART_ALL, false},
    {DOP_W_k_norm, "self_attn.k_norm.weight", DOP_PART_ALL, false},
    {DOP_W_ffn_norm, "post_attention_layernorm.weight", DOP_PART_ALL, false},
    {DOP_W_ffn_norm_bias, "post_attention_layernorm.bias", DOP_PART_ALL, false},
    {DOP_W_layer_scale, "layer_scalar", DOP_PART_ALL, false},
    {DOP_W_input_embed, "embed_tokens_per_layer.weight", DOP_PART_ALL, false},
    {DOP_W_input_proj, "per_layer_model_projection.weight", DOP_PART_ALL, false},
    {DOP_W_input_norm, "per_layer_projection_norm.weight", DOP_PART_ALL, false},
    {DOP_W_input_gate, "per_layer_input_gate.weight", DOP_PART_ALL, false},
    {DOP_W_input_up, "per_layer_projection.weight", DOP_PART_ALL, false},
    {DOP_W_post_input_norm, "post_per_layer_input_norm.weight", DOP_PART_ALL, false},
    {DOP_W_gate, "mlp.gate_proj.weight", DOP_PART_ALL, false},
    {DOP_W_up, "mlp.up_proj.weight", DOP_PART_ALL, false},
    {DOP_W_down, "mlp.down_proj.weight", DOP_PART_ALL, false},
    {DOP_W_gate_bias, "mlp.gate_proj.bias", DOP_PART_ALL, false},
    {DOP_W_up_bias, "mlp.up_proj.bias", DOP_PART_ALL, false},
    {DOP_W_down_bias, "mlp.down_proj.bias", DOP_PART_ALL, false},
    {0},
};
/* In families with norms before and after each part, post_attention_layernorm is the norm after attention; otherwise it is the
 * norm before the feed-forward part. */
const dop_tensor_name dop_hf_names_sandwich[] = {
    {DOP_W_post_attn_norm, "post_attention_layernorm.weight", DOP_PART_ALL, false},
    {DOP_W_ffn_norm, "pre_feedforward_layernorm.weight", DOP_PART_ALL, false},
    {DOP_W_post_ffn_norm, "post_feedforward_layernorm.weight", DOP_PART_ALL, false},
    {0},
};
static const dop_tensor_name names_phi3[] = {
    {DOP_W_q, "self_attn.qkv_proj.weight", DOP_PART_Q, false},
    {DOP_W_k, "self_attn.qkv_proj.weight", DOP_PART_K, false},
    {DOP_W_v, "self_attn.qkv_proj.weight", DOP_PART_V, false},
    {DOP_W_gate, "mlp.gate_up_proj.weight", DOP_PART_GATE, false},
    {DOP_W_up, "mlp.gate_up_proj.weight", DOP_PART_UP, false},
    {0},
};
static const dop_tensor_name names_gpt2[] = {
    {DOP_W_embed, "wte.weight", DOP_PART_ALL, false},
    {DOP_W_pos_embed, "wpe.weight", DOP_PART_ALL, false},
    {DOP_W_final_norm, "ln_f.weight", DOP_PART_ALL, false},
    {DOP_W_final_norm_bias, "ln_f.bias", DOP_PART_ALL, false},
    {DOP_W_lm_head, "lm_head.weight", DOP_PART_ALL, false},
    {DOP_W_attn_norm, "ln_1.weight", DOP_PART_ALL, false},
    {DOP_W_attn_norm_bias, "ln_1.bias", DOP_PART_ALL, false},
    {DOP_W_q, "attn.c_attn.weight", DOP_PART_Q, true},
    {DOP_W_k, "attn.c_attn.weight", DOP_PART_K, true},
    {DOP_W_v, "attn.c_attn.weight", DOP_PART_V, true},
    {DOP_W_q_bias, "attn.c_attn.bias", DOP_PART_Q, false},
    {DOP_W_k_bias, "attn.c_attn.bias", DOP_PART_K, false},
    {DOP_W_v_bias, "attn.c_attn.bias", DOP_PART_V, false},
    {DOP_W_o, "attn.c_proj.weight", DOP_PART_ALL, true},
    {DOP_W_o_bias, "attn.c_proj.bias", DOP_PART_ALL, false},
    {DOP_W_ffn_norm, "ln_2.weight", DOP_PART_ALL, false},
    {DOP_W_ffn_norm_bias, "ln_2.bias", DOP_PART_ALL, false},
    {DOP_W_up, "mlp.c_fc.weight", DOP_PART_ALL, true},
    {DOP_W_up_bias, "mlp.c_fc.bias", DOP_PART_ALL, false},
    {DOP_W_down, "mlp.c_proj.weight", DOP_PART_ALL, true},
    {DOP_W_down_bias, "mlp.c_proj.bias", DOP_PART_ALL, false},
    {0},
};

static const dop_tensor_name names_starcoder2[] = {
    {DOP_W_up, "mlp.c_fc.weight", DOP_PART_ALL, false},
    {DOP_W_up_bias, "mlp.c_fc.bias", DOP_PART_ALL, false},
    {DOP_W_down, "mlp.c_proj.weight", DOP_PART_ALL, false},
    {DOP_W_down_bias, "mlp.c_proj.bias", DOP_PART_ALL, false},
    {.role = DOP_W_none},
};

static const dop_tensor_name names_glm4[] = {
    {DOP_W_post_attn_norm, "post_self_attn_layernorm.weight", DOP_PART_ALL, false},
    {DOP_W_post_ffn_norm, "post_mlp_layernorm.weight", DOP_PART_ALL, false},
    {DOP_W_gate, "mlp.gate_up_proj.weight", DOP_PART_GATE, false},
    {DOP_W_up, "mlp.gate_up_proj.weight", DOP_PART_UP, false},
    {.role = DOP_W_none},
};

static const dop_tensor_name names_gpt_neox[] = {
    {DOP_W_embed, "embed_in.weight", DOP_PART_ALL, false},
    {DOP_W_final_norm, "final_layer_norm.weight", DOP_PART_ALL, false},
    {DOP_W_final_norm_bias, "final_layer_norm.bias", DOP_PART_ALL, false},
    {DOP_W_lm_head, "embed_out.weight", DOP_PART_ALL, false},
    {DOP_W_attn_norm, "input_layernorm.weight", DOP_PART_ALL, false},
    {DOP_W_attn_norm_bias, "input_layernorm.bias", DOP_PART_ALL, false},
    {DOP_W_q, "attention.query_key_value.weight", DOP_PART_HEAD_Q, false},
    {DOP_W_k, "attention.query_key_value.weight", DOP_PART_HEAD_K, false},
    {DOP_W_v, "attention.query_key_value.weight", DOP_PART_HEAD_V, false},
    {DOP_W_q_bias, "attention.query_key_value.bias", DOP_PART_HEAD_Q, false},
    {DOP_W_k_bias, "attention.query_key_value.bias", DOP_PART_HEAD_K, false},
    {DOP_W_v_bias, "attention.query_key_value.bias", DOP_PART_HEAD_V, false},
    {DOP_W_o, "attention.dense.weight", DOP_PART_ALL, false},
    {DOP_W_o_bias, "attention.dense.bias", DOP_PART_ALL, false},
    {DOP_W_ffn_norm, "post_attention_layernorm.weight", DOP_PART_ALL, false},
    {DOP_W_ffn_norm_bias, "post_attention_layernorm.bias", DOP_PART_ALL, false},
    {DOP_W_up, "mlp.dense_h_to_4h.weight", DOP_PART_ALL, false},
    {DOP_W_up_bias, "mlp.dense_h_to_4h.bias", DOP_PART_ALL, false},
    {DOP_W_down, "mlp.dense_4h_to_h.weight", DOP_PART_ALL, false},
    {DOP_W_down_bias, "mlp.dense_4h_to_h.bias", DOP_PART_ALL, false},
    {.role = DOP_W_none},
};

static const dop_tensor_name names_apertus[] = {
    {DOP_W_attn_norm, "attention_layernorm.weight", DOP_PART_ALL, false},
    {DOP_W_ffn_norm, "feedforward_layernorm.weight", DOP_PART_ALL, false},
    {DOP_W_act_alpha_p, "mlp.act_fn.alpha_p", DOP_PART_ALL, false},
    {DOP_W_act_alpha_n, "mlp.act_fn.alpha_n", DOP_PART_ALL, false},
    {DOP_W_act_beta, "mlp.act_fn.beta", DOP_PART_ALL, false},
    {.role = DOP_W_none},
};

/* GGUF files with a fused gate and up tensor, which is named as up. */
static const dop_tensor_name gguf_names_gate_up[] = {
    {DOP_W_gate, "ffn_up.weight", DOP_PART_GATE, false},
    {DOP_W_up, "ffn_up.weight", DOP_PART_UP, false},
    {.role = DOP_W_none},
};
/* GGUF files in which the norm before the feed-forward part has Hugging Face's name. */
static const dop_tensor_name gguf_names_post_attention[] = {
    {DOP_W_ffn_norm, "post_attention_norm.weight", DOP_PART_ALL, false},
    {.role = DOP_W_none},
};

#define COMMON .keys = &keys_common, .names = dop_hf_names_common, .prefix = "model.", .layer_prefix = "layers."
#define LAYER_NORM .keys = &keys_layer_norm, .names = dop_hf_names_common, .prefix = "model.", .layer_prefix = "layers."
#define ATTENTION_BIAS .bias_qkv = {"attention_bias", false}, .bias_o = {"attention_bias", false}
#define BIAS_FIELDS ATTENTION_BIAS, .bias_ffn = {"mlp_bias", false}
#define GEMMA                                                                                         \
    .keys = &keys_gemma, .names = dop_hf_names_common, .prefix = "model.", .layer_prefix = "layers.", \
    .act = "gelu_pytorch_tanh", .eps = 1e-6, .head_dim = 256

const dop_family dop_families[] = {
    {.name = "llama",
     .archs = {"LlamaForCausalLM", "LLaMAForCausalLM"},
     .model_types = {"llama", "code_llama"},
     .gguf = "llama",
     .gguf_interleaved = true,
     .gguf_windows = true, /* Mistral's GGUF files also have architecture llama */
     .flags = DOP_FAM_PRE_NORM,
     BIAS_FIELDS,
     COMMON,
     .act = "silu",
     .eps = 1e-6,
     .theta = 1e4,
     .ctx = 2048},
    {.name = "mistral",
     .gguf_as = "llama",
     .archs = {"MistralForCausalLM"},
     .model_types = {"mistral"},
     .flags = DOP_FAM_PRE_NORM,
     .window_rule = DOP_WINDOW_ALL,
     COMMON,
     .act = "silu",
     .eps = 1e-6,
     .theta = 1e4,
     .kv_heads = 8,
     .window = 4096},
    {.name = "qwen2",
     .archs = {"Qwen2ForCausalLM", "Qwen2VLForConditionalGeneration", "Qwen2_5_VLForConditionalGeneration",
               "MiMoForCausalLM"},
     .model_types = {"qwen2", "qwen2_vl_text", "qwen2_5_vl_text", "qwen2_vl", "qwen2_5_vl", "mimo"},
     .gguf = "qwen2 qwen2vl",
     .flags = DOP_FAM_PRE_NORM,
     .bias_qkv = {NULL, true},
     .window_rule = DOP_WINDOW_QWEN,
     COMMON,
     .act = "silu",
     .eps = 1e-6,
     .theta = 1e4,
     .kv_heads = 32,
     .window = 4096},
    {.name = "qwen3",
     .archs = {"Qwen3ForCausalLM", "Qwen3VLForConditionalGeneration"},
     .model_types = {"qwen3", "qwen3_vl_text"},
     .gguf = "qwen3 qwen3vl",
     .reranks = true,
     .flags = DOP_FAM_PRE_NORM | DOP_FAM_QK_NORM,
     ATTENTION_BIAS,
     .window_rule = DOP_WINDOW_QWEN,
     COMMON,
     .act = "silu",
     .eps = 1e-6,
     .theta = 1e4,
     .kv_heads = 32,
     .head_dim = 128,
     .window = 4096},
    {.name = "gemma",
     .archs = {"GemmaForCausalLM"},
     .model_types = {"gemma"},
     .gguf = "gemma",
     .flags = DOP_FAM_PRE_NORM | DOP_FAM_NORM_ADD_1 | DOP_FAM_EMBED_SQRT | DOP_FAM_TIED,
     ATTENTION_BIAS,
     GEMMA,
     .theta = 1e4,
     .kv_heads = 16,
     .ctx = 8192},
    {.name = "gemma2",
     .archs = {"Gemma2ForCausalLM"},
     .model_types = {"gemma2"},
     .gguf = "gemma2",
     .gguf_wide_layers = 46,
     .flags = DOP_FAM_PRE_NORM | DOP_FAM_POST_NORM | DOP_FAM_NORM_ADD_1 | DOP_FAM_EMBED_SQRT | DOP_FAM_QUERY_SCALAR |
              DOP_FAM_SOFTCAPS | DOP_FAM_TIED,
     ATTENTION_BIAS,
     .window_rule = DOP_WINDOW_PATTERN,
     .more_names = dop_hf_names_sandwich,
     GEMMA,
     .theta = 1e4,
     .kv_heads = 4,
     .window = 4096,
     .period = 2,
     .ctx = 8192},
    {.name = "gemma3",
     .archs = {"Gemma3ForCausalLM", "Gemma3ForConditionalGeneration"},
     .model_types = {"gemma3_text", "gemma3"},
     .gguf = "gemma3 gemma-embedding",
     .gguf_encoders = "gemma-embedding",
     .gguf_wide_layers = 62,
     .flags = DOP_FAM_PRE_NORM | DOP_FAM_POST_NORM | DOP_FAM_NORM_ADD_1 | DOP_FAM_EMBED_SQRT | DOP_FAM_QK_NORM |
              DOP_FAM_QUERY_SCALAR | DOP_FAM_SOFTCAPS | DOP_FAM_LOCAL_ROPE | DOP_FAM_TIED,
     ATTENTION_BIAS,
     .window_rule = DOP_WINDOW_PATTERN,
     .more_names = dop_hf_names_sandwich,
     GEMMA,
     .theta = 1e6,
     .heads = 8,
     .kv_heads = 4,
     .window = 4096,
     .period = 6,
     .vocab = 262208,
     .ctx = 131072},
    {.name = "phi3",
     .archs = {"Phi3ForCausalLM"},
     .model_types = {"phi3"},
     .gguf = "phi3",
     .more_gguf_names = gguf_names_gate_up,
     .flags = DOP_FAM_PRE_NORM,
     .window_rule = DOP_WINDOW_ALL,
     .more_names = names_phi3,
     COMMON,
     .act = "silu",
     .eps = 1e-5,
     .theta = 1e4},
    {.name = "gpt2",
     .archs = {"GPT2LMHeadModel"},
     .model_types = {"gpt2", "gpt-sw3"},
     .gguf = "gpt2",
     .flags = DOP_FAM_PRE_NORM | DOP_FAM_LAYER_NORM | DOP_FAM_NOT_GATED | DOP_FAM_LEARNED_POS | DOP_FAM_TIED,
     .bias_qkv = {NULL, true},
     .bias_o = {NULL, true},
     .bias_ffn = {NULL, true},
     .keys = &keys_gpt2,
     .names = names_gpt2,
     .prefix = "transformer.",
     .layer_prefix = "h.",
     .act = "gelu_new",
     .eps = 1e-5,
     .ffn_times = 4,
     .ctx = 1024},
    {.name = "granite",
     .archs = {"GraniteForCausalLM"},
     .model_types = {"granite"},
     .gguf = "granite",
     .gguf_interleaved = true,
     .flags = DOP_FAM_PRE_NORM | DOP_FAM_MULTIPLIERS,
     BIAS_FIELDS,
     COMMON,
     .act = "silu",
     .eps = 1e-6,
     .theta = 1e4,
     .ctx = 2048},
    {.name = "olmo2",
     .archs = {"Olmo2ForCausalLM"},
     .model_types = {"olmo2"},
     .gguf = "olmo2",
     .flags = DOP_FAM_POST_NORM | DOP_FAM_QK_NORM_ROW,
     ATTENTION_BIAS,
     .more_names = dop_hf_names_sandwich,
     COMMON,
     .act = "silu",
     .eps = 1e-5,
     .theta = 1e4,
     .ctx = 2048},
    {.name = "smollm3",
     .archs = {"SmolLM3ForCausalLM"},
     .model_types = {"smollm3"},
     .gguf = "smollm3",
     .gguf_interleaved = true,
     .flags = DOP_FAM_PRE_NORM | DOP_FAM_NOPE | DOP_FAM_TIED,
     BIAS_FIELDS,
     .window_rule = DOP_WINDOW_NOPE,
     COMMON,
     .act = "silu",
     .eps = 1e-6,
     .theta = 2e6,
     .kv_heads = 4},
    {.name = "arcee",
     .archs = {"ArceeForCausalLM"},
     .model_types = {"arcee"},
     .gguf = "arcee",
     .gguf_interleaved = true,
     .flags = DOP_FAM_PRE_NORM | DOP_FAM_NOT_GATED,
     BIAS_FIELDS,
     COMMON,
     .act = "relu2",
     .eps = 1e-5,
     .theta = 1e4,
     .ctx = 4096},
    {.name = "seed_oss",
     .archs = {"SeedOssForCausalLM"},
     .model_types = {"seed_oss"},
     .gguf = "seed_oss",
     .more_gguf_names = gguf_names_post_attention,
     .flags = DOP_FAM_PRE_NORM,
     .bias_qkv = {"attention_bias", true},
     .bias_o = {"attention_out_bias", false},
     .bias_ffn = {"mlp_bias", false},
     COMMON,
     .act = "silu",
     .eps = 1e-6,
     .theta = 1e4,
     .kv_heads = 8,
     .head_dim = 128},
    {.name = "ernie4_5",
     .archs = {"Ernie4_5ForCausalLM"},
     .model_types = {"ernie4_5"},
     .gguf = "ernie4_5",
     .gguf_interleaved = true,
     .flags = DOP_FAM_PRE_NORM | DOP_FAM_ROPE_PAIRS | DOP_FAM_TIED,
     .bias_qkv = {"use_bias", false},
     .bias_o = {"use_bias", false},
     .bias_ffn = {"use_bias", false},
     COMMON,
     .act = "silu",
     .eps = 1e-5,
     .theta = 5e5,
     .kv_heads = 4,
     .head_dim = 128},
    {.name = "starcoder2",
     .archs = {"Starcoder2ForCausalLM"},
     .model_types = {"starcoder2"},
     .gguf = "starcoder2",
     .flags = DOP_FAM_PRE_NORM | DOP_FAM_LAYER_NORM | DOP_FAM_NOT_GATED | DOP_FAM_TIED,
     .bias_qkv = {"use_bias", true},
     .bias_o = {"use_bias", true},
     .bias_ffn = {"use_bias", true},
     .window_rule = DOP_WINDOW_ALL,
     .more_names = names_starcoder2,
     .keys = &keys_starcoder2,
     .names = dop_hf_names_common,
     .prefix = "model.",
     .layer_prefix = "layers.",
     .act = "gelu_pytorch_tanh",
     .eps = 1e-5,
     .theta = 1e4,
     .kv_heads = 2,
     .ctx = 4096},
    {.name = "stablelm",
     .archs = {"StableLmForCausalLM"},
     .model_types = {"stablelm"},
     .gguf = "stablelm",
     .flags = DOP_FAM_PRE_NORM | DOP_FAM_LAYER_NORM | DOP_FAM_ONE_NORM | DOP_FAM_QK_NORM | DOP_FAM_HEAD_NORM,
     .bias_qkv = {"use_qkv_bias", false},
     .parallel = {"use_parallel_residual", false},
     .qk_norm = {"qk_layernorm", false},
     .more_names = dop_names_stablelm,
     LAYER_NORM,
     .act = "silu",
     .eps = 1e-5,
     .theta = 1e4,
     .partial = 0.25,
     .ctx = 4096},
    {.name = "exaone4",
     .archs = {"Exaone4ForCausalLM"},
     .model_types = {"exaone4", "exaone4_5_text"},
     .gguf = "exaone4",
     .flags = DOP_FAM_POST_NORM | DOP_FAM_QK_NORM | DOP_FAM_NOPE_FULL,
     .window_rule = DOP_WINDOW_PATTERN,
     .more_names = dop_hf_names_sandwich,
     COMMON,
     .act = "silu",
     .eps = 1e-5,
     .theta = 1e4,
     .window = 4096,
     .period = 4,
     .ctx = 2048},
    {.name = "glm4",
     .archs = {"Glm4ForCausalLM"},
     .model_types = {"glm4"},
     .gguf = "glm4",
     .gguf_interleaved = true,
     .more_gguf_names = gguf_names_gate_up,
     .flags = DOP_FAM_PRE_NORM | DOP_FAM_POST_NORM | DOP_FAM_ROPE_PAIRS,
     .bias_qkv = {"attention_bias", false},
     .more_names = names_glm4,
     COMMON,
     .act = "silu",
     .eps = 1.5625e-07,
     .theta = 1e4,
     .partial = 0.5,
     .kv_heads = 2,
     .head_dim = 128},
    {.name = "gpt_neox",
     .archs = {"GPTNeoXForCausalLM"},
     .model_types = {"gpt_neox"},
     .gguf = "gptneox",
     .flags = DOP_FAM_PRE_NORM | DOP_FAM_LAYER_NORM | DOP_FAM_NOT_GATED,
     .bias_qkv = {"attention_bias", true},
     .bias_o = {"attention_bias", true},
     .bias_ffn = {NULL, true},
     .parallel = {"use_parallel_residual", true},
     .keys = &keys_gpt_neox,
     .names = names_gpt_neox,
     .prefix = "gpt_neox.",
     .layer_prefix = "layers.",
     .act = "gelu",
     .eps = 1e-5,
     .theta = 1e4,
     .partial = 0.25,
     .ctx = 2048},
    {.name = "cohere2",
     .archs = {"Cohere2ForCausalLM"},
     .model_types = {"cohere2"},
     .gguf = "cohere2",
     .gguf_interleaved = true,
     .flags = DOP_FAM_PRE_NORM | DOP_FAM_LAYER_NORM | DOP_FAM_NO_NORM_BIAS | DOP_FAM_ROPE_PAIRS | DOP_FAM_NOPE_FULL |
              DOP_FAM_ONE_NORM | DOP_FAM_LOGIT_SCALE | DOP_FAM_TIED,
     ATTENTION_BIAS,
     .parallel = {NULL, true},
     .window_rule = DOP_WINDOW_PATTERN,
     LAYER_NORM,
     .act = "silu",
     .eps = 1e-5,
     .theta = 1e4,
     .window = 4096,
     .period = 4,
     .ctx = 8192},
    {.name = "nemotron",
     .archs = {"NemotronForCausalLM"},
     .model_types = {"nemotron"},
     .gguf = "nemotron",
     .flags = DOP_FAM_PRE_NORM | DOP_FAM_LAYER_NORM | DOP_FAM_NORM_ADD_1 | DOP_FAM_NOT_GATED,
     BIAS_FIELDS,
     .keys = &keys_nemotron,
     .names = dop_hf_names_common,
     .prefix = "model.",
     .layer_prefix = "layers.",
     .act = "relu2",
     .eps = 1e-5,
     .theta = 1e4,
     .partial = 0.5,
     .ctx = 4096},
    {.name = "apertus",
     .archs = {"ApertusForCausalLM"},
     .model_types = {"apertus"},
     .gguf = "apertus",
     .flags = DOP_FAM_PRE_NORM | DOP_FAM_QK_NORM | DOP_FAM_NOT_GATED,
     BIAS_FIELDS,
     .more_names = names_apertus,
     COMMON,
     .act = "xielu",
     .eps = 1e-5,
     .theta = 12e6,
     .ctx = 65536},
    {.name = "gemma4",
     .archs = {"Gemma4ForCausalLM", "Gemma4ForConditionalGeneration", "Gemma4UnifiedForCausalLM",
               "Gemma4UnifiedForConditionalGeneration"},
     .model_types = {"gemma4_text", "gemma4", "gemma4_unified_text", "gemma4_unified"},
     .gguf = "gemma4",
     .flags = DOP_FAM_PRE_NORM | DOP_FAM_POST_NORM | DOP_FAM_EMBED_SQRT | DOP_FAM_QK_NORM | DOP_FAM_V_NORM |
              DOP_FAM_SOFTCAPS | DOP_FAM_LOCAL_ROPE | DOP_FAM_LAYER_SCALE | DOP_FAM_HEADS_BY_TYPE | DOP_FAM_TIED |
              DOP_FAM_LAYER_INPUTS,
     ATTENTION_BIAS,
     .window_rule = DOP_WINDOW_PATTERN,
     .experts = &dop_experts_gemma4,
     .more_names = dop_hf_names_gemma4,
     .more_gguf_names = dop_gguf_names_gemma4,
     GEMMA,
     .attn_scale = 1,
     .theta = 1e6,
     .heads = 8,
     .kv_heads = 1,
     .window = 512,
     .period = 6,
     .vocab = 262144,
     .ctx = 131072},
#include "frontend/families/dense.def"
#include "frontend/families/encoders.def"
#include "frontend/families/experts.def"
#include "frontend/families/recurrent.def"
};
const uint32_t dop_n_families = sizeof dop_families / sizeof *dop_families;

static bool
is_in_name_list(const char *const list[DOP_FAMILY_NAMES], const char *s)
{
    for (unsigned i = 0; i < DOP_FAMILY_NAMES && list[i]; i++)
        if (strcmp(list[i], s) == 0)
            return true;
    return false;
}

const dop_family *
dop_family_by_arch(const char *arch)
{
    for (uint32_t i = 0; i < dop_n_families; i++)
        if (is_in_name_list(dop_families[i].archs, arch))
            return &dop_families[i];
    return NULL;
}

/* Returns the length of an architecture name without its suffix, which must be one of `heads` ("Model", "ForCausalLM");
 * 0: no match. */
static size_t
get_stem_length(const char *arch, const char *const *heads)
{
    const size_t n = strlen(arch);
    for (; *heads; heads++) {
        const size_t len = strlen(*heads);
        if (n > len && strcmp(arch + n - len, *heads) == 0)
            return n - len;
    }
    return 0;
}

/* Finds the family of a language model whose name, without suffix, is the first n characters of `arch`. */
static const dop_family *
find_family_by_stem(const char *arch, size_t n)
{
    static const char *const heads[] = {"ForCausalLM", "ForConditionalGeneration", "LMHeadModel", NULL};
    for (uint32_t i = 0; i < dop_n_families; i++)
        for (unsigned k = 0;
             n > 0 && k < sizeof dop_families[i].archs / sizeof *dop_families[i].archs && dop_families[i].archs[k]; k++)
            if (get_stem_length(dop_families[i].archs[k], heads) == n && memcmp(dop_families[i].archs[k], arch, n) == 0)
                return &dop_families[i];
    return NULL;
}

const dop_family *
dop_family_without_head(const char *arch)
{
    static const char *const heads[] = {"TextModel", "Model", NULL};
    return find_family_by_stem(arch, get_stem_length(arch, heads));
}

const dop_family *
dop_family_with_classes(const char *arch)
{
    static const char *const heads[] = {"ForSequenceClassification",
                                        "ForTokenClassification",
                                        "ForQuestionAnswering",
                                        "ForMultipleChoice",
                                        "DoubleHeadsModel",
                                        "TextForSequenceClassification",
                                        NULL};
    return find_family_by_stem(arch, get_stem_length(arch, heads));
}

bool
dop_family_has_model_type(const dop_family *f, const char *model_type)
{
    return is_in_name_list(f->model_types, model_type);
}

const dop_family *
dop_family_by_model_type(const char *model_type)
{
    for (uint32_t i = 0; i < dop_n_families; i++)
        if (is_in_name_list(dop_families[i].model_types, model_type))
            return &dop_families[i];
    return NULL;
}

const dop_family *
dop_family_by_gguf(const char *arch, size_t len, bool experts, bool windows)
{
    const dop_family *best = NULL;
    int most = -1;
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)(len < sizeof name ? len : 0), arch);
    for (uint32_t i = dop_n_families; i-- > 0;) {
        const dop_family *f = &dop_families[i];
        const bool slides = f->window_rule != DOP_WINDOW_NONE || f->gguf_windows;
        const int fits = 2 * (experts == (f->experts != NULL)) + (windows == slides);
        if (!f->gguf || !dop_has_word(f->gguf, name) || fits < most)
            continue;
        best = f;
        most = fits;
    }
    return best;
}

void
dop_family_list_gguf(dop_buf *out)
{
    for (uint32_t i = 0; i < dop_n_families; i++)
        for (const char *name = dop_families[i].gguf; name && *name; name += strspn(name, " ")) {
            const size_t n = strcspn(name, " ");
            bool listed_before = false;
            for (uint32_t k = 0; k < i; k++)
                listed_before = listed_before || (dop_families[k].gguf && strlen(dop_families[k].gguf) == n &&
                                                  memcmp(dop_families[k].gguf, name, n) == 0);
            if (!listed_before)
                dop_buf_printf(out, "%s%.*s", out->size ? ", " : "", (int)n, name);
            name += n;
        }
}

void
dop_family_list(dop_buf *out)
{
    for (uint32_t i = 0; i < dop_n_families; i++)
        dop_buf_printf(out, "%s%s", i ? ", " : "", dop_families[i].archs[0]);
}

void
dop_family_list_types(dop_buf *out)
{
    for (uint32_t i = 0; i < dop_n_families; i++) {
        const char *type = dop_families[i].model_types[0]; /* NULL for drafters */
        if (type && dop_family_by_model_type(type) == &dop_families[i])
            dop_buf_printf(out, "%s%s", out->size ? ", " : "", type);
    }
}

void
dop_arch_defaults(dop_arch *a, dop_layer *layer)
{
    *layer = (dop_layer){.n_mixers = 1, .residual_scale = 1};
    layer->mixers[0] = (dop_mixer){.kind = DOP_MIXER_ATTENTION, .scale = 1, .attn.rope = -1};
    layer->ffn = (dop_ffn){.kind = DOP_FFN_DENSE, .gated = true, .gate_scale = 1, .scale = 1};
    layer->attn_norm.kind = layer->ffn_norm.kind = a->final_norm.kind = DOP_NORM_RMS;
    a->embed_scale = a->logit_scale = 1;
    a->bos_id = -1;
}

void
dop_family_facts(const dop_family *f, dop_arch *a, dop_layer *layer)
{
    const uint64_t has = f->flags;
    const bool ln = has & DOP_FAM_LAYER_NORM;
    const dop_norm none = {0};
    const dop_norm norm = {.kind = ln ? DOP_NORM_LAYER : DOP_NORM_RMS,
                           .bias = ln && !(has & DOP_FAM_NO_NORM_BIAS),
                           .plain = has & DOP_FAM_PLAIN_NORM};
    dop_attention *t = &layer->mixers[0].attn;
    layer->attn_norm = layer->ffn_norm = has & DOP_FAM_PRE_NORM ? norm : none;
    layer->post_attn_norm = layer->post_ffn_norm = has & DOP_FAM_POST_NORM ? norm : none;
    t->q_norm = t->k_norm = has & (DOP_FAM_QK_NORM | DOP_FAM_QK_NORM_ROW) ? norm : none;
    t->norm_rows = has & DOP_FAM_QK_NORM_ROW;
    t->norm_heads = has & DOP_FAM_HEAD_NORM;
    t->norm_after = has & DOP_FAM_NORM_AFTER;
    if (has & DOP_FAM_HEAD_NORM)
        t->q_norm.bias = t->k_norm.bias = false;
    t->o_norm = layer->ffn.down_norm = has & DOP_FAM_SUB_NORMS ? norm : none;
    a->embed_norm = has & DOP_FAM_EMBED_NORM ? norm : none;
    layer->attn_sum_norm = layer->ffn_sum_norm = has & DOP_FAM_SUM_NORM ? norm : none;
    if (has & DOP_FAM_QK_PLAIN)
        t->q_norm.plain = t->k_norm.plain = a->embed_norm.plain = true;
    a->head_bias = f->bias_head.otherwise;
    t->key_bias = layer->residual_weights = has & DOP_FAM_DOGE;
    t->gate = f->attn_gate;
    t->gate_heads = f->attn_gate_heads;
    t->gate_softplus = f->attn_gate_softplus;
    t->v_norm = has & DOP_FAM_V_NORM ? (dop_norm){.kind = DOP_NORM_RMS, .plain = true} : none;
    t->sinks = has & DOP_FAM_SINKS;
    layer->scaled = has & DOP_FAM_LAYER_SCALE;
    a->final_norm = has & DOP_FAM_SUM_NORM ? none : norm;
    t->both = has & DOP_FAM_ENCODER;
    a->encoder = (dop_encoder){.used = f->pool != DOP_BY_NONE,
                               .n_types = f->types,
                               .norm_sum = has & DOP_FAM_ENCODER,
                               .pool = f->pool,
                               .normalized = true,
                               .relative.most = f->relative_most};
    layer->ffn.gated = !(has & DOP_FAM_NOT_GATED);
    t->bias_q = t->bias_k = t->bias_v = f->bias_qkv.otherwise;
    t->bias_o = f->bias_o.otherwise;
    layer->ffn.bias = f->bias_ffn.otherwise;
    layer->ffn.bias_down = f->bias_down;
    layer->parallel = f->parallel.otherwise;
    a->learned_positions = has & DOP_FAM_LEARNED_POS;
    a->cross.norm = has & DOP_FAM_CROSS ? norm : none;
    if (has & DOP_FAM_CROSS)
        t->bias_k = false;
}

void
dop_set_norms(dop_arch *a, dop_layer *layer, double eps, double add)
{
    dop_attention *t = &layer->mixers[0].attn;
    dop_norm *const norms[] = {&layer->attn_norm,    &layer->post_attn_norm,
                               &layer->ffn_norm,     &layer->post_ffn_norm,
                               &t->q_norm,           &t->k_norm,
                               &t->v_norm,           &a->final_norm,
                               &t->o_norm,           &layer->ffn.down_norm,
                               &a->embed_norm,       &layer->attn_sum_norm,
                               &layer->ffn_sum_norm, &a->cross.norm};
    for (size_t i = 0; i < sizeof norms / sizeof *norms; i++)
        if (norms[i]->kind != DOP_NORM_NONE) {
            norms[i]->eps = eps;
            norms[i]->add = add;
        }
}
