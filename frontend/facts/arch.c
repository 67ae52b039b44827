#include "frontend/facts/arch.h"

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
check_arch_rope(const dop_rope *r, uint32_t i, const char *path, dop_diag *diag)
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
    DOP_RETURN_IF_ERROR(check_f64("the rotary base", r->theta, 1e-6, 1e15, path, diag));
    if (r->scaling != DOP_ROPE_PLAIN)
        DOP_RETURN_IF_ERROR(check_f64("the rotary scaling factor", r->factor, 1e-6, 1e6, path, diag));
    return DOP_OK;
}

static dop_status
check_norm(const char *what, const dop_norm *n, const char *path, dop_diag *diag)
{
    if (n->kind == DOP_NORM_NONE)
        return DOP_OK;
    return check_f64(what, n->eps, 0, 1, path, diag);
}

/* Checks a layer that uses another layer's keys and values: that layer must have a cache of its own, of the required shape. For a
 * drafter without its model the other layer is not known yet. */
static dop_status
check_shared(const dop_arch *a, uint32_t i, const dop_attention *t, const char *path, dop_diag *diag)
{
    const dop_attention *from = t->shares <= i ? dop_layer_attention(&a->layers[t->shares - 1]) : NULL;
    if (!from || from->shares || from->latent.rank || t->latent.rank)
        return DOP_FAIL_IN(diag, DOP_E_INPUT, path, "layer %u shares keys and values of layer %u, which has none", i,
                           t->shares - 1);
    if (from->n_kv_heads != t->n_kv_heads || from->head_dim != t->head_dim || dop_value_dim(from) != dop_value_dim(t) ||
        from->window != t->window || from->chunk != t->chunk)
        return DOP_FAIL_IN(
            diag, DOP_E_INPUT, path,
            "layer %u shares keys and values of layer %u, which has %u heads of %u values in a window of "
            "%u instead of %u of %u in %u",
            i, t->shares - 1, from->n_kv_heads, from->head_dim, from->window, t->n_kv_heads, t->head_dim, t->window);
    return DOP_OK;
}

static dop_status
check_layer_inputs(const dop_arch *a, const char *path, dop_diag *diag)
{
    const dop_layer_inputs *p = &a->inputs;
    if (p->width == 0)
        return DOP_OK;
    DOP_RETURN_IF_ERROR(
        check_u32("the width of a layer's own input", p->width, DOP_MAX_WIDTH / DOP_MAX_LAYERS, path, diag));
    DOP_RETURN_IF_ERROR(check_u32("the vocabulary of the layers' own inputs", p->vocab, DOP_MAX_VOCAB, path, diag));
    if (p->vocab < a->vocab && !a->altup.n)
        /* Gemma 3n has no per-layer inputs for image and sound tokens */
        return DOP_FAIL_IN(diag, DOP_E_INPUT, path, "the layers' own inputs know %u of %u tokens", p->vocab, a->vocab);
    return check_norm("the epsilon of the norm of the layers' own inputs", &p->norm, path, diag);
}

/* Checks the index of sparse attention, which selects positions for latent attention. */
static dop_status
check_index(const dop_arch *a, uint32_t i, const dop_attention *t, const char *path, dop_diag *diag)
{
    const dop_indexer *x = &t->index;
    bool earlier = false;
    for (uint32_t k = 0; k < i; k++) {
        const dop_attention *other = dop_layer_attention(&a->layers[k]);
        earlier = earlier || (other && other->index.n_heads);
    }
    if (!t->latent.rank || !t->latent.q_rank || t->window || t->chunk || t->both)
        return DOP_FAIL_IN(diag, DOP_E_INPUT, path,
                           "layer %u: an index of positions is only supported for latent attention of all positions",
                           i);
    if (x->n_heads == 0)
        return earlier ? DOP_OK
                       : DOP_FAIL_IN(diag, DOP_E_INPUT, path,
                                     "layer %u: no earlier layer has an index whose positions it could take", i);
    DOP_RETURN_IF_ERROR(check_u32("the number of heads of the index", x->n_heads, DOP_MAX_HEADS, path, diag));
    DOP_RETURN_IF_ERROR(check_u32("the values of a head of the index", x->head_dim, DOP_MAX_HEAD_DIM, path, diag));
    DOP_RETURN_IF_ERROR(check_u32("the width of the index", x->n_heads * x->head_dim, DOP_MAX_WIDTH, path, diag));
    if (x->head_dim % 4 || (t->rope >= 0 && a->ropes[t->rope].dims > x->head_dim))
        return DOP_FAIL_IN(diag, DOP_E_INPUT, path,
                           "layer %u: heads of %u values of an index, no multiple of 4 of at least the rotated ones", i,
                           x->head_dim);
    return DOP_OK;
}

