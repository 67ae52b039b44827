#include "base/storage/packing.h"

#include <string.h>

enum {
    UNIT = DOP_UNIT_VALUES,
    MAX_BLOCK = 256,
    BATCH = 64 /* units per batch: whole blocks, fits the L1 cache */
};

/* Little-endian loads and stores; hosts are little-endian, as plans are. */
static inline uint32_t
load_word(const uint8_t *p)
{
    uint32_t word;
    memcpy(&word, p, sizeof word);
    return word;
}

static inline void
store_word(uint8_t *p, uint32_t word)
{
    memcpy(p, &word, sizeof word);
}

static inline uint64_t
load_eight_bytes(const uint8_t *p)
{
    uint64_t bytes;
    memcpy(&bytes, p, sizeof bytes);
    return bytes;
}

static inline void
store_eight_bytes(uint8_t *p, uint64_t bytes)
{
    memcpy(p, &bytes, sizeof bytes);
}

/* Swaps the bits of x in `mask` with the bits `shift` above them. */
static inline uint64_t
exchange_bits(uint64_t x, uint64_t mask, uint32_t shift)
{
    const uint64_t both = (x ^ x >> shift) & mask;
    return x ^ both ^ both << shift;
}

/* --- values in lanes of words ------------------------------------------------------------------------------------------ */

/* Unpacks four values from the lanes of a word, whose other bits are ignored, to bytes. */
static inline void
unpack_lanes(uint32_t w, uint32_t mask, uint32_t second, uint8_t *q)
{
    q[0] = (uint8_t)(w & mask);
    q[1] = (uint8_t)(w >> 16 & mask);
    q[2] = (uint8_t)(w >> second & mask);
    q[3] = (uint8_t)(w >> (16 + second) & mask);
}

/* Position of quad j (values 4j .. 4j + 3 of a unit) of `bits`-bit values: index of its word, and its first bit in that word. */
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

/* Values of several blocks are packed in two passes over a buffer, each a loop that compilers can vectorize.  The first expands values
 * to bytes (x[e] holds values 8e .. 8e + 7 of a unit); the second packs these into lanes of words. */

/* Packs two quads of 4-bit values into one word. */
static inline uint32_t
pack_two_quads(uint64_t x)
{
    x = (x | x >> 12) & 0x0000ffff0000ffff; /* bytes 0, 1, 4, 5: values i and i + 2 */
    x = (x | x << 8) & 0x00ff00ff00ff00ff;
    return (uint32_t)(x | x >> 24);
}

/* Packs two quads of 1-bit or 2-bit values, at the position of the first two quads of a word. */
static inline uint32_t
pack_first_quads(uint64_t x, uint32_t bits)
{
    x |= x >> 12;
    x |= x >> (32 - bits);
    return (uint32_t)((x & 0xff) | (x & 0xff00) << 8);
}

/* Packs a unit of signed bytes. */
static inline void
pack_signed_bytes(const uint8_t *restrict q, uint8_t *restrict out)
{
    for (uint32_t i = 0; i < UNIT; i += 8) {
        const uint64_t x = load_eight_bytes(q + i) ^ 0x8080808080808080u;
        store_eight_bytes(out + i, exchange_bits(x, 0x0000ff000000ff00, 8));
    }
}

/* Packs values of 1, 2 or 4 bits of whole units, `bits` words per unit.  Words made of several x take two loops, so that the first one
 * vectorizes. */
static void
pack_lanes(const uint64_t *restrict x, uint32_t bits, uint32_t units, uint32_t *restrict words)
{
    const uint32_t n = units * (UNIT / 8);
    for (uint32_t i = 0; i < n && bits == 4; i++)
        words[i] = pack_two_quads(x[i]);
    for (uint32_t i = 0; i < n && bits == 2; i++)
        words[i] = pack_first_quads(x[i], 2);
    for (uint32_t i = 0; i < n && bits == 1; i++)
        words[i] = pack_first_quads(x[i], 1);
    for (uint32_t i = 0; i < n / 2 && bits == 2; i++)
        words[i] = words[2 * i] | words[2 * i + 1] << 8;
    for (uint32_t i = 0; i < n / 4 && bits == 1; i++)
        words[i] = words[4 * i] | words[4 * i + 1] << 2 | words[4 * i + 2] << 8 | words[4 * i + 3] << 10;
}

