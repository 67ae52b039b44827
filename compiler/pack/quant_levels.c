#include "compiler/pack/quant_levels.h"

#include "base/base.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

enum { BLOCK = 256, MAX_SUB = 32, MAX_SUBS = 16, MAX_LEVELS = 16 };

/* Levels in ascending order, and the midpoint between each level and the next. The last midpoint is infinite. */
typedef struct ladder {
    uint32_t n;
    float level[MAX_LEVELS], middle[MAX_LEVELS];
} ladder;

static ladder
make_ladder(const float *levels, uint32_t n)
{
    ladder l = {.n = n};
    for (uint32_t i = 0; i < n; i++) {
        l.level[i] = levels[i];
        l.middle[i] = i + 1 < n ? (levels[i] + levels[i + 1]) / 2 : INFINITY;
    }
    return l;
}

static uint32_t
find_nearest_level(const ladder *l, float v)
{
    uint32_t at = 0;
    for (uint32_t half = l->n / 2; half > 0; half /= 2) /* binary search; n is a power of two */
        at += v > l->middle[at + half - 1] ? half : 0;
    return at;
}

static float
store_f16_rounded(float v, uint8_t *out)
{
    const uint16_t h = dop_f32_to_f16(fminf(fmaxf(v, -65504), 65504));
    out[0] = (uint8_t)(h & 255);
    out[1] = (uint8_t)(h >> 8);
    return dop_f16_to_f32(h);
}

static float
invert_level_scale(float scale)
{
    return fabsf(scale) > 1e-37f ? 1 / scale : 0;
}

/* Returns the weight of value i, or 1 if w is NULL. */
static float
get_value_weight(const float *w, uint32_t i)
{
    return w ? w[i] : 1;
}

/* Returns the weights starting at value i, or NULL if w is NULL. */
static const float *
offset_weights(const float *w, uint32_t i)
{
    return w ? w + i : NULL;
}

/* Returns the weighted squared error of n values when each is replaced by the nearest scale * level. *xq / *qq is the
 * best scale for these levels. */
static double
measure_level_error(const ladder *l, const float *x, const float *w, uint32_t n, float scale, double *xq, double *qq)
{
    const float inverse = invert_level_scale(scale);
    float error = 0, sum_xq = 0, sum_qq = 0;
    for (uint32_t i = 0; i < n; i++) {
        const float q = l->level[find_nearest_level(l, x[i] * inverse)], e = x[i] - scale * q,
                    wq = get_value_weight(w, i) * q;
        error += get_value_weight(w, i) * e * e;
        sum_xq += wq * x[i];
        sum_qq += wq * q;
    }
    *xq = (double)sum_xq;
    *qq = (double)sum_qq;
    return (double)error;
}

/* Searches for the scale with the least error. Initial scales map the largest value near either end of the levels; then
 * follows the best scale for the levels found so far. */
static float
fit_level_scale(const ladder *l, const float *x, const float *w, uint32_t n)
{
    const uint32_t steps = w ? 25 : 13; /* with weights, also try scales that clip large values */
    float most = 0, best = 0, better = 0;
    double least = INFINITY, xq, qq;
    for (uint32_t i = 0; i < n; i++)
        most = fabsf(x[i]) > fabsf(most) ? x[i] : most;
    if (fabsf(most) < 1e-30f)
        return 0;
    const float ends[2] = {l->level[0], l->level[l->n - 1]};
    for (uint32_t k = 0; k < 2 * steps + 2; k++) { /* the last two steps try the refitted scale */
        const float end = ends[k % 2] * (1 + 0.05f * ((float)(k / 2) - 6));
        const float scale = k < 2 * steps ? most / end : better;
        const double error = measure_level_error(l, x, w, n, scale, &xq, &qq);
        if (error < least) {
            least = error;
            best = scale;
            better = qq > 0 ? (float)(xq / qq) : scale;
        }
    }
    return best;
}

/* Chooses the scale d of a block, and an integer s[n_subs] in lo .. hi for each sub-block, so that scales d * s[j] have
 * the least error. d is an f16 value, also stored at d_out. */