static dop_status
check_attention(const dop_arch *a, uint32_t i, const dop_attention *t, const char *path, dop_diag *diag)
{
    dop_status st = check_u32("the number of attention heads", t->n_heads, DOP_MAX_HEADS, path, diag);
    if (st == DOP_OK)
        st = check_u32("the number of key/value heads", t->n_kv_heads, DOP_MAX_HEADS, path, diag);
    if (st == DOP_OK)
        st = check_u32("the head dimension", t->head_dim, DOP_MAX_HEAD_DIM, path, diag);
    if (st == DOP_OK)
        st = check_u32("the width of all heads", t->n_heads * t->head_dim, DOP_MAX_WIDTH, path, diag);
    if (st == DOP_OK)
        st = check_f64("the attention scale", t->scale, 1e-6, 1e6, path, diag);
    if (st == DOP_OK)
        st = check_f64("the attention soft cap", t->softcap, 0, 1e6, path, diag);
    if (st == DOP_OK)
        st = check_norm("the epsilon of the query norm", &t->q_norm, path, diag);
    if (st == DOP_OK)
        st = check_norm("the epsilon of the key norm", &t->k_norm, path, diag);
    if (st == DOP_OK)
        st = check_norm("the epsilon of the value norm", &t->v_norm, path, diag);
    if (st == DOP_OK)
        st = check_norm("the epsilon of the norm of attention's result", &t->o_norm, path, diag);
    if (st == DOP_OK)
        st = check_u32("the values of a head of v", dop_value_dim(t), DOP_MAX_HEAD_DIM, path, diag);
    if (st == DOP_OK)
        st = check_u32("the width of all heads of v", t->n_heads * dop_value_dim(t), DOP_MAX_WIDTH, path, diag);
    if (st == DOP_OK)
        st = check_f64("the limit of queries, keys and values", t->clip, 0, 1e6, path, diag);
    if (st == DOP_OK && t->latent.rank) {
        st = check_u32("the rank of keys and values", t->latent.rank, DOP_MAX_HEAD_DIM, path, diag);
        if (st == DOP_OK)
            st = check_u32("the values of a head", t->n_heads * t->latent.value_dim, DOP_MAX_WIDTH, path, diag);
    }
    if (st != DOP_OK)
        return st;
    if (t->n_heads % t->n_kv_heads != 0)
        return DOP_FAIL_IN(diag, DOP_E_INPUT, path,
                           "layer %u: %u attention heads are not a multiple of %u key/value heads", i, t->n_heads,
                           t->n_kv_heads);
    if (t->rope < -1 || t->rope >= (int32_t)a->n_ropes)
        return DOP_FAIL_IN(diag, DOP_E_INPUT, path, "layer %u uses rotary embedding %d of %u", i, t->rope, a->n_ropes);
    if (t->latent.rank && (t->latent.plain + t->latent.rotated != t->head_dim || t->n_kv_heads != 1))
        return DOP_FAIL_IN(diag, DOP_E_INPUT, path,
                           "layer %u: heads of %u values are not the %u plain and %u rotated ones", i, t->head_dim,
                           t->latent.plain, t->latent.rotated);
    if (t->index.top && (st = check_index(a, i, t, path, diag)) != DOP_OK)
        return st;
    if (t->differential && (t->n_kv_heads % 2 || t->gate || t->bias_v))
        return DOP_FAIL_IN(
            diag, DOP_E_INPUT, path,
            "layer %u: differential attention with an odd number of key/value heads, a gate or a bias of "
            "values is not supported",
            i);
    if (t->tempered && !(a->temper.floor > 0))
        return DOP_FAIL_IN(diag, DOP_E_INPUT, path, "layer %u: the temperature of its queries is not stated", i);
    if (t->shares && !dop_arch_is_drafter(a) && (st = check_shared(a, i, t, path, diag)) != DOP_OK)
        return st;
    if (t->rope >= 0 && a->ropes[t->rope].dims > (t->latent.rank ? t->latent.rotated : t->head_dim))
        return DOP_FAIL_IN(diag, DOP_E_INPUT, path, "layer %u: rotary embedding of %u values on heads of %u", i,
                           a->ropes[t->rope].dims, t->head_dim);
    return DOP_OK;
}

