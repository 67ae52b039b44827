/* Quantizes floats to blocks. Each block is a least-squares problem: find integers q and one or two factors such that d
 * * q (- m) approximates the values. The best factors for given q have a closed form; the best q for given factors is a
 * rounding. Each search tries a range of initial factors, fits, and refines the best alternately (quant_lanes.c). Some
 * scales are themselves rounded, to f16 or to small integers (blocks of 256). Their rounded neighbours are compared by
 * actual error. */
#include "compiler/pack/quant.h"

#include "base/base.h"
#include "compiler/pack/quant_lanes.h"
#include "compiler/pack/quant_levels.h"

#include <math.h>
#include <string.h>

enum { LANES = DOP_LANES, MAX_BLOCK = 256, MAX_N = 128 /* maximum values per lane */, MAX_BYTES = 256 };

/* Values of eight lanes in the two layouts that functions of quant_lanes.h accept. A lane is a block or a part of one
 * (`quantizers` below). */
typedef struct eight {
    const dop_lanes *lanes;
    uint32_t n; /* values per lane; x: [lane][value], side: [value][lane] */
    float x[LANES * MAX_N], side[MAX_N * LANES];
    float weights[LANES * MAX_N], side_weights[MAX_N * LANES]; /* weights of squared errors, in these layouts */
    const float *w, *side_w;                                   /* weights and side_weights; NULL: all weights are 1 */
} eight;

/* Returns the larger value. Avoids fmaxf(), which is a library call. */
static float
max_float(float a, float b)
{
    return a > b ? a : b;
}

/* Returns the largest magnitude of n values. n must be even. */
static float
find_max_magnitude(const float *x, uint32_t n)
{
    float a = 0, b = 0;
    for (uint32_t i = 0; i < n; i += 2) {
        a = max_float(a, fabsf(x[i]));
        b = max_float(b, fabsf(x[i + 1]));
    }
    return max_float(a, b);
}

static float
clamp_float(float v, float lo, float hi)
{
    v = v < lo ? lo : v;
    return v > hi ? hi : v;
}

/* Returns 1 / scale, or 0 if that would exceed the range of floats. */
static float
invert_block_scale(float scale)
{
    return fabsf(scale) > 1e-37f ? 1 / scale : 0;
}

static float
put_f16_rounded(float v, uint8_t *out)
{
    uint16_t h = dop_f32_to_f16(clamp_float(v, -65504, 65504));
    out[0] = (uint8_t)(h & 255);
    out[1] = (uint8_t)(h >> 8);
    return dop_f16_to_f32(h);
}

/* Rounds the values of lane j to the nearest scale * q + off, with q in 0 .. hi. */
static void
round_lane_integers(const eight *e, uint32_t j, float scale, float off, float hi, uint8_t *q)
{
    e->lanes->round(e->x + j * e->n, e->n, invert_block_scale(scale), off, 0, hi, q);
}

/* Packs n integers as nibbles. In each group of 32, the first 16 integers are the low nibbles of 16 bytes. */
static void
put_nibbles(uint8_t *out, const uint8_t *q, uint32_t n)
{
    for (uint32_t i = 0; i < n; i += 32)
        for (uint32_t j = 0; j < 16; j++)
            out[i / 2 + j] = (uint8_t)((q[i + j] & 15) | q[i + 16 + j] << 4);
}

/* --- blocks of 32 and groups ------------------------------------------------------------------------------------------- */

static void
make_q4_0(const eight *e, uint8_t *out)
{
    float scale[LANES];
    e->lanes->fit_scale(e->side, e->side_w, 32, -8, 7, scale);
    for (uint32_t j = 0; j < LANES; j++, out += 18) {
        uint8_t q[32];
        float d = put_f16_rounded(scale[j], out);
        round_lane_integers(e, j, d, -8 * d, 15, q);
        put_nibbles(out + 2, q, 32);
    }
}

static void
make_q5_1(const eight *e, uint8_t *out)
{
    float scale[LANES], off[LANES];
    e->lanes->fit_affine(e->side, e->side_w, 32, 31, true, scale, off);
    for (uint32_t j = 0; j < LANES; j++, out += 24) {
        uint8_t q[32];
        float d = put_f16_rounded(scale[j], out), m = put_f16_rounded(off[j], out + 2);
        round_lane_integers(e, j, d, m, 31, q);
        for (int i = 0; i < 32; i++)
            out[4 + i / 8] = (uint8_t)(out[4 + i / 8] | (q[i] >> 4) << i % 8);
        put_nibbles(out + 8, q, 32);
    }
}

