#include "frontend/build/build_activation.h"
#include "frontend/build/build_adapter.h"
#include "frontend/build/build_altup.h"
#include "frontend/build/build_attention.h"
#include "frontend/build/build_cross.h"
#include "frontend/build/build_draft.h"
#include "frontend/build/build_encode.h"
#include "frontend/build/build_experts.h"
#include "frontend/build/build_latent.h"
#include "frontend/build/build_pictures.h"
#include "frontend/build/build_recurrent.h"
#include "frontend/build/builder.h"
#include "ir/graph/graph_add.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { STATES = 2 * DOP_MAX_MIXERS }; /* maximum states per layer: two per mixer */

/* Normalizes each head of x with the head's own weights. */
static dop_node_id
normalize_each_head(builder *b, const char *name, dop_role role, dop_node_id x, uint32_t heads, uint32_t dim)
{
    const dop_norm n = dop_arch_norm(b->a, b->layer, role);
    dop_want each = {.shape = {3, {dop_dim_n(1), dop_dim_n(heads), dop_dim_n(dim)}}};
    char plain[24], weights[24];
    if (n.kind == DOP_NORM_NONE)
        return x;
    snprintf(plain, sizeof plain, "%su", name);
    snprintf(weights, sizeof weights, "%sw", name);
    dop_node_id w = weight(b, role);
    w = add_node(b, DOP_OP_reshape, weights, &w, 1, NULL, &each);
    return op2(b, DOP_OP_mul, name, plain_norm(b, plain, &n, x), w, NULL, b->act_type);
}

/* Returns a projection to queries, keys or values, clamped to [-clip, clip]. */
static dop_node_id
project_clipped(builder *b, const dop_attention *t, const char *name, dop_node_id x)
{
    char most[16], least[16];
    if (t->clip == 0)
        return x;
    snprintf(most, sizeof most, "%s_m", name);
    snprintf(least, sizeof least, "%s_c", name);
    x = op1(b, DOP_OP_at_most, most, x, &(dop_attr){.f = t->clip}, b->act_type);
    return op1(b, DOP_OP_at_least, least, x, &(dop_attr){.f = -t->clip}, b->act_type);
}

/* Splits projection y (queries, keys or values) into heads, clamped and normalized according to the facts. */
static dop_node_id
split_into_heads(builder *b, const dop_attention *t, dop_role role, dop_role norm_role, dop_node_id y, uint32_t heads)
{
    char normed[16], head_name[16];
    const uint32_t dim = role == DOP_W_v ? dop_value_dim(t) : t->head_dim;
    snprintf(normed, sizeof normed, "%sn", dop_role_name(role));
    snprintf(head_name, sizeof head_name, "%sh", dop_role_name(role));
    y = project_clipped(b, t, dop_role_name(role), y);
    const bool rows = t->norm_rows && norm_role != DOP_W_v_norm;
    if (rows)
        y = norm(b, normed, norm_role, y);
    y = reshape(b, head_name, y, heads, dim);
    if (t->norm_heads && norm_role != DOP_W_v_norm)
        return normalize_each_head(b, normed, norm_role, y, heads, dim);
    return rows || (t->norm_after && norm_role != DOP_W_v_norm) ? y : norm(b, normed, norm_role, y);
}

/* Returns the residual stream x plus `scale` times a branch. The node is named x NUMBER AFTER, such as %x3a or %x4. */
static dop_node_id
add_to_stream(builder *b, uint32_t number, const char *after, double scale, dop_node_id x, dop_node_id branch)
{
    char name[24], scaled[32];
    snprintf(name, sizeof name, "x%u%s", number, after);
    snprintf(scaled, sizeof scaled, "%s_s", name);
    b->layer = -1;
    if (scale != 1) {
        dop_attr by = {.f = scale};
        branch = op1(b, DOP_OP_scale, scaled, branch, &by, b->act_type);
    }
    /* The stream stays f32, because rounding errors would accumulate over the layers. */
    return op2(b, DOP_OP_add, name, x, branch, NULL, DOP_TYPE_none);
}

/* Differential attention (arch.h): subtracts the second half of the heads of y from the first half, and normalizes. */
static dop_node_id
subtract_half_heads(builder *b, const dop_attention *t, dop_node_id y)
{
    const uint32_t n = dop_result_dim(t);
    const dop_norm each = {.kind = DOP_NORM_RMS, .eps = dop_arch_norm(b->a, b->layer, DOP_W_attn_norm).eps};
    dop_node_id second = slice(b, "attn_2", y, n, n);
    second = op2(b, DOP_OP_mul, "attn_2l", second, weight(b, DOP_W_diff_lambda), NULL, b->act_type);
    y = op2(b, DOP_OP_sub, "attn_d", slice(b, "attn_1", y, 0, n), second, NULL, b->act_type);
    y = reshape(b, "attn_dh", y, t->n_heads / 2, dop_value_dim(t));
    return reshape(b, "attn_dr", plain_norm(b, "attn_dn", &each, y), 0, n);
}