static dop_status
check_recurrent(const dop_arch *a, uint32_t i, const dop_mixer *m, const char *path, dop_diag *diag)
{
    const dop_recurrent *s = &m->rec;
    const double scales[] = {s->in_scale,  s->gate_scale,  s->dt_scale,  s->value_scale,
                             s->key_scale, s->query_scale, s->beta_scale};
    if (s->taps < 2 || s->taps > DOP_MAX_TAPS)
        return DOP_FAIL_IN(diag, DOP_E_INPUT, path, "the convolution's kernel size is %u, expected 2 to %u", s->taps,
                           DOP_MAX_TAPS);
    if (m->kind == DOP_MIXER_CONV)
        return DOP_OK;
    DOP_RETURN_IF_ERROR(check_u32("the number of value heads", s->n_heads,
                                  s->selective ? DOP_MAX_CHANNELS : DOP_MAX_HEADS, path, diag));
    DOP_RETURN_IF_ERROR(check_u32("the values of a head", s->head_dim, DOP_MAX_HEAD_DIM, path, diag));
    DOP_RETURN_IF_ERROR(check_u32("the number of key heads", s->n_groups, DOP_MAX_HEADS, path, diag));
    DOP_RETURN_IF_ERROR(check_u32("the state size", s->state_dim, DOP_MAX_HEAD_DIM, path, diag));
    DOP_RETURN_IF_ERROR(
        check_u32("the width of all heads", dop_conv_channels(s, a->hidden), DOP_MAX_WIDTH, path, diag));
    for (size_t k = 0; k < sizeof scales / sizeof *scales; k++)
        DOP_RETURN_IF_ERROR(check_f64("a multiplier of a recurrent layer", scales[k], -1e6, 1e6, path, diag));
    DOP_RETURN_IF_ERROR(check_norm("the epsilon of a recurrent layer's norm", &s->norm, path, diag));
    if (s->n_heads % s->n_groups != 0)
        return DOP_FAIL_IN(diag, DOP_E_INPUT, path, "layer %u: %u value heads are not a multiple of %u key heads", i,
                           s->n_heads, s->n_groups);
    return DOP_OK;
}

/* Fails for combinations that the graph builder does not support. */
static dop_status
check_kinds(const dop_layer *y, uint32_t i, const char *path, dop_diag *diag)
{
    uint32_t n[2] = {0};
    for (uint32_t k = 0; k < y->n_mixers && k < DOP_MAX_MIXERS; k++) {
        n[y->mixers[k].kind == DOP_MIXER_ATTENTION || y->mixers[k].kind == DOP_MIXER_LATENT]++;
    }
    if (n[0] + n[1] != y->n_mixers || n[0] > 1 || n[1] > 1 || (y->n_mixers == 0 && y->ffn.kind == DOP_FFN_NONE))
        return DOP_FAIL_IN(diag, DOP_E_INPUT, path, "layer %u has %u mixers side by side, which is not supported", i,
                           y->n_mixers);
    return DOP_OK;
}

