/* Converts config.json to facts. Supports old fields (torch_dtype, rope_theta, rope_scaling) and new ones (dtype,
 * rope_parameters, layer_types). Missing fields get the defaults of the family's configuration class. */
#include "frontend/hf/config.h"
#include "frontend/facts/names.h"
#include "frontend/families/families.h"
#include "frontend/hf/attention.h"
#include "frontend/hf/audio.h"
#include "frontend/hf/eagle.h"
#include "frontend/hf/encoder.h"
#include "frontend/hf/experts.h"
#include "frontend/hf/hf.h"
#include "frontend/hf/keys.h"
#include "frontend/hf/parts.h"
#include "frontend/hf/recurrent.h"
#include "frontend/hf/rope.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Reads a size under the family's key, "one" or "one|other" (NULL: the key of facts.def), with default `otherwise`; 0:
 * required. */
static dop_status
read_size_field(const dop_hf *hf, const char *keys, const dop_fact_key *fact, uint32_t otherwise, uint32_t *out)
{
    char first[64];
    const dop_fact_key own = {dop_hf_key(hf, keys ? keys : fact->key, first, sizeof first), fact->least, fact->most};
    return otherwise ? dop_fact_u32_or(&hf->cfg, &own, otherwise, out) : dop_fact_u32(&hf->cfg, &own, out);
}

/* Reads number and size of heads that are common to all layers. */
static dop_status
read_heads(dop_hf *hf, dop_attention *t)
{
    const dop_family *f = hf->family;
    const dop_arch *a = &hf->model->arch;
    if (!f->keys->heads)
        return DOP_OK;
    const uint32_t heads = f->heads ? f->heads : dop_hf_part_sizes(hf).heads;
    dop_status st = read_size_field(hf, f->keys->heads, DOP_HF(heads), heads, &t->n_heads);
    if (st == DOP_OK)
        st = read_size_field(hf, f->keys->kv_heads, DOP_HF(kv_heads), f->kv_heads ? f->kv_heads : t->n_heads,
                             &t->n_kv_heads);
    if (st == DOP_OK && (f->flags & DOP_FAM_MULTI_QUERY))
        st = dop_hf_multi_query(hf, t);
    if (st == DOP_OK)
        st = f->flags & DOP_FAM_T5 ? dop_fact_u32_or(&hf->cfg, DOP_HF(head_dim_t5), f->head_dim, &t->head_dim)
                                   : dop_fact_u32_or(&hf->cfg, DOP_HF(head_dim), f->head_dim, &t->head_dim);
    if (st == DOP_OK && f->recurrent && f->recurrent->hybrid)
        st = dop_fact_u32_or(&hf->cfg, DOP_HF(head_dim_zamba), 2 * a->hidden / t->n_heads, &t->head_dim);
    if (st != DOP_OK)
        return st;
    if (t->n_heads % t->n_kv_heads != 0)
        return DOP_FAIL_IN(hf->diag, DOP_E_INPUT, hf->path, "%s%s %u is not a multiple of num_key_value_heads %u",
                           hf->cfg.where, f->keys->heads, t->n_heads, t->n_kv_heads);
    if (t->head_dim == 0 && !(f->flags & DOP_FAM_LATENT)) {
        if (a->hidden % t->n_heads != 0)
            return DOP_FAIL_IN(hf->diag, DOP_E_INPUT, hf->path, "%s%s %u is not divisible by %s %u", hf->cfg.where,
                               f->keys->hidden, a->hidden, f->keys->heads, t->n_heads);
        t->head_dim = a->hidden / t->n_heads;
    }
    return DOP_OK;
}

