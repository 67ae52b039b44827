/* Random graphs for test_kernels_random.c and fuzz_graph.c.  Shapes come from small lists, so that many graphs share
 * kernels: compiling them is what the time goes to.  Small graphs share more: fewer token counts, one type of weights in
 * a graph, attention, whose kernels take longest, or a state that is replaced in every 25th only, and nothing of experts
 * and recurrences, which have tests of their own on the device and are in half of the large graphs.  Values stay near 1,
 * so that a difference is a fault and not lost precision. */
#include "ir/graph/graph_add.h"
#include "ir/region/graph_regions.h"
#include "ir/syntax/text.h"
#include "tests/unit/kernels_util.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_VALUES = 48, VOCAB = 24, POSITIONS = 200 };

typedef struct value {
    dop_node_id id;
    uint32_t cols; /* of [T, cols] */
    uint32_t uses;
} value;

typedef struct maker {
    dop_graph *g;
    uint64_t state;
    dop_node_id tok, pos, seq;
    uint32_t n, n_leaves, n_caches;
    value v[MAX_VALUES]; /* all of rank 2, one row per token */
    dop_type type;       /* of all weights; none: any */
    bool all;            /* steps of experts and recurrences too, and keys are normed: an f16 cache rounds large ones */
    bool failed;
} maker;

static uint32_t
pick(maker *m, uint32_t n)
{
    uint64_t z = m->state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (uint32_t)((z ^ (z >> 31)) >> 33) % n;
}

static dop_node_id
add(maker *m, dop_op op, const dop_node_id *srcs, uint32_t n, const dop_attr *attrs, const dop_want *want)
{
    dop_node_id id = 0;
    dop_diag diag = {0};
    if (m->failed || dop_graph_add(m->g, op, NULL, srcs, n, attrs, want, &diag, &id) != DOP_OK)
        m->failed = true;
    return id;
}

static dop_node_id
op1(maker *m, dop_op op, dop_node_id a, dop_attr attr)
{
    return add(m, op, &a, 1, (dop_attr[2]){attr, {.f = 0}}, NULL);
}

static dop_node_id
op2(maker *m, dop_op op, dop_node_id a, dop_node_id b)
{
    return add(m, op, (dop_node_id[2]){a, b}, 2, (dop_attr[2]){{.f = 1e-5}, {.f = 0}}, NULL);
}

static dop_node_id
weight_of(maker *m, const char *kind, dop_type type, dop_shape shape)
{
    char name[32];
    dop_attr attr = {.s = name};
    dop_want want = {type, shape};
    int k = 0;
    for (; kind[k]; k++)
        name[k] = kind[k];
    name[k] = 0;
    uint32_t number = m->n_leaves++;
    for (char digits[2] = {(char)('0' + number / 10 % 10), (char)('0' + number % 10)}, *d = digits; d < digits + 2; d++)
        name[k++] = *d;
    name[k] = 0;
    return add(m, DOP_OP_weight, NULL, 0, &attr, &want);
}

static dop_node_id
weight(maker *m, const char *kind, dop_type type, uint32_t rank, uint32_t a, uint32_t b)
{
    return weight_of(m, kind, type, (dop_shape){rank, {dop_dim_n(a), dop_dim_n(b)}});
}

static value *
any(maker *m)
{
    /* Mostly late ones, so that graphs grow long; sometimes any, so that they have diamonds. */
    value *v = &m->v[pick(m, 3) ? m->n - 1 - pick(m, m->n < 3 ? m->n : 3) : pick(m, m->n)];
    v->uses++;
    return v;
}

static value *
like(maker *m, uint32_t cols)
{
    for (uint32_t tries = 0; tries < 8; tries++) {
        value *v = &m->v[pick(m, m->n)];
        if (v->cols == cols) {
            v->uses++;
            return v;
        }
    }
    return NULL;
}

static void
keep(maker *m, dop_node_id id, uint32_t cols)
{
    if (m->n < MAX_VALUES)
        m->v[m->n++] = (value){id, cols, 0};
}

