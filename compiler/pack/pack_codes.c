#include "compiler/pack/pack_codes.h"

#include "base/encoding/little_endian.h"
#include "ir/interp/interp.h"

#include <math.h>
#include <string.h>

/* Returns the index, within its row of tiles, of the tile that contains column `col`. */
static uint32_t
find_code_tile(const dop_code_parts *p, uint32_t col)
{
    if (!p->order)
        return col / p->tile_cols;
    return dop_word_at(p->order, col);
}

static float
load_tile_scale(const dop_code_parts *p, uint64_t row, uint32_t col)
{
    const uint64_t i = row / p->tile_rows * p->tiles + find_code_tile(p, col);
    float v;
    if (p->exponents)
        return ldexpf(1, p->scales[i] - 127);
    dop_decode_row(p->scale_type, p->scales + i * dop_type_of(p->scale_type)->bytes, 1, &v);
    return v;
}

/* Writes a value of type f16 or bf16. */
static void
put_float16_value(uint8_t *p, dop_type type, float v)
{
    const uint16_t h = type == DOP_TYPE_f16 ? dop_f32_to_f16(v) : dop_f32_to_bf16(v);
    p[0] = (uint8_t)(h & 255);
    p[1] = (uint8_t)(h >> 8);
}

static void
put_f16_half(uint8_t *p, float v)
{
    put_float16_value(p, DOP_TYPE_f16, v);
}

/* Returns nibble i of an array. The low nibble of a byte comes first. */
static uint32_t
get_nibble(const uint8_t *codes, uint32_t i)
{
    return codes[i / 2] >> (4 * (i % 2)) & 15;
}

/* Returns the zero point of a row's tile at column `col`. A word holds the zero points of eight tiles of a row
 * (zero_words), or of one tile in eight rows. */
static uint32_t
load_word_zero(const dop_code_parts *p, uint64_t row, uint32_t col)
{
    const uint32_t tile = find_code_tile(p, col);
    if (p->zero_words)
        return get_nibble(p->zeros + (row * p->zero_words + tile / 8) * 4, tile % 8);
    const uint8_t *word = p->zeros + (row / 8 * p->tiles + tile) * 4;
    return get_nibble(word, (uint32_t)(row % 8));
}

/* Returns the zero point that is subtracted from the code at column `col` of a row. */
static int
load_code_zero(const dop_code_parts *p, uint64_t row, uint32_t col)
{
    const int middle = p->kind == DOP_CODE_INT4 ? 8 : 0;
    if (p->zero_bytes)
        return middle + (int8_t)p->zero_bytes[row / p->tile_rows * p->tiles + find_code_tile(p, col)];
    return p->zeros ? (int)load_word_zero(p, row, col) : middle;
}

/* Returns the code of a column with DOP_CODE_INT4. */
static uint32_t
load_int4_code(const dop_code_parts *p, const uint8_t *codes, uint32_t col)
{
    return p->bytes ? (codes[col] + 8u) & 15 : get_nibble(codes, col);
}

/* Returns the value at column `col` of a row with e4m3 or integer codes. */
static float
decode_code_value(const dop_code_parts *p, const uint8_t *codes, uint64_t row, uint32_t col)
{
    const float scale = load_tile_scale(p, row, col) * p->factor;
    const int zero = load_code_zero(p, row, col);
    if (p->kind == DOP_CODE_E4M3)
        return scale * dop_e4m3_to_f32(codes[col]);
    if (p->kind == DOP_CODE_INT4)
        return scale * (float)((int)load_int4_code(p, codes, col) - zero);
    return scale * (float)((int8_t)(codes[col] ^ (p->biased ? 128 : 0)) - zero);
}

static float
load_typed_float(const uint8_t *p, dop_type type, uint64_t i)
{
    float v;
    dop_decode_row(type, p + i * dop_type_of(type)->bytes, 1, &v);
    return v;
}

