#include "base/storage/packing.h"

#include <string.h>

enum { UNIT = DOP_UNIT_VALUES, MAX_BLOCK = 256 };

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

/* Packs the eight values in the bytes of x, of up to four bits each, for words as quad_word() and quad_shift() have them: values 8e .. 8e + 7
 * of a unit. */
static inline uint32_t
lanes(uint64_t x, uint32_t bits, uint32_t e)
{
    x |= x >> 12; /* byte i: values i and i + 2 */
    const uint32_t first = (uint32_t)((x & 255) | (x & 0xff00) << 8);
    const uint32_t second = (uint32_t)((x >> 32 & 255) | (x >> 32 & 0xff00) << 8);
    return (first | second << (quad_shift(bits, 1))) << quad_shift(bits, 2 * e);
}

/* A unit of bytes: the words of lanes() of eight bits. */
static inline void
put_bytes(const uint8_t *q, uint8_t *out)
{
    for (uint32_t i = 0; i < UNIT; i += 8) {
        const uint64_t x = eight_at(q + i);
        put_eight(out + i, (x & 0xff0000ffff0000ff) | (x & 0x0000ff000000ff00) << 8 | (x >> 8 & 0x0000ff000000ff00));
    }
}

static inline void
put_lanes_of(const uint8_t *q, uint32_t bits, uint8_t *out)
{
    uint32_t words[4] = {0};
    for (uint32_t e = 0; e < UNIT / 8; e++)
        words[quad_word(bits, 2 * e)] |= lanes(eight_at(q + 8 * (size_t)e), bits, e);
    for (uint32_t w = 0; w < bits; w++)
        put_word(out + (size_t)w * 4, words[w]);
}

/* Packs n units, whose places in `out` are `step` bytes apart.  Each width has a loop of its own, in which it is a constant. */
static void
put_lanes(const uint8_t *q, uint32_t bits, uint32_t n, uint8_t *out, uint32_t step)
{
    const uint8_t *end = q + (size_t)n * UNIT;
    switch (bits) {
    case 1:
        for (; q < end; q += UNIT, out += step)
            put_lanes_of(q, 1, out);
        break;
    case 2:
        for (; q < end; q += UNIT, out += step)
            put_lanes_of(q, 2, out);
        break;
    case 4:
        for (; q < end; q += UNIT, out += step)
            put_lanes_of(q, 4, out);
        break;
    default:
        for (; q < end; q += UNIT, out += step)
            put_bytes(q, out);
        break;
    }
}

static void
get_lanes(const uint8_t *in, uint32_t bits, uint8_t *q)
{
    const uint32_t mask = (1u << bits) - 1, second = bits == 8 ? 8 : 4;
    for (uint32_t j = 0; j < UNIT / 4; j++)
        from_lanes(word_at(in + (size_t)quad_word(bits, j) * 4) >> quad_shift(bits, j), mask, second, q + 4 * j);
}

/* --- values in blocks --------------------------------------------------------------------------------------------------- */

/* Eight values that follow each other in 8 * bits bits, one in each byte. */
static inline uint64_t
spread(uint64_t x, uint32_t bits)
{
    const uint64_t mask = (1u << bits) - 1;
    x = (x | x << (32 - 4 * bits)) & ((1u << 4 * bits) - 1) * 0x0000000100000001u;
    x = (x | x << (16 - 2 * bits)) & ((1u << 2 * bits) - 1) * 0x0001000100010001u;
    return (x | x << (8 - bits)) & mask * 0x0101010101010101u;
}

