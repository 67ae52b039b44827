/* Decoders of storage types.  Blocks are packed here in the direction of a quantizer (value by value into its place),
 * so that a wrong reading of a layout shows; and real files, where they are at hand. */
#include "ir/graph/cache_row.h"
#include "tests/unit/test_ir_util.h"

#include <math.h>

/* What a block of a quantized type says, before packing. */
typedef struct quant {
    float d, m;    /* f16-exact; m: offset or minimum scale */
    int q[256];    /* as stored, not negative */
    int scale[16]; /* as stored */
    int min[16];
} quant;

static int
pick(uint64_t *state, int n)
{
    return (int)(test_random(state) % (uint64_t)n);
}

static quant
random_quant(uint64_t *state, int levels, int scales)
{
    quant r;
    r.d = (float)(pick(state, 2047) + 1) / 4096.0f * (pick(state, 2) ? 1.0f : -1.0f);
    r.m = (float)(pick(state, 2047) + 1) / 2048.0f;
    for (int i = 0; i < 256; i++)
        r.q[i] = pick(state, levels);
    for (int i = 0; i < 16; i++) {
        r.scale[i] = pick(state, scales);
        r.min[i] = pick(state, scales);
    }
    return r;
}

static void
put_f16(uint8_t *p, float v)
{
    uint16_t h = dop_f32_to_f16(v);
    cr_assert(dop_f16_to_f32(h) == v);
    p[0] = (uint8_t)(h & 255);
    p[1] = (uint8_t)(h >> 8);
}

static void
or_bits(uint8_t *p, int bits, int shift)
{
    *p = (uint8_t)(*p | bits << shift);
}

/* The first 16 of 32 values go to the low nibbles of 16 bytes, the others to the high ones. */
static void
pack_nibbles32(uint8_t *p, const int *q)
{
    for (int i = 0; i < 32; i++)
        or_bits(p + i % 16, q[i] & 15, i < 16 ? 0 : 4);
}

/* 64 values to 32 bytes, four times. */
static void
pack_nibbles256(uint8_t *p, const int *q)
{
    for (int i = 0; i < 256; i++)
        or_bits(p + i / 64 * 32 + i % 32, q[i] & 15, i % 64 < 32 ? 0 : 4);
}

/* 128 values to 32 bytes, twice. */
static void
pack_pairs256(uint8_t *p, const int *q)
{
    for (int half = 0; half < 2; half++) {
        for (int l = 0; l < 32; l++) {
            for (int k = 0; k < 4; k++)
                or_bits(p + half * 32 + l, q[half * 128 + k * 32 + l] & 3, 2 * k);
        }
    }
}

static void
pack_six_bits(uint8_t *p, const int *scale, const int *min)
{
    for (int j = 0; j < 8; j++) {
        if (j < 4) {
            or_bits(p + j, scale[j], 0);
            or_bits(p + j + 4, min[j], 0);
        } else {
            or_bits(p + j + 4, scale[j] & 15, 0);
            or_bits(p + j + 4, min[j] & 15, 4);
            or_bits(p + j - 4, scale[j] >> 4, 6);
            or_bits(p + j, min[j] >> 4, 6);
        }
    }
}

static void
pack_small(dop_type t, const quant *r, uint8_t *b)
{
    bool offset = t == DOP_TYPE_q4_1 || t == DOP_TYPE_q5_1, five = t == DOP_TYPE_q5_0 || t == DOP_TYPE_q5_1;
    uint8_t *p = b;
    if (t == DOP_TYPE_mxfp4) {
        *p++ = (uint8_t)(r->scale[0] + 100);
    } else {
        put_f16(p, r->d);
        p += 2;
    }
    if (offset) {
        put_f16(p, r->m);
        p += 2;
    }
    if (five) {
        for (int i = 0; i < 32; i++)
            or_bits(p + i / 8, r->q[i] >> 4, i % 8);
        p += 4;
    }
    if (t == DOP_TYPE_q8_0) {
        for (int i = 0; i < 32; i++)
            p[i] = (uint8_t)r->q[i];
    } else {
        pack_nibbles32(p, r->q);
    }
}

