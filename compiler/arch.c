#include "compiler/arch.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static dop_status
check_u32(const char *what, uint32_t v, uint32_t max, const char *path, dop_diag *diag)
{
    if (v < 1 || v > max)
        return DOP_FAIL_IN(diag, DOP_E_INPUT, path, "%s is %u, expected 1 to %u", what, v, max);
    return DOP_OK;
}

static dop_status
check_f64(const char *what, double v, double min, double max, const char *path, dop_diag *diag)
{
    if (!(v >= min && v <= max))
        return DOP_FAIL_IN(diag, DOP_E_INPUT, path, "%s is %g, expected %g to %g", what, v, min, max);
    return DOP_OK;
}

static dop_status
check_rope(const dop_rope *r, uint32_t i, const char *path, dop_diag *diag)
{
    if (r->dims == 0 || r->dims % 2 != 0 || r->dims > DOP_MAX_HEAD_DIM)
        return DOP_FAIL_IN(diag, DOP_E_INPUT, path,
                           "rotary embedding %u turns %u values of a head, expected an even "
                           "number",
                           i, r->dims);
    if (r->rotated > r->dims || r->rotated % 2 != 0)
        return DOP_FAIL_IN(diag, DOP_E_INPUT, path, "rotary embedding %u turns %u of %u values, expected an even part",
                           i, r->rotated, r->dims);
    if (r->n_factors && (r->n_factors != r->dims / 2 || !r->short_factors))
        return DOP_FAIL_IN(diag, DOP_E_INPUT, path, "rotary embedding %u has %u frequency factors for %u frequencies",
                           i, r->n_factors, r->dims / 2);
    if (r->scaling == DOP_ROPE_LONGROPE && (!r->n_factors || !r->long_factors || r->original_ctx == 0))
        return DOP_FAIL_IN(diag, DOP_E_INPUT, path,
                           "rotary embedding %u: longrope lacks its factors or its original "
                           "context",
                           i);
    if ((r->scaling == DOP_ROPE_LLAMA3 || r->scaling == DOP_ROPE_YARN) && r->original_ctx == 0)
        return DOP_FAIL_IN(diag, DOP_E_INPUT, path, "rotary embedding %u lacks its original context", i);
    dop_status st = check_f64("the rotary base", r->theta, 1e-6, 1e15, path, diag);
    if (st == DOP_OK && r->scaling != DOP_ROPE_PLAIN)
        st = check_f64("the rotary scaling factor", r->factor, 1e-6, 1e6, path, diag);
    return st;
}

static dop_status
check_layer(const dop_arch *a, uint32_t i, const char *path, dop_diag *diag)
{
    const dop_layer *l = &a->layers[i];
    dop_status st = check_u32("the number of attention heads", l->n_heads, DOP_MAX_HEADS, path, diag);
    if (st == DOP_OK)
        st = check_u32("the number of key/value heads", l->n_kv_heads, DOP_MAX_HEADS, path, diag);
    if (st == DOP_OK)
        st = check_u32("the head dimension", l->head_dim, DOP_MAX_HEAD_DIM, path, diag);
    if (st == DOP_OK)
        st = check_u32("the width of all heads", l->n_heads * l->head_dim, DOP_MAX_WIDTH, path, diag);
    if (st == DOP_OK)
        st = check_u32("the feed-forward width", l->ffn, DOP_MAX_WIDTH, path, diag);
    if (st != DOP_OK)
        return st;
    if (l->n_heads % l->n_kv_heads != 0)
        return DOP_FAIL_IN(diag, DOP_E_INPUT, path,
                           "layer %u: %u attention heads are not a multiple of %u key/value heads", i, l->n_heads,
                           l->n_kv_heads);
    if (l->rope < -1 || l->rope >= (int32_t)a->n_ropes)
        return DOP_FAIL_IN(diag, DOP_E_INPUT, path, "layer %u uses rotary embedding %d of %u", i, l->rope, a->n_ropes);
    if (l->rope >= 0 && a->ropes[l->rope].dims > l->head_dim)
        return DOP_FAIL_IN(diag, DOP_E_INPUT, path, "layer %u: rotary embedding of %u values on heads of %u", i,
                           a->ropes[l->rope].dims, l->head_dim);
    return DOP_OK;
}

