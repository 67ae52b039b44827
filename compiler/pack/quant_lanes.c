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
all(float v)
{
    return v - (vec){0};
}

static inline vec
load(const float *p)
{
    vec v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline void
store(float *p, vec v)
{
    memcpy(p, &v, sizeof v);
}

static inline vec
choose(bits mask, vec a, vec b)
{
    return (vec)((mask & (bits)a) | (~mask & (bits)b));
}

/* least(a, b) is a < b ? a : b; most(a, b) is a > b ? a : b. */
static inline vec
least(vec a, vec b)
{
#if defined __SSE2__ && WIDTH == 8
    return (vec)_mm256_min_ps((__m256)a, (__m256)b);
#elif defined __SSE2__
    return (vec)_mm_min_ps((__m128)a, (__m128)b);
#else
    return choose(a < b, a, b);
#endif
}

static inline vec
most(vec a, vec b)
{
#if defined __SSE2__ && WIDTH == 8
    return (vec)_mm256_max_ps((__m256)a, (__m256)b);
#elif defined __SSE2__
    return (vec)_mm_max_ps((__m128)a, (__m128)b);
#else
    return choose(a > b, a, b);
#endif
}

static inline bool
any(bits mask)
{
    int32_t m[WIDTH], r = 0;
    memcpy(m, &mask, sizeof m);
    for (int i = 0; i < WIDTH; i++)
        r |= m[i];
    return r != 0;
}

static inline vec
absolute(vec v)
{
    return (vec)((bits)v & (bits)((vec){0} == (vec){0}) & 0x7fffffff);
}

/* Rounds to the nearest integer for |v| < 2^22, because adding 1.5 * 2^23 leaves no fraction bits. */
static inline vec
nearest(vec v)
{
    return (v + 12582912.0f) - 12582912.0f;
}

static inline vec
rounded(vec x, vec off, vec inverse, vec lo, vec hi)
{
    return least(most(nearest((x - off) * inverse), lo), hi);
}

/* Returns 1 / scale, or 0 if that would exceed the range of floats. */
static inline vec
inverse_of(vec scale)
{
    return choose(absolute(scale) > 1e-37f, 1 / scale, all(0));
}

/* Returns v times the weights of value i in all lanes; v itself if w is NULL. */
static inline vec
weigh(const float *w, uint32_t i, vec v)
{
    return w ? v * load(w + i * DOP_LANES) : v;
}

typedef struct sums {
    vec x, q, qq, xq;
} sums;

static inline sums
sum_rounded(const float *x, const float *w, uint32_t n, vec inverse, vec off, vec lo, vec hi)
{
    sums s = {all(0), all(0), all(0), all(0)};
    for (uint32_t i = 0; i < n; i++) {
        vec v = load(x + i * DOP_LANES), r = rounded(v, off, inverse, lo, hi), wr = weigh(w, i, r);
        s.x += weigh(w, i, v);
        s.q += wr;
        s.qq += wr * r;
        s.xq += wr * v;
    }
    return s;
}

static inline vec
sum_weights(const float *w, uint32_t n)
{
    vec s = all(w ? 0 : (float)n);
    for (uint32_t i = 0; w && i < n; i++)
        s += load(w + i * DOP_LANES);
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
side_by_side(const float *blocks, uint32_t n, float *out)
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
        sums s = sum_rounded(x + h, lanes_from(w, h), n, load(inverse + h), load(off + h), all(lo), all(hi));
        store(out->n + h, sum_weights(lanes_from(w, h), n));
        store(out->x + h, s.x);
        store(out->q + h, s.q);
        store(out->qq + h, s.qq);
        store(out->xq + h, s.xq);
    }
}

static void
lane_error(const float *x, const float *w, uint32_t n, const float *scale, const float *off, float lo, float hi,
           float *out)
{
    for (int h = 0; h < DOP_LANES; h += WIDTH) {
        vec s = load(scale + h), o = load(off + h), inverse = inverse_of(s), e = all(0);
        for (uint32_t i = 0; i < n; i++) {
            vec v = load(x + h + i * DOP_LANES), d = s * rounded(v, o, inverse, all(lo), all(hi)) + o - v;
            e += weigh(lanes_from(w, h), i, d * d);
        }
        store(out + h, e);
    }
}

static void
lane_error_e2m1(const float *x, const float *w, uint32_t n, const float *scale, float *out)
{
    for (int h = 0; h < DOP_LANES; h += WIDTH) {
        vec s = load(scale + h), inverse = inverse_of(s), e = all(0);
        for (uint32_t i = 0; i < n; i++) {
            vec v = absolute(load(x + h + i * DOP_LANES)) * inverse;
            vec small = nearest(v * 2) * 0.5f, middle = nearest(v), large = nearest(v * 0.5f) * 2;
            vec level = choose(v < 2, small, choose(v < 4, middle, large));
            vec d = (least(level, all(6)) - v) * s;
            e += weigh(lanes_from(w, h), i, d * d);
        }
        store(out + h, e);
    }
}

