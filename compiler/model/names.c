/* Tensor names of GGUF files, and what importers do with names. */
#include "compiler/model/import.h"

#include <stdio.h>
#include <string.h>

/* Names below "blk.<i>." and without it: the GGUF specification, section "Standardized tensor names". */
const dop_tensor_name dop_gguf_names[] = {
    {DOP_W_embed, "token_embd.weight", DOP_PART_ALL, false},
    {DOP_W_pos_embed, "position_embd.weight", DOP_PART_ALL, false},
    {DOP_W_final_norm, "output_norm.weight", DOP_PART_ALL, false},
    {DOP_W_final_norm_bias, "output_norm.bias", DOP_PART_ALL, false},
    {DOP_W_lm_head, "output.weight", DOP_PART_ALL, false},
    {DOP_W_attn_norm, "attn_norm.weight", DOP_PART_ALL, false},
    {DOP_W_attn_norm_bias, "attn_norm.bias", DOP_PART_ALL, false},
    {DOP_W_q, "attn_q.weight", DOP_PART_ALL, false},
    {DOP_W_k, "attn_k.weight", DOP_PART_ALL, false},
    {DOP_W_v, "attn_v.weight", DOP_PART_ALL, false},
    {DOP_W_o, "attn_output.weight", DOP_PART_ALL, false},
    {DOP_W_q_bias, "attn_q.bias", DOP_PART_ALL, false},
    {DOP_W_k_bias, "attn_k.bias", DOP_PART_ALL, false},
    {DOP_W_v_bias, "attn_v.bias", DOP_PART_ALL, false},
    {DOP_W_o_bias, "attn_output.bias", DOP_PART_ALL, false},
    {DOP_W_q_norm, "attn_q_norm.weight", DOP_PART_ALL, false},
    {DOP_W_k_norm, "attn_k_norm.weight", DOP_PART_ALL, false},
    {DOP_W_q_a, "attn_q_a.weight", DOP_PART_ALL, false},
    {DOP_W_q_a_norm, "attn_q_a_norm.weight", DOP_PART_ALL, false},
    {DOP_W_q_plain, "attn_q_b.weight", DOP_PART_PLAIN, false},
    {DOP_W_q_rotated, "attn_q_b.weight", DOP_PART_ROTATED, false},
    {DOP_W_q_whole_plain, "attn_q.weight", DOP_PART_PLAIN, false},
    {DOP_W_q_whole_rotated, "attn_q.weight", DOP_PART_ROTATED, false},
    {DOP_W_kv_a, "attn_kv_a_mqa.weight", DOP_PART_LATENT, false},
    {DOP_W_k_rotated, "attn_kv_a_mqa.weight", DOP_PART_LATENT_ROTATED, false},
    {DOP_W_kv_a_norm, "attn_kv_a_norm.weight", DOP_PART_ALL, false},
    {DOP_W_k_up, "attn_k_b.weight", DOP_PART_ALL, false},
    {DOP_W_v_up, "attn_v_b.weight", DOP_PART_ALL, false},
    {DOP_W_mix_z, "ssm_in.weight", DOP_PART_MIX_Z, false},
    {DOP_W_mix_in, "ssm_in.weight", DOP_PART_MIX_IN, false},
    {DOP_W_mix_dt, "ssm_in.weight", DOP_PART_MIX_DT, false},
    {DOP_W_mix_dt_bias, "ssm_dt.bias", DOP_PART_ALL, false},
    {DOP_W_taps, "ssm_conv1d.weight", DOP_PART_TAPS, false},
    {DOP_W_taps_bias, "ssm_conv1d.bias", DOP_PART_ALL, false},
    {DOP_W_decay, "ssm_a", DOP_PART_DECAY, false},
    {DOP_W_skip, "ssm_d", DOP_PART_ALL, false},
    {DOP_W_mix_norm, "ssm_norm.weight", DOP_PART_ALL, false},
    {DOP_W_mix_out, "ssm_out.weight", DOP_PART_ALL, false},
    {DOP_W_post_attn_norm, "post_attention_norm.weight", DOP_PART_ALL, false},
    {DOP_W_ffn_norm, "ffn_norm.weight", DOP_PART_ALL, false},
    {DOP_W_ffn_norm_bias, "ffn_norm.bias", DOP_PART_ALL, false},
    {DOP_W_gate, "ffn_gate.weight", DOP_PART_ALL, false},
    {DOP_W_up, "ffn_up.weight", DOP_PART_ALL, false},
    {DOP_W_down, "ffn_down.weight", DOP_PART_ALL, false},
    {DOP_W_gate_bias, "ffn_gate.bias", DOP_PART_ALL, false},
    {DOP_W_up_bias, "ffn_up.bias", DOP_PART_ALL, false},
    {DOP_W_down_bias, "ffn_down.bias", DOP_PART_ALL, false},
    {DOP_W_sinks, "attn_sinks.weight", DOP_PART_ALL, false},
    {DOP_W_router, "ffn_gate_inp.weight", DOP_PART_ALL, false},
    {DOP_W_router_bias, "ffn_gate_inp.bias", DOP_PART_ALL, false},
    {DOP_W_router_correction, "exp_probs_b.bias", DOP_PART_ALL, false},
    {DOP_W_expert_gate, "ffn_gate_exps.weight", DOP_PART_ALL, false},
    {DOP_W_expert_up, "ffn_up_exps.weight", DOP_PART_ALL, false},
    {DOP_W_expert_down, "ffn_down_exps.weight", DOP_PART_ALL, false},
    {DOP_W_expert_gate_bias, "ffn_gate_exps.bias", DOP_PART_ALL, false},
    {DOP_W_expert_up_bias, "ffn_up_exps.bias", DOP_PART_ALL, false},
    {DOP_W_expert_down_bias, "ffn_down_exps.bias", DOP_PART_ALL, false},
    {DOP_W_shared_gate, "ffn_gate_shexp.weight", DOP_PART_ALL, false},
    {DOP_W_shared_up, "ffn_up_shexp.weight", DOP_PART_ALL, false},
    {DOP_W_shared_down, "ffn_down_shexp.weight", DOP_PART_ALL, false},
    {DOP_W_shared_router, "ffn_gate_inp_shexp.weight", DOP_PART_ALL, false},
    {DOP_W_post_ffn_norm, "post_ffw_norm.weight", DOP_PART_ALL, false},
    {DOP_W_layer_scale, "layer_output_scale.weight", DOP_PART_ALL, false},
    {DOP_W_input_embed, "per_layer_token_embd.weight", DOP_PART_ALL, false},
    {DOP_W_input_proj, "per_layer_model_proj.weight", DOP_PART_ALL, false},
    {DOP_W_input_norm, "per_layer_proj_norm.weight", DOP_PART_ALL, false},
    {DOP_W_input_gate, "inp_gate.weight", DOP_PART_ALL, false},
    {DOP_W_input_up, "proj.weight", DOP_PART_ALL, false},
    {DOP_W_post_input_norm, "post_norm.weight", DOP_PART_ALL, false},
    {DOP_W_act_alpha_p, "xielu.alpha_p", DOP_PART_KEY, false},
    {DOP_W_act_alpha_n, "xielu.alpha_n", DOP_PART_KEY, false},
    {DOP_W_act_beta, "xielu.beta", DOP_PART_KEY, false},
    {.role = DOP_W_none},
};