static void
unpack_unit_lanes(const uint8_t *in, uint32_t bits, uint8_t *q)
{
    const uint32_t mask = (1u << bits) - 1, second = bits == 8 ? 8 : 4;
    for (uint32_t j = 0; j < UNIT / 4; j++)
        unpack_lanes(load_word(in + (size_t)quad_word(bits, j) * 4) >> quad_shift(bits, j), mask, second, q + 4 * j);
}

/* --- values in blocks --------------------------------------------------------------------------------------------------- */

/* Expands values of 1, 2 or 4 bits of n blocks, `stride` bytes apart, to one per byte. */
static inline void
expand_values(const uint8_t *restrict b, uint32_t stride, uint32_t n, uint32_t bits, uint32_t width, uint32_t per_block,
              uint64_t *restrict x)
{
    const uint64_t mask = ((1u << bits) - 1) * 0x0101010101010101u;
    const uint32_t bytes = per_block * bits / 8;
    for (; n > 0; n--, b += stride)
        for (uint32_t at = 0; at < bytes; at += width)
            for (uint32_t shift = 0; shift < 8; shift += bits)
                for (uint32_t w = 0; w < width; w += 8)
                    *x++ = load_eight_bytes(b + at + w) >> shift & mask;
}

/* Packs consecutive 1-bit or 2-bit values of blocks into lanes, by bit swaps. */
static void
pack_bits_in_order(const uint8_t *restrict b, uint32_t stride, uint32_t n, uint32_t bits, uint32_t units,
                   uint8_t *restrict out, uint32_t step)
{
    for (; n > 0; n--, b += stride)
        for (uint32_t u = 0; u < units; u++, out += step)
            if (bits == 1) {
                uint64_t x = exchange_bits(load_word(b + (size_t)u * 4), 0xaaaa, 15);
                x = exchange_bits(exchange_bits(x, 0x00aa00aa, 7), 0x0c0c0c0c, 2);
                store_word(out, (uint32_t)exchange_bits(x, 0x22222222, 1));
            } else {
                const uint64_t x = exchange_bits(load_eight_bytes(b + (size_t)u * 8), 0x0000cccc0000cccc, 14);
                store_eight_bytes(out, exchange_bits(x, 0x00cc00cc00cc00cc, 6));
            }
}

static void
store_packed_values(const uint8_t *q, uint32_t bits, uint32_t width, uint32_t n, uint8_t *b)
{
    for (uint32_t i = 0; i < n; b += width)
        for (uint32_t shift = 0; shift < 8; shift += bits)
            for (uint32_t w = 0; w < width; w++)
                b[w] = (uint8_t)(b[w] | q[i++] << shift);
}

/* Recoding of the 16 values of e2m1, which kernels decode without a table.  Twice the value is code - 1, minus another 13 if at least
 * two of these hold: bit 0 is clear, bit 1 is set, bit 3 is set.  number_of is the inverse of e2m1_codes(). */
static const uint8_t number_of[16] = {9, 8, 15, 2, 3, 4, 14, 5, 13, 6, 12, 11, 10, 7, 0, 1};

/* Recodes the eight e2m1 values in the bytes of x, with each code bit as an XOR of products of bits. */
static inline uint64_t
e2m1_codes(uint64_t x)
{
    const uint64_t ones = 0x0101010101010101u, a = x & ones, b = x >> 1 & ones, c = x >> 2 & ones, d = x >> 3 & ones;
    const uint64_t ab = a & b, ac = a & c, bit0 = a ^ b ^ c ^ ac ^ (b & c) ^ d, bit1 = ones ^ ab ^ c ^ ac ^ d;
    const uint64_t bit2 = ones ^ b ^ ab ^ d, bit3 = ones ^ b ^ c ^ d;
    return bit0 | bit1 << 1 | bit2 << 2 | bit3 << 3;
}