static vec
fit_scale(const float *x, const float *w, uint32_t n, float lo, float hi)
{
    vec top = all(0), best = all(0), from = all(0), amax = all(0), max = all(0);
    for (uint32_t i = 0; i < n; i++) {
        vec v = load(x + i * DOP_LANES), a = absolute(v);
        bits more = a > amax;
        amax = choose(more, a, amax);
        max = choose(more, v, max);
    }
    const bits used = amax >= 1e-30f;
    const vec one_over = 1 / choose(used, max, all(1));
    /* Initial scales map the largest value to either end of the range, slightly inside or beyond it. Then rounding and
     * fitting alternate. */
    for (int side = 0; side < 2; side++) {
        float end = side ? hi : lo, reach = -lo > 16 ? 1.0f : 1.5f;
        for (int step = -4; step <= 4 + more_steps(w); step++) {
            vec inverse = (end + (float)step * reach / 4) * one_over;
            sums s = sum_rounded(x, w, n, inverse, all(0), all(lo), all(hi));
            bits better = used & (s.qq > 0) & (s.xq * s.xq > top * s.qq);
            vec scale = s.xq / s.qq;
            top = choose(better, s.xq * scale, top);
            best = choose(better, scale, best);
            from = choose(better, 1 / inverse, from);
        }
    }
    bits active = used & (best != 0);
    for (int turn = 0; turn < 3; turn++) {
        active = active & (best != from);
        if (!any(active))
            break;
        sums s = sum_rounded(x, w, n, inverse_of(best), all(0), all(lo), all(hi));
        from = best;
        active = active & (s.qq > 0) & (s.xq * s.xq > top * s.qq);
        vec scale = s.xq / s.qq;
        top = choose(active, s.xq * scale, top);
        best = choose(active, scale, best);
    }
    return best;
}

static void
lane_fit_scale(const float *x, const float *w, uint32_t n, float lo, float hi, float *out_scale)
{
    for (int h = 0; h < DOP_LANES; h += WIDTH)
        store(out_scale + h, fit_scale(x + h, lanes_from(w, h), n, lo, hi));
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
measure(const float *x, const float *w, uint32_t n)
{
    moments m = {sum_weights(w, n), all(0), all(0), all(0), all(0)};
    for (uint32_t i = 0; i < n; i++) {
        vec v = load(x + i * DOP_LANES);
        m.lowest = least(v, m.lowest);
        m.highest = most(v, m.highest);
        m.x += weigh(w, i, v);
        m.xx += weigh(w, i, v * v);
    }
    return m;
}

/* Returns the best scale and offset for given sums. Positive offsets are allowed only with free_off. */
static inline fit
solve(const sums *s, const moments *m, bool free_off)
{
    const vec zero = all(0), det = m->n * s->qq - s->q * s->q, mean = m->x / m->n;
    vec scale = (m->n * s->xq - m->x * s->q) / det, off = (s->qq * m->x - s->q * s->xq) / det;
    bits through_zero = det <= 0;
    if (!free_off)
        through_zero = through_zero | (off > 0);
    scale = choose(through_zero, choose(s->qq > 0, s->xq / s->qq, zero), scale);
    off = choose(through_zero, zero, off);
    /* If all integers are 0, only the offset matters. With free_off, choose a scale by which a zero point can express
     * it. */
    const bits low = s->q <= 0;
    scale = choose(low, free_off ? -mean : zero, scale);
    off = choose(low, mean, off);
    const vec e =
        scale * scale * s->qq + 2 * scale * off * s->q + m->n * off * off - 2 * scale * s->xq - 2 * off * m->x + m->xx;
    return (fit){scale, off, e};
}

static inline void
take(fit *best, const fit *f, bits where)
{
    best->scale = choose(where, f->scale, best->scale);
    best->off = choose(where, f->off, best->off);
    best->error = choose(where, f->error, best->error);
}

static fit
fit_affine(const float *x, const float *w, uint32_t n, float hi, bool free_off)
{
    const moments m = measure(x, w, n);
    const vec range = m.highest - m.lowest;
    const bits used = range >= 1e-30f;
    const vec one_over = 1 / choose(used, range, all(1));
    fit best = {all(0), all(0), m.xx};
    for (int step = -3; step <= 3 + more_steps(w); step++) {
        sums s = sum_rounded(x, w, n, (hi + (float)step * 0.5f) * one_over, m.lowest, all(0), all(hi));
        fit f = solve(&s, &m, free_off);
        take(&best, &f, used & (f.scale >= 0) & (f.error < best.error));
    }
    /* Both ends of the range may move: round and refit, starting from the best fit so far. */
    bits active = used & (best.scale > 0);
    for (int turn = 0; turn < 4 && any(active); turn++) {
        sums s = sum_rounded(x, w, n, inverse_of(best.scale), best.off, all(0), all(hi));
        fit f = solve(&s, &m, free_off);
        active = active & (f.scale > 0) & (f.error < best.error);
        take(&best, &f, active);
    }
    return best;
}

static void
lane_fit_affine(const float *x, const float *w, uint32_t n, float hi, bool free_off, float *out_scale, float *out_off)
{
    for (int h = 0; h < DOP_LANES; h += WIDTH) {
        fit f = fit_affine(x + h, lanes_from(w, h), n, hi, free_off);
        store(out_scale + h, f.scale);
        store(out_off + h, f.off);
    }
}

static void
block_round(const float *x, uint32_t n, float inverse, float off, float lo, float hi, uint8_t *out)
{
    enum { AT_ONCE = 8 };
    for (uint32_t i = 0; i < n; i += AT_ONCE) {
        int32_t q[AT_ONCE];
        for (uint32_t k = 0; k < AT_ONCE; k += WIDTH) {
            /* Adding 1.5 * 2^23, as nearest() does, leaves the integer in the low bits. */
            vec v = rounded(load(x + i + k), all(off), all(inverse), all(lo), all(hi)) + 12582912.0f;
            memcpy(q + k, &v, sizeof v);
        }
        for (int k = 0; k < AT_ONCE; k++)
            out[i + (uint32_t)k] = (uint8_t)(q[k] & 255);
    }
}

const dop_lanes OPERATIONS = {
    .side_by_side = side_by_side,
    .sums = lane_sums,
    .error = lane_error,
    .error_e2m1 = lane_error_e2m1,
    .fit_scale = lane_fit_scale,
    .fit_affine = lane_fit_affine,
    .round = block_round,
};