/* Adds a learned bias per key to attention scores: appends four copies of it to each key and four values 1 / (4 * scale) to each
 * query. The scale of attention thus cancels. */
static void
append_key_bias(builder *b, const dop_attention *t, dop_node_id values, dop_node_id *q, dop_node_id *k)
{
    enum { TIMES = 4 };
    const dop_type act = b->act_type;
    dop_want four = {.shape = {3, {{1, DOP_SYM_T}, dop_dim_n(t->n_heads), dop_dim_n(TIMES)}}};
    dop_node_id y = op2(b, DOP_OP_matmul, "bias_dt", values, weight(b, DOP_W_key_bias), NULL, DOP_TYPE_none);
    y = op1(b, DOP_OP_softplus, "bias_sp", y, NULL, DOP_TYPE_none);
    y = op2(b, DOP_OP_mul, "bias_f", y, weight(b, DOP_W_key_fade), NULL, DOP_TYPE_none);
    y = reshape(b, "bias_h", op1(b, DOP_OP_exp, "bias", y, NULL, DOP_TYPE_none), t->n_kv_heads, TIMES);
    *k = op2(b, DOP_OP_concat, "k_biased", *k, y, NULL, act);
    dop_node_id one = add_node(b, DOP_OP_slice, "one_of", q, 1, &(dop_attr){.i = 0}, &four);
    one = op1(b, DOP_OP_scale, "one_0", one, &(dop_attr){.f = 0}, DOP_TYPE_none);
    one = op1(b, DOP_OP_offset, "one", one, &(dop_attr){.f = 1 / (TIMES * t->scale)}, DOP_TYPE_none);
    *q = op2(b, DOP_OP_concat, "q_biased", *q, one, NULL, act);
}

/* Returns queries, keys or values, plus the layer's own low-rank projection if it has one. */
static dop_node_id
project_with_adapter(builder *b, const dop_attention *t, dop_role role, dop_role a, dop_role own, dop_node_id in)
{
    char name[16];
    dop_node_id y = project(b, role, in);
    if (!t->adapter)
        return y;
    snprintf(name, sizeof name, "%s_low", dop_role_name(role));
    return op2(b, DOP_OP_add, name, y, project(b, own, project(b, a, in)), NULL, b->act_type);
}

static dop_node_id
build_plain_attention(builder *b, const dop_attention *t, dop_node_id in)
{
    dop_node_id q = split_into_heads(b, t, DOP_W_q, DOP_W_q_norm,
                                     project_with_adapter(b, t, DOP_W_q, DOP_W_q_low_a, DOP_W_q_low_b, in), t->n_heads),
                k = 0, v = 0;
    if (!t->shares) {
        dop_node_id made = project_with_adapter(b, t, DOP_W_k, DOP_W_k_low_a, DOP_W_k_low_b, in);
        k = split_into_heads(b, t, DOP_W_k, DOP_W_k_norm, made, t->n_kv_heads);
        v = split_into_heads(b, t, DOP_W_v, DOP_W_v_norm,
                             t->k_is_v ? made : project_with_adapter(b, t, DOP_W_v, DOP_W_v_low_a, DOP_W_v_low_b, in),
                             t->n_kv_heads);
    }
    dop_node_id gate = t->gate ? project(b, DOP_W_attn_gate, in) : 0;
    const bool pairs = t->rope >= 0 && b->a->ropes[t->rope].interleaved;
    set_role(b, "attn");
    q = dop_build_rotated(b, t, "qr", pairs, q);
    k = dop_build_rotated(b, t, "kr", pairs, k);
    if (t->norm_after) {
        q = norm(b, "qn", DOP_W_q_norm, q);
        k = norm(b, "kn", DOP_W_k_norm, k);
    }
    if (t->tempered)
        q = op2(b, DOP_OP_mul, "qt", q, dop_build_temper(b), NULL, b->act_type);
    if (t->key_bias)
        append_key_bias(b, t, reshape(b, "v_row", v, 0, t->n_kv_heads * t->head_dim), &q, &k);
    if (!t->shares && b->opt->encodes) {
        b->caches[b->layer][0] = k;
        b->caches[b->layer][1] = v;
    } else if (!t->shares) {
        b->caches[b->layer][0] =
            /* keys first: the order of nodes matters */
            dop_build_cache(b, t, "k", k, t->head_dim + (t->key_bias ? 4 : 0));
        b->caches[b->layer][1] = dop_build_cache(b, t, "v", v, dop_value_dim(t));
    }
    dop_node_id shared[2], *of = t->shares ? shared : b->caches[b->layer];
    if (t->shares)
        dop_build_shared_caches(b, t, shared);
    dop_node_id y = dop_build_attention(b, t, q, of[0], of[1], 0);
    set_role(b, "o");
    if (t->gate)
        gate = op1(b, t->gate_softplus ? DOP_OP_softplus : DOP_OP_sigmoid, "attn_gs", gate, NULL, b->act_type);
    if (t->gate && t->gate_heads)
        y = op2(b, DOP_OP_mul, "attn_g", y, reshape(b, "attn_gh", gate, t->n_heads, 1), NULL, b->act_type);
    y = reshape(b, "attn_r", y, 0, t->n_heads * dop_value_dim(t));
    if (t->differential)
        y = subtract_half_heads(b, t, y);
    if (t->gate && !t->gate_heads)
        y = op2(b, DOP_OP_mul, "attn_g", y, gate, NULL, b->act_type);
    return project(b, DOP_W_o, norm(b, "o_norm", DOP_W_o_norm, y));
}

