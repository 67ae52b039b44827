#include "compiler/build.h"

#include <stdio.h>
#include <string.h>

/* Node names: %tok, %pos; %w.NAME a weight; %L3.q and its successors %L3.qb (bias) %L3.qh (as heads) %L3.qn (normed)
 * %L3.qr (rotated); %x3 the residual stream before layer 3, %x3a after its attention. */
typedef struct builder {
    const dop_checkpoint *m;
    const dop_arch *a;
    const dop_build_options *opt;
    dop_graph *g;
    dop_diag *diag;
    dop_status status; /* the first failure; every later call does nothing and gives 0 */
    char label[32];
    int32_t layer;               /* -1 outside */
    dop_node_id tok, pos, embed; /* embed: the weight */
    dop_node_id ropes[DOP_MAX_ROPES];
    dop_node_id *caches; /* final caches, [2 * n_layers]; k and v in turn */
} builder;

static dop_node_id
add_node(builder *b, dop_op op, const char *name, const dop_node_id *srcs, uint32_t n_srcs, const dop_attr *attrs,
         const dop_want *want)
{
    dop_node_id id = 0;
    char full[96];
    if (b->status != DOP_OK)
        return 0;
    if (b->layer >= 0)
        snprintf(full, sizeof full, "L%d.%s", (int)b->layer, name);
    else
        snprintf(full, sizeof full, "%s", name);
    b->status = dop_graph_add(b->g, op, full, srcs, n_srcs, attrs, want, b->diag, &id);
    if (b->status != DOP_OK || (dop_op_of(op)->traits & DOP_LEAF))
        return id;
    char *label = dop_arena_strdup(b->g->arena, b->label);
    if (!label) {
        b->status = DOP_FAIL(b->diag, DOP_E_NOMEM, "out of host memory");
        return 0;
    }
    dop_node_at(b->g, id)->label = label;
    return id;
}

/* Where the following nodes belong. */
static void
set_label(builder *b, const char *part)
{
    if (b->layer >= 0)
        snprintf(b->label, sizeof b->label, "L%d/%s", (int)b->layer, part);
    else
        snprintf(b->label, sizeof b->label, "%s", part);
}

/* A computed value; `type` none: f32. */
static dop_node_id
op1(builder *b, dop_op op, const char *name, dop_node_id x, const dop_attr *attrs, dop_type type)
{
    dop_want want = {.type = type};
    return add_node(b, op, name, &x, 1, attrs, type == DOP_TYPE_none ? NULL : &want);
}

static dop_node_id
op2(builder *b, dop_op op, const char *name, dop_node_id x, dop_node_id y, const dop_attr *attrs, dop_type type)
{
    dop_want want = {.type = type};
    return add_node(b, op, name, (dop_node_id[]){x, y}, 2, attrs, type == DOP_TYPE_none ? NULL : &want);
}

static dop_node_id
leaf(builder *b, dop_op op, const char *node_name, const char *name, dop_type type, const dop_shape *shape)
{
    dop_want want = {type, *shape};
    dop_attr attr = {.s = name};
    int32_t layer = b->layer;
    b->layer = -1; /* leaves are named in full */
    dop_node_id id = add_node(b, op, node_name, NULL, 0, &attr, &want);
    b->layer = layer;
    return id;
}

/* The weight of a role in the current layer (or outside). */
static dop_node_id
weight(builder *b, const char *role)
{
    char name[64], node_name[80];
    if (b->status != DOP_OK)
        return 0;
    if (b->layer >= 0)
        snprintf(name, sizeof name, "L%d.%s", (int)b->layer, role);
    else
        snprintf(name, sizeof name, "%s", role);
    snprintf(node_name, sizeof node_name, "w.%s", name);
    const dop_weight *w = dop_weights_find(&b->m->weights, name);
    if (!w) {
        b->status = DOP_FAIL(b->diag, DOP_E_INTERNAL, "the graph needs weight %s, which the model lacks", name);
        return 0;
    }
    dop_shape shape = {w->rank, {dop_dim_n(w->rank == 1 ? w->cols : w->rows), dop_dim_n(w->cols)}};
    if (w->rank == 1)
        shape.dim[1] = (dop_dim){0, DOP_SYM_1};
    return leaf(b, DOP_OP_weight, node_name, name, w->type, &shape);
}