static float
choose_level_scales(const ladder *l, const float *x, const float *w, uint32_t n_subs, int lo, int hi, int *s,
                    uint8_t *d_out)
{
    const uint32_t n = BLOCK / n_subs;
    float scale[MAX_SUBS], most = 0, best_d = 0, d;
    double least = INFINITY;
    for (uint32_t j = 0; j < n_subs; j++) {
        scale[j] = fit_level_scale(l, x + j * n, offset_weights(w, j * n), n);
        most = fabsf(scale[j]) > fabsf(most) ? scale[j] : most;
    }
    memset(s, 0, n_subs * sizeof *s);
    /* The first two turns scale the largest sub-block scale into lo .. hi in two ways. Two more use the best d for the
     * integers of the previous turn. */
    for (int turn = 0; turn < 4; turn++) {
        double total = 0, all_xq = 0, all_qq = 0;
        uint8_t bytes[2];
        int tried[MAX_SUBS];
        d = turn == 0 ? most / (float)lo : turn == 1 ? most / ((float)lo - 0.7f) : d;
        d = store_f16_rounded(d, bytes);
        for (uint32_t j = 0; j < n_subs; j++) {
            double sub = INFINITY, sub_xq = 0, sub_qq = 0;
            const int from = d != 0 ? (int)rintf(fminf(fmaxf(scale[j] / d, (float)lo), (float)hi)) : 0;
            tried[j] = 0;
            for (int k = from - 1; k <= from + 1; k++) {
                double xq, qq;
                if (k < lo || k > hi)
                    continue;
                const double error =
                    measure_level_error(l, x + j * n, offset_weights(w, j * n), n, d * (float)k, &xq, &qq);
                if (error < sub) {
                    sub = error;
                    tried[j] = k;
                    sub_xq = xq * k;
                    sub_qq = qq * k * k;
                }
            }
            total += sub;
            all_xq += sub_xq;
            all_qq += sub_qq;
        }
        if (total < least) {
            least = total;
            best_d = d;
            memcpy(d_out, bytes, sizeof bytes);
            memcpy(s, tried, n_subs * sizeof *s);
        }
        d = all_qq > 0 ? (float)(all_xq / all_qq) : d;
    }
    return best_d;
}

/* ir/interp/interp_decode.c documents the field layout of all blocks written below. */
void
dop_make_q3_k(const float *x, const float *w, uint8_t *out)
{
    static const float levels[8] = {-4, -3, -2, -1, 0, 1, 2, 3};
    const ladder l = make_ladder(levels, 8);
    int s[16];
    const float d = choose_level_scales(&l, x, w, 16, -32, 31, s, out + 108);
    for (uint32_t j = 0; j < 16; j++) {
        const uint32_t v = (uint32_t)(s[j] + 32);
        const float inverse = invert_level_scale(d * (float)s[j]);
        out[96 + j % 8] = (uint8_t)(out[96 + j % 8] | (v & 15) << (j < 8 ? 0 : 4));
        out[104 + j % 4] = (uint8_t)(out[104 + j % 4] | v >> 4 << (2 * (j / 4)));
        for (uint32_t i = 16 * j; i < 16 * j + 16; i++) {
            const uint32_t q = find_nearest_level(&l, x[i] * inverse);
            uint8_t *low = out + 32 + i / 128 * 32 + i % 32;
            *low = (uint8_t)(*low | (q & 3) << (2 * (i % 128 / 32)));
            out[i % 32] = (uint8_t)(out[i % 32] | q >> 2 << (i / 32));
        }
    }
}

