/* Decodes rows of stored values to f32.  The block layouts are those of the GGUF specification and of ggml's quantization
 * formats.  Scales are f16 (E8M0 for mxfp4).  In a group of bytes, low nibbles hold the first half of the values, and high
 * nibbles the second.  The k formats have blocks of 256 values in sub-blocks with small integer scales. */
#include "ir/codebooks.h"
#include "ir/interp/interp.h"

#include <math.h>
#include <string.h>

enum { SMALL = 32, LARGE = 256 };

static uint32_t
load_u16(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8;
}

static uint32_t
load_u32(const uint8_t *p)
{
    return load_u16(p) | load_u16(p + 2) << 16;
}

static float
load_f16(const uint8_t *p)
{
    return dop_f16_to_f32((uint16_t)load_u16(p));
}

/* Layout: d f16, 16 bytes of nibbles.  Value: d * (q - 8). */
static void
block_q4_0(const uint8_t *b, float *out)
{
    float d = load_f16(b);
    for (int i = 0; i < 16; i++) {
        out[i] = d * (float)((b[2 + i] & 15) - 8);
        out[i + 16] = d * (float)((b[2 + i] >> 4) - 8);
    }
}

/* Layout: d, m f16, nibbles.  Value: d * q + m. */
static void
block_q4_1(const uint8_t *b, float *out)
{
    float d = load_f16(b), m = load_f16(b + 2);
    for (int i = 0; i < 16; i++) {
        out[i] = d * (float)(b[4 + i] & 15) + m;
        out[i + 16] = d * (float)(b[4 + i] >> 4) + m;
    }
}

/* Returns a 5-bit value.  The fifth bit of value i is bit i of a 32-bit word before the nibbles. */
static int
read_five_bits(const uint8_t *high, const uint8_t *nibbles, int i)
{
    int low = i < 16 ? nibbles[i] & 15 : nibbles[i - 16] >> 4;
    return low | (int)(load_u32(high) >> i & 1) << 4;
}

/* Layout: d f16, high bits, nibbles.  Value: d * (q - 16). */
static void
block_q5_0(const uint8_t *b, float *out)
{
    float d = load_f16(b);
    for (int i = 0; i < SMALL; i++)
        out[i] = d * (float)(read_five_bits(b + 2, b + 6, i) - 16);
}

/* Layout: d, m f16, high bits, nibbles.  Value: d * q + m. */
static void
block_q5_1(const uint8_t *b, float *out)
{
    float d = load_f16(b), m = load_f16(b + 2);
    for (int i = 0; i < SMALL; i++)
        out[i] = d * (float)read_five_bits(b + 4, b + 8, i) + m;
}

/* Layout: d f16, 32 int8.  Value: d * q. */
static void
block_q8_0(const uint8_t *b, float *out)
{
    float d = load_f16(b);
    for (int i = 0; i < SMALL; i++)
        out[i] = d * (float)(int8_t)b[2 + i];
}

/* Returns a 2-bit field of q2_k and q3_k (64 bytes): value i is in byte 32 * (i / 128) + i % 32, field i % 128 / 32. */
static int
read_two_bits(const uint8_t *q, int i)
{
    return q[32 * (i / 128) + i % 32] >> (2 * (i % 128 / 32)) & 3;
}

/* Layout: 16 bytes (scale | min << 4) for sub-blocks of 16, 64 bytes of 2-bit values, d, dmin f16.  Value: d * scale * q - dmin *
 * min. */
static void
block_q2_k(const uint8_t *b, float *out)
{
    float d = load_f16(b + 80), dmin = load_f16(b + 82);
    for (int i = 0; i < LARGE; i++) {
        uint8_t s = b[i / 16];
        float scale = d * (float)(s & 15), min = dmin * (float)(s >> 4);
        out[i] = scale * (float)read_two_bits(b + 16, i) - min;
    }
}

/* Layout: 32 bytes of inverted third bits, 64 bytes of 2-bit values, 12 bytes of 16 six-bit scales, d f16.  Scale s has its low
 * four bits in bytes 0..7 (low nibbles: first 8 scales, high nibbles: last 8) and its upper two bits in bytes 8..11. */
