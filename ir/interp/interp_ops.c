/* Every op in plain C: f32 values with f64 accumulation.  Written to be verified by reading, not for speed.  Only matmul is
 * written for speed, because models spend most time in it. */
#include "ir/interp/interp_ops.h"

#include "ir/graph/cache_row.h"
#include "ir/graph/dims.h"
#include "ir/interp/interp_access.h"
#include "ir/interp/interp_index.h"
#include "ir/interp/interp_moments.h"
#include "ir/interp/interp_scan.h"
#include "ir/interp/interp_util.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static double
attr_f(const dop_interp_node *n, dop_attr_id a)
{
    return dop_node_f(n->g, n->id, a);
}

/* ---- element-wise ---- */

static double
apply_binary(dop_op op, double a, double b)
{
    switch (op) {
    case DOP_OP_add:
        return a + b;
    case DOP_OP_sub:
        return a - b;
    case DOP_OP_mul:
        return a * b;
    default:
        return a / b;
    }
}

/* attr: attribute `by` or `cap`.  NaN must remain NaN: --check marks values that were not computed with it. */
static double
apply_unary(dop_op op, double x, double attr)
{
    switch (op) {
    case DOP_OP_scale:
        return x * attr;
    case DOP_OP_offset:
        return x + attr;
    case DOP_OP_silu:
        return x / (1.0 + exp(-x));
    case DOP_OP_gelu:
        return 0.5 * x * (1.0 + erf(x * 0.70710678118654752440));
    case DOP_OP_gelu_tanh:
        return 0.5 * x * (1.0 + tanh(0.79788456080286535588 * (x + 0.044715 * x * x * x)));
    case DOP_OP_relu:
        return x <= 0.0 ? 0.0 : x;
    case DOP_OP_relu2:
        return x <= 0.0 ? 0.0 : x * x;
    case DOP_OP_sigmoid:
        return 1.0 / (1.0 + exp(-x));
    case DOP_OP_tanh:
        return tanh(x);
    case DOP_OP_exp:
        return exp(x);
    case DOP_OP_softplus:
        return x > 0.0 ? x + log1p(exp(-x)) : log1p(exp(x));
    case DOP_OP_at_most:
        return x > attr ? attr : x;
    case DOP_OP_at_least:
        return x < attr ? attr : x;
    case DOP_OP_softcap:
        return attr * tanh(x / attr);
    default: /* cast */
        return x;
    }
}

/* Computes the stride in source `v` for each axis of the result: 0 where the source broadcasts. */
static void
set_broadcast_steps(const dop_tensor *v, const dop_shape *out, uint64_t step[DOP_MAX_RANK])
{
    uint64_t stride = 1;
    uint32_t skip = out->rank - v->shape.rank;
    memset(step, 0, DOP_MAX_RANK * sizeof *step);
    for (uint32_t i = v->shape.rank; i-- > 0;) {
        step[skip + i] = v->shape.dim[i].mul == 1 ? 0 : stride;
        stride *= v->shape.dim[i].mul;
    }
}

static void
compute_binary(const dop_interp_node *n, dop_op op)
{
    const dop_shape *s = &n->out.shape;
    uint64_t sa[DOP_MAX_RANK], sb[DOP_MAX_RANK], a = 0, b = 0;
    uint32_t at[DOP_MAX_RANK] = {0};
    set_broadcast_steps(n->src[0], s, sa);
    set_broadcast_steps(n->src[1], s, sb);
    for (uint64_t i = 0; i < n->out.count; i++) {
        n->out.f[i] = (float)apply_binary(op, (double)n->src[0]->f[a], (double)n->src[1]->f[b]);
        for (uint32_t k = s->rank; k-- > 0;) { /* next index, like an odometer */
            a += sa[k];
            b += sb[k];
            if (++at[k] < s->dim[k].mul)
                break;
            a -= sa[k] * at[k];
            b -= sb[k] * at[k];
            at[k] = 0;
        }
    }
}

static void
compute_unary(const dop_interp_node *n, dop_op op)
{
    double attr = op == DOP_OP_softcap ? attr_f(n, DOP_A_cap) : attr_f(n, DOP_A_by);
    for (uint64_t i = 0; i < n->out.count; i++)
        n->out.f[i] = (float)apply_unary(op, (double)n->src[0]->f[i], attr);
}

