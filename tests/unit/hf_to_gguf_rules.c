/* The rules of llama.cpp's converter for the families that the tests have, as tables: which name a tensor takes and what is
 * done to its values.  Facts: conversion/ and gguf-py/gguf/{constants,tensor_mapping}.py of its repository. */
#include "tests/unit/hf_to_gguf_parts.h"

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
    {"*.eh_proj", "nextn.eh_proj", HG_PLAIN},
    {"*.enorm", "nextn.enorm", HG_NORM},
    {"*.hnorm", "nextn.hnorm", HG_NORM},
    {"*.shared_head.norm", "nextn.shared_head_norm", HG_NORM},
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
static const hg_rule exaone[] = {
    {"wte", "token_embd", HG_PLAIN},
    {"ln_f", "output_norm", HG_PLAIN},
    {"lm_head", "output", HG_PLAIN},
    {"*.ln_1", "attn_norm", HG_PLAIN},
    {"*.attn.attention.q_proj", "attn_q", HG_PLAIN},
    {"*.attn.attention.k_proj", "attn_k", HG_PLAIN},
    {"*.attn.attention.v_proj", "attn_v", HG_PLAIN},
    {"*.attn.attention.out_proj", "attn_output", HG_PLAIN},
    {"*.ln_2", "ffn_norm", HG_PLAIN},
    {"*.mlp.c_fc_0", "ffn_gate", HG_PLAIN},
    {"*.mlp.c_fc_1", "ffn_up", HG_PLAIN},
    {"*.mlp.c_proj", "ffn_down", HG_PLAIN},
    {0},
};
static const hg_rule bailing[] = {
    {"word_embeddings", "token_embd", HG_PLAIN},
    {"*.attention.query_key_value", "attn_qkv", HG_PLAIN},
    {"*.attention.query_layernorm", "attn_q_norm", HG_PLAIN},
    {"*.attention.key_layernorm", "attn_k_norm", HG_PLAIN},
    {"*.attention.dense", "attn_output", HG_PLAIN},
    {"*.mlp.gate.expert_bias", "exp_probs_b.bias", HG_WHOLE_NAME},
    {0},
};
static const hg_rule stacked[] = {
    {"*.mlp.experts.gate_up_proj", "ffn_gate_up_exps.weight", HG_WHOLE_NAME},
    {"*.mlp.experts.down_proj", "ffn_down_exps.weight", HG_WHOLE_NAME},
    {0},
};
static const hg_rule qwen3_vl[] = {
    {"*.mlp.experts.gate_up_proj", "ffn_gate_exps.weight,ffn_up_exps.weight", HG_HALVES},
    {"*.mlp.experts.down_proj", "ffn_down_exps.weight", HG_WHOLE_NAME},
    {0},
};
static const hg_rule deepseek[] = {
    {"*.self_attn.q_a_proj", "attn_q_a", HG_PLAIN},
    {"*.self_attn.q_a_layernorm", "attn_q_a_norm", HG_PLAIN},
    {"*.self_attn.q_b_proj", "attn_q_b", HG_PLAIN},
    {"*.self_attn.kv_a_proj_with_mqa", "attn_kv_a_mqa", HG_PLAIN},
    {"*.self_attn.kv_a_layernorm", "attn_kv_a_norm", HG_PLAIN},
    {"*.self_attn.kv_b_proj", "attn_k_b.weight,attn_v_b.weight", HG_KV_B},
    {"*.self_attn.indexer.wq_b", "indexer.attn_q_b", HG_PLAIN},
    {"*.self_attn.indexer.wk", "indexer.attn_k", HG_PLAIN},
    {"*.self_attn.indexer.k_norm", "indexer.k_norm", HG_PLAIN},
    {"*.self_attn.indexer.weights_proj", "indexer.proj", HG_PLAIN},
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

/* ---- families that came later ------------------------------------------------------------------------------------- */

static const hg_rule hunyuan[] = {
    {"*.self_attn.query_layernorm", "attn_q_norm", HG_PLAIN},
    {"*.self_attn.key_layernorm", "attn_k_norm", HG_PLAIN},
    {"*.mlp.gate.wg", "ffn_gate_inp", HG_PLAIN},
    {"*.mlp.shared_mlp.gate_proj", "ffn_gate_shexp", HG_PLAIN},
    {"*.mlp.shared_mlp.up_proj", "ffn_up_shexp", HG_PLAIN},
    {"*.mlp.shared_mlp.down_proj", "ffn_down_shexp", HG_PLAIN},
    {"*.mlp.router.gate", "ffn_gate_inp", HG_PLAIN},
    {0},
};
static const hg_rule hy_v3[] = {
    {"*.mlp.expert_bias", "exp_probs_b", HG_WHOLE_NAME},
    {0},
};
static const hg_rule afmoe[] = {
    {"*.mlp.expert_bias", "exp_probs_b.bias", HG_WHOLE_NAME},
    {"*.mlp.router.gate", "ffn_gate_inp", HG_PLAIN},
    {"*.self_attn.gate_proj", "attn_gate", HG_PLAIN},
    {"*.post_attention_layernorm", "post_attention_norm", HG_PLAIN},
    {"*.pre_mlp_layernorm", "ffn_norm", HG_PLAIN},
    {"*.post_mlp_layernorm", "post_ffw_norm", HG_PLAIN},
    {0},
};
static const hg_rule stablelm[] = {
    {"*.self_attn.q_layernorm.norms.*", "attn_q_norm", HG_EXPERTS},
    {"*.self_attn.k_layernorm.norms.*", "attn_k_norm", HG_EXPERTS},
    {0},
};
static const hg_rule phi[] = {
    {"final_layernorm", "output_norm", HG_PLAIN},
    {"*.self_attn.dense", "attn_output", HG_PLAIN},
    {"*.mlp.fc1", "ffn_up", HG_PLAIN},
    {"*.mlp.fc2", "ffn_down", HG_PLAIN},
    {0},
};
static const hg_rule falcon[] = {
    {"word_embeddings", "token_embd", HG_PLAIN},
    {"ln_f", "output_norm", HG_PLAIN},
    {"*.ln_attn", "attn_norm_2", HG_PLAIN},
    {"*.ln_mlp", "attn_norm", HG_PLAIN},
    {"*.self_attention.query_key_value", "attn_qkv", HG_QKV_BY_GROUP},
    {"*.self_attention.dense", "attn_output", HG_PLAIN},
    {"*.mlp.dense_h_to_4h", "ffn_up", HG_PLAIN},
    {"*.mlp.dense_4h_to_h", "ffn_down", HG_PLAIN},
    {0},
};
static const hg_rule bloom[] = {
    {"word_embeddings_layernorm", "token_embd_norm", HG_PLAIN},
    {"*.self_attention.query_key_value", "attn_qkv", HG_QKV_BY_HEAD},
    {0},
};
static const hg_rule mpt[] = {
    {"wte", "token_embd", HG_PLAIN},
    {"norm_f", "output_norm", HG_PLAIN},
    {"*.norm_1", "attn_norm", HG_PLAIN},
    {"*.norm_2", "ffn_norm", HG_PLAIN},
    {"*.attn.Wqkv", "attn_qkv", HG_PLAIN},
    {"*.attn.out_proj", "attn_output", HG_PLAIN},
    {"*.ffn.up_proj", "ffn_up", HG_PLAIN},
    {"*.ffn.down_proj", "ffn_down", HG_PLAIN},
    {"*.norm_attn_norm.norm_1", "attn_norm", HG_PLAIN}, /* DBRX */
    {"*.norm_attn_norm.norm_2", "attn_output_norm", HG_PLAIN},
    {"*.norm_attn_norm.attn.Wqkv", "attn_qkv", HG_PLAIN},
    {"*.norm_attn_norm.attn.out_proj", "attn_output", HG_PLAIN},
    {"*.ffn.router.layer", "ffn_gate_inp", HG_PLAIN},
    {"*.ffn.experts.mlp.w1", "ffn_gate_exps.weight", HG_FLAT},
    {"*.ffn.experts.mlp.v1", "ffn_up_exps.weight", HG_FLAT},
    {"*.ffn.experts.mlp.w2", "ffn_down_exps.weight", HG_FLAT_TURNED},
    {0},
};
static const hg_rule exaone_moe[] = {
    {"*.mlp.e_score_correction_bias", "exp_probs_b.bias", HG_WHOLE_NAME},
    {0},
};
static const hg_rule laguna[] = {
    {"*.mlp.experts.e_score_correction_bias", "exp_probs_b.bias", HG_WHOLE_NAME},
    {"*.self_attn.g_proj", "attn_gate", HG_PLAIN},
    {"*.self_attn.attention_sink_bias", "attn_sinks.weight", HG_WHOLE_NAME}, /* MiMo */
    {0},
};
static const hg_rule muse_glimmer[] = {
    {"norm", "output_norm", HG_PLAIN}, /* the only one that is not stored minus 1 */
    {"*.self_attn.gate_proj", "attn_gate", HG_PLAIN},
    {0},
};
static const hg_rule minicpm3[] = {
    {"*.self_attn.kv_b_proj", "attn_kv_b", HG_PLAIN},
    {0},
};
static const hg_rule gemma3n[] = {
    {"altup_projections.*", "altup_proj", HG_EXPERTS},
    {"altup_unembed_projections.*", "altup_unembd_proj", HG_EXPERTS},
    {"*.altup.router_norm", "altup_router_norm", HG_PLAIN},
    {"*.altup.modality_router", "altup_router", HG_PLAIN},
    {"*.altup.prediction_coefs", "altup_predict_coef", HG_PLAIN},
    {"*.altup.correction_coefs", "altup_correct_coef", HG_PLAIN},
    {"*.altup.correct_output_scale", "altup_correct_scale.weight", HG_WHOLE_NAME},
    {"*.laurel.linear_left", "laurel_l", HG_PLAIN},
    {"*.laurel.linear_right", "laurel_r", HG_PLAIN},
    {"*.laurel.post_laurel_norm", "laurel_post_norm", HG_PLAIN},
    {0},
};
static const hg_rule lfm2_moe[] = {
    {"*.feed_forward.gate", "ffn_gate_inp", HG_PLAIN},
    {"*.feed_forward.expert_bias", "exp_probs_b.bias", HG_WHOLE_NAME},
    {"*.feed_forward.experts.*.w1", "ffn_gate_exps", HG_EXPERTS},
    {"*.feed_forward.experts.*.w3", "ffn_up_exps", HG_EXPERTS},
    {"*.feed_forward.experts.*.w2", "ffn_down_exps", HG_EXPERTS},
    {0},
};
static const hg_rule nemotron_h[] = {
    {"*.mixer.q_proj", "attn_q", HG_PLAIN},
    {"*.mixer.k_proj", "attn_k", HG_PLAIN},
    {"*.mixer.v_proj", "attn_v", HG_PLAIN},
    {"*.mixer.o_proj", "attn_output", HG_PLAIN},
    {"*.post_attention_layernorm", "post_attention_norm", HG_PLAIN},
    {"*.mixer.up_proj", "ffn_up", HG_PLAIN},
    {"*.mixer.down_proj", "ffn_down", HG_PLAIN},
    {"*.mixer.gate", "ffn_gate_inp", HG_PLAIN},
    {"*.mixer.gate.e_score_correction_bias", "exp_probs_b.bias", HG_WHOLE_NAME},
    {"*.mixer.experts.*.up_proj", "ffn_up_exps", HG_EXPERTS},
    {"*.mixer.experts.*.down_proj", "ffn_down_exps", HG_EXPERTS},
    {"*.mixer.shared_experts.up_proj", "ffn_up_shexp", HG_PLAIN},
    {"*.mixer.shared_experts.down_proj", "ffn_down_shexp", HG_PLAIN},
    {0},
};
/* Mamba's selective scan, its own names and Jamba's. */
static const hg_rule selective[] = {
    {"*.mixer.in_proj", "ssm_in", HG_PLAIN},
    {"*.mixer.x_proj", "ssm_x", HG_PLAIN},
    {"*.mixer.dt_proj", "ssm_dt", HG_PLAIN},
    {"*.mixer.A_log", "ssm_a", HG_DECAY},
    {"*.mixer.D", "ssm_d", HG_WHOLE_NAME},
    {"final_layernorm", "output_norm", HG_PLAIN},
    {"*.pre_ff_layernorm", "ffn_norm", HG_PLAIN},
    {"*.mamba.in_proj", "ssm_in", HG_PLAIN},
    {"*.mamba.x_proj", "ssm_x", HG_PLAIN},
    {"*.mamba.dt_proj", "ssm_dt", HG_PLAIN},
    {"*.mamba.dt_layernorm", "ssm_dt_norm", HG_PLAIN},
    {"*.mamba.b_layernorm", "ssm_b_norm", HG_PLAIN},
    {"*.mamba.c_layernorm", "ssm_c_norm", HG_PLAIN},
    {"*.mamba.A_log", "ssm_a", HG_DECAY},
    {"*.mamba.D", "ssm_d", HG_WHOLE_NAME},
    {"*.feed_forward.gate_proj", "ffn_gate", HG_PLAIN},
    {"*.feed_forward.up_proj", "ffn_up", HG_PLAIN},
    {"*.feed_forward.down_proj", "ffn_down", HG_PLAIN},
    {"*.feed_forward.router", "ffn_gate_inp", HG_PLAIN},
    {"*.feed_forward.experts.*.gate_proj", "ffn_gate_exps", HG_EXPERTS},
    {"*.feed_forward.experts.*.up_proj", "ffn_up_exps", HG_EXPERTS},
    {"*.feed_forward.experts.*.down_proj", "ffn_down_exps", HG_EXPERTS},
    {0},
};
static const hg_rule kimi_linear[] = {
    {"*.self_attn.q_conv1d", "ssm_conv1d_q", HG_TAPS_APART},
    {"*.self_attn.k_conv1d", "ssm_conv1d_k", HG_TAPS_APART},
    {"*.self_attn.v_conv1d", "ssm_conv1d_v", HG_TAPS_APART},
    {"*.self_attn.f_a_proj", "ssm_f_a", HG_PLAIN},
    {"*.self_attn.f_b_proj", "ssm_f_b", HG_PLAIN},
    {"*.self_attn.g_a_proj", "ssm_g_a", HG_PLAIN},
    {"*.self_attn.g_b_proj", "ssm_g_b", HG_PLAIN},
    {"*.self_attn.b_proj", "ssm_beta", HG_PLAIN},
    {"*.self_attn.A_log", "ssm_a", HG_DECAY},
    {"*.self_attn.dt_bias", "ssm_dt.bias", HG_WHOLE_NAME},
    {"*.self_attn.o_norm", "ssm_norm", HG_PLAIN},
    {"*.block_sparse_moe.gate_proj", "ffn_gate", HG_PLAIN},
    {"*.block_sparse_moe.up_proj", "ffn_up", HG_PLAIN},
    {"*.block_sparse_moe.down_proj", "ffn_down", HG_PLAIN},
    {"*.block_sparse_moe.gate.e_score_correction_bias", "exp_probs_b.bias", HG_WHOLE_NAME},
    {"*.block_sparse_moe.shared_experts.gate_proj", "ffn_gate_shexp", HG_PLAIN},
    {"*.block_sparse_moe.shared_experts.up_proj", "ffn_up_shexp", HG_PLAIN},
    {"*.block_sparse_moe.shared_experts.down_proj", "ffn_down_shexp", HG_PLAIN},
    {0},
};

/* StarCoder and CodeShell: GPT-2's names, of matrices that are not transposed. */
static const hg_rule starcoder[] = {
    {"*.attn.c_attn", "attn_qkv", HG_PLAIN}, {"*.attn.c_proj", "attn_output", HG_PLAIN},
    {"*.mlp.c_fc", "ffn_up", HG_PLAIN},      {"*.mlp.c_proj", "ffn_down", HG_PLAIN},
    {"*.mlp.w1", "ffn_up", HG_PLAIN}, /* Qwen 1 */
    {"*.mlp.w2", "ffn_gate", HG_PLAIN},      {0},
};

/* ---- families ----------------------------------------------------------------------------------------------------- */

const hg_family hg_families[] = {
    {"llama", "llama", {common}, HG_PERMUTE, NULL},
    {"mistral", "llama", {common}, HG_PERMUTE, hg_window},
    {"qwen2", "qwen2", {common}, 0, NULL},
    {"qwen3", "qwen3", {common}, 0, hg_pooling},
    {"bert distilbert", "bert", {hg_bert}, HG_NO_ROPE | HG_OWN_WORDS, hg_encoder},
    {"xlm-roberta", "bert", {hg_roberta, hg_bert}, HG_NO_ROPE | HG_OWN_WORDS, hg_encoder},
    {"nomic_bert", "nomic-bert", {hg_nomic_bert, hg_bert}, HG_OWN_WORDS, hg_encoder},
    {"modernbert", "modern-bert", {hg_modernbert}, HG_OWN_WORDS | HG_LAYER_NORM, hg_modern_bert},
    {"eurobert", "eurobert", {common}, 0, hg_encoder},
    {"t5", "t5encoder", {hg_t5}, HG_NO_ROPE | HG_RMS, hg_t5_encoder},
    {"qwen2_vl_text qwen2_5_vl_text", "qwen2vl", {common}, 0, hg_sections},
    {"qwen3_vl_text", "qwen3vl", {common}, 0, hg_sections},
    {"qwen3_vl_moe_text", "qwen3vlmoe", {qwen3_vl, experts, common}, 0, hg_sections},
    {"gemma", "gemma", {common}, HG_ADD_1, NULL},
    {"gemma2", "gemma2", {sandwich, common}, HG_ADD_1, hg_gemma},
    {"gemma3_text", "gemma3", {sandwich, common}, HG_ADD_1, hg_embedding_gemma},
    {"gemma4_text", "gemma4", {gemma4, sandwich, common}, HG_OWN_KV | HG_OWN_FFN | HG_OWN_HEADS, hg_gemma4},
    {"phi3", "phi3", {phi3, common}, 0, hg_window},
    {"gpt2", "gpt2", {gpt2, common}, 0, NULL},
    {"orion", "orion", {common}, HG_LAYER_NORM, NULL},
    {"PanguEmbedded", "pangu-embedded", {common}, 0, NULL},
    {"gpt_bigcode", "starcoder", {starcoder, gpt2, common}, HG_OWN_KV, hg_starcoder},
    {"codeshell", "codeshell", {starcoder, gpt2, common}, 0, NULL},
    {"qwen", "qwen", {starcoder, gpt2, common}, HG_RMS, NULL},
    {"granite", "granite", {common}, HG_PERMUTE, hg_granite},
    {"olmo2", "olmo2", {sandwich, common}, 0, NULL},
    {"smollm3", "smollm3", {common}, HG_PERMUTE, NULL},
    {"arcee", "arcee", {common}, HG_PERMUTE, NULL},
    {"seed_oss", "seed_oss", {seed_oss, common}, 0, NULL},
    {"ernie4_5", "ernie4_5", {common}, 0, NULL},
    {"starcoder2", "starcoder2", {starcoder2, common}, 0, NULL},
    {"stablelm", "stablelm", {stablelm, common}, 0, hg_parallel},
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
    {"deepseek_v3", "deepseek2", {deepseek, experts, common}, HG_OWN_KV | HG_OWN_HEADS, hg_deepseek},
    {"deepseek_v32", "deepseek32", {deepseek, experts, common}, HG_OWN_KV | HG_OWN_HEADS, hg_deepseek},
    {"minicpm", "minicpm", {common}, HG_PERMUTE, hg_minicpm},
    {"glm", "chatglm", {glm4, common}, 0, NULL},
    {"exaone", "exaone", {exaone}, HG_RMS, NULL},
    {"deepseek", "deepseek", {experts, common}, HG_PERMUTE, hg_experts},
    {"bailing_moe", "bailingmoe2", {bailing, experts, common}, 0, hg_bailing},
    {"mistral4", "mistral4", {deepseek, stacked, experts, common}, HG_OWN_KV | HG_OWN_HEADS, hg_deepseek},
    {"glm_moe_dsa", "glm-dsa", {deepseek, experts, common}, HG_OWN_KV | HG_OWN_HEADS, hg_deepseek},
    {"glm4_moe", "glm4moe", {seed_oss, experts, common}, 0, hg_experts},
    {"ernie4_5_moe", "ernie4_5-moe", {experts, common}, 0, hg_experts},
    {"minimax_m2", "minimax-m2", {experts, common}, 0, hg_experts},
    {"llama4_text", "llama4", {llama4, common}, 0, hg_llama4},
    {"qwen3_next", "qwen3next", {qwen3_next, experts, common}, HG_ADD_1, hg_delta},
    {"qwen3_5_text", "qwen35", {qwen3_5, common}, HG_ADD_1, hg_delta},
    {"granitemoehybrid", "granitehybrid", {granite_hybrid, hybrid, common}, HG_PERMUTE | HG_OWN_KV, hg_granite_hybrid},
    {"falcon_h1", "falcon-h1", {falcon_h1, hybrid, common}, HG_MULTIPLIED, hg_ssm},
    {"lfm2", "lfm2", {lfm2, common}, HG_OWN_KV, hg_lfm2},
    {"mamba2", "mamba2", {mamba2, common}, HG_RMS, hg_ssm},
    {"ministral3", "mistral3", {common}, HG_PERMUTE, hg_mistral3},
    {"olmo", "olmo", {common}, HG_PERMUTE, hg_clip},
    {"olmo3", "olmo2", {sandwich, common}, 0, hg_window_flags},
    {"hunyuan_v1_dense", "hunyuan-dense", {hunyuan, common}, 0, NULL},
    {"hunyuan_v1_moe", "hunyuan-moe", {hunyuan, experts, common}, 0, hg_hunyuan},
    {"cohere", "command-r", {common}, 0, hg_cohere},
    {"phi", "phi2", {phi, common}, 0, NULL},
    {"phimoe", "phimoe", {experts, common}, HG_RMS, hg_experts},
    {"falcon", "falcon", {falcon}, HG_NO_ROPE, NULL},
    {"bloom", "bloom", {bloom, falcon, common}, HG_NO_ROPE, NULL},
    {"mpt", "mpt", {mpt}, HG_NO_ROPE, hg_clip},
    {"dbrx", "dbrx", {mpt, common}, HG_NO_ROPE, hg_dbrx},
    {"jais2", "jais2", {common}, 0, NULL},
    {"minicpm3", "minicpm3", {minicpm3, deepseek, common}, HG_OWN_HEADS, hg_minicpm3},
    {"muse_glimmer_text", "muse-glimmer", {muse_glimmer, sandwich, common}, HG_PERMUTE | HG_ADD_1, hg_muse_glimmer},
    {"gemma3n_text", "gemma3n", {gemma3n, gemma4, sandwich, common}, HG_OWN_FFN, hg_gemma3n},
    {"deepseek_v2 glm4_moe_lite", "deepseek2", {deepseek, experts, common}, HG_OWN_KV | HG_OWN_HEADS, hg_deepseek},
    {"solar_open", "glm4moe", {seed_oss, experts, common}, 0, hg_experts},
    {"dots1", "dots1", {experts, common}, 0, hg_experts},
    {"exaone_moe", "exaone-moe", {exaone_moe, experts, common}, 0, hg_experts_in_windows},
    {"hy_v3", "hy_v3", {hy_v3, hunyuan, experts, common}, 0, hg_experts},
    {"afmoe", "afmoe", {afmoe, experts, common}, 0, hg_experts_in_windows},
    {"laguna", "laguna", {laguna, experts, common}, HG_OWN_HEADS, hg_laguna},
    {"mimo_v2_flash", "mimo2", {laguna, experts, common}, HG_OWN_KV | HG_OWN_HEADS | HG_NO_ROPE, hg_mimo2},
    {"granitemoe granitemoeshared", "granitemoe", {granite_hybrid, common}, HG_PERMUTE, hg_granite_moe},
    {"qwen3_5_moe_text", "qwen35moe", {qwen3_5, experts, common}, HG_ADD_1, hg_delta},
    {"lfm2_moe", "lfm2moe", {lfm2_moe, lfm2, common}, HG_OWN_KV, hg_lfm2},
    {"nemotron_h", "nemotron_h", {nemotron_h, mamba2, common}, HG_OWN_KV | HG_OWN_FFN | HG_RMS, hg_nemotron_h},
    {"mamba", "mamba", {selective, mamba2, common}, HG_RMS, hg_selective},
    {"jamba", "jamba", {selective, hybrid, common}, HG_OWN_KV | HG_NO_ROPE, hg_selective},
    {"kimi_linear", "kimi-linear", {kimi_linear, deepseek, experts, common}, HG_OWN_KV | HG_OWN_HEADS, hg_kimi_linear},
    {0},
};