/* The norm of a role, with the arch's kind. */
static dop_node_id
norm(builder *b, const char *name, const char *role, dop_node_id x)
{
    const dop_arch *a = b->a;
    dop_want want = {.type = b->opt->act_type};
    dop_node_id srcs[3] = {x, weight(b, role), 0};
    if (a->norm == DOP_NORM_RMS) {
        dop_attr attrs[] = {{.f = a->norm_eps}, {.f = a->norm_add}};
        return add_node(b, DOP_OP_rmsnorm, name, srcs, 2, attrs, &want);
    }
    char bias[48];
    snprintf(bias, sizeof bias, "%s_bias", role);
    srcs[2] = weight(b, bias);
    dop_attr attrs[] = {{.f = a->norm_eps}};
    return add_node(b, DOP_OP_layernorm, name, srcs, 3, attrs, &want);
}

/* x times the weight of `role`, plus its bias. */
static dop_node_id
project(builder *b, const char *role, dop_node_id x, bool bias)
{
    char name[48];
    dop_node_id y = op2(b, DOP_OP_matmul, role, x, weight(b, role), NULL, b->opt->act_type);
    if (!bias)
        return y;
    snprintf(name, sizeof name, "%s_bias", role);
    dop_node_id w = weight(b, name);
    snprintf(name, sizeof name, "%sb", role);
    return op2(b, DOP_OP_add, name, y, w, NULL, b->opt->act_type);
}

static dop_node_id
reshape(builder *b, const char *name, dop_node_id x, uint32_t heads, uint32_t dim)
{
    dop_want want = {.shape = {heads ? 3 : 2, {{1, DOP_SYM_T}, dop_dim_n(heads ? heads : dim)}}};
    if (heads)
        want.shape.dim[2] = dop_dim_n(dim);
    return add_node(b, DOP_OP_reshape, name, &x, 1, NULL, &want);
}

/* q or k: projection, bias, norm, heads. */
static dop_node_id
heads_of(builder *b, const char *role, dop_node_id x, uint32_t heads, bool bias, bool normed)
{
    const dop_arch *a = b->a;
    const uint32_t dim = a->layers[b->layer].head_dim;
    char norm_role[16], name[16];
    dop_node_id y = project(b, role, x, bias);
    snprintf(norm_role, sizeof norm_role, "%s_norm", role);
    snprintf(name, sizeof name, "%sn", role);
    if (normed && a->qk_norm == DOP_QK_NORM_ROW)
        y = norm(b, name, norm_role, y);
    char head_name[16];
    snprintf(head_name, sizeof head_name, "%sh", role);
    y = reshape(b, head_name, y, heads, dim);
    if (normed && a->qk_norm == DOP_QK_NORM_HEAD)
        y = norm(b, name, norm_role, y);
    return y;
}

static dop_node_id
rotate(builder *b, const char *name, dop_node_id x)
{
    const int32_t r = b->a->layers[b->layer].rope;
    if (r < 0)
        return x;
    dop_attr attrs[] = {{.i = b->a->ropes[r].dims}, {.i = b->a->ropes[r].interleaved}};
    dop_want want = {.type = b->opt->act_type};
    return add_node(b, DOP_OP_rope, name, (dop_node_id[]){x, b->pos, b->ropes[r]}, 3, attrs, &want);
}

/* Appends to the layer's cache; the new cache is a result of the graph. */
static dop_node_id
cache(builder *b, const char *role, dop_node_id x, uint32_t which)
{
    const dop_layer *l = &b->a->layers[b->layer];
    char name[48], node_name[64];
    dop_shape shape = {3, {{1, DOP_SYM_S}, dop_dim_n(l->n_kv_heads), dop_dim_n(l->head_dim)}};
    snprintf(name, sizeof name, "L%d.%s", (int)b->layer, role);
    snprintf(node_name, sizeof node_name, "s.%s", name);
    dop_node_id old = leaf(b, DOP_OP_state, node_name, name, b->opt->kv_type, &shape);
    snprintf(name, sizeof name, "%s_cache", role);
    dop_node_id id = add_node(b, DOP_OP_state_write, name, (dop_node_id[]){old, x, b->pos}, 3, NULL, NULL);
    b->caches[2 * (uint32_t)b->layer + which] = id;
    return id;
}

static dop_node_id
residual(builder *b, const char *name, dop_node_id x, dop_node_id branch)
{
    if (b->a->residual_scale != 1) {
        char scaled[16];
        snprintf(scaled, sizeof scaled, "%s_s", name);
        dop_attr by = {.f = b->a->residual_scale};
        branch = op1(b, DOP_OP_scale, scaled, branch, &by, b->opt->act_type);
    }
    /* The stream itself stays f32: its error would grow with every layer. */
    return op2(b, DOP_OP_add, name, x, branch, NULL, DOP_TYPE_none);
}