/* Returns a projection of a shared block, plus the layer's own low-rank projection of `low` (0: none). */
static dop_node_id
project_shared_block(builder *b, dop_role role, dop_role own, const char *name, dop_node_id in, dop_node_id low)
{
    dop_node_id y = project(b, role, in);
    return low ? op2(b, DOP_OP_add, name, y, project(b, own, low), NULL, b->act_type) : y;
}

/* Returns the result of a shared block (dop_side), which is added to the input of the layer's mixer. */
static dop_node_id
build_shared_block(builder *b, const dop_layer *l, dop_node_id x)
{
    set_role(b, "qkv");
    dop_node_id in = op2(b, DOP_OP_concat, "side_in", x, b->first, NULL, DOP_TYPE_none);
    dop_node_id y = build_plain_attention(b, &l->mixers[0].attn, norm(b, "side_norm", DOP_W_side_norm, in));
    set_role(b, "side_up");
    y = norm(b, "side_ffn_norm", DOP_W_side_ffn_norm, y);
    dop_node_id low = l->side.rank ? project(b, DOP_W_side_a, y) : 0;
    dop_node_id gate = project_shared_block(b, DOP_W_side_gate, DOP_W_side_gate_b, "side_gates", y, low);
    dop_node_id up = project_shared_block(b, DOP_W_side_up, DOP_W_side_up_b, "side_ups", y, low);
    y = op2(b, DOP_OP_mul, "side_gated", dop_build_activation(b, l->side.act, "side_act", gate), up, NULL, b->act_type);
    set_role(b, "side_down");
    return project(b, DOP_W_side_out, project(b, DOP_W_side_down, y));
}

static dop_node_id
build_mixer_branch(builder *b, const dop_layer *l, dop_node_id x, dop_node_id *out_normed)
{
    if (l->side.width)
        x = op2(b, DOP_OP_add, "side", x, build_shared_block(b, l, x), NULL, DOP_TYPE_none);
    set_role(b, "qkv");
    dop_node_id in = norm(b, "attn_norm", DOP_W_attn_norm, x);
    *out_normed = in;
    dop_node_id sum = 0;
    for (uint32_t i = l->side.width ? 1 : 0; i < l->n_mixers; i++) {
        const dop_mixer *m = &l->mixers[i];
        char name[16];
        snprintf(name, sizeof name, "mixer%u", i);
        const bool attends = m->kind == DOP_MIXER_ATTENTION || m->kind == DOP_MIXER_LATENT;
        set_role(b, attends ? "qkv" : "mix_in");
        dop_node_id y = m->kind == DOP_MIXER_LATENT ? dop_build_latent(b, &m->attn, in)
                        : attends                   ? build_plain_attention(b, &m->attn, in)
                                                    : dop_build_recurrent(b, &m->rec, in);
        y = scaled(b, name, y, m->scale, b->act_type);
        sum = sum ? op2(b, DOP_OP_add, "mixers", sum, y, NULL, b->act_type) : y;
    }
    return norm(b, "post_attn_norm", DOP_W_post_attn_norm, sum);
}

/* Returns the sparse gate relu(x - (mean + sparsity * standard deviation)), with mean and deviation of the row. */
static dop_node_id
build_sparse_gate(builder *b, const dop_ffn *f, dop_node_id x)
{
    if (f->sparsity == 0)
        return x;
    dop_node_id mean = op1(b, DOP_OP_row_mean, "gate_mean", x, NULL, DOP_TYPE_none);
    dop_node_id k = op1(b, DOP_OP_row_istd, "gate_istd", x, &(dop_attr){.f = 1e-30}, DOP_TYPE_none);
    x = op2(b, DOP_OP_mul, "gate_z", op2(b, DOP_OP_sub, "gate_c", x, mean, NULL, DOP_TYPE_none), k, NULL,
            DOP_TYPE_none);
    x = op1(b, DOP_OP_offset, "gate_o", x, &(dop_attr){.f = -f->sparsity}, DOP_TYPE_none);
    x = op1(b, DOP_OP_relu, "gate_p", x, NULL, DOP_TYPE_none);
    return op2(b, DOP_OP_div, "gate_t", x, k, NULL, b->act_type);
}

