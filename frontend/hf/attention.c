/* Attention variants of single model families in config.json: latent (DeepSeek-V3), chunked (Llama 4), and Gemma 4's shared keys
 * and values and per-layer inputs (transformers, models/deepseek_v3, models/llama4 and models/gemma4). */
#include "frontend/hf/attention.h"
#include "frontend/hf/hf.h"

#include <math.h>
#include <string.h>

dop_status
dop_hf_latent(dop_hf *hf, dop_attention *t)
{
    dop_latent *l = &t->latent;
    const bool said = hf->cfg.object && json_object_get(hf->cfg.object, DOP_HF(latent_q_rank)->key);
    DOP_RETURN_IF_ERROR(dop_fact_u32_or(&hf->cfg, DOP_HF(latent_rank), 512, &l->rank));
    /* null, or absent in Kimi Linear: queries are projected from the input directly */
    DOP_RETURN_IF_ERROR(
        dop_fact_u32_or(&hf->cfg, DOP_HF(latent_q_rank), said || hf->family->recurrent ? 0 : 1536, &l->q_rank));
    DOP_RETURN_IF_ERROR(dop_fact_u32_or(&hf->cfg, DOP_HF(latent_plain), 128, &l->plain));
    DOP_RETURN_IF_ERROR(dop_fact_u32_or(&hf->cfg, DOP_HF(latent_rotated), 64, &l->rotated));
    DOP_RETURN_IF_ERROR(dop_fact_u32_or(
        &hf->cfg, DOP_HF(value_dim),
        hf->family->flags & DOP_FAM_MUP /* MiniCPM 3 */ ? hf->model->arch.hidden / t->n_heads : 128, &l->value_dim));
    if (l->plain % 4 || l->rotated % 8 || l->rank % 4 || l->value_dim % 4)
        return DOP_FAIL_IN(
            hf->diag, DOP_E_INPUT, hf->path,
            "%sqk_nope_head_dim %u, qk_rope_head_dim %u, kv_lora_rank %u or v_head_dim %u is not a multiple of 4 "
            "(of 8 for qk_rope_head_dim)",
            hf->cfg.where, l->plain, l->rotated, l->rank, l->value_dim);
    l->norm = (dop_norm){.kind = DOP_NORM_RMS, .eps = 1e-6}; /* norms of latent attention ignore rms_norm_eps */
    l->q_norm = l->q_rank ? l->norm : (dop_norm){0};
    t->head_dim = l->plain + l->rotated;
    t->n_kv_heads = 1;
    return DOP_OK;
}

/* Multiplies the scale of scores by the square of YaRN's mscale_all_dim factor (DeepseekV3Attention). */
dop_status
dop_hf_latent_rope(dop_hf *hf)
{
    dop_arch *a = &hf->model->arch;
    dop_rope *r = &a->ropes[0];
    dop_status st = dop_fact_flag_or(&hf->cfg, DOP_HF(interleaved), r->interleaved, &r->interleaved);
    const bool alone = hf->family->flags & DOP_FAM_SCALE_ALONE;
    const double m = !alone && r->scaling == DOP_ROPE_YARN && r->mscale_all_dim > 0 && r->factor > 1
                         ? 0.1 * r->mscale_all_dim * log(r->factor) + 1
                         : 1;
    for (uint32_t i = 0; i < a->n_layers; i++)
        a->layers[i].mixers[0].attn.scale *= m * m;
    return st;
}

/* True if layer i has an index of its own: stated per layer by a list or string; otherwise the first layers, then every n-th one
 * (GlmMoeDsaConfig). */
static bool
has_index(const dop_hf *hf, uint32_t i, uint32_t period, uint32_t offset, bool *out_known)
{
    const json_t *types = dop_json_get(&hf->cfg, "indexer_types"),
                 *pattern = dop_json_get(&hf->cfg, "index_topk_pattern");
    const json_t *said = types && !json_is_null(types) ? types : pattern;
    const char *letters = json_string_value(said), *word = json_string_value(json_array_get(said, i));
    *out_known = true;
    if (!said || json_is_null(said))
        return period < 2 || i + 1 < offset || (i + 1 - offset) % period == 0;
    if (letters)
        word = strlen(letters) == hf->model->arch.n_layers ? letters[i] == 'F'   ? "full"
                                                             : letters[i] == 'S' ? "shared"
                                                                                 : NULL
                                                           : NULL;
    *out_known = word && (letters || json_array_size(said) == hf->model->arch.n_layers) &&
                 (strcmp(word, "full") == 0 || strcmp(word, "shared") == 0);
    return *out_known && word[0] == 'f';
}