static dop_status
read_hf_sizes(dop_hf *hf)
{
    const dop_hf_keys *k = hf->family->keys;
    dop_arch *a = &hf->model->arch;
    const dop_hf_sizes part = dop_hf_part_sizes(hf);
    const uint32_t vocab = hf->family->vocab ? hf->family->vocab : part.vocab;
    dop_status st = read_size_field(hf, k->hidden, DOP_HF(hidden), part.hidden, &a->hidden);
    if (st == DOP_OK && !dop_hf_counts_blocks(hf, &a->n_layers))
        st = read_size_field(hf, k->layers, DOP_HF(layers), part.layers, &a->n_layers);
    if (st == DOP_OK)
        st = read_size_field(hf, "vocab_size|padded_vocab_size", DOP_HF(vocab), vocab, &a->vocab); /* ChatGLM */
    a->ctx_train = hf->family->ctx;
    if (st == DOP_OK && k->ctx)
        st = read_size_field(hf, k->ctx, DOP_HF(ctx), hf->family->ctx, &a->ctx_train);
    if (!k->ffn) {
        hf->layer.ffn.kind = DOP_FFN_NONE;
        hf->layer.ffn_norm = (dop_norm){0};
    }
    /* For some families, the default feed-forward width is a multiple of the model's. dop_hf_adjust_ffn() reads LFM2's other
     * field. */
    const uint32_t otherwise = hf->family->ffn_times    ? hf->family->ffn_times * a->hidden
                               : dop_hf_adjusts_ffn(hf) ? 1
                                                        : part.ffn;
    if (st == DOP_OK && k->ffn && !json_is_array(dop_json_get(&hf->cfg, k->ffn))) /* a list: dop_hf_altup() reads it */
        st = read_size_field(hf, k->ffn, DOP_HF(ffn_width), otherwise, &hf->layer.ffn.width);
    if (hf->family->flags & DOP_FAM_HALF_FFN)
        hf->layer.ffn.width = (hf->layer.ffn.width + 1) / 2;
    if (st == DOP_OK)
        st = dop_hf_adjust_ffn(hf);
    if (st == DOP_OK)
        st = read_heads(hf, &hf->layer.mixers[0].attn);
    if (st == DOP_OK && (hf->family->flags & DOP_FAM_LATENT)) {
        hf->layer.mixers[0].kind = DOP_MIXER_LATENT;
        st = dop_hf_latent(hf, &hf->layer.mixers[0].attn);
    }
    return st;
}

/* ---- sliding windows ---------------------------------------------------------------------------------------------- */

/* Reads the list layer_types of newer files. */
static dop_status
read_layer_types(dop_hf *hf, const json_t *list, bool *sliding)
{
    const uint32_t n = hf->model->arch.n_layers;
    const char *limited = hf->family->window_rule == DOP_WINDOW_CHUNKS ? "chunked_attention" : "sliding_attention";
    const bool neo = !dop_json_has(&hf->cfg, "layer_types"); /* GPT-Neo: attention_layers */
    if (!json_is_array(list))
        return DOP_FAIL_IN(hf->diag, DOP_E_INPUT, hf->path, "%slayer_types is %s, expected a list", hf->cfg.where,
                           dop_json_kind(list));
    if (json_array_size(list) != n)
        return DOP_FAIL_IN(hf->diag, DOP_E_INPUT, hf->path, "%slayer_types has %zu entries, expected %u (%s)",
                           hf->cfg.where, json_array_size(list), n, hf->family->keys->layers);
    for (uint32_t i = 0; i < n; i++) {
        const char *type = json_string_value(json_array_get(list, i));
        bool slides = type && strcmp(type, neo ? "local" : limited) == 0;
        if (dop_hf_recurs(hf, type))
            continue;
        const bool full =
            type && (strcmp(type, neo ? "global" : "full_attention") == 0 ||
                     ((hf->family->flags & DOP_FAM_INDEX) && strcmp(type, "deepseek_sparse_attention") == 0) ||
                     (hf->family->recurrent && strcmp(type, "attention") == 0));
        if (!slides && !full)
            return DOP_FAIL_IN(hf->diag, DOP_E_INPUT, hf->path,
                               "%slayer_types[%u] is %.60s, expected full_attention or %s", hf->cfg.where, i,
                               type ? type : dop_json_kind(json_array_get(list, i)), limited);
        if (slides && hf->family->window_rule == DOP_WINDOW_NONE)
            return DOP_FAIL_IN(hf->diag, DOP_E_INPUT, hf->path,
                               "%slayer_types[%u] is sliding_attention, which %s models do not have", hf->cfg.where, i,
                               hf->family->name);
        sliding[i] = slides;
    }
    return DOP_OK;
}

