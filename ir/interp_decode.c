/* Rows of stored values to f32.  The block layouts are those of the GGUF specification and of ggml's quantization
 * formats: scales in f16 (E8M0 for mxfp4), low nibbles hold the first half of what a group of bytes covers, high
 * nibbles the second; the k formats have blocks of 256 values in sub-blocks with small integer scales. */
#include "ir/interp.h"

#include <math.h>
#include <string.h>

enum { SMALL = 32, LARGE = 256 };

static uint32_t
u16_at(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8;
}

static uint32_t
u32_at(const uint8_t *p)
{
    return u16_at(p) | u16_at(p + 2) << 16;
}

static float
f16_at(const uint8_t *p)
{
    return dop_f16_to_f32((uint16_t)u16_at(p));
}

/* d f16, 16 bytes of nibbles: d * (q - 8) */
static void
block_q4_0(const uint8_t *b, float *out)
{
    float d = f16_at(b);
    for (int i = 0; i < 16; i++) {
        out[i] = d * (float)((b[2 + i] & 15) - 8);
        out[i + 16] = d * (float)((b[2 + i] >> 4) - 8);
    }
}

/* d, m f16, nibbles: d * q + m */
static void
block_q4_1(const uint8_t *b, float *out)
{
    float d = f16_at(b), m = f16_at(b + 2);
    for (int i = 0; i < 16; i++) {
        out[i] = d * (float)(b[4 + i] & 15) + m;
        out[i + 16] = d * (float)(b[4 + i] >> 4) + m;
    }
}

/* The fifth bit of value i is bit i of a 32-bit word before the nibbles. */
static int
five_bits(const uint8_t *high, const uint8_t *nibbles, int i)
{
    int low = i < 16 ? nibbles[i] & 15 : nibbles[i - 16] >> 4;
    return low | (int)(u32_at(high) >> i & 1) << 4;
}

/* d f16, high bits, nibbles: d * (q - 16) */
static void
block_q5_0(const uint8_t *b, float *out)
{
    float d = f16_at(b);
    for (int i = 0; i < SMALL; i++)
        out[i] = d * (float)(five_bits(b + 2, b + 6, i) - 16);
}

/* d, m f16, high bits, nibbles: d * q + m */
static void
block_q5_1(const uint8_t *b, float *out)
{
    float d = f16_at(b), m = f16_at(b + 2);
    for (int i = 0; i < SMALL; i++)
        out[i] = d * (float)five_bits(b + 4, b + 8, i) + m;
}

/* d f16, 32 int8 */
static void
block_q8_0(const uint8_t *b, float *out)
{
    float d = f16_at(b);
    for (int i = 0; i < SMALL; i++)
        out[i] = d * (float)(int8_t)b[2 + i];
}

/* Two-bit fields of q2_k and q3_k: 64 bytes; value i is in byte 32 * (i / 128) + i % 32, field i % 128 / 32. */
static int
two_bits(const uint8_t *q, int i)
{
    return q[32 * (i / 128) + i % 32] >> (2 * (i % 128 / 32)) & 3;
}

/* 16 bytes (scale | min << 4) for sub-blocks of 16, 64 bytes of two bits, d, dmin f16: d * scale * q - dmin * min */
static void
block_q2_k(const uint8_t *b, float *out)
{
    float d = f16_at(b + 80), dmin = f16_at(b + 82);
    for (int i = 0; i < LARGE; i++) {
        uint8_t s = b[i / 16];
        float scale = d * (float)(s & 15), min = dmin * (float)(s >> 4);
        out[i] = scale * (float)two_bits(b + 16, i) - min;
    }
}

/* 32 bytes of inverted third bits, 64 bytes of two bits, 12 bytes of 16 six-bit scales, d f16.
 * Scale s: low nibble in bytes 0..7 (first 8 low, last 8 high), upper two bits in bytes 8..11. */
static void
block_q3_k(const uint8_t *b, float *out)
{
    const uint8_t *scales = b + 96;
    float d = f16_at(b + 108);
    for (int i = 0; i < LARGE; i++) {
        int s = i / 16;
        int low = s < 8 ? scales[s] & 15 : scales[s - 8] >> 4;
        int high = scales[8 + s % 4] >> (2 * (s / 4)) & 3;
        int third = b[i % 32] >> (i / 32) & 1;
        float scale = d * (float)((low | high << 4) - 32);
        out[i] = scale * (float)(two_bits(b + 32, i) - (third ? 0 : 4));
    }
}