static void
make_q8_0(const eight *e, uint8_t *out)
{
    static const float zero[LANES] = {0};
    float amax[LANES], best[LANES] = {0}, least[LANES];
    for (uint32_t j = 0; j < LANES; j++) {
        amax[j] = find_max_magnitude(e->x + j * 32, 32);
        least[j] = INFINITY;
    }
    /* Start from the finest scale without clipping. Then vary it in small steps, and refit and round to f16 each time. */
    const int steps = e->w ? 16 : 4;
    for (int step = -steps; step <= steps; step++) {
        float inverse[LANES], d[LANES], error[LANES];
        uint8_t bytes[2];
        dop_lane_sums s;
        for (int j = 0; j < LANES; j++)
            inverse[j] = amax[j] < 1e-30f ? 0 : (127 + (float)step * 0.25f) / amax[j];
        e->lanes->sums(e->side, e->side_w, 32, inverse, zero, -128, 127, &s);
        for (int j = 0; j < LANES; j++)
            d[j] = put_f16_rounded(s.qq[j] > 0 ? s.xq[j] / s.qq[j] : 0, bytes);
        e->lanes->error(e->side, e->side_w, 32, d, zero, -128, 127, error);
        for (int j = 0; j < LANES; j++)
            if (error[j] < least[j]) {
                least[j] = error[j];
                best[j] = d[j];
            }
    }
    for (uint32_t j = 0; j < LANES; j++, out += 34) {
        float d = put_f16_rounded(best[j], out);
        round_lane_integers(e, j, d, -128 * d, 255, out + 2);
        for (int i = 0; i < 32; i++)
            out[2 + i] ^= 128;
    }
}

/* Returns the e2m1 code nearest to v: three bits of magnitude and a sign bit. */
static uint8_t
to_e2m1(float v)
{
    const float a = fabsf(v);
    int n = (a > 0.25f) + (a > 0.75f) + (a > 1.25f) + (a > 1.75f) + (a > 2.5f) + (a > 3.5f) + (a > 5);
    return (uint8_t)(n | (v < 0 ? 8 : 0));
}

static void
make_mxfp4(const eight *e, uint8_t *out)
{
    int first[LANES], best[LANES] = {0};
    float least[LANES];
    for (int j = 0; j < LANES; j++) {
        float amax = find_max_magnitude(e->x + j * 32, 32);
        int top = 0;
        first[j] = amax > 0 ? (frexpf(amax, &top), top - 1 - 3) : -127;
        least[j] = INFINITY;
    }
    for (int step = 0; step <= 3; step++) {
        int stored[LANES];
        float scale[LANES], error[LANES];
        for (int j = 0; j < LANES; j++) {
            stored[j] = first[j] + step + 127 < 2 ? 2 : first[j] + step + 127 > 254 ? 254 : first[j] + step + 127;
            scale[j] = ldexpf(1, stored[j] - 127);
        }
        e->lanes->error_e2m1(e->side, e->side_w, 32, scale, error);
        for (int j = 0; j < LANES; j++)
            if (error[j] < least[j]) {
                least[j] = error[j];
                best[j] = stored[j];
            }
    }
    for (int j = 0; j < LANES; j++, out += 17) {
        uint8_t q[32];
        float inverse = ldexpf(1, 127 - best[j]);
        for (int i = 0; i < 32; i++)
            q[i] = to_e2m1(e->x[j * 32 + i] * inverse);
        out[0] = (uint8_t)best[j];
        put_nibbles(out + 1, q, 32);
    }
}

/* Makes int4_g32, _g64 and _g128: groups with an f16 scale and an f16 zero point. */
static void
make_int4(const eight *e, uint8_t *out)
{
    float scale[LANES], off[LANES];
    e->lanes->fit_affine(e->side, e->side_w, e->n, 15, true, scale, off);
    for (uint32_t j = 0; j < LANES; j++, out += e->n / 2 + 4) {
        uint8_t q[MAX_N];
        float d = put_f16_rounded(scale[j], out + e->n / 2),
              z = put_f16_rounded(d > 0 ? -off[j] / d : 0, out + e->n / 2 + 2);
        round_lane_integers(e, j, d, -d * z, 15, q);
        put_nibbles(out, q, e->n);
    }
}

/* --- blocks of 256 ------------------------------------------------------------------------------------------------------ */