const dop_tensor_name dop_gguf_names_fused[] = {
    {DOP_W_q, "attn_qkv.weight", DOP_PART_Q, false},
    {DOP_W_k, "attn_qkv.weight", DOP_PART_K, false},
    {DOP_W_v, "attn_qkv.weight", DOP_PART_V, false},
    {DOP_W_q_bias, "attn_qkv.bias", DOP_PART_Q, false},
    {DOP_W_k_bias, "attn_qkv.bias", DOP_PART_K, false},
    {DOP_W_v_bias, "attn_qkv.bias", DOP_PART_V, false},
    {DOP_W_expert_gate, "ffn_gate_up_exps.weight", DOP_PART_GATE, false},
    {DOP_W_expert_up, "ffn_gate_up_exps.weight", DOP_PART_UP, false},
    {.role = DOP_W_none},
};

const dop_tensor_name *
dop_find_tensor_name(const dop_tensor_name *more, const dop_tensor_name *names, dop_role role)
{
    const dop_tensor_name *lists[] = {more, names};
    for (unsigned k = 0; k < 2; k++)
        for (const dop_tensor_name *n = lists[k]; n && n->role != DOP_W_none; n++)
            if (n->role == role)
                return n;
    return NULL;
}

const char *
dop_hf_prefix(bool (*has)(void *user, const char *name), void *user, const char *embed, const char *otherwise)
{
    static const char *const prefixes[] = {
        "model.", "language_model.model.", "model.language_model.", "model.text_model.", "transformer.", ""};
    char name[256];
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
        snprintf(name, sizeof name, "%s%s", prefixes[i], embed);
        if (has(user, name))
            return prefixes[i];
    }
    return otherwise;
}