static void
compute_xielu(const dop_interp_node *n)
{
    const double beta = (double)n->src[3]->f[0], p = apply_unary(DOP_OP_softplus, (double)n->src[1]->f[0], 0);
    const double m = apply_unary(DOP_OP_softplus, (double)n->src[2]->f[0], 0) + beta;
    for (uint64_t i = 0; i < n->out.count; i++) {
        const double x = (double)n->src[0]->f[i];
        n->out.f[i] = (float)((x > 0 ? p * x * x : m * (expm1(x) - x)) + beta * x);
    }
}

static void
compute_slice(const dop_interp_node *n)
{
    uint64_t start = (uint64_t)dop_node_i(n->g, n->id, DOP_A_start);
    uint64_t width = last_axis(&n->out), from = last_axis(n->src[0]), rows = n->out.count / width;
    for (uint64_t r = 0; r < rows; r++) {
        if (n->out.u)
            memcpy(n->out.u + r * width, n->src[0]->u + r * from + start, width * sizeof(uint32_t));
        else
            memcpy(n->out.f + r * width, n->src[0]->f + r * from + start, width * sizeof(float));
    }
}

static void
compute_concat(const dop_interp_node *n)
{
    uint64_t cols = last_axis(&n->out), first = last_axis(n->src[0]);
    for (uint64_t i = 0; i < n->out.count; i++) {
        uint64_t r = i / cols, c = i % cols;
        n->out.f[i] = c < first ? n->src[0]->f[r * first + c] : n->src[1]->f[r * (cols - first) + c - first];
    }
}

static dop_status
compute_rope(const dop_interp_node *n)
{
    const dop_tensor *x = n->src[0], *table = n->src[2];
    const uint64_t low = (uint64_t)dop_node_i(n->g, n->id, DOP_A_low), rows = table->shape.dim[0].mul;
    const uint64_t positions = low ? (rows - low) * low : rows;
    const uint32_t n_srcs = dop_node_at(n->g, n->id)->n_srcs;
    const dop_tensor *shift = n_srcs > 3 ? n->src[3] : NULL, *turns = n_srcs > 4 ? n->src[4] : NULL,
                     *places = turns ? n->src[5] : NULL;
    const uint64_t edge = places ? places->shape.dim[0].mul / 2 : 1;
    dop_status st =
        shift ? DOP_OK : dop_interp_check_ids(n, 1, positions < UINT32_MAX ? (uint32_t)positions : UINT32_MAX);
    if (st == DOP_OK && turns)
        st = dop_interp_check_ids(n, 4, (uint32_t)(edge * edge));
    if (st != DOP_OK)
        return st;
    uint64_t heads = x->shape.dim[1].mul, dim = last_axis(x), dims = last_axis(table), half = dims / 2;
    bool interleaved = dop_node_i(n->g, n->id, DOP_A_interleaved) != 0;
    for (uint64_t r = 0; r < x->count / dim; r++) { /* one head of one token */
        const float *in = x->f + r * dim;
        const uint64_t t = r / heads, sum = n->src[1]->u[t] + (shift ? shift->u[t] : 0),
                       pos = sum < positions ? sum : positions - 1, at = turns ? turns->u[t] : 0;
        const float *tab = table->f + (low ? pos % low : pos) * dims;
        const float *high = low ? table->f + (low + pos / low) * dims : NULL;
        float *out = n->out.f + r * dim;
        memcpy(out, in, dim * sizeof *out);
        for (uint64_t i = 0; i < half; i++) {
            uint64_t ia = interleaved ? 2 * i : i, ib = interleaved ? 2 * i + 1 : i + half;
            double c = (double)tab[i], s = (double)tab[half + i], a = (double)in[ia], b = (double)in[ib];
            if (high) {
                const double ch = (double)high[i], sh = (double)high[half + i], cl = c;
                c = cl * ch - s * sh;
                s = s * ch + cl * sh;
            }
            for (uint32_t k = 0; turns && k < 2; k++) { /* rotation by column, then by row */
                const float *more = places->f + (k == 0 ? at % edge : edge + at / edge) * dims;
                const double cm = (double)more[i], sm = (double)more[half + i], was = c;
                c = was * cm - s * sm;
                s = s * cm + was * sm;
            }
            out[ia] = (float)(a * c - b * s);
            out[ib] = (float)(b * c + a * s);
        }
    }
    return DOP_OK;
}

/* ---- along the last axis ---- */

static double
compute_mean(const float *x, uint64_t n)
{
    double sum = 0;
    for (uint64_t i = 0; i < n; i++)
        sum += (double)x[i];
    return sum / (double)n;
}

static double
compute_inv_rms(const float *x, uint64_t n, double eps)
{
    double sum = 0;
    for (uint64_t i = 0; i < n; i++)
        sum += (double)x[i] * (double)x[i];
    return 1.0 / sqrt(sum / (double)n + eps);
}