static dop_node_id
build_dense_ffn(builder *b, const dop_ffn *f, dop_node_id in)
{
    dop_node_id gate = f->gated ? project(b, DOP_W_gate, in) : 0, up = project(b, DOP_W_up, in);
    if (f->gated)
        gate = build_sparse_gate(b, f, scaled(b, "gate_by", gate, f->gate_scale, b->act_type));
    dop_node_id y = dop_build_gated(b, f, dop_ffn_experts(f) ? "dense_gated" : "gated", gate, up);
    set_role(b, "ffn_down");
    y = norm(b, "down_norm", DOP_W_down_norm, y);
    y = scaled(b, "down_s", project(b, DOP_W_down, y), f->scale, b->act_type);
    return norm(b, "post_dense_norm", DOP_W_post_dense_norm, y);
}

static dop_node_id
build_ffn_branch(builder *b, const dop_ffn *f, dop_node_id x)
{
    const dop_experts *e = &f->experts;
    set_role(b, "ffn_up");
    dop_node_id in = norm(b, "ffn_norm", DOP_W_ffn_norm, x), by = in, dense = 0, y = 0;
    if (dop_ffn_dense(f))
        y = dense = build_dense_ffn(b, f, in);
    if (dop_ffn_experts(f)) {
        set_role(b, "router");
        if (e->router_norm.kind != DOP_NORM_NONE)
            by = norm(b, "router_norm", DOP_W_router_norm, x);
        if (e->norm.kind != DOP_NORM_NONE)
            in = norm(b, "expert_norm", DOP_W_expert_norm, x);
        y = norm(b, "post_expert_norm", DOP_W_post_expert_norm, dop_build_experts(b, f, in, by));
    }
    if (dense && y != dense)
        y = op2(b, DOP_OP_add, "both", dense, y, NULL, b->act_type);
    return norm(b, "post_ffn_norm", DOP_W_post_ffn_norm, y);
}

/* Builds the branch of layer i that combines the residual stream x with the per-layer input. */
static dop_node_id
build_input_branch(builder *b, uint32_t i, dop_node_id x)
{
    const dop_layer *l = &b->a->layers[i];
    const uint32_t n = b->a->inputs.width;
    b->layer = (int32_t)i;
    set_role(b, "input_gate");
    dop_node_id y = dop_build_activation(b, l->ffn.act, "input_act", project(b, DOP_W_input_gate, x));
    y = op2(b, DOP_OP_mul, "input_gated", y, slice(b, "input", b->inputs, i * n, n), NULL, b->act_type);
    set_role(b, "input_up");
    return norm(b, "post_input_norm", DOP_W_post_input_norm, project(b, DOP_W_input_up, y));
}

/* Builds layer i with alternating updates: replaces the streams before the layer by those after it. */
static void
build_streams_layer(builder *b, uint32_t i, dop_node_id *streams)
{
    const dop_layer *l = &b->a->layers[i];
    const uint32_t active = b->a->altup.active;
    b->layer = (int32_t)i;
    dop_build_predictions(b, streams);
    dop_node_id normed = 0, x = streams[active], y = build_mixer_branch(b, l, x, &normed);
    x = add_to_stream(b, i, "a", l->residual_scale, x, y);
    b->layer = (int32_t)i;
    x = op2(b, DOP_OP_add, "laurel_x", x, dop_build_laurel(b, normed), NULL, DOP_TYPE_none);
    x = scaled(b, "laurel_s", x, sqrt(0.5), DOP_TYPE_none);
    y = build_ffn_branch(b, &l->ffn, x);
    x = add_to_stream(b, i + 1, "f", l->residual_scale, x, y);
    b->layer = (int32_t)i;
    dop_build_corrections(b, streams, x);
    if (!b->inputs)
        return;
    x = streams[active];
    if (b->a->altup.scales)
        x = op2(b, DOP_OP_mul, "altup_scaled", x, weight(b, DOP_W_altup_scale), NULL, DOP_TYPE_none);
    y = build_input_branch(b, i, x);
    for (uint32_t k = 1; k < b->a->altup.n; k++) {
        char name[24];
        snprintf(name, sizeof name, "stream%u", k);
        streams[k] = op2(b, DOP_OP_add, name, streams[k], y, NULL, DOP_TYPE_none);
    }
}