void
dop_hf_full_name(const char *prefix, const char *layer_prefix, const dop_weight_need *need, const char *source,
                 char *out, size_t size)
{
    if (need->layer >= 0)
        snprintf(out, size, "%s%s%d.%s", prefix, layer_prefix, (int)need->layer, source);
    else if (need->role == DOP_W_lm_head) /* beside the text part, not inside */
        snprintf(out, size, "%s%s", strncmp(prefix, "language_model.", 15) == 0 ? "language_model." : "", source);
    else
        snprintf(out, size, "%s%s", prefix, source);
}

void
dop_expert_name(const char *pattern, uint32_t expert, char *out, size_t size)
{
    const size_t at = strcspn(pattern, "*");
    if (pattern[at])
        snprintf(out, size, "%.*s%u%s", (int)at, pattern, expert, pattern + at + 1);
    else
        snprintf(out, size, "%s", pattern);
}

dop_status
dop_expert_list(const dop_weight_need *need, const char *pattern, dop_arena *arena, dop_diag *diag,
                dop_weight **out_list)
{
    *out_list = NULL;
    if (!strchr(pattern, '*'))
        return DOP_OK;
    if (need->rank != 3 || need->experts == 0)
        return DOP_FAIL(diag, DOP_E_INTERNAL, "weight %s has no experts, but tensors %s", need->name, pattern);
    *out_list = dop_arena_alloc(arena, need->experts * sizeof **out_list);
    if (!*out_list)
        return DOP_FAIL(diag, DOP_E_NOMEM, "out of host memory");
    for (uint32_t e = 0; e < need->experts; e++)
        (*out_list)[e] = (dop_weight){.name = need->name, .rank = 2, .rows = need->rows, .cols = need->cols};
    return DOP_OK;
}

/* Groups of a recurrent mixer: a head of queries and keys, and the heads of values that go with it. */
static dop_rows
group_rows(const dop_recurrent *s, dop_part part)
{
    const uint32_t heads = s->n_heads / s->n_groups, key = s->state_dim, values = heads * s->head_dim;
    const bool few = part == DOP_PART_GROUP_BETA || part == DOP_PART_GROUP_DT;
    const uint32_t step = few ? 2 * heads : 2 * key + 2 * values;
    dop_rows r = {.total = (uint64_t)s->n_groups * step, .block_step = step};
    r.block = few ? heads : part == DOP_PART_GROUP_Q || part == DOP_PART_GROUP_K ? key : values;
    r.start = part == DOP_PART_GROUP_DT  ? heads
              : part == DOP_PART_GROUP_K ? key
              : part == DOP_PART_GROUP_V ? 2 * key
              : part == DOP_PART_GROUP_Z ? 2 * key + values
                                         : 0;
    r.own = s->n_groups * r.block;
    return r;
}

