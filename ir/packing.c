#include "ir/packing.h"

#include <string.h>

enum { UNIT = DOP_UNIT_VALUES, MAX_BLOCK = 256 };

static uint32_t
word_at(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static void
put_word(uint8_t *p, uint32_t bits)
{
    for (int i = 0; i < 4; i++)
        p[i] = (uint8_t)(bits >> (8 * i) & 255);
}

/* --- values in lanes of words ------------------------------------------------------------------------------------------ */

/* Packs four values of up to 8 bits in the lanes of a word: values 0 and 2 in the lower half, 2 at bit `second`; values 1 and 3
 * likewise in the upper half. */
static inline uint32_t
lanes(const uint8_t *q, uint32_t mask, uint32_t second)
{
    uint32_t u = word_at(q);
    return (u & mask) | (u & mask << 8) << 8 | (u & mask << 16) >> (16 - second) | (u & mask << 24) >> (8 - second);
}

/* Unpacks four values from the lanes of a word into bytes; the word may have other bits besides. */
static inline void
from_lanes(uint32_t w, uint32_t mask, uint32_t second, uint8_t *q)
{
    q[0] = (uint8_t)(w & mask);
    q[1] = (uint8_t)(w >> 16 & mask);
    q[2] = (uint8_t)(w >> second & mask);
    q[3] = (uint8_t)(w >> (16 + second) & mask);
}

/* Where quad j (values 4j .. 4j + 3 of a unit) of values of `bits` bits is: its word, its bit there, and that of its values
 * 2 and 3 from there. */
static uint32_t
quad_word(uint32_t bits, uint32_t j)
{
    return j * bits / 8;
}

static uint32_t
quad_shift(uint32_t bits, uint32_t j)
{
    switch (bits) {
    case 1:
        return (j & 3) + 8 * (j >> 2);
    case 2:
        return 2 * (j & 1) + 8 * (j >> 1 & 1);
    case 4:
        return 8 * (j & 1);
    default:
        return 0;
    }
}

static inline void
put_lanes(const uint8_t *q, uint32_t bits, uint8_t *out)
{
    const uint32_t mask = (1u << bits) - 1, second = bits == 8 ? 8 : 4;
    uint32_t words[8] = {0};
    for (uint32_t j = 0; j < UNIT / 4; j++)
        words[quad_word(bits, j)] |= lanes(q + 4 * j, mask, second) << quad_shift(bits, j);
    for (uint32_t w = 0; w < bits; w++)
        put_word(out + (size_t)w * 4, words[w]);
}

static void
get_lanes(const uint8_t *in, uint32_t bits, uint8_t *q)
{
    const uint32_t mask = (1u << bits) - 1, second = bits == 8 ? 8 : 4;
    for (uint32_t j = 0; j < UNIT / 4; j++)
        from_lanes(word_at(in + (size_t)quad_word(bits, j) * 4) >> quad_shift(bits, j), mask, second, q + 4 * j);
}

/* --- values in blocks --------------------------------------------------------------------------------------------------- */

/* Value by value, n of them, from the bytes of a block. */
static inline void
get_values(const uint8_t *b, uint32_t bits, uint32_t width, uint32_t n, uint8_t *q)
{
    for (uint32_t i = 0; i < n; b += width)
        for (uint32_t shift = 0; shift < 8; shift += bits)
            for (uint32_t w = 0; w < width; w++)
                q[i++] = (uint8_t)(b[w] >> shift & ((1u << bits) - 1));
}

static void
set_values(const uint8_t *q, uint32_t bits, uint32_t width, uint32_t n, uint8_t *b)
{
    for (uint32_t i = 0; i < n; b += width)
        for (uint32_t shift = 0; shift < 8; shift += bits)
            for (uint32_t w = 0; w < width; w++)
                b[w] = (uint8_t)(b[w] | q[i++] << shift);
}

/* Another code for the 16 numbers of e2m1, which kernels decode without a table: twice the number is the code less 1, and
 * less 13 where of "bit 0 is clear", "bit 1 is set" and "bit 3 is set" two are true.  number_of is the inverse. */
static const uint8_t e2m1_code[16] = {14, 15, 3, 4, 5, 7, 9, 13, 1, 0, 12, 11, 10, 8, 6, 2};
static const uint8_t number_of[16] = {9, 8, 15, 2, 3, 4, 14, 5, 13, 6, 12, 11, 10, 7, 0, 1};

/* tq1_0: 32 bytes hold values w, 32 + w, .. 128 + w as the digits of a number below 3^5, 16 bytes values 160 + w, .. 224 + w,
 * and 4 bytes values 240 + w, .. 252 + w.  A byte is the fraction of that number and 3^5, with eight bits rounded up, so that
 * the highest digit is what three times it has above them. */
static const struct {
    uint8_t bytes, digits, first;
} trits[] = {{32, 5, 0}, {16, 5, 160}, {4, 4, 240}};

static void
get_trits(const uint8_t *b, uint8_t *q)
{
    for (size_t g = 0; g < sizeof trits / sizeof *trits; b += trits[g].bytes, g++)
        for (uint32_t w = 0; w < trits[g].bytes; w++)
            for (uint32_t d = 0, x = b[w]; d < trits[g].digits; d++, x = 3 * x & 255)
                q[trits[g].first + d * trits[g].bytes + w] = (uint8_t)(3 * x >> 8);
}

static void
set_trits(const uint8_t *q, uint8_t *b)
{
    for (size_t g = 0; g < sizeof trits / sizeof *trits; b += trits[g].bytes, g++)
        for (uint32_t w = 0; w < trits[g].bytes; w++) {
            uint32_t x = 0;
            for (uint32_t d = 0; d < 5; d++)
                x = 3 * x + (d < trits[g].digits ? q[trits[g].first + d * trits[g].bytes + w] : 0);
            b[w] = (uint8_t)((x * 256 + 242) / 243);
        }
}

static void
get_integers(const dop_block_field *f, const uint8_t *b, uint32_t n, uint8_t *q)
{
    b += f->from;
    /* Constant arguments, so that compilers make vectors of the loops. */
    if (f->kind == DOP_FIELD_TRITS)
        get_trits(b, q);
    else if (f->size == 4 && f->width == 16)
        get_values(b, 4, 16, n, q);
    else if (f->size == 4 && f->width == 32)
        get_values(b, 4, 32, n, q);
    else if (f->size == 4 && f->width == 64)
        get_values(b, 4, 64, n, q);
    else if (f->size == 2 && f->width == 32)
        get_values(b, 2, 32, n, q);
    else if (f->size == 1 && f->width == 32)
        get_values(b, 1, 32, n, q);
    else if (f->size == 8)
        get_values(b, 8, 1, n, q);
    else
        get_values(b, f->size, f->width, n, q);
    for (uint32_t i = 0; i < n && f->kind == DOP_FIELD_E2M1; i++)
        q[i] = e2m1_code[q[i]];
    for (uint32_t i = 0; i < n && f->kind == DOP_FIELD_BYTES; i++)
        q[i] ^= 128;
}

static void
set_integers(const dop_block_field *f, uint8_t *q, uint32_t n, uint8_t *b)
{
    for (uint32_t i = 0; i < n && f->kind == DOP_FIELD_E2M1; i++)
        q[i] = number_of[q[i]];
    for (uint32_t i = 0; i < n && f->kind == DOP_FIELD_BYTES; i++)
        q[i] ^= 128;
    if (f->kind == DOP_FIELD_TRITS)
        set_trits(q, b + f->from);
    else
        set_values(q, f->size, f->width, n, b + f->from);
}

/* --- scales of k formats ------------------------------------------------------------------------------------------------ */

/* Scale and minimum j of the 12 bytes of q4_k and q5_k (interp_decode.c), as the words that kernels read: a nibble of each word
 * for each unit, the low bits of scales, those of minimums, and the upper two bits of both. */
static void
put_six(const uint8_t *s, uint8_t *out)
{
    uint32_t scales = 0, mins = 0, upper = 0;
    for (uint32_t j = 0; j < 8; j++) {
        uint32_t sc = j < 4 ? s[j] & 63u : (s[j + 4] & 15u) | (uint32_t)(s[j - 4] >> 6) << 4;
        uint32_t mn = j < 4 ? s[j + 4] & 63u : (uint32_t)(s[j + 4] >> 4) | (uint32_t)(s[j] >> 6) << 4;
        scales |= (sc & 15) << (4 * j);
        mins |= (mn & 15) << (4 * j);
        upper |= (sc >> 4 | (mn >> 4) << 2) << (4 * j);
    }
    put_word(out, scales);
    put_word(out + 4, mins);
    put_word(out + 8, upper);
}

static void
get_six(const uint8_t *in, uint8_t *s)
{
    uint32_t scales = word_at(in), mins = word_at(in + 4), upper = word_at(in + 8);
    for (uint32_t j = 0; j < 8; j++) {
        uint32_t both = upper >> (4 * j), sc = (scales >> (4 * j) & 15) | (both & 3) << 4;
        uint32_t mn = (mins >> (4 * j) & 15) | (both >> 2 & 3) << 4;
        if (j < 4) {
            s[j] = (uint8_t)(s[j] | sc);
            s[j + 4] = (uint8_t)(s[j + 4] | mn);
        } else {
            s[j + 4] = (uint8_t)(s[j + 4] | (sc & 15) | (mn & 15) << 4);
            s[j - 4] = (uint8_t)(s[j - 4] | sc >> 4 << 6);
            s[j] = (uint8_t)(s[j] | mn >> 4 << 6);
        }
    }
}

/* q3_k: scale s is six bits less 32. */
static uint8_t
three_of(const uint8_t *scales, uint32_t s)
{
    int low = s < 8 ? scales[s] & 15 : scales[s - 8] >> 4;
    return (uint8_t)((low | (scales[8 + s % 4] >> (2 * (s / 4)) & 3) << 4) - 32);
}

static void
set_three(uint8_t *scales, uint32_t s, uint8_t value)
{
    uint32_t v = (value + 32u) & 63;
    scales[s % 8] = (uint8_t)(scales[s % 8] | (v & 15) << (s < 8 ? 0 : 4));
    scales[8 + s % 4] = (uint8_t)(scales[8 + s % 4] | v >> 4 << (2 * (s / 4)));
}

/* --- blocks ------------------------------------------------------------------------------------------------------------- */

void
dop_pack_block(dop_type t, const uint8_t *block, uint32_t k, uint8_t *unit0, uint8_t *group0)
{
    const dop_type_info *ti = dop_type_of(t);
    const uint32_t units = ti->block / UNIT;
    uint8_t q[MAX_BLOCK];
    for (const dop_block_field *f = ti->fields; f->kind != DOP_FIELD_NONE; f++) {
        uint8_t *group = group0 + f->to;
        if (f->kind == DOP_FIELD_ONCE)
            memcpy(group + k / units * f->step, block + f->from, f->size);
        else if (f->kind == DOP_FIELD_SIX)
            put_six(block + f->from, group + k / units * f->step);
        else if (f->kind >= DOP_FIELD_VALUES && f->kind != DOP_FIELD_THREE)
            get_integers(f, block, ti->block, q);
        for (uint32_t u = 0; u < units; u++) {
            uint8_t *unit = unit0 + u * ti->pack.unit_bytes + f->to, *each = group + (k + u) * f->step;
            switch (f->kind) {
            case DOP_FIELD_UNIT:
                memcpy(unit, block + f->from + u * f->size, f->size);
                break;
            case DOP_FIELD_EACH:
                memcpy(each, block + f->from + u * f->size, f->size);
                break;
            case DOP_FIELD_VALUES:
            case DOP_FIELD_BYTES:
            case DOP_FIELD_E2M1:
            case DOP_FIELD_TRITS:
                put_lanes(q + (size_t)u * UNIT, f->size, unit);
                break;
            case DOP_FIELD_BITS:
                put_lanes(q + (size_t)u * UNIT, f->size, each);
                break;
            case DOP_FIELD_THREE:
                each[0] = three_of(block + f->from, 2 * u);
                each[1] = three_of(block + f->from, 2 * u + 1);
                break;
            default:
                break;
            }
        }
    }
}

void
dop_unpack_block(dop_type t, const uint8_t *unit0, const uint8_t *group0, uint32_t k, uint8_t *block)
{
    const dop_type_info *ti = dop_type_of(t);
    const uint32_t units = ti->block / UNIT;
    uint8_t q[MAX_BLOCK];
    memset(block, 0, ti->bytes);
    for (const dop_block_field *f = ti->fields; f->kind != DOP_FIELD_NONE; f++) {
        const uint8_t *group = group0 + f->to;
        if (f->kind == DOP_FIELD_ONCE)
            memcpy(block + f->from, group + k / units * f->step, f->size);
        else if (f->kind == DOP_FIELD_SIX)
            get_six(group + k / units * f->step, block + f->from);
        for (uint32_t u = 0; u < units; u++) {
            const uint8_t *unit = unit0 + u * ti->pack.unit_bytes + f->to, *each = group + (k + u) * f->step;
            switch (f->kind) {
            case DOP_FIELD_UNIT:
                memcpy(block + f->from + u * f->size, unit, f->size);
                break;
            case DOP_FIELD_EACH:
                memcpy(block + f->from + u * f->size, each, f->size);
                break;
            case DOP_FIELD_VALUES:
            case DOP_FIELD_BYTES:
            case DOP_FIELD_E2M1:
            case DOP_FIELD_TRITS:
                get_lanes(unit, f->size, q + (size_t)u * UNIT);
                break;
            case DOP_FIELD_BITS:
                get_lanes(each, f->size, q + (size_t)u * UNIT);
                break;
            case DOP_FIELD_THREE:
                set_three(block + f->from, 2 * u, each[0]);
                set_three(block + f->from, 2 * u + 1, each[1]);
                break;
            default:
                break;
            }
        }
        if (f->kind >= DOP_FIELD_VALUES && f->kind != DOP_FIELD_SIX && f->kind != DOP_FIELD_THREE)
            set_integers(f, q, ti->block, block);
    }
}
