/* Floats to blocks.  A block is a least-squares problem: integers q and one or two factors such that d * q (- m) is near
 * the values.  Given q the best factors have a closed form; given the factors the best q is a rounding.  Each search
 * tries a range of first factors, fits, and improves the best by turns; scales that are themselves rounded (to f16, or
 * to small integers in the formats with blocks of 256) are chosen among neighbours by the error they really cause. */
#include "compiler/quant.h"

#include "ir/interp.h"

#include <math.h>
#include <string.h>

enum { MAX_N = 128 };

/* value = scale * q + off */
typedef struct fit {
    float scale, off;
    double error;
} fit;

typedef struct sums {
    double q, qq, xq;
} sums;

/* Rounds to nearest for |v| < 2^22 without a library call, so that loops vectorize. */
static inline float
nearest(float v)
{
    const float magic = 12582912.0f; /* 1.5 * 2^23: the sum keeps no fraction bits */
    return (v + magic) - magic;
}

static inline float
clamp(float v, float lo, float hi)
{
    v = v < lo ? lo : v;
    return v > hi ? hi : v;
}

/* Four at a time, in the compilers' own vector types: these two loops are where quantization spends its time. */
typedef float four __attribute__((vector_size(16)));
typedef int32_t four_bits __attribute__((vector_size(16)));

static inline four
all(float v)
{
    return (four){v, v, v, v};
}