static dop_type
float_type(maker *m)
{
    static const dop_type types[] = {DOP_TYPE_f32, DOP_TYPE_f16, DOP_TYPE_bf16};
    return m->type != DOP_TYPE_none ? m->type : types[pick(m, 3)];
}

/* Of a product's weights: floats, or any type in blocks. */
static dop_type
stored_type(maker *m)
{
    if (m->type != DOP_TYPE_none || pick(m, 2))
        return float_type(m);
    uint32_t n = 0;
    dop_type blocks[DOP_TYPE_COUNT];
    for (int t = 0; t < DOP_TYPE_COUNT; t++)
        if (dop_type_of((dop_type)t)->kind == DOP_KIND_QUANT)
            blocks[n++] = (dop_type)t;
    return blocks[pick(m, n)];
}

static dop_node_id
reshape(maker *m, dop_node_id id, uint32_t heads, uint32_t dim)
{
    dop_want want = {DOP_TYPE_none, {heads ? 3 : 2, {{1, DOP_SYM_T}, dop_dim_n(heads ? heads : dim), dop_dim_n(dim)}}};
    return add(m, DOP_OP_reshape, &id, 1, NULL, &want);
}

/* --- steps ------------------------------------------------------------------------------------------------------------ */

static void
unary(maker *m)
{
    static const dop_op ops[] = {DOP_OP_silu,    DOP_OP_gelu,    DOP_OP_gelu_tanh, DOP_OP_relu,
                                 DOP_OP_relu2,   DOP_OP_sigmoid, DOP_OP_tanh,      DOP_OP_softplus,
                                 DOP_OP_softcap, DOP_OP_scale,   DOP_OP_offset,    DOP_OP_exp};
    const value *v = any(m);
    uint32_t cols = v->cols;
    dop_node_id x = v->id;
    if (pick(m, 8) == 0) { /* the one that takes learned values */
        dop_node_id y = op1(m, DOP_OP_tanh, x, (dop_attr){.f = 0}), one = weight(m, "v", float_type(m), 1, 1, 1);
        keep(m, add(m, DOP_OP_xielu, (dop_node_id[]){y, one, one, one}, 4, NULL, NULL), cols);
        return;
    }
    dop_op op = ops[pick(m, sizeof ops / sizeof *ops)];
    dop_attr attr = {.f = op == DOP_OP_softcap ? 4 : op == DOP_OP_scale ? -0.75 : 0.5};
    if (op == DOP_OP_exp || op == DOP_OP_relu2)
        x = op1(m, DOP_OP_tanh, x, (dop_attr){.f = 0});
    keep(m, op1(m, op, x, attr), cols);
}

static void
binary(maker *m)
{
    static const dop_op ops[] = {DOP_OP_add, DOP_OP_sub, DOP_OP_mul, DOP_OP_add, DOP_OP_div};
    const value *a = any(m), *b = like(m, a->cols);
    dop_op op = ops[pick(m, 5)];
    if (!b)
        return;
    dop_node_id x = a->id, y = b->id;
    uint32_t cols = a->cols;
    if (op == DOP_OP_mul || op == DOP_OP_div)
        y = op1(m, DOP_OP_sigmoid, y, (dop_attr){.f = 0});
    if (op == DOP_OP_div)
        y = op1(m, DOP_OP_offset, y, (dop_attr){.f = 0.5});
    keep(m, op2(m, op, x, y), cols);
}

static void
broadcast(maker *m)
{
    const value *v = any(m);
    uint32_t cols = v->cols;
    dop_node_id w = weight(m, "v", float_type(m), 1, cols, 1), id = v->id;
    if (pick(m, 3) == 0)
        w = op1(m, DOP_OP_offset, w, (dop_attr){.f = 1});
    keep(m, op2(m, pick(m, 2) ? DOP_OP_mul : DOP_OP_add, id, w), cols);
}

