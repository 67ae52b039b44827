/* Converts GGUF metadata to facts. Keys: the GGUF specification (ggml repository, docs/gguf.md). Defaults of missing keys and
 * unstated facts (Gemma's layer patterns, RoPE bases and query scales) follow llama.cpp, which writes and reads these files
 * (load_arch_hparams in src/models/). */
#include "frontend/gguf/config.h"
#include "frontend/facts/names.h"
#include "frontend/families/families.h"
#include "frontend/gguf/attention.h"
#include "frontend/gguf/eagle.h"
#include "frontend/gguf/encoder.h"
#include "frontend/gguf/experts.h"
#include "frontend/gguf/gguf_import.h"
#include "frontend/gguf/keys.h"
#include "frontend/gguf/open.h"
#include "frontend/gguf/recurrent.h"
#include "frontend/gguf/rope.h"
#include "frontend/gguf/text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static bool
gguf_has_tensor(const dop_gi *gi, const char *name)
{
    return dop_gi_tensor(gi, name, NULL) != NULL;
}

static bool
gguf_layer_has_tensor(const dop_gi *gi, uint32_t layer, const char *name)
{
    char full[96];
    snprintf(full, sizeof full, "blk.%u.%s", layer, name);
    return gguf_has_tensor(gi, full);
}

static dop_status
read_gguf_sizes(dop_gi *gi)
{
    dop_arch *a = &gi->model->arch;
    char full[96];
    DOP_RETURN_IF_ERROR(dop_gi_size(gi, DOP_GGUF(layers), 0, 0, &a->n_layers));
    DOP_RETURN_IF_ERROR(dop_gi_size(gi, DOP_GGUF(hidden), 0, 0, &a->hidden));
    DOP_RETURN_IF_ERROR(dop_gi_size(gi, DOP_GGUF(ctx), 0, 0, &a->ctx_train));
    uint64_t experts = 0, draft = 0;
    if (!gi->family->experts && dop_gguf_u64(dop_gi_find(gi, DOP_GGUF(experts)->key, full, sizeof full), 0, &experts) &&
        experts)
        return DOP_FAIL_IN(gi->diag, DOP_E_INPUT, gi->path, "%s is %llu, but %s models have no experts", full,
                           (unsigned long long)experts, gi->family->name);
    if (!(gi->family->flags & DOP_FAM_READER) &&
        dop_gguf_u64(dop_gi_find(gi, DOP_GGUF(draft_layers)->key, full, sizeof full), 0, &draft) &&
        draft >= a->n_layers)
        return DOP_FAIL_IN(gi->diag, DOP_E_INPUT, gi->path, "%s is %llu, but %s.block_count is %u", full,
                           (unsigned long long)draft, gi->name, a->n_layers);
    gi->draft = (uint32_t)draft;
    a->n_layers -= gi->draft;
    if (gi->family->flags & DOP_FAM_EAGLE)
        return dop_gi_eagle_vocab(gi);
    const dop_gguf_tensor *embed = dop_gi_tensor(gi, "token_embd.weight", NULL);
    if (!embed)
        return DOP_FAIL_IN(gi->diag, DOP_E_INPUT, gi->path, "tensor token_embd.weight is missing");
    if (embed->dims[1] > DOP_MAX_VOCAB)
        return DOP_FAIL_IN(gi->diag, DOP_E_INPUT, gi->path, "tensor token_embd.weight has %llu rows, at most %d fit",
                           (unsigned long long)embed->dims[1], DOP_MAX_VOCAB);
    const dop_gguf_kv *tokens = dop_gguf_find(&gi->parts[0], "tokenizer.ggml.tokens");
    if (tokens && tokens->count > embed->dims[1])
        return DOP_FAIL_IN(gi->diag, DOP_E_INPUT, gi->path,
                           "tokenizer.ggml.tokens has %llu entries, but tensor token_embd.weight %llu rows",
                           (unsigned long long)tokens->count, (unsigned long long)embed->dims[1]);
    a->vocab = (uint32_t)embed->dims[1];
    a->tied = !gguf_has_tensor(gi, "output.weight");
    return DOP_OK;
}