/* MiMo-V2: reads a list of 0 and 1, where 1 is a sliding layer. */
static dop_status
read_slides(dop_hf *hf, const json_t *list, bool *sliding)
{
    const uint32_t n = hf->model->arch.n_layers;
    bool fits = json_array_size(list) == n;
    for (uint32_t i = 0; fits && i < n; i++) {
        const json_int_t v = json_integer_value(json_array_get(list, i));
        fits = json_is_integer(json_array_get(list, i)) && (v == 0 || v == 1);
        sliding[i] = v == 1;
    }
    return fits ? DOP_OK
                : DOP_FAIL_IN(hf->diag, DOP_E_INPUT, hf->path,
                              "%shybrid_layer_pattern is not a list of %u times 0 or 1", hf->cfg.where, n);
}

/* SmolLM3: reads a list of 0 and 1, where 1 is a layer with RoPE; without list, every n-th layer has none. */
static dop_status
read_nope(dop_hf *hf, bool *rotates)
{
    const uint32_t n = hf->model->arch.n_layers;
    const json_t *list = dop_json_get(&hf->cfg, "no_rope_layers");
    uint32_t interval = 4;
    dop_status st = dop_fact_u32_or(&hf->cfg, DOP_HF(nope_period), 4, &interval);
    if (st != DOP_OK)
        return st;
    if (json_is_array(list) && json_array_size(list) == 0) /* an empty list counts as absent */
        list = NULL;
    if (list && (!json_is_array(list) || json_array_size(list) != n))
        return DOP_FAIL_IN(hf->diag, DOP_E_INPUT, hf->path, "%sno_rope_layers is not a list of %u entries (%s)",
                           hf->cfg.where, n, hf->family->keys->layers);
    for (uint32_t i = 0; i < n; i++) {
        const json_t *v = list ? json_array_get(list, i) : NULL;
        if (list && (!json_is_integer(v) || (json_integer_value(v) != 0 && json_integer_value(v) != 1)))
            return DOP_FAIL_IN(hf->diag, DOP_E_INPUT, hf->path, "%sno_rope_layers[%u] is not 0 or 1", hf->cfg.where, i);
        rotates[i] = list ? json_integer_value(v) == 1 : (i + 1) % interval != 0;
    }
    return DOP_OK;
}

/* Sets the layers with a window, by the family's rule. */
static dop_status
apply_window_rule(dop_hf *hf, const bool *rotates, bool *sliding)
{
    const uint32_t n = hf->model->arch.n_layers;
    uint32_t from = 0, period = 0;
    dop_status st = DOP_OK;
    switch (hf->family->window_rule) {
    case DOP_WINDOW_QWEN:
        st = dop_fact_u32_or(&hf->cfg, DOP_HF(window_from), 28, &from);
        break;
    case DOP_WINDOW_PATTERN:
        st = dop_fact_u32_or(&hf->cfg, DOP_HF(window_period_old), hf->family->period, &period);
        if (st == DOP_OK)
            st = dop_fact_u32_or(&hf->cfg, DOP_HF(window_period), period, &period);
        break;
    case DOP_WINDOW_GLOBAL:
        st = dop_fact_u32_or(&hf->cfg, DOP_HF(full_period), hf->family->period, &period);
        break;
    default:
        break;
    }
    for (uint32_t i = 0; st == DOP_OK && i < n; i++)
        switch (hf->family->window_rule) {
        case DOP_WINDOW_NONE:
            sliding[i] = false;
            break;
        case DOP_WINDOW_ALL:
            sliding[i] = true;
            break;
        case DOP_WINDOW_QWEN:
            sliding[i] = i >= from;
            break;
        case DOP_WINDOW_PATTERN:
            sliding[i] = (i + 1) % period != 0;
            break;
        case DOP_WINDOW_GLOBAL:
            sliding[i] = i % period != 0;
            break;
        case DOP_WINDOW_NOPE:
            sliding[i] = !rotates[i];
            break;
        case DOP_WINDOW_CHUNKS:
            sliding[i] = rotates[i];
            break;
        }
    return st;
}

