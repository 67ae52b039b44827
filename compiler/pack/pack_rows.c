#include "compiler/pack/pack_rows.h"

#include "base/encoding/little_endian.h"
#include "compiler/pack/pack_codes.h"
#include "ir/interp/interp.h"

#include <math.h>
#include <string.h>

enum { WORD = 8 /* 4-bit integers per word */, MAX_BLOCK_BYTES = 132 /* largest block: f8_128 */ };

/* Returns the bit offset of output o in a word with eight outputs. */
static uint32_t
find_word_shift(const dop_int4_parts *p, uint64_t o)
{
    static const uint8_t interleaved[WORD] = {0, 16, 4, 20, 8, 24, 12, 28};
    return p->by_output ? interleaved[o % WORD] : 4 * (uint32_t)(o % WORD);
}

static uint16_t
load_int4_scale(const dop_int4_parts *p, uint64_t i)
{
    float v;
    dop_decode_row(p->scale_type, p->scales + i * dop_type_of(p->scale_type)->bytes, 1, &v);
    return dop_f32_to_f16(v);
}

static void
put_u16(uint8_t *p, uint16_t v)
{
    p[0] = (uint8_t)(v & 255);
    p[1] = (uint8_t)(v >> 8);
}

/* Sets integer i of a block of nibbles. Each 16 bytes hold 32 integers: the first 16 in the low nibbles, the others in
 * the high nibbles. */
static void
put_integer(uint8_t *block, uint32_t i, uint32_t q)
{
    uint8_t *at = &block[i / 32 * 16 + i % 16];
    *at = (uint8_t)(*at | (q & 15) << (i % 32 < 16 ? 0 : 4));
}

/* Returns integer i of an array of `bits`-bit integers, packed without gaps into words that are `stride` words apart. */
static uint32_t
load_packed_bits(const uint8_t *words, uint64_t stride, uint32_t bits, uint64_t i)
{
    const uint64_t bit = i * bits;
    uint32_t v = dop_word_at(words, bit / 32 * stride) >> bit % 32;
    if (bit % 32 + bits > 32)
        v |= dop_word_at(words, (bit / 32 + 1) * stride) << (32 - bit % 32);
    return v & ((1u << bits) - 1);
}

static uint32_t
load_int4_zero(const dop_int4_parts *p, uint64_t group, uint64_t o)
{
    const uint32_t mask = (1u << p->bits) - 1;
    return p->zeros
               ? (load_packed_bits(p->zeros + group * (p->outputs * p->bits / 32) * 4, 1, p->bits, o) + p->zero_add) &
                     mask
               : 1u << (p->bits - 1);
}

/* Writes inputs from .. to - 1 of output o, for matrices whose words hold consecutive inputs, with any number of bits
 * and any group order. The output is int4 or q8_0 blocks, or f16 values. */
static void
put_any_blocks(const dop_weight *w, uint64_t o, uint32_t from, uint32_t to, uint8_t *at)
{
    const dop_int4_parts *p = w->parts;
    const dop_type_info *ti = dop_type_of(w->type);
    const uint8_t *words = p->words + o * 4;
    for (uint32_t k = from; k < to; k += ti->block, at += ti->bytes) {
        const uint32_t n = to - k < ti->block ? to - k : ti->block;
        const uint64_t group = p->order ? dop_word_at(p->order, k) : k / p->group;
        const uint16_t scale = load_int4_scale(p, group * p->outputs + o);
        const uint32_t zero = load_int4_zero(p, group, o);
        if (w->type == DOP_TYPE_f16) {
            const float q = (float)load_packed_bits(words, p->outputs, p->bits, k) - (float)zero;
            put_u16(at, dop_f32_to_f16(dop_f16_to_f32(scale) * q));
            continue;
        }
        const bool bytes = w->type == DOP_TYPE_q8_0;
        put_u16(bytes ? at : at + ti->block / 2, scale);
        if (!bytes)
            put_u16(at + ti->block / 2 + 2, dop_f32_to_f16((float)zero));
        for (uint32_t i = 0; i < n; i++) {
            const uint32_t q = load_packed_bits(words, p->outputs, p->bits, k + i);
            if (bytes)
                at[2 + i] = (uint8_t)(q ^ 128);
            else
                put_integer(at, i, q);
        }
    }
}