void
dop_make_iq4_xs(const float *x, const float *w, uint8_t *out)
{
    static const float levels[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
    const ladder l = make_ladder(levels, 16);
    int s[8];
    uint32_t high = 0;
    const float d = choose_level_scales(&l, x, w, 8, -32, 31, s, out);
    for (uint32_t j = 0; j < 8; j++) {
        const uint32_t v = (uint32_t)(s[j] + 32);
        const float inverse = invert_level_scale(d * (float)s[j]);
        high |= v >> 4 << (2 * j);
        out[4 + j / 2] = (uint8_t)(out[4 + j / 2] | (v & 15) << (4 * (j % 2)));
        for (uint32_t i = 0; i < 32; i++) {
            uint8_t *two = out + 8 + 16 * j + i % 16;
            *two = (uint8_t)(*two | find_nearest_level(&l, x[32 * j + i] * inverse) << (i < 16 ? 0 : 4));
        }
    }
    out[2] = (uint8_t)(high & 255);
    out[3] = (uint8_t)(high >> 8);
}

static float
load_half_e4m3(uint32_t b)
{
    return b >> 3 ? ldexpf((float)(8 + (b & 7)), (int)(b >> 3) - 11) : ldexpf((float)b, -10);
}

void
dop_make_nvfp4(const float *x, const float *w, uint8_t *out)
{
    static const float levels[16] = {-12, -8, -6, -4, -3, -2, -1, 0, 0, 1, 2, 3, 4, 6, 8, 12};
    static const uint8_t codes[16] = {15, 14, 13, 12, 11, 10, 9, 0, 0, 1, 2, 3, 4, 5, 6, 7};
    const ladder l = make_ladder(levels, 16);
    for (uint32_t j = 0; j < 4; j++) {
        float most = 0;
        double least = INFINITY, xq, qq;
        uint32_t best = 0, from = 0;
        for (uint32_t i = 16 * j; i < 16 * j + 16; i++)
            most = fmaxf(most, fabsf(x[i]));
        while (from < 126 && 12 * load_half_e4m3(from) < most)
            from++;
        for (uint32_t b = from > 6 ? from - 6 : 0; b <= from + 6 && b <= 126; b++) {
            const double error =
                measure_level_error(&l, x + 16 * j, offset_weights(w, 16 * j), 16, load_half_e4m3(b), &xq, &qq);
            if (error < least) {
                least = error;
                best = b;
            }
        }
        const float inverse = invert_level_scale(load_half_e4m3(best));
        out[j] = (uint8_t)best;
        for (uint32_t i = 0; i < 16; i++) {
            uint8_t *two = out + 4 + 8 * j + i % 8;
            *two = (uint8_t)(*two | codes[find_nearest_level(&l, x[16 * j + i] * inverse)] << (i < 8 ? 0 : 4));
        }
    }
}

/* --- q2_k: a scale and a minimum -------------------------------------------------------------------------------------------- */

typedef struct affine {
    float scale, min; /* a value is scale * q - min, with q in 0 .. 3 and min >= 0 */
    double error;
} affine;

typedef struct sums {
    double error, n, q, qq, xq, x; /* n: sum of the weights */
} sums;

static sums
sum_q2_affine(const float *x, const float *w, uint32_t n, float scale, float min)
{
    const float inverse = invert_level_scale(scale);
    float error = 0, sn = 0, sq = 0, sqq = 0, sxq = 0, sx = 0;
    for (uint32_t i = 0; i < n; i++) {
        const float q = fminf(fmaxf(rintf((x[i] + min) * inverse), 0), 3), e = x[i] - (scale * q - min);
        const float wi = get_value_weight(w, i), wq = wi * q;
        error += wi * e * e;
        sn += wi;
        sq += wq;
        sqq += wq * q;
        sxq += wq * x[i];
        sx += wi * x[i];
    }
    return (sums){(double)error, (double)sn, (double)sq, (double)sqq, (double)sxq, (double)sx};
}

static affine
fit_q2_affine(const float *x, const float *w, uint32_t n)
{
    float lo = 0, hi = x[0];
    affine best = {0, 0, INFINITY};
    for (uint32_t i = 0; i < n; i++) {
        lo = fminf(lo, x[i]);
        hi = fmaxf(hi, x[i]);
    }
    for (int a = 0; a <= (w ? 16 : 8); a++)
        for (int b = 0; b <= (w ? 8 : 4); b++) {
            float min = -lo * (1 - 0.08f * (float)b), scale = (hi + min) / (2.4f + 0.15f * (float)a);
            for (int turn = 0; turn < 3 && scale > 0; turn++) {
                const sums s = sum_q2_affine(x, w, n, scale, min);
                if (s.error < best.error)
                    best = (affine){scale, min, s.error};
                const double det = s.qq * s.n - s.q * s.q;
                if (!(det > 1e-9))
                    break;
                scale = (float)((s.xq * s.n - s.x * s.q) / det);
                min = (float)((s.q * s.xq - s.qq * s.x) / det);
                if (min < 0) {
                    min = 0;
                    scale = s.qq > 0 ? (float)(s.xq / s.qq) : 0;
                }
            }
        }
    if (best.error > 1e300) /* all values are equal and negative, or all are zero */
        best = (affine){0, -lo, 0};
    return best;
}

void
dop_make_q2_k(const float *x, const float *w, uint8_t *out)
{
    affine fit[16];
    int scale[16] = {0}, min[16] = {0};
    float top = 0, low = 0, d, dmin, best_d = 0, best_min = 0;
    double least = INFINITY;
    for (uint32_t j = 0; j < 16; j++) {
        fit[j] = fit_q2_affine(x + 16 * j, offset_weights(w, 16 * j), 16);
        top = fmaxf(top, fit[j].scale);
        low = fmaxf(low, fit[j].min);
    }
    d = top / 15;
    dmin = low / 15;
    for (int turn = 0; turn < 4; turn++) {
        double total = 0, aa = 0, ab = 0, bb = 0, ax = 0, bx = 0;
        uint8_t bytes[4];
        int s[16] = {0}, m[16] = {0};
        d = store_f16_rounded(fmaxf(d, 0), bytes);
        dmin = store_f16_rounded(fmaxf(dmin, 0), bytes + 2);
        for (uint32_t j = 0; j < 16; j++) {
            sums best = {.error = INFINITY};
            const int s0 = d > 0 ? (int)rintf(fminf(fit[j].scale / d, 15)) : 0;
            const int m0 = dmin > 0 ? (int)rintf(fminf(fit[j].min / dmin, 15)) : 0;
            for (int ds = -1; ds <= 1; ds++)
                for (int dm = -2; dm <= 2; dm++) {
                    const int sj = s0 + ds, mj = m0 + dm;
                    if (sj < 0 || sj > 15 || mj < 0 || mj > 15)
                        continue;
                    const sums t =
                        sum_q2_affine(x + 16 * j, offset_weights(w, 16 * j), 16, d * (float)sj, dmin * (float)mj);
                    if (t.error < best.error) {
                        best = t;
                        s[j] = sj;
                        m[j] = mj;
                    }
                }
            total += best.error;
            aa += (double)(s[j] * s[j]) * best.qq;
            ab -= (double)(s[j] * m[j]) * best.q;
            bb += (double)(m[j] * m[j]) * best.n;
            ax += s[j] * best.xq;
            bx -= m[j] * best.x;
        }
        if (total < least) {
            least = total;
            best_d = d;
            best_min = dmin;
            memcpy(scale, s, sizeof s);
            memcpy(min, m, sizeof m);
            memcpy(out + 80, bytes, sizeof bytes);
        }
        const double det = aa * bb - ab * ab;
        if (det > 1e-9 * aa * bb) {
            d = (float)((ax * bb - bx * ab) / det);
            dmin = (float)((bx * aa - ax * ab) / det);
        } else if (aa > 0) {
            d = (float)(ax / aa);
        }
    }
    for (uint32_t j = 0; j < 16; j++) {
        const float s = best_d * (float)scale[j], m = best_min * (float)min[j], inverse = invert_level_scale(s);
        out[j] = (uint8_t)(scale[j] | min[j] << 4);
        for (uint32_t i = 16 * j; i < 16 * j + 16; i++) {
            const uint32_t q = (uint32_t)fminf(fmaxf(rintf((x[i] + m) * inverse), 0), 3);
            uint8_t *low_bits = out + 16 + i / 128 * 32 + i % 32;
            *low_bits = (uint8_t)(*low_bits | q << (2 * (i % 128 / 32)));
        }
    }
}