static double
compute_inv_std(const float *x, uint64_t n, double eps)
{
    double mean = compute_mean(x, n), sum = 0;
    for (uint64_t i = 0; i < n; i++)
        sum += ((double)x[i] - mean) * ((double)x[i] - mean);
    return 1.0 / sqrt(sum / (double)n + eps);
}

static void
compute_softmax_row(const float *x, uint64_t n, float *out)
{
    double max = (double)x[0], sum = 0;
    for (uint64_t i = 1; i < n; i++)
        max = (double)x[i] > max ? (double)x[i] : max;
    for (uint64_t i = 0; i < n; i++)
        sum += exp((double)x[i] - max);
    for (uint64_t i = 0; i < n; i++)
        out[i] = (float)(exp((double)x[i] - max) / sum);
}

/* Returns the id at an index of a list (the second source of arg-max); UINT32_MAX if the entry is not a valid id. */
static uint32_t
read_listed_id(const dop_tensor *list, uint64_t at)
{
    const float id = at < last_axis(list) ? list->f[at] : -1;
    return id >= 0 && id < 4294967296.0f ? (uint32_t)id : UINT32_MAX;
}

static void
compute_rows(const dop_interp_node *n, dop_op op)
{
    uint64_t w = last_axis(n->src[0]), rows = n->src[0]->count / w;
    double eps = attr_f(n, DOP_A_eps), add = attr_f(n, DOP_A_add);
    for (uint64_t r = 0; r < rows; r++) {
        const float *x = n->src[0]->f + r * w;
        float *out = n->out.f;
        if (op == DOP_OP_row_rms) {
            out[r] = (float)compute_inv_rms(x, w, eps);
        } else if (op == DOP_OP_row_mean) {
            out[r] = (float)compute_mean(x, w);
        } else if (op == DOP_OP_row_istd) {
            out[r] = (float)compute_inv_std(x, w, eps);
        } else if (op == DOP_OP_softmax) {
            compute_softmax_row(x, w, out + r * w);
        } else if (op == DOP_OP_rmsnorm) {
            double k = compute_inv_rms(x, w, eps);
            for (uint64_t i = 0; i < w; i++)
                out[r * w + i] = (float)((double)x[i] * k * ((double)n->src[1]->f[i] + add));
        } else if (op == DOP_OP_layernorm) {
            double mean = compute_mean(x, w), k = compute_inv_std(x, w, eps);
            const float *b = n->src[2] ? n->src[2]->f : NULL;
            for (uint64_t i = 0; i < w; i++)
                out[r * w + i] = (float)(((double)x[i] - mean) * k * (double)n->src[1]->f[i] + (b ? (double)b[i] : 0));
        } else { /* argmax */
            uint64_t best = 0;
            for (uint64_t i = 1; i < w; i++)
                best = x[i] > x[best] ? i : best;
            n->out.u[r] = n->src[1] ? read_listed_id(n->src[1], best) : (uint32_t)best;
        }
    }
}

/* argmax_part: divides columns into equal spans.  The index is exact up to 2^24. */
static void
compute_argmax_part(const dop_interp_node *n)
{
    uint64_t w = last_axis(n->src[0]), parts = n->out.shape.dim[1].mul, span = (w + parts - 1) / parts;
    for (uint64_t r = 0; r < n->out.count / 2; r++) { /* row, part */
        const float *x = n->src[0]->f + r / parts * w;
        uint64_t lo = r % parts * span, hi = lo + span < w ? lo + span : w, best = lo;
        for (uint64_t i = lo; i < hi; i++)
            best = x[i] > x[best] ? i : best;
        n->out.f[2 * r] = lo < w ? x[best] : -INFINITY;
        n->out.f[2 * r + 1] = lo < w ? (float)best : 0;
    }
}

/* argmax_merge: returns the index of the largest value.  Ties go to the lowest index, in any order of parts. */
static void
compute_argmax_merge(const dop_interp_node *n)
{
    uint64_t parts = n->src[0]->shape.dim[1].mul;
    for (uint64_t r = 0; r < n->out.count; r++) {
        const float *x = n->src[0]->f + r * parts * 2, *best = x;
        for (uint64_t i = 1; i < parts; i++) {
            const float *p = x + 2 * i;
            if (p[0] > best[0] || (p[0] == best[0] && p[1] < best[1]))
                best = p;
        }
        n->out.u[r] = n->src[1] ? read_listed_id(n->src[1], (uint64_t)best[1]) : (uint32_t)best[1];
    }
}

/* ---- selected rows ---- */

