/* Plane 0 of a unit of 32 values: 16 bytes of low nibbles (q8_0: 32 bytes; q2_k, q3_k: 8 bytes of two bits).  Plane 1, in
 * groups of 32 units (byte offsets within a group; k is the unit's number in it):
 *
 *   q4_0 iq4_nl q8_0   2k: d
 *   q4_1               4k: d, m
 *   q5_0               4k: fifth bits    128 + 2k: d
 *   q5_1               8k: fifth bits, d, m
 *   q4_k               16 * (k / 8): d, dmin, then words: low scale bits, low minimum bits, upper bits; a nibble per unit
 *   q5_k               as q4_k           64 + 4k: fifth bits
 *   q6_k               8k: upper bits    256 + 2k: two scales    320 + 2 * (k / 8): d
 *   q3_k               4k: third bits    128 + 2k: two scales    192 + 2 * (k / 8): d
 *   q2_k               2k: scale, minimum nibbles, twice         64 + 4 * (k / 8): d, dmin
 *   mxfp4              k: exponent
 *   int4_g<n>          4 * (32k / n): d, z
 *
 * Inside words values stand in two 16-bit lanes: value 4j + c of a unit is in half c & 1, with values c < 2 before the
 * others.  Values of q8_0 are stored with 128 added, those of mxfp4 by the code that e2m1_code says. */
#include "compiler/pack/repack.h"

#include "kernels/weight_types.h"

#include <string.h>

enum { UNIT = 32 };

/* One unit's place: plane 0, and its group in plane 1 with its number there. */
typedef struct place {
    uint8_t *low, *group;
    uint32_t k;
} place;

static void
put_word(uint8_t *p, uint32_t word, uint32_t bits)
{
    memcpy(p + (size_t)word * 4, &bits, sizeof bits);
}

/* A field of four values' bytes (bits `from` on, under the mask) in lanes: values 0 and 2 in the lower half, 2 at bit
 * `second`, values 1 and 3 likewise in the upper. */
static inline uint32_t
lanes(const uint8_t *q, uint32_t from, uint32_t mask, uint32_t second)
{
    uint32_t u;
    memcpy(&u, q, sizeof u);
    u >>= from;
    return (u & mask) | (u & mask << 8) << 8 | (u & mask << 16) >> (16 - second) | (u & mask << 24) >> (8 - second);
}

/* Bytes of 32 values, already in value order, to lanes of nibbles. */
static void
put_nibbles(uint8_t *low, const uint8_t *q)
{
    for (uint32_t w = 0; w < 4; w++)
        put_word(low, w, lanes(q + w * 8, 0, 15, 4) | lanes(q + w * 8 + 4, 0, 15, 4) << 8);
}

static void
put_bytes(uint8_t *low, const uint8_t *q)
{
    for (uint32_t w = 0; w < 8; w++)
        put_word(low, w, lanes(q + w * 4, 0, 255, 8));
}

/* Bit `from` of each value into one word. */
static void
put_one_bits(uint8_t *at, const uint8_t *q, uint32_t from)
{
    uint32_t bits = 0;
    for (uint32_t i = 0; i < UNIT / 4; i++)
        bits |= lanes(q + i * 4, from, 1, 4) << ((i & 3) + 8 * (i >> 2));
    put_word(at, 0, bits);
}

/* Bits from, from + 1 of each value into two words. */
static void
put_two_bits(uint8_t *at, const uint8_t *q, uint32_t from)
{
    for (uint32_t w = 0; w < 2; w++) {
        uint32_t bits = 0;
        for (uint32_t i = 0; i < 4; i++)
            bits |= lanes(q + w * 16 + i * 4, from, 3, 4) << (2 * (i & 1) + 8 * (i >> 1));
        put_word(at, w, bits);
    }
}

/* 16 bytes: low nibbles are the first 16 values, high nibbles the others. */
static void
get_nibbles(const uint8_t *b, uint8_t *q)
{
    uint8_t two[16];
    memcpy(two, b, sizeof two);
    for (uint32_t i = 0; i < 16; i++)
        q[i] = two[i] & 15;
    for (uint32_t i = 0; i < 16; i++)
        q[i + 16] = two[i] >> 4;
}

