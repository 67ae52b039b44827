/* Names and fields of the families in families/dense.def and families/encoders.def. */
#include "frontend/families/families_dense.h"

const dop_hf_keys dop_keys_falcon = {
    .hidden = "hidden_size",
    .layers = "num_hidden_layers",
    .heads = "num_attention_heads",
    .kv_heads = "num_kv_heads",
    .ctx = "max_position_embeddings",
    .ffn = "ffn_hidden_size",
    .act = "activation",
    .eps = "layer_norm_epsilon",
};
const dop_hf_keys dop_keys_bloom = {
    .hidden = "hidden_size|n_embed",
    .layers = "n_layer|num_hidden_layers",
    .heads = "n_head|num_attention_heads",
    .ctx = "seq_length",
    .ffn = "intermediate_size",
    .act = "hidden_act",
    .eps = "layer_norm_epsilon",
};
const dop_hf_keys dop_keys_mpt = {
    .hidden = "d_model",
    .layers = "n_layers",
    .heads = "n_heads",
    .kv_heads = "attn_config.kv_n_heads",
    .ctx = "max_seq_len",
    .ffn = "intermediate_size",
    .act = "hidden_act",
    .eps = "layer_norm_epsilon",
};
const dop_hf_keys dop_keys_opt = {
    .hidden = "hidden_size",
    .layers = "num_hidden_layers",
    .heads = "num_attention_heads",
    .ctx = "max_position_embeddings",
    .ffn = "ffn_dim",
    .act = "activation_function",
    .eps = "layer_norm_eps",
};

const dop_hf_keys dop_keys_whisper = {
    .hidden = "d_model",
    .layers = "decoder_layers",
    .heads = "decoder_attention_heads",
    .ctx = "max_target_positions",
    .ffn = "decoder_ffn_dim",
    .act = "activation_function",
    .eps = "layer_norm_eps",
};