dop_status
dop_hf_index(dop_hf *hf)
{
    dop_arch *a = &hf->model->arch;
    const bool pairs = hf->family->flags & DOP_FAM_INDEX_PAIRS;
    dop_indexer x = {.norm = {.kind = DOP_NORM_LAYER, .bias = true, .eps = 1e-6}}; /* default eps of nn.LayerNorm */
    uint32_t period = 1, offset = 2;
    DOP_RETURN_IF_ERROR(dop_fact_u32_or(&hf->cfg, DOP_HF(index_heads), pairs ? 32 : 64, &x.n_heads));
    DOP_RETURN_IF_ERROR(dop_fact_u32_or(&hf->cfg, DOP_HF(index_dim), 128, &x.head_dim));
    DOP_RETURN_IF_ERROR(dop_fact_u32_or(&hf->cfg, DOP_HF(index_top), 2048, &x.top));
    DOP_RETURN_IF_ERROR(dop_fact_u32_or(&hf->cfg, DOP_HF(index_period), period, &period));
    DOP_RETURN_IF_ERROR(dop_fact_u32_or(&hf->cfg, DOP_HF(index_offset), offset, &offset));
    DOP_RETURN_IF_ERROR(dop_fact_flag_or(&hf->cfg, DOP_HF(index_interleaved), pairs, &x.interleaved));
    for (uint32_t i = 0; i < a->n_layers; i++) {
        bool known;
        a->layers[i].mixers[0].attn.index = x;
        if (!has_index(hf, i, period, offset, &known))
            a->layers[i].mixers[0].attn.index = (dop_indexer){.top = x.top};
        if (!known)
            return DOP_FAIL_IN(hf->diag, DOP_E_INPUT, hf->path,
                               "%sindexer_types or index_topk_pattern does not say full or shared of each of %u layers",
                               hf->cfg.where, a->n_layers);
    }
    return DOP_OK;
}

/* Llama4TextAttention: some layers have chunks. Queries and keys with RoPE are normalized after it, without weights. Queries
 * without RoPE are scaled by a temperature that grows with the position. */
dop_status
dop_hf_chunks(dop_hf *hf, const bool *rotates, const bool *chunked)
{
    dop_arch *a = &hf->model->arch;
    uint32_t chunk = 0;
    bool normed = true;
    a->temper.from = 1;
    const json_t *tempers = hf->cfg.object ? json_object_get(hf->cfg.object, "attn_temperature_tuning") : NULL;
    const bool tempered =
        !tempers || json_is_true(tempers) || (json_is_number(tempers) && json_number_value(tempers) != 0.0);
    DOP_RETURN_IF_ERROR(dop_fact_u32_or(&hf->cfg, DOP_HF(chunk), hf->family->window, &chunk));
    DOP_RETURN_IF_ERROR(dop_fact_flag_or(&hf->cfg, DOP_HF(qk_norm_used), true, &normed));
    if (tempered)
        DOP_RETURN_IF_ERROR(dop_fact_f64_or(&hf->cfg, DOP_HF(temper_floor), 8192, &a->temper.floor));
    if (tempered)
        DOP_RETURN_IF_ERROR(dop_fact_f64_or(&hf->cfg, DOP_HF(temper_scale), 0.1, &a->temper.scale));
    for (uint32_t i = 0; i < a->n_layers; i++) {
        dop_attention *t = &a->layers[i].mixers[0].attn;
        t->chunk = chunked[i] ? chunk : 0;
        t->tempered = tempered && !rotates[i];
        if (normed && rotates[i]) {
            t->norm_after = true;
            t->q_norm = t->k_norm = (dop_norm){.kind = DOP_NORM_RMS, .plain = true, .eps = a->layers[i].attn_norm.eps};
        }
    }
    return DOP_OK;
}

/* The last num_kv_shared_layers layers have no keys and values of their own: each uses those of the last earlier layer of its
 * type that has some. Their feed-forward parts may be twice as wide (Gemma4TextAttention, Gemma4TextMLP). */
static dop_status
share_caches(dop_hf *hf, const bool *sliding)
{
    dop_arch *a = &hf->model->arch;
    uint32_t n = 0;
    bool wide = false;
    if (hf->family->flags & DOP_FAM_READER)
        /* drafter: all layers share; which model layers is set when the model is known */
        return DOP_OK;
    DOP_RETURN_IF_ERROR(dop_json_u32_or(&hf->cfg, DOP_HF(shared_kv_layers)->key, 0, a->n_layers, 0, &n));
    DOP_RETURN_IF_ERROR(dop_fact_flag_or(&hf->cfg, DOP_HF(ffn_doubled), false, &wide));
    for (uint32_t i = a->n_layers - n; i < a->n_layers; i++) {
        dop_attention *t = &a->layers[i].mixers[0].attn;
        uint32_t from = a->n_layers - n;
        while (from > 0 && sliding[from - 1] != sliding[i])
            from--;
        if (from == 0)
            return DOP_FAIL_IN(
                hf->diag, DOP_E_INPUT, hf->path,
                "%snum_kv_shared_layers is %u of %u layers: none is left whose keys and values layer %u, "
                "which has %s attention, could take",
                hf->cfg.where, n, a->n_layers, i, sliding[i] ? "sliding" : "full");
        t->shares = from;
        t->k_norm = t->v_norm = (dop_norm){0};
        if (wide)
            a->layers[i].ffn.width *= 2;
    }
    return DOP_OK;
}