/* A fifth bit for each value, bit i of 4 bytes. */
static void
get_fifth(const uint8_t *b, uint8_t *q)
{
    for (uint32_t i = 0; i < UNIT; i++)
        q[i] = (uint8_t)(q[i] | (b[i / 8] >> (i % 8) & 1) << 4);
}

/* Another code for the 16 numbers of e2m1, which kernels decode without a table: twice the number is the code less 1, and less
 * 13 where of "bit 0 is clear", "bit 1 is set" and "bit 3 is set" two are true. */
static const uint8_t e2m1_code[16] = {14, 15, 3, 4, 5, 7, 9, 13, 1, 0, 12, 11, 10, 8, 6, 2};

/* --- blocks of 32 values, and of groups --------------------------------------------------------------------------------- */

static void
small_unit(dop_type t, const uint8_t *b, const place *at)
{
    uint8_t q[UNIT], *g = at->group;
    uint32_t k = at->k;
    switch (t) {
    case DOP_TYPE_q8_0:
        memcpy(g + 2 * k, b, 2);
        for (uint32_t i = 0; i < UNIT; i++)
            q[i] = b[2 + i] ^ 128;
        put_bytes(at->low, q);
        return;
    case DOP_TYPE_q4_1:
        memcpy(g + 4 * k, b, 4);
        get_nibbles(b + 4, q);
        break;
    case DOP_TYPE_q5_0:
        memcpy(g + 128 + 2 * k, b, 2);
        get_nibbles(b + 6, q);
        get_fifth(b + 2, q);
        put_one_bits(g + 4 * k, q, 4);
        break;
    case DOP_TYPE_q5_1:
        memcpy(g + 8 * k + 4, b, 4);
        get_nibbles(b + 8, q);
        get_fifth(b + 4, q);
        put_one_bits(g + 8 * k, q, 4);
        break;
    case DOP_TYPE_mxfp4:
        g[k] = b[0];
        get_nibbles(b + 1, q);
        for (uint32_t i = 0; i < UNIT; i++)
            q[i] = e2m1_code[q[i]];
        break;
    default: /* q4_0, iq4_nl */
        memcpy(g + 2 * k, b, 2);
        get_nibbles(b + 2, q);
        break;
    }
    put_nibbles(at->low, q);
}

/* --- blocks of 256 -------------------------------------------------------------------------------------------------------- */

/* Scale and minimum j of the 12 bytes of q4_k and q5_k (see ir/interp_decode.c), as the words that kernels read. */
static void
put_six_bit_scales(const uint8_t *b, uint8_t *out)
{
    uint32_t scales = 0, mins = 0, upper = 0;
    const uint8_t *s = b + 4;
    for (uint32_t j = 0; j < 8; j++) {
        uint32_t sc = j < 4 ? s[j] & 63u : (s[j + 4] & 15u) | (uint32_t)(s[j - 4] >> 6) << 4;
        uint32_t mn = j < 4 ? s[j + 4] & 63u : (uint32_t)(s[j + 4] >> 4) | (uint32_t)(s[j] >> 6) << 4;
        scales |= (sc & 15) << (4 * j);
        mins |= (mn & 15) << (4 * j);
        upper |= (sc >> 4 | (mn >> 4) << 2) << (4 * j);
    }
    memcpy(out, b, 4);
    put_word(out, 1, scales);
    put_word(out, 2, mins);
    put_word(out, 3, upper);
}

static int
q3_k_scale(const uint8_t *scales, uint32_t s)
{
    int low = s < 8 ? scales[s] & 15 : scales[s - 8] >> 4;
    return (low | (scales[8 + s % 4] >> (2 * (s / 4)) & 3) << 4) - 32;
}

/* UNIT fields of `bits` bits that begin at bit `from` of each of the bytes, at bit `to`. */
static inline void
get_fields(const uint8_t *b, uint32_t from, uint32_t bits, uint32_t to, uint8_t *q)
{
    uint8_t bytes[UNIT];
    memcpy(bytes, b, sizeof bytes);
    for (uint32_t i = 0; i < UNIT; i++)
        q[i] = (uint8_t)(q[i] | (bytes[i] >> from & ((1u << bits) - 1)) << to);
}