static dop_status
check_experts(uint32_t i, const dop_experts *x, const char *path, dop_diag *diag)
{
    dop_status st = check_u32("the number of experts", x->n, DOP_MAX_EXPERTS, path, diag);
    if (st == DOP_OK)
        st = check_u32("the number of active experts", x->active, DOP_MAX_ACTIVE, path, diag);
    if (st == DOP_OK)
        st = check_u32("the width of an expert", x->width, DOP_MAX_WIDTH, path, diag);
    if (st == DOP_OK)
        st = check_u32("the number of groups of experts", x->groups, DOP_MAX_EXPERTS, path, diag);
    if (st == DOP_OK)
        st = check_f64("the multiplier of the experts", x->scale, 1e-6, 1e6, path, diag);
    if (st == DOP_OK)
        st = check_f64("the multiplier of the router's logits", x->router_scale, 0, 1e6, path, diag);
    if (st != DOP_OK)
        return st;
    if (x->scales_input && x->active != 1)
        return DOP_FAIL_IN(diag, DOP_E_INPUT, path,
                           "layer %u: %u active experts with scaled inputs; only 1 is supported", i, x->active);
    if (x->shared_width > DOP_MAX_WIDTH)
        return check_u32("the width of the shared expert", x->shared_width, DOP_MAX_WIDTH, path, diag);
    if (x->active > x->n)
        return DOP_FAIL_IN(diag, DOP_E_INPUT, path, "layer %u: %u active experts of %u", i, x->active, x->n);
    if (x->n % x->groups != 0)
        return DOP_FAIL_IN(diag, DOP_E_INPUT, path, "layer %u: %u experts do not make %u equal groups", i, x->n,
                           x->groups);
    if (x->group_keep < 1 || x->group_keep > x->groups)
        return DOP_FAIL_IN(diag, DOP_E_INPUT, path, "layer %u: the best %u of %u groups of experts", i, x->group_keep,
                           x->groups);
    if (x->group_best < 1 || x->group_best > x->n / x->groups)
        return DOP_FAIL_IN(diag, DOP_E_INPUT, path, "layer %u: the best %u of the %u experts of a group", i,
                           x->group_best, x->n / x->groups);
    if (x->active > x->n / x->groups * x->group_keep)
        return DOP_FAIL_IN(diag, DOP_E_INPUT, path, "layer %u: %u active experts of the %u in the best groups", i,
                           x->active, x->n / x->groups * x->group_keep);
    return DOP_OK;
}

static dop_status
check_layer(const dop_arch *a, uint32_t i, const char *path, dop_diag *diag)
{
    const dop_layer *y = &a->layers[i];
    DOP_RETURN_IF_ERROR(check_kinds(y, i, path, diag));
    for (uint32_t k = 0; k < y->n_mixers; k++) {
        DOP_RETURN_IF_ERROR(check_f64("the multiplier of a mixer", y->mixers[k].scale, -1e6, 1e6, path, diag));
        const bool attends = y->mixers[k].kind == DOP_MIXER_ATTENTION || y->mixers[k].kind == DOP_MIXER_LATENT;
        if (attends)
            DOP_RETURN_IF_ERROR(check_attention(a, i, &y->mixers[k].attn, path, diag));
        else
            DOP_RETURN_IF_ERROR(check_recurrent(a, i, &y->mixers[k], path, diag));
    }
    if (y->side.width)
        DOP_RETURN_IF_ERROR(check_u32("the width of a shared block", y->side.width, DOP_MAX_WIDTH, path, diag));
    if (y->side.rank)
        DOP_RETURN_IF_ERROR(check_u32("the rank of an adapter", y->side.rank, DOP_MAX_WIDTH, path, diag));
    if (dop_ffn_dense(&y->ffn))
        DOP_RETURN_IF_ERROR(check_u32("the feed-forward width", y->ffn.width, DOP_MAX_WIDTH, path, diag));
    if (dop_ffn_experts(&y->ffn))
        DOP_RETURN_IF_ERROR(check_experts(i, &y->ffn.experts, path, diag));
    DOP_RETURN_IF_ERROR(check_f64("the residual multiplier", y->residual_scale, 1e-6, 1e6, path, diag));
    const dop_norm *norms[] = {&y->attn_norm,
                               &y->post_attn_norm,
                               &y->ffn_norm,
                               &y->post_ffn_norm,
                               &y->post_input_norm,
                               &y->ffn.post_dense_norm,
                               &y->ffn.down_norm,
                               &y->laurel_norm,
                               &y->side.norm,
                               &y->side.ffn_norm,
                               &y->ffn.experts.router_norm,
                               &y->ffn.experts.norm,
                               &y->ffn.experts.post_norm};
    for (size_t k = 0; k < sizeof norms / sizeof *norms; k++)
        DOP_RETURN_IF_ERROR(check_norm("the norm epsilon", norms[k], path, diag));
    return DOP_OK;
}