/* A block of q4_k or q5_k under construction: eight sub-blocks with 6-bit scales and minimums. */
typedef struct kblock {
    float d, dmin;
    int scale[LANES], min[LANES];
    float scales[LANES], offs[LANES]; /* sub-block scales d * scale[j] and offsets -dmin * min[j] */
    uint8_t d_bytes[2], dmin_bytes[2];
    double error;
} kblock;

/* Tries the integers scale[j] + ds and min[j] + dm for each sub-block j. Keeps them in b if they are in range and their
 * error is below least[j]. */
static void
try_neighbours(const eight *e, float hi, const int *scale, const int *min, int ds, int dm, kblock *b, float *least)
{
    float s[LANES], off[LANES], error[LANES];
    for (int j = 0; j < LANES; j++) {
        s[j] = b->d * (float)(scale[j] + ds);
        off[j] = -b->dmin * (float)(min[j] + dm);
    }
    e->lanes->error(e->side, e->side_w, 32, s, off, 0, hi, error);
    for (int j = 0; j < LANES; j++) {
        int sj = scale[j] + ds, mj = min[j] + dm;
        if (sj < 0 || sj > 63 || mj < 0 || mj > 63 || !(error[j] < least[j]))
            continue;
        least[j] = error[j];
        b->scale[j] = sj;
        b->min[j] = mj;
        b->scales[j] = s[j];
        b->offs[j] = off[j];
    }
}

/* Chooses each sub-block's integers by actual error: first the scale, then the minimum. Candidates are the integer
 * nearest to the sub-block's own fit (scale[], off[]) and its two neighbours. */
static void
choose_sub_scales(const eight *e, const float *scale, const float *off, float hi, kblock *b)
{
    int s0[LANES], m0[LANES];
    float least[LANES];
    for (int j = 0; j < LANES; j++) {
        s0[j] = b->d > 0 ? (int)rintf(clamp_float(scale[j] / b->d, 0, 63)) : 0;
        m0[j] = b->dmin > 0 ? (int)rintf(clamp_float(-off[j] / b->dmin, 0, 63)) : 0;
        least[j] = INFINITY;
    }
    for (int i = 0; i < 3; i++)
        try_neighbours(e, hi, s0, m0, (int[]){0, -1, 1}[i], 0, b, least);
    memcpy(s0, b->scale, sizeof s0);
    for (int i = -1; i <= 1; i += 2)
        try_neighbours(e, hi, s0, m0, 0, i, b, least);
    b->error = 0;
    for (int j = 0; j < LANES; j++)
        b->error += (double)least[j];
}