const dop_tensor_name dop_names_phi[] = {
    {DOP_W_final_norm, "final_layernorm.weight", DOP_PART_ALL, false},
    {DOP_W_final_norm_bias, "final_layernorm.bias", DOP_PART_ALL, false},
    {DOP_W_lm_head_bias, "lm_head.bias", DOP_PART_ALL, false},
    {DOP_W_o, "self_attn.dense.weight", DOP_PART_ALL, false},
    {DOP_W_o_bias, "self_attn.dense.bias", DOP_PART_ALL, false},
    {DOP_W_up, "mlp.fc1.weight", DOP_PART_ALL, false},
    {DOP_W_up_bias, "mlp.fc1.bias", DOP_PART_ALL, false},
    {DOP_W_down, "mlp.fc2.weight", DOP_PART_ALL, false},
    {DOP_W_down_bias, "mlp.fc2.bias", DOP_PART_ALL, false},
    {.role = DOP_W_none},
};
/* Norms of queries and keys with weights per head: here a matrix with a row per head; in StableLM one vector tensor per head. */
const dop_tensor_name dop_names_head_norms[] = {
    {DOP_W_q_norm, "self_attn.q_norm.weight", DOP_PART_HEADS, false},
    {DOP_W_k_norm, "self_attn.k_norm.weight", DOP_PART_HEADS, false},
    {.role = DOP_W_none},
};
const dop_tensor_name dop_names_stablelm[] = {
    {DOP_W_q_norm, "self_attn.q_layernorm.norms.*.weight", DOP_PART_ALL, false},
    {DOP_W_k_norm, "self_attn.k_layernorm.norms.*.weight", DOP_PART_ALL, false},
    {.role = DOP_W_none},
};
const dop_tensor_name dop_names_falcon[] = {
    {DOP_W_embed, "word_embeddings.weight", DOP_PART_ALL, false},
    {DOP_W_final_norm, "ln_f.weight", DOP_PART_ALL, false},
    {DOP_W_final_norm_bias, "ln_f.bias", DOP_PART_ALL, false},
    {DOP_W_lm_head, "lm_head.weight", DOP_PART_ALL, false},
    {DOP_W_attn_norm, "ln_attn.weight", DOP_PART_ALL, false},
    {DOP_W_attn_norm_bias, "ln_attn.bias", DOP_PART_ALL, false},
    {DOP_W_q, "self_attention.query_key_value.weight", DOP_PART_GQA_Q, false},
    {DOP_W_k, "self_attention.query_key_value.weight", DOP_PART_GQA_K, false},
    {DOP_W_v, "self_attention.query_key_value.weight", DOP_PART_GQA_V, false},
    {DOP_W_q_bias, "self_attention.query_key_value.bias", DOP_PART_GQA_Q, false},
    {DOP_W_k_bias, "self_attention.query_key_value.bias", DOP_PART_GQA_K, false},
    {DOP_W_v_bias, "self_attention.query_key_value.bias", DOP_PART_GQA_V, false},
    {DOP_W_o, "self_attention.dense.weight", DOP_PART_ALL, false},
    {DOP_W_o_bias, "self_attention.dense.bias", DOP_PART_ALL, false},
    {DOP_W_ffn_norm, "ln_mlp.weight", DOP_PART_ALL, false},
    {DOP_W_ffn_norm_bias, "ln_mlp.bias", DOP_PART_ALL, false},
    {DOP_W_up, "mlp.dense_h_to_4h.weight", DOP_PART_ALL, false},
    {DOP_W_up_bias, "mlp.dense_h_to_4h.bias", DOP_PART_ALL, false},
    {DOP_W_down, "mlp.dense_4h_to_h.weight", DOP_PART_ALL, false},
    {DOP_W_down_bias, "mlp.dense_4h_to_h.bias", DOP_PART_ALL, false},
    {DOP_W_attn_norm, "input_layernorm.weight", DOP_PART_ALL, false}, /* older checkpoints */
    {DOP_W_attn_norm_bias, "input_layernorm.bias", DOP_PART_ALL, false},
    {DOP_W_ffn_norm, "post_attention_layernorm.weight", DOP_PART_ALL, false},
    {DOP_W_ffn_norm_bias, "post_attention_layernorm.bias", DOP_PART_ALL, false},
    {.role = DOP_W_none},
};
const dop_tensor_name dop_names_bloom[] = {
    {DOP_W_embed_norm, "word_embeddings_layernorm.weight", DOP_PART_ALL, false},
    {DOP_W_embed_norm_bias, "word_embeddings_layernorm.bias", DOP_PART_ALL, false},
    {DOP_W_attn_norm, "input_layernorm.weight", DOP_PART_ALL, false},
    {DOP_W_attn_norm_bias, "input_layernorm.bias", DOP_PART_ALL, false},
    {DOP_W_ffn_norm, "post_attention_layernorm.weight", DOP_PART_ALL, false},
    {DOP_W_ffn_norm_bias, "post_attention_layernorm.bias", DOP_PART_ALL, false},
    {.role = DOP_W_none},
};
const dop_tensor_name dop_names_mpt[] = {
    {DOP_W_embed, "wte.weight", DOP_PART_ALL, false},          {DOP_W_final_norm, "norm_f.weight", DOP_PART_ALL, false},
    {DOP_W_lm_head, "lm_head.weight", DOP_PART_ALL, false},    {DOP_W_attn_norm, "norm_1.weight", DOP_PART_ALL, false},
    {DOP_W_q, "attn.Wqkv.weight", DOP_PART_Q, false},          {DOP_W_k, "attn.Wqkv.weight", DOP_PART_K, false},
    {DOP_W_v, "attn.Wqkv.weight", DOP_PART_V, false},          {DOP_W_o, "attn.out_proj.weight", DOP_PART_ALL, false},
    {DOP_W_ffn_norm, "norm_2.weight", DOP_PART_ALL, false},    {DOP_W_up, "ffn.up_proj.weight", DOP_PART_ALL, false},
    {DOP_W_down, "ffn.down_proj.weight", DOP_PART_ALL, false}, {.role = DOP_W_none},
};
const dop_tensor_name dop_names_opt[] = {
    {DOP_W_pos_embed, "embed_positions.weight", DOP_PART_BELOW_2, false},
    {DOP_W_final_norm, "final_layer_norm.weight", DOP_PART_ALL, false},
    {DOP_W_final_norm_bias, "final_layer_norm.bias", DOP_PART_ALL, false},
    {DOP_W_attn_norm, "self_attn_layer_norm.weight", DOP_PART_ALL, false},
    {DOP_W_attn_norm_bias, "self_attn_layer_norm.bias", DOP_PART_ALL, false},
    {DOP_W_attn_sum_norm, "self_attn_layer_norm.weight", DOP_PART_ALL, false},
    {DOP_W_attn_sum_norm_bias, "self_attn_layer_norm.bias", DOP_PART_ALL, false},
    {DOP_W_ffn_sum_norm, "final_layer_norm.weight", DOP_PART_ALL, false},
    {DOP_W_ffn_sum_norm_bias, "final_layer_norm.bias", DOP_PART_ALL, false},
    {DOP_W_embed_in, "project_in.weight", DOP_PART_ALL, false},
    {DOP_W_embed_out, "project_out.weight", DOP_PART_ALL, false},
    {DOP_W_o, "self_attn.out_proj.weight", DOP_PART_ALL, false},
    {DOP_W_o_bias, "self_attn.out_proj.bias", DOP_PART_ALL, false},
    {DOP_W_ffn_norm, "final_layer_norm.weight", DOP_PART_ALL, false},
    {DOP_W_ffn_norm_bias, "final_layer_norm.bias", DOP_PART_ALL, false},
    {DOP_W_up, "fc1.weight", DOP_PART_ALL, false},
    {DOP_W_up_bias, "fc1.bias", DOP_PART_ALL, false},
    {DOP_W_down, "fc2.weight", DOP_PART_ALL, false},
    {DOP_W_down_bias, "fc2.bias", DOP_PART_ALL, false},
    {.role = DOP_W_none},
};
const dop_tensor_name dop_names_internlm2[] = {
    {DOP_W_embed, "tok_embeddings.weight", DOP_PART_ALL, false},
    {DOP_W_lm_head, "output.weight", DOP_PART_ALL, false},
    {DOP_W_attn_norm, "attention_norm.weight", DOP_PART_ALL, false},
    {DOP_W_q, "attention.wqkv.weight", DOP_PART_GQA_Q, false},
    {DOP_W_k, "attention.wqkv.weight", DOP_PART_GQA_K, false},
    {DOP_W_v, "attention.wqkv.weight", DOP_PART_GQA_V, false},
    {DOP_W_q_bias, "attention.wqkv.bias", DOP_PART_GQA_Q, false},
    {DOP_W_k_bias, "attention.wqkv.bias", DOP_PART_GQA_K, false},
    {DOP_W_v_bias, "attention.wqkv.bias", DOP_PART_GQA_V, false},
    {DOP_W_o, "attention.wo.weight", DOP_PART_ALL, false},
    {DOP_W_o_bias, "attention.wo.bias", DOP_PART_ALL, false},
    {DOP_W_ffn_norm, "ffn_norm.weight", DOP_PART_ALL, false},
    {DOP_W_gate, "feed_forward.w1.weight", DOP_PART_ALL, false},
    {DOP_W_up, "feed_forward.w3.weight", DOP_PART_ALL, false},
    {DOP_W_down, "feed_forward.w2.weight", DOP_PART_ALL, false},
    {.role = DOP_W_none},
};
const dop_hf_keys dop_keys_exaone = {
    .hidden = "hidden_size",
    .layers = "num_layers|num_hidden_layers",
    .heads = "num_attention_heads",
    .ctx = "max_position_embeddings",
    .ffn = "intermediate_size",
    .act = "activation_function",
    .eps = "layer_norm_epsilon",
};
const dop_tensor_name dop_names_exaone[] = {
    {DOP_W_embed, "wte.weight", DOP_PART_ALL, false},
    {DOP_W_final_norm, "ln_f.weight", DOP_PART_ALL, false},
    {DOP_W_lm_head, "lm_head.weight", DOP_PART_ALL, false},
    {DOP_W_attn_norm, "ln_1.weight", DOP_PART_ALL, false},
    {DOP_W_q, "attn.attention.q_proj.weight", DOP_PART_ALL, false},
    {DOP_W_k, "attn.attention.k_proj.weight", DOP_PART_ALL, false},
    {DOP_W_v, "attn.attention.v_proj.weight", DOP_PART_ALL, false},
    {DOP_W_o, "attn.attention.out_proj.weight", DOP_PART_ALL, false},
    {DOP_W_ffn_norm, "ln_2.weight", DOP_PART_ALL, false},
    {DOP_W_gate, "mlp.c_fc_0.weight", DOP_PART_ALL, false},
    {DOP_W_up, "mlp.c_fc_1.weight", DOP_PART_ALL, false},
    {DOP_W_down, "mlp.c_proj.weight", DOP_PART_ALL, false},
    {.role = DOP_W_none},
};
const dop_tensor_name dop_names_whisper[] = {
    {DOP_W_lm_head, "proj_out.weight", DOP_PART_ALL, false},
    {DOP_W_pos_embed, "embed_positions.weight", DOP_PART_ALL, false},
    {DOP_W_final_norm, "layer_norm.weight", DOP_PART_ALL, false},
    {DOP_W_final_norm_bias, "layer_norm.bias", DOP_PART_ALL, false},
    {DOP_W_attn_norm, "self_attn_layer_norm.weight", DOP_PART_ALL, false},
    {DOP_W_attn_norm_bias, "self_attn_layer_norm.bias", DOP_PART_ALL, false},
    {DOP_W_o, "self_attn.out_proj.weight", DOP_PART_ALL, false},
    {DOP_W_o_bias, "self_attn.out_proj.bias", DOP_PART_ALL, false},
    {DOP_W_cross_norm, "encoder_attn_layer_norm.weight", DOP_PART_ALL, false},
    {DOP_W_cross_norm_bias, "encoder_attn_layer_norm.bias", DOP_PART_ALL, false},
    {DOP_W_cross_q, "encoder_attn.q_proj.weight", DOP_PART_ALL, false},
    {DOP_W_cross_q_bias, "encoder_attn.q_proj.bias", DOP_PART_ALL, false},
    {DOP_W_cross_k, "encoder_attn.k_proj.weight", DOP_PART_ALL, false},
    {DOP_W_cross_v, "encoder_attn.v_proj.weight", DOP_PART_ALL, false},
    {DOP_W_cross_v_bias, "encoder_attn.v_proj.bias", DOP_PART_ALL, false},
    {DOP_W_cross_o, "encoder_attn.out_proj.weight", DOP_PART_ALL, false},
    {DOP_W_cross_o_bias, "encoder_attn.out_proj.bias", DOP_PART_ALL, false},
    {DOP_W_ffn_norm, "final_layer_norm.weight", DOP_PART_ALL, false},
    {DOP_W_ffn_norm_bias, "final_layer_norm.bias", DOP_PART_ALL, false},
    {DOP_W_up, "fc1.weight", DOP_PART_ALL, false},
    {DOP_W_up_bias, "fc1.bias", DOP_PART_ALL, false},
    {DOP_W_down, "fc2.weight", DOP_PART_ALL, false},
    {DOP_W_down_bias, "fc2.bias", DOP_PART_ALL, false},
    {.role = DOP_W_none},
};
const dop_tensor_name dop_names_gptj[] = {
    {DOP_W_embed, "wte.weight", DOP_PART_ALL, false},          {DOP_W_final_norm, "ln_f.weight", DOP_PART_ALL, false},
    {DOP_W_final_norm_bias, "ln_f.bias", DOP_PART_ALL, false}, {DOP_W_lm_head, "lm_head.weight", DOP_PART_ALL, false},
    {DOP_W_lm_head_bias, "lm_head.bias", DOP_PART_ALL, false}, {DOP_W_attn_norm, "ln_1.weight", DOP_PART_ALL, false},
    {DOP_W_attn_norm_bias, "ln_1.bias", DOP_PART_ALL, false},  {DOP_W_q, "attn.q_proj.weight", DOP_PART_ALL, false},
    {DOP_W_k, "attn.k_proj.weight", DOP_PART_ALL, false},      {DOP_W_v, "attn.v_proj.weight", DOP_PART_ALL, false},
    {DOP_W_o, "attn.out_proj.weight", DOP_PART_ALL, false},    {DOP_W_up, "mlp.fc_in.weight", DOP_PART_ALL, false},
    {DOP_W_up_bias, "mlp.fc_in.bias", DOP_PART_ALL, false},    {DOP_W_down, "mlp.fc_out.weight", DOP_PART_ALL, false},
    {DOP_W_down_bias, "mlp.fc_out.bias", DOP_PART_ALL, false}, {.role = DOP_W_none},
};
const dop_tensor_name dop_names_bitnet[] = {
    {DOP_W_o_norm, "self_attn.attn_sub_norm.weight", DOP_PART_ALL, false},
    {DOP_W_down_norm, "mlp.ffn_sub_norm.weight", DOP_PART_ALL, false},
    {.role = DOP_W_none},
};
const dop_tensor_name dop_names_hunyuan[] = {
    {DOP_W_q_norm, "self_attn.query_layernorm.weight", DOP_PART_ALL, false},
    {DOP_W_k_norm, "self_attn.key_layernorm.weight", DOP_PART_ALL, false},
    {.role = DOP_W_none},
};
const dop_tensor_name dop_names_pre_feedforward[] = {
    {DOP_W_ffn_norm, "pre_feedforward_layernorm.weight", DOP_PART_ALL, false},
    {.role = DOP_W_none},
};
const dop_tensor_name dop_names_muse[] = {
    {DOP_W_attn_gate, "self_attn.gate_proj.weight", DOP_PART_ALL, false},
    {DOP_W_post_attn_norm, "post_attention_layernorm.weight", DOP_PART_ALL, false},
    {DOP_W_ffn_norm, "pre_feedforward_layernorm.weight", DOP_PART_ALL, false},
    {DOP_W_post_ffn_norm, "post_feedforward_layernorm.weight", DOP_PART_ALL, false},
    {.role = DOP_W_none},
};
const dop_tensor_name dop_names_diffllama[] = {
    {DOP_W_v, "self_attn.v_proj.weight", DOP_PART_PAIRED, false},
    {DOP_W_diff_lambda, "self_attn.lambda", DOP_PART_LAMBDA, false},
    {.role = DOP_W_none},
};
const dop_tensor_name dop_names_gemma3n[] = {
    {DOP_W_altup_in, "altup_projections.*.weight", DOP_PART_ALL, false},
    {DOP_W_altup_out, "altup_unembed_projections.*.weight", DOP_PART_ALL, false},
    {DOP_W_altup_norm, "altup.router_norm.weight", DOP_PART_ALL, false},
    {DOP_W_altup_router, "altup.modality_router.weight", DOP_PART_ALL, false},
    {DOP_W_altup_predict, "altup.prediction_coefs.weight", DOP_PART_ALL, false},
    {DOP_W_altup_correct, "altup.correction_coefs.weight", DOP_PART_ALL, false},
    {DOP_W_altup_scale, "altup.correct_output_scale", DOP_PART_ALL, false},
    {DOP_W_laurel_a, "laurel.linear_left.weight", DOP_PART_ALL, false},
    {DOP_W_laurel_b, "laurel.linear_right.weight", DOP_PART_ALL, false},
    {DOP_W_laurel_norm, "laurel.post_laurel_norm.weight", DOP_PART_ALL, false},
    {DOP_W_post_attn_norm, "post_attention_layernorm.weight", DOP_PART_ALL, false},
    {DOP_W_ffn_norm, "pre_feedforward_layernorm.weight", DOP_PART_ALL, false},
    {DOP_W_post_ffn_norm, "post_feedforward_layernorm.weight", DOP_PART_ALL, false},
    {.role = DOP_W_none},
};
const dop_tensor_name dop_names_doge[] = {
    {DOP_W_key_bias, "self_attn.dt_proj.weight", DOP_PART_FOURFOLD, false},
    {DOP_W_key_fade, "self_attn.A", DOP_PART_FOURFOLD, false},
    {DOP_W_attn_residual, "input_residual", DOP_PART_ALL, false},
    {DOP_W_ffn_residual, "post_attention_residual", DOP_PART_ALL, false},
    {.role = DOP_W_none},
};