dop_status
dop_arch_check(const dop_arch *a, const char *path, dop_diag *diag)
{
    DOP_RETURN_IF_ERROR(check_u32("the number of layers", dop_arch_all_layers(a), DOP_MAX_LAYERS, path, diag));
    DOP_RETURN_IF_ERROR(check_u32("the hidden size", a->hidden, DOP_MAX_WIDTH, path, diag));
    DOP_RETURN_IF_ERROR(check_u32("the vocabulary size", a->vocab, DOP_MAX_VOCAB, path, diag));
    DOP_RETURN_IF_ERROR(check_u32("the context length", a->ctx_train, DOP_MAX_CTX, path, diag));
    DOP_RETURN_IF_ERROR(check_norm("the norm epsilon", &a->final_norm, path, diag));
    DOP_RETURN_IF_ERROR(check_norm("the epsilon of the embedding's norm", &a->embed_norm, path, diag));
    DOP_RETURN_IF_ERROR(check_f64("the logit soft cap", a->logit_softcap, 0, 1e6, path, diag));
    DOP_RETURN_IF_ERROR(check_f64("the embedding multiplier", a->embed_scale, 1e-6, 1e6, path, diag));
    DOP_RETURN_IF_ERROR(check_f64("the logit multiplier", a->logit_scale, 1e-6, 1e6, path, diag));
    if (a->n_ropes > DOP_MAX_ROPES || a->n_end_ids > DOP_MAX_END_IDS || !a->layers)
        return DOP_FAIL_IN(diag, DOP_E_INTERNAL, path, "importer left broken facts");
    if (a->altup.n && (a->altup.n < 2 || a->altup.n > DOP_MAX_STREAMS || a->altup.active >= a->altup.n))
        return DOP_FAIL_IN(diag, DOP_E_INPUT, path, "%u streams, of which number %u is active, are not supported",
                           a->altup.n, a->altup.active);
    DOP_RETURN_IF_ERROR(check_layer_inputs(a, path, diag));
    for (uint32_t i = 0; i < a->n_ropes; i++)
        DOP_RETURN_IF_ERROR(check_arch_rope(&a->ropes[i], i, path, diag));
    for (uint32_t i = 0; i < dop_arch_all_layers(a); i++)
        DOP_RETURN_IF_ERROR(check_layer(a, i, path, diag));
    return DOP_OK;
}

/* ---- the weights that facts call for ------------------------------------------------------------------------------ */

enum { MODEL, LAYER };

static const struct {
    const char *name;
    int scope;
} roles[DOP_N_ROLES] = {
#define MATRIX(scope, role, ...) [DOP_W_##role] = {#role, scope},
#define EXPERTS(scope, role, ...) [DOP_W_##role] = {#role, scope},
#define BIAS(scope, role, ...) [DOP_W_##role##_bias] = {#role "_bias", scope},
#define EXPERT_BIAS(scope, role, ...) [DOP_W_##role##_bias] = {#role "_bias", scope},
#define VECTOR(scope, role, ...) [DOP_W_##role] = {#role, scope},
#define NORM(scope, role, ...) [DOP_W_##role] = {#role, scope}, [DOP_W_##role##_bias] = {#role "_bias", scope},
#include "frontend/facts/weights.def"
};

const char *
dop_role_name(dop_role role)
{
    return roles[role].name;
}

dop_role
dop_role_bias(dop_role role)
{
    switch (role) {
#define MATRIX(...)
#define EXPERTS(...)
#define BIAS(scope, role, ...) \
    case DOP_W_##role:         \
        return DOP_W_##role##_bias;
#define EXPERT_BIAS BIAS
#define VECTOR(...)
#define NORM(...)
#include "frontend/facts/weights.def"
    default:
        return DOP_W_none;
    }
}

const dop_attention *
dop_layer_attention(const dop_layer *y)
{
    for (uint32_t i = 0; i < y->n_mixers && i < DOP_MAX_MIXERS; i++)
        if (y->mixers[i].kind == DOP_MIXER_ATTENTION || y->mixers[i].kind == DOP_MIXER_LATENT)
            return &y->mixers[i].attn;
    return NULL;
}

const dop_recurrent *
dop_layer_recurrent(const dop_layer *y)
{
    for (uint32_t i = 0; i < y->n_mixers && i < DOP_MAX_MIXERS; i++)
        if (y->mixers[i].kind == DOP_MIXER_CONV || y->mixers[i].kind == DOP_MIXER_DELTA ||
            y->mixers[i].kind == DOP_MIXER_SSM)
            return &y->mixers[i].rec;
    return NULL;
}