static dop_status
read_hf_windows(dop_hf *hf, const bool *rotates, bool *sliding, uint32_t *out_window)
{
    dop_arch *a = &hf->model->arch;
    const dop_window_rule rule = hf->family->window_rule;
    const json_t *types = dop_json_get(&hf->cfg, "layer_types");
    const bool neo = !types && dop_json_has(&hf->cfg, "attention_layers");
    const char *const key = neo ? "window_size" : DOP_HF(window)->key; /* GPT-Neo's field name */
    if (neo)
        types = dop_json_get(&hf->cfg, "attention_layers");
    bool use = true;
    uint32_t window = 0;
    const json_t *slides = dop_json_get(&hf->cfg, "hybrid_layer_pattern");
    dop_status st = types                                             ? read_layer_types(hf, types, sliding)
                    : slides && hf->family->flags & DOP_FAM_SWA_HEADS ? read_slides(hf, slides, sliding)
                                                                      : apply_window_rule(hf, rotates, sliding);
    if (st != DOP_OK || rule == DOP_WINDOW_NONE)
        return st;
    if (rule == DOP_WINDOW_CHUNKS)
        return dop_hf_chunks(hf, rotates, sliding);
    if (rule == DOP_WINDOW_QWEN || rule == DOP_WINDOW_NOPE)
        st = dop_fact_flag_or(&hf->cfg, DOP_HF(window_used), false, &use);
    /* null means no window. The family's default applies only to files without the field. */
    if (st == DOP_OK && !(hf->cfg.object && json_object_get(hf->cfg.object, key)))
        window = hf->family->window;
    if (st == DOP_OK)
        st = dop_json_u32_or(&hf->cfg, key, use ? 1 : 0, DOP_MAX_CTX, window, &window);
    if (st == DOP_OK)
        st = dop_hf_window_of_both(hf, &window);
    *out_window = use ? window : 0;
    for (uint32_t i = 0; st == DOP_OK && use && i < a->n_layers; i++) {
        a->layers[i].mixers[0].attn.window = sliding[i] ? window : 0;
        if (types && sliding[i] && !window)
            st = DOP_FAIL_IN(hf->diag, DOP_E_INPUT, hf->path,
                             "%slayer_types[%u] is sliding_attention, but sliding_window is null", hf->cfg.where, i);
    }
    return st;
}

/* ---- scalars ------------------------------------------------------------------------------------------------------ */

static dop_status
read_hf_attention(dop_hf *hf)
{
    const uint64_t has = hf->family->flags;
    dop_arch *a = &hf->model->arch;
    dop_attention *t = &hf->layer.mixers[0].attn;
    double scalar = t->head_dim;
    bool refuse = false;
    dop_status st = dop_hf_both_ways(hf, t);
    if (st == DOP_OK && (has & DOP_FAM_CLIP))
        st = dop_json_f64_or(&hf->cfg,
                             dop_json_has(&hf->cfg, "attn_config.clip_qkv") ? "attn_config.clip_qkv" : "clip_qkv", 1e-6,
                             1e6, 0, &t->clip);
    if (st == DOP_OK && (has & DOP_FAM_QUERY_SCALAR))
        st = dop_fact_f64_or(&hf->cfg, DOP_HF(query_scalar), 256, &scalar);
    t->scale = hf->family->attn_scale > 0 ? hf->family->attn_scale : 1 / sqrt(scalar);
    if (st == DOP_OK && (has & DOP_FAM_MULTIPLIERS))
        st = dop_fact_f64_or(&hf->cfg, DOP_HF(score_scale), 1, &t->scale);
    if (st == DOP_OK && (has & DOP_FAM_SOFTCAPS)) {
        /* Gemma 2 has default caps. Gemma 3 also has both fields, but no default caps, and no cap on attention (Gemma3Attention).
         * Gemma 3n has the default for logits. */
        bool gemma2 = !(has & (DOP_FAM_LOCAL_ROPE | DOP_FAM_LOGIT_TIMES));
        bool said = json_object_get(hf->cfg.object, DOP_HF(softcap)->key) != NULL;
        if (gemma2)
            st = dop_fact_f64_or(&hf->cfg, DOP_HF(softcap), said ? 0 : 50, &t->softcap);
        said = json_object_get(hf->cfg.object, DOP_HF(logit_softcap)->key) != NULL;
        if (st == DOP_OK)
            st = dop_fact_f64_or(&hf->cfg, DOP_HF(logit_softcap), (gemma2 || has & DOP_FAM_ALTUP) && !said ? 30 : 0,
                                 &a->logit_softcap);
    }
    if (st == DOP_OK)
        st = dop_fact_flag_or(&hf->cfg, DOP_HF(scores_by_layer), false, &refuse);
    if (st == DOP_OK && refuse)
        return DOP_FAIL_IN(hf->diag, DOP_E_INPUT, hf->path, "%sscale_attn_by_inverse_layer_idx is not supported",
                           hf->cfg.where);
    bool scaled = true;
    if (st == DOP_OK && (has & DOP_FAM_LEARNED_POS))
        st = dop_fact_flag_or(&hf->cfg, DOP_HF(scores_scaled), true, &scaled);
    if (!scaled)
        t->scale = 1;
    if (st == DOP_OK && (has & DOP_FAM_ALIBI))
        st = dop_fact_u32_or(&hf->cfg, DOP_HF(alibi), 8, &t->alibi);
    double factor = 1; /* factor on normalized queries */
    if (st == DOP_OK && (has & DOP_FAM_QK_PLAIN))
        st = dop_fact_f64_or(&hf->cfg, DOP_HF(query_scale), 1, &factor);
    t->scale *= factor;
    return st;
}