/* Multiplies the residual stream by the learned values of a role, if the layer has them. */
static dop_node_id
multiply_stream(builder *b, const dop_layer *l, const char *name, dop_role role, dop_node_id x)
{
    return l->residual_weights ? op2(b, DOP_OP_mul, name, x, weight(b, role), NULL, DOP_TYPE_none) : x;
}

/* Normalizes the residual stream with an f32 result. */
static dop_node_id
normalize_stream(builder *b, const char *name, dop_role role, dop_node_id x)
{
    dop_build_options opt = *b->opt;
    const dop_build_options *kept = b->opt;
    opt.act_type = DOP_TYPE_f32;
    b->opt = &opt;
    x = norm(b, name, role, x);
    b->opt = kept;
    return x;
}

/* Builds layer i and returns the residual stream after it. x: the stream before it. in: the mixers' input, which differs from x
 * only for drafters with additional inputs. */
static dop_node_id
build_layer(builder *b, uint32_t i, dop_node_id in, dop_node_id x)
{
    const dop_layer *l = &b->a->layers[i];
    b->layer = (int32_t)i;
    dop_node_id before = x, normed = 0, y = l->n_mixers ? build_mixer_branch(b, l, in, &normed) : 0;
    if (l->ffn.kind == DOP_FFN_NONE)
        return add_to_stream(b, i + 1, "", l->residual_scale, x, y);
    x = y ? add_to_stream(b, i, "a", l->residual_scale, multiply_stream(b, l, "attn_res", DOP_W_attn_residual, x), y)
          : x;
    b->layer = (int32_t)i;
    if (b->a->cross.rows) {
        x = add_to_stream(b, i, "c", l->residual_scale, x, dop_build_cross(b, l, x));
        b->layer = (int32_t)i;
    }
    x = normalize_stream(b, "attn_sum_norm", DOP_W_attn_sum_norm, x);
    y = build_ffn_branch(b, &l->ffn, !l->parallel ? x : l->ffn_norm.kind == DOP_NORM_NONE ? normed : before);
    const char *const unscaled = l->scaled ? "u" : "";
    x = multiply_stream(b, l, "ffn_res", DOP_W_ffn_residual, x);
    x = add_to_stream(b, i + 1, b->inputs ? "f" : unscaled, l->residual_scale, x, y);
    b->layer = (int32_t)i;
    x = normalize_stream(b, "ffn_sum_norm", DOP_W_ffn_sum_norm, x);
    b->layer = -1;
    if (b->inputs)
        x = add_to_stream(b, i + 1, unscaled, 1, x, build_input_branch(b, i, x));
    if (!l->scaled)
        return x;
    b->layer = (int32_t)i;
    dop_node_id scale = weight(b, DOP_W_layer_scale);
    char name[24];
    snprintf(name, sizeof name, "x%u", i + 1);
    b->layer = -1;
    return op2(b, DOP_OP_mul, name, x, scale, NULL, DOP_TYPE_none);
}

/* Returns the residual stream x after layer i plus the layer's control vector. */
static dop_node_id
add_control_vector(builder *b, uint32_t i, dop_node_id x)
{
    char name[24];
    x = dop_build_controlled(b, i, x);
    if (!b->a->layers[i].control)
        return x;
    b->layer = (int32_t)i;
    const dop_node_id w = weight(b, DOP_W_control);
    b->layer = -1;
    snprintf(name, sizeof name, "x%uc", i + 1);
    return op2(b, DOP_OP_add, name, x, w, NULL, DOP_TYPE_none);
}

static void
add_step_inputs(builder *b)
{
    dop_shape ids = {1, {{1, DOP_SYM_T}}};
    b->tok = leaf(b, DOP_OP_input, "tok", "tokens", DOP_TYPE_u32, &ids);
    b->pos = leaf(b, DOP_OP_input, "pos", "positions", DOP_TYPE_u32, &ids);
    dop_shape one = {1, {{1, DOP_SYM_1}}};
    bool several = b->g->max_q > 1 && !b->opt->mixed && (!b->opt->invariant || b->opt->drafts) && !b->opt->encodes;
    b->seq = leaf(b, DOP_OP_input, "seq", "sequences", DOP_TYPE_u32, several ? &one : &ids);
    bool used[DOP_MAX_ROPES] = {false};
    for (uint32_t i = b->opt->drafts ? b->a->n_layers : 0; i < b->a->n_layers + (b->opt->drafts ? b->a->drafts : 0);
         i++) {
        const dop_attention *t = dop_layer_attention(&b->a->layers[i]);
        if (t && t->rope >= 0)
            used[t->rope] = true;
    }
    dop_shape per_position = {2, {{1, DOP_SYM_S}, dop_dim_n(1)}};
    if (b->a->temper.floor > 0)
        b->temper =
            comes_from(b, leaf(b, DOP_OP_weight, "temper", "temper", DOP_TYPE_f32, &per_position), DOP_FROM_TEMPER, 0);
    for (uint32_t i = 0; i < b->a->n_ropes; i++) {
        char name[16];
        dop_shape table = {2, {{1, DOP_SYM_S}, dop_dim_n(b->a->ropes[i].dims)}};
        if (dop_rope_low(b->opt->max_s))
            table.dim[0] = dop_dim_n(dop_rope_rows(b->opt->max_s));
        snprintf(name, sizeof name, "rope.%u", i);
        if (used[i])
            b->ropes[i] = comes_from(b, leaf(b, DOP_OP_weight, name, name, DOP_TYPE_f32, &table), DOP_FROM_ROPE, i);
    }
}