/* Writes the scale and zero point of output o, which come after the integers of the block that begins with input k. */
static void
put_scale(const dop_int4_parts *p, uint32_t k, uint64_t o, uint8_t *at)
{
    uint64_t group = k / p->group;
    uint32_t zero = 8;
    if (p->zeros)
        zero =
            ((dop_word_at(p->zeros, group * (p->outputs / WORD) + o / WORD) >> find_word_shift(p, o)) + p->zero_add) &
            15;
    put_u16(at, load_int4_scale(p, group * p->outputs + o));
    put_u16(at + 2, dop_f32_to_f16((float)zero));
}

/* Writes input k of outputs o .. o + n - 1 as integer i of their blocks, which are `stride` bytes apart. */
static void
put_outputs(const dop_int4_parts *p, uint32_t k, uint64_t o, uint32_t n, uint32_t i, uint8_t *block, uint64_t stride)
{
    uint64_t row = k * (p->outputs / WORD);
    uint32_t word = dop_word_at(p->words, row + o / WORD);
    for (uint32_t r = 0; r < n; r++, o++) {
        if (r > 0 && o % WORD == 0)
            word = dop_word_at(p->words, row + o / WORD);
        put_integer(block + r * stride, i, word >> find_word_shift(p, o));
    }
}

/* Writes blocks of mxfp4. A byte of a block holds values i and i + 16; a byte of the file holds two neighbouring
 * values. */
static void
put_microscaling(const dop_weight *w, uint32_t row, uint32_t from, uint32_t to, uint8_t *at)
{
    const dop_int4_parts *p = w->parts;
    const uint64_t output = p->first + (uint64_t)row * (p->step ? p->step : 1), groups = w->cols / 32;
    for (uint32_t k = from; k < to; k += 32, at += 17) {
        const uint8_t *bytes = p->words + (output * groups + k / 32) * 16;
        at[0] = p->scales[output * groups + k / 32];
        for (uint32_t i = 0; i < 16; i++) {
            const uint32_t low = bytes[i / 2] >> 4 * (i % 2), high = bytes[8 + i / 2] >> 4 * (i % 2);
            at[1 + i] = (uint8_t)((low & 15) | (high & 15) << 4);
        }
    }
}

/* Writes the blocks with inputs from .. to - 1 of n rows starting at `first`. `to` is the number of inputs or the end
 * of a block. The rows at `at` are `stride` bytes apart and must be zero. */
static void
put_blocks(const dop_weight *w, uint32_t first, uint32_t n, uint32_t from, uint32_t to, uint8_t *at, uint64_t stride)
{
    const dop_int4_parts *p = w->parts;
    const dop_type_info *ti = dop_type_of(w->type);
    const uint64_t o = p->first + first;
    for (uint32_t r = 0; p->codes && r < n; r++)
        dop_code_blocks(w, first + r, from, to, at + r * stride);
    for (uint32_t r = 0; p->microscaling && r < n; r++)
        put_microscaling(w, first + r, from, to, at + r * stride);
    for (uint32_t r = 0; p->bits && r < n; r++)
        put_any_blocks(w, o + r, from, to, at + r * stride);
    if (p->codes || p->microscaling || p->bits)
        return;
    for (uint32_t k = from; k < to; k += ti->block, at += ti->bytes) {
        const uint32_t inputs = to - k < ti->block ? to - k : ti->block;
        for (uint32_t r = 0; r < n; r++)
            put_scale(p, k, o + r, at + r * stride + ti->block / 2);
        for (uint32_t i = 0; i < inputs && p->by_output; i++)
            put_outputs(p, k + i, o, n, i, at, stride);
        for (uint32_t i = 0; i < inputs && !p->by_output; i++)
            for (uint32_t r = 0; r < n; r++)
                put_integer(at + r * stride, i,
                            dop_word_at(p->words, (k + i) / WORD * p->outputs + o + r) >> 4 * ((k + i) % WORD));
    }
}