/* Layout of tq1_0.  32 bytes hold values w, 32 + w, .. 128 + w as base-3 digits; 16 bytes hold values 160 + w, .. 224 + w; 4 bytes hold
 * values 240 + w, .. 252 + w.  A byte is the number below 3^5 divided by 3^5, as an 8-bit fraction rounded up.  Multiplying the byte by
 * 3 therefore yields the highest digit above bit 7. */
static const struct {
    uint8_t bytes, digits, first;
} trits[] = {{32, 5, 0}, {16, 5, 160}, {4, 4, 240}};

static inline void
expand_base3_digits(const uint8_t *restrict b, uint32_t bytes, uint32_t digits, uint8_t *restrict q)
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
expand_trits(const uint8_t *b, uint32_t stride, uint32_t n, uint64_t *x)
{
    for (uint8_t *q = (uint8_t *)x; n > 0; n--, b += stride, q += MAX_BLOCK) {
        expand_base3_digits(b, 32, 5, q); /* as in trits[] */
        expand_base3_digits(b + 32, 16, 5, q + 160);
        expand_base3_digits(b + 48, 4, 4, q + 240);
    }
}

static void
store_trits(const uint8_t *q, uint8_t *b)
{
    for (size_t g = 0; g < sizeof trits / sizeof *trits; b += trits[g].bytes, g++)
        for (uint32_t w = 0; w < trits[g].bytes; w++) {
            uint32_t x = 0;
            for (uint32_t d = 0; d < 5; d++)
                x = 3 * x + (d < trits[g].digits ? q[trits[g].first + d * trits[g].bytes + w] : 0);
            b[w] = (uint8_t)((x * 256 + 242) / 243);
        }
}

/* Expands the integers of n blocks to one per byte. */
static void
expand_integers(const dop_type_info *ti, const dop_block_field *f, const uint8_t *b, uint32_t n, uint64_t *x)
{
    const uint32_t stride = ti->bytes, per_block = ti->block;
    /* Constant arguments let compilers unroll the loops. */
    if (f->kind == DOP_FIELD_TRITS)
        expand_trits(b, stride, n, x);
    else if (f->size == 4 && f->width == 16 && per_block == 32)
        expand_values(b, stride, n, 4, 16, 32, x);
    else if (f->size == 4 && f->width == 16)
        expand_values(b, stride, n, 4, 16, per_block, x);
    else if (f->size == 4 && f->width == 32)
        expand_values(b, stride, n, 4, 32, 256, x);
    else if (f->size == 4 && f->width == 64)
        expand_values(b, stride, n, 4, 64, 256, x);
    else if (f->size == 2 && f->width == 32)
        expand_values(b, stride, n, 2, 32, 256, x);
    else if (f->size == 1 && f->width == 32)
        expand_values(b, stride, n, 1, 32, 256, x);
    else
        expand_values(b, stride, n, f->size, f->width, per_block, x);
    for (uint32_t i = 0; i < n * per_block / 8 && f->kind == DOP_FIELD_E2M1; i++)
        x[i] = e2m1_codes(x[i]);
}

static void
store_integers(const dop_block_field *f, uint8_t *q, uint32_t n, uint8_t *b)
{
    for (uint32_t i = 0; i < n && f->kind == DOP_FIELD_E2M1; i++)
        q[i] = number_of[q[i]];
    for (uint32_t i = 0; i < n && f->kind == DOP_FIELD_BYTES; i++)
        q[i] ^= 128;
    if (f->kind == DOP_FIELD_TRITS)
        store_trits(q, b + f->from);
    else
        store_packed_values(q, f->size, f->width, n, b + f->from);
}

/* --- scales of k formats ------------------------------------------------------------------------------------------------ */

/* Packs the low nibbles of eight bytes. */
static inline uint32_t
pack_low_nibbles(uint64_t x)
{
    x &= 0x0f0f0f0f0f0f0f0f;
    x = (x | x >> 4) & 0x00ff00ff00ff00ff;
    x = (x | x >> 8) & 0x0000ffff0000ffff;
    return (uint32_t)(x | x >> 16);
}

