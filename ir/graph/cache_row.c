#include "ir/graph/cache_row.h"

#include "base/base.h"

#include <math.h>
#include <string.h>

bool
dop_cache_blocks(dop_type t)
{
    return t == DOP_TYPE_q8_0 || t == DOP_TYPE_q4_0;
}

/* Returns the bytes of a row's values, without scales. */
static uint64_t
count_value_bytes(dop_type t, uint32_t cols)
{
    return t == DOP_TYPE_q4_0 ? cols / 2 : cols;
}

uint64_t
dop_cache_row_bytes(dop_type t, uint32_t cols)
{
    uint64_t bytes = 0;
    if (!dop_cache_blocks(t))
        return dop_type_row_bytes(t, cols, &bytes) ? bytes : UINT64_MAX;
    return dop_align_u64(count_value_bytes(t, cols) + cols / DOP_CACHE_BLOCK * 2, 16);
}

/* Returns the scale of a block, not yet rounded to f16. */
static float
find_block_scale(dop_type t, const float *x)
{
    float most = 0, least = 0;
    for (uint32_t i = 0; i < DOP_CACHE_BLOCK; i++) {
        most = x[i] > most ? x[i] : most;
        least = x[i] < least ? x[i] : least;
    }
    if (t == DOP_TYPE_q4_0)
        return (most >= -least ? most : least) / -8.0f;
    return (most >= -least ? most : -least) / 127.0f;
}

static int
quantize_value(dop_type t, float x, float inverse)
{
    if (t == DOP_TYPE_q4_0) {
        float q = floorf(x * inverse + 8.5f);
        return q < 15 ? (int)q : 15;
    }
    float q = floorf(fabsf(x * inverse) + 0.5f);
    return (int)(x < 0 ? -q : q);
}

float
dop_cache_step(dop_type t, const float *block)
{
    return dop_cache_blocks(t) ? fabsf(find_block_scale(t, block)) : 0;
}

void
dop_cache_row_encode(dop_type t, const float *x, uint32_t cols, void *out)
{
    uint8_t *values = out, *scales = values + count_value_bytes(t, cols);
    memset(out, 0, (size_t)dop_cache_row_bytes(t, cols));
    for (uint32_t b = 0; b < cols; b += DOP_CACHE_BLOCK) {
        float d = find_block_scale(t, x + b), inverse = d != 0 ? 1 / d : 0;
        uint16_t half = dop_f32_to_f16(d);
        memcpy(scales + b / DOP_CACHE_BLOCK * 2, &half, 2);
        for (uint32_t i = b; i < b + DOP_CACHE_BLOCK; i++) {
            int q = quantize_value(t, x[i], inverse);
            if (t == DOP_TYPE_q4_0)
                values[i / 2] = (uint8_t)(values[i / 2] | (unsigned)q << (i % 2 * 4));
            else
                values[i] = (uint8_t)(int8_t)q;
        }
    }
}

void
dop_cache_row_decode(dop_type t, const void *row, uint32_t cols, float *out)
{
    const uint8_t *values = row, *scales = values + count_value_bytes(t, cols);
    for (uint32_t i = 0; i < cols; i++) {
        uint16_t half;
        memcpy(&half, scales + i / DOP_CACHE_BLOCK * 2, 2);
        int q = t == DOP_TYPE_q4_0 ? (values[i / 2] >> (i % 2 * 4) & 15) - 8 : (int)(int8_t)values[i];
        out[i] = dop_f16_to_f32(half) * (float)q;
    }
}

void
dop_cache_round(dop_type t, const float *x, uint64_t n, float *out)
{
    uint8_t block[DOP_CACHE_BLOCK + 16];
    for (uint64_t i = 0; i < n; i += DOP_CACHE_BLOCK) {
        dop_cache_row_encode(t, x + i, DOP_CACHE_BLOCK, block);
        dop_cache_row_decode(t, block, DOP_CACHE_BLOCK, out + i);
    }
}