static inline four
load(const float *p)
{
    four v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline four
clamp4(four v, four lo, four hi)
{
    four_bits low = v<lo, high = v> hi;
    four_bits r = (low & (four_bits)lo) | (high & (four_bits)hi) | (~(low | high) & (four_bits)v);
    return (four)r;
}

static inline four
round4(four x, four off, four inverse, four lo, four hi)
{
    const four magic = all(12582912.0f);
    return clamp4(((x - off) * inverse + magic) - magic, lo, hi);
}

static inline double
total(four v)
{
    return ((double)v[0] + (double)v[1]) + ((double)v[2] + (double)v[3]);
}

/* Sums over q = clamp(round((x - off) * inverse)); n is a multiple of 8. */
static sums
sum_rounded(const float *x, uint32_t n, float inverse, float off, float lo, float hi)
{
    four q = {0}, qq = {0}, xq = {0}, vi = all(inverse), vo = all(off), vl = all(lo), vh = all(hi);
    for (uint32_t i = 0; i < n; i += 4) {
        four v = load(x + i), r = round4(v, vo, vi, vl, vh);
        q += r;
        qq += r * r;
        xq += r * v;
    }
    return (sums){total(q), total(qq), total(xq)};
}

/* 1 / scale; 0 where that would leave the range of floats. */
static float
inverse_of(float scale)
{
    return fabsf(scale) > 1e-37f ? 1 / scale : 0;
}

/* Squared error of given factors, with the best q. */
static float
error_of(const float *x, uint32_t n, float scale, float off, float lo, float hi)
{
    four e = {0}, vi = all(inverse_of(scale)), vo = all(off), vl = all(lo), vh = all(hi), vs = all(scale);
    for (uint32_t i = 0; i < n; i += 4) {
        four v = load(x + i), d = vs * round4(v, vo, vi, vl, vh) + vo - v;
        e += d * d;
    }
    return (float)total(e);
}

static uint8_t
rounded(float x, float scale, float off, float lo, float hi)
{
    return (uint8_t)(int)clamp(nearest((x - off) * inverse_of(scale)), lo, hi);
}

static float
to_f16(float v, uint8_t *out)
{
    uint16_t h = dop_f32_to_f16(clamp(v, -65504, 65504));
    out[0] = (uint8_t)(h & 255);
    out[1] = (uint8_t)(h >> 8);
    return dop_f16_to_f32(h);
}

/* --- searches --------------------------------------------------------------------------------------------------------- */

/* scale * q, q in lo .. hi. */
static fit
fit_scale(const float *x, uint32_t n, float lo, float hi)
{
    float max = 0, amax = 0;
    fit best = {0};
    for (uint32_t i = 0; i < n; i++)
        if (fabsf(x[i]) > amax) {
            amax = fabsf(x[i]);
            max = x[i];
        }
    if (amax < 1e-30f)
        return best;
    double most = 0;
    float from = 0;
    /* The largest value at either end of the range, somewhat inside or beyond it; then fits by turns. */
    for (int side = 0; side < 2; side++) {
        float end = side ? hi : lo, reach = -lo > 16 ? 1.0f : 1.5f;
        for (int step = -4; step <= 4; step++) {
            float inverse = (end + (float)step * reach / 4) / max;
            sums s = sum_rounded(x, n, inverse, 0, lo, hi);
            if (s.qq > 0 && s.xq * s.xq > most * s.qq) {
                most = s.xq * s.xq / s.qq;
                best.scale = (float)(s.xq / s.qq);
                from = 1 / inverse;
            }
        }
    }
    for (int turn = 0; turn < 3 && best.scale != 0 && best.scale != from; turn++) {
        sums s = sum_rounded(x, n, 1 / best.scale, 0, lo, hi);
        from = best.scale;
        if (!(s.qq > 0 && s.xq * s.xq > most * s.qq))
            break;
        most = s.xq * s.xq / s.qq;
        best.scale = (float)(s.xq / s.qq);
    }
    return best;
}

/* The best scale and offset for given sums; offsets above zero are not allowed unless `free_off`. */
static fit
solve(const sums *s, double n, double x, double xx, bool free_off)
{
    double det = n * s->qq - s->q * s->q, scale = 0, off = 0;
    if (det > 0) {
        scale = (n * s->xq - x * s->q) / det;
        off = (s->qq * x - s->q * s->xq) / det;
    }
    if (s->q <= 0) { /* all at the low end: only the offset counts, and a zero point needs some scale */
        off = x / n;
        scale = free_off ? -off : 0;
    } else if (det <= 0 || (off > 0 && !free_off)) {
        off = 0;
        scale = s->qq > 0 ? s->xq / s->qq : 0;
    }
    double e = scale * scale * s->qq + 2 * scale * off * s->q + n * off * off - 2 * scale * s->xq - 2 * off * x + xx;
    return (fit){(float)scale, (float)off, e};
}

/* scale * q + off, q in 0 .. hi, scale >= 0. */
static fit
fit_affine(const float *x, uint32_t n, float hi, bool free_off)
{
    float lowest = 0, highest = 0;
    double sx = 0, sxx = 0;
    for (uint32_t i = 0; i < n; i++) {
        lowest = x[i] < lowest ? x[i] : lowest;
        highest = x[i] > highest ? x[i] : highest;
        sx += (double)x[i];
        sxx += (double)x[i] * (double)x[i];
    }
    fit best = {0, 0, sxx};
    if (highest - lowest < 1e-30f)
        return best;
    for (int step = -3; step <= 3; step++) {
        float inverse = (hi + (float)step * 0.5f) / (highest - lowest);
        sums s = sum_rounded(x, n, inverse, lowest, 0, hi);
        fit f = solve(&s, n, sx, sxx, free_off);
        if (f.scale >= 0 && f.error < best.error)
            best = f;
    }
    /* Both ends of the range may move: fit again from where the best landed. */
    for (int turn = 0; turn < 4 && best.scale > 0; turn++) {
        sums s = sum_rounded(x, n, 1 / best.scale, best.off, 0, hi);
        fit f = solve(&s, n, sx, sxx, free_off);
        if (!(f.scale > 0 && f.error < best.error))
            break;
        best = f;
    }
    return best;
}

/* --- blocks of 32 and groups ------------------------------------------------------------------------------------------- */

/* 32 at a time: low nibbles are the first 16. */
static void
put_nibbles(uint8_t *out, const uint8_t *q, uint32_t n)
{
    for (uint32_t i = 0; i < n; i += 32)
        for (uint32_t j = 0; j < 16; j++)
            out[i / 2 + j] = (uint8_t)(q[i + j] | q[i + 16 + j] << 4);
}

static void
make_q4_0(const float *x, uint8_t *out)
{
    uint8_t q[32];
    float d = to_f16(fit_scale(x, 32, -8, 7).scale, out);
    for (int i = 0; i < 32; i++)
        q[i] = rounded(x[i], d, -8 * d, 0, 15);
    put_nibbles(out + 2, q, 32);
}

static void
make_q8_0(const float *x, uint8_t *out)
{
    float amax = 0;
    for (int i = 0; i < 32; i++)
        amax = fmaxf(amax, fabsf(x[i]));
    /* The finest scale that clips nothing, then finer ones by steps of f16 and a fit. */
    float best = amax / 127, least = INFINITY;
    for (int step = -4; step <= 4; step++) {
        float inverse = (127 + (float)step * 0.25f) / amax;
        if (amax < 1e-30f)
            break;
        sums s = sum_rounded(x, 32, inverse, 0, -128, 127);
        float d = to_f16(s.qq > 0 ? (float)(s.xq / s.qq) : 0, out), e = error_of(x, 32, d, 0, -128, 127);
        if (e < least) {
            least = e;
            best = d;
        }
    }
    best = to_f16(best, out);
    for (int i = 0; i < 32; i++)
        out[2 + i] = (uint8_t)(rounded(x[i], best, -128 * best, 0, 255) ^ 128);
}

static void
make_mxfp4(const float *x, uint8_t *out)
{
    static const float levels[8] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
    float amax = 0, least = INFINITY;
    for (int i = 0; i < 32; i++)
        amax = fmaxf(amax, fabsf(x[i]));
    int top = 0, first = amax > 0 ? (frexpf(amax, &top), top - 1 - 3) : -127;
    for (int e = first; e <= first + 3; e++) {
        int stored = e + 127 < 2 ? 2 : e + 127 > 254 ? 254 : e + 127;
        float scale = ldexpf(1, stored - 127), error = 0;
        uint8_t q[32];
        for (int i = 0; i < 32; i++) {
            float v = fabsf(x[i]) / scale;
            int n = 0;
            while (n < 7 && v > (levels[n] + levels[n + 1]) / 2)
                n++;
            q[i] = (uint8_t)(n | (x[i] < 0 ? 8 : 0));
            error += (v - levels[n]) * (v - levels[n]) * scale * scale;
        }
        if (error < least) {
            least = error;
            out[0] = (uint8_t)stored;
            put_nibbles(out + 1, q, 32);
        }
    }
}

/* n values with an f16 scale and an f16 zero point. */
static void
make_int4(const float *x, uint32_t n, uint8_t *out)
{
    uint8_t q[MAX_N];
    fit f = fit_affine(x, n, 15, true);
    float d = to_f16(f.scale, out + n / 2),
          z = d > 0 ? to_f16(-f.off / d, out + n / 2 + 2) : to_f16(0, out + n / 2 + 2);
    for (uint32_t i = 0; i < n; i++)
        q[i] = rounded(x[i], d, -d * z, 0, 15);
    put_nibbles(out, q, n);
}

/* --- blocks of 256 ------------------------------------------------------------------------------------------------------ */

/* q4_k, q5_k: eight sub-blocks with six-bit scales and minimums. */
typedef struct kblock {
    float d, dmin;
    int scale[8], min[8];
    uint8_t d_bytes[2], dmin_bytes[2];
    double error;
} kblock;

/* Chooses each sub-block's integers around what its own fit asks for, by the error they cause. */
static void
choose_scales(const float *x, const fit *f, float hi, kblock *b)
{
    b->error = 0;
    for (int j = 0; j < 8; j++) {
        int s0 = b->d > 0 ? (int)nearest(clamp(f[j].scale / b->d, 0, 63)) : 0;
        int m0 = b->dmin > 0 ? (int)nearest(clamp(-f[j].off / b->dmin, 0, 63)) : 0;
        float least = INFINITY;
        /* Neighbours of the scale, then of the minimum. */
        static const int ds[5] = {0, -1, 1, 0, 0}, dm[5] = {0, 0, 0, -1, 1};
        for (int i = 0; i < 5; i++) {
            int s = i < 3 ? s0 + ds[i] : b->scale[j], m = m0 + dm[i];
            if (s < 0 || s > 63 || m < 0 || m > 63)
                continue;
            float e = error_of(x + j * 32, 32, b->d * (float)s, -b->dmin * (float)m, 0, hi);
            if (e < least) {
                least = e;
                b->scale[j] = s;
                b->min[j] = m;
            }
        }
        b->error += (double)least;
    }
}

/* The best d and dmin for the integers of b. */
static void
refit(const float *x, float hi, const kblock *b, float *out_d, float *out_dmin)
{
    double aa = 0, ab = 0, bb = 0, ax = 0, bx = 0;
    for (int j = 0; j < 8; j++) {
        float scale = b->d * (float)b->scale[j], off = -b->dmin * (float)b->min[j];
        for (int i = 0; i < 32; i++) {
            double v = (double)x[j * 32 + i], m = -b->min[j];
            double q = (double)b->scale[j] * rounded(x[j * 32 + i], scale, off, 0, hi);
            aa += q * q;
            ab += q * m;
            bb += m * m;
            ax += q * v;
            bx += m * v;
        }
    }
    double det = aa * bb - ab * ab;
    *out_d = b->d;
    *out_dmin = b->dmin;
    if (det > 1e-9 * aa * bb) {
        *out_d = (float)((ax * bb - bx * ab) / det);
        *out_dmin = (float)((bx * aa - ax * ab) / det);
    } else if (aa > 0) {
        *out_d = (float)(ax / aa);
    }
}

static void
make_q4_or_q5_k(const float *x, bool five, uint8_t *out)
{
    float hi = five ? 31 : 15, scale = 0, min = 0;
    fit f[8];
    kblock best = {0};
    for (int j = 0; j < 8; j++) {
        f[j] = fit_affine(x + j * 32, 32, hi, false);
        scale = fmaxf(scale, f[j].scale);
        min = fmaxf(min, -f[j].off);
    }
    float d = scale / 63, dmin = min / 63;
    for (int turn = 0; turn < 2; turn++) {
        kblock b = {0};
        b.d = to_f16(fmaxf(d, 0), b.d_bytes);
        b.dmin = to_f16(fmaxf(dmin, 0), b.dmin_bytes);
        choose_scales(x, f, hi, &b);
        if (turn > 0 && !(b.error < best.error))
            break;
        best = b;
        refit(x, hi, &b, &d, &dmin);
    }
    memcpy(out, best.d_bytes, 2);
    memcpy(out + 2, best.dmin_bytes, 2);
    for (int j = 0; j < 4; j++) {
        out[4 + j] = (uint8_t)(best.scale[j] | (best.scale[j + 4] >> 4) << 6);
        out[8 + j] = (uint8_t)(best.min[j] | (best.min[j + 4] >> 4) << 6);
        out[12 + j] = (uint8_t)((best.scale[j + 4] & 15) | (best.min[j + 4] & 15) << 4);
    }
    uint8_t *fifth = out + 16, *nibbles = out + (five ? 48 : 16);
    for (int j = 0; j < 8; j++)
        for (int i = 0; i < 32; i++) {
            uint8_t q = rounded(x[j * 32 + i], best.d * (float)best.scale[j], -best.dmin * (float)best.min[j], 0, hi);
            uint8_t *n = &nibbles[j / 2 * 32 + i];
            *n = (uint8_t)(*n | (q & 15) << (j % 2 * 4));
            if (five)
                fifth[i] = (uint8_t)(fifth[i] | (q >> 4) << j);
        }
}

/* Sixteen sub-blocks of 16 with int8 scales. */
static void
make_q6_k(const float *x, uint8_t *out)
{
    float scale[16], max = 0;
    for (int j = 0; j < 16; j++) {
        scale[j] = fit_scale(x + j * 16, 16, -32, 31).scale;
        if (fabsf(scale[j]) > fabsf(max))
            max = scale[j];
    }
    float d = to_f16(max / -128, out + 208);
    for (int j = 0; j < 16; j++) {
        int s0 = d != 0 ? (int)nearest(clamp(scale[j] / d, -128, 127)) : 0, best = 0;
        float least = INFINITY;
        for (int s = s0 - 1; s <= s0 + 1; s++) {
            if (s < -128 || s > 127)
                continue;
            float e = error_of(x + j * 16, 16, d * (float)s, 0, -32, 31);
            if (e < least) {
                least = e;
                best = s;
            }
        }
        out[192 + j] = (uint8_t)(best & 255);
        for (int i = 0; i < 16; i++) {
            float step = d * (float)best;
            uint8_t q = rounded(x[j * 16 + i], step, -32 * step, 0, 63);
            int at = j * 16 + i, half = at / 128, quarter = at % 128 / 32, l = at % 32;
            uint8_t *low = &out[half * 64 + quarter % 2 * 32 + l], *high = &out[128 + half * 32 + l];
            *low = (uint8_t)(*low | (q & 15) << (quarter / 2 * 4));
            *high = (uint8_t)(*high | (q >> 4) << (2 * quarter));
        }
    }
}

/* --- rows -------------------------------------------------------------------------------------------------------------- */

bool
dop_quantizable(dop_type t)
{
    switch (t) {
    case DOP_TYPE_q4_0:
    case DOP_TYPE_q8_0:
    case DOP_TYPE_q4_k:
    case DOP_TYPE_q5_k:
    case DOP_TYPE_q6_k:
    case DOP_TYPE_mxfp4:
    case DOP_TYPE_int4_g128:
    case DOP_TYPE_int4_g64:
    case DOP_TYPE_int4_g32:
        return true;
    default:
        return false;
    }
}

static void
make_block(dop_type t, const float *x, uint8_t *out)
{
    switch (t) {
    case DOP_TYPE_q4_0:
        make_q4_0(x, out);
        break;
    case DOP_TYPE_q8_0:
        make_q8_0(x, out);
        break;
    case DOP_TYPE_q4_k:
    case DOP_TYPE_q5_k:
        make_q4_or_q5_k(x, t == DOP_TYPE_q5_k, out);
        break;
    case DOP_TYPE_q6_k:
        make_q6_k(x, out);
        break;
    case DOP_TYPE_mxfp4:
        make_mxfp4(x, out);
        break;
    default:
        make_int4(x, dop_type_of(t)->block, out);
        break;
    }
}

void
dop_quantize_row(dop_type t, const float *in, uint32_t n, uint8_t *out)
{
    const dop_type_info *ti = dop_type_of(t);
    for (uint32_t i = 0; i < n; i += ti->block, out += ti->bytes) {
        float x[256] = {0};
        memcpy(x, in + i, (n - i < ti->block ? n - i : ti->block) * sizeof *x);
        memset(out, 0, ti->bytes);
        make_block(t, x, out);
    }
}