static void
norm(maker *m)
{
    const value *v = any(m);
    uint32_t cols = v->cols, kind = pick(m, 6);
    dop_node_id x = v->id;
    dop_attr eps = {.f = 1e-3};
    if (kind < 2) {
        dop_node_id w = weight(m, "v", float_type(m), 1, cols, 1);
        dop_attr attrs[2] = {eps, {.f = kind}};
        keep(m, add(m, DOP_OP_rmsnorm, (dop_node_id[2]){x, w}, 2, attrs, NULL), cols);
    } else if (kind == 2) {
        dop_node_id w = weight(m, "v", DOP_TYPE_f32, 1, cols, 1), b = weight(m, "v", DOP_TYPE_f32, 1, cols, 1);
        keep(m, add(m, DOP_OP_layernorm, (dop_node_id[3]){x, w, b}, 3, &eps, NULL), cols);
    } else if (kind == 3) {
        keep(m, op2(m, DOP_OP_mul, x, op1(m, DOP_OP_row_rms, x, eps)), cols);
    } else if (kind == 4) {
        keep(m, op1(m, DOP_OP_scale, op1(m, DOP_OP_softmax, x, eps), (dop_attr){.f = cols}), cols);
    } else {
        dop_node_id mean = op1(m, DOP_OP_row_mean, x, eps), istd = op1(m, DOP_OP_row_istd, x, eps);
        keep(m, op2(m, DOP_OP_mul, op2(m, DOP_OP_sub, x, mean), istd), cols);
    }
}

static uint32_t
width(maker *m)
{
    static const uint32_t widths[] = {32, 32, 32, 32, 33, 7};
    return widths[pick(m, sizeof widths / sizeof *widths)];
}

static void
matmul(maker *m)
{
    const value *v = any(m);
    uint32_t cols = v->cols, out = width(m);
    dop_node_id x = v->id;
    keep(m, op2(m, DOP_OP_matmul, x, weight(m, "w", stored_type(m), 2, out, cols)), out);
}

/* Siblings: q, k, v of different widths, or a gate and its partner. */
static void
siblings(maker *m)
{
    const value *v = any(m);
    uint32_t cols = v->cols, out = width(m);
    dop_node_id x = v->id, a = op2(m, DOP_OP_matmul, x, weight(m, "w", DOP_TYPE_f16, 2, out, cols));
    if (pick(m, 2)) {
        dop_node_id b = op2(m, DOP_OP_matmul, x, weight(m, "w", DOP_TYPE_f16, 2, out, cols));
        keep(m, op2(m, DOP_OP_mul, op1(m, pick(m, 2) ? DOP_OP_silu : DOP_OP_gelu_tanh, a, (dop_attr){.f = 0}), b), out);
        return;
    }
    uint32_t other = width(m);
    keep(m, a, out);
    keep(m, op2(m, DOP_OP_matmul, x, weight(m, "w", stored_type(m), 2, other, cols)), other);
}

static void
slice(maker *m)
{
    const value *v = any(m);
    uint32_t start = pick(m, 2) ? 8 : 3, cols = pick(m, 2) ? 16 : 7;
    if (start + cols > v->cols)
        return;
    dop_want want = {DOP_TYPE_none, {2, {{1, DOP_SYM_T}, dop_dim_n(cols)}}};
    dop_node_id id = v->id;
    id = add(m, DOP_OP_slice, &id, 1, &(dop_attr){.i = start}, &want);
    keep(m, op1(m, DOP_OP_scale, id, (dop_attr){.f = 2}), cols);
}

static dop_node_id
rope(maker *m, dop_node_id x, uint32_t dims)
{
    dop_want want = {DOP_TYPE_f32, {2, {{1, DOP_SYM_S}, dop_dim_n(dims)}}};
    dop_node_id table = add(m, DOP_OP_weight, NULL, 0, &(dop_attr){.s = dims == 8 ? "t.rope8" : "t.rope16"}, &want);
    dop_attr attrs[3] = {{.i = dims}, {.i = pick(m, 2)}, {.i = 0}};
    return add(m, DOP_OP_rope, (dop_node_id[3]){x, m->pos, table}, 3, attrs, NULL);
}