/* ---- encoders (transformers, models/bert, xlm_roberta, distilbert, mpnet, nomic_bert, modernbert, clip and t5) ---- */

const dop_hf_keys dop_keys_distilbert = {
    .hidden = "dim",
    .layers = "n_layers",
    .heads = "n_heads",
    .ctx = "max_position_embeddings",
    .ffn = "hidden_dim",
    .act = "activation",
    .eps = "layer_norm_eps",
};
const dop_hf_keys dop_keys_nomic_bert = {
    .hidden = "hidden_size|n_embd",
    .layers = "num_hidden_layers|n_layer",
    .heads = "num_attention_heads|n_head",
    .ctx = "max_position_embeddings|n_positions",
    .ffn = "intermediate_size|n_inner",
    .act = "hidden_act|activation_function",
    .eps = "layer_norm_eps|layer_norm_epsilon",
    .theta = "rotary_emb_base",
};
const dop_hf_keys dop_keys_t5 = {
    .hidden = "d_model",
    .layers = "num_layers",
    .heads = "num_heads",
    .ffn = "d_ff",
    .act = "dense_act_fn",
    .eps = "layer_norm_epsilon",
};
const dop_hf_keys dop_keys_modernbert = {
    .hidden = "hidden_size",
    .layers = "num_hidden_layers",
    .heads = "num_attention_heads",
    .ctx = "max_position_embeddings",
    .ffn = "intermediate_size",
    .act = "hidden_activation",
    .eps = "norm_eps",
    .theta = "global_rope_theta",
};