static void
block_q3_k(const uint8_t *b, float *out)
{
    const uint8_t *scales = b + 96;
    float d = load_f16(b + 108);
    for (int i = 0; i < LARGE; i++) {
        int s = i / 16;
        int low = s < 8 ? scales[s] & 15 : scales[s - 8] >> 4;
        int high = scales[8 + s % 4] >> (2 * (s / 4)) & 3;
        int third = b[i % 32] >> (i / 32) & 1;
        float scale = d * (float)((low | high << 4) - 32);
        out[i] = scale * (float)(read_two_bits(b + 32, i) - (third ? 0 : 4));
    }
}

/* Reads pair j of eight pairs of six-bit scale and minimum in 12 bytes (q4_k, q5_k).  The first four pairs are plain in bytes
 * 0..3 and 4..7.  The last four have their low nibbles in bytes 8..11 and their upper bits in the top bits of bytes 0..7. */
static void
read_scale_min(const uint8_t *s, int j, int *out_scale, int *out_min)
{
    if (j < 4) {
        *out_scale = s[j] & 63;
        *out_min = s[j + 4] & 63;
    } else {
        *out_scale = (s[j + 4] & 15) | (s[j - 4] >> 6) << 4;
        *out_min = s[j + 4] >> 4 | (s[j] >> 6) << 4;
    }
}

/* Layout: d, dmin f16, 12 bytes of scales, (q5_k: 32 bytes of fifth bits,) 128 bytes of nibbles.  Each 32 bytes of nibbles hold
 * two sub-blocks of 32 values. */