static dop_node_id
attention_part(builder *b, dop_node_id x)
{
    const dop_arch *a = b->a;
    const dop_layer *l = &a->layers[b->layer];
    set_label(b, "qkv");
    dop_node_id in = a->norm_pre_attn ? norm(b, "attn_norm", "attn_norm", x) : x;
    const bool normed = a->qk_norm != DOP_QK_NORM_NONE;
    dop_node_id q = heads_of(b, "q", in, l->n_heads, a->bias_q, normed);
    dop_node_id k = heads_of(b, "k", in, l->n_kv_heads, a->bias_k, normed);
    dop_node_id v = heads_of(b, "v", in, l->n_kv_heads, a->bias_v, false);
    set_label(b, "attn");
    q = rotate(b, "qr", q);
    k = rotate(b, "kr", k);
    k = cache(b, "k", k, 0); /* one by one: the order of the nodes is the order of these lines */
    v = cache(b, "v", v, 1);
    dop_node_id srcs[5] = {q, k, v, b->pos, a->sinks ? weight(b, "sinks") : 0};
    /* A window that no position of this cache leaves is none. */
    const uint32_t window = l->window < b->opt->max_s ? l->window : 0;
    dop_attr attrs[] = {{.f = a->attn_scale}, {.i = window}, {.f = a->attn_softcap}};
    dop_want want = {.type = b->opt->act_type};
    dop_node_id y = add_node(b, DOP_OP_attention, "attn", srcs, a->sinks ? 5 : 4, attrs, &want);
    set_label(b, "o");
    y = reshape(b, "attn_r", y, 0, l->n_heads * l->head_dim);
    y = project(b, "o", y, a->bias_o);
    return a->norm_post_attn ? norm(b, "post_attn_norm", "post_attn_norm", y) : y;
}

static dop_node_id
ffn_part(builder *b, dop_node_id x)
{
    static const dop_op acts[] = {
        [DOP_ACT_SILU] = DOP_OP_silu, [DOP_ACT_GELU] = DOP_OP_gelu,   [DOP_ACT_GELU_TANH] = DOP_OP_gelu_tanh,
        [DOP_ACT_RELU] = DOP_OP_relu, [DOP_ACT_RELU2] = DOP_OP_relu2,
    };
    const dop_arch *a = b->a;
    set_label(b, "ffn_up");
    dop_node_id in = a->norm_pre_ffn ? norm(b, "ffn_norm", "ffn_norm", x) : x, y;
    if (a->gated) {
        dop_node_id gate = project(b, "gate", in, a->bias_ffn), up = project(b, "up", in, a->bias_ffn);
        gate = op1(b, acts[a->act], "act", gate, NULL, b->opt->act_type);
        y = op2(b, DOP_OP_mul, "gated", gate, up, NULL, b->opt->act_type);
    } else {
        y = op1(b, acts[a->act], "act", project(b, "up", in, a->bias_ffn), NULL, b->opt->act_type);
    }
    set_label(b, "ffn_down");
    y = project(b, "down", y, a->bias_ffn);
    return a->norm_post_ffn ? norm(b, "post_ffn_norm", "post_ffn_norm", y) : y;
}

static void
inputs(builder *b)
{
    dop_shape ids = {1, {{1, DOP_SYM_T}}};
    b->tok = leaf(b, DOP_OP_input, "tok", "tokens", DOP_TYPE_u32, &ids);
    b->pos = leaf(b, DOP_OP_input, "pos", "positions", DOP_TYPE_u32, &ids);
    bool used[DOP_MAX_ROPES] = {false};
    for (uint32_t i = 0; i < b->a->n_layers; i++)
        if (b->a->layers[i].rope >= 0)
            used[b->a->layers[i].rope] = true;
    for (uint32_t i = 0; i < b->a->n_ropes; i++) {
        char name[16];
        dop_shape table = {2, {{1, DOP_SYM_S}, dop_dim_n(b->a->ropes[i].dims)}};
        snprintf(name, sizeof name, "rope.%u", i);
        if (used[i])
            b->ropes[i] = leaf(b, DOP_OP_weight, name, name, DOP_TYPE_f32, &table);
    }
}