static dop_status
read_hf_multipliers(dop_hf *hf)
{
    dop_arch *a = &hf->model->arch;
    double divisor = 1;
    if (hf->family->flags & DOP_FAM_MUP)
        return dop_hf_mup(hf);
    if (!(hf->family->flags & DOP_FAM_MULTIPLIERS))
        return DOP_OK;
    DOP_RETURN_IF_ERROR(dop_fact_f64_or(&hf->cfg, DOP_HF(embed_scale), 1, &a->embed_scale));
    DOP_RETURN_IF_ERROR(dop_fact_f64_or(&hf->cfg, DOP_HF(residual_scale), 1, &hf->layer.residual_scale));
    DOP_RETURN_IF_ERROR(dop_fact_f64_or(&hf->cfg, DOP_HF(logit_divisor), 1, &divisor));
    a->logit_scale = 1 / divisor;
    return DOP_OK;
}

static dop_status
read_fact(const dop_hf *hf, const dop_fact_field *f, bool *out)
{
    *out = f->otherwise;
    return f->key ? dop_json_bool_or(&hf->cfg, f->key, f->otherwise, out) : DOP_OK;
}

static dop_status
read_hf_biases(dop_hf *hf)
{
    dop_attention *t = &hf->layer.mixers[0].attn;
    bool qkv = false;
    DOP_RETURN_IF_ERROR(read_fact(hf, &hf->family->bias_qkv, &qkv));
    t->bias_q = t->bias_v = qkv;
    t->bias_k = qkv && !(hf->family->flags & DOP_FAM_CROSS);
    DOP_RETURN_IF_ERROR(read_fact(hf, &hf->family->bias_o, &t->bias_o));
    DOP_RETURN_IF_ERROR(read_fact(hf, &hf->family->bias_ffn, &hf->layer.ffn.bias));
    DOP_RETURN_IF_ERROR(read_fact(hf, &hf->family->bias_head, &hf->model->arch.head_bias));
    bool norms = false;
    if (hf->family->bias_norm.key)
        DOP_RETURN_IF_ERROR(read_fact(hf, &hf->family->bias_norm, &norms));
    if (norms)
        hf->layer.attn_norm.bias = hf->layer.ffn_norm.bias = hf->model->arch.embed_norm.bias =
            hf->model->arch.final_norm.bias = true;
    return DOP_OK;
}

/* OPTDecoderLayer: with norms after the sums there is no final norm. The embedding may be narrower than the model. */
static dop_status
read_opt(dop_hf *hf)
{
    dop_arch *a = &hf->model->arch;
    dop_layer *y = &hf->layer;
    bool before = true, removed = false;
    DOP_RETURN_IF_ERROR(dop_fact_flag_or(&hf->cfg, DOP_HF(norm_before), true, &before));
    DOP_RETURN_IF_ERROR(dop_fact_flag_or(&hf->cfg, DOP_HF(no_final_norm), false, &removed));
    DOP_RETURN_IF_ERROR(dop_fact_u32_or(&hf->cfg, DOP_HF(embed_width), a->hidden, &a->embed_width));
    if (a->embed_width == a->hidden)
        a->embed_width = 0;
    if (!before) {
        y->attn_sum_norm = y->attn_norm;
        y->ffn_sum_norm = y->ffn_norm;
        y->attn_norm = y->ffn_norm = (dop_norm){0};
    }
    if (!before || removed)
        a->final_norm = (dop_norm){0};
    return DOP_OK;
}

