/* The interpreter's ops of group norm. */
#include "ir/interp/interp_moments.h"
#include "ir/interp/interp_ops.h"

#include <math.h>

void
dop_interp_moments(const dop_interp_node *n)
{
    const dop_tensor *x = n->src[0];
    const uint64_t cols = last_axis(x), rows = x->count / cols, parts = n->out.shape.dim[0].mul,
                   groups = n->out.shape.dim[1].mul, wide = cols / groups, span = (rows + parts - 1) / parts;
    for (uint64_t i = 0; i < parts * groups; i++) {
        const uint64_t lo = i / groups * span, hi = lo + span < rows ? lo + span : rows;
        const float *at = x->f + i % groups * wide;
        double sum = 0, squares = 0, count = lo < hi ? (double)((hi - lo) * wide) : 0;
        for (uint64_t r = lo; r < hi; r++)
            for (uint64_t c = 0; c < wide; c++)
                sum += (double)at[r * cols + c];
        const double mean = count > 0 ? sum / count : 0;
        for (uint64_t r = lo; r < hi; r++)
            for (uint64_t c = 0; c < wide; c++)
                squares += pow((double)at[r * cols + c] - mean, 2);
        n->out.f[3 * i] = (float)count;
        n->out.f[3 * i + 1] = (float)mean;
        n->out.f[3 * i + 2] = (float)squares;
    }
}

/* Merges the moments of all parts of a group (Chan et al., https://doi.org/10.1007/978-3-642-51461-6_3). */
void
dop_interp_moments_norm(const dop_interp_node *n)
{
    const dop_shape *s = &n->src[0]->shape;
    const uint64_t parts = s->dim[0].mul, groups = s->dim[1].mul, cols = last_axis(n->src[1]);
    const double eps = dop_node_f(n->g, n->id, DOP_A_eps);
    for (uint64_t c = 0; c < cols; c++) {
        double count = 0, mean = 0, squares = 0;
        for (uint64_t p = 0; p < parts; p++) {
            const float *m = n->src[0]->f + (p * groups + c / (cols / groups)) * 3;
            const double all = count + (double)m[0], far = (double)m[1] - mean;
            if (m[0] > 0) {
                squares += (double)m[2] + far * far * count * (double)m[0] / all;
                mean += far * (double)m[0] / all;
                count = all;
            }
        }
        const double by = (double)n->src[1]->f[c] / sqrt(squares / (count > 0 ? count : 1) + eps);
        n->out.f[c] = (float)by;
        n->out.f[cols + c] = (float)((double)n->src[2]->f[c] - mean * by);
    }
}