static dop_node_id
embed_step_tokens(builder *b)
{
    set_role(b, "embed");
    const dop_node_id table = b->opt->drafts ? dop_build_draft_embed(b) : (b->embed = weight(b, DOP_W_embed));
    const dop_attr larger[] = {{.i = 0}, {.i = (int64_t)b->a->vocab + b->g->max_t}}; /* rows of features get zeros */
    dop_node_id x = op2(b, DOP_OP_gather, "emb", table, b->tok,
                        b->features || (b->opt->drafts && b->opt->pictures) ? larger : NULL, DOP_TYPE_none);
    if (b->a->embed_width)
        x = op2(b, DOP_OP_matmul, "emb_in", x, weight(b, DOP_W_embed_in), NULL, DOP_TYPE_none);
    x = dop_build_features_of(b, scaled(b, "emb_s", x, b->a->embed_scale, DOP_TYPE_none));
    if (!b->a->encoder.norm_sum)
        x = normalize_stream(b, "emb_n", DOP_W_embed_norm, x);
    if (b->a->learned_positions) {
        dop_node_id p = op2(b, DOP_OP_gather, "pos_emb", weight(b, DOP_W_pos_embed), b->pos, NULL, DOP_TYPE_none);
        x = op2(b, DOP_OP_add, "emb_p", x, p, NULL, DOP_TYPE_none);
    }
    x = dop_build_types(b, x);
    return b->a->encoder.norm_sum ? normalize_stream(b, "emb_n", DOP_W_embed_norm, x) : x;
}

/* Returns the concatenated per-layer inputs of all layers, from the embedding x and a table by token; 0: none. */
static dop_node_id
build_layer_inputs(builder *b, dop_node_id x)
{
    const dop_layer_inputs *p = &b->a->inputs;
    if (p->width == 0)
        return 0;
    set_role(b, "inputs");
    /* A token past the table gets zeros. */
    const dop_attr larger[] = {{.i = 0}, {.i = (int64_t)b->a->vocab + (b->features ? b->g->max_t : 0)}};
    dop_node_id own = op2(b, DOP_OP_gather, "input_emb", weight(b, DOP_W_input_embed), b->tok,
                          p->vocab < b->a->vocab || b->features ? larger : NULL, DOP_TYPE_none);
    own = dop_build_inputs_of(b, own);
    own = scaled(b, "input_emb_s", own, p->scale, DOP_TYPE_none);
    dop_node_id y = op2(b, DOP_OP_matmul, "input_proj", x, weight(b, DOP_W_input_proj), NULL, DOP_TYPE_none);
    y = reshape(b, "input_h", scaled(b, "input_ps", y, p->projected, DOP_TYPE_none), b->a->n_layers, p->width);
    y = reshape(b, "input_r", norm(b, "input_n", DOP_W_input_norm, y), 0, b->a->n_layers * p->width);
    return scaled(b, "inputs", op2(b, DOP_OP_add, "input_sum", y, own, NULL, DOP_TYPE_none), sqrt(0.5), DOP_TYPE_none);
}

static dop_node_id
build_logits(builder *b, dop_node_id x)
{
    const dop_arch *a = b->a;
    if (a->embed_width)
        x = op2(b, DOP_OP_matmul, "emb_out", x, weight(b, DOP_W_embed_out), NULL, DOP_TYPE_none);
    dop_node_id w = a->tied ? b->embed : weight(b, DOP_W_lm_head);
    dop_node_id y = dop_build_output(b, x, w);
    x = a->tied ? y : dop_build_adapted(b, DOP_W_lm_head, w, x, y);
    if (a->head_bias)
        x = op2(b, DOP_OP_add, "logits_b", x, weight(b, DOP_W_lm_head_bias), NULL, DOP_TYPE_none);
    x = scaled(b, "logits_s", x, a->logit_scale, DOP_TYPE_none);
    if (a->logit_softcap > 0) {
        dop_attr cap = {.f = a->logit_softcap};
        x = op1(b, DOP_OP_softcap, "logits_c", x, &cap, DOP_TYPE_none);
    }
    return x;
}

