/* Tensor names: names in GGUF files, full names with prefix and layer, rows of fused tensors; names of activations. */
#include "frontend/facts/names.h"
#include "base/words.h"
#include "frontend/facts/import.h"

#include <stdio.h>
#include <string.h>

/* Tensor names of weights in GGUF files (GGUF specification, section "Standardized tensor names"). Layer names follow the prefix
 * "blk.<i>.". If a role has several names, the first one present in the file is used. */
const dop_tensor_name dop_gguf_names[] = {
    {DOP_W_embed, "token_embd.weight", DOP_PART_ALL, false},
    {DOP_W_pos_embed, "position_embd.weight", DOP_PART_ALL, false},
    {DOP_W_type_embed, "token_types.weight", DOP_PART_ALL, false},
    {DOP_W_attn_sum_norm, "attn_output_norm.weight", DOP_PART_ALL, false},
    {DOP_W_attn_sum_norm_bias, "attn_output_norm.bias", DOP_PART_ALL, false},
    {DOP_W_ffn_sum_norm, "layer_output_norm.weight", DOP_PART_ALL, false},
    {DOP_W_ffn_sum_norm_bias, "layer_output_norm.bias", DOP_PART_ALL, false},
    {DOP_W_dense1, "cls.weight", DOP_PART_ALL, false}, /* the first of these names present in the file is used */
    {DOP_W_dense1_bias, "cls.bias", DOP_PART_ALL, false},
    {DOP_W_dense1_norm, "cls.norm.weight", DOP_PART_ALL, false},
    {DOP_W_dense2, "cls.output.weight", DOP_PART_ALL, false},
    {DOP_W_dense2_bias, "cls.output.bias", DOP_PART_ALL, false},
    {DOP_W_dense1, "dense_2.weight", DOP_PART_ALL, false},
    {DOP_W_dense2, "dense_3.weight", DOP_PART_ALL, false},
    {DOP_W_dense1, "cls.output.weight", DOP_PART_ALL, false},
    {DOP_W_dense1_bias, "cls.output.bias", DOP_PART_ALL, false},
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
    {DOP_W_k_up, "attn_kv_b.weight", DOP_PART_K_UP, true}, /* older files, and MiniCPM 3 */
    {DOP_W_v_up, "attn_kv_b.weight", DOP_PART_V_UP, false},
    {DOP_W_index_q, "indexer.attn_q_b.weight", DOP_PART_ALL, false},
    {DOP_W_index_k, "indexer.attn_k.weight", DOP_PART_ALL, false},
    {DOP_W_index_k_norm, "indexer.k_norm.weight", DOP_PART_ALL, false},
    {DOP_W_index_k_norm_bias, "indexer.k_norm.bias", DOP_PART_ALL, false},
    {DOP_W_index_weights, "indexer.proj.weight", DOP_PART_ALL, false},
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
    {DOP_W_lm_head_bias, "output.bias", DOP_PART_ALL, false},
    {DOP_W_embed_norm, "token_embd_norm.weight", DOP_PART_ALL, false},
    {DOP_W_embed_norm_bias, "token_embd_norm.bias", DOP_PART_ALL, false},
    {DOP_W_o_norm, "attn_sub_norm.weight", DOP_PART_ALL, false},
    {DOP_W_down_norm, "ffn_sub_norm.weight", DOP_PART_ALL, false},
    {DOP_W_attn_gate, "attn_gate.weight", DOP_PART_ALL, false},
    {DOP_W_act_alpha_p, "xielu.alpha_p", DOP_PART_KEY, false},
    {DOP_W_act_alpha_n, "xielu.alpha_n", DOP_PART_KEY, false},
    {DOP_W_act_beta, "xielu.beta", DOP_PART_KEY, false},
    {DOP_W_router_correction, "exp_probs_b", DOP_PART_ALL, false},
    {DOP_W_draft_in, "nextn.eh_proj.weight", DOP_PART_ALL, false},
    {DOP_W_draft_embed_norm, "nextn.enorm.weight", DOP_PART_ALL, false},
    {DOP_W_draft_hidden_norm, "nextn.hnorm.weight", DOP_PART_ALL, false},
    {DOP_W_draft_norm, "nextn.shared_head_norm.weight", DOP_PART_ALL, false},
    {.role = DOP_W_none},
};