/* Returns the group of value i, which is the index of its scale and zero point. */
static uint64_t
find_flat_group(const dop_flat_parts *f, uint64_t i)
{
    if (f->centred)
        return (i % f->columns / f->group * f->rows + i / f->columns) * f->step;
    return f->strided ? i % f->groups : i / f->group;
}

/* Returns the code at a position of a matrix in the tiled layout of PyTorch's int4 kernels (tinygemm,
 * _convert_weight_to_int4pack). Words are [row / 8, outer tile, lane, pair of inner tiles]. With l = lane % 4, a lane
 * holds columns 2l, 2l + 1, 2l + 8 and 2l + 9 of one row, in both tiles of the pair. Odd columns are in the upper half
 * of a word. */
static uint32_t
load_tiled_code(const dop_flat_parts *f, uint64_t row, uint64_t col)
{
    const uint64_t outer = col / 16 / f->inner_tiles, inner = col / 16 % f->inner_tiles, c = col % 16;
    const uint64_t lane = row % 8 * 4 + c % 8 / 2, pairs = f->inner_tiles / 2;
    const uint64_t word = ((row / 8 * f->outer_tiles + outer) * 32 + lane) * pairs + inner / 2;
    const uint64_t place = c % 2 * 4 + inner % 2 * 2 + c / 8;
    return f->codes[4 * word + place / 2] >> (4 * (place % 2)) & 15;
}

static uint32_t
load_flat_code(const dop_flat_parts *f, uint64_t i)
{
    if (f->outer_tiles)
        return load_tiled_code(f, i / f->columns, i % f->columns);
    if (f->signs)
        return (uint32_t)(f->codes[i / 2] >> (4 * (i % 2)) & 15) ^ 8;
    if (f->stream) {
        const uint64_t at = i * f->bits, shift = at % 8;
        const uint32_t low = f->codes[at / 8], high = shift + f->bits > 8 ? f->codes[at / 8 + 1] : 0;
        return (low | high << 8) >> shift & ((1u << f->bits) - 1);
    }
    if (f->bits == 8)
        return f->codes[i];
    if (f->levels)
        return f->codes[i / 2] >> (i % 2 ? 0 : 4) & 15;
    const uint64_t half = f->group * f->groups / 2;
    return i < half ? f->codes[i] >> 4 : f->codes[i - half] & 15;
}

/* Returns the offset that is added to code * scale in a group of a stream. */
static float
load_group_summand(const dop_flat_parts *f, uint64_t group)
{
    const float zero = load_typed_float(f->zeros, f->zero_type, group);
    return f->centred ? zero - 8 * load_typed_float(f->scales, f->scale_type, group) : zero;
}

static float
decode_flat_value(const dop_flat_parts *f, uint64_t i)
{
    const uint64_t g = find_flat_group(f, i);
    const uint32_t q = load_flat_code(f, i);
    if (f->stream)
        return (float)q * load_typed_float(f->scales, f->scale_type, g) + load_group_summand(f, g);
    if (!f->levels)
        return ((float)q - load_typed_float(f->zeros, f->zero_type, g)) * load_typed_float(f->scales, f->scale_type, g);
    const float largest = f->nested_levels ? load_typed_float(f->nested_levels, DOP_TYPE_f32, f->largest[g]) *
                                                     load_typed_float(f->nested, DOP_TYPE_f32, g / f->nested_group) +
                                                 f->offset
                                           : load_typed_float(f->largest, DOP_TYPE_f32, g);
    return load_typed_float(f->levels, DOP_TYPE_f32, q) * largest;
}

/* Writes a block of q4_1 or q5_1: scale, minimum, the fifth bits (q5_1), and the lower four bits. */
static void
put_affine_block(const dop_flat_parts *f, uint64_t first, uint32_t n, bool five, uint8_t *at)
{
    const uint64_t g = find_flat_group(f, first);
    uint8_t *fifth = at + 4, *codes = five ? at + 8 : at + 4;
    put_f16_half(at, load_typed_float(f->scales, f->scale_type, g));
    put_f16_half(at + 2, load_group_summand(f, g));
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t q = load_flat_code(f, first + i);
        codes[i % 16] = (uint8_t)(codes[i % 16] | (q & 15) << (i < 16 ? 0 : 4));
        if (five)
            fifth[i / 8] = (uint8_t)(fifth[i / 8] | (q >> 4) << (i % 8));
    }
}