static void
pack_large(dop_type t, const quant *r, uint8_t *b)
{
    switch (t) {
    case DOP_TYPE_q2_k:
        for (int i = 0; i < 16; i++)
            b[i] = (uint8_t)(r->scale[i] | r->min[i] << 4);
        pack_pairs256(b + 16, r->q);
        put_f16(b + 80, r->d);
        put_f16(b + 82, r->m);
        break;
    case DOP_TYPE_q3_k:
        for (int i = 0; i < 256; i++)
            or_bits(b + i % 32, r->q[i] >> 2, i / 32);
        pack_pairs256(b + 32, r->q);
        for (int j = 0; j < 16; j++) {
            or_bits(b + 96 + j % 8, r->scale[j] & 15, j < 8 ? 0 : 4);
            or_bits(b + 104 + j % 4, r->scale[j] >> 4, 2 * (j / 4));
        }
        put_f16(b + 108, r->d);
        break;
    case DOP_TYPE_q4_k:
    case DOP_TYPE_q5_k:
        put_f16(b, r->d);
        put_f16(b + 2, r->m);
        pack_six_bits(b + 4, r->scale, r->min);
        if (t == DOP_TYPE_q5_k) {
            for (int i = 0; i < 256; i++)
                or_bits(b + 16 + i % 32, r->q[i] >> 4, i / 32);
        }
        pack_nibbles256(b + (t == DOP_TYPE_q5_k ? 48 : 16), r->q);
        break;
    default: /* q6_k: 128 values to 64 bytes of nibbles and 32 bytes of pairs, twice */
        for (int i = 0; i < 256; i++)
            or_bits(b + i / 128 * 64 + i % 64, r->q[i] & 15, i % 128 < 64 ? 0 : 4);
        for (int i = 0; i < 256; i++)
            or_bits(b + 128 + i / 128 * 32 + i % 32, r->q[i] >> 4, 2 * (i % 128 / 32));
        for (int j = 0; j < 16; j++)
            b[192 + j] = (uint8_t)r->scale[j];
        put_f16(b + 208, r->d);
        break;
    }
}

static bool
is_int4(dop_type t)
{
    return t == DOP_TYPE_int4_g128 || t == DOP_TYPE_int4_g64 || t == DOP_TYPE_int4_g32;
}

/* Nibbles as in q4_0, 32 values at a time; scale and zero point behind them. */
static void
pack_int4(int n, const quant *r, uint8_t *b)
{
    for (int i = 0; i < n; i += 32)
        pack_nibbles32(b + i / 2, r->q + i);
    put_f16(b + n / 2, r->d);
    put_f16(b + n / 2 + 2, r->m);
}

/* Any bits are numbers. */
static void
pack_f8(const quant *r, uint8_t *b)
{
    memcpy(b, &r->d, 4);
    for (int i = 0; i < 128; i++)
        b[4 + i] = (uint8_t)r->q[i];
}

