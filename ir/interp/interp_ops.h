/* Computes one node from the values of its sources.  Internal to ir/. */
#ifndef DOPPLER_IR_INTERP_INTERP_OPS_H
#define DOPPLER_IR_INTERP_INTERP_OPS_H

#include "ir/interp/interp.h"

typedef struct dop_interp_node {
    const dop_graph *g;
    dop_node_id id;
    const dop_tensor *src[DOP_MAX_SRCS]; /* values of the sources, with constant shapes */
    /* result; shape and memory are set by the caller; state_write of append state and reshape share source 0's memory */
    dop_tensor out;
    bool round; /* state_write rounds to the cache's type */
    dop_diag *diag;
} dop_interp_node;

/* Computes any op except leaves.  Errors: ids out of range, out of host memory. */
dop_status dop_interp_compute(const dop_interp_node *n);

static inline uint32_t
last_axis(const dop_tensor *v)
{
    return v->shape.dim[v->shape.rank - 1].mul;
}

static inline double
dot(const float *a, const float *b, uint64_t n)
{
    double s[8] = {0}; /* independent sums, which the processor can overlap */
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
