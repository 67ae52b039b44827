/* Mixers with a state of fixed size: short convolution, state space, delta rule. */
#include "frontend/build/build_recurrent.h"
#include "frontend/build/builder.h"

#include <math.h>
#include <stdio.h>

/* Adds the leaf of a state of fixed size, as left by the previous step. */
static dop_node_id
add_old_state(builder *b, const char *role, const dop_shape *shape)
{
    char name[48], node_name[64];
    snprintf(name, sizeof name, "L%d.%s", (int)b->layer, role);
    snprintf(node_name, sizeof node_name, "s.%s", name);
    return leaf(b, DOP_OP_state, node_name, name, DOP_TYPE_f32, shape);
}

/* Writes the new value x of state `old`. sequences: the sequence of each row of x; 0: x is the whole state. */
static void
write_new_state(builder *b, const char *name, dop_node_id old, dop_node_id x, dop_node_id sequences)
{
    b->states[b->n_states++] =
        add_node(b, DOP_OP_state_write, name, (dop_node_id[]){old, x, sequences}, sequences ? 3 : 2, NULL, NULL);
}

static dop_node_id
build_causal_convolution(builder *b, const dop_recurrent *s, dop_node_id x)
{
    const uint32_t channels = dop_conv_channels(s, b->a->hidden);
    dop_want want = {.shape = {2, {dop_dim_n(s->taps), dop_dim_n(channels)}}}, type = {.type = b->act_type};
    dop_shape kept = {3, {{1, DOP_SYM_Q}, dop_dim_n(s->taps - 1), dop_dim_n(channels)}};
    dop_node_id taps = weight(b, DOP_W_taps), old = add_old_state(b, "conv", &kept);
    taps = add_node(b, DOP_OP_reshape, "taps", &taps, 1, NULL, &want);
    dop_node_id srcs[] = {x, old, taps, b->seq, weight(b, DOP_W_taps_bias)};
    dop_node_id y = add_node(b, DOP_OP_short_conv, "conv", srcs, srcs[4] ? 5 : 4, NULL, &type);
    write_new_state(b, "conv_kept", old, x, b->seq);
    return y;
}

/* Scales each head of q or k to length `by`, for the delta rule. The epsilon is added to the sum of squares, as by l2norm in
 * transformers' modeling_qwen3_next.py. */
static dop_node_id
scale_heads_to_length(builder *b, const char *name, dop_node_id x, uint32_t dim, double by)
{
    char stat[16], normed[16];
    snprintf(stat, sizeof stat, "%s_rms", name);
    snprintf(normed, sizeof normed, "%s_n", name);
    dop_node_id k = op1(b, DOP_OP_row_rms, stat, x, &(dop_attr){.f = 1e-6 / dim}, DOP_TYPE_none);
    x = op2(b, DOP_OP_mul, normed, x, k, NULL, DOP_TYPE_none);
    return scaled(b, name, x, by / sqrt(dim), DOP_TYPE_none);
}

/* Builds the linear recurrence of all heads: [T,H,P] from the convolution's result, time steps dt [T,H] and, for a delta rule,
 * learning rates beta (0: none). Also writes the state. */