/* Fails for keys that are not 0 and request a feature that the facts cannot express. */
static dop_status
refuse_gguf_keys(const dop_gi *gi)
{
    static const struct {
        const dop_fact_key *fact;
        uint64_t known; /* families with these flags read the key; for others it is an error */
    } keys[] = {{DOP_GGUF(clip), DOP_FAM_CLIP},
                {DOP_GGUF(alibi), DOP_FAM_ALIBI},
                {DOP_GGUF(shared_kv_layers), DOP_FAM_LAYER_INPUTS},
                {DOP_GGUF(input_width), DOP_FAM_LAYER_INPUTS},
                {DOP_GGUF(expert_latent), 0}};
    char full[96];
    double v = 0;
    bool on = false;
    if (dop_gguf_bool(dop_gi_find(gi, DOP_GGUF(scan_small_norms)->key, full, sizeof full), 0, &on) &&
        on) /* Falcon-Mamba */
        return DOP_FAIL_IN(gi->diag, DOP_E_INPUT, gi->path, "%s is true, which is not supported", full);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (!(gi->family->flags & keys[i].known) &&
            dop_gguf_f64(dop_gi_find(gi, keys[i].fact->key, full, sizeof full), 0, &v) && v != 0.0)
            return DOP_FAIL_IN(gi->diag, DOP_E_INPUT, gi->path, "%s is %g, which is not supported", full, v);
    return DOP_OK;
}

/* ---- windows ------------------------------------------------------------------------------------------------------ */

/* Reads element i of a list of booleans, which some converters write as numbers. */
static bool
read_flag_element(const dop_gguf_kv *kv, uint64_t i, bool *out)
{
    uint64_t v = 0;
    if (dop_gguf_bool(kv, i, out))
        return true;
    *out = dop_gguf_u64(kv, i, &v) && v == 1;
    return *out || (dop_gguf_u64(kv, i, &v) && v == 0);
}

/* Reads attention.sliding_window_pattern: a period whose last (or first) layer is full, or a flag per layer. */
static dop_status
read_gguf_pattern(dop_gi *gi)
{
    const uint32_t n = gi->model->arch.n_layers;
    char full[96];
    const dop_gguf_kv *kv = dop_gi_find(gi, DOP_GGUF(window_period)->key, full, sizeof full);
    uint32_t period = gi->family->gguf_period ? gi->family->gguf_period : gi->family->period;
    if (kv && kv->type == DOP_GGUF_ARRAY) {
        for (uint32_t i = 0; i < n; i++)
            if ((kv->count != n && kv->count != n + gi->draft) || !read_flag_element(kv, i, &gi->slides[i]))
                return DOP_FAIL_IN(gi->diag, DOP_E_INPUT, gi->path, "%s is not one true or false per layer", full);
        return DOP_OK;
    }
    DOP_RETURN_IF_ERROR(dop_gi_size(gi, DOP_GGUF(window_period), 0, period ? period : 1, &period));
    for (uint32_t i = 0; i < n; i++)
        gi->slides[i] = (gi->family->gguf_full_first ? i : i + 1) % period != 0;
    return DOP_OK;
}