/* Packs the 12 bytes of scales and minimums of q4_k and q5_k (interp_decode.c) into three words with one nibble per unit.  The words
 * hold the low bits of scales, the low bits of minimums, and the upper two bits of both. */
static inline void
pack_six_bit_scales(const uint8_t *s, uint8_t *out)
{
    const uint32_t a = load_word(s), b = load_word(s + 4), c = load_word(s + 8);
    const uint64_t scales = (a & 0x3f3f3f3f) | (uint64_t)((c & 0x0f0f0f0f) | (a >> 2 & 0x30303030)) << 32;
    const uint64_t mins = (b & 0x3f3f3f3f) | (uint64_t)((c >> 4 & 0x0f0f0f0f) | (b >> 2 & 0x30303030)) << 32;
    store_word(out, pack_low_nibbles(scales));
    store_word(out + 4, pack_low_nibbles(mins));
    store_word(out + 8, pack_low_nibbles((scales >> 4 & 0x0303030303030303) | (mins >> 2 & 0x0c0c0c0c0c0c0c0c)));
}

static void
unpack_six_bit_scales(const uint8_t *in, uint8_t *s)
{
    uint32_t scales = load_word(in), mins = load_word(in + 4), upper = load_word(in + 8);
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

/* q3_k: a scale is 6 bits minus 32. */
static inline void
pack_q3k_scales(const uint8_t *s, uint8_t *out, uint32_t step)
{
    const uint64_t low = load_eight_bytes(s), upper = load_word(s + 8), mask = 0x3030303030303030;
    const uint64_t first = (low & 0x0f0f0f0f0f0f0f0f) | ((upper << 4 | upper << 34) & mask);
    const uint64_t second = (low >> 4 & 0x0f0f0f0f0f0f0f0f) | ((upper | upper << 30) & mask);
    const uint64_t bits = 0x8080808080808080, less = 0x2020202020202020;
    const uint64_t scales[2] = {((first | bits) - less) ^ bits, ((second | bits) - less) ^ bits};
    for (uint32_t u = 0; u < 8; u++)
        memcpy(out + u * step, (const uint8_t *)scales + (size_t)u * 2, 2);
}

static void
store_q3k_scale(uint8_t *scales, uint32_t s, uint8_t value)
{
    uint32_t v = (value + 32u) & 63;
    scales[s % 8] = (uint8_t)(scales[s % 8] | (v & 15) << (s < 8 ? 0 : 4));
    scales[8 + s % 4] = (uint8_t)(scales[8 + s % 4] | v >> 4 << (2 * (s / 4)));
}

/* --- blocks ------------------------------------------------------------------------------------------------------------- */

/* True if the field is in plane 0. */
static bool
is_unit_field(const dop_block_field *f)
{
    return f->kind == DOP_FIELD_UNIT || (f->kind >= DOP_FIELD_VALUES && f->kind != DOP_FIELD_BITS &&
                                         f->kind != DOP_FIELD_SIX && f->kind != DOP_FIELD_THREE);
}

/* Copies `pieces` consecutive pieces of each of n blocks, `stride` bytes apart, to places `step` bytes apart. */
static inline void
copy_sized_pieces(const uint8_t *restrict b, uint32_t stride, uint32_t n, uint32_t pieces, uint32_t size,
                  uint8_t *restrict to, uint32_t step)
{
    for (; n > 0; n--, b += stride)
        for (uint32_t i = 0; i < pieces; i++, to += step)
            memcpy(to, b + (size_t)i * size, size);
}

static void
copy_pieces(const uint8_t *b, uint32_t stride, uint32_t n, uint32_t pieces, uint32_t size, uint8_t *to, uint32_t step)
{
    switch (size) { /* constant sizes compile to inline copies */
    case 1:
        copy_sized_pieces(b, stride, n, pieces, 1, to, step);
        break;
    case 2:
        copy_sized_pieces(b, stride, n, pieces, 2, to, step);
        break;
    case 4:
        copy_sized_pieces(b, stride, n, pieces, 4, to, step);
        break;
    case 8:
        copy_sized_pieces(b, stride, n, pieces, 8, to, step);
        break;
    case 32:
        copy_sized_pieces(b, stride, n, pieces, 32, to, step);
        break;
    default:
        copy_sized_pieces(b, stride, n, pieces, size, to, step);
        break;
    }
}

static void
pack_integers(const dop_type_info *ti, const dop_block_field *f, const uint8_t *b, uint32_t n, uint8_t *to,
              uint32_t step)
{
    const uint32_t units = ti->block / UNIT, most = BATCH / units;
    uint64_t x[BATCH * UNIT / 8];
    uint32_t words[BATCH * 4];
    for (uint32_t m; n > 0; n -= m, b += (size_t)m * ti->bytes) {
        m = n < most ? n : most;
        expand_integers(ti, f, b, m, x);
        pack_lanes(x, f->size, m * units, words);
        if (step == 4u * f->size)
            memcpy(to, words, (size_t)m * units * step);
        else
            copy_pieces((const uint8_t *)words, 0, 1, m * units, 4u * f->size, to, step);
        to += (size_t)m * units * step;
    }
}

/* Packs a field of n blocks to places of a plane, `step` bytes apart. */
static void
pack_field(const dop_type_info *ti, const dop_block_field *f, const uint8_t *blocks, uint32_t n, uint8_t *to,
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
            pack_six_bit_scales(b + (size_t)i * stride, to + (size_t)i * step);
        break;
    case DOP_FIELD_THREE:
        for (uint32_t i = 0; i < n; i++)
            pack_q3k_scales(b + (size_t)i * stride, to + (size_t)i * units * step, step);
        break;
    case DOP_FIELD_BYTES:
        for (uint32_t i = 0; i < n; i++)
            pack_signed_bytes(b + (size_t)i * stride, to + (size_t)i * step);
        break;
    default:
        if (f->width == 1)
            pack_bits_in_order(b, stride, n, f->size, units, to, step);
        else
            pack_integers(ti, f, b, n, to, step);
        break;
    }
}

