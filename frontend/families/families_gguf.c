/* GGUF tensor names of single families that differ from dop_gguf_names; referenced by the family table. Sources:
 * gguf-py/gguf/constants.py and tensor_mapping.py of llama.cpp, and its conversion/. */
#include "frontend/families/families_dense.h"

/* Falcon: if attention and feed-forward part have separate norms, attention's is attn_norm_2 and the other
 * attn_norm. */
const dop_tensor_name dop_gguf_names_falcon[] = {
    {DOP_W_attn_norm, "attn_norm_2.weight", DOP_PART_ALL, false},
    {DOP_W_attn_norm_bias, "attn_norm_2.bias", DOP_PART_ALL, false},
    {DOP_W_ffn_norm, "ffn_norm.weight", DOP_PART_ALL, false},
    {DOP_W_ffn_norm_bias, "ffn_norm.bias", DOP_PART_ALL, false},
    {DOP_W_embed, "token_embd.weight", DOP_PART_ALL, false},
    {DOP_W_ffn_norm, "attn_norm.weight", DOP_PART_ALL, false},
    {DOP_W_ffn_norm_bias, "attn_norm.bias", DOP_PART_ALL, false},
    {.role = DOP_W_none},
};
const dop_tensor_name dop_gguf_names_dbrx[] = {
    {DOP_W_ffn_norm, "attn_output_norm.weight", DOP_PART_ALL, false},
    {.role = DOP_W_none},
};
const dop_tensor_name dop_gguf_names_gemma3n[] = {
    {DOP_W_altup_in, "altup_proj.weight", DOP_PART_ALL, false},
    {DOP_W_altup_out, "altup_unembd_proj.weight", DOP_PART_ALL, false},
    {DOP_W_altup_norm, "altup_router_norm.weight", DOP_PART_ALL, false},
    {DOP_W_altup_router, "altup_router.weight", DOP_PART_ALL, false},
    {DOP_W_altup_predict, "altup_predict_coef.weight", DOP_PART_ALL, false},
    {DOP_W_altup_correct, "altup_correct_coef.weight", DOP_PART_ALL, false},
    {DOP_W_altup_scale, "altup_correct_scale.weight", DOP_PART_ALL, false},
    {DOP_W_laurel_a, "laurel_l.weight", DOP_PART_ALL, false},
    {DOP_W_laurel_b, "laurel_r.weight", DOP_PART_ALL, false},
    {DOP_W_laurel_norm, "laurel_post_norm.weight", DOP_PART_ALL, false},
    {.role = DOP_W_none},
};
/* Nemotron-H: a layer is a mixer or a feed-forward part, and its only norm is attn_norm. The drafting layer has both
 * parts. */
const dop_tensor_name dop_gguf_names_nemotron_h[] = {
    {DOP_W_ffn_norm, "post_attention_norm.weight", DOP_PART_ALL, false},
    {DOP_W_attn_norm, "attn_norm.weight", DOP_PART_ALL, false},
    {DOP_W_ffn_norm, "attn_norm.weight", DOP_PART_ALL, false},
    {.role = DOP_W_none},
};
const dop_tensor_name dop_gguf_names_selective[] = {
    {DOP_W_mix_in, "ssm_in.weight", DOP_PART_GATE, false},
    {DOP_W_mix_z, "ssm_in.weight", DOP_PART_UP, false},
    {DOP_W_mix_dt_a, "ssm_x.weight", DOP_PART_SELECT_DT, false},
    {DOP_W_mix_k, "ssm_x.weight", DOP_PART_SELECT_K, false},
    {DOP_W_mix_q, "ssm_x.weight", DOP_PART_SELECT_Q, false},
    {DOP_W_mix_dt, "ssm_dt.weight", DOP_PART_ALL, false},
    {DOP_W_dt_norm, "ssm_dt_norm.weight", DOP_PART_ALL, false},
    {DOP_W_key_norm, "ssm_b_norm.weight", DOP_PART_ALL, false},
    {DOP_W_query_norm, "ssm_c_norm.weight", DOP_PART_ALL, false},
    {.role = DOP_W_none},
};
const dop_tensor_name dop_gguf_names_kimi_linear[] = {
    {DOP_W_mix_in, "attn_q.weight", DOP_PART_KEYS, false},
    {DOP_W_mix_in, "attn_k.weight", DOP_PART_KEYS, false},
    {DOP_W_mix_in, "attn_v.weight", DOP_PART_VALUES, false},
    {DOP_W_taps, "ssm_conv1d_q.weight", DOP_PART_TAPS, false},
    {DOP_W_taps, "ssm_conv1d_k.weight", DOP_PART_TAPS, false},
    {DOP_W_taps, "ssm_conv1d_v.weight", DOP_PART_TAPS, false},
    {DOP_W_mix_beta, "ssm_beta.weight", DOP_PART_ALL, false},
    {DOP_W_mix_dt_a, "ssm_f_a.weight", DOP_PART_ALL, false},
    {DOP_W_mix_dt, "ssm_f_b.weight", DOP_PART_ALL, false},
    {DOP_W_mix_z_a, "ssm_g_a.weight", DOP_PART_ALL, false},
    {DOP_W_mix_z, "ssm_g_b.weight", DOP_PART_ALL, false},
    {DOP_W_mix_out, "attn_output.weight", DOP_PART_ALL, false},
    {.role = DOP_W_none},
};
const dop_tensor_name dop_gguf_names_t5[] = {
    {DOP_W_o, "attn_o.weight", DOP_PART_ALL, false},
    {DOP_W_final_norm, "enc.output_norm.weight", DOP_PART_ALL, false},
    {DOP_W_relative, "enc.blk.0.attn_rel_b.weight", DOP_PART_ALL, false},
    {.role = DOP_W_none},
};

/* Drafters; leading slashes as in dop_names_eagle. */
const dop_tensor_name dop_gguf_names_eagle[] = {
    {DOP_W_draft_embed_norm, "attn_norm.weight", DOP_PART_ALL, false},
    {DOP_W_draft_hidden_norm, "attn_norm_2.weight", DOP_PART_ALL, false},
    {DOP_W_draft_hidden_norm, "hidden_norm.weight", DOP_PART_ALL, false}, /* early files */
    {DOP_W_draft_join_norm, "/enc.output_norm.weight", DOP_PART_ALL, false},
    {DOP_W_draft_join, "/fc.weight", DOP_PART_ALL, false},
    {DOP_W_draft_embed, "/token_embd.weight", DOP_PART_ALL, false},
    {DOP_W_draft_norm, "/output_norm.weight", DOP_PART_ALL, false},
    {DOP_W_draft_head, "/output.weight", DOP_PART_ALL, false},
    {DOP_W_draft_ids, "/d2t", DOP_PART_ALL, false},
    {.role = DOP_W_none},
};
const dop_tensor_name dop_gguf_names_gemma4_assistant[] = {
    {DOP_W_draft_head, "/output.weight", DOP_PART_ALL, false},
    {DOP_W_draft_in, "/nextn.pre_projection.weight", DOP_PART_ALL, false},
    {DOP_W_draft_head, "/token_embd.weight", DOP_PART_ALL, false},
    {DOP_W_draft_out, "/nextn.post_projection.weight", DOP_PART_ALL, false},
    {DOP_W_draft_norm, "/output_norm.weight", DOP_PART_ALL, false},
    {.role = DOP_W_none},
};