static dop_status
compute_gather(const dop_interp_node *n)
{
    const dop_tensor *table = n->src[0], *ids = n->src[1];
    const uint32_t rows = table->shape.dim[0].mul, first = (uint32_t)dop_node_i(n->g, n->id, DOP_A_first),
                   of = (uint32_t)dop_node_i(n->g, n->id, DOP_A_of);
    dop_status st = dop_interp_check_ids(n, 1, of ? of : rows);
    if (st != DOP_OK)
        return st;
    uint64_t w = table->count / rows;
    for (uint64_t i = 0; i < ids->count; i++)
        if (ids->u[i] >= first && ids->u[i] - first < rows)
            memcpy(n->out.f + i * w, table->f + (ids->u[i] - first) * w, w * sizeof(float));
        else
            memset(n->out.f + i * w, 0, w * sizeof(float));
    return DOP_OK;
}

static void
compute_matmul(const dop_interp_node *n)
{
    uint64_t rows = n->src[0]->shape.dim[0].mul, depth = last_axis(n->src[0]);
    const uint64_t cols = last_axis(&n->out); /* only the first rows of the weight are read */
    for (uint64_t j = 0; j < cols; j++) {     /* a row of the weight stays in the CPU cache for all tokens */
        for (uint64_t t = 0; t < rows; t++)
            n->out.f[t * cols + j] = (float)dot(n->src[0]->f + t * depth, n->src[1]->f + j * depth, depth);
    }
}

/* Returns the score of a group of columns: the sum of its `best` largest scores.  taken: scratch, one mark per column. */
static double
score_group(const float *x, uint64_t n, uint64_t best, uint8_t *taken)
{
    double sum = 0;
    memset(taken, 0, n);
    for (uint64_t b = 0; b < best; b++) {
        uint64_t at = n;
        for (uint64_t i = 0; i < n; i++)
            at = !taken[i] && (at == n || x[i] > x[at]) ? i : at;
        taken[at] = 1;
        sum += (double)x[at];
    }
    return sum;
}

/* Computes one row. marks[]: scratch, one mark per column; worth[]: scratch, one score per group. */
static void
compute_top_k_row(const dop_interp_node *n, const float *x, uint64_t cols, uint8_t *marks, double *worth, uint32_t *out)
{
    uint64_t k = (uint64_t)dop_node_i(n->g, n->id, DOP_A_k), groups = (uint64_t)dop_node_i(n->g, n->id, DOP_A_groups);
    uint64_t best = (uint64_t)dop_node_i(n->g, n->id, DOP_A_group_best), each = cols / groups;
    uint64_t keep = (uint64_t)dop_node_i(n->g, n->id, DOP_A_group_keep);
    for (uint64_t i = 0; i < groups; i++)
        worth[i] = score_group(x + i * each, each, best, marks);
    memset(marks, 1, cols);
    for (uint64_t j = 0; j < keep; j++) {
        uint64_t at = groups;
        for (uint64_t i = 0; i < groups; i++)
            at = marks[i * each] && (at == groups || worth[i] > worth[at]) ? i : at;
        memset(marks + at * each, 0, each);
    }
    for (uint64_t j = 0; j < k; j++) {
        uint64_t at = cols;
        for (uint64_t i = 0; i < cols; i++)
            at = !marks[i] && (at == cols || x[i] > x[at]) ? i : at;
        marks[at] = 1;
        out[j] = (uint32_t)at;
    }
}

static dop_status
compute_top_k(const dop_interp_node *n)
{
    uint64_t cols = last_axis(n->src[0]), k = last_axis(&n->out);
    uint8_t *marks = malloc(cols);
    double *worth = malloc(cols * sizeof *worth);
    dop_status st = DOP_OK;
    if (!(marks && worth))
        DOP_TRY(DOP_NO_MEMORY(n->diag));
    for (uint64_t t = 0; t < n->out.count / k; t++)
        compute_top_k_row(n, n->src[0]->f + t * cols, cols, marks, worth, n->out.u + t * k);
error:
    free(marks);
    free(worth);
    return st;
}

static dop_status
compute_pick(const dop_interp_node *n)
{
    uint64_t cols = last_axis(n->src[0]), k = last_axis(&n->out);
    DOP_RETURN_IF_ERROR(dop_interp_check_ids(n, 1, (uint32_t)cols));
    for (uint64_t i = 0; i < n->out.count; i++)
        n->out.f[i] = n->src[0]->f[i / k * cols + n->src[1]->u[i]];
    return DOP_OK;
}