static dop_node_id
head_norm(maker *m, dop_node_id x, uint32_t dim)
{
    dop_attr attrs[2] = {{.f = 1e-3}, {.f = 0}};
    return add(m, DOP_OP_rmsnorm, (dop_node_id[2]){x, weight(m, "v", DOP_TYPE_f32, 1, dim, 1)}, 2, attrs, NULL);
}

/* Something by heads: a norm, a rotation, or both. */
static void
by_heads(maker *m)
{
    const value *v = any(m);
    uint32_t cols = v->cols;
    if (cols % 16)
        return;
    dop_node_id x = reshape(m, v->id, cols / 16, 16);
    if (pick(m, 2))
        x = head_norm(m, x, 16);
    if (pick(m, 3))
        x = rope(m, x, pick(m, 2) ? 8 : 16);
    keep(m, reshape(m, op1(m, DOP_OP_scale, x, (dop_attr){.f = 1.25}), 0, cols), cols);
}

static dop_node_id
cached(maker *m, dop_node_id x, dop_type type, uint32_t heads)
{
    char name[4] = {'c', (char)('a' + m->n_caches++), 0, 0};
    dop_want want = {type, {4, {{1, DOP_SYM_Q}, {1, DOP_SYM_S}, dop_dim_n(heads), dop_dim_n(16)}}};
    dop_node_id cache = add(m, DOP_OP_state, NULL, 0, (dop_attr[2]){{.s = name}, {.i = DOP_STATE_append}}, &want);
    return add(m, DOP_OP_state_write, (dop_node_id[4]){cache, x, m->pos, m->seq}, 4, NULL, NULL);
}

static dop_node_id
replaced(maker *m, dop_type type, dop_shape shape)
{
    char name[4] = {'r', (char)('a' + m->n_caches++ % 26), 0, 0};
    dop_want want = {type, shape};
    return add(m, DOP_OP_state, NULL, 0, (dop_attr[2]){{.s = name}, {.i = DOP_STATE_replace}}, &want);
}

/* A state that the step replaces: the row of the sequence as it was, and of several rows of the step the last one's. */
static void
recurrent(maker *m)
{
    const value *v = any(m);
    uint32_t cols = v->cols;
    dop_node_id x = v->id;
    dop_node_id state =
        replaced(m, pick(m, 3) ? DOP_TYPE_f32 : DOP_TYPE_f16, (dop_shape){2, {{1, DOP_SYM_Q}, dop_dim_n(cols)}});
    dop_node_id old = add(m, DOP_OP_gather, (dop_node_id[2]){state, m->seq}, 2, NULL, NULL);
    dop_node_id new = op1(m, DOP_OP_tanh, op2(m, DOP_OP_add, x, old), (dop_attr){.f = 0});
    add(m, DOP_OP_state_write, (dop_node_id[3]){state, new, m->seq}, 3, NULL, NULL);
    keep(m, new, cols);
}

static void
attention(maker *m)
{
    const value *v = any(m);
    uint32_t cols = v->cols, kv = 1 + pick(m, 2), heads = kv * (1 + pick(m, 2));
    dop_node_id x = v->id, part[3];
    bool normed = pick(m, 2) || m->all, rotated = pick(m, 3);
    dop_type type = pick(m, 2) ? DOP_TYPE_f16 : DOP_TYPE_f32;
    for (uint32_t i = 0; i < 3; i++) {
        uint32_t h = i == 0 ? heads : kv;
        part[i] = op2(m, DOP_OP_matmul, x, weight(m, "w", DOP_TYPE_f16, 2, h * 16, cols));
        part[i] = reshape(m, part[i], h, 16);
        if (normed && i < 2)
            part[i] = head_norm(m, part[i], 16);
        if (rotated && i < 2)
            part[i] = rope(m, part[i], 16);
        if (i > 0)
            part[i] = cached(m, part[i], type, kv);
    }
    dop_node_id srcs[6] = {part[0], part[1], part[2], m->pos, m->seq, 0};
    uint32_t n = 5;
    if (pick(m, 4) == 0)
        srcs[n++] = weight(m, "v", DOP_TYPE_f32, 1, heads, 1);
    dop_attr attrs[DOP_MAX_ATTRS] = {
        {.f = 0.25}, {.i = pick(m, 2) ? 0 : 9}, {.f = pick(m, 3) ? 0 : 8}, {0}, {.i = pick(m, 4) ? 0 : 8}};
    dop_node_id a = add(m, DOP_OP_attention, srcs, n, attrs, NULL);
    keep(m, reshape(m, a, 0, heads * 16), heads * 16);
}