/* Writes inputs from .. to - 1 of a row of a flat matrix as blocks of int4, q4_1 or q5_1, or as f16 values. */
static void
put_flat_blocks(const dop_weight *w, uint64_t row, uint32_t from, uint32_t to, uint8_t *at)
{
    const dop_flat_parts *f = w->parts->codes->flat;
    const dop_type_info *ti = dop_type_of(w->type);
    const uint64_t first = row * w->cols;
    for (uint32_t k = from; k < to; k += ti->block, at += ti->bytes) {
        if (w->type == DOP_TYPE_f16) {
            put_f16_half(at, decode_flat_value(f, first + k));
            continue;
        }
        if (f->stream) {
            put_affine_block(f, first + k, to - k < ti->block ? to - k : ti->block, w->type == DOP_TYPE_q5_1, at);
            continue;
        }
        const uint64_t g = find_flat_group(f, first + k);
        for (uint32_t i = 0; i < ti->block && k + i < to; i++) {
            uint8_t *two = at + i / 32 * 16 + i % 16;
            *two = (uint8_t)(*two | load_flat_code(f, first + k + i) << (i % 32 < 16 ? 0 : 4));
        }
        put_f16_half(at + ti->block / 2, load_typed_float(f->scales, f->scale_type, g));
        put_f16_half(at + ti->block / 2 + 2, load_typed_float(f->zeros, f->zero_type, g));
    }
}

void
dop_code_blocks(const dop_weight *w, uint32_t row, uint32_t from, uint32_t to, uint8_t *at)
{
    const dop_code_parts *p = w->parts->codes;
    const dop_type_info *ti = dop_type_of(w->type);
    const uint64_t r = p->block ? p->first + row / p->block * p->block_step + row % p->block : p->first + row;
    if (p->kind == DOP_CODE_FLAT) {
        put_flat_blocks(w, r, from, to, at);
        return;
    }
    const uint8_t *codes = p->codes + r * p->row_bytes;
    for (uint32_t k = from; k < to; k += ti->block, at += ti->bytes) {
        const uint32_t n = to - k < ti->block ? to - k : ti->block;
        if (ti->block == 1) {
            put_float16_value(at, w->type, decode_code_value(p, codes, r, k));
            continue;
        }
        const float scale = p->scale_type == DOP_TYPE_none && !p->exponents ? 0 : load_tile_scale(p, r, k);
        switch (p->kind) {
        case DOP_CODE_E4M3:
            memcpy(at, &scale, sizeof scale);
            memcpy(at + 4, codes + k, n);
            break;
        case DOP_CODE_INT8:
            put_f16_half(at, scale * p->factor);
            for (uint32_t i = 0; i < n; i++)
                at[2 + i] = (uint8_t)(codes[k + i] ^ (p->biased ? 128 : 0));
            break;
        case DOP_CODE_INT4:
            for (uint32_t i = 0; i < n; i++) {
                uint8_t *two = at + i / 32 * 16 + i % 16;
                *two = (uint8_t)(*two | load_int4_code(p, codes, k + i) << (i % 32 < 16 ? 0 : 4));
            }
            put_f16_half(at + ti->block / 2, scale);
            put_f16_half(at + ti->block / 2 + 2, (float)load_code_zero(p, r, k));
            break;
        case DOP_CODE_E2M1:
            for (uint32_t i = 0; i < n; i++) {
                uint8_t *two = at + 4 + i / 16 * 8 + i % 8;
                *two = (uint8_t)(*two | get_nibble(codes, k + i) << (i % 16 < 8 ? 0 : 4));
            }
            memcpy(at, p->scales + r * p->tiles + k / 16, (n + 15) / 16);
            break;
        case DOP_CODE_FLAT:
            break;
        }
    }
}