static dop_status
compute_near_softmax(const dop_interp_node *n)
{
    const uint64_t cols = last_axis(n->src[0]), k = last_axis(&n->out);
    const double eps = attr_f(n, DOP_A_eps);
    DOP_RETURN_IF_ERROR(dop_interp_check_ids(n, 1, (uint32_t)cols));
    for (uint64_t i = 0; i < n->out.count; i++) {
        const float *x = n->src[0]->f + i / k * cols;
        const uint32_t *ids = n->src[1]->u + i / k * k;
        const double top = (double)x[ids[i % k]];
        double sum = 0;
        for (uint64_t j = 0; j < cols; j++) {
            bool near = top - (double)x[j] <= eps * fmax(fabs((double)x[j]), top);
            for (uint64_t b = 0; b < i % k; b++)
                near = near && ids[b] != j;
            sum += near ? exp((double)x[j] - top) : 0;
        }
        n->out.f[i] = (float)(1 / sum);
    }
    return DOP_OK;
}

static dop_status
compute_group_rows(const dop_interp_node *n)
{
    const dop_tensor *ids = n->src[0];
    const uint32_t experts = (uint32_t)dop_node_i(n->g, n->id, DOP_A_experts);
    const uint64_t span = (uint64_t)dop_node_i(n->g, n->id, DOP_A_span);
    uint64_t blocks = 0;
    dop_status st = dop_interp_check_ids(n, 0, experts);
    if (st != DOP_OK)
        return st;
    memset(n->out.u, 0xff, (size_t)n->out.count * sizeof *n->out.u);
    for (uint32_t e = 0; e < experts; e++) {
        uint64_t used = 0;
        for (uint64_t i = 0; i < ids->count; i++) {
            if (ids->u[i] != e)
                continue;
            uint32_t *block = n->out.u + (blocks + used / span) * (span + 1);
            block[0] = e;
            block[1 + used++ % span] = (uint32_t)i;
        }
        blocks += (used + span - 1) / span;
    }
    return DOP_OK;
}

/* Ignores blocks, which only change the order of computation. */
static dop_status
compute_matmul_at(const dop_interp_node *n)
{
    const dop_tensor *x = n->src[0], *w = n->src[1], *ids = n->src[2];
    uint64_t depth = last_axis(x), cols = w->shape.dim[1].mul, k = n->out.shape.dim[1].mul;
    if (ids)
        DOP_RETURN_IF_ERROR(dop_interp_check_ids(n, 2, w->shape.dim[0].mul));
    for (uint64_t i = 0; i < n->out.count / cols; i++) {
        const float *in = x->f + (x->shape.rank == 3 ? i : i / k) * depth;
        const uint64_t matrix = ids ? ids->u[i] : i % k;
        for (uint64_t j = 0; j < cols; j++)
            n->out.f[i * cols + j] = (float)dot(in, w->f + (matrix * cols + j) * depth, depth);
    }
    return DOP_OK;
}

static void
compute_weighted_sum(const dop_interp_node *n)
{
    uint64_t cols = last_axis(&n->out), k = last_axis(n->src[1]);
    for (uint64_t i = 0; i < n->out.count; i++) {
        uint64_t t = i / cols, c = i % cols;
        double sum = 0;
        for (uint64_t j = 0; j < k; j++)
            sum += (double)n->src[1]->f[t * k + j] * (double)n->src[0]->f[(t * k + j) * cols + c];
        n->out.f[i] = (float)sum;
    }
}

static dop_status
compute_state_write(const dop_interp_node *n)
{
    const dop_tensor *state = n->src[0], *x = n->src[1];
    bool appends = dop_shape_appends(&n->g->nodes[n->id].shape);
    uint32_t n_srcs = n->g->nodes[n->id].n_srcs;
    const dop_tensor *pos = appends ? n->src[2] : NULL, *seq = n_srcs > 2 ? n->src[n_srcs - 1] : NULL;
    uint64_t held = state->shape.dim[1].mul; /* append state: cache rows of a sequence */
    dop_status st = appends ? dop_interp_check_ids(n, 2, n->g->max_s) : DOP_OK;
    if (st == DOP_OK && seq)
        st = dop_interp_check_ids(n, n_srcs - 1, state->shape.dim[0].mul);
    if (st != DOP_OK)
        return st;
    dop_type type = n->round ? n->g->nodes[n->id].type : DOP_TYPE_f32;
    if (!appends && state->shape.rank > x->shape.rank) {
        dop_interp_last_rows(n, type);
        return DOP_OK;
    }
    uint64_t rows = x->shape.dim[0].mul, w = x->count / rows;
    if (!appends) /* replace state gets a new value; sequences without rows keep theirs */
        memcpy(n->out.f, state->f, state->count * sizeof(float));
    for (uint64_t t = 0; t < rows; t++) {
        uint64_t row = seq ? seq->u[seq->count > 1 ? t : 0] : t;
        if (appends)
            row = row * held + pos->u[t] % held;
        if (dop_cache_blocks(type))
            dop_cache_round(type, x->f + t * w, w, n->out.f + row * w);
        for (uint64_t i = 0; i < w && !dop_cache_blocks(type); i++)
            n->out.f[row * w + i] = dop_interp_round(type, x->f[t * w + i]);
    }
    return DOP_OK;
}

