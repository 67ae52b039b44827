/* Importance matrices: quantizers that weigh, and both forms of the file. */
#include "compiler/pack/imatrix.h"
#include "compiler/pack/quant.h"
#include "ir/interp/interp.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { N = 4096 };

static uint32_t
next(uint64_t *s)
{
    *s = *s * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*s >> 33);
}

static float
normal(uint64_t *s)
{
    float sum = 0;
    for (int i = 0; i < 12; i++)
        sum += (float)(next(s) % 65536) / 65536.0f;
    return sum - 6;
}

/* Values as weights are, and importance as activations give it: a few inputs matter a hundred times more than most. */
static void
make(uint64_t seed, float *x, float *w)
{
    double sum = 0;
    for (uint32_t i = 0; i < N; i++) {
        x[i] = normal(&seed);
        w[i] = expf(1.5f * normal(&seed));
        sum += (double)w[i];
    }
    for (uint32_t i = 0; i < N; i++)
        w[i] = (float)((double)w[i] * N / sum);
}

/* Weighted squared error of what a quantizer made. */
static double
error_of(dop_type t, const float *x, const float *by, const float *w)
{
    static uint8_t blocks[5 * N];
    static float y[N];
    double e = 0;
    dop_quantize_row(t, x, by, N, blocks);
    dop_decode_row(t, blocks, N, y);
    for (uint32_t i = 0; i < N; i++)
        e += (double)w[i] * ((double)y[i] - (double)x[i]) * ((double)y[i] - (double)x[i]);
    return e;
}

/* Each quantizer makes use of them.  Types with more bits have less to gain. */
Test(imatrix, every_quantizer_weighs)
{
    static float x[N], w[N], ones[N];
    make(7, x, w);
    for (uint32_t i = 0; i < N; i++)
        ones[i] = 1;
    for (int t = 0; t < DOP_TYPE_COUNT; t++) {
        if (!dop_quantizable((dop_type)t))
            continue;
        const double plain = error_of((dop_type)t, x, NULL, w), weighed = error_of((dop_type)t, x, w, w);
        const double most = t == DOP_TYPE_mxfp4   ? 0.998
                            : t == DOP_TYPE_nvfp4 ? 0.99
                                                  : 0.85; /* few scales to choose from */
        cr_expect(weighed < most * plain, "%s: %g of %g", dop_type_of((dop_type)t)->name, weighed, plain);
        const double equal = error_of((dop_type)t, x, ones, ones), none = error_of((dop_type)t, x, NULL, ones);
        cr_expect(equal <= none * 1.0001, "%s: with equal weights %g, without %g", dop_type_of((dop_type)t)->name,
                  equal, none);
    }
}

/* No worse than llama.cpp's quantizer (its library of release 3.22.1 of node-llama-cpp) on the same values and importance. */
Test(imatrix, no_worse_than_another_quantizer)
{
    static const struct {
        dop_type type;
        double error;
    } rows[] = {{DOP_TYPE_q4_0, 20.091},  {DOP_TYPE_q5_1, 2.6846},  {DOP_TYPE_q8_0, 0.10518},
                {DOP_TYPE_q2_k, 160.34},  {DOP_TYPE_q3_k, 58.218},  {DOP_TYPE_q4_k, 12.721},
                {DOP_TYPE_q5_k, 3.2362},  {DOP_TYPE_q6_k, 0.89293}, {DOP_TYPE_iq4_xs, 17.540},
                {DOP_TYPE_iq3_s, 45.144}, {DOP_TYPE_mxfp4, 49.853}, {DOP_TYPE_nvfp4, 36.171}};
    static float x[N], w[N];
    make(7, x, w);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const double e = error_of(rows[i].type, x, w, w);
        cr_expect(e <= rows[i].error && e > rows[i].error / 3, "%s: %g, the other has %g",
                  dop_type_of(rows[i].type)->name, e, rows[i].error);
    }
}

/* The least weighted error of 32 values as scale * integer, by trying scales of both signs in small steps. */
static double
least_error(const float *x, const float *w, int lo, int hi)
{
    float most = 0;
    double least = INFINITY;
    for (uint32_t i = 0; i < 32; i++)
        most = fmaxf(most, fabsf(x[i]));
    for (int k = -4000; k <= 4000; k++) {
        const float d = dop_f16_to_f32(dop_f32_to_f16(most * (float)k / (1000.0f * (float)hi)));
        double e = 0;
        for (uint32_t i = 0; i < 32 && k != 0; i++) {
            const float q = fminf(fmaxf(rintf(x[i] / d), (float)lo), (float)hi), off = x[i] - d * q;
            e += (double)w[i] * (double)off * (double)off;
        }
        if (k != 0 && e < least)
            least = e;
    }
    return least;
}