static double
meaning(dop_type t, const quant *r, int i)
{
    static const int nl[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
    static const double e2m1[8] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
    double d = (double)r->d, m = (double)r->m, q = r->q[i];
    int sub16 = i / 16, sub32 = i / 32;
    switch (t) {
    case DOP_TYPE_q4_0:
        return d * (q - 8);
    case DOP_TYPE_q5_0:
        return d * (q - 16);
    case DOP_TYPE_q4_1:
    case DOP_TYPE_q5_1:
        return d * q + m;
    case DOP_TYPE_q8_0:
        return d * (double)(int8_t)r->q[i];
    case DOP_TYPE_iq4_nl:
        return d * nl[r->q[i]];
    case DOP_TYPE_mxfp4:
        return ldexp(r->q[i] & 8 ? -e2m1[r->q[i] & 7] : e2m1[r->q[i] & 7], r->scale[0] + 100 - 127);
    case DOP_TYPE_f8_128: {
        int code = r->q[i] & 127;
        double v = code < 8 ? code / 512.0 : ldexp(1 + (code & 7) / 8.0, (code >> 3) - 7);
        return r->q[i] & 128 ? -d * v : d * v;
    }
    case DOP_TYPE_q2_k:
        return d * r->scale[sub16] * q - m * r->min[sub16];
    case DOP_TYPE_q3_k:
        return d * (r->scale[sub16] - 32) * (q - 4);
    case DOP_TYPE_q4_k:
    case DOP_TYPE_q5_k:
        return d * r->scale[sub32] * q - m * r->min[sub32];
    case DOP_TYPE_int4_g128:
    case DOP_TYPE_int4_g64:
    case DOP_TYPE_int4_g32:
        return d * (q - m);
    default: /* q6_k */
        return d * (double)(int8_t)r->scale[sub16] * (q - 32);
    }
}

Test(ir_decode, blocks)
{
    static const struct {
        dop_type t;
        int levels, scales;
    } cases[] = {
        {DOP_TYPE_q4_0, 16, 1},      {DOP_TYPE_q4_1, 16, 1},     {DOP_TYPE_q5_0, 32, 1},     {DOP_TYPE_q5_1, 32, 1},
        {DOP_TYPE_q8_0, 256, 1},     {DOP_TYPE_iq4_nl, 16, 1},   {DOP_TYPE_mxfp4, 16, 50},   {DOP_TYPE_q2_k, 4, 16},
        {DOP_TYPE_q3_k, 8, 64},      {DOP_TYPE_q4_k, 16, 64},    {DOP_TYPE_q5_k, 32, 64},    {DOP_TYPE_q6_k, 64, 256},
        {DOP_TYPE_int4_g128, 16, 1}, {DOP_TYPE_int4_g64, 16, 1}, {DOP_TYPE_int4_g32, 16, 1}, {DOP_TYPE_f8_128, 256, 1},
    };
    uint64_t state = 3;
    for (unsigned t = 0; t < DOP_TYPE_COUNT; t++) {
        bool here = dop_type_of((dop_type)t)->kind != DOP_KIND_QUANT || dop_type_of((dop_type)t)->gguf >= 0;
        for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++)
            here = here || cases[c].t == (dop_type)t;
        cr_assert(here, "%s is here, or in test_types.c as a type of GGUF", dop_type_of((dop_type)t)->name);
    }
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        dop_type t = cases[c].t;
        int block = (int)dop_type_of(t)->block;
        size_t bytes = dop_type_of(t)->bytes;
        for (int round = 0; round < 50; round++) {
            quant r[2] = {random_quant(&state, cases[c].levels, cases[c].scales),
                          random_quant(&state, cases[c].levels, cases[c].scales)};
            uint8_t *row = calloc(1, 2 * bytes + 1), *odd = row + 1; /* exact and not aligned */
            float out[513];
            int n = 2 * block - round % 5; /* a row may end inside its last block */
            for (int k = 0; k < 2; k++) {
                if (is_int4(t) && round % 3 > 0) /* no zero point, that is the middle; or an integer */
                    r[k].m = round % 3 == 1 ? 8 : (float)pick(&state, 17);
                if (is_int4(t))
                    pack_int4(block, &r[k], odd + (size_t)k * bytes);
                else if (t == DOP_TYPE_f8_128)
                    pack_f8(&r[k], odd + (size_t)k * bytes);
                else if (block == 32)
                    pack_small(t, &r[k], odd + (size_t)k * bytes);
                else
                    pack_large(t, &r[k], odd + (size_t)k * bytes);
            }
            out[n] = 12345;
            dop_decode_row(t, odd, (uint64_t)n, out);
            cr_assert_eq(out[n], 12345);
            for (int i = 0; i < n; i++) {
                double want = meaning(t, &r[i / block], i % block), limit = 2e-6 * (fabs(want) + 64);
                cr_assert(fabs((double)out[i] - want) <= (t == DOP_TYPE_mxfp4 ? 0 : limit), "%s[%d]: %.9g, not %.9g",
                          dop_type_of(t)->name, i, (double)out[i], want);
            }
            free(row);
        }
    }
}