/* ---- attention ---- */

typedef struct head_sum {
    double max; /* maximum of the scores; -1e30 if there are none */
    double sum; /* sum of exp(score - max) */
} head_sum;

/* Returns p - at, limited to -most .. most. */
static int64_t
clamp_distance(uint64_t p, uint64_t at, int64_t most)
{
    const int64_t d = (int64_t)p - (int64_t)at;
    return d < -most ? -most : d > most ? most : d;
}

/* Accumulates exp(s - max) * v into acc, over positions lo..hi-1 of a sequence and one KV head, or over entries lo..hi-1 of a
 * list of positions.  Position p is in row first + p % rows of the keys.  scores: scratch. */
static head_sum
accumulate_head(const dop_interp_node *n, const float *q, uint64_t first, uint64_t rows, uint64_t kv_head, uint64_t lo,
                uint64_t hi, const float *sink, double slope, const float *by, int64_t most, uint64_t at,
                const uint32_t *list, double *scores, double *acc)
{
    uint64_t dim = last_axis(n->src[1]), vdim = last_axis(n->src[2]);
    uint64_t heads = n->src[1]->shape.dim[n->src[1]->shape.rank - 2].mul;
    double scale = attr_f(n, DOP_A_scale), cap = attr_f(n, DOP_A_cap);
    head_sum r = {sink ? (double)*sink : -1e30, 0};
    memset(acc, 0, vdim * sizeof *acc);
    for (uint64_t i = lo; i < hi; i++) {
        const uint64_t p = list ? list[i] : i;
        double s = scale * dot(q, n->src[1]->f + ((first + p % rows) * heads + kv_head) * dim, dim);
        scores[i - lo] = (cap > 0 ? cap * tanh(s / cap) : s) - slope * fabs((double)at - (double)p) +
                         (by ? (double)by[clamp_distance(p, at, most) + most] : 0);
        r.max = scores[i - lo] > r.max ? scores[i - lo] : r.max;
    }
    r.max =
        (double)(float)r.max; /* attn_split stores the maximum as f32, and the sums must refer to the stored value */
    r.sum = sink ? exp((double)*sink - r.max) : 0;
    for (uint64_t j = lo; j < hi; j++) {
        const uint64_t p = list ? list[j] : j;
        double e = exp(scores[j - lo] - r.max);
        const float *v = n->src[2]->f + ((first + p % rows) * heads + kv_head) * vdim;
        r.sum += e;
        for (uint64_t i = 0; i < vdim; i++)
            acc[i] += e * (double)v[i];
    }
    return r;
}

static uint64_t
interp_min_u64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Finds the keys of the sequence of row t: the key of position p is in row *out_first + p % *out_rows.  Fails if keys are values
 * of this step and the step lacks keys up to position `last`. */
static dop_status
find_attention_keys(const dop_interp_node *n, uint64_t t, uint64_t last, uint64_t *out_first, uint64_t *out_rows)
{
    const dop_tensor *k = n->src[1], *pos = n->src[3], *seq = n->src[4];
    const uint64_t step = seq->count > 1, sequence = seq->u[step * t], held = k->shape.dim[0].mul;
    if (dop_attention_cached(n->g, n->id)) {
        *out_rows = k->shape.dim[1].mul; /* a ring has fewer rows than positions */
        *out_first = sequence * *out_rows;
        return DOP_OK;
    }
    const uint64_t first = t - pos->u[t], end = first + last;
    if (pos->u[t] > t || end >= held || pos->u[end] != last || seq->u[step * end] != sequence || pos->u[first])
        return DOP_FAIL(n->diag, DOP_E_INPUT, "%%%s: row %llu sees position %llu, which is not in this step",
                        n->g->nodes[n->id].name, (unsigned long long)t, (unsigned long long)last);
    *out_first = first;
    *out_rows = held;
    return DOP_OK;
}