const dop_tensor_name dop_names_bert[] = {
    {DOP_W_embed, "embeddings.word_embeddings.weight", DOP_PART_ALL, false},
    {DOP_W_pos_embed, "embeddings.position_embeddings.weight", DOP_PART_ALL, false},
    {DOP_W_type_embed, "embeddings.token_type_embeddings.weight", DOP_PART_ALL, false},
    {DOP_W_embed_norm, "embeddings.LayerNorm.weight", DOP_PART_ALL, false},
    {DOP_W_embed_norm_bias, "embeddings.LayerNorm.bias", DOP_PART_ALL, false},
    {DOP_W_q, "attention.self.query.weight", DOP_PART_ALL, false},
    {DOP_W_q_bias, "attention.self.query.bias", DOP_PART_ALL, false},
    {DOP_W_k, "attention.self.key.weight", DOP_PART_ALL, false},
    {DOP_W_k_bias, "attention.self.key.bias", DOP_PART_ALL, false},
    {DOP_W_v, "attention.self.value.weight", DOP_PART_ALL, false},
    {DOP_W_v_bias, "attention.self.value.bias", DOP_PART_ALL, false},
    {DOP_W_o, "attention.output.dense.weight", DOP_PART_ALL, false},
    {DOP_W_o_bias, "attention.output.dense.bias", DOP_PART_ALL, false},
    {DOP_W_attn_sum_norm, "attention.output.LayerNorm.weight", DOP_PART_ALL, false},
    {DOP_W_attn_sum_norm_bias, "attention.output.LayerNorm.bias", DOP_PART_ALL, false},
    {DOP_W_up, "intermediate.dense.weight", DOP_PART_ALL, false},
    {DOP_W_up_bias, "intermediate.dense.bias", DOP_PART_ALL, false},
    {DOP_W_down, "output.dense.weight", DOP_PART_ALL, false},
    {DOP_W_down_bias, "output.dense.bias", DOP_PART_ALL, false},
    {DOP_W_ffn_sum_norm, "output.LayerNorm.weight", DOP_PART_ALL, false},
    {DOP_W_ffn_sum_norm_bias, "output.LayerNorm.bias", DOP_PART_ALL, false},
    {.role = DOP_W_none},
};
const dop_tensor_name dop_names_roberta[] = {
    {DOP_W_pos_embed, "embeddings.position_embeddings.weight", DOP_PART_BELOW_2, false},
    {.role = DOP_W_none},
};
const dop_tensor_name dop_names_distilbert[] = {
    {DOP_W_embed, "embeddings.word_embeddings.weight", DOP_PART_ALL, false},
    {DOP_W_pos_embed, "embeddings.position_embeddings.weight", DOP_PART_ALL, false},
    {DOP_W_type_embed, "embeddings.token_type_embeddings.weight", DOP_PART_ALL, false},
    {DOP_W_embed_norm, "embeddings.LayerNorm.weight", DOP_PART_ALL, false},
    {DOP_W_embed_norm_bias, "embeddings.LayerNorm.bias", DOP_PART_ALL, false},
    {DOP_W_q, "attention.q_lin.weight", DOP_PART_ALL, false},
    {DOP_W_q_bias, "attention.q_lin.bias", DOP_PART_ALL, false},
    {DOP_W_k, "attention.k_lin.weight", DOP_PART_ALL, false},
    {DOP_W_k_bias, "attention.k_lin.bias", DOP_PART_ALL, false},
    {DOP_W_v, "attention.v_lin.weight", DOP_PART_ALL, false},
    {DOP_W_v_bias, "attention.v_lin.bias", DOP_PART_ALL, false},
    {DOP_W_o, "attention.out_lin.weight", DOP_PART_ALL, false},
    {DOP_W_o_bias, "attention.out_lin.bias", DOP_PART_ALL, false},
    {DOP_W_attn_sum_norm, "sa_layer_norm.weight", DOP_PART_ALL, false},
    {DOP_W_attn_sum_norm_bias, "sa_layer_norm.bias", DOP_PART_ALL, false},
    {DOP_W_up, "ffn.lin1.weight", DOP_PART_ALL, false},
    {DOP_W_up_bias, "ffn.lin1.bias", DOP_PART_ALL, false},
    {DOP_W_down, "ffn.lin2.weight", DOP_PART_ALL, false},
    {DOP_W_down_bias, "ffn.lin2.bias", DOP_PART_ALL, false},
    {DOP_W_ffn_sum_norm, "output_layer_norm.weight", DOP_PART_ALL, false},
    {DOP_W_ffn_sum_norm_bias, "output_layer_norm.bias", DOP_PART_ALL, false},
    {.role = DOP_W_none},
};
const dop_tensor_name dop_names_mpnet[] = {
    {DOP_W_pos_embed, "embeddings.position_embeddings.weight", DOP_PART_BELOW_2, false},
    {DOP_W_q, "attention.attn.q.weight", DOP_PART_ALL, false},
    {DOP_W_q_bias, "attention.attn.q.bias", DOP_PART_ALL, false},
    {DOP_W_k, "attention.attn.k.weight", DOP_PART_ALL, false},
    {DOP_W_k_bias, "attention.attn.k.bias", DOP_PART_ALL, false},
    {DOP_W_v, "attention.attn.v.weight", DOP_PART_ALL, false},
    {DOP_W_v_bias, "attention.attn.v.bias", DOP_PART_ALL, false},
    {DOP_W_o, "attention.attn.o.weight", DOP_PART_ALL, false},
    {DOP_W_o_bias, "attention.attn.o.bias", DOP_PART_ALL, false},
    {DOP_W_attn_sum_norm, "attention.LayerNorm.weight", DOP_PART_ALL, false},
    {DOP_W_attn_sum_norm_bias, "attention.LayerNorm.bias", DOP_PART_ALL, false},
    {DOP_W_relative, "encoder.relative_attention_bias.weight", DOP_PART_ALL, false},
    {.role = DOP_W_none},
};
const dop_tensor_name dop_names_nomic_bert[] = {
    {DOP_W_embed, "embeddings.word_embeddings.weight", DOP_PART_ALL, false},
    {DOP_W_type_embed, "embeddings.token_type_embeddings.weight", DOP_PART_ALL, false},
    {DOP_W_embed_norm, "emb_ln.weight", DOP_PART_ALL, false},
    {DOP_W_embed_norm_bias, "emb_ln.bias", DOP_PART_ALL, false},
    {DOP_W_q, "attn.Wqkv.weight", DOP_PART_Q, false},
    {DOP_W_k, "attn.Wqkv.weight", DOP_PART_K, false},
    {DOP_W_v, "attn.Wqkv.weight", DOP_PART_V, false},
    {DOP_W_o, "attn.out_proj.weight", DOP_PART_ALL, false},
    {DOP_W_attn_sum_norm, "norm1.weight", DOP_PART_ALL, false},
    {DOP_W_attn_sum_norm_bias, "norm1.bias", DOP_PART_ALL, false},
    {DOP_W_up, "mlp.fc11.weight", DOP_PART_ALL, false},
    {DOP_W_gate, "mlp.fc12.weight", DOP_PART_ALL, false},
    {DOP_W_down, "mlp.fc2.weight", DOP_PART_ALL, false},
    {DOP_W_ffn_sum_norm, "norm2.weight", DOP_PART_ALL, false},
    {DOP_W_ffn_sum_norm_bias, "norm2.bias", DOP_PART_ALL, false},
    {.role = DOP_W_none},
};
/* Alibaba's "new" implementation: rows of the fused matrix are up, then gate. */
const dop_tensor_name dop_names_gte[] = {
    {DOP_W_q, "attention.qkv_proj.weight", DOP_PART_THIRD_1, false},
    {DOP_W_q_bias, "attention.qkv_proj.bias", DOP_PART_THIRD_1, false},
    {DOP_W_k, "attention.qkv_proj.weight", DOP_PART_THIRD_2, false},
    {DOP_W_k_bias, "attention.qkv_proj.bias", DOP_PART_THIRD_2, false},
    {DOP_W_v, "attention.qkv_proj.weight", DOP_PART_THIRD_3, false},
    {DOP_W_v_bias, "attention.qkv_proj.bias", DOP_PART_THIRD_3, false},
    {DOP_W_o, "attention.o_proj.weight", DOP_PART_ALL, false},
    {DOP_W_o_bias, "attention.o_proj.bias", DOP_PART_ALL, false},
    {DOP_W_attn_sum_norm, "attn_ln.weight", DOP_PART_ALL, false},
    {DOP_W_attn_sum_norm_bias, "attn_ln.bias", DOP_PART_ALL, false},
    {DOP_W_up, "mlp.up_gate_proj.weight", DOP_PART_GATE, false}, /* the first half of the rows */
    {DOP_W_gate, "mlp.up_gate_proj.weight", DOP_PART_UP, false}, /* the second half of the rows */
    {DOP_W_down, "mlp.down_proj.weight", DOP_PART_ALL, false},
    {DOP_W_down_bias, "mlp.down_proj.bias", DOP_PART_ALL, false},
    {DOP_W_ffn_sum_norm, "mlp_ln.weight", DOP_PART_ALL, false},
    {DOP_W_ffn_sum_norm_bias, "mlp_ln.bias", DOP_PART_ALL, false},
    {.role = DOP_W_none},
};
const dop_tensor_name dop_names_modernbert[] = {
    {DOP_W_embed, "embeddings.tok_embeddings.weight", DOP_PART_ALL, false},
    {DOP_W_embed_norm, "embeddings.norm.weight", DOP_PART_ALL, false},
    {DOP_W_embed_norm_bias, "embeddings.norm.bias", DOP_PART_ALL, false},
    {DOP_W_final_norm, "final_norm.weight", DOP_PART_ALL, false},
    {DOP_W_final_norm_bias, "final_norm.bias", DOP_PART_ALL, false},
    {DOP_W_attn_norm, "attn_norm.weight", DOP_PART_ALL, false},
    {DOP_W_attn_norm_bias, "attn_norm.bias", DOP_PART_ALL, false},
    {DOP_W_q, "attn.Wqkv.weight", DOP_PART_Q, false},
    {DOP_W_q_bias, "attn.Wqkv.bias", DOP_PART_Q, false},
    {DOP_W_k, "attn.Wqkv.weight", DOP_PART_K, false},
    {DOP_W_k_bias, "attn.Wqkv.bias", DOP_PART_K, false},
    {DOP_W_v, "attn.Wqkv.weight", DOP_PART_V, false},
    {DOP_W_v_bias, "attn.Wqkv.bias", DOP_PART_V, false},
    {DOP_W_o, "attn.Wo.weight", DOP_PART_ALL, false},
    {DOP_W_o_bias, "attn.Wo.bias", DOP_PART_ALL, false},
    {DOP_W_ffn_norm, "mlp_norm.weight", DOP_PART_ALL, false},
    {DOP_W_ffn_norm_bias, "mlp_norm.bias", DOP_PART_ALL, false},
    {DOP_W_gate, "mlp.Wi.weight", DOP_PART_GATE, false},
    {DOP_W_gate_bias, "mlp.Wi.bias", DOP_PART_GATE, false},
    {DOP_W_up, "mlp.Wi.weight", DOP_PART_UP, false},
    {DOP_W_up_bias, "mlp.Wi.bias", DOP_PART_UP, false},
    {DOP_W_down, "mlp.Wo.weight", DOP_PART_ALL, false},
    {DOP_W_down_bias, "mlp.Wo.bias", DOP_PART_ALL, false},
    {.role = DOP_W_none},
};
const dop_tensor_name dop_names_clip_text[] = {
    {DOP_W_embed, "embeddings.token_embedding.weight", DOP_PART_ALL, false},
    {DOP_W_pos_embed, "embeddings.position_embedding.weight", DOP_PART_ALL, false},
    {DOP_W_attn_norm, "layer_norm1.weight", DOP_PART_ALL, false},
    {DOP_W_attn_norm_bias, "layer_norm1.bias", DOP_PART_ALL, false},
    {DOP_W_ffn_norm, "layer_norm2.weight", DOP_PART_ALL, false},
    {DOP_W_ffn_norm_bias, "layer_norm2.bias", DOP_PART_ALL, false},
    {DOP_W_q, "self_attn.q_proj.weight", DOP_PART_ALL, false},
    {DOP_W_q_bias, "self_attn.q_proj.bias", DOP_PART_ALL, false},
    {DOP_W_k, "self_attn.k_proj.weight", DOP_PART_ALL, false},
    {DOP_W_k_bias, "self_attn.k_proj.bias", DOP_PART_ALL, false},
    {DOP_W_v, "self_attn.v_proj.weight", DOP_PART_ALL, false},
    {DOP_W_v_bias, "self_attn.v_proj.bias", DOP_PART_ALL, false},
    {DOP_W_o, "self_attn.out_proj.weight", DOP_PART_ALL, false},
    {DOP_W_o_bias, "self_attn.out_proj.bias", DOP_PART_ALL, false},
    {DOP_W_up, "mlp.fc1.weight", DOP_PART_ALL, false},
    {DOP_W_up_bias, "mlp.fc1.bias", DOP_PART_ALL, false},
    {DOP_W_down, "mlp.fc2.weight", DOP_PART_ALL, false},
    {DOP_W_down_bias, "mlp.fc2.bias", DOP_PART_ALL, false},
    {DOP_W_final_norm, "final_layer_norm.weight", DOP_PART_ALL, false},
    {DOP_W_final_norm_bias, "final_layer_norm.bias", DOP_PART_ALL, false},
    {.role = DOP_W_none},
};
const dop_tensor_name dop_names_t5[] = {
    {DOP_W_embed, "shared.weight", DOP_PART_ALL, false},
    {DOP_W_final_norm, "encoder.final_layer_norm.weight", DOP_PART_ALL, false},
    {DOP_W_relative, "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight", DOP_PART_ALL, false},
    {DOP_W_attn_norm, "layer.0.layer_norm.weight", DOP_PART_ALL, false},
    {DOP_W_ffn_norm, "layer.1.layer_norm.weight", DOP_PART_ALL, false},
    {DOP_W_q, "layer.0.SelfAttention.q.weight", DOP_PART_ALL, false},
    {DOP_W_k, "layer.0.SelfAttention.k.weight", DOP_PART_ALL, false},
    {DOP_W_v, "layer.0.SelfAttention.v.weight", DOP_PART_ALL, false},
    {DOP_W_o, "layer.0.SelfAttention.o.weight", DOP_PART_ALL, false},
    {DOP_W_gate, "layer.1.DenseReluDense.wi_0.weight", DOP_PART_ALL, false},
    {DOP_W_up, "layer.1.DenseReluDense.wi_1.weight", DOP_PART_ALL, false},
    {DOP_W_down, "layer.1.DenseReluDense.wo.weight", DOP_PART_ALL, false},
    {DOP_W_up, "layer.1.DenseReluDense.wi.weight", DOP_PART_ALL, false},
    {.role = DOP_W_none},
};

