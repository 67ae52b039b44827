#include "tests/unit/kernels_blocks.h"

#include "base/base.h"
#include "compiler/pack/quant.h"
#include "compiler/pack/repack.h"
#include "ir/graph/cache_row.h"
#include "ir/interp/interp.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

static uint32_t
next(uint64_t *s)
{
    *s = *s * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*s >> 33);
}

static void
put_half(uint8_t *p, uint64_t *s, float from, float to)
{
    uint16_t h = dop_f32_to_f16(from + (to - from) * (float)(next(s) % 4096) / 4096);
    memcpy(p, &h, 2);
}

void
lab_random_block(dop_type t, uint64_t *s, float by, uint8_t *b)
{
    const dop_type_info *ti = dop_type_of(t);
    for (uint32_t i = 0; i < ti->bytes; i++)
        b[i] = (uint8_t)(next(s) & 255);
    switch (t) {
    case DOP_TYPE_f16:
        put_half(b, s, -1, 1);
        return;
    case DOP_TYPE_bf16:
    case DOP_TYPE_f32: {
        float v = (float)(next(s) % 8192) / 4096 - 1;
        uint16_t h = dop_f32_to_bf16(v);
        memcpy(b, t == DOP_TYPE_f32 ? (void *)&v : (void *)&h, ti->bytes);
        return;
    }
    case DOP_TYPE_q2_k:
        put_half(b + 80, s, by * 0.001f, by * 0.1f);
        put_half(b + 82, s, by * 0.001f, by * 0.1f);
        return;
    case DOP_TYPE_q3_k:
        put_half(b + 108, s, by * -0.02f, by * 0.02f);
        return;
    case DOP_TYPE_q6_k:
        put_half(b + 208, s, by * -0.001f, by * 0.001f);
        return;
    case DOP_TYPE_mxfp4:
        b[0] = (uint8_t)(118 + next(s) % 10);
        return;
    case DOP_TYPE_int4_g128:
    case DOP_TYPE_int4_g64:
    case DOP_TYPE_int4_g32:
        put_half(b + ti->bytes - 4, s, by * 0.01f, by * 0.2f);
        /* Zero points: none (the middle), an integer as in AWQ and GPTQ files, or where the best fit has it. */
        switch (next(s) % 3) {
        case 0:
            put_half(b + ti->bytes - 2, s, 8, 8);
            break;
        case 1: {
            float zero = (float)(next(s) % 16);
            put_half(b + ti->bytes - 2, s, zero, zero);
            break;
        }
        default:
            put_half(b + ti->bytes - 2, s, 0, 15);
            break;
        }
        return;
    case DOP_TYPE_tq1_0:
    case DOP_TYPE_tq2_0:
        put_half(b + ti->bytes - 2, s, by * -0.1f, by * 0.1f);
        return;
    case DOP_TYPE_f8_128: {
        const float d = by * (float)(next(s) % 4096) / 4096 / 64;
        memcpy(b, &d, sizeof d);
        return;
    }
    case DOP_TYPE_nvfp4:
        for (int i = 0; i < 4; i++)
            b[i] = (uint8_t)(next(s) % 64);
        return;
    case DOP_TYPE_iq1_m: { /* a half in the upper four bits of four times 16 */
        uint8_t half[2];
        put_half(half, s, by * -0.05f, by * 0.1f);
        for (int i = 0; i < 4; i++)
            b[49 + 2 * i] = (uint8_t)((b[49 + 2 * i] & 15) | (half[i / 2] >> (i % 2 * 4)) << 4);
        return;
    }
    default:
        put_half(b, s, by * -0.05f, by * 0.1f);
        if (t == DOP_TYPE_q4_1 || t == DOP_TYPE_q5_1 || t == DOP_TYPE_q4_k || t == DOP_TYPE_q5_k)
            put_half(b + 2, s, by * -0.5f, by * 0.5f);
        return;
    }
}