static dop_node_id
build_linear_scan(builder *b, const dop_recurrent *s, dop_node_id mixed, dop_node_id dt, dop_node_id beta)
{
    const uint32_t values = s->n_heads * s->head_dim, keys = s->n_groups * s->state_dim;
    const dop_shape kept = {4,
                            {{1, DOP_SYM_Q}, dop_dim_n(s->n_heads), dop_dim_n(s->head_dim), dop_dim_n(s->state_dim)}};
    dop_want one = {.shape = {3, {dop_dim_n(1), dop_dim_n(s->n_heads), dop_dim_n(1)}}}, rates = one;
    dop_node_id v = reshape(b, "svh", slice(b, "sv", mixed, s->delta ? 2 * keys : 0, values), s->n_heads, s->head_dim);
    dop_node_id k, q, x = v;
    if (s->selective) {
        k = norm(b, "skn", DOP_W_key_norm, project(b, DOP_W_mix_k, mixed));
        q = norm(b, "sqn", DOP_W_query_norm, project(b, DOP_W_mix_q, mixed));
    } else {
        k = slice(b, "sk", mixed, s->delta ? keys : values, keys);
        q = slice(b, "sq", mixed, s->delta ? 0 : values + keys, keys);
    }
    k = reshape(b, "skh", k, s->n_groups, s->state_dim);
    q = reshape(b, "sqh", q, s->n_groups, s->state_dim);
    dop_node_id rate = op1(b, DOP_OP_exp, "rate", weight(b, DOP_W_decay), NULL, DOP_TYPE_none), steps = dt;
    if (s->selective || s->each) {
        rates.shape.dim[2] = dop_dim_n(s->selective ? s->state_dim : 1);
        rate = add_node(b, DOP_OP_reshape, "rates", &rate, 1, NULL, &rates);
        steps = reshape(b, "dts", dt, s->n_heads, s->each ? s->state_dim : 1);
    }
    rate = op2(b, DOP_OP_mul, "fade", steps, rate, NULL, DOP_TYPE_none);
    rate = op1(b, DOP_OP_exp, "decay", scaled(b, "fades", rate, -1, DOP_TYPE_none), NULL, DOP_TYPE_none);
    if (s->delta) {
        q = scale_heads_to_length(b, "squ", q, s->state_dim, 1 / sqrt(s->state_dim));
        k = scale_heads_to_length(b, "sku", k, s->state_dim, 1);
    } else {
        x = op2(b, DOP_OP_mul, "dtx", v, reshape(b, "dth", dt, s->n_heads, 1), NULL, DOP_TYPE_none);
    }
    dop_node_id old = add_old_state(b, "state", &kept);
    dop_node_id srcs[] = {q, k, x, rate, old, b->seq, beta};
    const dop_attr in_turn = {.i = s->in_turn};
    dop_node_id y = add_node(b, DOP_OP_linear_scan, "scan", srcs, beta ? 7 : 6, &in_turn, NULL);
    dop_node_id after = add_node(b, DOP_OP_linear_scan_state, "scanned", srcs, beta ? 7 : 6, &in_turn, NULL);
    write_new_state(b, "state_kept", old, after, 0);
    if (!s->skip)
        return y;
    dop_node_id skip = weight(b, DOP_W_skip);
    skip = op2(b, DOP_OP_mul, "skipped", v, add_node(b, DOP_OP_reshape, "skip", &skip, 1, NULL, &one), NULL,
               DOP_TYPE_none);
    return op2(b, DOP_OP_add, "scan_d", y, skip, NULL, DOP_TYPE_none);
}

/* Normalizes all heads of a row, or each group of heads, with gate z applied before or after: [T, heads * head_dim]. */
static dop_node_id
normalize_gated_rows(builder *b, const dop_recurrent *s, dop_node_id y, dop_node_id z)
{
    const dop_type type = b->act_type;
    const uint32_t width = s->n_heads * s->head_dim;
    if (!s->norm_first)
        y = op2(b, DOP_OP_mul, "mix_g", y, z, NULL, type);
    if (s->norm.kind != DOP_NORM_NONE && s->norm_groups) {
        y = reshape(b, "mix_p", reshape(b, "mix_r", y, 0, width), s->n_groups, width / s->n_groups);
        dop_node_id k = op1(b, DOP_OP_row_rms, "mix_rms", y, &(dop_attr){.f = s->norm.eps}, DOP_TYPE_none);
        y = reshape(b, "mix_u", op2(b, DOP_OP_mul, "mix_n", y, k, NULL, DOP_TYPE_none), 0, width);
        y = op2(b, DOP_OP_mul, "mix_norm", y, weight(b, DOP_W_mix_norm), NULL, type);
    } else {
        y = norm(b, "mix_norm", DOP_W_mix_norm, reshape(b, "mix_r", y, 0, width));
    }
    if (s->norm_first)
        y = op2(b, DOP_OP_mul, "mix_g", y, reshape(b, "zr", z, 0, width), NULL, type);
    return y;
}