dop_status
dop_arch_check(const dop_arch *a, const char *path, dop_diag *diag)
{
    dop_status st = check_u32("the number of layers", a->n_layers, DOP_MAX_LAYERS, path, diag);
    if (st == DOP_OK)
        st = check_u32("the hidden size", a->hidden, DOP_MAX_WIDTH, path, diag);
    if (st == DOP_OK)
        st = check_u32("the vocabulary size", a->vocab, DOP_MAX_VOCAB, path, diag);
    if (st == DOP_OK)
        st = check_u32("the context length", a->ctx_train, DOP_MAX_CTX, path, diag);
    if (st == DOP_OK)
        st = check_f64("the norm epsilon", a->norm_eps, 0, 1, path, diag);
    if (st == DOP_OK)
        st = check_f64("the attention scale", a->attn_scale, 1e-6, 1e6, path, diag);
    if (st == DOP_OK)
        st = check_f64("the attention soft cap", a->attn_softcap, 0, 1e6, path, diag);
    if (st == DOP_OK)
        st = check_f64("the logit soft cap", a->logit_softcap, 0, 1e6, path, diag);
    if (st == DOP_OK)
        st = check_f64("the embedding multiplier", a->embed_scale, 1e-6, 1e6, path, diag);
    if (st == DOP_OK)
        st = check_f64("the residual multiplier", a->residual_scale, 1e-6, 1e6, path, diag);
    if (st == DOP_OK)
        st = check_f64("the logit multiplier", a->logit_scale, 1e-6, 1e6, path, diag);
    if (st != DOP_OK)
        return st;
    if (a->n_ropes > DOP_MAX_ROPES || a->n_end_ids > DOP_MAX_END_IDS || !a->layers)
        return DOP_FAIL_IN(diag, DOP_E_INTERNAL, path, "importer left broken facts");
    for (uint32_t i = 0; st == DOP_OK && i < a->n_ropes; i++)
        st = check_rope(&a->ropes[i], i, path, diag);
    for (uint32_t i = 0; st == DOP_OK && i < a->n_layers; i++)
        st = check_layer(a, i, path, diag);
    return st;
}

/* ---- the weights that facts call for ------------------------------------------------------------------------------ */

typedef struct lister {
    dop_weight_need_fn *fn;
    void *user;
    int32_t layer;
    dop_status status; /* the first failure; nothing is called after it */
} lister;

static void
need(lister *l, bool wanted, const char *role, uint32_t rank, uint32_t rows, uint32_t cols)
{
    if (!wanted || l->status != DOP_OK)
        return;
    char name[64];
    if (l->layer < 0)
        snprintf(name, sizeof name, "%s", role);
    else
        snprintf(name, sizeof name, "L%d.%s", (int)l->layer, role);
    dop_weight_need n = {.name = name, .role = role, .layer = l->layer, .rank = rank, .rows = rows, .cols = cols};
    l->status = l->fn(l->user, &n);
}

static void
need_vector(lister *l, bool wanted, const char *role, uint32_t n)
{
    need(l, wanted, role, 1, 1, n);
}

static void
need_matrix(lister *l, bool wanted, const char *role, uint32_t rows, uint32_t cols)
{
    need(l, wanted, role, 2, rows, cols);
}

static void
layer_needs(lister *l, const dop_arch *a, const dop_layer *y)
{
    const bool ln = a->norm == DOP_NORM_LAYER;
    const uint32_t h = a->hidden, q = y->n_heads * y->head_dim, kv = y->n_kv_heads * y->head_dim;
    const bool head = a->qk_norm == DOP_QK_NORM_HEAD, normed = a->qk_norm != DOP_QK_NORM_NONE;
    need_vector(l, a->norm_pre_attn, "attn_norm", h);
    need_vector(l, a->norm_pre_attn && ln, "attn_norm_bias", h);
    need_matrix(l, true, "q", q, h);
    need_vector(l, a->bias_q, "q_bias", q);
    need_matrix(l, true, "k", kv, h);
    need_vector(l, a->bias_k, "k_bias", kv);
    need_matrix(l, true, "v", kv, h);
    need_vector(l, a->bias_v, "v_bias", kv);
    need_vector(l, normed, "q_norm", head ? y->head_dim : q);
    need_vector(l, normed, "k_norm", head ? y->head_dim : kv);
    need_vector(l, a->sinks, "sinks", y->n_heads);
    need_matrix(l, true, "o", h, q);
    need_vector(l, a->bias_o, "o_bias", h);
    need_vector(l, a->norm_post_attn, "post_attn_norm", h);
    need_vector(l, a->norm_pre_ffn, "ffn_norm", h);
    need_vector(l, a->norm_pre_ffn && ln, "ffn_norm_bias", h);
    need_matrix(l, a->gated, "gate", y->ffn, h);
    need_vector(l, a->gated && a->bias_ffn, "gate_bias", y->ffn);
    need_matrix(l, true, "up", y->ffn, h);
    need_vector(l, a->bias_ffn, "up_bias", y->ffn);
    need_matrix(l, true, "down", h, y->ffn);
    need_vector(l, a->bias_ffn, "down_bias", h);
    need_vector(l, a->norm_post_ffn, "post_ffn_norm", h);
}

dop_status
dop_arch_each_weight(const dop_arch *a, dop_weight_need_fn *fn, void *user)
{
    lister l = {.fn = fn, .user = user, .layer = -1};
    need_matrix(&l, true, "embed", a->vocab, a->hidden);
    need_matrix(&l, a->learned_positions, "pos_embed", a->ctx_train, a->hidden);
    for (uint32_t i = 0; i < a->n_layers && l.status == DOP_OK; i++) {
        l.layer = (int32_t)i;
        layer_needs(&l, a, &a->layers[i]);
    }
    l.layer = -1;
    need_vector(&l, true, "final_norm", a->hidden);
    need_vector(&l, a->norm == DOP_NORM_LAYER, "final_norm_bias", a->hidden);
    need_matrix(&l, !a->tied, "lm_head", a->vocab, a->hidden);
    return l.status;
}