/* Reads the window and the layers that have it. */
static dop_status
read_gguf_windows(dop_gi *gi, uint32_t *out_window)
{
    const dop_family *f = gi->family;
    char full[96];
    const dop_gguf_kv *kv = dop_gi_find(gi, DOP_GGUF(window)->key, full, sizeof full);
    if (f->window_rule == DOP_WINDOW_CHUNKS)
        /* for families with chunks the key is not a window */
        return DOP_OK;
    const bool pattern = f->window_rule == DOP_WINDOW_PATTERN || f->window_rule == DOP_WINDOW_GLOBAL;
    uint64_t stated = 0;
    const bool none = dop_gguf_u64(kv, 0, &stated) && stated == 0;
    if (kv && !none && f->window_rule == DOP_WINDOW_NONE && !f->gguf_windows)
        return DOP_FAIL_IN(gi->diag, DOP_E_INPUT, gi->path, "%s is %llu, which %s models do not have", full,
                           (unsigned long long)stated, f->name);
    if (pattern)
        DOP_RETURN_IF_ERROR(read_gguf_pattern(gi));
    for (uint32_t i = 0; !pattern && i < gi->model->arch.n_layers; i++)
        gi->slides[i] = f->window_rule == DOP_WINDOW_ALL || f->gguf_windows;
    /* Some families whose full layers have no RoPE or come first also have sizes without windows: there the file
     * decides. */
    const bool always = pattern && !(f->flags & DOP_FAM_NOPE_FULL) && !f->gguf_full_first;
    if (!none && (kv || always))
        DOP_RETURN_IF_ERROR(dop_gi_size(gi, DOP_GGUF(window), 0, f->window, out_window));
    return DOP_OK;
}

/* ---- layers ------------------------------------------------------------------------------------------------------- */

/* Reads head_dim, which may differ for layers with a window. */
static dop_status
read_head_dim(dop_gi *gi, uint32_t i, dop_attention *t)
{
    const dop_arch *a = &gi->model->arch;
    const bool own_keys = gi->slides[i] && gi->family->flags & DOP_FAM_HEADS_BY_TYPE;
    uint32_t value_dim = 0, dim = 0;
    char full[96];
    if (!dop_gi_find(gi, DOP_GGUF(head_dim)->key, full, sizeof full) && a->hidden % t->n_heads != 0)
        return DOP_FAIL_IN(gi->diag, DOP_E_INPUT, gi->path,
                           "%s.embedding_length %u is not divisible by %s.attention.head_count %u", gi->name, a->hidden,
                           gi->name, t->n_heads);
    dim = a->hidden >= t->n_heads ? a->hidden / t->n_heads : 1;
    DOP_RETURN_IF_ERROR(dop_gi_size(gi, DOP_GGUF(head_dim), i, dim, &dim));
    if (own_keys)
        DOP_RETURN_IF_ERROR(dop_gi_size(gi, DOP_GGUF(head_dim_sliding), i, dim, &dim));
    DOP_RETURN_IF_ERROR(
        dop_gi_size(gi, own_keys ? DOP_GGUF(value_dim_sliding) : DOP_GGUF(value_dim), i, dim, &value_dim));
    t->head_dim = dim;
    if (gi->family->flags & DOP_FAM_SWA_HEADS)
        t->value_dim = value_dim;
    else if (value_dim != dim)
        return DOP_FAIL_IN(gi->diag, DOP_E_INPUT, gi->path, "heads of %u for keys and %u for values are not supported",
                           dim, value_dim);
    return DOP_OK;
}

/* Reads the factor on q.k. */
static dop_status
read_scale(dop_gi *gi, dop_attention *t)
{
    const dop_family *f = gi->family;
    const dop_arch *a = &gi->model->arch;
    const bool wide = f->gguf_wide_layers && a->n_layers == f->gguf_wide_layers;
    const double own =
        f->attn_scale > 0 ? f->attn_scale : 1 / sqrt(wide ? (double)a->hidden / t->n_heads : t->head_dim);
    DOP_RETURN_IF_ERROR(dop_gi_number(gi, DOP_GGUF(score_scale), own, &t->scale));
    if (t->scale == 0.0)
        /* not stated */
        t->scale = own;
    return DOP_OK;
}