static void
beside(maker *m)
{
    const value *a = any(m), *b = any(m);
    uint32_t cols = a->cols + b->cols;
    if (cols <= 128)
        keep(m, op2(m, DOP_OP_concat, a->id, b->id), cols);
}

/* A product by expert of x [T,cols] or [T,k,cols], with the bias that its expert has or without. */
static dop_node_id
by_expert(maker *m, dop_node_id x, dop_node_id ids, uint32_t experts, uint32_t out, uint32_t cols)
{
    dop_shape shape = {3, {dop_dim_n(experts), dop_dim_n(out), dop_dim_n(cols)}};
    dop_node_id w = weight_of(m, "w", float_type(m), shape);
    dop_node_id y = add(m, DOP_OP_matmul_at, (dop_node_id[3]){x, w, ids}, 3, NULL, NULL);
    if (pick(m, 3))
        return y;
    dop_node_id bias = weight(m, "t", pick(m, 2) ? DOP_TYPE_f32 : DOP_TYPE_f16, 2, experts, out);
    return op2(m, DOP_OP_add, y, add(m, DOP_OP_gather, (dop_node_id[2]){bias, ids}, 2, NULL, NULL));
}

/* A router, some of its experts, and their sum; weighted before or after the choice, and with a gate or without. */
static void
experts(maker *m)
{
    const value *v = any(m);
    uint32_t cols = v->cols, out = width(m), hidden = pick(m, 2) ? 24 : 7, grouped = pick(m, 4) == 0;
    uint32_t n = grouped ? 8 : pick(m, 2) ? 4 : 6, k = 1 + pick(m, 3), softmax = pick(m, 3);
    dop_node_id x = v->id, scores = op2(m, DOP_OP_matmul, x, weight(m, "w", DOP_TYPE_f32, 2, n, cols));
    dop_attr none = {.f = 0}, attrs[4] = {{.i = k}, {.i = 1}, {.i = 1}, {.i = 1}};
    if (softmax == 0)
        scores = op1(m, pick(m, 2) ? DOP_OP_softmax : DOP_OP_sigmoid, scores, none);
    if (grouped)
        attrs[1].i = 4, attrs[2].i = 1 + pick(m, 2), attrs[3].i = 2;
    dop_node_id ids = add(m, DOP_OP_top_k, &scores, 1, attrs, NULL), share = op2(m, DOP_OP_pick, scores, ids);
    if (softmax > 0)
        share = op1(m, softmax == 1 ? DOP_OP_softmax : DOP_OP_sigmoid, share, none);
    dop_node_id h = by_expert(m, x, ids, n, hidden, cols);
    h = op1(m, pick(m, 2) ? DOP_OP_silu : DOP_OP_gelu_tanh, h, none);
    if (pick(m, 2))
        h = op2(m, DOP_OP_mul, h, by_expert(m, x, ids, n, hidden, cols));
    h = op2(m, DOP_OP_weighted_sum, by_expert(m, h, ids, n, out, hidden), share);
    /* Else products of small values become ever smaller, and what an activation rounds off is all of them. */
    keep(m, op1(m, DOP_OP_offset, h, (dop_attr){.f = 1}), out);
}