/* Drafters. A name that begins with a slash has no layer prefix; for dop_sharer drafters it has no prefix at all. */
const dop_tensor_name dop_names_eagle[] = {
    {DOP_W_draft_embed_norm, "input_layernorm.weight", DOP_PART_ALL, false},
    {DOP_W_draft_hidden_norm, "hidden_norm.weight", DOP_PART_ALL, false},
    {DOP_W_draft_each_norm, "/fc_norm.*.weight", DOP_PART_ALL, false},
    {DOP_W_draft_join_norm, "/input_norm.weight", DOP_PART_ALL, false},
    {DOP_W_draft_join, "/fc.weight", DOP_PART_ALL, false},
    {DOP_W_draft_embed, "/embed_tokens.weight", DOP_PART_ALL, false},
    {DOP_W_draft_norm, "/norm.weight", DOP_PART_ALL, false},
    {DOP_W_draft_head, "/lm_head.weight", DOP_PART_ALL, false},
    {DOP_W_draft_ids, "/d2t", DOP_PART_ALL, false},
    {.role = DOP_W_none},
};

const dop_tensor_name dop_names_gemma4_assistant[] = {
    {DOP_W_post_attn_norm, "post_attention_layernorm.weight", DOP_PART_ALL, false},
    {DOP_W_ffn_norm, "pre_feedforward_layernorm.weight", DOP_PART_ALL, false},
    {DOP_W_post_ffn_norm, "post_feedforward_layernorm.weight", DOP_PART_ALL, false},
    {DOP_W_draft_head, "/lm_head.weight", DOP_PART_ALL, false},
    {DOP_W_draft_in, "/pre_projection.weight", DOP_PART_ALL, false},
    {DOP_W_draft_head, "/model.embed_tokens.weight", DOP_PART_ALL, false}, /* tied embedding */
    {DOP_W_draft_out, "/post_projection.weight", DOP_PART_ALL, false},
    {DOP_W_draft_norm, "/model.norm.weight", DOP_PART_ALL, false},
    {.role = DOP_W_none},
};