static void
block_q4_or_q5_k(const uint8_t *b, bool five, float *out)
{
    const uint8_t *fifth = b + 16, *nibbles = b + (five ? 48 : 16);
    float d = load_f16(b), dmin = load_f16(b + 2);
    for (int j = 0; j < 8; j++) {
        int sc, mn;
        read_scale_min(b + 4, j, &sc, &mn);
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

/* Layout: 128 bytes of nibbles, 64 bytes of upper two bits, 16 int8 scales, d f16.  Value: d * scale * (q - 32).  Each half of
 * 128 values has 64 bytes of nibbles (low ones first) and 32 bytes of upper bits. */
static void
block_q6_k(const uint8_t *b, float *out)
{
    float d = load_f16(b + 208);
    for (int i = 0; i < LARGE; i++) {
        int half = i / 128, l = i % 32, quarter = i % 128 / 32;
        int nibble = b[half * 64 + quarter % 2 * 32 + l];
        nibble = quarter < 2 ? nibble & 15 : nibble >> 4;
        int upper = b[128 + half * 32 + l] >> (2 * quarter) & 3;
        float scale = d * (float)(int8_t)b[192 + i / 16];
        out[i] = scale * (float)((nibble | upper << 4) - 32);
    }
}

/* Levels of iq4_nl, which has the layout of q4_0. */
static const int8_t iq4_levels[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

static void
block_iq4_nl(const uint8_t *b, float *out)
{
    float d = load_f16(b);
    for (int i = 0; i < 16; i++) {
        out[i] = d * (float)iq4_levels[b[2 + i] & 15];
        out[i + 16] = d * (float)iq4_levels[b[2 + i] >> 4];
    }
}

/* Layout: d f16, the upper two bits of eight six-bit scales, their low nibbles in 4 bytes, 128 bytes of nibbles.  Value: d *
 * (scale - 32) * level. */
static void
block_iq4_xs(const uint8_t *b, float *out)
{
    float d = load_f16(b);
    for (int j = 0; j < 8; j++) {
        int scale = (b[4 + j / 2] >> (4 * (j % 2)) & 15) | (int)(load_u16(b + 2) >> (2 * j) & 3) << 4;
        float each = d * (float)(scale - 32);
        for (int i = 0; i < 16; i++, out++) {
            out[16 * j] = each * (float)iq4_levels[b[8 + 16 * j + i] & 15];
            out[16 * j + 16] = each * (float)iq4_levels[b[8 + 16 * j + i] >> 4];
        }
    }
}

static const int8_t e2m1_doubled[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

/* OCP microscaling.  Layout: an exponent byte (2^(e - 127)), 32 values of e2m1.  The table holds doubled values. */
static void
block_mxfp4(const uint8_t *b, float *out)
{
    for (int i = 0; i < 16; i++) {
        out[i] = ldexpf((float)e2m1_doubled[b[1 + i] & 15], b[0] - 128);
        out[i + 16] = ldexpf((float)e2m1_doubled[b[1 + i] >> 4], b[0] - 128);
    }
}

/* Layout: nibbles of n values, 32 at a time as in q4_0, then d, z f16.  Value: d * (q - z). */
static void
block_int4(const uint8_t *b, uint32_t n, float *out)
{
    float d = load_f16(b + n / 2), z = load_f16(b + n / 2 + 2);
    for (uint32_t i = 0; i < n; i++) {
        uint8_t two = b[i / 32 * 16 + i % 16];
        out[i] = d * ((float)(i % 32 < 16 ? two & 15 : two >> 4) - z);
    }
}

float
dop_e4m3_to_f32(uint8_t b)
{
    const int e = b >> 3 & 15, m = b & 7;
    const float v = e == 0 ? ldexpf((float)m, -9) : ldexpf((float)(8 + m), e - 10);
    return b & 128 ? -v : v;
}

/* Returns half of an unsigned e4m3 number.  Its last code is NaN in the format, but 0 here. */
static float
decode_half_e4m3(uint8_t b)
{
    return (b & 127) == 127 ? 0 : dop_e4m3_to_f32(b & 127) / 2;
}

/* Layout: d f32, 128 numbers in e4m3.  Value: d * number. */
static void
block_f8_128(const uint8_t *b, float *out)
{
    float d;
    memcpy(&d, b, sizeof d);
    for (int i = 0; i < 128; i++)
        out[i] = d * dop_e4m3_to_f32(b[4 + i]);
}

/* Layout: four scales in e4m3, then 8 bytes of e2m1 for each 16 values, low nibbles first. */
static void
block_nvfp4(const uint8_t *b, float *out)
{
    for (int i = 0; i < 64; i++) {
        uint8_t two = b[4 + i / 16 * 8 + i % 8];
        out[i] = decode_half_e4m3(b[i / 16]) * (float)e2m1_doubled[i % 16 < 8 ? two & 15 : two >> 4];
    }
}

/* Layout: d f16, one bit per value: d or -d. */
static void
block_q1_0(const uint8_t *b, float *out)
{
    float d = load_f16(b);
    for (int i = 0; i < 128; i++)
        out[i] = b[2 + i / 8] >> (i % 8) & 1 ? d : -d;
}

/* Layout: d f16, two bits per value.  Value: d * (q - 1). */
static void
block_q2_0(const uint8_t *b, float *out)
{
    float d = load_f16(b);
    for (int i = 0; i < 64; i++)
        out[i] = d * (float)((b[2 + i / 4] >> (2 * (i % 4)) & 3) - 1);
}

/* Layout: two bits per value as in q2_k, d f16.  Value: d * (q - 1). */
static void
block_tq2_0(const uint8_t *b, float *out)
{
    float d = load_f16(b + 64);
    for (int i = 0; i < LARGE; i++)
        out[i] = d * (float)(read_two_bits(b, i) - 1);
}

/* Layout: base-3 digits, then d f16.  Five digits are in each of 32 bytes (value i in byte i % 32), five in each of 16, and four
 * in each of 4, most significant digit first.  Value: d * (q - 1).  Multiplying a byte by 3^n shifts out its first n digits. */
static void
block_tq1_0(const uint8_t *b, float *out)
{
    static const uint8_t power[5] = {1, 3, 9, 27, 81};
    float d = load_f16(b + 52);
    for (int i = 0; i < LARGE; i++) {
        int width = i < 160 ? 32 : i < 240 ? 16 : 4, from = i < 160 ? 0 : i < 240 ? 160 : 240;
        int byte = (i < 160 ? 0 : i < 240 ? 32 : 48) + (i - from) % width;
        uint8_t left = (uint8_t)(b[byte] * power[(i - from) / width]);
        out[i] = d * (float)((left * 3 >> 8) - 1);
    }
}

/* --- codebooks: writes n values of a codebook entry, each times `scale`, negated where a bit of `signs` is set ------------- */

static void
write_book_entry(const uint16_t *book, uint32_t i, int n, int bits, const uint8_t *levels, float scale, uint32_t signs,
                 float *out)
{
    for (int k = 0; k < n; k++) {
        float v = scale * (float)levels[book[i] >> (bits * k) & ((1 << bits) - 1)];
        out[k] = signs >> k & 1 ? -v : v;
    }
}

/* Expands seven sign bits to eight, so that an even number of them is set. */
static uint32_t
expand_even_signs(uint32_t seven)
{
    uint32_t parity = seven ^ seven >> 4;
    parity ^= parity >> 2;
    return seven | ((parity ^ parity >> 1) & 1) << 7;
}

/* Layout: d f16.  For each 32 values: four bytes of entries, four times seven signs, and a 4-bit scale. */
static void
block_iq2_xxs(const uint8_t *b, float *out)
{
    for (int i = 0; i < 32; i++) {
        const uint8_t *p = b + 2 + i / 4 * 8;
        uint32_t w = load_u32(p + 4);
        float scale = load_f16(b) * (0.5f + (float)(w >> 28)) * 0.25f;
        write_book_entry(dop_book_iq2_xxs, p[i % 4], 8, 2, dop_levels_iq2, scale,
                         expand_even_signs(w >> (7 * (i % 4)) & 127), out + 8 * i);
    }
}

/* Layout: d f16.  For each eight values 16 bits: 9 of an entry, 7 signs.  Then 16 scales of four bits. */
static void
block_iq2_xs(const uint8_t *b, float *out)
{
    for (int i = 0; i < 32; i++) {
        uint32_t w = load_u16(b + 2 + 2 * i);
        float scale = load_f16(b) * (0.5f + (float)(b[66 + i / 4] >> (i % 4 / 2 * 4) & 15)) * 0.25f;
        write_book_entry(dop_book_iq2_xs, w & 511, 8, 2, dop_levels_iq2, scale, expand_even_signs(w >> 9), out + 8 * i);
    }
}

/* Layout: d f16, a byte of an entry for each eight values, then a byte of signs for each.  Then two upper bits of each entry, and
 * 16 scales of four bits. */
static void
block_iq2_s(const uint8_t *b, float *out)
{
    for (int i = 0; i < 32; i++) {
        uint32_t at = b[2 + i] | (uint32_t)(b[66 + i / 4] >> (i % 4 * 2) & 3) << 8;
        float scale = load_f16(b) * (0.5f + (float)(b[74 + i / 4] >> (i % 4 / 2 * 4) & 15)) * 0.25f;
        write_book_entry(dop_book_iq2_s, at, 8, 2, dop_levels_iq2, scale, b[34 + i], out + 8 * i);
    }
}

/* Layout: d f16, a byte of an entry for each four values.  For each 32 values: four times seven signs, and a 4-bit scale. */
static void
block_iq3_xxs(const uint8_t *b, float *out)
{
    for (int i = 0; i < 64; i++) {
        uint32_t w = load_u32(b + 66 + i / 8 * 4), signs = expand_even_signs(w >> (7 * (i % 8 / 2)) & 127);
        float scale = load_f16(b) * (0.5f + (float)(w >> 28)) * 0.5f;
        write_book_entry(dop_book_iq3_xxs, b[2 + i], 4, 3, dop_levels_iq3_xxs, scale, signs >> (i % 2 * 4),
                         out + 4 * i);
    }
}

/* Layout: d f16, a byte of an entry for each four values, the ninth bit of each entry.  Then a sign bit for each value, and a
 * 4-bit scale for each 32 values. */
static void
block_iq3_s(const uint8_t *b, float *out)
{
    static const uint8_t levels[8] = {1, 3, 5, 7, 9, 11, 13, 15};
    for (int i = 0; i < 64; i++) {
        uint32_t at = b[2 + i] | (uint32_t)(b[66 + i / 8] >> (i % 8) & 1) << 8;
        float scale = load_f16(b) * (float)(1 + 2 * (b[106 + i / 16] >> (i / 8 % 2 * 4) & 15));
        write_book_entry(dop_book_iq3_s, at, 4, 3, levels, scale, (uint32_t)b[74 + i / 2] >> (i % 2 * 4), out + 4 * i);
    }
}

/* Writes the eight values of an iq1 entry, -1, 0 or 1, shifted by 1/8 and scaled. */
static void
write_iq1_entry(uint32_t i, float scale, bool down, float *out)
{
    for (int k = 0; k < 8; k++)
        out[k] = scale * ((float)((dop_book_iq1[i] >> (2 * k) & 3) - 1) + (down ? -0.125f : 0.125f));
}

/* Layout: d f16, a byte of an entry for each eight values.  For each 32 values: four times three upper bits of entries, a 3-bit
 * scale, and the direction of the shift. */
static void
block_iq1_s(const uint8_t *b, float *out)
{
    for (int i = 0; i < 32; i++) {
        uint32_t h = load_u16(b + 34 + i / 4 * 2);
        float scale = load_f16(b) * (float)(2 * (h >> 12 & 7) + 1);
        write_iq1_entry(b[2 + i] | (h >> (3 * (i % 4)) & 7) << 8, scale, h >> 15, out + 8 * i);
    }
}

/* Layout: a byte of an entry for each eight values, a nibble with three upper bits of the entry and the direction of the shift.
 * Then four 16-bit words, each with four 3-bit scales and, above them, four bits of d f16. */
static void
block_iq1_m(const uint8_t *b, float *out)
{
    uint32_t half = 0;
    for (int i = 0; i < 4; i++)
        half |= load_u16(b + 48 + 2 * i) >> 12 << (4 * i);
    for (int i = 0; i < 32; i++) {
        uint32_t h = b[32 + i / 2] >> (i % 2 * 4) & 15, s = load_u16(b + 48 + i / 8 * 2) >> (i % 8 / 2 * 3) & 7;
        float scale = dop_f16_to_f32((uint16_t)half) * (float)(2 * s + 1);
        write_iq1_entry(b[i] | (h & 7) << 8, scale, h >> 3, out + 8 * i);
    }
}

static void
block_int4_g128(const uint8_t *b, float *out)
{
    block_int4(b, 128, out);
}

static void
block_int4_g64(const uint8_t *b, float *out)
{
    block_int4(b, 64, out);
}

static void
block_int4_g32(const uint8_t *b, float *out)
{
    block_int4(b, 32, out);
}

static void
block_q4_k(const uint8_t *b, float *out)
{
    block_q4_or_q5_k(b, false, out);
}

static void
block_q5_k(const uint8_t *b, float *out)
{
    block_q4_or_q5_k(b, true, out);
}

static void
block_f32(const uint8_t *b, float *out)
{
    uint32_t u = load_u32(b);
    memcpy(out, &u, sizeof u);
}

static void
block_f16(const uint8_t *b, float *out)
{
    *out = load_f16(b);
}

static void
block_bf16(const uint8_t *b, float *out)
{
    *out = dop_bf16_to_f32((uint16_t)load_u16(b));
}

static void
block_u32(const uint8_t *b, float *out)
{
    *out = (float)load_u32(b);
}

static void
block_i32(const uint8_t *b, float *out)
{
    *out = (float)(int32_t)load_u32(b);
}

static void
block_none(const uint8_t *b, float *out) /* the type stores no values */
{
    (void)b;
    *out = 0;
}

/* Decoders of one block, by type. */
static void (*const decoders[DOP_TYPE_COUNT])(const uint8_t *, float *) = {
#define TYPE(name, ...) block_##name,
#include "base/storage/types.def"
#undef TYPE
};

enum { AT_ONCE = 16 };

/* Converts halves to f32 as dop_f16_to_f32 does, in a form that compilers can vectorize. */
static void
convert_f16_values(const uint16_t *h, float *out)
{
    uint32_t u[AT_ONCE];
    for (int i = 0; i < AT_ONCE; i++)
        u[i] = (uint32_t)(h[i] & 0x7fff) << 13;
    memcpy(out, u, sizeof u);
    for (int i = 0; i < AT_ONCE; i++)
        out[i] *= 0x1p112f; /* exact, also for subnormals */
    memcpy(u, out, sizeof u);
    for (int i = 0; i < AT_ONCE; i++)
        u[i] |= (uint32_t)(h[i] & 0x8000) << 16 | ((h[i] & 0x7c00) == 0x7c00 ? 0x7f800000u : 0);
    memcpy(out, u, sizeof u);
}

static void
convert_bf16_values(const uint16_t *h, float *out)
{
    uint32_t u[AT_ONCE];
    for (int i = 0; i < AT_ONCE; i++)
        u[i] = (uint32_t)h[i] << 16;
    memcpy(out, u, sizeof u);
}

/* Decodes rows of halves, the most common type of weights. */
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
        decode_halves(t == DOP_TYPE_f16 ? convert_f16_values : convert_bf16_values, src, n, out);
        return;
    }
    const dop_type_info *ti = dop_type_of(t);
    void (*const decode)(const uint8_t *, float *) = decoders[(unsigned)t < DOP_TYPE_COUNT ? t : DOP_TYPE_none];
    const uint8_t *p = src;
    float block[LARGE];
    for (uint64_t done = 0; done < n; done += ti->block, p += ti->bytes) {
        uint64_t left = n - done;
        decode(p, block);
        memcpy(out + done, block, (left < ti->block ? left : ti->block) * sizeof *out);
    }
}
