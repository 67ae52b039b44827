#include "base/storage/packing.h"

#include <string.h>

enum {
    UNIT = DOP_UNIT_VALUES,
    MAX_BLOCK = 256,
    BATCH = 64 /* units that are packed at once: whole blocks, in the first cache */
};

/* Hosts are little-endian, as plans are. */
static inline uint32_t
word_at(const uint8_t *p)
{
    uint32_t word;
    memcpy(&word, p, sizeof word);
    return word;
}

static inline void
put_word(uint8_t *p, uint32_t word)
{
    memcpy(p, &word, sizeof word);
}

static inline uint64_t
eight_at(const uint8_t *p)
{
    uint64_t bytes;
    memcpy(&bytes, p, sizeof bytes);
    return bytes;
}

static inline void
put_eight(uint8_t *p, uint64_t bytes)
{
    memcpy(p, &bytes, sizeof bytes);
}

/* Exchanges the bits of x that `mask` has with those `shift` above them. */
static inline uint64_t
exchange(uint64_t x, uint64_t mask, uint32_t shift)
{
    const uint64_t both = (x ^ x >> shift) & mask;
    return x ^ both ^ both << shift;
}

/* --- values in lanes of words ------------------------------------------------------------------------------------------ */

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

/* Values of several blocks are packed in two passes over a buffer, so that each is a loop which compilers turn into vectors:
 * the values in bytes, 8e .. 8e + 7 of a unit as one number of 64 bits, x[e], and these as lanes of words. */

/* Two quads of values of four bits, which are a word of their own. */
static inline uint32_t
two_quads(uint64_t x)
{
    x = (x | x >> 12) & 0x0000ffff0000ffff; /* bytes 0, 1, 4, 5: values i and i + 2 */
    x = (x | x << 8) & 0x00ff00ff00ff00ff;
    return (uint32_t)(x | x >> 24);
}

/* Two quads of values of one or two bits, as the first two of a word have them. */
static inline uint32_t
first_quads(uint64_t x, uint32_t bits)
{
    x |= x >> 12;
    x |= x >> (32 - bits);
    return (uint32_t)((x & 0xff) | (x & 0xff00) << 8);
}

/* A unit of bytes that have a sign. */
static inline void
put_bytes(const uint8_t *restrict q, uint8_t *restrict out)
{
    for (uint32_t i = 0; i < UNIT; i += 8) {
        const uint64_t x = eight_at(q + i) ^ 0x8080808080808080u;
        put_eight(out + i, exchange(x, 0x0000ff000000ff00, 8));
    }
}

/* x: values of 1, 2 or 4 bits of whole units; words: what becomes of them, `bits` words for each unit.  Words that are made
 * of several x take two loops, because the first one is then one of vectors. */
static void
put_lanes(const uint64_t *restrict x, uint32_t bits, uint32_t units, uint32_t *restrict words)
{
    const uint32_t n = units * (UNIT / 8);
    for (uint32_t i = 0; i < n && bits == 4; i++)
        words[i] = two_quads(x[i]);
    for (uint32_t i = 0; i < n && bits == 2; i++)
        words[i] = first_quads(x[i], 2);
    for (uint32_t i = 0; i < n && bits == 1; i++)
        words[i] = first_quads(x[i], 1);
    for (uint32_t i = 0; i < n / 2 && bits == 2; i++)
        words[i] = words[2 * i] | words[2 * i + 1] << 8;
    for (uint32_t i = 0; i < n / 4 && bits == 1; i++)
        words[i] = words[4 * i] | words[4 * i + 1] << 2 | words[4 * i + 2] << 8 | words[4 * i + 3] << 10;
}

static void
get_lanes(const uint8_t *in, uint32_t bits, uint8_t *q)
{
    const uint32_t mask = (1u << bits) - 1, second = bits == 8 ? 8 : 4;
    for (uint32_t j = 0; j < UNIT / 4; j++)
        from_lanes(word_at(in + (size_t)quad_word(bits, j) * 4) >> quad_shift(bits, j), mask, second, q + 4 * j);
}