/* A causal convolution of each column, which keeps the rows that the next step needs. */
static void
convolution(maker *m)
{
    const value *v = any(m);
    uint32_t cols = v->cols, taps = 2 + pick(m, 3);
    dop_node_id x = v->id, w = weight(m, "w", DOP_TYPE_f32, 2, taps, cols);
    dop_node_id state =
        replaced(m, DOP_TYPE_f32, (dop_shape){3, {{1, DOP_SYM_Q}, dop_dim_n(taps - 1), dop_dim_n(cols)}});
    dop_node_id srcs[5] = {x, state, w, m->seq, 0};
    uint32_t n = 4;
    if (pick(m, 2))
        srcs[n++] = weight(m, "v", DOP_TYPE_f32, 1, cols, 1);
    dop_node_id y = add(m, DOP_OP_short_conv, srcs, n, NULL, NULL);
    add(m, DOP_OP_state_write, (dop_node_id[3]){state, x, m->seq}, 3, NULL, NULL);
    keep(m, pick(m, 2) ? op1(m, DOP_OP_silu, y, (dop_attr){.f = 0}) : y, cols);
}

/* A linear recurrence, with the delta rule or without: keys have a length near 1, so that the state stays as it is large. */
static void
scan(maker *m)
{
    const value *v = any(m);
    uint32_t cols = v->cols, groups = 1 + pick(m, 2), heads = groups * (1 + pick(m, 2)), delta = pick(m, 2);
    const uint32_t p = 8, n = 16;
    dop_node_id x = v->id, part[3];
    dop_attr none = {.f = 0}, turn = {.i = pick(m, 2)};
    for (uint32_t i = 0; i < 3; i++) {
        uint32_t h = i < 2 ? groups : heads, dim = i < 2 ? n : p;
        part[i] = op2(m, DOP_OP_matmul, x, weight(m, "w", float_type(m), 2, h * dim, cols));
        part[i] = reshape(m, part[i], h, dim);
    }
    dop_node_id length = op1(m, DOP_OP_row_rms, part[1], (dop_attr){.f = 1e-3});
    dop_node_id k = op1(m, DOP_OP_scale, op2(m, DOP_OP_mul, part[1], length), (dop_attr){.f = 0.25});
    dop_node_id decay = op2(m, DOP_OP_matmul, x, weight(m, "w", float_type(m), 2, heads, cols));
    decay = op1(m, DOP_OP_sigmoid, decay, none);
    dop_node_id state =
        replaced(m, DOP_TYPE_f32, (dop_shape){4, {{1, DOP_SYM_Q}, dop_dim_n(heads), dop_dim_n(p), dop_dim_n(n)}});
    dop_node_id srcs[7] = {part[0], k, part[2], decay, state, m->seq, 0};
    if (delta) {
        dop_node_id beta = op2(m, DOP_OP_matmul, x, weight(m, "w", float_type(m), 2, heads, cols));
        srcs[6] = op1(m, DOP_OP_sigmoid, beta, none);
    }
    dop_node_id y = add(m, DOP_OP_linear_scan, srcs, 6 + delta, &turn, NULL);
    dop_node_id after = add(m, DOP_OP_linear_scan_state, srcs, 6 + delta, &turn, NULL);
    add(m, DOP_OP_state_write, (dop_node_id[2]){state, after}, 2, NULL, NULL);
    if (pick(m, 2))
        y = head_norm(m, y, p);
    keep(m, reshape(m, op1(m, DOP_OP_scale, y, (dop_attr){.f = 0.5}), 0, heads * p), heads * p);
}

/* The end of a step: one row, logits, an id.  Picking an id advances the step record, so that nothing may be left to
 * compute: the graph has no other outputs. */
static void
head(maker *m)
{
    dop_diag diag = {0};
    uint32_t cols = m->v[m->n - 1].cols;
    dop_node_id x = m->v[m->n - 1].id;
    x = op1(m, DOP_OP_last_row, x, (dop_attr){.f = 0});
    x = op2(m, DOP_OP_matmul, x, weight(m, "w", float_type(m), 2, pick(m, 2) ? 150 : 40, cols));
    if (pick(m, 2))
        x = op1(m, DOP_OP_softcap, x, (dop_attr){.f = 4});
    dop_node_id id = op1(m, DOP_OP_argmax, x, (dop_attr){.f = 0});
    m->failed = m->failed || dop_graph_output(m->g, x, &diag) != DOP_OK || dop_graph_output(m->g, id, &diag) != DOP_OK;
}