static void
pack_units(const dop_type_info *ti, const uint8_t *blocks, uint32_t n, uint8_t *units)
{
    for (const dop_block_field *f = ti->fields; f->kind != DOP_FIELD_NONE; f++)
        if (is_unit_field(f))
            pack_field(ti, f, blocks, n, units + f->to, ti->pack.unit_bytes);
}

/* Packs n blocks of one group; the first block begins with unit k. */
static void
pack_group(const dop_type_info *ti, const uint8_t *blocks, uint32_t n, uint32_t k, uint8_t *group)
{
    const uint32_t units = ti->block / UNIT;
    for (const dop_block_field *f = ti->fields; f->kind != DOP_FIELD_NONE; f++)
        if (!is_unit_field(f)) {
            const bool once = f->kind == DOP_FIELD_ONCE || f->kind == DOP_FIELD_SIX;
            pack_field(ti, f, blocks, n, group + f->to + (once ? k / units : k) * f->step, f->step);
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
            unpack_six_bit_scales(group + k / units * f->step, block + f->from);
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
                unpack_unit_lanes(unit, f->size, q + (size_t)u * UNIT);
                break;
            case DOP_FIELD_BITS:
                unpack_unit_lanes(each, f->size, q + (size_t)u * UNIT);
                break;
            case DOP_FIELD_THREE:
                store_q3k_scale(block + f->from, 2 * u, each[0]);
                store_q3k_scale(block + f->from, 2 * u + 1, each[1]);
                break;
            default:
                break;
            }
        }
        if (f->kind >= DOP_FIELD_VALUES && f->kind != DOP_FIELD_SIX && f->kind != DOP_FIELD_THREE)
            store_integers(f, q, ti->block, block);
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

/* Size of the packing buffer in bytes; it holds several blocks or groups of every type. */
enum { PORTION = 4096 };

/* Copies to `out` the wanted part of `made`, which holds bytes at .. at + n - 1 of a plane.  The wanted bytes begin at *io_from;
 * *io_size of them remain. */
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
    /* Bytes per block; blocks per buffer. */
    const uint32_t bytes = ti->block / UNIT * ti->pack.unit_bytes, most = PORTION / bytes;
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