dop_status
dop_hf_layer_inputs(dop_hf *hf, const bool *sliding)
{
    dop_arch *a = &hf->model->arch;
    dop_layer_inputs *p = &a->inputs;
    bool both = false;
    dop_status st = DOP_OK;
    DOP_TRY(dop_fact_u32_or(&hf->cfg, DOP_HF(input_width), 256, &p->width));
    if (p->width)
        DOP_TRY(dop_fact_u32_or(&hf->cfg, DOP_HF(input_vocab), hf->family->vocab, &p->vocab));
    DOP_TRY(dop_fact_flag_or(&hf->cfg, DOP_HF(k_is_v), false, &both));
    DOP_TRY(share_caches(hf, sliding));
error:
    p->projected = 1 / sqrt(a->hidden);
    p->norm = p->width ? a->final_norm : (dop_norm){0};
    for (uint32_t i = 0; i < a->n_layers; i++) {
        a->layers[i].post_input_norm = p->norm;
        a->layers[i].mixers[0].attn.k_is_v = both && !sliding[i];
    }
    return st;
}

/* FalconConfig: the newer form states the number of KV heads, and both parts of a layer may share a norm. The older form has one
 * KV head, or one per query head. */
dop_status
dop_hf_multi_query(dop_hf *hf, dop_attention *t)
{
    bool newer = false, one = true, falls = false;
    uint32_t norms = 2;
    DOP_RETURN_IF_ERROR(dop_fact_flag_or(&hf->cfg, DOP_HF(new_falcon), false, &newer));
    DOP_RETURN_IF_ERROR(dop_fact_flag_or(&hf->cfg, DOP_HF(alibi_used), false, &falls));
    t->alibi = falls ? 8 : 0;
    t->alibi_scaled = falls;
    DOP_RETURN_IF_ERROR(dop_fact_flag_or(&hf->cfg, DOP_HF(multi_query), true, &one));
    if (newer)
        DOP_RETURN_IF_ERROR(dop_fact_u32_or(&hf->cfg, DOP_HF(parallel_norms), 2, &norms));
    if (!newer)
        t->n_kv_heads = one ? 1 : t->n_heads;
    hf->one_norm = newer ? norms == 1 : true;
    return DOP_OK;
}

/* Follows MiniCPM3Config of transformers. */
dop_status
dop_hf_mup(dop_hf *hf)
{
    dop_arch *a = &hf->model->arch;
    double depth = 1.4, base = 256;
    dop_status st = DOP_OK;
    DOP_TRY(dop_fact_f64_or(&hf->cfg, DOP_HF(embed_scale_mup), 12, &a->embed_scale));
    DOP_TRY(dop_fact_f64_or(&hf->cfg, DOP_HF(depth_scale), depth, &depth));
    DOP_TRY(dop_fact_f64_or(&hf->cfg, DOP_HF(base_hidden), base, &base));
error:
    hf->layer.residual_scale = depth / sqrt(a->n_layers);
    a->logit_scale = base / a->hidden;
    return st;
}

/* Follows MiMoV2FlashAttention. */
dop_status
dop_hf_swa_heads(dop_hf *hf, const bool *sliding)
{
    dop_arch *a = &hf->model->arch;
    const dop_attention *first = &hf->layer.mixers[0].attn;
    uint32_t heads = 2 * first->n_kv_heads, dim = first->head_dim;
    const bool said = hf->cfg.object && json_object_get(hf->cfg.object, DOP_HF(value_scale)->key);
    double scale = said ? 1 : 0.707;
    DOP_RETURN_IF_ERROR(dop_fact_u32_or(&hf->cfg, DOP_HF(value_dim), dim, &dim));
    DOP_RETURN_IF_ERROR(dop_fact_u32_or(&hf->cfg, DOP_HF(kv_heads_sliding), heads, &heads));
    DOP_RETURN_IF_ERROR(dop_fact_f64_or(&hf->cfg, DOP_HF(value_scale), scale, &scale));
    for (uint32_t i = 0; i < a->n_layers; i++) {
        dop_mixer *m = &a->layers[i].mixers[0];
        m->attn.value_dim = dim;
        m->attn.sinks = sliding[i];
        m->attn.n_kv_heads = sliding[i] ? heads : m->attn.n_kv_heads;
        m->scale = scale;
    }
    return DOP_OK;
}