dop_norm
dop_arch_norm(const dop_arch *a, int32_t layer, dop_role role)
{
    static const dop_attention no_attention;
    static const dop_recurrent no_state;
    static const dop_layer no_layer;
    const dop_layer *y = layer >= 0 ? &a->layers[layer] : &no_layer;
    const dop_attention *t = dop_layer_attention(y);
    const dop_recurrent *s = dop_layer_recurrent(y);
    t = t ? t : &no_attention;
    s = s ? s : &no_state;
    const dop_ffn *f = &y->ffn;
    const dop_experts *x = &f->experts;
    switch (role) {
#define MATRIX(...)
#define EXPERTS(...)
#define BIAS(...)
#define EXPERT_BIAS(...)
#define VECTOR(...)
#define NORM(scope, role, norm, values) \
    case DOP_W_##role:                  \
        return norm;
#include "frontend/facts/weights.def"
    default:
        return (dop_norm){0};
    }
}

bool
dop_arch_draft_layer(dop_arch *a)
{
    uint32_t i = 0;
    for (uint32_t k = 0; k < a->n_layers; k++) {
        const dop_attention *own = dop_layer_attention(&a->layers[k]);
        const dop_attention *best = i > 0 ? dop_layer_attention(&a->layers[i - 1]) : NULL;
        if (own && (!best || !(own->window || own->chunk) || best->window || best->chunk))
            i = k + 1;
    }
    const dop_attention *t = i > 0 ? dop_layer_attention(&a->layers[i - 1]) : NULL;
    if (!t || t->shares || t->wide || a->inputs.width || a->altup.n || a->encoder.used || a->learned_positions)
        return false;
    dop_layer *y = &a->layers[a->n_layers];
    *y = a->layers[i - 1];
    y->control = y->scaled = false;
    for (uint32_t k = a->n_layers;
         k-- > 0 && y->ffn.kind == DOP_FFN_NONE;) /* a block has one part, but this layer needs both */
        if (a->layers[k].ffn.kind != DOP_FFN_NONE) {
            y->ffn = a->layers[k].ffn;
            y->ffn_norm = a->layers[k].ffn_norm;
        }
    const dop_norm like = y->attn_norm.kind != DOP_NORM_NONE ? y->attn_norm : a->final_norm;
    y->draft_embed_norm = y->draft_hidden_norm = y->draft_norm = like;
    return true;
}

void
dop_arch_make_drafter(dop_arch *a, const dop_eagle *e)
{
    dop_layer *y = &a->layers[0];
    y->eagle = *e;
    y->draft_embed_norm = y->draft_hidden_norm = y->attn_norm;
    y->draft_norm = a->final_norm;
    y->attn_norm = a->final_norm = (dop_norm){0};
    y->mixers[0].attn.wide = true;
    if (e->each_norm.kind != DOP_NORM_NONE)
        y->eagle.each_norm.eps = y->draft_norm.eps;
    if (e->norm.kind != DOP_NORM_NONE)
        y->eagle.norm.eps = y->draft_norm.eps;
    a->n_layers = 0;
    a->drafts = 1;
    a->tied = true; /* no output matrix outside the layer */
}

void
dop_arch_make_reader(dop_arch *a, uint32_t hidden)
{
    for (uint32_t i = 0; i < a->n_layers; i++) {
        dop_layer *y = &a->layers[i];
        dop_attention *t = &y->mixers[0].attn;
        y->reader = (dop_sharer){.hidden = a->hidden, .enters = i == 0, .leaves = i + 1 == a->n_layers};
        y->draft_norm = y->reader.leaves ? a->final_norm : (dop_norm){0};
        t->k_norm = t->v_norm = (dop_norm){0};
        t->k_is_v = false;
        t->shares = 1; /* placeholder; set when the model is known */
    }
    for (uint32_t i = 0; i < a->n_ropes; i++)
        a->ropes[i].first = 1;
    a->final_norm = (dop_norm){0};
    a->drafts = a->n_layers;
    a->n_layers = 0;
    a->hidden = hidden;
    a->tied = true; /* no output matrix outside the layers */
}