/* The integers of unit j. */
static void
large_values(dop_type t, const uint8_t *b, uint32_t j, uint8_t *q)
{
    const uint32_t half = j / 4, quarter = j % 4;
    memset(q, 0, UNIT);
    switch (t) {
    case DOP_TYPE_q4_k:
        get_fields(b + 16 + j / 2 * 32, j % 2 * 4, 4, 0, q);
        break;
    case DOP_TYPE_q5_k:
        get_fields(b + 48 + j / 2 * 32, j % 2 * 4, 4, 0, q);
        get_fields(b + 16, j, 1, 4, q);
        break;
    case DOP_TYPE_q6_k:
        get_fields(b + half * 64 + quarter % 2 * 32, quarter / 2 * 4, 4, 0, q);
        get_fields(b + 128 + half * 32, 2 * quarter, 2, 4, q);
        break;
    case DOP_TYPE_q3_k:
        get_fields(b + 32 + half * 32, 2 * quarter, 2, 0, q);
        get_fields(b, j, 1, 2, q);
        break;
    default: /* q2_k */
        get_fields(b + 16 + half * 32, 2 * quarter, 2, 0, q);
        break;
    }
}

/* Unit j of a block. */
static void
large_unit(dop_type t, const uint8_t *b, uint32_t j, const place *at)
{
    uint8_t q[UNIT], *g = at->group;
    uint32_t k = at->k;
    large_values(t, b, j, q);
    switch (t) {
    case DOP_TYPE_q4_k:
    case DOP_TYPE_q5_k:
        if (j == 0)
            put_six_bit_scales(b, g + 16 * (k / 8));
        if (t == DOP_TYPE_q5_k)
            put_one_bits(g + 64 + 4 * k, q, 4);
        put_nibbles(at->low, q);
        break;
    case DOP_TYPE_q6_k:
        put_two_bits(g + 8 * k, q, 4);
        memcpy(g + 256 + 2 * k, b + 192 + 2 * j, 2);
        memcpy(g + 320 + 2 * (k / 8), b + 208, 2);
        put_nibbles(at->low, q);
        break;
    case DOP_TYPE_q3_k:
        put_one_bits(g + 4 * k, q, 2);
        g[128 + 2 * k] = (uint8_t)q3_k_scale(b + 96, 2 * j);
        g[129 + 2 * k] = (uint8_t)q3_k_scale(b + 96, 2 * j + 1);
        memcpy(g + 192 + 2 * (k / 8), b + 108, 2);
        put_two_bits(at->low, q, 0);
        break;
    default: /* q2_k */
        memcpy(g + 2 * k, b + 2 * j, 2);
        memcpy(g + 64 + 4 * (k / 8), b + 80, 4);
        put_two_bits(at->low, q, 0);
        break;
    }
}

void
dop_repack_row(dop_type t, const uint8_t *blocks, uint32_t row, uint32_t rows, uint32_t cols, uint8_t *out)
{
    const dop_weight_type *w = dop_weight_type_of(t);
    const dop_type_info *ti = dop_type_of(t);
    uint32_t per_row = dop_packed_row_values(t, cols) / UNIT, per_block = ti->block / UNIT;
    uint8_t *aux = out + dop_packed_plane_bytes(t, rows, cols), q[UNIT];
    for (uint32_t i = 0; i < per_row; i++) {
        uint64_t u = (uint64_t)row * per_row + i;
        const uint8_t *b = blocks + (uint64_t)(i / per_block) * ti->bytes;
        place at = {out + u * w->unit_bytes, aux + u / DOP_AUX_UNITS * w->aux_bytes, (uint32_t)(u % DOP_AUX_UNITS)};
        if (ti->block == 256) {
            large_unit(t, b, i % per_block, &at);
        } else if (ti->block == 32 && t != DOP_TYPE_int4_g32) {
            small_unit(t, b, &at);
        } else {
            get_nibbles(b + i % per_block * 16, q);
            put_nibbles(at.low, q);
            memcpy(at.group + at.k / per_block * 4, b + ti->bytes - 4, 4);
        }
    }
}