dop_node_id
dop_build_recurrent(builder *b, const dop_recurrent *s, dop_node_id in)
{
    const dop_type type = b->act_type;
    dop_node_id y, z, dt, beta = 0;
    if (s->n_heads == 0) {
        dop_node_id gate = project(b, DOP_W_conv_b, in), c = project(b, DOP_W_conv_c, in);
        y = op2(b, DOP_OP_mul, "conv_bx", gate, project(b, DOP_W_conv_x, in), NULL, type);
        y = op2(b, DOP_OP_mul, "conv_cx", build_causal_convolution(b, s, y), c, NULL, type);
        set_role(b, "mix_out");
        return project(b, DOP_W_mix_out, y);
    }
    in = scaled(b, "mix_s", in, s->in_scale, type);
    z = project(b, DOP_W_mix_z, s->gate_rank ? project(b, DOP_W_mix_z_a, in) : in);
    y = project(b, DOP_W_mix_in, in);
    if (s->selective) /* dt and the other inputs are projected from the convolution's result */
        y = in = op1(b, DOP_OP_silu, "mixed", build_causal_convolution(b, s, y), NULL, type);
    dt = s->dt_rank ? norm(b, "dt_norm", DOP_W_dt_norm, project(b, DOP_W_mix_dt_a, in)) : in;
    const dop_node_id by = weight(b, DOP_W_mix_dt);
    dt = dop_build_adapted(b, DOP_W_mix_dt, by, dt, op2(b, DOP_OP_matmul, "mix_dt", dt, by, NULL, DOP_TYPE_none));
    dop_node_id dt_in = weight(b, DOP_W_mix_dt_in);
    if (dt_in)
        dt = op2(b, DOP_OP_add, "mix_dti", dt, dt_in, NULL, DOP_TYPE_none);
    dt = scaled(b, "mix_dts", dt, s->dt_scale, DOP_TYPE_none);
    dt = op2(b, DOP_OP_add, "mix_dtb", dt, weight(b, DOP_W_mix_dt_bias), NULL, DOP_TYPE_none);
    dt = op1(b, DOP_OP_softplus, "dt", dt, NULL, DOP_TYPE_none);
    if (s->dt_least > 0)
        dt = op1(b, DOP_OP_at_least, "dt_l", dt, &(dop_attr){.f = s->dt_least}, DOP_TYPE_none);
    if (s->delta)
        beta = op1(b, DOP_OP_sigmoid, "beta", project(b, DOP_W_mix_beta, in), NULL, DOP_TYPE_none);
    beta = beta ? scaled(b, "betas", beta, s->beta_scale, DOP_TYPE_none) : 0;
    if (!s->selective)
        y = op1(b, DOP_OP_silu, "mixed", build_causal_convolution(b, s, y), NULL, type);
    set_role(b, "scan");
    y = build_linear_scan(b, s, y, dt, beta);
    z = reshape(b, "zh", scaled(b, "zs", z, s->gate_scale, type), s->n_heads, s->head_dim);
    z = op1(b, s->gate_sigmoid ? DOP_OP_sigmoid : DOP_OP_silu, "zg", z, NULL, type);
    if (s->norm_rows) {
        y = normalize_gated_rows(b, s, y, z);
    } else {
        y = op2(b, DOP_OP_mul, "mix_g", norm(b, "mix_norm", DOP_W_mix_norm, y), z, NULL, type);
        y = reshape(b, "mix_r", y, 0, s->n_heads * s->head_dim);
    }
    set_role(b, "mix_out");
    return project(b, DOP_W_mix_out, y);
}