static dop_status
read_gguf_attention(dop_gi *gi, uint32_t i, uint32_t window, dop_attention *t)
{
    t->rope = gi->model->arch.learned_positions || t->alibi ? -1 : 0;
    t->window = gi->slides[i] ? window : 0;
    if (t->both && t->window) /* half of it on each side */
        t->window = t->window / 2 + 1;
    if (gi->family->qk_norm.key && !gguf_has_tensor(gi, "blk.0.attn_q_norm.weight"))
        t->q_norm = t->k_norm = (dop_norm){0};
    dop_status st = dop_gi_size(gi, DOP_GGUF(heads), i, 0, &t->n_heads);
    if (st == DOP_OK)
        st = dop_gi_size(gi, DOP_GGUF(kv_heads), i, t->n_heads, &t->n_kv_heads);
    if (st == DOP_OK && (gi->family->flags & DOP_FAM_LATENT))
        return dop_gi_latent(gi, i, t);
    if (st == DOP_OK)
        st = read_head_dim(gi, i, t);
    if (gi->family->flags & DOP_FAM_SWA_HEADS)
        t->sinks = gguf_layer_has_tensor(gi, i, "attn_sinks.weight");
    if (t->gate_heads) { /* the gate has a value per head, or per value of a head */
        char name[64];
        snprintf(name, sizeof name, "blk.%u.attn_gate.weight", i);
        const dop_gguf_tensor *gate = dop_gi_tensor(gi, name, NULL);
        t->gate_heads = !gate || gate->dims[1] == t->n_heads;
    }
    return st == DOP_OK ? read_scale(gi, t) : st;
}

/* Nemotron-H: makes a layer either a mixer or a feed-forward part, with that part's norm. */
static void
settle_block(const dop_gi *gi, uint32_t i, dop_layer *y)
{
    const bool mixes = dop_gi_recurs(gi, i) || dop_gi_attends(gi, i);
    if (mixes) {
        y->ffn.kind = DOP_FFN_NONE;
        y->ffn_norm = (dop_norm){0};
    } else {
        y->n_mixers = 0;
        y->mixers[0] = (dop_mixer){.scale = 1};
        y->attn_norm = (dop_norm){0};
    }
}

static dop_status
read_layer(dop_gi *gi, uint32_t i, uint32_t window)
{
    dop_layer *y = &gi->model->arch.layers[i];
    dop_status st = DOP_OK;
    *y = gi->layer;
    if (gi->family->flags & DOP_FAM_LATENT)
        y->mixers[0].kind = DOP_MIXER_LATENT;
    if (gi->family->recurrent && gi->family->recurrent->blocks)
        settle_block(gi, i, y);
    if (dop_gi_attends(gi, i))
        st = read_gguf_attention(gi, i, window, &y->mixers[0].attn);
    if (st == DOP_OK && dop_gi_recurs(gi, i))
        st = dop_gi_recurrent(gi, i, gi->model->arch.final_norm.eps);
    char full[96];
    const bool needed = !gi->family->experts || !gguf_layer_has_tensor(gi, i, "ffn_gate_inp.weight") ||
                        dop_gi_find(gi, DOP_GGUF(ffn_width)->key, full, sizeof full);
    if (st == DOP_OK && y->ffn.kind == DOP_FFN_DENSE && needed)
        st = dop_gi_size(gi, DOP_GGUF(ffn_width), i, 0, &y->ffn.width);
    if (gi->family->flags & DOP_FAM_HALF_FFN)
        y->ffn.width = (y->ffn.width + 1) / 2;
    return st;
}

static dop_status
read_gguf_layers(dop_gi *gi)
{
    dop_arch *a = &gi->model->arch;
    uint32_t window = 0;
    /* + 1: a drafting layer */
    a->layers = dop_arena_alloc(gi->model->arena, (a->n_layers + (size_t)1) * sizeof *a->layers);
    gi->slides = dop_arena_alloc(gi->model->arena, a->n_layers * sizeof *gi->slides);
    if (!a->layers || !gi->slides)
        return DOP_NO_MEMORY(gi->diag);
    DOP_RETURN_IF_ERROR(read_gguf_windows(gi, &window));
    for (uint32_t i = 0; i < a->n_layers; i++)
        DOP_RETURN_IF_ERROR(read_layer(gi, i, window));
    return DOP_OK;
}