Test(ir_decode, plain_types)
{
    static const uint8_t bytes[] = {9, 0x00, 0x00, 0xc0, 0x3f, 0x00, 0x00, 0x20, 0xc1};
    float out[4];
    dop_decode_row(DOP_TYPE_f32, bytes + 1, 2, out);
    cr_assert(out[0] == 1.5f && out[1] == -10.0f);
    dop_decode_row(DOP_TYPE_bf16, bytes + 1, 4, out);
    cr_assert(out[0] == 0.0f && out[1] == 1.5f && out[3] == -10.0f);
    dop_decode_row(DOP_TYPE_f16, (const uint8_t[]){0, 0x3c, 0, 0xc4}, 2, out);
    cr_assert(out[0] == 1.0f && out[1] == -4.0f);
    dop_decode_row(DOP_TYPE_u32, (const uint8_t[]){2, 1, 0, 0}, 1, out);
    cr_assert_eq(out[0], 258);
    dop_decode_row(DOP_TYPE_i32, (const uint8_t[]){0xfe, 0xff, 0xff, 0xff}, 1, out);
    cr_assert_eq(out[0], -2);
    dop_decode_row(DOP_TYPE_mxfp4, (const uint8_t[17]){0, 0x77}, 2, out); /* the smallest scale is subnormal */
    cr_assert_eq(out[0], 6 * 0x1p-127f);
}

/* ---- real files ---- */

/* Three rows of 300 values in 2 blocks each, with the values its maker decoded. */
Test(ir_decode, q4_k_with_padded_rows)
{
    dop_map blocks = {0}, values = {0};
    if (dop_map_open(DOP_SHARED_DIR "/models/shakespeare-gemma3-rdrr/q4k_padded_rows.bin", NULL, &blocks) != DOP_OK ||
        dop_map_open(DOP_SHARED_DIR "/models/shakespeare-gemma3-rdrr/q4k_padded_rows.f32", NULL, &values) != DOP_OK) {
        dop_map_close(&blocks);
        cr_skip_test("the shared models are not here");
        return;
    }
    cr_assert_eq(blocks.size, 3 * 2 * 144);
    cr_assert_eq(values.size, 3 * 300 * 4);
    for (int r = 0; r < 3; r++) {
        float out[300], want[300];
        dop_decode_row(DOP_TYPE_q4_k, blocks.data + r * 288, 300, out);
        memcpy(want, values.data + r * 1200, sizeof want);
        for (int i = 0; i < 300; i++)
            cr_assert(fabsf(out[i] - want[i]) <= 1e-6f * (fabsf(want[i]) + 1e-3f), "[%d][%d]: %g, not %g", r, i,
                      (double)out[i], (double)want[i]);
    }
    dop_map_close(&blocks);
    dop_map_close(&values);
}

/* Rows of caches in blocks: the formulas of the header, by hand. */
Test(ir_decode, cache_rows)
{
    float x[96] = {0}, y[96];
    uint8_t row[128];
    cr_assert_eq(dop_cache_row_bytes(DOP_TYPE_q8_0, 96), 112); /* 96 values, 3 scales, padding */
    cr_assert_eq(dop_cache_row_bytes(DOP_TYPE_q4_0, 96), 64);
    cr_assert_eq(dop_cache_row_bytes(DOP_TYPE_f16, 96), 192);
    x[0] = 127;
    x[1] = -1.5f;
    x[31] = 0.49f;
    x[32] = -16;
    x[33] = 15.5f;
    x[34] = 3;
    dop_cache_row_encode(DOP_TYPE_q8_0, x, 96, row);
    cr_assert_eq(row[0], 127);
    cr_assert_eq(row[1], 0xfe); /* halves are rounded away from zero */
    cr_assert_eq(row[31], 0);
    cr_assert_eq(row[32], 0x81);
    cr_assert(row[96] == 0x00 && row[97] == 0x3c && row[100] == 0 && row[101] == 0, "f16 of 1, and of 0");
    dop_cache_row_decode(DOP_TYPE_q8_0, row, 96, y);
    cr_assert(y[0] == 127 && y[1] == -2 && y[31] == 0 && y[64] == 0);
    dop_cache_row_encode(DOP_TYPE_q4_0, x, 96, row);
    cr_assert_eq(row[16], 0xf0); /* -16 is 0, 15.5 is cut to 15 */
    cr_assert_eq(row[17] & 15, 10);
    cr_assert(row[50] == 0x00 && row[51] == 0x40, "f16 of 2");
    dop_cache_row_decode(DOP_TYPE_q4_0, row, 96, y);
    cr_assert(y[32] == -16 && y[33] == 14 && y[34] == 4 && y[95] == 0);
    dop_cache_round(DOP_TYPE_q4_0, x, 96, x);
    cr_assert_arr_eq(x, y, sizeof x);
    cr_assert_eq(dop_cache_step(DOP_TYPE_q4_0, y + 32), 2);
}