static dop_status
check_attention_ids(const dop_interp_node *n, const dop_tensor *lasts)
{
    const uint32_t n_srcs = n->g->nodes[n->id].n_srcs;
    dop_status st = dop_interp_check_ids(n, 3, n->g->max_s);
    if (st == DOP_OK && dop_attention_cached(n->g, n->id))
        st = dop_interp_check_ids(n, 4, n->src[1]->shape.dim[0].mul);
    return st == DOP_OK && lasts ? dop_interp_check_ids(n, n_srcs - 1, n->g->max_s) : st;
}

/* True if the first n entries of the list are ascending positions up to `last`. */
static bool
is_ascending(const uint32_t *list, uint64_t n, uint32_t last)
{
    bool ok = n == 0 || list[n - 1] <= last;
    for (uint64_t i = 1; i < n; i++)
        ok = ok && list[i - 1] < list[i];
    return ok;
}

static dop_status
compute_attention(const dop_interp_node *n, bool split)
{
    const uint32_t n_srcs = n->g->nodes[n->id].n_srcs;
    const dop_tensor *q = n->src[0], *k = n->src[1], *pos = n->src[3],
                     *sinks = dop_attention_sinks(n->g, n->id) ? n->src[5] : NULL,
                     *lasts = dop_attention_lasts(n->g, n->id) ? n->src[n_srcs - 1] : NULL,
                     *chosen = dop_attention_chosen(n->g, n->id) ? n->src[n_srcs - 1] : NULL;
    dop_status st = check_attention_ids(n, lasts);
    if (st != DOP_OK)
        return st;
    uint64_t heads = q->shape.dim[1].mul, dim = last_axis(n->src[2]);
    uint64_t group = heads / k->shape.dim[k->shape.rank - 2].mul, max_s = n->g->max_s, first = 0, held = 0;
    if (dop_attention_cached(n->g, n->id) && k->shape.dim[1].mul > max_s)
        max_s = k->shape.dim[1].mul;
    const dop_reach reach = dop_attention_reach(n->g, n->id);
    const uint32_t alibi = (uint32_t)dop_node_i(n->g, n->id, DOP_A_alibi);
    const double root = dop_alibi_root(n->g, n->id);
    const dop_tensor *by = dop_attention_relative(n->g, n->id) ? n->src[5] : NULL;
    const int64_t relative = by ? dop_node_i(n->g, n->id, DOP_A_relative) : 0;
    uint64_t splits = split ? (uint64_t)dop_node_i(n->g, n->id, DOP_A_splits) : 1, out_dim = split ? dim + 2 : dim;
    double *scores = calloc(max_s + dim, sizeof *scores), *acc;
    if (!scores)
        return DOP_NO_MEMORY(n->diag);
    acc = scores + max_s;
    for (uint64_t r = 0; r < n->out.count / out_dim && st == DOP_OK; r++) { /* token, head, split */
        uint64_t i = r % splits, h = r / splits % heads, t = r / splits / heads;
        uint64_t end = (uint64_t)dop_reach_last(&reach, pos->u[t], lasts ? lasts->u[t] : 0) + 1,
                 begin = dop_reach_first(&reach, pos->u[t]);
        const uint32_t *list = chosen ? chosen->u + t * last_axis(chosen) : NULL;
        end = list ? interp_min_u64(end, last_axis(chosen)) : end;
        if (list && !is_ascending(list, end, pos->u[t]))
            return free(scores), DOP_FAIL(n->diag, DOP_E_INPUT, "%%%s: row %llu lists positions that it cannot see",
                                          n->g->nodes[n->id].name, (unsigned long long)t);
        uint64_t span = split ? dop_split_len(n->g, n->id, (uint32_t)(end - begin)) : end - begin;
        uint64_t lo = interp_min_u64(begin + i * span, end),
                 hi = i + 1 == splits ? end : interp_min_u64(lo + span, end);
        const float *sink = sinks && i == 0 ? sinks->f + h : NULL;
        const float *query = q->f + (t * heads + h) * last_axis(q);
        const float *table = by ? by->f + h * (2 * (uint64_t)relative + 1) : NULL;
        const double slope = alibi ? dop_alibi_slope(alibi, (uint32_t)heads, (uint32_t)h) / root : 0;
        if (end <= begin || (st = find_attention_keys(n, t, end - 1, &first, &held)) != DOP_OK)
            continue;
        head_sum m = accumulate_head(n, query, first, held, h / group, lo, hi, sink, slope, table, relative, pos->u[t],
                                     list, scores, acc);
        float *out = n->out.f + r * out_dim;
        for (uint64_t d = 0; d < dim; d++)
            out[d] = (float)(split ? acc[d] : acc[d] / m.sum);
        if (split) {
            out[dim] = (float)m.max;
            out[dim + 1] = (float)m.sum;
        }
    }
    free(scores);
    return st;
}