/* Clears the RoPE of layers without it: all layers, every fourth, or, in models with windows, those without a window. */
static void
leave_positions_out(dop_gi *gi, bool rotates)
{
    enum { FOURTH = 4 }; /* default of llama.cpp for smollm3; not stated in files */
    dop_arch *a = &gi->model->arch;
    bool some = false;
    for (uint32_t i = 0; i < a->n_layers; i++)
        some = some || a->layers[i].mixers[0].attn.window; /* all zero in a layer without attention */
    for (uint32_t i = 0; i < a->n_layers; i++) {
        dop_attention *t = &a->layers[i].mixers[0].attn;
        if (!rotates || (gi->family->flags & DOP_FAM_NOPE && (i + 1) % FOURTH == 0) ||
            (gi->family->flags & DOP_FAM_NOPE_FULL && some && !t->window))
            t->rope = -1;
    }
}

/* ---- facts of all layers ------------------------------------------------------------------------------------------ */

/* Detects biases: attention's by the first attention layer, feed-forward biases by the first layer. In a layer that differs, a
 * weight is then reported as missing or unused. */
static void
find_biases(dop_gi *gi)
{
    dop_attention *t = &gi->layer.mixers[0].attn;
    uint32_t i = 0;
    while (i + 1 < gi->model->arch.n_layers && !dop_gi_attends(gi, i))
        i++;
    const bool fused = gguf_layer_has_tensor(gi, i, "attn_qkv.bias");
    t->bias_q = fused || gguf_layer_has_tensor(gi, i, "attn_q.bias");
    t->bias_k = fused || gguf_layer_has_tensor(gi, i, "attn_k.bias");
    t->bias_v = fused || gguf_layer_has_tensor(gi, i, "attn_v.bias");
    t->bias_o = gguf_layer_has_tensor(gi, i, "attn_output.bias");
    for (i = 0; i + 1 < gi->model->arch.n_layers && !gguf_layer_has_tensor(gi, i, "ffn_down.weight");)
        i++;
    gi->layer.ffn.bias = gguf_layer_has_tensor(gi, i, "ffn_down.bias");
    gi->model->arch.head_bias = gguf_has_tensor(gi, "output.bias");
}

/* Reads whether layers are parallel. In families with a possibly shared norm, a missing second norm means parallel; other
 * families have a key. */
static dop_status
read_gguf_parallel(dop_gi *gi)
{
    const dop_family *f = gi->family;
    dop_layer *y = &gi->layer;
    if (f->flags & DOP_FAM_MULTI_QUERY) { /* Falcon: attention's norm is the additional one */
        y->parallel = !gguf_has_tensor(gi, "blk.0.ffn_norm.weight");
        if (y->parallel && !gguf_has_tensor(gi, "blk.0.attn_norm_2.weight"))
            y->ffn_norm = (dop_norm){0};
    } else if (f->flags & DOP_FAM_ONE_NORM) {
        y->parallel = !gguf_has_tensor(gi, "blk.0.ffn_norm.weight");
        if (y->parallel)
            y->ffn_norm = (dop_norm){0};
    } else if (f->parallel.key) {
        return dop_gi_flag(gi, DOP_GGUF(parallel), y->parallel, &y->parallel);
    }
    return DOP_OK;
}

static dop_status
read_gguf_multipliers(dop_gi *gi)
{
    const uint64_t has = gi->family->flags;
    dop_arch *a = &gi->model->arch;
    const bool mup = has & DOP_FAM_MUP; /* llama.cpp has MiniCPM 3's factors built in; files do not state them */
    double logits = mup ? a->hidden / 256.0 : 1;
    if (has & (DOP_FAM_MULTIPLIERS | DOP_FAM_LOGIT_SCALE | DOP_FAM_LOGIT_TIMES | DOP_FAM_MUP))
        DOP_RETURN_IF_ERROR(dop_gi_number(gi, DOP_GGUF(logit_scale), logits, &logits));
    a->logit_scale = has & (DOP_FAM_MULTIPLIERS | DOP_FAM_MUP) ? 1 / logits : logits;
    if (!(has & (DOP_FAM_MULTIPLIERS | DOP_FAM_MUP)))
        return DOP_OK;
    DOP_RETURN_IF_ERROR(dop_gi_number(gi, DOP_GGUF(embed_scale), mup ? 12 : 1, &a->embed_scale));
    return dop_gi_number(gi, DOP_GGUF(residual_scale), mup ? 1.4 / sqrt(a->n_layers) : 1, &gi->layer.residual_scale);
}