static dop_node_id
embedding(builder *b)
{
    set_label(b, "embed");
    b->embed = weight(b, "embed");
    dop_node_id x = op2(b, DOP_OP_gather, "emb", b->embed, b->tok, NULL, DOP_TYPE_none);
    if (b->a->embed_scale != 1) {
        dop_attr by = {.f = b->a->embed_scale};
        x = op1(b, DOP_OP_scale, "emb_s", x, &by, DOP_TYPE_none);
    }
    if (b->a->learned_positions) {
        dop_node_id p = op2(b, DOP_OP_gather, "pos_emb", weight(b, "pos_embed"), b->pos, NULL, DOP_TYPE_none);
        x = op2(b, DOP_OP_add, "emb_p", x, p, NULL, DOP_TYPE_none);
    }
    return x;
}

/* From the residual stream to logits and the arg-max. */
static void
head(builder *b, dop_node_id x)
{
    const dop_arch *a = b->a;
    set_label(b, "head");
    if (b->opt->phase == DOP_PHASE_PREFILL)
        x = op1(b, DOP_OP_last_row, "last", x, NULL, DOP_TYPE_none);
    x = norm(b, "final_norm", "final_norm", x);
    dop_node_id w = a->tied ? b->embed : weight(b, "lm_head");
    x = op2(b, DOP_OP_matmul, "logits", x, w, NULL, DOP_TYPE_none);
    if (a->logit_scale != 1) {
        dop_attr by = {.f = a->logit_scale};
        x = op1(b, DOP_OP_scale, "logits_s", x, &by, DOP_TYPE_none);
    }
    if (a->logit_softcap > 0) {
        dop_attr cap = {.f = a->logit_softcap};
        x = op1(b, DOP_OP_softcap, "logits_c", x, &cap, DOP_TYPE_none);
    }
    dop_node_id outs[2] = {x, 0};
    uint32_t n = 1;
    if (b->opt->phase != DOP_PHASE_SCORE)
        outs[n++] = op1(b, DOP_OP_argmax, "id", x, NULL, DOP_TYPE_none);
    for (uint32_t i = 0; i < n && b->status == DOP_OK; i++)
        b->status = dop_graph_output(b->g, outs[i], b->diag);
    for (uint32_t i = 0; i < 2 * a->n_layers && b->status == DOP_OK; i++)
        b->status = dop_graph_output(b->g, b->caches[i], b->diag);
}

dop_status
dop_build_graph(const dop_checkpoint *m, const dop_build_options *opt, dop_arena *arena, dop_diag *diag,
                dop_graph *out_graph)
{
    static const char *const names[] = {
        [DOP_PHASE_DECODE] = "decode", [DOP_PHASE_PREFILL] = "prefill", [DOP_PHASE_SCORE] = "score"};
    builder b = {.m = m, .a = &m->arch, .opt = opt, .g = out_graph, .diag = diag, .layer = -1};
    b.caches = dop_arena_alloc(arena, 2 * (size_t)m->arch.n_layers * sizeof *b.caches);
    if (!b.caches)
        return DOP_FAIL(diag, DOP_E_NOMEM, "out of host memory");
    if (m->arch.learned_positions && opt->max_s > m->arch.ctx_train)
        return DOP_FAIL(diag, DOP_E_INPUT,
                        "a context of %u tokens is longer than the %u positions this model has learned; lower it",
                        opt->max_s, m->arch.ctx_train);
    b.status = dop_graph_init(out_graph, arena, names[opt->phase], opt->phase == DOP_PHASE_DECODE ? 1 : opt->max_t,
                              opt->max_s, diag);
    inputs(&b);
    dop_node_id x = embedding(&b);
    for (uint32_t i = 0; i < m->arch.n_layers && b.status == DOP_OK; i++) {
        char name[24];
        dop_node_id y;
        if (m->arch.layers[i].kind != DOP_LAYER_ATTENTION || m->arch.layers[i].moe)
            return DOP_FAIL(diag, DOP_E_INPUT, "layer %u is of a kind that is not supported yet", i);
        b.layer = (int32_t)i;
        y = attention_part(&b, x);
        b.layer = -1;
        snprintf(name, sizeof name, "x%ua", i);
        x = residual(&b, name, x, y);
        b.layer = (int32_t)i;
        y = ffn_part(&b, x);
        b.layer = -1;
        snprintf(name, sizeof name, "x%u", i + 1);
        x = residual(&b, name, x, y);
    }
    head(&b, x);
    return b.status;
}
