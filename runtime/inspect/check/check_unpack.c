/* Quantized weights as kernels read them, decoded without the kernels' code: the inverse of the layout that
 * compiler/pack/repack.c writes and describes.  A row of n values has units of 32; plane 0 holds the low bits of all units,
 * plane 1 what is shared, in groups of 32 units counted over all rows.  How many bytes that is, ir/packing.def says. */
#include "runtime/inspect/check/check.h"

#include <string.h>

enum { UNIT = 32, GROUP = 32 };

typedef struct layout {
    uint32_t unit_bytes, pad, group_bytes; /* plane 0 per unit; row padding in values; plane 1 per group */
} layout;

static bool
layout_of(dop_type t, layout *out)
{
    static const struct {
        dop_type type;
        layout l;
    } rows[] = {
#define PACKING(type, unit, unit_bytes, pad, group_bytes) {DOP_TYPE_##type, {unit_bytes, pad, group_bytes}},
#include "ir/packing.def"
#undef PACKING
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].type == t && dop_type_of(t)->kind == DOP_KIND_QUANT) {
            *out = rows[i].l;
            return true;
        }
    return false;
}

static uint32_t
word(const uint8_t *p, uint32_t i)
{
    p += (size_t)i * 4;
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static float
half(const uint8_t *p)
{
    return dop_f16_to_f32((uint16_t)(p[0] | p[1] << 8));
}

/* Two 16-bit lanes a word: value 4j + c is in lane c & 1, values c < 2 before the others. */
static const uint8_t lane[4] = {0, 16, 4, 20};

static uint32_t
nibble(const uint8_t *p, uint32_t i)
{
    return word(p, i / 8) >> (lane[i & 3] + 8 * (i >> 2 & 1)) & 15;
}

static uint32_t
one_bit(const uint8_t *p, uint32_t i)
{
    return word(p, 0) >> (lane[i & 3] + (i >> 2 & 3) + 8 * (i >> 4)) & 1;
}

static uint32_t
two_bits(const uint8_t *p, uint32_t i)
{
    return word(p, i / 16) >> (lane[i & 3] + 2 * (i >> 2 & 1) + 8 * (i >> 3 & 1)) & 3;
}

static uint32_t
byte(const uint8_t *p, uint32_t i)
{
    static const uint8_t at[4] = {0, 16, 8, 24};
    return word(p, i / 4) >> at[i & 3] & 255;
}

/* The number in e2m1 of each code of compiler/pack/repack.c. */
static const uint8_t e2m1[16] = {9, 8, 15, 2, 3, 4, 14, 5, 13, 6, 12, 11, 10, 7, 0, 1};

/* Types whose blocks are a unit: the block is put together again, and decoded like one of a file. */
static void
small_unit(dop_type t, const uint8_t *low, const uint8_t *g, uint32_t k, float *out)
{
    uint8_t b[40] = {0};
    uint32_t q = 2; /* of the nibbles in the block */
    const uint8_t *fifth = NULL;
    switch (t) {
    case DOP_TYPE_q8_0:
        memcpy(b, g + 2 * k, 2);
        for (uint32_t i = 0; i < UNIT; i++)
            b[2 + i] = (uint8_t)(byte(low, i) ^ 128);
        dop_decode_row(t, b, UNIT, out);
        return;
    case DOP_TYPE_q4_1:
        memcpy(b, g + 4 * k, 4);
        q = 4;
        break;
    case DOP_TYPE_q5_0:
        memcpy(b, g + 128 + 2 * k, 2);
        fifth = g + 4 * k;
        q = 6;
        break;
    case DOP_TYPE_q5_1:
        memcpy(b, g + 8 * k + 4, 4);
        fifth = g + 8 * k;
        q = 8;
        break;
    case DOP_TYPE_mxfp4:
        b[0] = g[k];
        for (uint32_t i = 0; i < 16; i++)
            b[1 + i] = (uint8_t)(e2m1[nibble(low, i)] | e2m1[nibble(low, i + 16)] << 4);
        dop_decode_row(t, b, UNIT, out);
        return;
    default: /* q4_0, iq4_nl */
        memcpy(b, g + 2 * k, 2);
        break;
    }
    for (uint32_t i = 0; i < 16; i++)
        b[q + i] = (uint8_t)(nibble(low, i) | nibble(low, i + 16) << 4);
    for (uint32_t i = 0; i < UNIT && fifth; i++)
        b[q - 4 + i / 8] = (uint8_t)(b[q - 4 + i / 8] | one_bit(fifth, i) << (i % 8));
    dop_decode_row(t, b, UNIT, out);
}

/* Units of blocks of 256, eight to a block. */
static void
large_unit(dop_type t, const uint8_t *low, const uint8_t *g, uint32_t k, float *out)
{
    for (uint32_t i = 0; i < UNIT; i++) {
        uint32_t part = i / 16, u = 4 * (k % 8);
        const uint8_t *head = g + 16 * (k / 8);
        uint32_t scale = word(head, 1) >> u & 15, min = word(head, 2) >> u & 15, upper = word(head, 3) >> u & 15;
        switch (t) {
        case DOP_TYPE_q4_k:
        case DOP_TYPE_q5_k: {
            uint32_t q = nibble(low, i) | (t == DOP_TYPE_q5_k ? one_bit(g + 64 + 4 * k, i) << 4 : 0);
            scale |= (upper & 3) << 4;
            min |= (upper >> 2) << 4;
            out[i] = half(head) * (float)scale * (float)q - half(head + 2) * (float)min;
            break;
        }
        case DOP_TYPE_q6_k: {
            int q = (int)(nibble(low, i) | two_bits(g + 8 * k, i) << 4) - 32;
            out[i] = half(g + 320 + 2 * (k / 8)) * (float)(int8_t)g[256 + 2 * k + part] * (float)q;
            break;
        }
        case DOP_TYPE_q3_k: {
            int q = (int)(two_bits(low, i) | one_bit(g + 4 * k, i) << 2) - 4;
            out[i] = half(g + 192 + 2 * (k / 8)) * (float)(int8_t)g[128 + 2 * k + part] * (float)q;
            break;
        }
        default: { /* q2_k */
            uint32_t s = g[2 * k + part];
            const uint8_t *d = g + 64 + 4 * (k / 8);
            out[i] = half(d) * (float)(s & 15) * (float)two_bits(low, i) - half(d + 2) * (float)(s >> 4);
            break;
        }
        }
    }
}

bool
dop_check_unpack_row(dop_type type, const uint8_t *data, uint64_t size, uint32_t rows, uint32_t cols, uint32_t row,
                     float *out)
{
    layout l;
    if (!layout_of(type, &l) || row >= rows)
        return false;
    uint64_t per_row = ((uint64_t)cols + l.pad - 1) / l.pad * l.pad / UNIT, units = per_row * rows;
    uint64_t plane = (units * l.unit_bytes + 15) / 16 * 16, groups = (units + GROUP - 1) / GROUP;
    if (plane + groups * l.group_bytes > size)
        return false;
    uint32_t block = dop_type_of(type)->block;
    for (uint32_t i = 0; i * UNIT < cols; i++) {
        uint64_t u = row * per_row + i;
        const uint8_t *low = data + u * l.unit_bytes, *g = data + plane + u / GROUP * l.group_bytes;
        uint32_t k = (uint32_t)(u % GROUP);
        float x[UNIT];
        if (type == DOP_TYPE_int4_g128 || type == DOP_TYPE_int4_g64 || type == DOP_TYPE_int4_g32) {
            const uint8_t *d = g + k / (block / UNIT) * 4;
            for (uint32_t j = 0; j < UNIT; j++)
                x[j] = half(d) * ((float)nibble(low, j) - half(d + 2));
        } else if (block == 256) {
            large_unit(type, low, g, k, x);
        } else {
            small_unit(type, low, g, k, x);
        }
        memcpy(out + (size_t)i * UNIT, x, (cols - i * UNIT < UNIT ? cols - i * UNIT : UNIT) * sizeof *x);
    }
    return true;
}