const dop_class_head dop_classes_bert = {.names = {"pooler.dense", "classifier"}, .act = "tanh", .pool = DOP_BY_CLS};
const dop_class_head dop_classes_roberta = {
    .names = {"classifier.dense", "classifier.out_proj"}, .act = "tanh", .pool = DOP_BY_CLS};
const dop_class_head dop_classes_distilbert = {
    .names = {"pre_classifier", "classifier"}, .act = "relu", .pool = DOP_BY_CLS};
const dop_class_head dop_classes_modernbert = {
    .names = {"head.dense", "classifier"}, .act = "gelu", .pool = DOP_BY_CLS, .norm = "head.norm"};

/* GPT-BigCode (StarCoder, SantaCoder): GPT-2's names, but matrices are not transposed, and there is one KV head. */
#define GPT2_NAMES                                                                                                     \
    {DOP_W_embed, "wte.weight", DOP_PART_ALL, false}, {DOP_W_final_norm, "ln_f.weight", DOP_PART_ALL, false},          \
        {DOP_W_final_norm_bias, "ln_f.bias", DOP_PART_ALL, false},                                                     \
        {DOP_W_lm_head, "lm_head.weight", DOP_PART_ALL, false}, {DOP_W_attn_norm, "ln_1.weight", DOP_PART_ALL, false}, \
        {DOP_W_attn_norm_bias, "ln_1.bias", DOP_PART_ALL, false},                                                      \
        {DOP_W_ffn_norm, "ln_2.weight", DOP_PART_ALL, false}, {DOP_W_ffn_norm_bias, "ln_2.bias", DOP_PART_ALL, false}, \
        {DOP_W_up, "mlp.c_fc.weight", DOP_PART_ALL, false}, {DOP_W_up_bias, "mlp.c_fc.bias", DOP_PART_ALL, false},     \
        {DOP_W_down, "mlp.c_proj.weight", DOP_PART_ALL, false},                                                        \
    {                                                                                                                  \
        DOP_W_down_bias, "mlp.c_proj.bias", DOP_PART_ALL, false                                                        \
    }