/* No quantizer of q4_0 and q8_0 is better than that search; the best possible one is hardly better than ours. */
Test(imatrix, q4_0_and_q8_0_are_near_the_best)
{
    static float x[N], w[N];
    double least4 = 0, least8 = 0;
    make(9, x, w);
    for (uint32_t i = 0; i < N; i += 32) {
        least4 += least_error(x + i, w + i, -8, 7);
        least8 += least_error(x + i, w + i, -128, 127);
    }
    const double ours4 = error_of(DOP_TYPE_q4_0, x, w, w), ours8 = error_of(DOP_TYPE_q8_0, x, w, w);
    cr_expect(ours4 < 1.04 * least4, "q4_0: %g, possible is %g", ours4, least4);
    cr_expect(ours8 < 1.25 * least8, "q8_0: %g, possible is %g", ours8, least8);
}

/* Zeros, a single input that matters, huge ratios: finite results. */
Test(imatrix, extreme_importance)
{
    static float x[N], w[N], y[N];
    static uint8_t blocks[5 * N];
    make(11, x, w);
    for (int kind = 0; kind < 4; kind++)
        for (int t = 0; t < DOP_TYPE_COUNT; t++) {
            if (!dop_quantizable((dop_type)t))
                continue;
            for (uint32_t i = 0; i < N; i++)
                w[i] = kind == 0   ? 0
                       : kind == 1 ? (i % 64 == 3 ? N : 0)
                       : kind == 2 ? ldexpf(1, (int)(i % 60) - 30)
                                   : 1e30f;
            dop_quantize_row((dop_type)t, x, w, N, blocks);
            dop_decode_row((dop_type)t, blocks, N, y);
            for (uint32_t i = 0; i < N; i++)
                cr_assert(isfinite(y[i]) && fabsf(y[i]) < 40, "%s: %g became %g", dop_type_of((dop_type)t)->name,
                          (double)x[i], (double)y[i]);
        }
}

/* --- files ---------------------------------------------------------------------------------------------------------------- */

static void
put(dop_buf *b, const void *p, size_t n)
{
    dop_buf_append(b, p, n);
    cr_assert(!b->failed);
}

static void
put_u32(dop_buf *b, uint32_t v)
{
    put(b, &v, 4);
}

static void
put_u64(dop_buf *b, uint64_t v)
{
    put(b, &v, 8);
}

static void
put_string(dop_buf *b, const char *s)
{
    put_u64(b, strlen(s));
    put(b, s, strlen(s));
}

static void
put_tensor(dop_buf *b, const char *name, uint64_t d0, uint64_t d1, uint64_t offset)
{
    put_string(b, name);
    put_u32(b, 2);
    put_u64(b, d0);
    put_u64(b, d1);
    put_u32(b, 0); /* F32 */
    put_u64(b, offset);
}

static void
align(dop_buf *b)
{
    while (b->size % 32)
        put(b, "", 1);
}

/* Of one matrix of 4 inputs, and of two experts of 3 inputs, the second of which had no rows. */
static void
make_gguf(dop_buf *b)
{
    static const float sums[] = {8, 0, 4, 4}, rows[] = {2}, of_experts[] = {3, 6, 9, 0, 0, 0}, rows_each[] = {3, 0};
    put(b, "GGUF", 4);
    put_u32(b, 3);
    put_u64(b, 4);
    put_u64(b, 1);
    put_string(b, "general.type");
    put_u32(b, 8);
    put_string(b, "imatrix");
    put_tensor(b, "blk.0.attn_q.weight.in_sum2", 4, 1, 0);
    put_tensor(b, "blk.0.attn_q.weight.counts", 1, 1, 32);
    put_tensor(b, "blk.1.ffn_up_exps.weight.in_sum2", 3, 2, 64);
    put_tensor(b, "blk.1.ffn_up_exps.weight.counts", 1, 2, 96);
    align(b);
    put(b, sums, sizeof sums);
    align(b);
    put(b, rows, sizeof rows);
    align(b);
    put(b, of_experts, sizeof of_experts);
    align(b);
    put(b, rows_each, sizeof rows_each);
    align(b);
}

static void
make_old(dop_buf *b)
{
    static const float values[] = {8, 0, 4, 4, 3, 6, 9, 0, 0, 0};
    put_u32(b, 2);
    put_u32(b, 19);
    put(b, "blk.0.attn_q.weight", 19);
    put_u32(b, 2);
    put_u32(b, 4);
    put(b, values, 16);
    put_u32(b, 24);
    put(b, "blk.1.ffn_up_exps.weight", 24);
    put_u32(b, 2);
    put_u32(b, 6);
    put(b, values + 4, 24);
    put_u32(b, 2); /* chunks, and the name of the text */
    put_u32(b, 5);
    put(b, "a.txt", 5);
}