/* --- values in blocks --------------------------------------------------------------------------------------------------- */

/* Values of 1, 2 or 4 bits of n blocks, which are `stride` bytes apart, one in each byte. */
static inline void
values_of(const uint8_t *restrict b, uint32_t stride, uint32_t n, uint32_t bits, uint32_t width, uint32_t per_block,
          uint64_t *restrict x)
{
    const uint64_t mask = ((1u << bits) - 1) * 0x0101010101010101u;
    const uint32_t bytes = per_block * bits / 8;
    for (; n > 0; n--, b += stride)
        for (uint32_t at = 0; at < bytes; at += width)
            for (uint32_t shift = 0; shift < 8; shift += bits)
                for (uint32_t w = 0; w < width; w += 8)
                    *x++ = eight_at(b + at + w) >> shift & mask;
}

/* Values of one bit, or of two, that follow each other in blocks, as lanes: an order of bits that exchanges of them give. */
static void
put_bits_in_order(const uint8_t *restrict b, uint32_t stride, uint32_t n, uint32_t bits, uint32_t units,
                  uint8_t *restrict out, uint32_t step)
{
    for (; n > 0; n--, b += stride)
        for (uint32_t u = 0; u < units; u++, out += step)
            if (bits == 1) {
                uint64_t x = exchange(word_at(b + (size_t)u * 4), 0xaaaa, 15);
                x = exchange(exchange(x, 0x00aa00aa, 7), 0x0c0c0c0c, 2);
                put_word(out, (uint32_t)exchange(x, 0x22222222, 1));
            } else {
                const uint64_t x = exchange(eight_at(b + (size_t)u * 8), 0x0000cccc0000cccc, 14);
                put_eight(out, exchange(x, 0x00cc00cc00cc00cc, 6));
            }
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
 * less 13 where of "bit 0 is clear", "bit 1 is set" and "bit 3 is set" two are true.  number_of is the inverse of e2m1_codes(). */
static const uint8_t number_of[16] = {9, 8, 15, 2, 3, 4, 14, 5, 13, 6, 12, 11, 10, 7, 0, 1};

/* The codes of the eight numbers in the bytes of x; bits as sums without carry of products of bits. */
static inline uint64_t
e2m1_codes(uint64_t x)
{
    const uint64_t ones = 0x0101010101010101u, a = x & ones, b = x >> 1 & ones, c = x >> 2 & ones, d = x >> 3 & ones;
    const uint64_t ab = a & b, ac = a & c, bit0 = a ^ b ^ c ^ ac ^ (b & c) ^ d, bit1 = ones ^ ab ^ c ^ ac ^ d;
    const uint64_t bit2 = ones ^ b ^ ab ^ d, bit3 = ones ^ b ^ c ^ d;
    return bit0 | bit1 << 1 | bit2 << 2 | bit3 << 3;
}

/* tq1_0: 32 bytes hold values w, 32 + w, .. 128 + w as the digits of a number below 3^5, 16 bytes values 160 + w, .. 224 + w,
 * and 4 bytes values 240 + w, .. 252 + w.  A byte is the fraction of that number and 3^5, with eight bits rounded up, so that
 * the highest digit is what three times it has above them. */
static const struct {
    uint8_t bytes, digits, first;
} trits[] = {{32, 5, 0}, {16, 5, 160}, {4, 4, 240}};

static inline void
digits_of(const uint8_t *restrict b, uint32_t bytes, uint32_t digits, uint8_t *restrict q)
{
    uint8_t left[32];
    memcpy(left, b, bytes);
    for (uint32_t d = 0; d < digits; d++)
        for (uint32_t w = 0; w < bytes; w++) {
            const uint16_t x = (uint16_t)(3 * left[w]);
            *q++ = (uint8_t)(x >> 8);
            left[w] = (uint8_t)x;
        }
}

static void
trits_of(const uint8_t *b, uint32_t stride, uint32_t n, uint64_t *x)
{
    for (uint8_t *q = (uint8_t *)x; n > 0; n--, b += stride, q += MAX_BLOCK) {
        digits_of(b, 32, 5, q); /* as trits[] has them */
        digits_of(b + 32, 16, 5, q + 160);
        digits_of(b + 48, 4, 4, q + 240);
    }
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

/* The integers of n blocks, one in each byte. */
static void
integers_of(const dop_type_info *ti, const dop_block_field *f, const uint8_t *b, uint32_t n, uint64_t *x)
{
    const uint32_t stride = ti->bytes, per_block = ti->block;
    /* Constant arguments, so that compilers unroll the loops. */
    if (f->kind == DOP_FIELD_TRITS)
        trits_of(b, stride, n, x);
    else if (f->size == 4 && f->width == 16 && per_block == 32)
        values_of(b, stride, n, 4, 16, 32, x);
    else if (f->size == 4 && f->width == 16)
        values_of(b, stride, n, 4, 16, per_block, x);
    else if (f->size == 4 && f->width == 32)
        values_of(b, stride, n, 4, 32, 256, x);
    else if (f->size == 4 && f->width == 64)
        values_of(b, stride, n, 4, 64, 256, x);
    else if (f->size == 2 && f->width == 32)
        values_of(b, stride, n, 2, 32, 256, x);
    else if (f->size == 1 && f->width == 32)
        values_of(b, stride, n, 1, 32, 256, x);
    else
        values_of(b, stride, n, f->size, f->width, per_block, x);
    for (uint32_t i = 0; i < n * per_block / 8 && f->kind == DOP_FIELD_E2M1; i++)
        x[i] = e2m1_codes(x[i]);
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

/* The low nibbles of eight bytes. */
static inline uint32_t
nibbles_of(uint64_t x)
{
    x &= 0x0f0f0f0f0f0f0f0f;
    x = (x | x >> 4) & 0x00ff00ff00ff00ff;
    x = (x | x >> 8) & 0x0000ffff0000ffff;
    return (uint32_t)(x | x >> 16);
}

/* Scale and minimum j of the 12 bytes of q4_k and q5_k (interp_decode.c), as the words that kernels read: a nibble of each word
 * for each unit, the low bits of scales, those of minimums, and the upper two bits of both. */
static inline void
put_six(const uint8_t *s, uint8_t *out)
{
    const uint32_t a = word_at(s), b = word_at(s + 4), c = word_at(s + 8);
    const uint64_t scales = (a & 0x3f3f3f3f) | (uint64_t)((c & 0x0f0f0f0f) | (a >> 2 & 0x30303030)) << 32;
    const uint64_t mins = (b & 0x3f3f3f3f) | (uint64_t)((c >> 4 & 0x0f0f0f0f) | (b >> 2 & 0x30303030)) << 32;
    put_word(out, nibbles_of(scales));
    put_word(out + 4, nibbles_of(mins));
    put_word(out + 8, nibbles_of((scales >> 4 & 0x0303030303030303) | (mins >> 2 & 0x0c0c0c0c0c0c0c0c)));
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
static inline void
put_three(const uint8_t *s, uint8_t *out, uint32_t step)
{
    const uint64_t low = eight_at(s), upper = word_at(s + 8), mask = 0x3030303030303030;
    const uint64_t first = (low & 0x0f0f0f0f0f0f0f0f) | ((upper << 4 | upper << 34) & mask);
    const uint64_t second = (low >> 4 & 0x0f0f0f0f0f0f0f0f) | ((upper | upper << 30) & mask);
    const uint64_t bits = 0x8080808080808080, less = 0x2020202020202020;
    const uint64_t scales[2] = {((first | bits) - less) ^ bits, ((second | bits) - less) ^ bits};
    for (uint32_t u = 0; u < 8; u++)
        memcpy(out + u * step, (const uint8_t *)scales + (size_t)u * 2, 2);
}

static void
set_three(uint8_t *scales, uint32_t s, uint8_t value)
{
    uint32_t v = (value + 32u) & 63;
    scales[s % 8] = (uint8_t)(scales[s % 8] | (v & 15) << (s < 8 ? 0 : 4));
    scales[8 + s % 4] = (uint8_t)(scales[8 + s % 4] | v >> 4 << (2 * (s / 4)));
}

/* --- blocks ------------------------------------------------------------------------------------------------------------- */

/* Is the field in plane 0? */
static bool
in_units(const dop_block_field *f)
{
    return f->kind == DOP_FIELD_UNIT || (f->kind >= DOP_FIELD_VALUES && f->kind != DOP_FIELD_BITS &&
                                         f->kind != DOP_FIELD_SIX && f->kind != DOP_FIELD_THREE);
}

/* Copies `pieces` pieces of each of n blocks, which are `stride` bytes apart, to places `step` bytes apart. */
static inline void
copy_of(const uint8_t *restrict b, uint32_t stride, uint32_t n, uint32_t pieces, uint32_t size, uint8_t *restrict to,
        uint32_t step)
{
    for (; n > 0; n--, b += stride)
        for (uint32_t i = 0; i < pieces; i++, to += step)
            memcpy(to, b + (size_t)i * size, size);
}

static void
copy_pieces(const uint8_t *b, uint32_t stride, uint32_t n, uint32_t pieces, uint32_t size, uint8_t *to, uint32_t step)
{
    switch (size) { /* constant sizes, for which compilers call no function */
    case 1:
        copy_of(b, stride, n, pieces, 1, to, step);
        break;
    case 2:
        copy_of(b, stride, n, pieces, 2, to, step);
        break;
    case 4:
        copy_of(b, stride, n, pieces, 4, to, step);
        break;
    case 8:
        copy_of(b, stride, n, pieces, 8, to, step);
        break;
    case 32:
        copy_of(b, stride, n, pieces, 32, to, step);
        break;
    default:
        copy_of(b, stride, n, pieces, size, to, step);
        break;
    }
}

static void
put_integers(const dop_type_info *ti, const dop_block_field *f, const uint8_t *b, uint32_t n, uint8_t *to,
             uint32_t step)
{
    const uint32_t units = ti->block / UNIT, most = BATCH / units;
    uint64_t x[BATCH * UNIT / 8];
    uint32_t words[BATCH * 4];
    for (uint32_t m; n > 0; n -= m, b += (size_t)m * ti->bytes) {
        m = n < most ? n : most;
        integers_of(ti, f, b, m, x);
        put_lanes(x, f->size, m * units, words);
        if (step == 4u * f->size)
            memcpy(to, words, (size_t)m * units * step);
        else
            copy_pieces((const uint8_t *)words, 0, 1, m * units, 4u * f->size, to, step);
        to += (size_t)m * units * step;
    }
}

/* Writes a field of n blocks to places of a plane that are `step` bytes apart. */
static void
put_field(const dop_type_info *ti, const dop_block_field *f, const uint8_t *blocks, uint32_t n, uint8_t *to,
          uint32_t step)
{
    const uint32_t units = ti->block / UNIT, stride = ti->bytes;
    const uint8_t *b = blocks + f->from;
    switch (f->kind) {
    case DOP_FIELD_UNIT:
    case DOP_FIELD_EACH:
        copy_pieces(b, stride, n, units, f->size, to, step);
        break;
    case DOP_FIELD_ONCE:
        copy_pieces(b, stride, n, 1, f->size, to, step);
        break;
    case DOP_FIELD_SIX:
        for (uint32_t i = 0; i < n; i++)
            put_six(b + (size_t)i * stride, to + (size_t)i * step);
        break;
    case DOP_FIELD_THREE:
        for (uint32_t i = 0; i < n; i++)
            put_three(b + (size_t)i * stride, to + (size_t)i * units * step, step);
        break;
    case DOP_FIELD_BYTES:
        for (uint32_t i = 0; i < n; i++)
            put_bytes(b + (size_t)i * stride, to + (size_t)i * step);
        break;
    default:
        if (f->width == 1)
            put_bits_in_order(b, stride, n, f->size, units, to, step);
        else
            put_integers(ti, f, b, n, to, step);
        break;
    }
}

static void
pack_units(const dop_type_info *ti, const uint8_t *blocks, uint32_t n, uint8_t *units)
{
    for (const dop_block_field *f = ti->fields; f->kind != DOP_FIELD_NONE; f++)
        if (in_units(f))
            put_field(ti, f, blocks, n, units + f->to, ti->pack.unit_bytes);
}

/* Blocks of one group, the first of which begins with unit k. */
static void
pack_group(const dop_type_info *ti, const uint8_t *blocks, uint32_t n, uint32_t k, uint8_t *group)
{
    const uint32_t units = ti->block / UNIT;
    for (const dop_block_field *f = ti->fields; f->kind != DOP_FIELD_NONE; f++)
        if (!in_units(f)) {
            const bool once = f->kind == DOP_FIELD_ONCE || f->kind == DOP_FIELD_SIX;
            put_field(ti, f, blocks, n, group + f->to + (once ? k / units : k) * f->step, f->step);
        }
}

void
dop_pack_block(dop_type t, const uint8_t *block, uint32_t k, uint8_t *units, uint8_t *group)
{
    pack_units(dop_type_of(t), block, 1, units);
    pack_group(dop_type_of(t), block, 1, k, group);
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

/* --- matrices ------------------------------------------------------------------------------------------------------------ */

dop_planes
dop_planes_of(dop_type t, uint64_t units)
{
    const dop_type_info *ti = dop_type_of(t);
    const uint64_t book = (units * ti->pack.unit_bytes + 15) / 16 * 16;
    return (dop_planes){.units = units * ti->pack.unit_bytes,
                        .book = book,
                        .groups = book + ti->pack.book,
                        .group_bytes = (units + DOP_GROUP_UNITS - 1) / DOP_GROUP_UNITS * ti->pack.group_bytes};
}

/* What is packed here before it is copied, in bytes: it holds several blocks or groups of every type. */
enum { PORTION = 4096 };

/* Copies of `made`, which are bytes at .. at + n - 1 of a plane, those that begin at *io_from; *io_size of them are still wanted. */
static uint8_t *
copy_wanted(const uint8_t *made, uint64_t at, uint64_t n, uint64_t *io_from, uint64_t *io_size, uint8_t *out)
{
    const uint64_t skip = *io_from - at, copied = n - skip < *io_size ? n - skip : *io_size;
    memcpy(out, made + skip, (size_t)copied);
    *io_from += copied;
    *io_size -= copied;
    return out + copied;
}

void
dop_pack_units(dop_type t, const uint8_t *blocks, uint64_t from, uint64_t size, uint8_t *out)
{
    const dop_type_info *ti = dop_type_of(t);
    const uint32_t bytes = ti->block / UNIT * ti->pack.unit_bytes, most = PORTION / bytes; /* of a block; blocks */
    uint8_t made[PORTION];
    while (size > 0) {
        const uint64_t first = from / bytes, end = (from + size - 1) / bytes + 1;
        const uint32_t n = end - first < most ? (uint32_t)(end - first) : most;
        pack_units(ti, blocks + first * ti->bytes, n, made);
        out = copy_wanted(made, first * bytes, (uint64_t)n * bytes, &from, &size, out);
    }
}

void
dop_pack_groups(dop_type t, const uint8_t *blocks, uint64_t n_blocks, uint64_t from, uint64_t size, uint8_t *out)
{
    const dop_type_info *ti = dop_type_of(t);
    const uint32_t bytes = ti->pack.group_bytes, each = DOP_GROUP_UNITS / (ti->block / UNIT);
    uint8_t made[PORTION];
    while (size > 0) {
        const uint64_t first = from / bytes, end = (from + size - 1) / bytes + 1, most = PORTION / bytes;
        const uint64_t n = end - first < most ? end - first : most;
        memset(made, 0, (size_t)(n * bytes));
        for (uint64_t g = 0, b = first * each; g < n; g++, b += each)
            pack_group(ti, blocks + b * ti->bytes, n_blocks - b < each ? (uint32_t)(n_blocks - b) : each, 0,
                       made + g * bytes);
        out = copy_wanted(made, first * bytes, n * bytes, &from, &size, out);
    }
}