/* Eight pairs of six-bit scale and minimum in 12 bytes (q4_k, q5_k): the first four plain in bytes 0..3 and 4..7, the
 * last four with their low nibbles in bytes 8..11 and their upper bits on top of the first four. */
static void
scale_min(const uint8_t *s, int j, int *out_scale, int *out_min)
{
    if (j < 4) {
        *out_scale = s[j] & 63;
        *out_min = s[j + 4] & 63;
    } else {
        *out_scale = (s[j + 4] & 15) | (s[j - 4] >> 6) << 4;
        *out_min = s[j + 4] >> 4 | (s[j] >> 6) << 4;
    }
}

/* d, dmin f16, 12 bytes of scales, (q5_k: 32 bytes of fifth bits,) 128 bytes of nibbles: sub-blocks of 32; each 32
 * bytes hold two of them. */
static void
block_q4_or_q5_k(const uint8_t *b, bool five, float *out)
{
    const uint8_t *fifth = b + 16, *nibbles = b + (five ? 48 : 16);
    float d = f16_at(b), dmin = f16_at(b + 2);
    for (int j = 0; j < 8; j++) {
        int sc, mn;
        scale_min(b + 4, j, &sc, &mn);
        float scale = d * (float)sc, min = dmin * (float)mn;
        for (int l = 0; l < 32; l++) {
            int q = nibbles[j / 2 * 32 + l];
            q = j % 2 ? q >> 4 : q & 15;
            if (five)
                q |= (fifth[l] >> j & 1) << 4;
            out[j * 32 + l] = scale * (float)q - min;
        }
    }
}

/* 128 bytes of nibbles, 64 bytes of upper two bits, 16 int8 scales, d f16: d * scale * (q - 32).  Each half of 128
 * values has 64 bytes of nibbles (low ones first) and 32 bytes of upper bits. */
static void
block_q6_k(const uint8_t *b, float *out)
{
    float d = f16_at(b + 208);
    for (int i = 0; i < LARGE; i++) {
        int half = i / 128, l = i % 32, quarter = i % 128 / 32;
        int nibble = b[half * 64 + quarter % 2 * 32 + l];
        nibble = quarter < 2 ? nibble & 15 : nibble >> 4;
        int upper = b[128 + half * 32 + l] >> (2 * quarter) & 3;
        float scale = d * (float)(int8_t)b[192 + i / 16];
        out[i] = scale * (float)((nibble | upper << 4) - 32);
    }
}