/* Tensor names of a drafting layer: in DeepSeek and GLM files, where it follows the model's layers, and in Qwen and Nemotron-H
 * files, where it is outside of the text part. Names that begin with "mtp." are full names. */
const dop_tensor_name dop_hf_names_draft[] = {
    {DOP_W_draft_in, "eh_proj.weight", DOP_PART_ALL, false},
    {DOP_W_draft_embed_norm, "enorm.weight", DOP_PART_ALL, false},
    {DOP_W_draft_hidden_norm, "hnorm.weight", DOP_PART_ALL, false},
    {DOP_W_draft_norm, "shared_head.norm.weight", DOP_PART_ALL, false},
    {DOP_W_draft_in, "mtp.fc.weight", DOP_PART_ALL, false},
    {DOP_W_draft_norm, "final_layernorm.weight", DOP_PART_ALL, false},
    {DOP_W_draft_embed_norm, "mtp.pre_fc_norm_embedding.weight", DOP_PART_ALL, false},
    {DOP_W_draft_hidden_norm, "mtp.pre_fc_norm_hidden.weight", DOP_PART_ALL, false},
    {DOP_W_draft_norm, "mtp.norm.weight", DOP_PART_ALL, false},
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

const char *
dop_gguf_layer_prefix(const dop_family *family)
{
    return family && family->flags & DOP_FAM_T5 ? "enc.blk." : "blk.";
}

dop_status
dop_gguf_full_name(const dop_family *family, const dop_weight_need *need, bool fused, dop_arena *arena,
                   const char **out_name)
{
    const dop_tensor_name *n =
        fused ? dop_find_tensor_name(NULL, dop_gguf_names_fused, need->role)
              : dop_find_tensor_name(family ? family->more_gguf_names : NULL, dop_gguf_names, need->role);
    *out_name = NULL;
    if (!n || n->part == DOP_PART_KEY)
        return DOP_OK;
    const bool slash = n->source[0] == '/';
    *out_name = need->layer >= 0 && !slash
                    ? dop_arena_printf(arena, "%s%d.%s", dop_gguf_layer_prefix(family), (int)need->layer, n->source)
                    : n->source + slash;
    return *out_name ? DOP_OK : DOP_E_NOMEM;
}

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

bool
dop_means_other(const dop_tensor_name *more, const dop_tensor_name *name)
{
    bool other = false;
    for (const dop_tensor_name *own = more; own && own->role != DOP_W_none; own++)
        if (strcmp(own->source, name->source) == 0) {
            if (own->role == name->role)
                return false;
            other = true;
        }
    return other;
}

const char *
dop_hf_prefix(bool (*has)(void *user, const char *name), void *user, const char *embed, const char *otherwise)
{
    static const char *const prefixes[] = {"model.",
                                           "language_model.model.",
                                           "model.language_model.",
                                           "model.text_model.",
                                           "transformer.",
                                           "bert.",
                                           "roberta.",
                                           "distilbert.",
                                           "mpnet.",
                                           "new.",
                                           "text_model.",
                                           ""};
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
    else if (need->role == DOP_W_lm_head ||
             need->role == DOP_W_lm_head_bias) /* the output matrix is outside of the text part */
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
        return DOP_NO_MEMORY(diag);
    for (uint32_t e = 0; e < need->experts; e++)
        (*out_list)[e] = (dop_weight){.name = need->name, .rank = 2, .rows = need->rows, .cols = need->cols};
    return DOP_OK;
}

/* Heights, in rows, of the slices of a fused tensor. */
typedef enum height {
    NONE,
    ONE,
    ROWS, /* the weight's own number of rows */
    Q,    /* all query heads */
    KV,   /* all key heads */
    V,    /* all value heads */
    HEAD, /* one query, key or value head */
    TWO,
    QUARTER,     /* a quarter of the weight's rows */
    SHARE,       /* query heads of one head group */
    PLAIN,       /* latent attention: values of a head without rotation */
    TURNED,      /* latent attention: rotated values of a head */
    RANK,        /* latent attention: dop_latent.rank */
    VALUES,      /* recurrent mixer: all value heads */
    MIXED,       /* recurrent mixer: channels of the convolution */
    STEPS,       /* recurrent mixer: one value per head */
    KEYS,        /* recurrent mixer: all key (or query) heads */
    DT_RANK,     /* selective scan: low-rank values that dt is projected from */
    KEY,         /* group of a recurrent mixer: one key (or query) head */
    GROUP,       /* group of a recurrent mixer: its value heads */
    GROUP_STEPS, /* group of a recurrent mixer: one value per value head */
    TAPS,        /* taps of a convolution */
    CHANNELS,
    N_HEIGHTS
} height;

/* Facts of a layer that an entry of parts[] needs. LATENT_UP: the tensor has per head a key matrix, then a value matrix. GROUPS:
 * the tensor has the rows of each recurrent mixer group (`step`) in sequence. */
typedef enum facts { ANY, ATTENTION, LATENT_UP, GROUPS } facts;

/* Position of a slice in its tensor, as lists of `height` members to be summed. total: the tensor's height; start: rows before
 * the slice. With `block`, the slice is the first `block` rows after `start` of each `step` rows; otherwise it is contiguous. */
typedef struct part_rows {
    facts needs;                                /* facts that the layer must have; otherwise DOP_PART_ALL is used */
    uint8_t start[3], total[3], block, step[4]; /* height */
    bool one_row, turned, headed, flat, loose;
} part_rows;

static const part_rows parts[] = {
    [DOP_PART_ALL] = {.total = {ROWS}},
    [DOP_PART_DECAY] = {.total = {ROWS}},
    [DOP_PART_KEY] = {.total = {ROWS}},
    [DOP_PART_ROW] = {.total = {ROWS}, .one_row = true},
    [DOP_PART_Q] = {.total = {Q, KV, V}},
    [DOP_PART_K] = {.start = {Q}, .total = {Q, KV, V}},
    [DOP_PART_V] = {.start = {Q, KV}, .total = {Q, KV, V}},
    [DOP_PART_HEAD_Q] = {.total = {Q, KV, KV}, .block = HEAD, .step = {HEAD, HEAD, HEAD}},
    [DOP_PART_HEAD_K] = {.start = {HEAD}, .total = {Q, KV, KV}, .block = HEAD, .step = {HEAD, HEAD, HEAD}},
    [DOP_PART_HEAD_V] = {.start = {HEAD, HEAD}, .total = {Q, KV, KV}, .block = HEAD, .step = {HEAD, HEAD, HEAD}},
    [DOP_PART_GQA_Q] = {.total = {Q, KV, KV}, .block = SHARE, .step = {SHARE, HEAD, HEAD}},
    [DOP_PART_GQA_K] = {.start = {SHARE}, .total = {Q, KV, KV}, .block = HEAD, .step = {SHARE, HEAD, HEAD}},
    [DOP_PART_GQA_V] = {.start = {SHARE, HEAD}, .total = {Q, KV, KV}, .block = HEAD, .step = {SHARE, HEAD, HEAD}},
    [DOP_PART_BELOW_2] = {.start = {TWO}, .total = {ROWS, TWO}},
    [DOP_PART_HEADS] = {.total = {ROWS}, .headed = true},
    [DOP_PART_FLAT] = {.total = {ROWS}, .flat = true},
    [DOP_PART_PAIR_Q] = {.total = {Q, Q}, .block = HEAD, .step = {HEAD, HEAD}},
    [DOP_PART_PAIR_GATE] = {.start = {HEAD}, .total = {Q, Q}, .block = HEAD, .step = {HEAD, HEAD}},
    [DOP_PART_PLAIN] = {.total = {Q}, .block = PLAIN, .step = {HEAD}},
    [DOP_PART_ROTATED] = {.start = {PLAIN}, .total = {Q}, .block = TURNED, .step = {HEAD}},
    [DOP_PART_LATENT] = {ATTENTION, .total = {RANK, TURNED}},
    [DOP_PART_LATENT_ROTATED] = {ATTENTION, .start = {RANK}, .total = {RANK, TURNED}},
    [DOP_PART_K_UP] = {LATENT_UP, .total = {ROWS}},
    [DOP_PART_V_UP] = {LATENT_UP, .start = {PLAIN}, .total = {ROWS}},
    [DOP_PART_MIX_Z] = {.total = {VALUES, MIXED, STEPS}},
    [DOP_PART_MIX_IN] = {.start = {VALUES}, .total = {VALUES, MIXED, STEPS}},
    [DOP_PART_MIX_DT] = {.start = {VALUES, MIXED}, .total = {VALUES, MIXED, STEPS}},
    [DOP_PART_GROUP_Q] = {GROUPS, .block = KEY, .step = {KEY, KEY, GROUP, GROUP}},
    [DOP_PART_GROUP_K] = {GROUPS, .start = {KEY}, .block = KEY, .step = {KEY, KEY, GROUP, GROUP}},
    [DOP_PART_GROUP_V] = {GROUPS, .start = {KEY, KEY}, .block = GROUP, .step = {KEY, KEY, GROUP, GROUP}},
    [DOP_PART_GROUP_Z] = {GROUPS, .start = {KEY, KEY, GROUP}, .block = GROUP, .step = {KEY, KEY, GROUP, GROUP}},
    [DOP_PART_GROUP_BETA] = {GROUPS, .block = GROUP_STEPS, .step = {GROUP_STEPS, GROUP_STEPS}},
    [DOP_PART_GROUP_DT] = {GROUPS, .start = {GROUP_STEPS}, .block = GROUP_STEPS, .step = {GROUP_STEPS, GROUP_STEPS}},
    [DOP_PART_KEYS] = {.total = {KEYS}},
    [DOP_PART_VALUES] = {.total = {VALUES}},
    [DOP_PART_SELECT_DT] = {.total = {DT_RANK, KEY, KEY}},
    [DOP_PART_SELECT_K] = {.start = {DT_RANK}, .total = {DT_RANK, KEY, KEY}},
    [DOP_PART_SELECT_Q] = {.start = {DT_RANK, KEY}, .total = {DT_RANK, KEY, KEY}},
    [DOP_PART_PAIRED] = {.total = {KV}},
    [DOP_PART_LAMBDA] = {.total = {ROWS}},
    [DOP_PART_FOURFOLD] = {.total = {QUARTER}},
    [DOP_PART_LOOSE] = {.total = {ROWS}, .loose = true},
    [DOP_PART_THIRD_1] = {.total = {ROWS, ROWS, ROWS}},
    [DOP_PART_THIRD_2] = {.start = {ROWS}, .total = {ROWS, ROWS, ROWS}},
    [DOP_PART_THIRD_3] = {.start = {ROWS, ROWS}, .total = {ROWS, ROWS, ROWS}},
    [DOP_PART_TAPS] = {.total = {ROWS}, .block = CHANNELS, .step = {TAPS}, .turned = true},
    [DOP_PART_GATE] = {.total = {ROWS, ROWS}},
    [DOP_PART_UP] = {.start = {ROWS}, .total = {ROWS, ROWS}},
    [DOP_PART_EVEN] = {.total = {ROWS, ROWS}, .block = ONE, .step = {ONE, ONE}},
    [DOP_PART_ODD] = {.start = {ONE}, .total = {ROWS, ROWS}, .block = ONE, .step = {ONE, ONE}},
};

static uint64_t
sum_heights(const uint64_t *heights, const uint8_t *list, size_t n)
{
    uint64_t all = 0;
    for (size_t i = 0; i < n; i++)
        all += heights[list[i]];
    return all;
}

dop_rows
dop_part_rows(const dop_layer *l, dop_slice part, uint32_t rows)
{
    const part_rows *p = &parts[part];
    const dop_attention *t = l ? dop_layer_attention(l) : NULL;
    const dop_recurrent *s = l ? dop_layer_recurrent(l) : NULL;
    uint64_t h[N_HEIGHTS] = {[ONE] = 1, [TWO] = 2, [QUARTER] = rows / 4, [ROWS] = rows, [TAPS] = 1, [CHANNELS] = rows};
    if (t) {
        h[Q] = (uint64_t)t->n_heads * t->head_dim;
        h[KV] = (uint64_t)t->n_kv_heads * t->head_dim;
        h[V] = (uint64_t)t->n_kv_heads * dop_value_dim(t);
        h[SHARE] = t->n_kv_heads ? (uint64_t)t->n_heads / t->n_kv_heads * t->head_dim : 0;
        h[HEAD] = t->head_dim;
        h[PLAIN] = t->latent.plain;
        h[TURNED] = t->latent.rotated;
        h[RANK] = t->latent.rank;
    }
    if (s) {
        h[VALUES] = (uint64_t)s->n_heads * s->head_dim;
        h[MIXED] = dop_conv_channels(s, 0);
        h[STEPS] = s->n_heads;
        h[KEYS] = (uint64_t)s->n_groups * s->state_dim;
        h[DT_RANK] = s->dt_rank;
    }
    if (s && s->taps) {
        h[TAPS] = s->taps;
        h[CHANNELS] = rows / s->taps;
    }
    if (s && s->n_groups) {
        h[KEY] = s->state_dim;
        h[GROUP_STEPS] = s->n_heads / s->n_groups;
        h[GROUP] = h[GROUP_STEPS] * s->head_dim;
    }
    if ((p->needs == GROUPS && !(s && s->n_groups)) || ((p->needs == ATTENTION || p->needs == LATENT_UP) && !t))
        p = &parts[DOP_PART_ALL];
    dop_rows r = {.start = sum_heights(h, p->start, sizeof p->start),
                  .total = sum_heights(h, p->total, sizeof p->total),
                  .block = (uint32_t)h[p->block],
                  .block_step = (uint32_t)sum_heights(h, p->step, sizeof p->step),
                  .one_row = p->one_row,
                  .row = p->headed && t ? t->head_dim : 0,
                  .flat = p->flat,
                  .loose = p->loose,
                  .own = part == DOP_PART_KEYS     ? (uint32_t)h[KEYS]
                         : part == DOP_PART_VALUES ? (uint32_t)h[VALUES]
                                                   : 0,
                  .turned = p->turned};
    if (p->needs == GROUPS) {
        r.total = (uint64_t)s->n_groups * r.block_step;
        r.own = s->n_groups * r.block;
    }
    if (p->needs == LATENT_UP)
        r.each = (uint64_t)(t->latent.plain + t->latent.value_dim) * t->latent.rank;
    return r;
}

/* ---- activations ---- */

static const struct {
    dop_act_kind kind;
    const char *names, *rdrr;
} activations[] = {
#define ACT(kind, op, names, rdrr) {DOP_ACT_##kind, names, rdrr},
#include "frontend/facts/activations.def"
#undef ACT
};

static bool
find_act(const char *name, bool rdrr, dop_act_kind *out)
{
    for (size_t i = 0; i < sizeof activations / sizeof *activations; i++)
        if (dop_has_word(rdrr ? activations[i].rdrr : activations[i].names, name)) {
            *out = activations[i].kind;
            return true;
        }
    return false;
}

bool
dop_act_by_name(const char *name, dop_act_kind *out)
{
    return find_act(name, false, out);
}

bool
dop_act_by_rdrr_name(const char *name, dop_act_kind *out)
{
    return find_act(name, true, out);
}
