/* Implements dop_lanes with vectors of WIDTH floats. quant_lanes_avx2.c includes this file with wider vectors. */
#include "compiler/pack/quant_lanes.h"

#include <string.h>
#ifdef __SSE2__
#include <immintrin.h>
#endif

#ifndef WIDTH
#define WIDTH 4
#define OPERATIONS dop_lanes_of_4
#endif

typedef float vec __attribute__((vector_size(4 * WIDTH)));
typedef int32_t bits __attribute__((vector_size(4 * WIDTH)));

static inline vec
broadcast_float(float v)
{
    return v - (vec){0};
}

static inline vec
load_vec(const float *p)
{
    vec v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline void
store_vec(float *p, vec v)
{
    memcpy(p, &v, sizeof v);
}

static inline vec
select_vec(bits mask, vec a, vec b)
{
    return (vec)((mask & (bits)a) | (~mask & (bits)b));
}

/* min_vec: a < b ? a : b in each lane; max_vec: a > b ? a : b */
static inline vec
min_vec(vec a, vec b)
{
#if defined __SSE2__ && WIDTH == 8
    return (vec)_mm256_min_ps((__m256)a, (__m256)b);
#elif defined __SSE2__
    return (vec)_mm_min_ps((__m128)a, (__m128)b);
#else
    return select_vec(a < b, a, b);
#endif
}

static inline vec
max_vec(vec a, vec b)
{
#if defined __SSE2__ && WIDTH == 8
    return (vec)_mm256_max_ps((__m256)a, (__m256)b);
#elif defined __SSE2__
    return (vec)_mm_max_ps((__m128)a, (__m128)b);
#else
    return select_vec(a > b, a, b);
#endif
}

static inline bool
any_lane_set(bits mask)
{
    int32_t m[WIDTH], r = 0;
    memcpy(m, &mask, sizeof m);
    for (int i = 0; i < WIDTH; i++)
        r |= m[i];
    return r != 0;
}

static inline vec
abs_vec(vec v)
{
    return (vec)((bits)v & (bits)((vec){0} == (vec){0}) & 0x7fffffff);
}

/* Rounds to the nearest integer for |v| < 2^22, because adding 1.5 * 2^23 leaves no fraction bits. */
static inline vec
round_vec(vec v)
{
    return (v + 12582912.0f) - 12582912.0f;
}

static inline vec
round_vec_clamped(vec x, vec off, vec inverse, vec lo, vec hi)
{
    return min_vec(max_vec(round_vec((x - off) * inverse), lo), hi);
}

/* Returns 1 / scale, or 0 if that would exceed the range of floats. */
static inline vec
invert_vec_scale(vec scale)
{
    return select_vec(abs_vec(scale) > 1e-37f, 1 / scale, broadcast_float(0));
}

/* Returns v times the weights of value i in all lanes; v itself if w is NULL. */
static inline vec
weigh_vec(const float *w, uint32_t i, vec v)
{
    return w ? v * load_vec(w + i * DOP_LANES) : v;
}

typedef struct sums {
    vec x, q, qq, xq;
} sums;

static inline sums
sum_rounded(const float *x, const float *w, uint32_t n, vec inverse, vec off, vec lo, vec hi)
{
    sums s = {broadcast_float(0), broadcast_float(0), broadcast_float(0), broadcast_float(0)};
    for (uint32_t i = 0; i < n; i++) {
        vec v = load_vec(x + i * DOP_LANES), r = round_vec_clamped(v, off, inverse, lo, hi), wr = weigh_vec(w, i, r);
        s.x += weigh_vec(w, i, v);
        s.q += wr;
        s.qq += wr * r;
        s.xq += wr * v;
    }
    return s;
}

static inline vec
sum_weights(const float *w, uint32_t n)
{
    vec s = broadcast_float(w ? 0 : (float)n);
    for (uint32_t i = 0; w && i < n; i++)
        s += load_vec(w + i * DOP_LANES);
    return s;
}

/* Returns the number of additional search steps: finer scales that clip large values, which may reduce weighted errors. */
static inline int
more_steps(const float *w)
{
    return w ? 10 : 0;
}

/* Returns the weights of the lanes starting at `first`, or NULL if w is NULL. */
static inline const float *
lanes_from(const float *w, int first)
{
    return w ? w + first : NULL;
}

typedef float four __attribute__((vector_size(16)));

static void
transpose_lanes(const float *blocks, uint32_t n, float *out)
{
    for (uint32_t j = 0; j < DOP_LANES; j += 4)
        for (uint32_t i = 0; i < n; i += 4) {
            four b[4];
            for (uint32_t k = 0; k < 4; k++)
                memcpy(&b[k], blocks + (j + k) * n + i, sizeof b[k]);
            four lo0 = __builtin_shufflevector(b[0], b[1], 0, 4, 1, 5),
                 hi0 = __builtin_shufflevector(b[0], b[1], 2, 6, 3, 7);
            four lo1 = __builtin_shufflevector(b[2], b[3], 0, 4, 1, 5),
                 hi1 = __builtin_shufflevector(b[2], b[3], 2, 6, 3, 7);
            four t[4] = {__builtin_shufflevector(lo0, lo1, 0, 1, 4, 5), __builtin_shufflevector(lo0, lo1, 2, 3, 6, 7),
                         __builtin_shufflevector(hi0, hi1, 0, 1, 4, 5), __builtin_shufflevector(hi0, hi1, 2, 3, 6, 7)};
            for (uint32_t k = 0; k < 4; k++)
                memcpy(out + (i + k) * DOP_LANES + j, &t[k], sizeof t[k]);
        }
}

static void
lane_sums(const float *x, const float *w, uint32_t n, const float *inverse, const float *off, float lo, float hi,
          dop_lane_sums *out)
{
    for (int h = 0; h < DOP_LANES; h += WIDTH) {
        sums s = sum_rounded(x + h, lanes_from(w, h), n, load_vec(inverse + h), load_vec(off + h), broadcast_float(lo),
                             broadcast_float(hi));
        store_vec(out->n + h, sum_weights(lanes_from(w, h), n));
        store_vec(out->x + h, s.x);
        store_vec(out->q + h, s.q);
        store_vec(out->qq + h, s.qq);
        store_vec(out->xq + h, s.xq);
    }
}

static void
lane_error(const float *x, const float *w, uint32_t n, const float *scale, const float *off, float lo, float hi,
           float *out)
{
    for (int h = 0; h < DOP_LANES; h += WIDTH) {
        vec s = load_vec(scale + h), o = load_vec(off + h), inverse = invert_vec_scale(s), e = broadcast_float(0);
        for (uint32_t i = 0; i < n; i++) {
            vec v = load_vec(x + h + i * DOP_LANES),
                d = s * round_vec_clamped(v, o, inverse, broadcast_float(lo), broadcast_float(hi)) + o - v;
            e += weigh_vec(lanes_from(w, h), i, d * d);
        }
        store_vec(out + h, e);
    }
}

static void
lane_error_e2m1(const float *x, const float *w, uint32_t n, const float *scale, float *out)
{
    for (int h = 0; h < DOP_LANES; h += WIDTH) {
        vec s = load_vec(scale + h), inverse = invert_vec_scale(s), e = broadcast_float(0);
        for (uint32_t i = 0; i < n; i++) {
            vec v = abs_vec(load_vec(x + h + i * DOP_LANES)) * inverse;
            vec small = round_vec(v * 2) * 0.5f, middle = round_vec(v), large = round_vec(v * 0.5f) * 2;
            vec level = select_vec(v < 2, small, select_vec(v < 4, middle, large));
            vec d = (min_vec(level, broadcast_float(6)) - v) * s;
            e += weigh_vec(lanes_from(w, h), i, d * d);
        }
        store_vec(out + h, e);
    }
}

static vec
fit_vec_scale(const float *x, const float *w, uint32_t n, float lo, float hi)
{
    vec top = broadcast_float(0), best = broadcast_float(0), from = broadcast_float(0), amax = broadcast_float(0),
        max = broadcast_float(0);
    for (uint32_t i = 0; i < n; i++) {
        vec v = load_vec(x + i * DOP_LANES), a = abs_vec(v);
        bits more = a > amax;
        amax = select_vec(more, a, amax);
        max = select_vec(more, v, max);
    }
    const bits used = amax >= 1e-30f;
    const vec one_over = 1 / select_vec(used, max, broadcast_float(1));
    /* Initial scales map the largest value to either end of the range, slightly inside or beyond it. Then rounding and
     * fitting alternate. */
    for (int side = 0; side < 2; side++) {
        float end = side ? hi : lo, reach = -lo > 16 ? 1.0f : 1.5f;
        for (int step = -4; step <= 4 + more_steps(w); step++) {
            vec inverse = (end + (float)step * reach / 4) * one_over;
            sums s = sum_rounded(x, w, n, inverse, broadcast_float(0), broadcast_float(lo), broadcast_float(hi));
            bits better = used & (s.qq > 0) & (s.xq * s.xq > top * s.qq);
            vec scale = s.xq / s.qq;
            top = select_vec(better, s.xq * scale, top);
            best = select_vec(better, scale, best);
            from = select_vec(better, 1 / inverse, from);
        }
    }
    bits active = used & (best != 0);
    for (int turn = 0; turn < 3; turn++) {
        active = active & (best != from);
        if (!any_lane_set(active))
            break;
        sums s =
            sum_rounded(x, w, n, invert_vec_scale(best), broadcast_float(0), broadcast_float(lo), broadcast_float(hi));
        from = best;
        active = active & (s.qq > 0) & (s.xq * s.xq > top * s.qq);
        vec scale = s.xq / s.qq;
        top = select_vec(active, s.xq * scale, top);
        best = select_vec(active, scale, best);
    }
    return best;
}

static void
lane_fit_scale(const float *x, const float *w, uint32_t n, float lo, float hi, float *out_scale)
{
    for (int h = 0; h < DOP_LANES; h += WIDTH)
        store_vec(out_scale + h, fit_vec_scale(x + h, lanes_from(w, h), n, lo, hi));
}

/* Affine code of each lane, scale * q + off, and its squared error. */
typedef struct fit {
    vec scale, off, error;
} fit;

/* Weighted sums over the values of each lane: weights, values and squares. lowest, highest: range of the values and 0. */
typedef struct moments {
    vec n, x, xx, lowest, highest;
} moments;

static inline moments
measure_moments(const float *x, const float *w, uint32_t n)
{
    moments m = {sum_weights(w, n), broadcast_float(0), broadcast_float(0), broadcast_float(0), broadcast_float(0)};
    for (uint32_t i = 0; i < n; i++) {
        vec v = load_vec(x + i * DOP_LANES);
        m.lowest = min_vec(v, m.lowest);
        m.highest = max_vec(v, m.highest);
        m.x += weigh_vec(w, i, v);
        m.xx += weigh_vec(w, i, v * v);
    }
    return m;
}

/* Returns the best scale and offset for given sums. Positive offsets are allowed only with free_off. */
static inline fit
solve_affine(const sums *s, const moments *m, bool free_off)
{
    const vec zero = broadcast_float(0), det = m->n * s->qq - s->q * s->q, mean = m->x / m->n;
    vec scale = (m->n * s->xq - m->x * s->q) / det, off = (s->qq * m->x - s->q * s->xq) / det;
    bits through_zero = det <= 0;
    if (!free_off)
        through_zero = through_zero | (off > 0);
    scale = select_vec(through_zero, select_vec(s->qq > 0, s->xq / s->qq, zero), scale);
    off = select_vec(through_zero, zero, off);
    /* If all integers are 0, only the offset matters. With free_off, choose a scale by which a zero point can express
     * it. */
    const bits low = s->q <= 0;
    scale = select_vec(low, free_off ? -mean : zero, scale);
    off = select_vec(low, mean, off);
    const vec e =
        scale * scale * s->qq + 2 * scale * off * s->q + m->n * off * off - 2 * scale * s->xq - 2 * off * m->x + m->xx;
    return (fit){scale, off, e};
}

static inline void
take_better_fit(fit *best, const fit *f, bits where)
{
    best->scale = select_vec(where, f->scale, best->scale);
    best->off = select_vec(where, f->off, best->off);
    best->error = select_vec(where, f->error, best->error);
}

static fit
fit_vec_affine(const float *x, const float *w, uint32_t n, float hi, bool free_off)
{
    const moments m = measure_moments(x, w, n);
    const vec range = m.highest - m.lowest;
    const bits used = range >= 1e-30f;
    const vec one_over = 1 / select_vec(used, range, broadcast_float(1));
    fit best = {broadcast_float(0), broadcast_float(0), m.xx};
    for (int step = -3; step <= 3 + more_steps(w); step++) {
        sums s = sum_rounded(x, w, n, (hi + (float)step * 0.5f) * one_over, m.lowest, broadcast_float(0),
                             broadcast_float(hi));
        fit f = solve_affine(&s, &m, free_off);
        take_better_fit(&best, &f, used & (f.scale >= 0) & (f.error < best.error));
    }
    /* Both ends of the range may move: round and refit, starting from the best fit so far. */
    bits active = used & (best.scale > 0);
    for (int turn = 0; turn < 4 && any_lane_set(active); turn++) {
        sums s = sum_rounded(x, w, n, invert_vec_scale(best.scale), best.off, broadcast_float(0), broadcast_float(hi));
        fit f = solve_affine(&s, &m, free_off);
        active = active & (f.scale > 0) & (f.error < best.error);
        take_better_fit(&best, &f, active);
    }
    return best;
}

static void
lane_fit_affine(const float *x, const float *w, uint32_t n, float hi, bool free_off, float *out_scale, float *out_off)
{
    for (int h = 0; h < DOP_LANES; h += WIDTH) {
        fit f = fit_vec_affine(x + h, lanes_from(w, h), n, hi, free_off);
        store_vec(out_scale + h, f.scale);
        store_vec(out_off + h, f.off);
    }
}

static void
block_round(const float *x, uint32_t n, float inverse, float off, float lo, float hi, uint8_t *out)
{
    enum { AT_ONCE = 8 };
    for (uint32_t i = 0; i < n; i += AT_ONCE) {
        int32_t q[AT_ONCE];
        for (uint32_t k = 0; k < AT_ONCE; k += WIDTH) {
            /* Adding 1.5 * 2^23, as round_vec() does, leaves the integer in the low bits. */
            vec v = round_vec_clamped(load_vec(x + i + k), broadcast_float(off), broadcast_float(inverse),
                                      broadcast_float(lo), broadcast_float(hi)) +
                    12582912.0f;
            memcpy(q + k, &v, sizeof v);
        }
        for (int k = 0; k < AT_ONCE; k++)
            out[i + (uint32_t)k] = (uint8_t)(q[k] & 255);
    }
}

const dop_lanes OPERATIONS = {
    .side_by_side = transpose_lanes,
    .sums = lane_sums,
    .error = lane_error,
    .error_e2m1 = lane_error_e2m1,
    .fit_scale = lane_fit_scale,
    .fit_affine = lane_fit_affine,
    .round = block_round,
};
