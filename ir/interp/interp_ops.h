/* How the interpreter computes one node from the values of its sources.  Internal to ir/. */
#ifndef DOPPLER_IR_INTERP_INTERP_OPS_H
#define DOPPLER_IR_INTERP_INTERP_OPS_H

#include "ir/interp/interp.h"

typedef struct dop_interp_node {
    const dop_graph *g;
    dop_node_id id;
    const dop_tensor *src[DOP_MAX_SRCS]; /* shapes concrete */
    dop_tensor out;                      /* shape and memory are there; state_write and reshape share source 0's */
    bool round;                          /* state_write rounds to the cache's type */
    dop_diag *diag;
} dop_interp_node;

/* Any op but the leaves.  Errors: ids out of range, host memory. */
dop_status dop_interp_compute(const dop_interp_node *n);
/* Error: an id of source number `src` is not below the limit. */
dop_status dop_interp_check_ids(const dop_interp_node *n, uint32_t src, uint32_t limit);
/* interp_scan.c: the recurrences, and the state_write that keeps a sequence's last rows (ids are checked). */
dop_status dop_interp_short_conv(const dop_interp_node *n);
dop_status dop_interp_linear_scan(const dop_interp_node *n);
void dop_interp_last_rows(const dop_interp_node *n, dop_type type);
/* interp_moments.c: group norms. */
void dop_interp_moments(const dop_interp_node *n);
void dop_interp_moments_norm(const dop_interp_node *n);
/* interp_index.c: the ops that choose the positions which attention sees. */
dop_status dop_interp_index_scores(const dop_interp_node *n);
dop_status dop_interp_top_positions(const dop_interp_node *n);
/* interp_access.c: the sum over all reduction indices of the product of sources 0 and 1, each read as its access says, plus source 2
 * where there is one.  It computes any product whose sources have no index that a value chooses. */
void dop_interp_by_access(const dop_interp_node *n);
void dop_interp_dot_at(const dop_interp_node *n);
void dop_interp_unfold(const dop_interp_node *n);
/* Rounds to the storage type, as a store and a load would. */
float dop_interp_round(dop_type t, float v);

static inline uint32_t
last_axis(const dop_tensor *v)
{
    return v->shape.dim[v->shape.rank - 1].mul;
}

static inline double
dot(const float *a, const float *b, uint64_t n)
{
    double s[8] = {0}; /* independent sums, so that the processor can overlap them */
    uint64_t i = 0;
    for (; i + 8 <= n; i += 8) {
        for (int k = 0; k < 8; k++)
            s[k] += (double)a[i + (uint64_t)k] * (double)b[i + (uint64_t)k];
    }
    for (; i < n; i++)
        s[0] += (double)a[i] * (double)b[i];
    return ((s[0] + s[4]) + (s[1] + s[5])) + ((s[2] + s[6]) + (s[3] + s[7]));
}

#endif