/* n values of 1, 2 or 4 bits from the bytes of a block. */
static inline void
get_values(const uint8_t *b, uint32_t bits, uint32_t width, uint32_t n, uint8_t *q)
{
    const uint64_t mask = ((1u << bits) - 1) * 0x0101010101010101u;
    for (uint32_t i = 0; i < n && width > 1; b += width)
        for (uint32_t shift = 0; shift < 8; shift += bits)
            for (uint32_t w = 0; w < width; w += 8, i += 8)
                put_eight(q + i, eight_at(b + w) >> shift & mask);
    for (uint32_t i = 0; i < n && width == 1; i += 8, b += bits) {
        uint64_t x = b[0];
        for (uint32_t k = 1; k < bits; k++)
            x |= (uint64_t)b[k] << 8 * k;
        put_eight(q + i, spread(x, bits));
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
    /* Constant arguments, so that compilers unroll the loops. */
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
    else if (f->kind != DOP_FIELD_BYTES)
        get_values(b, f->size, f->width, n, q);
    for (uint32_t i = 0; i < n && f->kind == DOP_FIELD_E2M1; i += 8)
        put_eight(q + i, e2m1_codes(eight_at(q + i)));
    for (uint32_t i = 0; i < n && f->kind == DOP_FIELD_BYTES; i += 8)
        put_eight(q + i, eight_at(b + i) ^ 0x8080808080808080u);
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

/* Is the field in plane 0? */
static bool
in_units(const dop_block_field *f)
{
    return f->kind == DOP_FIELD_UNIT || (f->kind >= DOP_FIELD_VALUES && f->kind != DOP_FIELD_BITS &&
                                         f->kind != DOP_FIELD_SIX && f->kind != DOP_FIELD_THREE);
}

static void
put_units(const dop_type_info *ti, const dop_block_field *f, const uint8_t *block, uint8_t *unit0)
{
    const uint32_t units = ti->block / UNIT, step = ti->pack.unit_bytes;
    uint8_t q[MAX_BLOCK], *out = unit0 + f->to;
    if (f->kind == DOP_FIELD_UNIT) {
        for (uint32_t u = 0; u < units; u++)
            memcpy(out + u * step, block + f->from + u * f->size, f->size);
        return;
    }
    get_integers(f, block, ti->block, q);
    put_lanes(q, f->size, units, out, step);
}

static void
put_group(const dop_type_info *ti, const dop_block_field *f, const uint8_t *block, uint32_t k, uint8_t *group0)
{
    const uint32_t units = ti->block / UNIT;
    uint8_t q[MAX_BLOCK], *each = group0 + f->to + k * f->step, *once = group0 + f->to + k / units * f->step;
    switch (f->kind) {
    case DOP_FIELD_ONCE:
        memcpy(once, block + f->from, f->size);
        break;
    case DOP_FIELD_SIX:
        put_six(block + f->from, once);
        break;
    case DOP_FIELD_EACH:
        for (uint32_t u = 0; u < units; u++)
            memcpy(each + u * f->step, block + f->from + u * f->size, f->size);
        break;
    case DOP_FIELD_THREE:
        for (uint32_t s = 0; s < 2 * units; s++)
            each[s / 2 * f->step + s % 2] = three_of(block + f->from, s);
        break;
    default:
        get_integers(f, block, ti->block, q);
        put_lanes(q, f->size, units, each, f->step);
        break;
    }
}

void
dop_pack_block(dop_type t, const uint8_t *block, uint32_t k, uint8_t *units, uint8_t *group)
{
    const dop_type_info *ti = dop_type_of(t);
    for (const dop_block_field *f = ti->fields; f->kind != DOP_FIELD_NONE; f++)
        if (units && in_units(f))
            put_units(ti, f, block, units);
        else if (group && !in_units(f))
            put_group(ti, f, block, k, group);
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
        for (uint32_t i = 0; i < n; i++)
            dop_pack_block(t, blocks + (first + i) * ti->bytes, 0, made + (size_t)i * bytes, NULL);
        out = copy_wanted(made, first * bytes, (uint64_t)n * bytes, &from, &size, out);
    }
}

void
dop_pack_groups(dop_type t, const uint8_t *blocks, uint64_t n_blocks, uint64_t from, uint64_t size, uint8_t *out)
{
    const dop_type_info *ti = dop_type_of(t);
    const uint32_t bytes = ti->pack.group_bytes, units = ti->block / UNIT, each = DOP_GROUP_UNITS / units;
    uint8_t made[PORTION];
    while (size > 0) {
        const uint64_t first = from / bytes, end = (from + size - 1) / bytes + 1, most = PORTION / bytes;
        const uint64_t n = end - first < most ? end - first : most, last = (first + n) * each;
        memset(made, 0, (size_t)(n * bytes));
        for (uint64_t b = first * each; b < last && b < n_blocks; b++)
            dop_pack_block(t, blocks + b * ti->bytes, (uint32_t)(b % each * units), NULL,
                           made + (b / each - first) * bytes);
        out = copy_wanted(made, first * bytes, n * bytes, &from, &size, out);
    }
}