static dop_status
read_gguf_scalars(dop_gi *gi)
{
    const dop_family *f = gi->family;
    dop_arch *a = &gi->model->arch;
    const bool ln = f->flags & DOP_FAM_LAYER_NORM,
               gemma2 = f->flags & DOP_FAM_SOFTCAPS && !(f->flags & DOP_FAM_QK_NORM);
    dop_attention *t = &gi->layer.mixers[0].attn;
    double eps = 0, alibi = 8;
    dop_status st = dop_gi_number(gi, ln ? DOP_GGUF(layer_eps) : DOP_GGUF(rms_eps), -1, &eps);
    if (st == DOP_OK && eps < 0 && ln) /* Phi-3.5-MoE */
        st = dop_gi_number(gi, DOP_GGUF(rms_eps), -1, &eps);
    if (st == DOP_OK && eps < 0)
        st = DOP_FAIL_IN(gi->diag, DOP_E_INPUT, gi->path, "%s.attention.layer_norm_%sepsilon is missing", gi->name,
                         ln ? "" : "rms_");
    if (f->flags & DOP_FAM_QK_PLAIN) /* Muse Glimmer: the factor on normalized queries is stored as norm weights */
        t->q_norm.plain = t->k_norm.plain = false;
    dop_set_norms(a, &gi->layer, eps, 0); /* files include the constant 1 that some families add to norm weights */
    if (f->flags & DOP_FAM_QK_PLAIN)      /* default of llama.cpp */
        gi->layer.post_attn_norm.eps = gi->layer.post_ffn_norm.eps = 1e-8;
    dop_act_by_name(f->act, &gi->layer.ffn.act);
    /* llama.cpp computes this factor in f32, and its files rely on that. */
    if (f->flags & DOP_FAM_EMBED_SQRT)
        a->embed_scale = (double)sqrtf((float)a->hidden);
    if (f->embed_sqrt.key)
        a->embed_scale = sqrt(a->hidden);
    if (st == DOP_OK && (f->flags & DOP_FAM_CLIP))
        st = dop_gi_number(gi, DOP_GGUF(clip), 0, &t->clip);
    if (st == DOP_OK && (f->flags & DOP_FAM_ALIBI))
        st = dop_gi_number(gi, DOP_GGUF(alibi), alibi, &alibi);
    t->alibi = f->flags & DOP_FAM_ALIBI ? (uint32_t)alibi : 0;
    if (st == DOP_OK && (f->flags & DOP_FAM_ALIBI) && (double)t->alibi != alibi)
        st = DOP_FAIL_IN(gi->diag, DOP_E_INPUT, gi->path, "%s.attention.max_alibi_bias is %g, expected an integer",
                         gi->name, alibi);
    if (st == DOP_OK && (f->flags & DOP_FAM_ALIBI) && !t->alibi)
        st = DOP_FAIL_IN(gi->diag, DOP_E_INPUT, gi->path,
                         "%s.attention.max_alibi_bias is 0: other positions than those of ALiBi are not supported",
                         gi->name);
    if (st == DOP_OK)
        st = read_gguf_multipliers(gi);
    if (st == DOP_OK)
        st = read_gguf_parallel(gi);
    if (st == DOP_OK && (f->flags & DOP_FAM_SOFTCAPS))
        st = dop_gi_number(gi, DOP_GGUF(softcap), gemma2 ? 50 : 0, &t->softcap);
    if (st == DOP_OK && (f->flags & DOP_FAM_SOFTCAPS))
        st = dop_gi_number(gi, DOP_GGUF(logit_softcap), gemma2 ? 30 : 0, &a->logit_softcap);
    return st;
}

