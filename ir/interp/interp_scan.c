/* The interpreter's recurrences: f32 values with f64 accumulation.  The rows of a sequence are consecutive. */
#include "ir/interp/interp_scan.h"
#include "ir/interp/interp_ops.h"
#include "ir/interp/interp_util.h"

#include <stdlib.h>
#include <string.h>

/* Returns the sequence of row t; a single number applies to all rows. */
static uint64_t
find_sequence(const dop_tensor *sequences, uint64_t t)
{
    return sequences->u[sequences->count > 1 ? t : 0];
}

/* Returns the number of rows of the same sequence directly before row t in the step. */
static uint64_t
count_rows_before(const dop_tensor *sequences, uint64_t t)
{
    uint64_t n = 0;
    while (n < t && find_sequence(sequences, t - n - 1) == find_sequence(sequences, t))
        n++;
    return n;
}

dop_status
dop_interp_short_conv(const dop_interp_node *n)
{
    const dop_tensor *x = n->src[0], *state = n->src[1], *taps = n->src[2], *seq = n->src[3], *bias = n->src[4];
    uint64_t cols = x->shape.dim[1].mul, n_taps = taps->shape.dim[0].mul;
    DOP_RETURN_IF_ERROR(dop_interp_check_ids(n, 3, state->shape.dim[0].mul));
    for (uint64_t t = 0; t < x->shape.dim[0].mul; t++) {
        uint64_t before = count_rows_before(seq, t);
        for (uint64_t c = 0; c < cols; c++) {
            double sum = bias ? (double)bias->f[c] : 0;
            for (uint64_t k = 0; k < n_taps; k++) {
                uint64_t ago = n_taps - 1 - k;
                float v = ago <= before ? x->f[(t - ago) * cols + c]
                                        : state->f[(find_sequence(seq, t) * (n_taps - 1) + k + before) * cols + c];
                sum += (double)taps->f[k * cols + c] * (double)v;
            }
            n->out.f[t * cols + c] = (float)sum;
        }
    }
    return DOP_OK;
}

void
dop_interp_last_rows(const dop_interp_node *n, dop_type type)
{
    const dop_tensor *state = n->src[0], *x = n->src[1], *seq = n->src[2];
    uint64_t rows = state->shape.dim[1].mul, total = x->shape.dim[0].mul, cols = x->count / total;
    memcpy(n->out.f, state->f, state->count * sizeof(float));
    for (uint64_t t = 0; t < total; t++) { /* row by row: each one shifts the stored rows */
        float *own = n->out.f + find_sequence(seq, t) * rows * cols;
        memmove(own, own + cols, (rows - 1) * cols * sizeof *own);
        for (uint64_t c = 0; c < cols; c++)
            own[(rows - 1) * cols + c] = dop_interp_round(type, x->f[t * cols + c]);
    }
}

/* Processes one row of one head: updates the head's state s [P,N] and computes the row's result y [P].  The decay of column i is
 * decay[i * step]. */
static void
compute_scan_row(const float *q, const float *k, const float *v, const float *decay, uint64_t step, const float *beta,
                 uint64_t p_count, uint64_t n_count, double *s, float *y)
{
    for (uint64_t p = 0; p < p_count; p++, s += n_count) {
        double old = 0, sum = 0;
        for (uint64_t i = 0; i < n_count; i++) {
            s[i] *= (double)decay[i * step];
            old += s[i] * (double)k[i];
        }
        double add = beta ? (double)*beta * ((double)v[p] - old) : (double)v[p];
        for (uint64_t i = 0; i < n_count; i++) {
            s[i] += add * (double)k[i];
            sum += s[i] * (double)q[i];
        }
        y[p] = (float)sum;
    }
}

dop_status
dop_interp_linear_scan(const dop_interp_node *n)
{
    const dop_tensor *q = n->src[0], *k = n->src[1], *v = n->src[2], *decay = n->src[3], *state = n->src[4],
                     *seq = n->src[5], *beta = n->src[6];
    uint64_t rows = v->shape.dim[0].mul, heads = v->shape.dim[1].mul, p_count = v->shape.dim[2].mul;
    uint64_t groups = q->shape.dim[1].mul, n_count = q->shape.dim[2].mul, size = p_count * n_count;
    const bool each = decay->shape.rank == 3;
    bool after = n->g->nodes[n->id].op == DOP_OP_linear_scan_state,
         in_turn = dop_node_i(n->g, n->id, DOP_A_interleaved);
    dop_status st = dop_interp_check_ids(n, 5, state->shape.dim[0].mul);
    if (st != DOP_OK)
        return st;
    double *s = calloc(size, sizeof *s);
    float *y = calloc(p_count, sizeof *y);
    if (!s || !y)
        st = DOP_NO_MEMORY(n->diag);
    if (after && st == DOP_OK)
        memcpy(n->out.f, state->f, state->count * sizeof(float));
    for (uint64_t h = 0; h < heads && st == DOP_OK; h++)
        for (uint64_t t = 0; t < rows; t++) {
            uint64_t own = (find_sequence(seq, t) * heads + h) * size,
                     in = (t * groups + (in_turn ? h % groups : h / (heads / groups))) * n_count;
            for (uint64_t i = 0; i < size && count_rows_before(seq, t) == 0; i++)
                s[i] = (double)state->f[own + i];
            compute_scan_row(q->f + in, k->f + in, v->f + (t * heads + h) * p_count,
                             decay->f + (t * heads + h) * (each ? n_count : 1), each,
                             beta ? &beta->f[t * heads + h] : NULL, p_count, n_count, s, y);
            for (uint64_t i = 0; i < size && after; i++)
                n->out.f[own + i] = (float)s[i];
            for (uint64_t p = 0; p < p_count && !after; p++)
                n->out.f[(t * heads + h) * p_count + p] = y[p];
        }
    free(s);
    free(y);
    return st;
}