#define FUSED_NAMES(name, kind)                                                                                        \
    {DOP_W_q, name ".weight", DOP_PART_##kind##Q, false}, {DOP_W_k, name ".weight", DOP_PART_##kind##K, false},        \
        {DOP_W_v, name ".weight", DOP_PART_##kind##V, false}, {DOP_W_q_bias, name ".bias", DOP_PART_##kind##Q, false}, \
        {DOP_W_k_bias, name ".bias", DOP_PART_##kind##K, false},                                                       \
    {                                                                                                                  \
        DOP_W_v_bias, name ".bias", DOP_PART_##kind##V, false                                                          \
    }
const dop_tensor_name dop_names_gpt_bigcode[] = {
    GPT2_NAMES,
    FUSED_NAMES("attn.c_attn", GQA_),
    {DOP_W_pos_embed, "wpe.weight", DOP_PART_ALL, false},
    {DOP_W_o, "attn.c_proj.weight", DOP_PART_ALL, false},
    {DOP_W_o_bias, "attn.c_proj.bias", DOP_PART_ALL, false},
    {.role = DOP_W_none},
};
/* CodeShell (modeling_codeshell.py of WisdomShell/CodeShell-7B) */
const dop_hf_keys dop_keys_codeshell = {
    .hidden = "n_embd",
    .layers = "n_layer",
    .heads = "n_head",
    .kv_heads = "num_query_groups",
    .ctx = "n_positions",
    .ffn = "n_inner",
    .act = "activation_function",
    .eps = "layer_norm_epsilon",
};
const dop_tensor_name dop_names_codeshell[] = {
    GPT2_NAMES,
    FUSED_NAMES("attn.c_attn", ),
    {DOP_W_o, "attn.c_proj.weight", DOP_PART_ALL, false},
    {DOP_W_o_bias, "attn.c_proj.bias", DOP_PART_ALL, false},
    {.role = DOP_W_none},
};
/* Qwen 1 (modeling_qwen.py of Qwen/Qwen-7B): w2 is the gate, w1 is up. */
const dop_hf_keys dop_keys_qwen = {
    .hidden = "hidden_size",
    .layers = "num_hidden_layers",
    .heads = "num_attention_heads",
    .ctx = "max_position_embeddings|seq_length",
    .ffn = "intermediate_size",
    .act = "hidden_act",
    .eps = "layer_norm_epsilon",
    .theta = "rotary_emb_base",
};
const dop_tensor_name dop_names_qwen[] = {
    {DOP_W_embed, "wte.weight", DOP_PART_ALL, false},
    {DOP_W_final_norm, "ln_f.weight", DOP_PART_ALL, false},
    {DOP_W_lm_head, "lm_head.weight", DOP_PART_ALL, false},
    {DOP_W_attn_norm, "ln_1.weight", DOP_PART_ALL, false},
    FUSED_NAMES("attn.c_attn", ),
    {DOP_W_o, "attn.c_proj.weight", DOP_PART_ALL, false},
    {DOP_W_ffn_norm, "ln_2.weight", DOP_PART_ALL, false},
    {DOP_W_gate, "mlp.w2.weight", DOP_PART_ALL, false},
    {DOP_W_up, "mlp.w1.weight", DOP_PART_ALL, false},
    {DOP_W_down, "mlp.c_proj.weight", DOP_PART_ALL, false},
    {.role = DOP_W_none},
};
/* ChatGLM 2 and 3, and GLM-4-9B in its first form (modeling_chatglm.py of THUDM/glm-4-9b-chat) */
const dop_hf_keys dop_keys_chatglm = {
    .hidden = "hidden_size",
    .layers = "num_layers",
    .heads = "num_attention_heads",
    .kv_heads = "multi_query_group_num",
    .ctx = "seq_length",
    .ffn = "ffn_hidden_size",
    .act = "hidden_act",
    .eps = "layernorm_epsilon",
};
const dop_tensor_name dop_names_chatglm[] = {
    {DOP_W_embed, "embedding.word_embeddings.weight", DOP_PART_ALL, false},
    {DOP_W_final_norm, "encoder.final_layernorm.weight", DOP_PART_ALL, false},
    {DOP_W_lm_head, "transformer.output_layer.weight", DOP_PART_ALL, false},
    {DOP_W_attn_norm, "input_layernorm.weight", DOP_PART_ALL, false},
    FUSED_NAMES("self_attention.query_key_value", ),
    {DOP_W_o, "self_attention.dense.weight", DOP_PART_ALL, false},
    {DOP_W_o_bias, "self_attention.dense.bias", DOP_PART_ALL, false},
    {DOP_W_ffn_norm, "post_attention_layernorm.weight", DOP_PART_ALL, false},
    {DOP_W_gate, "mlp.dense_h_to_4h.weight", DOP_PART_GATE, false},
    {DOP_W_up, "mlp.dense_h_to_4h.weight", DOP_PART_UP, false},
    {DOP_W_gate_bias, "mlp.dense_h_to_4h.bias", DOP_PART_GATE, false},
    {DOP_W_up_bias, "mlp.dense_h_to_4h.bias", DOP_PART_UP, false},
    {DOP_W_down, "mlp.dense_4h_to_h.weight", DOP_PART_ALL, false},
    {DOP_W_down_bias, "mlp.dense_4h_to_h.bias", DOP_PART_ALL, false},
    {.role = DOP_W_none},
};
/* GPT-Neo (modeling_gpt_neo.py) */
const dop_hf_keys dop_keys_gpt_neo = {
    .hidden = "hidden_size",
    .layers = "num_layers",
    .heads = "num_heads",
    .ctx = "max_position_embeddings",
    .ffn = "intermediate_size",
    .act = "activation_function",
    .eps = "layer_norm_epsilon",
};
const dop_tensor_name dop_names_gpt_neo[] = {
    GPT2_NAMES,
    {DOP_W_pos_embed, "wpe.weight", DOP_PART_ALL, false},
    {DOP_W_q, "attn.attention.q_proj.weight", DOP_PART_ALL, false},
    {DOP_W_k, "attn.attention.k_proj.weight", DOP_PART_ALL, false},
    {DOP_W_v, "attn.attention.v_proj.weight", DOP_PART_ALL, false},
    {DOP_W_o, "attn.attention.out_proj.weight", DOP_PART_ALL, false},
    {DOP_W_o_bias, "attn.attention.out_proj.bias", DOP_PART_ALL, false},
    {.role = DOP_W_none},
};