/* Sets the graph's outputs: result x, its arg-max (mapped through `list` of ids; 0: not mapped), hidden states for the drafter
 * (0: none), and states. */
static void
set_graph_outputs(builder *b, dop_node_id x, dop_node_id list, dop_node_id sent)
{
    dop_node_id outs[3] = {x};
    uint32_t n = 1;
    if (b->opt->phase != DOP_PHASE_SCORE || b->opt->mixed)
        outs[n++] = add_node(b, DOP_OP_argmax, "id", (dop_node_id[]){x, list}, list ? 2 : 1, NULL, NULL);
    if (sent)
        outs[n++] = sent;
    for (uint32_t i = 0; i < n && b->status == DOP_OK; i++)
        b->status = dop_graph_output(b->g, outs[i], b->diag);
    for (uint32_t i = 0; i < b->n_states && b->status == DOP_OK; i++)
        b->status = dop_graph_output(b->g, b->states[i], b->diag);
}

/* Builds the head: logits and arg-max, or hidden states, from the residual stream. Sets the graph's outputs. */
static void
build_head(builder *b, dop_node_id x)
{
    set_role(b, DOP_ROLE_HEAD);
    const bool one = b->opt->phase == DOP_PHASE_PREFILL || (b->opt->phase == DOP_PHASE_DECODE && b->opt->invariant);
    dop_node_id sent = 0;
    if (one && !b->opt->invariant && !b->opt->sends)
        x = op1(b, DOP_OP_last_row, "last", x, NULL, DOP_TYPE_none);
    x = norm(b, "final_norm", DOP_W_final_norm, x);
    if (b->opt->sends)
        sent = op1(b, DOP_OP_cast, "hidden", dop_build_joined(b, x), NULL, DOP_TYPE_f32);
    if (one && !b->opt->invariant && b->opt->sends)
        x = op1(b, DOP_OP_last_row, "last", x, NULL, DOP_TYPE_none);
    if (b->opt->encodes)
        x = dop_build_dense(b, x);
    x = b->opt->embeds || b->opt->encodes ? op1(b, DOP_OP_cast, "hidden", x, NULL, DOP_TYPE_f32) : build_logits(b, x);
    if (one && b->opt->invariant)
        x = op1(b, DOP_OP_last_row, "last", x, NULL, DOP_TYPE_none);
    set_graph_outputs(b, x, 0, sent);
}

/* Builds a dop_sharer drafter and its head. x: embedding of the next tokens; h: hidden states. */
static void
build_reading_drafter(builder *b, dop_node_id x, dop_node_id h)
{
    const uint32_t n = b->a->n_layers, last = n + b->a->drafts - 1;
    b->layer = (int32_t)n;
    set_role(b, "draft_in");
    x = op2(b, DOP_OP_concat, "draft_x", x, h, NULL, b->act_type);
    x = op2(b, DOP_OP_matmul, "draft_in", x, weight(b, DOP_W_draft_in), NULL, DOP_TYPE_none);
    for (uint32_t i = n; i <= last; i++)
        x = build_layer(b, i, x, x);
    b->layer = (int32_t)last;
    set_role(b, DOP_ROLE_HEAD);
    x = norm(b, "draft_norm", DOP_W_draft_norm, x);
    const dop_node_id sent = op2(b, DOP_OP_matmul, "draft_hidden", x, weight(b, DOP_W_draft_out), NULL, DOP_TYPE_none),
                      w = weight(b, DOP_W_draft_head);
    b->layer = -1;
    set_graph_outputs(b, dop_build_output(b, x, w), 0, sent);
}