static void
begin(maker *m)
{
    dop_want ids = {DOP_TYPE_u32, {1, {{1, DOP_SYM_T}}}};
    m->tok = add(m, DOP_OP_input, NULL, 0, &(dop_attr){.s = "tokens"}, &ids);
    m->pos = add(m, DOP_OP_input, NULL, 0, &(dop_attr){.s = "positions"}, &ids);
    m->seq = add(m, DOP_OP_input, NULL, 0, &(dop_attr){.s = "sequences"}, &ids);
    for (uint32_t i = 0, n = 1 + pick(m, 2); i < n; i++) {
        uint32_t cols = i ? width(m) : 32;
        dop_node_id table = weight(m, "t", float_type(m), 2, VOCAB, cols);
        dop_node_id x = add(m, DOP_OP_gather, (dop_node_id[2]){table, m->tok}, 2, NULL, NULL);
        if (pick(m, 2))
            x = op1(m, DOP_OP_scale, x, (dop_attr){.f = 1.5});
        keep(m, x, cols);
    }
}

static void
finish(maker *m)
{
    dop_diag diag = {0};
    uint32_t outs = 0;
    if (pick(m, 5) == 0) {
        head(m);
        return;
    }
    /* Everything that nothing reads, and sometimes what something does. */
    for (uint32_t i = m->n; i-- > 0 && outs < 4;) {
        dop_node_id id = m->v[i].id;
        if (m->v[i].uses > 0 && pick(m, 8) != 0 && !(i == m->n - 1 && outs == 0))
            continue;
        if (dop_op_of(dop_node_at(m->g, id)->op)->traits & DOP_VIEW)
            id = op1(m, DOP_OP_scale, id, (dop_attr){.f = 1.125});
        m->failed = m->failed || dop_graph_output(m->g, id, &diag) != DOP_OK;
        outs++;
    }
}

void
kernel_random_graph(uint64_t seed, bool small, dop_buf *out_text)
{
    typedef void step(maker *);
    static step *const steps[] = {unary,     unary,     unary,       binary, binary,   binary,  broadcast, broadcast,
                                  norm,      norm,      matmul,      matmul, siblings, slice,   by_heads,  by_heads,
                                  recurrent, attention, convolution, scan,   experts,  experts, beside};
    enum { N_STEPS = sizeof steps / sizeof *steps, N_SMALL = 16, N_PLAIN = 18 };
    static const uint32_t tokens[] = {1, 1, 5, 5, 7, 9};
    dop_arena arena;
    dop_graph g;
    dop_diag diag = {0};
    maker m = {.g = &g, .state = seed * 0x2545f4914f6cdd1du + 1};
    dop_arena_init(&arena);
    m.failed = dop_graph_init(&g, &arena, "random", tokens[pick(&m, small ? 3 : 6)], POSITIONS, &diag) != DOP_OK;
    m.all = !small && seed / 8 % 2; /* every target has both kinds */
    if (small)
        m.type = float_type(&m);
    begin(&m);
    for (uint32_t i = 0, n = 1 + pick(&m, seed % 8 == 0 ? 9 : 4); i < n && !m.failed; i++)
        steps[pick(&m, small ? N_SMALL : m.all ? N_STEPS : N_PLAIN)](&m);
    if (small && (seed % 25 == 5 || seed % 25 == 15)) {
        (seed % 25 == 5 ? attention : recurrent)(&m);
        steps[pick(&m, N_SMALL)](&m);
    }
    finish(&m);
    if (m.failed || dop_graph_compact(&g, &diag) != DOP_OK || dop_graph_verify(&g, "random", &diag) != DOP_OK)
        dop_buf_printf(out_text, "# seed %llu gives no graph: %s\n", (unsigned long long)seed, diag.message);
    else
        dop_graph_print(&g, out_text);
    dop_arena_finish(&arena);
}