/* Reads whether attention and feed-forward part are parallel. */
static dop_status
read_hf_parallel(dop_hf *hf)
{
    dop_status st = read_fact(hf, &hf->family->parallel, &hf->layer.parallel);
    if (hf->layer.parallel && (hf->one_norm || hf->family->flags & DOP_FAM_ONE_NORM))
        hf->layer.ffn_norm = (dop_norm){0};
    return st;
}

static dop_status
read_hf_scalars(dop_hf *hf)
{
    const dop_family *f = hf->family;
    dop_arch *a = &hf->model->arch;
    const char *act = NULL;
    char first[64];
    double eps = 0;
    dop_status st = dop_json_f64_or(&hf->cfg, dop_hf_key(hf, f->keys->eps, first, sizeof first), 0, 1, f->eps, &eps);
    dop_set_norms(a, &hf->layer, eps, f->flags & DOP_FAM_NORM_ADD_1 ? 1 : 0);
    if (f->flags & DOP_FAM_FINAL_WHOLE)
        a->final_norm.add = 0;
    if (st == DOP_OK && dop_json_has(&hf->cfg, DOP_HF(post_norm_eps)->key))
        st = dop_fact_f64(&hf->cfg, DOP_HF(post_norm_eps), &hf->layer.post_attn_norm.eps);
    hf->layer.post_ffn_norm.eps = hf->layer.post_attn_norm.eps;
    if (st == DOP_OK)
        st = dop_json_str_or(&hf->cfg, dop_hf_key(hf, f->keys->act, first, sizeof first), f->act, &act);
    if (st == DOP_OK && !dop_act_by_name(act, &hf->layer.ffn.act))
        st = DOP_FAIL_IN(hf->diag, DOP_E_INPUT, hf->path, "%s%s \"%.60s\" is not supported", hf->cfg.where,
                         dop_hf_key(hf, f->keys->act, first, sizeof first), act);
    if (st == DOP_OK)
        st = dop_fact_flag_or(&hf->top, DOP_HF(tied), f->flags & DOP_FAM_TIED, &a->tied);
    if (st == DOP_OK)
        st = dop_fact_flag_or(&hf->cfg, DOP_HF(tied), a->tied, &a->tied);
    if (st == DOP_OK && (f->flags & DOP_FAM_OPT))
        st = read_opt(hf);
    if (st == DOP_OK)
        st = read_hf_biases(hf);
    if (st == DOP_OK)
        st = read_hf_parallel(hf);
    bool qk_norm = true;
    if (st == DOP_OK && f->qk_norm.key)
        st = read_fact(hf, &f->qk_norm, &qk_norm);
    if (!qk_norm)
        hf->layer.mixers[0].attn.q_norm = hf->layer.mixers[0].attn.k_norm = (dop_norm){0};
    if (st == DOP_OK && (f->flags & DOP_FAM_LOGIT_SCALE))
        st = dop_fact_f64_or(&hf->cfg, DOP_HF(logit_scale), 0.0625, &a->logit_scale);
    if (st == DOP_OK && (f->flags & DOP_FAM_LOGIT_TIMES))
        st = dop_fact_f64_or(&hf->cfg, DOP_HF(logit_multiplier), 1, &a->logit_scale);
    bool root = false;
    if (st == DOP_OK && f->embed_sqrt.key)
        st = read_fact(hf, &f->embed_sqrt, &root);
    if (root)
        a->embed_scale = sqrt(a->hidden);
    if (st == DOP_OK)
        st = read_hf_multipliers(hf);
    return st == DOP_OK ? read_hf_attention(hf) : st;
}