/* Builds the drafting layer (dop_arch.drafts) and its head. x: embedding of the next tokens. */
static void
build_drafting_layer(builder *b, dop_node_id x)
{
    const dop_shape rows = {2, {{1, DOP_SYM_T}, dop_dim_n(b->a->hidden)}};
    const dop_eagle *eagle = &b->a->layers[b->a->n_layers].eagle;
    dop_node_id h = leaf(b, DOP_OP_received, "hidden", "hidden", DOP_TYPE_f32, &rows);
    if (dop_arch_drafts_by_reading(b->a)) {
        build_reading_drafter(b, x, h);
        return;
    }
    b->layer = (int32_t)b->a->n_layers;
    set_role(b, "draft_in");
    const dop_node_id normed = norm(b, "draft_h", DOP_W_draft_hidden_norm, h);
    x = norm(b, "draft_e", DOP_W_draft_embed_norm, x);
    x = op2(b, DOP_OP_concat, "draft_x", x, normed, NULL, b->act_type);
    if (eagle->vocab)
        x = build_layer(b, b->a->n_layers, x, eagle->residual_normed ? normed : h);
    else {
        x = op2(b, DOP_OP_matmul, "draft_in", x, weight(b, DOP_W_draft_in), NULL, DOP_TYPE_none);
        x = build_layer(b, b->a->n_layers, x, x);
    }
    b->layer = (int32_t)b->a->n_layers;
    set_role(b, DOP_ROLE_HEAD);
    dop_node_id last = norm(b, "draft_norm", DOP_W_draft_norm, x);
    dop_node_id sent = op1(b, DOP_OP_cast, "draft_hidden", b->a->drafts_normed ? last : x, NULL, DOP_TYPE_f32);
    b->layer = -1;
    set_role(b, DOP_ROLE_HEAD);
    if (!b->opt->mixed)
        last = op1(b, DOP_OP_last_row, "last", last, NULL, DOP_TYPE_none);
    if (!eagle->vocab) {
        set_graph_outputs(b, build_logits(b, last), 0, sent);
        return;
    }
    dop_node_id list = 0;
    x = dop_build_draft_logits(b, last, &list);
    set_graph_outputs(b, x, list, sent);
}

dop_status
dop_build_graph(const dop_checkpoint *m, const dop_build_options *opt, dop_arena *arena, dop_diag *diag,
                dop_graph *out_graph)
{
    static const char *const names[] = {
        [DOP_PHASE_DECODE] = "decode", [DOP_PHASE_PREFILL] = "prefill", [DOP_PHASE_SCORE] = "score"};
    builder b = {.m = m,
                 .a = &m->arch,
                 .opt = opt,
                 .g = out_graph,
                 .diag = diag,
                 .label = {-1, ""},
                 .layer = -1,
                 .act_type = opt->act_type};
    b.states = dop_arena_alloc(arena, STATES * (size_t)dop_arch_all_layers(&m->arch) * sizeof *b.states);
    b.caches = dop_arena_alloc(arena, dop_arch_all_layers(&m->arch) * sizeof *b.caches);
    if (!b.states || !b.caches)
        return DOP_NO_MEMORY(diag);
    if (m->arch.learned_positions && opt->max_s > m->arch.ctx_train)
        return DOP_FAIL(diag, DOP_E_INPUT,
                        "a context of %u tokens is longer than the %u positions this model has learned; lower it",
                        opt->max_s, m->arch.ctx_train);
    if (m->arch.ctx_limit && opt->max_s > m->arch.ctx_limit)
        return DOP_FAIL(diag, DOP_E_INPUT,
                        "a context of %u tokens is longer than the %u positions for which this model's facts hold; "
                        "lower it",
                        opt->max_s, m->arch.ctx_limit);
    const bool one_row = opt->phase == DOP_PHASE_DECODE && !opt->invariant;
    b.status = dop_graph_init(out_graph, arena, names[opt->phase], one_row ? 1 : opt->max_t, opt->max_s, diag);
    if (opt->max_q > 1)
        out_graph->max_q = opt->max_q;
    out_graph->rows_apart = opt->invariant;
    if (opt->copies > 2) {
        out_graph->copies = opt->copies;
        out_graph->keeps_each = opt->keeps_each;
    }
    if (opt->mixed || opt->embeds)
        out_graph->name = opt->mixed ? "rows" : "embed";
    out_graph->stays = opt->drafts && dop_arch_drafts_by_reading(b.a);
    if (opt->encodes || opt->drafts)
        out_graph->name = opt->encodes ? "encode" : "draft";
    add_step_inputs(&b);
    dop_build_picture_inputs(&b);
    dop_build_encode_inputs(&b);
    dop_build_adapter_factors(&b);
    dop_node_id x = embed_step_tokens(&b);
    if (opt->drafts) {
        build_drafting_layer(&b, x);
        return b.status;
    }
    b.first = x;
    b.inputs = build_layer_inputs(&b, x);
    dop_node_id streams[DOP_MAX_STREAMS];
    if (m->arch.altup.n)
        dop_build_streams(&b, x, streams);
    dop_build_tap(&b, 0, x);
    for (uint32_t i = 0; i < m->arch.n_layers && b.status == DOP_OK; i++) {
        if (m->arch.altup.n)
            build_streams_layer(&b, i, streams);
        else
            x = add_control_vector(&b, i, dop_build_deep(&b, i, build_layer(&b, i, x, x)));
        dop_build_tap(&b, i + 1, x);
    }
    if (m->arch.altup.n)
        x = dop_build_one_stream(&b, streams);
    build_head(&b, x);
    return b.status;
}