static void
compute_attn_combine(const dop_interp_node *n)
{
    uint64_t splits = (uint64_t)dop_node_i(n->g, n->id, DOP_A_splits);
    uint64_t dim = last_axis(&n->out), in_dim = dim + 2;
    for (uint64_t r = 0; r < n->out.count / dim; r++) { /* token, head */
        const float *in = n->src[0]->f + r * splits * in_dim;
        double max = -1e30, sum = 0;
        for (uint64_t i = 0; i < splits; i++)
            max = (double)in[i * in_dim + dim] > max ? (double)in[i * in_dim + dim] : max;
        for (uint64_t i = 0; i < splits; i++)
            sum += (double)in[i * in_dim + dim + 1] * exp((double)in[i * in_dim + dim] - max);
        for (uint64_t d = 0; d < dim; d++) {
            double acc = 0;
            for (uint64_t i = 0; i < splits; i++)
                acc += (double)in[i * in_dim + d] * exp((double)in[i * in_dim + dim] - max);
            n->out.f[r * dim + d] = (float)(acc / sum);
        }
    }
}

dop_status
dop_interp_compute(const dop_interp_node *n)
{
    dop_op op = n->g->nodes[n->id].op;
    switch (op) {
    case DOP_OP_reshape: /* shares the memory of its source */
        return DOP_OK;
    case DOP_OP_slice:
        compute_slice(n);
        return DOP_OK;
    case DOP_OP_add:
    case DOP_OP_sub:
    case DOP_OP_mul:
    case DOP_OP_div:
        compute_binary(n, op);
        return DOP_OK;
    case DOP_OP_xielu:
        compute_xielu(n);
        return DOP_OK;
    case DOP_OP_concat:
        compute_concat(n);
        return DOP_OK;
    case DOP_OP_rope:
        return compute_rope(n);
    case DOP_OP_row_rms:
    case DOP_OP_row_mean:
    case DOP_OP_row_istd:
    case DOP_OP_rmsnorm:
    case DOP_OP_layernorm:
    case DOP_OP_softmax:
    case DOP_OP_argmax:
        compute_rows(n, op);
        return DOP_OK;
    case DOP_OP_argmax_part:
        compute_argmax_part(n);
        return DOP_OK;
    case DOP_OP_argmax_merge:
        compute_argmax_merge(n);
        return DOP_OK;
    case DOP_OP_moments:
        dop_interp_moments(n);
        return DOP_OK;
    case DOP_OP_moments_norm:
        dop_interp_moments_norm(n);
        return DOP_OK;
    case DOP_OP_gather:
        return compute_gather(n);
    case DOP_OP_last_row:
        memcpy(n->out.f, n->src[0]->f + (n->src[0]->count - n->out.count), n->out.count * sizeof(float));
        return DOP_OK;
    case DOP_OP_conv:
        dop_interp_by_access(n);
        return DOP_OK;
    case DOP_OP_unfold:
        dop_interp_unfold(n);
        return DOP_OK;
    case DOP_OP_matmul:
        compute_matmul(n);
        return DOP_OK;
    case DOP_OP_top_k:
        return compute_top_k(n);
    case DOP_OP_group_rows:
        return compute_group_rows(n);
    case DOP_OP_pick:
        return compute_pick(n);
    case DOP_OP_near_softmax:
        return compute_near_softmax(n);
    case DOP_OP_matmul_at:
        return compute_matmul_at(n);
    case DOP_OP_weighted_sum:
        compute_weighted_sum(n);
        return DOP_OK;
    case DOP_OP_dot_at:
        dop_interp_dot_at(n);
        return DOP_OK;
    case DOP_OP_state_write:
        return compute_state_write(n);
    case DOP_OP_attention:
    case DOP_OP_attn_split:
        return compute_attention(n, op == DOP_OP_attn_split);
    case DOP_OP_attn_combine:
        compute_attn_combine(n);
        return DOP_OK;
    case DOP_OP_index_scores:
        return dop_interp_index_scores(n);
    case DOP_OP_top_positions:
        return dop_interp_top_positions(n);
    case DOP_OP_short_conv:
        return dop_interp_short_conv(n);
    case DOP_OP_linear_scan:
    case DOP_OP_linear_scan_state:
        return dop_interp_linear_scan(n);
    default:
        compute_unary(n, op);
        return DOP_OK;
    }
}