static const char *
write_file(const dop_buf *b)
{
    static char path[64];
    snprintf(path, sizeof path, "/tmp/imatrix-%d", (int)getpid());
    FILE *f = fopen(path, "wb");
    cr_assert(f && fwrite(b->data, 1, b->size, f) == b->size && fclose(f) == 0);
    return path;
}

static void
check_file(const dop_buf *b)
{
    dop_arena arena;
    dop_diag diag = {0};
    const dop_imatrix *m = NULL;
    const char *path = write_file(b);
    dop_arena_init(&arena);
    cr_assert_eq(dop_imatrix_open(path, &arena, &diag, &m), DOP_OK, "%s", diag.message);
    float out[4];
    dop_weight q = {
        .name = "L0.q", .source = "model.q", .gguf = "blk.0.attn_q.weight", .rank = 2, .rows = 8, .cols = 4};
    cr_assert(dop_imatrix_columns(m, &q, 0, out));
    cr_expect(out[0] == 2 && out[1] == 0 && out[2] == 1 && out[3] == 1, "%g %g %g %g", (double)out[0], (double)out[1],
              (double)out[2], (double)out[3]);
    dop_weight up = {.name = "L1.expert_up",
                     .source = "model.up",
                     .gguf = "blk.1.ffn_up_exps.weight",
                     .rank = 3,
                     .experts = 2,
                     .rows = 8,
                     .cols = 3};
    cr_assert(dop_imatrix_columns(m, &up, 0, out));
    cr_expect(out[0] == 0.5f && out[1] == 1 && out[2] == 1.5f);
    cr_expect(!dop_imatrix_columns(m, &up, 1, out), "an expert without rows");
    dop_weight other = {
        .name = "L0.k", .source = "model.k", .gguf = "blk.0.attn_k.weight", .rank = 2, .rows = 8, .cols = 4};
    cr_expect(!dop_imatrix_columns(m, &other, 0, out));
    dop_weight items[] = {other, q, up};
    const bool wanted[] = {true, true, true};
    dop_weights w = {.n = 3, .items = items};
    uint32_t without = 0;
    cr_expect_eq(dop_imatrix_check(m, &w, wanted, &diag, &without), DOP_OK, "%s", diag.message);
    cr_expect_eq(without, 1);
    items[1].cols = 5;
    cr_expect_eq(dop_imatrix_check(m, &w, wanted, &diag, &without), DOP_E_INPUT);
    cr_expect(strstr(diag.message, "has 4 values, and the matrix model.q of this model has 5 inputs"), "%s",
              diag.message);
    w.n = 1;
    diag = (dop_diag){0};
    cr_expect_eq(dop_imatrix_check(m, &w, wanted, &diag, &without), DOP_E_INPUT);
    cr_expect(strstr(diag.message, "knows none of the matrices"), "%s", diag.message);
    dop_imatrix_close(m);
    dop_arena_finish(&arena);
    unlink(path);
}

Test(imatrix, gguf)
{
    dop_buf b = {0};
    make_gguf(&b);
    check_file(&b);
    dop_buf_finish(&b);
}

Test(imatrix, old_form)
{
    dop_buf b = {0};
    make_old(&b);
    check_file(&b);
    dop_buf_finish(&b);
}

/* Cut off anywhere, or with any word replaced: refused in words, or read; never anything else (sanitizers look). */
static void
damage(const dop_buf *b)
{
    uint32_t refused = 0;
    for (size_t i = 0; i < b->size; i += 3)
        for (int kind = 0; kind < 3; kind++) {
            dop_arena arena;
            dop_diag diag = {0};
            const dop_imatrix *m = NULL;
            dop_buf copy = {0};
            put(&copy, b->data, kind == 0 ? i : b->size);
            for (size_t k = i; k < i + 4 && k < copy.size && kind; k++)
                copy.data[k] = kind == 1 ? (char)0xff : 0;
            const char *path = write_file(&copy);
            dop_arena_init(&arena);
            const dop_status st = dop_imatrix_open(path, &arena, &diag, &m);
            cr_assert(st == DOP_OK || (st == DOP_E_INPUT && diag.message[0] && !strchr(diag.message, '\n')), "%s",
                      diag.message);
            refused += st != DOP_OK;
            if (st == DOP_OK)
                dop_imatrix_close(m);
            dop_arena_finish(&arena);
            dop_buf_finish(&copy);
            unlink(path);
        }
    cr_expect_gt(refused, b->size / 4);
}

Test(imatrix, damaged_files)
{
    dop_buf b = {0}, old = {0};
    make_gguf(&b);
    make_old(&old);
    damage(&b);
    damage(&old);
    dop_buf_finish(&b);
    dop_buf_finish(&old);
}