/* True for families whose config.json states whether attention has RoPE. GGUF files do not state it. */
static bool
states_no_rotation(const dop_family *f)
{
    return f->recurrent && f->recurrent->positions && !(f->flags & DOP_FAM_MULTIPLIERS);
}

/* MiMo-V2: reads attention.value_scale, a factor on attention's result. */
static dop_status
read_value_scale(dop_gi *gi)
{
    double scale = 1;
    dop_status st = dop_gi_number(gi, DOP_GGUF(value_scale), 1, &scale);
    for (uint32_t i = 0; i < gi->model->arch.n_layers; i++)
        gi->model->arch.layers[i].mixers[0].scale = scale;
    return st;
}

dop_status
dop_gi_config(dop_gi *gi)
{
    dop_arch *a = &gi->model->arch;
    dop_arch_defaults(a, &gi->layer);
    dop_family_facts(gi->family, a, &gi->layer);
    snprintf(a->family, sizeof a->family, "%s", gi->family->name);
    if (!gi->family->keys->ffn) { /* layers have only a mixer */
        gi->layer.ffn.kind = DOP_FFN_NONE;
        gi->layer.ffn_norm = (dop_norm){0};
    }
    dop_status st = read_gguf_sizes(gi);
    if (st == DOP_OK)
        st = refuse_gguf_keys(gi);
    if (st == DOP_OK)
        find_biases(gi);
    if (st == DOP_OK)
        st = read_gguf_scalars(gi);
    if (st == DOP_OK)
        st = dop_gi_encoder(gi);
    if (st == DOP_OK)
        st = read_gguf_layers(gi);
    if (st == DOP_OK && gi->family->window_rule == DOP_WINDOW_GLOBAL &&
        !gguf_layer_has_tensor(gi, 0, "attn_norm.weight"))
        a->layers[0].attn_norm = (dop_norm){0}; /* ModernBERT: the embedding was already normalized */
    if (st == DOP_OK)
        st = dop_gi_experts(gi);
    if (st == DOP_OK && (gi->family->flags & DOP_FAM_LAYER_INPUTS))
        st = dop_gi_layer_inputs(gi);
    if (st == DOP_OK && (gi->family->flags & DOP_FAM_ALTUP))
        st = dop_gi_altup(gi);
    if (st == DOP_OK && (gi->family->flags & DOP_FAM_SWA_HEADS))
        st = read_value_scale(gi);
    bool rotates = !a->learned_positions && gi->family->keys->heads &&
                   !(gi->family->flags & (DOP_FAM_ALIBI | DOP_FAM_T5)) && !states_no_rotation(gi->family);
    if (st == DOP_OK && rotates)
        st = dop_gi_rotates(gi, &rotates);
    if (st == DOP_OK && rotates)
        st = dop_gi_ropes(gi);
    if (st == DOP_OK && (gi->family->flags & DOP_FAM_LATENT))
        st = dop_gi_latent_rope(gi);
    if (st == DOP_OK && (gi->family->flags & DOP_FAM_INDEX))
        st = dop_gi_index(gi);
    if (st == DOP_OK)
        leave_positions_out(gi, rotates);
    if (st == DOP_OK && gi->family->window_rule == DOP_WINDOW_CHUNKS)
        st = dop_gi_chunks(gi);
    if (st == DOP_OK && gi->draft && gguf_layer_has_tensor(gi, a->n_layers, "nextn.eh_proj.weight"))
        a->drafts = dop_arch_draft_layer(a);
    a->drafts_normed = a->drafts && gi->family->recurrent;
    if (st == DOP_OK && gi->family->flags & DOP_FAM_EAGLE)
        return dop_gi_eagle(gi);
    if (st == DOP_OK && gi->family->flags & DOP_FAM_READER)
        return dop_gi_reader(gi);
    return st == DOP_OK ? dop_gi_text(gi) : st;
}