/* Computes the d and dmin with the least error for the integers in b. */
static void
refit_kblock(const eight *e, float hi, const kblock *b, float *out_d, float *out_dmin)
{
    float inverse[LANES];
    double aa = 0, ab = 0, bb = 0, ax = 0, bx = 0;
    dop_lane_sums sums;
    for (int j = 0; j < LANES; j++)
        inverse[j] = invert_block_scale(b->scales[j]);
    e->lanes->sums(e->side, e->side_w, 32, inverse, b->offs, 0, hi, &sums);
    for (int j = 0; j < LANES; j++) {
        double s = b->scale[j], m = -b->min[j];
        aa += s * s * (double)sums.qq[j];
        ab += s * m * (double)sums.q[j];
        bb += m * m * (double)sums.n[j];
        ax += s * (double)sums.xq[j];
        bx += m * (double)sums.x[j];
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
put_k_block(const eight *e, bool five, const kblock *b, uint8_t *out)
{
    uint8_t q[LANES][32], *fifth = out + 16, *nibbles = out + (five ? 48 : 16);
    memcpy(out, b->d_bytes, 2);
    memcpy(out + 2, b->dmin_bytes, 2);
    for (int j = 0; j < 4; j++) {
        out[4 + j] = (uint8_t)(b->scale[j] | (b->scale[j + 4] >> 4) << 6);
        out[8 + j] = (uint8_t)(b->min[j] | (b->min[j + 4] >> 4) << 6);
        out[12 + j] = (uint8_t)((b->scale[j + 4] & 15) | (b->min[j + 4] & 15) << 4);
    }
    for (uint32_t j = 0; j < LANES; j++)
        round_lane_integers(e, j, b->scales[j], b->offs[j], five ? 31 : 15, q[j]);
    for (int j = 0; j < LANES; j += 2)
        for (int i = 0; i < 32; i++)
            nibbles[j / 2 * 32 + i] = (uint8_t)((q[j][i] & 15) | q[j + 1][i] << 4);
    for (int j = 0; j < LANES && five; j++)
        for (int i = 0; i < 32; i++)
            fifth[i] = (uint8_t)(fifth[i] | (q[j][i] >> 4) << j);
}

static void
make_q4_or_q5_k(const eight *e, bool five, uint8_t *out)
{
    float hi = five ? 31 : 15, scale[LANES], off[LANES], most = 0, min = 0;
    kblock best = {0};
    e->lanes->fit_affine(e->side, e->side_w, 32, hi, false, scale, off);
    for (int j = 0; j < LANES; j++) {
        most = max_float(most, scale[j]);
        min = max_float(min, -off[j]);
    }
    float d = most / 63, dmin = min / 63;
    for (int turn = 0; turn < 2; turn++) {
        kblock b = {0};
        b.d = put_f16_rounded(max_float(d, 0), b.d_bytes);
        b.dmin = put_f16_rounded(max_float(dmin, 0), b.dmin_bytes);
        choose_sub_scales(e, scale, off, hi, &b);
        if (turn > 0 && !(b.error < best.error))
            break;
        best = b;
        refit_kblock(e, hi, &b, &d, &dmin);
    }
    put_k_block(e, five, &best, out);
}

/* Makes q6_k: sixteen sub-blocks of 16 values with int8 scales, eight of them in each half[]. */
static void
make_q6_k(const eight *half, uint8_t *out)
{
    static const float zero[LANES] = {0};
    float scale[2 * LANES], max = 0;
    for (int h = 0; h < 2; h++)
        half[h].lanes->fit_scale(half[h].side, half[h].side_w, 16, -32, 31, scale + h * LANES);
    for (int j = 0; j < 2 * LANES; j++)
        if (fabsf(scale[j]) > fabsf(max))
            max = scale[j];
    float d = put_f16_rounded(max / -128, out + 208);
    for (int h = 0; h < 2; h++) {
        int from[LANES], best[LANES] = {0};
        float least[LANES], step[LANES], error[LANES];
        uint8_t q[LANES][16];
        for (int j = 0; j < LANES; j++) {
            from[j] = d != 0 ? (int)rintf(clamp_float(scale[h * LANES + j] / d, -128, 127)) : 0;
            least[j] = INFINITY;
        }
        for (int k = -1; k <= 1; k++) {
            for (int j = 0; j < LANES; j++)
                step[j] = d * (float)(from[j] + k);
            half[h].lanes->error(half[h].side, half[h].side_w, 16, step, zero, -32, 31, error);
            for (int j = 0; j < LANES; j++)
                if (from[j] + k >= -128 && from[j] + k <= 127 && error[j] < least[j]) {
                    least[j] = error[j];
                    best[j] = from[j] + k;
                }
        }
        for (int j = 0; j < LANES; j++) {
            out[192 + h * LANES + j] = (uint8_t)(best[j] & 255);
            round_lane_integers(&half[h], (uint32_t)j, d * (float)best[j], -32 * (d * (float)best[j]), 63, q[j]);
        }
        /* The layout pairs quarters of these 128 values. Quarter k (32 values) is sub-blocks 2k and 2k + 1. */
        for (int l = 0; l < 32; l++) {
            const uint8_t *first = &q[0][0] + l;
            out[h * 64 + l] = (uint8_t)((first[0] & 15) | first[64] << 4);
            out[h * 64 + 32 + l] = (uint8_t)((first[32] & 15) | first[96] << 4);
            out[128 + h * 32 + l] =
                (uint8_t)(first[0] >> 4 | first[32] >> 4 << 2 | first[64] >> 4 << 4 | first[96] >> 4 << 6);
        }
    }
}

/* --- rows -------------------------------------------------------------------------------------------------------------- */

/* Loads `left` values from `in` into all lanes, followed by zeros. Sets the weights to the importance of these values
 * (NULL: all weights are 1). */
static void
fill_lane_values(eight *e, const float *in, const float *importance, uint32_t left)
{
    const uint32_t room = e->n * LANES, n = left < room ? left : room;
    memcpy(e->x, in, n * sizeof *in);
    memset(e->x + n, 0, (room - n) * sizeof *in);
    e->lanes->side_by_side(e->x, e->n, e->side);
    e->w = importance ? e->weights : NULL;
    e->side_w = importance ? e->side_weights : NULL;
    if (!importance)
        return;
    memcpy(e->weights, importance, n * sizeof *importance);
    memset(e->weights + n, 0, (room - n) * sizeof *importance);
    for (uint32_t j = 0; j < LANES; j++) { /* lower bound, so that float sums do not lose small weights */
        float *w = e->weights + j * e->n;
        const float least = max_float(find_max_magnitude(w, e->n) * 1e-4f, 1e-10f);
        for (uint32_t i = 0; i < e->n; i++)
            w[i] = max_float(w[i], least);
    }
    e->lanes->side_by_side(e->weights, e->n, e->side_weights);
}

static void
make_q4_k(const eight *e, uint8_t *out)
{
    make_q4_or_q5_k(e, false, out);
}

static void
make_q5_k(const eight *e, uint8_t *out)
{
    make_q4_or_q5_k(e, true, out);
}

static void
make_q2_k(const eight *e, uint8_t *out)
{
    dop_make_q2_k(e->x, e->w, out);
}

static void
make_q3_k(const eight *e, uint8_t *out)
{
    dop_make_q3_k(e->x, e->w, out);
}

static void
make_iq4_xs(const eight *e, uint8_t *out)
{
    dop_make_iq4_xs(e->x, e->w, out);
}

static void
make_iq3_s(const eight *e, uint8_t *out)
{
    dop_make_iq3_s(e->x, e->w, out);
}

static void
make_nvfp4(const eight *e, uint8_t *out)
{
    for (uint32_t j = 0; j < LANES; j++, out += 36)
        dop_make_nvfp4(e->x + (size_t)j * e->n, e->w ? e->w + (size_t)j * e->n : NULL, out);
}

/* Quantizer of each supported type. A lane is a block of up to 128 values. In blocks of 256, a lane is one eighth of a
 * part, and each of the 1 or 2 parts is one `eight`. */
static const struct quantizer {
    uint32_t parts;
    void (*make)(const eight *e, uint8_t *out);
} quantizers[DOP_TYPE_COUNT] = {
    [DOP_TYPE_q4_0] = {1, make_q4_0},     [DOP_TYPE_q5_1] = {1, make_q5_1},      [DOP_TYPE_q8_0] = {1, make_q8_0},
    [DOP_TYPE_q4_k] = {1, make_q4_k},     [DOP_TYPE_q5_k] = {1, make_q5_k},      [DOP_TYPE_q6_k] = {2, make_q6_k},
    [DOP_TYPE_mxfp4] = {1, make_mxfp4},   [DOP_TYPE_int4_g128] = {1, make_int4}, [DOP_TYPE_int4_g64] = {1, make_int4},
    [DOP_TYPE_int4_g32] = {1, make_int4}, [DOP_TYPE_q2_k] = {1, make_q2_k},      [DOP_TYPE_q3_k] = {1, make_q3_k},
    [DOP_TYPE_iq4_xs] = {1, make_iq4_xs}, [DOP_TYPE_nvfp4] = {1, make_nvfp4},    [DOP_TYPE_iq3_s] = {1, make_iq3_s},
};

bool
dop_quantizable(dop_type t)
{
    return (unsigned)t < DOP_TYPE_COUNT && quantizers[t].make;
}

void
dop_quantize_row(dop_type t, const float *in, const float *importance, uint32_t n, uint8_t *out)
{
    const dop_type_info *ti = dop_type_of(t);
    const struct quantizer *quantizer = &quantizers[t];
    const uint32_t whole = ti->block == MAX_BLOCK ? MAX_BLOCK : ti->block * LANES; /* values per call of make() */
    const uint32_t parts = quantizer->parts;
    eight e[2];
    for (uint32_t i = 0; i < parts; i++) {
        e[i].lanes = dop_lanes_best();
        e[i].n = whole / parts / LANES;
    }
    for (uint32_t at = 0; at < n; at += whole) {
        const uint32_t left = n - at, blocks = left < whole ? (left + ti->block - 1) / ti->block : whole / ti->block;
        uint8_t bytes[LANES * MAX_BYTES];
        for (uint32_t i = 0; i < parts; i++) {
            const uint32_t skip = i * (whole / parts);
            const uint32_t first = at + (skip < left ? skip : 0);
            fill_lane_values(&e[i], in + first, importance ? importance + first : NULL, skip < left ? left - skip : 0);
        }
        memset(bytes, 0, (size_t)(whole / ti->block) * ti->bytes);
        quantizer->make(e, bytes);
        memcpy(out, bytes, (size_t)blocks * ti->bytes);
        out += (size_t)blocks * ti->bytes;
    }
}
