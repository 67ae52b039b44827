#include "compiler/pack/pack_codes.h"

#include "ir/interp.h"

#include <string.h>

static float
scale_at(const dop_code_parts *p, uint64_t row, uint32_t col)
{
    const uint64_t i = row / p->tile_rows * p->tiles + col / p->tile_cols;
    float v;
    dop_decode_row(p->scale_type, p->scales + i * dop_type_of(p->scale_type)->bytes, 1, &v);
    return v;
}

static void
put_half(uint8_t *p, float v)
{
    const uint16_t h = dop_f32_to_f16(v);
    p[0] = (uint8_t)(h & 255);
    p[1] = (uint8_t)(h >> 8);
}

/* Nibble i of neighbours in bytes. */
static uint32_t
nibble(const uint8_t *codes, uint32_t i)
{
    return codes[i / 2] >> (4 * (i % 2)) & 15;
}

/* The zero point of a row: words hold eight rows. */
static uint32_t
zero_at(const dop_code_parts *p, uint64_t row, uint32_t col)
{
    if (!p->zeros)
        return 8;
    const uint8_t *word = p->zeros + (row / 8 * p->tiles + col / p->tile_cols) * 4;
    return nibble(word, (uint32_t)(row % 8));
}

void
dop_code_blocks(const dop_weight *w, uint32_t row, uint32_t from, uint32_t to, uint8_t *at)
{
    const dop_code_parts *p = w->parts->codes;
    const dop_type_info *ti = dop_type_of(w->type);
    const uint64_t r = p->block ? p->first + row / p->block * p->block_step + row % p->block : p->first + row;
    const uint8_t *codes = p->codes + r * p->row_bytes;
    for (uint32_t k = from; k < to; k += ti->block, at += ti->bytes) {
        const uint32_t n = to - k < ti->block ? to - k : ti->block;
        const float scale = p->scale_type == DOP_TYPE_none ? 0 : scale_at(p, r, k);
        switch (p->kind) {
        case DOP_CODE_E4M3:
            memcpy(at, &scale, sizeof scale);
            memcpy(at + 4, codes + k, n);
            break;
        case DOP_CODE_INT8:
            put_half(at, scale);
            for (uint32_t i = 0; i < n; i++)
                at[2 + i] = (uint8_t)(codes[k + i] ^ (p->biased ? 128 : 0));
            break;
        case DOP_CODE_INT4:
            for (uint32_t i = 0; i < n; i++) {
                uint8_t *two = at + i / 32 * 16 + i % 16;
                *two = (uint8_t)(*two | nibble(codes, k + i) << (i % 32 < 16 ? 0 : 4));
            }
            put_half(at + ti->block / 2, scale);
            put_half(at + ti->block / 2 + 2, (float)zero_at(p, r, k));
            break;
        case DOP_CODE_E2M1:
            for (uint32_t i = 0; i < n; i++) {
                uint8_t *two = at + 4 + i / 16 * 8 + i % 8;
                *two = (uint8_t)(*two | nibble(codes, k + i) << (i % 16 < 8 ? 0 : 4));
            }
            memcpy(at, p->scales + r * p->tiles + k / 16, (n + 15) / 16);
            break;
        }
    }
}