const char *
dop_arch_find_read(const dop_arch *a, const dop_attention *t, uint32_t *out_layer)
{
    const dop_attention *from = NULL;
    for (uint32_t i = 0; i < a->n_layers; i++) {
        const dop_attention *own = dop_layer_attention(&a->layers[i]);
        if (own && !own->shares && !own->latent.rank && (own->window > 0) == (t->window > 0)) {
            from = own;
            *out_layer = i;
        }
    }
    return !from                                       ? "no layer with such a window"
           : from->window != t->window                 ? "another window"
           : from->n_kv_heads != t->n_kv_heads         ? "another number of key/value heads"
           : from->head_dim != t->head_dim             ? "heads of another size"
           : dop_value_dim(from) != dop_value_dim(t)   ? "heads of values of another size"
           : from->chunk || t->chunk || from->key_bias ? "keys and values of another kind"
                                                       : NULL;
}

bool
dop_arch_weight(const dop_arch *a, int32_t layer, dop_role role, dop_weight_need *out_need)
{
    static const dop_attention no_attention;
    static const dop_recurrent no_state;
    static const dop_layer no_layer;
    const dop_layer *y = layer >= 0 ? &a->layers[layer] : &no_layer;
    const uint32_t hidden = y->reader.hidden ? y->reader.hidden : a->hidden;
    const dop_attention *t = dop_layer_attention(y);
    const dop_recurrent *s = dop_layer_recurrent(y);
    const dop_ffn *f = &y->ffn;
    const dop_experts *x = &f->experts;
    dop_weight_need *n = out_need;
    bool wanted = false;
    *n = (dop_weight_need){.role = role, .layer = layer, .rank = 1, .rows = 1};
    t = t ? t : &no_attention;
    s = s ? s : &no_state;
    if (role == DOP_W_none || (roles[role].scope == LAYER) != (layer >= 0))
        return false;
    switch (role) {
#define MATRIX(scope, role, condition, n_rows, n_cols) \
    case DOP_W_##role:                                 \
        wanted = condition;                            \
        n->rank = 2;                                   \
        n->rows = n_rows;                              \
        n->cols = n_cols;                              \
        break;
#define EXPERTS(scope, role, condition, n_experts_, n_rows, n_cols) \
    case DOP_W_##role:                                              \
        wanted = condition;                                         \
        n->rank = 3;                                                \
        n->experts = n_experts_;                                    \
        n->rows = n_rows;                                           \
        n->cols = n_cols;                                           \
        break;
#define BIAS(scope, role, condition, values) \
    case DOP_W_##role##_bias:                \
        wanted = condition;                  \
        n->cols = values;                    \
        break;
#define EXPERT_BIAS(scope, role, condition, n_experts_, values) \
    case DOP_W_##role##_bias:                                   \
        wanted = condition;                                     \
        n->vectors = true;                                      \
        n->rank = 2;                                            \
        n->rows = n_experts_;                                   \
        n->cols = values;                                       \
        break;
#define VECTOR(scope, role, condition, values) \
    case DOP_W_##role:                         \
        wanted = condition;                    \
        n->cols = values;                      \
        break;
#define NORM(scope, role, norm, values)                                         \
    case DOP_W_##role:                                                          \
        wanted = (norm).kind != DOP_NORM_NONE && !(norm).plain;                 \
        n->cols = values;                                                       \
        break;                                                                  \
    case DOP_W_##role##_bias:                                                   \
        wanted = (norm).kind == DOP_NORM_LAYER && (norm).bias && !(norm).plain; \
        n->cols = values;                                                       \
        break;
#include "frontend/facts/weights.def"
    default:
        break;
    }
    if (layer < 0)
        snprintf(n->name, sizeof n->name, "%s", roles[role].name);
    else
        snprintf(n->name, sizeof n->name, "L%d.%s", (int)layer, roles[role].name);
    return wanted;
}

dop_status
dop_arch_each_weight(const dop_arch *a, dop_weight_need_fn *fn, void *user)
{
    dop_weight_need need;
    /* Rows of weights.def with scope LAYER are contiguous: each run is visited once per layer. */
    for (int from = DOP_W_none + 1, end = from; from < DOP_N_ROLES; from = end) {
        const int scope = roles[from].scope;
        while (end < DOP_N_ROLES && roles[end].scope == scope)
            end++;
        const int32_t times = scope == LAYER ? (int32_t)dop_arch_all_layers(a) : 1;
        for (int32_t i = 0; i < times; i++)
            for (int role = from; role < end; role++)
                if (dop_arch_weight(a, scope == LAYER ? i : -1, (dop_role)role, &need))
                    DOP_RETURN_IF_ERROR(fn(user, &need));
    }
    return DOP_OK;
}