/* Gemma 4: reads the heads of full layers, and of single layers that state others. */
static dop_status
read_heads_by_type(dop_hf *hf, const bool *sliding)
{
    dop_arch *a = &hf->model->arch;
    dop_json list, entry;
    bool own = false;
    uint32_t head_dim = 512, kv_heads = hf->layer.mixers[0].attn.n_kv_heads;
    dop_status st = dop_json_sub(&hf->cfg, "per_layer_config", &list);
    if (list.object && !dop_json_has(&hf->cfg, DOP_HF(head_dim_full)->key))
        head_dim = hf->layer.mixers[0].attn.head_dim;
    if (st == DOP_OK)
        st = dop_fact_u32_or(&hf->cfg, DOP_HF(head_dim_full), head_dim, &head_dim);
    if (st == DOP_OK)
        st = dop_fact_flag_or(&hf->cfg, DOP_HF(k_is_v), false, &own);
    if (st == DOP_OK && own) /* otherwise the next field is unused (configuration_gemma4.py) */
        st = dop_fact_u32_or(&hf->cfg, DOP_HF(kv_heads_full), kv_heads, &kv_heads);
    for (uint32_t i = 0; st == DOP_OK && i < a->n_layers; i++) {
        dop_attention *t = &a->layers[i].mixers[0].attn;
        char key[16];
        snprintf(key, sizeof key, "%u", i);
        if (!sliding[i]) {
            t->head_dim = head_dim;
            t->n_kv_heads = kv_heads;
        }
        st = dop_json_sub(&list, key, &entry);
        if (st == DOP_OK)
            st = dop_fact_u32_or(&entry, DOP_HF(head_dim), t->head_dim, &t->head_dim);
        if (st == DOP_OK)
            st = dop_fact_u32_or(&entry, DOP_HF(kv_heads), t->n_kv_heads, &t->n_kv_heads);
    }
    return st;
}

/* Fails for fields that request a feature that the facts cannot express, if they are set (not null, false or 0). */
static dop_status
refuse_hf_fields(const dop_hf *hf)
{
    static const char *const keys[] = {"qk_layernorm",
                                       "clip_qkv",
                                       "apply_residual_connection_post_layernorm",
                                       "attn_config.prefix_lm",
                                       "attn_config.qk_ln",
                                       "attn_config.softmax_scale",
                                       "forget_gate_lower_bound",
                                       "is_moe",
                                       "moe_apply_router_weight_on_input",
                                       "moe_latent_size",
                                       "moe_router_logit_softcapping",
                                       "enable_moe_block",
                                       "attention_k_eq_v",
                                       "hidden_size_per_layer_input",
                                       "num_kv_shared_layers",
                                       "use_double_wide_mlp"};
    static const char *const needed[] = {"attn_config.alibi"}; /* only true is supported */
    enum { KNOWN_TO_SOME = 11 }; /* first key that some families read; an error for others */
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
        if (json_is_false(dop_json_get(&hf->cfg, needed[i])))
            return DOP_FAIL_IN(hf->diag, DOP_E_INPUT, hf->path, "%s%s is false, which is not supported", hf->cfg.where,
                               needed[i]);
    const dop_family *f = hf->family;
    const size_t n = f->flags & DOP_FAM_LAYER_INPUTS ? KNOWN_TO_SOME : sizeof keys / sizeof *keys;
    for (size_t i = 0; i < n; i++) {
        if ((f->qk_norm.key && strcmp(f->qk_norm.key, keys[i]) == 0) || (i == 1 && f->flags & DOP_FAM_CLIP))
            continue;
        const json_t *v = dop_json_get(&hf->cfg, keys[i]);
        if (v && !json_is_false(v) && !(json_is_number(v) && json_number_value(v) == 0.0))
            return DOP_FAIL_IN(hf->diag, DOP_E_INPUT, hf->path, "%s%s is not supported", hf->cfg.where, keys[i]);
    }
    return DOP_OK;
}

