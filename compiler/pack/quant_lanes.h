/* Inner loops of quantization for eight blocks (or sub-blocks) at once: sums over rounded values, and searches for the
 * scales and offsets with the least squared error.
 *
 * Every lane is an independent block and no operation crosses lanes, so results do not depend on the vector width of
 * the machine. */
#ifndef DOPPLER_COMPILER_PACK_QUANT_LANES_H
#define DOPPLER_COMPILER_PACK_QUANT_LANES_H

#include <stdbool.h>
#include <stdint.h>

enum { DOP_LANES = 8 };

/* Weighted sums of values x and of q = clamp(round((x - off) / scale), lo, hi). */
typedef struct dop_lane_sums {
    float n[DOP_LANES]; /* sum of the weights */
    float x[DOP_LANES], q[DOP_LANES], qq[DOP_LANES], xq[DOP_LANES];
} dop_lane_sums;

/* x is [n][DOP_LANES] unless noted otherwise: value i of all blocks is contiguous. n is a multiple of 8. w has the same
 * layout and contains nonnegative weights of the squared errors; NULL: all are 1. */
typedef struct dop_lanes {
    /* Transposes [DOP_LANES][n] to [n][DOP_LANES]. */
    void (*side_by_side)(const float *blocks, uint32_t n, float *out);
    /* Computes the sums for each lane; `inverse` is 1 / scale. */
    void (*sums)(const float *x, const float *w, uint32_t n, const float *inverse, const float *off, float lo, float hi,
                 dop_lane_sums *out);
    /* Computes each lane's squared error of scale * q + off with the best integers q in lo .. hi. */
    void (*error)(const float *x, const float *w, uint32_t n, const float *scale, const float *off, float lo, float hi,
                  float *out);
    /* Computes each lane's squared error of scale * level with the best of the levels 0 0.5 1 1.5 2 3 4 6 of either
     * sign. */
    void (*error_e2m1)(const float *x, const float *w, uint32_t n, const float *scale, float *out);
    /* Finds each lane's best scale for scale * q, with q in lo .. hi. */
    void (*fit_scale)(const float *x, const float *w, uint32_t n, float lo, float hi, float *out_scale);
    /* Finds each lane's best scale >= 0 and offset for scale * q + off, with q in 0 .. hi. off > 0 is allowed only with
     * free_off. */
    void (*fit_affine)(const float *x, const float *w, uint32_t n, float hi, bool free_off, float *out_scale,
                       float *out_off);
    /* Rounds n values x[n] of one block to integers (x - off) * inverse in lo .. hi, at most 255. */
    void (*round)(const float *x, uint32_t n, float inverse, float off, float lo, float hi, uint8_t *out);
} dop_lanes;

extern const dop_lanes dop_lanes_of_4;
#ifdef __x86_64__
extern const dop_lanes dop_lanes_of_8; /* for processors with AVX2 */
#endif

/* Returns the fastest implementation on this machine. */
const dop_lanes *dop_lanes_best(void);

#endif
