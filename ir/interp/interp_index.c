/* The interpreter's ops of sparse attention (index_scores and top_positions of ops.def). */
#include "ir/interp/interp_index.h"
#include "ir/interp/interp_ops.h"
#include "ir/interp/interp_util.h"

#include <stdlib.h>

static uint64_t
count_last_axis(const dop_tensor *x)
{
    return x->shape.dim[x->shape.rank - 1].mul;
}

/* Returns the score of one index key: the weighted sum over heads of max(q_h . key, 0). */
static double
score_index_key(const float *q, const float *key, const float *weights, uint64_t heads, uint64_t dim)
{
    double sum = 0;
    for (uint64_t h = 0; h < heads; h++) {
        double s = 0;
        for (uint64_t i = 0; i < dim; i++)
            s += (double)q[h * dim + i] * (double)key[i];
        sum += s > 0 ? (double)weights[h] * s : 0;
    }
    return sum;
}

dop_status
dop_interp_index_scores(const dop_interp_node *n)
{
    const dop_tensor *q = n->src[0], *k = n->src[1], *w = n->src[2], *pos = n->src[3], *seq = n->src[4];
    const uint64_t heads = q->shape.dim[1].mul, dim = count_last_axis(q), cols = count_last_axis(&n->out);
    const double scale = dop_node_f(n->g, n->id, DOP_A_scale);
    DOP_RETURN_IF_ERROR(dop_interp_check_ids(n, 3, n->g->max_s));
    DOP_RETURN_IF_ERROR(dop_interp_check_ids(n, 4, k->shape.dim[0].mul));
    for (uint64_t t = 0; t < n->out.count / cols; t++) {
        const float *keys = k->f + (uint64_t)seq->u[seq->count > 1 ? t : 0] * k->shape.dim[1].mul * dim;
        for (uint64_t j = 0; j < cols; j++)
            n->out.f[t * cols + j] = j > pos->u[t]
                                         ? 0
                                         : (float)(scale * score_index_key(q->f + t * heads * dim, keys + j * dim,
                                                                           w->f + t * heads, heads, dim));
    }
    return DOP_OK;
}

/* Orders columns of a row of scores: larger scores first, ties by the lower column. */
static int
compare_score_columns(const void *x, const void *y)
{
    const float *const *a = x, *const *b = y;
    return **a > **b ? -1 : **a < **b ? 1 : *a < *b ? -1 : *a > *b;
}

static int
compare_addresses(const void *x, const void *y)
{
    const float *const *a = x, *const *b = y;
    return *a < *b ? -1 : *a > *b;
}

dop_status
dop_interp_top_positions(const dop_interp_node *n)
{
    const dop_tensor *scores = n->src[0], *pos = n->src[1];
    const uint64_t cols = count_last_axis(scores), k = count_last_axis(&n->out);
    dop_status st = dop_interp_check_ids(n, 1, (uint32_t)cols);
    const float **order = calloc(cols, sizeof *order);
    if (!order)
        return DOP_NO_MEMORY(n->diag);
    for (uint64_t t = 0; t < n->out.count / k && st == DOP_OK; t++) {
        const float *row = scores->f + t * cols;
        const uint64_t seen = (uint64_t)pos->u[t] + 1, used = seen < k ? seen : k;
        for (uint64_t j = 0; j < seen; j++)
            order[j] = row + j;
        qsort(order, seen, sizeof *order, compare_score_columns);
        qsort(order, used, sizeof *order, compare_addresses);
        for (uint64_t j = 0; j < k; j++)
            n->out.u[t * k + j] = (uint32_t)(j < used ? (uint64_t)(order[j] - row) : cols);
    }
    free(order);
    return st;
}