/* As q4_0, with a table instead of q - 8. */
static void
block_iq4_nl(const uint8_t *b, float *out)
{
    static const int8_t values[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
    float d = f16_at(b);
    for (int i = 0; i < 16; i++) {
        out[i] = d * (float)values[b[2 + i] & 15];
        out[i + 16] = d * (float)values[b[2 + i] >> 4];
    }
}

/* OCP microscaling: an exponent byte (2^(e - 127)), 32 values of e2m1; the table holds them doubled. */
static void
block_mxfp4(const uint8_t *b, float *out)
{
    static const int8_t twice[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
    for (int i = 0; i < 16; i++) {
        out[i] = ldexpf((float)twice[b[1 + i] & 15], b[0] - 128);
        out[i + 16] = ldexpf((float)twice[b[1 + i] >> 4], b[0] - 128);
    }
}

/* Nibbles of n values, 32 at a time as in q4_0, then d, z f16: d * (q - z) */
static void
block_int4(const uint8_t *b, uint32_t n, float *out)
{
    float d = f16_at(b + n / 2), z = f16_at(b + n / 2 + 2);
    for (uint32_t i = 0; i < n; i++) {
        uint8_t two = b[i / 32 * 16 + i % 16];
        out[i] = d * ((float)(i % 32 < 16 ? two & 15 : two >> 4) - z);
    }
}

static void
decode_block(dop_type t, const uint8_t *b, float *out)
{
    switch (t) {
    case DOP_TYPE_f32: {
        uint32_t u = u32_at(b);
        memcpy(out, &u, sizeof u);
        break;
    }
    case DOP_TYPE_f16:
        *out = f16_at(b);
        break;
    case DOP_TYPE_bf16:
        *out = dop_bf16_to_f32((uint16_t)u16_at(b));
        break;
    case DOP_TYPE_u32:
        *out = (float)u32_at(b);
        break;
    case DOP_TYPE_i32:
        *out = (float)(int32_t)u32_at(b);
        break;
    case DOP_TYPE_q4_0:
        block_q4_0(b, out);
        break;
    case DOP_TYPE_q4_1:
        block_q4_1(b, out);
        break;
    case DOP_TYPE_q5_0:
        block_q5_0(b, out);
        break;
    case DOP_TYPE_q5_1:
        block_q5_1(b, out);
        break;
    case DOP_TYPE_q8_0:
        block_q8_0(b, out);
        break;
    case DOP_TYPE_q2_k:
        block_q2_k(b, out);
        break;
    case DOP_TYPE_q3_k:
        block_q3_k(b, out);
        break;
    case DOP_TYPE_q4_k:
        block_q4_or_q5_k(b, false, out);
        break;
    case DOP_TYPE_q5_k:
        block_q4_or_q5_k(b, true, out);
        break;
    case DOP_TYPE_q6_k:
        block_q6_k(b, out);
        break;
    case DOP_TYPE_iq4_nl:
        block_iq4_nl(b, out);
        break;
    case DOP_TYPE_mxfp4:
        block_mxfp4(b, out);
        break;
    case DOP_TYPE_int4_g128:
    case DOP_TYPE_int4_g64:
    case DOP_TYPE_int4_g32:
        block_int4(b, dop_type_of(t)->block, out);
        break;
    case DOP_TYPE_none: /* nothing is stored */
    case DOP_TYPE_COUNT:
        *out = 0;
        break;
    }
}

enum { AT_ONCE = 16 };

/* As dop_f16_to_f32, in a form that compilers make vectors of. */
static void
f16_values(const uint16_t *h, float *out)
{
    uint32_t u[AT_ONCE];
    for (int i = 0; i < AT_ONCE; i++)
        u[i] = (uint32_t)(h[i] & 0x7fff) << 13;
    memcpy(out, u, sizeof u);
    for (int i = 0; i < AT_ONCE; i++)
        out[i] *= 0x1p112f; /* subnormal or not, exact */
    memcpy(u, out, sizeof u);
    for (int i = 0; i < AT_ONCE; i++)
        u[i] |= (uint32_t)(h[i] & 0x8000) << 16 | ((h[i] & 0x7c00) == 0x7c00 ? 0x7f800000u : 0);
    memcpy(out, u, sizeof u);
}

static void
bf16_values(const uint16_t *h, float *out)
{
    uint32_t u[AT_ONCE];
    for (int i = 0; i < AT_ONCE; i++)
        u[i] = (uint32_t)h[i] << 16;
    memcpy(out, u, sizeof u);
}

/* Rows of halves: most weights of most models. */
static void
decode_halves(void values(const uint16_t *, float *), const uint8_t *p, uint64_t n, float *out)
{
    uint16_t h[AT_ONCE] = {0};
    float v[AT_ONCE];
    uint64_t i = 0;
    for (; i + AT_ONCE <= n; i += AT_ONCE) {
        memcpy(h, p + 2 * i, sizeof h);
        values(h, out + i);
    }
    memcpy(h, p + 2 * i, 2 * (n - i));
    values(h, v);
    memcpy(out + i, v, (n - i) * sizeof *out);
}

void
dop_decode_row(dop_type t, const void *src, uint64_t n, float *out)
{
    if (t == DOP_TYPE_f16 || t == DOP_TYPE_bf16) {
        decode_halves(t == DOP_TYPE_f16 ? f16_values : bf16_values, src, n, out);
        return;
    }
    const dop_type_info *ti = dop_type_of(t);
    const uint8_t *p = src;
    float block[LARGE];
    for (uint64_t done = 0; done < n; done += ti->block, p += ti->bytes) {
        uint64_t left = n - done;
        decode_block(t, p, block);
        memcpy(out + done, block, (left < ti->block ? left : ti->block) * sizeof *out);
    }
}