dop_rows
dop_part_rows(const dop_layer *l, dop_part part, uint32_t rows)
{
    const dop_attention *t = l ? dop_layer_attention(l) : NULL;
    const uint64_t q = t ? (uint64_t)t->n_heads * t->head_dim : 0, kv = t ? (uint64_t)t->n_kv_heads * t->head_dim : 0;
    const uint32_t head = t ? t->head_dim : 0;
    const dop_recurrent *s = l ? dop_layer_recurrent(l) : NULL;
    const uint64_t values = s ? (uint64_t)s->n_heads * s->head_dim : 0, mixed = s ? dop_conv_channels(s, 0) : 0;
    switch (part) {
    case DOP_PART_ALL:
    case DOP_PART_DECAY:
    case DOP_PART_KEY:
        break;
    case DOP_PART_ROW:
        return (dop_rows){.total = rows, .one_row = true};
    case DOP_PART_Q:
    case DOP_PART_K:
    case DOP_PART_V:
        return (dop_rows){.start = part == DOP_PART_Q ? 0 : part == DOP_PART_K ? q : q + kv, .total = q + 2 * kv};
    case DOP_PART_HEAD_Q:
    case DOP_PART_HEAD_K:
    case DOP_PART_HEAD_V:
        return (dop_rows){.start = (uint64_t)(part - DOP_PART_HEAD_Q) * head,
                          .total = q + 2 * kv,
                          .block = head,
                          .block_step = 3 * head};
    case DOP_PART_PLAIN:
    case DOP_PART_ROTATED:
        return (dop_rows){.start = part == DOP_PART_PLAIN || !t ? 0 : t->latent.plain,
                          .total = q,
                          .block = !t                       ? 0
                                   : part == DOP_PART_PLAIN ? t->latent.plain
                                                            : t->latent.rotated,
                          .block_step = head};
    case DOP_PART_LATENT:
    case DOP_PART_LATENT_ROTATED:
        if (t)
            return (dop_rows){.start = part == DOP_PART_LATENT ? 0 : t->latent.rank,
                              .total = t->latent.rank + t->latent.rotated};
        break;
    case DOP_PART_K_UP:
    case DOP_PART_V_UP:
        if (t)
            return (dop_rows){.start = part == DOP_PART_K_UP ? 0 : t->latent.plain,
                              .total = rows,
                              .each = (uint64_t)(t->latent.plain + t->latent.value_dim) * t->latent.rank};
        break;
    case DOP_PART_PAIR_Q:
    case DOP_PART_PAIR_GATE:
        return (dop_rows){
            .start = part == DOP_PART_PAIR_Q ? 0 : head, .total = 2 * q, .block = head, .block_step = 2 * head};
    case DOP_PART_MIX_Z:
        return (dop_rows){.total = values + mixed + (s ? s->n_heads : 0)};
    case DOP_PART_MIX_IN:
        return (dop_rows){.start = values, .total = values + mixed + (s ? s->n_heads : 0)};
    case DOP_PART_MIX_DT:
        return (dop_rows){.start = values + mixed, .total = values + mixed + (s ? s->n_heads : 0)};
    case DOP_PART_GROUP_Q:
    case DOP_PART_GROUP_K:
    case DOP_PART_GROUP_V:
    case DOP_PART_GROUP_Z:
    case DOP_PART_GROUP_BETA:
    case DOP_PART_GROUP_DT:
        if (s && s->n_groups)
            return group_rows(s, part);
        break;
    case DOP_PART_THIRD_1:
    case DOP_PART_THIRD_2:
    case DOP_PART_THIRD_3:
        return (dop_rows){.start = (uint64_t)(part - DOP_PART_THIRD_1) * rows, .total = 3 * (uint64_t)rows};
    case DOP_PART_TAPS:
        return (dop_rows){
            .total = rows, .block = s ? rows / s->taps : rows, .block_step = s ? s->taps : 1, .turned = true};
    case DOP_PART_GATE:
    case DOP_PART_UP:
        return (dop_rows){.start = part == DOP_PART_UP ? rows : 0, .total = 2 * (uint64_t)rows};
    case DOP_PART_EVEN:
    case DOP_PART_ODD:
        return (dop_rows){.start = part == DOP_PART_ODD, .total = 2 * (uint64_t)rows, .block = 1, .block_step = 2};
    }
    return (dop_rows){.total = rows};
}