/* For types that nothing makes: random blocks whose values are about as large as those of the row. */
static void
random_row(dop_type t, const float *row, uint32_t cols, uint8_t *blocks)
{
    const dop_type_info *ti = dop_type_of(t);
    uint64_t seed = XXH64(row, cols * sizeof *row, 0);
    float values[256];
    for (uint32_t at = 0; at < cols; at += ti->block, blocks += ti->bytes) {
        const uint64_t first = seed;
        double wanted = 0, is = 0;
        lab_random_block(t, &seed, 1, blocks);
        dop_decode_row(t, blocks, ti->block, values);
        for (uint32_t i = 0; i < ti->block; i++) {
            wanted += at + i < cols ? (double)row[at + i] * (double)row[at + i] : 0;
            is += (double)values[i] * (double)values[i];
        }
        seed = first;
        lab_random_block(t, &seed, is > 0 ? (float)sqrt(wanted / is) : 1, blocks);
    }
}

bool
lab_quantize(const dop_graph *g, dop_node_id id, float *values, uint8_t *packed, uint64_t stride)
{
    const dop_node *n = dop_node_at(g, id);
    const dop_dim *last = n->shape.dim + n->shape.rank - 1;
    const uint32_t cols = last->mul, rows = last == n->shape.dim ? 1 : last[-1].mul;
    const uint64_t many = n->shape.rank == 3 ? n->shape.dim[0].mul : 1;
    float *row = calloc(cols + 256, sizeof *row);
    uint8_t *blocks = calloc(cols + 256, 4);
    for (uint64_t i = 0; row && blocks && i < many * rows; i++) {
        memcpy(row, values + i * cols, cols * sizeof *row);
        if (dop_quantizable(n->type))
            dop_quantize_row(n->type, row, NULL, cols, blocks);
        else
            random_row(n->type, row, cols, blocks);
        if (packed)
            dop_repack_row(n->type, blocks, (uint32_t)(i % rows), rows, cols, packed + i / rows * stride);
        else
            dop_decode_row(n->type, blocks, cols, values + i * cols);
    }
    const bool ok = row && blocks;
    free(row);
    free(blocks);
    return ok;
}

bool
lab_in_blocks(const dop_node *n)
{
    return n->op == DOP_OP_weight && dop_type_of(n->type)->kind == DOP_KIND_QUANT;
}

static void
encode(dop_type type, const float *in, uint64_t n, uint8_t *out)
{
    for (uint64_t i = 0; i < n; i++) {
        uint16_t h = type == DOP_TYPE_f16 ? dop_f32_to_f16(in[i]) : dop_f32_to_bf16(in[i]);
        if (type == DOP_TYPE_f32)
            memcpy(out + 4 * i, &in[i], 4);
        else
            memcpy(out + 2 * i, &h, 2);
    }
}

void
lab_encode(const dop_node *memory, const float *in, uint64_t n, uint8_t *out)
{
    const uint32_t cols = memory->shape.rank == 4 ? memory->shape.dim[2].mul * memory->shape.dim[3].mul : 0;
    if (!dop_cache_blocks(memory->type))
        encode(memory->type, in, n, out);
    for (uint64_t i = 0; dop_cache_blocks(memory->type) && i < n / cols; i++)
        dop_cache_row_encode(memory->type, in + i * cols, cols, out + i * dop_cache_row_bytes(memory->type, cols));
}

void
lab_decode(const dop_node *memory, const uint8_t *in, uint64_t n, float *out)
{
    const uint32_t cols = memory->shape.rank == 4 ? memory->shape.dim[2].mul * memory->shape.dim[3].mul : 0;
    if (!dop_cache_blocks(memory->type) || memory->op != DOP_OP_state)
        dop_decode_row(memory->type, in, n, out);
    else
        for (uint64_t i = 0; i < n / cols; i++)
            dop_cache_row_decode(memory->type, in + i * dop_cache_row_bytes(memory->type, cols), cols, out + i * cols);
}

void
lab_widen_caches(dop_buf *text)
{
    for (char *p = text->data; (p = strstr(p, ":f16[Q,")) != NULL; p++)
        memcpy(p, ":f32[Q,", 7);
}