/* Reads facts that differ between layers: windows, RoPE and so on. */
static dop_status
read_hf_layers(dop_hf *hf)
{
    dop_arch *a = &hf->model->arch;
    bool *sliding = dop_arena_alloc(hf->arena, a->n_layers * sizeof *sliding);
    bool *rotates = dop_arena_alloc(hf->arena, a->n_layers * sizeof *rotates);
    uint32_t window = 0;
    a->layers = dop_arena_alloc(hf->arena, (a->n_layers + (size_t)1) * sizeof *a->layers); /* + 1: a drafting layer */
    if (!sliding || !rotates || !a->layers)
        return DOP_NO_MEMORY(hf->diag);
    for (uint32_t i = 0; i < a->n_layers; i++) {
        a->layers[i] = hf->layer;
        rotates[i] = !a->learned_positions && !hf->layer.mixers[0].attn.alibi && !a->encoder.relative.buckets;
    }
    dop_status st = hf->family->flags & DOP_FAM_NOPE ? read_nope(hf, rotates) : DOP_OK;
    if (st == DOP_OK)
        st = dop_hf_positions(hf, rotates);
    if (st == DOP_OK)
        st = read_hf_windows(hf, rotates, sliding, &window);
    if (st == DOP_OK && hf->family->experts)
        st = dop_hf_experts(hf);
    if (st == DOP_OK && (hf->family->flags & DOP_FAM_HEADS_BY_TYPE))
        st = read_heads_by_type(hf, sliding);
    if (st == DOP_OK)
        st = dop_hf_layer_heads(hf, rotates);
    if (st == DOP_OK && (hf->family->flags & DOP_FAM_LAYER_INPUTS))
        st = dop_hf_layer_inputs(hf, sliding);
    /* If the file states a window, only layers with a window have RoPE; without sliding layers, no layer has it. */
    for (uint32_t i = 0; window && (hf->family->flags & DOP_FAM_NOPE_FULL) && i < a->n_layers; i++)
        rotates[i] = a->layers[i].mixers[0].attn.window;
    if (st == DOP_OK && !a->learned_positions && !a->encoder.relative.buckets && !(hf->family->flags & DOP_FAM_ALIBI) &&
        hf->family->keys->heads)
        st = dop_hf_ropes(hf, sliding);
    if (st == DOP_OK && (hf->family->flags & DOP_FAM_LATENT))
        st = dop_hf_latent_rope(hf);
    if (st == DOP_OK && (hf->family->flags & DOP_FAM_INDEX))
        st = dop_hf_index(hf);
    if (st == DOP_OK && (hf->family->flags & DOP_FAM_ALTUP))
        st = dop_hf_altup(hf);
    if (st == DOP_OK && (hf->family->flags & DOP_FAM_DOGE))
        st = dop_fact_u32_or(&hf->cfg, DOP_HF(ctx_kept), 2048, &a->ctx_limit);
    if (hf->family->flags & DOP_FAM_DIFFERENTIAL)
        dop_hf_differential(hf);
    if (st == DOP_OK && (hf->family->flags & DOP_FAM_SWA_HEADS))
        st = dop_hf_swa_heads(hf, sliding);
    for (uint32_t i = 0; st == DOP_OK && i < a->n_layers; i++)
        if (!rotates[i])
            a->layers[i].mixers[0].attn.rope = -1;
    return st == DOP_OK ? dop_hf_settle_mixers(hf) : st;
}

dop_status
dop_hf_config(dop_hf *hf)
{
    dop_arch *a = &hf->model->arch;
    dop_arch_defaults(a, &hf->layer);
    dop_family_facts(hf->family, a, &hf->layer);
    snprintf(a->family, sizeof a->family, "%s", hf->family->name);
    DOP_RETURN_IF_ERROR(refuse_hf_fields(hf));
    DOP_RETURN_IF_ERROR(read_hf_sizes(hf));
    DOP_RETURN_IF_ERROR(read_hf_scalars(hf));
    DOP_RETURN_IF_ERROR(dop_hf_read_recurrent(hf));
    DOP_RETURN_IF_ERROR(dop_hf_encoder(hf));
    if (hf->family->flags & DOP_FAM_CROSS)
        DOP_RETURN_IF_ERROR(dop_hf_cross(hf));
    DOP_RETURN_IF_ERROR(read_hf_layers(hf));
    if (hf->family->flags & DOP_FAM_EAGLE)
        return dop_hf_eagle(hf);
    if (hf->family->flags & DOP_FAM_READER)
        return dop_hf_reader(hf);
    return dop_hf_settle_encoder(hf);
}