void
dop_int4_rows(const dop_weight *w, uint32_t first, uint32_t n, uint8_t *blocks)
{
    uint64_t stride = 0;
    (void)dop_type_row_bytes(w->type, w->cols, &stride);
    memset(blocks, 0, n * stride);
    put_blocks(w, first, n, 0, w->cols, blocks, stride);
}

float
dop_weight_factor(const dop_weight *w)
{
    float f = 1;
    if (w->factors)
        memcpy(&f, w->factors, sizeof f);
    return w->parts && w->parts->codes && w->parts->codes->kind == DOP_CODE_E2M1 ? w->parts->codes->factor : f;
}

static void
read_int4_row(const dop_weight *w, uint32_t row, float *out)
{
    const uint32_t block = dop_type_of(w->type)->block;
    for (uint32_t k = 0; k < w->cols; k += block) {
        const uint32_t to = w->cols - k < block ? w->cols : k + block;
        uint8_t bytes[MAX_BLOCK_BYTES] = {0};
        put_blocks(w, row, 1, k, to, bytes, 0);
        dop_decode_row(w->type, bytes, to - k, out + k);
    }
    const float factor = dop_weight_factor(w);
    for (uint32_t k = 0; factor != 1 && k < w->cols; k++)
        out[k] *= factor;
}

/* Reads a row as it is stored, without the changes of adapters. */
static void
read_stored_row(const dop_weight *w, uint32_t row, float *out)
{
    if (w->parts) {
        read_int4_row(w, row, out);
        return;
    }
    const uint8_t *src = dop_weight_at(w, row);
    if (w->col_stride == 0) {
        dop_decode_row(w->type, src, w->cols, out);
        const float factor = dop_weight_factor(w);
        for (uint32_t c = 0; factor != 1 && c < w->cols; c++)
            out[c] *= factor;
        return;
    }
    const uint32_t channels = w->taps ? w->cols / w->taps : w->cols;
    for (uint32_t c = 0; c < w->cols; c++) {
        const uint32_t at = w->taps ? c % channels * w->taps + c / channels : c;
        dop_decode_row(w->type, src + (uint64_t)at * w->col_stride, 1, &out[c]);
    }
}

/* Applies the changes of adapters to a row. */
static void
apply_row_changes(const dop_weight *w, uint32_t row, float *out)
{
    for (uint32_t i = 0; i < w->n_changes; i++) {
        const dop_weight_change *c = &w->changes[i];
        if (c->expert != w->expert || row < c->first || row - c->first >= c->n)
            continue;
        const size_t at = row - c->first;
        if (c->whole)
            memcpy(out, c->whole + at * w->cols, w->cols * sizeof *out);
        for (uint32_t r = 0; r < c->rank; r++) {
            const float by = c->scale * c->b[at * c->rank + r], *a = c->a + (size_t)r * w->cols;
            for (uint32_t k = 0; k < w->cols; k++)
                out[k] += by * a[k];
        }
        double square = 0;
        for (uint32_t k = 0; c->lengths && k < w->cols; k++)
            square += (double)out[k] * (double)out[k];
        const float by = c->lengths && square > 0 ? (float)((double)c->lengths[at] / sqrt(square)) : 1;
        for (uint32_t k = 0; c->lengths && k < w->cols; k++)
            out[k] *= by;
    }
}

void
dop_weight_row(const dop_weight *w, uint32_t row, float *out)
{
    read_stored_row(w, row, out);
    apply_row_changes(w, row, out);
}