dop_status
dop_hf_layer_heads(dop_hf *hf, bool *rotates)
{
    dop_arch *a = &hf->model->arch;
    const json_t *heads = dop_json_get(&hf->cfg, "num_attention_heads_per_layer");
    const json_t *bases = dop_json_get(&hf->cfg, "layer_rope_theta");
    if ((heads && json_array_size(heads) != a->n_layers) || (bases && json_array_size(bases) != a->n_layers))
        return DOP_FAIL_IN(hf->diag, DOP_E_INPUT, hf->path, "%s%s is not a list of %u values", hf->cfg.where,
                           heads ? "num_attention_heads_per_layer" : "layer_rope_theta", a->n_layers);
    for (uint32_t i = 0; heads && i < a->n_layers; i++) {
        const json_t *v = json_array_get(heads, i);
        if (!json_is_integer(v) || json_integer_value(v) < 1 || json_integer_value(v) > DOP_MAX_HEADS)
            return DOP_FAIL_IN(hf->diag, DOP_E_INPUT, hf->path, "%snum_attention_heads_per_layer[%u] is not 1 to %d",
                               hf->cfg.where, i, DOP_MAX_HEADS);
        a->layers[i].mixers[0].attn.n_heads = (uint32_t)json_integer_value(v);
    }
    for (uint32_t i = 0; bases && i < a->n_layers; i++)
        rotates[i] = rotates[i] && json_number_value(json_array_get(bases, i)) != 0.0;
    return DOP_OK;
}

/* Follows lambda_init_fn of DiffLlamaAttention. */
double
dop_hf_lambda_init(int32_t layer)
{
    return 0.8 - 0.6 * exp(-0.3 * layer);
}

void
dop_hf_differential(dop_hf *hf)
{
    dop_arch *a = &hf->model->arch;
    for (uint32_t i = 0; i < a->n_layers; i++) {
        dop_mixer *m = &a->layers[i].mixers[0];
        m->attn.differential = true;
        m->attn.value_dim = 2 * m->attn.head_dim;
        m->scale = 1 - dop_hf_lambda_init((int32_t)i);
    }
}

/* Returns the p-quantile of the standard normal distribution, 0 < p < 1. */
static double
get_normal_quantile(double p)
{
    double low = -40, high = 40;
    for (int i = 0; i < 200; i++) {
        const double x = (low + high) / 2;
        if (0.5 * erfc(-x / sqrt(2)) < p)
            low = x;
        else
            high = x;
    }
    return (low + high) / 2;
}

/* Follows Gemma3nTextConfig. */
dop_status
dop_hf_altup(dop_hf *hf)
{
    dop_arch *a = &hf->model->arch;
    const json_t *widths = dop_json_get(&hf->cfg, "intermediate_size");
    uint32_t rank = 64, n = 0;
    const double *sparsity = NULL;
    DOP_RETURN_IF_ERROR(dop_fact_u32_or(&hf->cfg, DOP_HF(streams), 4, &a->altup.n));
    DOP_RETURN_IF_ERROR(dop_fact_u32_or(&hf->cfg, DOP_HF(active_stream), 0, &a->altup.active));
    DOP_RETURN_IF_ERROR(dop_fact_flag_or(&hf->cfg, DOP_HF(streams_scaled), true, &a->altup.scales));
    DOP_RETURN_IF_ERROR(dop_fact_u32_or(&hf->cfg, DOP_HF(laurel_rank), 64, &rank));
    DOP_RETURN_IF_ERROR(dop_json_f64_list(&hf->cfg, "activation_sparsity_pattern", 0, 1, hf->arena, &sparsity, &n));
    if ((sparsity && n != a->n_layers) || (json_is_array(widths) && json_array_size(widths) != a->n_layers))
        return DOP_FAIL_IN(hf->diag, DOP_E_INPUT, hf->path, "%s%s is not a list of %u entries", hf->cfg.where,
                           sparsity && n != a->n_layers ? "activation_sparsity_pattern" : "intermediate_size",
                           a->n_layers);
    a->altup.norm = a->final_norm;
    for (uint32_t i = 0; i < a->n_layers; i++) {
        dop_layer *y = &a->layers[i];
        const json_t *v = json_array_get(widths, i);
        y->laurel = rank;
        y->laurel_norm = a->final_norm;
        if (sparsity && sparsity[i] > 0)
            y->ffn.sparsity = get_normal_quantile(sparsity[i]);
        if (v && (!json_is_integer(v) || json_integer_value(v) < 1 || json_integer_value(v) > DOP_MAX_WIDTH))
            return DOP_FAIL_IN(hf->diag, DOP_E_INPUT, hf->path, "%sintermediate_size[%u] is not 1 to %d", hf->cfg.where,
                               i, DOP_MAX_WIDTH);
        else if (v)
            y->ffn.width = (uint32_t)json_integer_value(v);
    }
    return DOP_OK;
}
