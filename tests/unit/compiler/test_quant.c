/* Quantizers and --quant: errors against plain rounding and against published files, specifications. */
#include "base/format/gguf.h"
#include "compiler/pack/quant.h"
#include "compiler/pack/quant_lanes.h"
#include "ir/interp/interp.h"

#include <criterion/criterion.h>
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static uint32_t
next(uint64_t *s)
{
    *s = *s * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*s >> 33);
}

/* Roughly normal. */
static float
normal(uint64_t *s)
{
    float sum = 0;
    for (int i = 0; i < 12; i++)
        sum += (float)(next(s) % 65536) / 65536.0f;
    return sum - 6;
}

/* Root mean square error of quantizing n values, over their root mean square. */
static double
relative_error(dop_type t, const float *x, uint32_t n)
{
    uint64_t bytes = 0;
    cr_assert(dop_type_row_bytes(t, n, &bytes));
    uint8_t *blocks = malloc(bytes);
    float *back = malloc((size_t)n * sizeof *back);
    double e = 0, xx = 0;
    dop_quantize_row(t, x, NULL, n, blocks);
    dop_decode_row(t, blocks, n, back);
    for (uint32_t i = 0; i < n; i++) {
        e += ((double)back[i] - (double)x[i]) * ((double)back[i] - (double)x[i]);
        xx += (double)x[i] * (double)x[i];
    }
    free(blocks);
    free(back);
    return sqrt(e / xx);
}

/* Bounds a little above what normal values give; a wrong field in a block is off by far more. */
Test(quant, errors_of_normal_values)
{
    static const struct {
        dop_type type;
        double bound;
    } rows[] = {
        {DOP_TYPE_q8_0, 0.0060},
        {DOP_TYPE_q6_k, 0.019},
        {DOP_TYPE_q5_k, 0.036},
        {DOP_TYPE_q5_1, 0.036},
        {DOP_TYPE_q4_k, 0.073},
        {DOP_TYPE_q4_0, 0.085},
        {DOP_TYPE_mxfp4, 0.125},
        {DOP_TYPE_int4_g32, 0.072},
        {DOP_TYPE_int4_g64, 0.082},
        {DOP_TYPE_int4_g128, 0.092},
        /* What llama.cpp's quantizer leaves of other normal values, of deviation 1 (tests/types). */
        {DOP_TYPE_q2_k, 0.2657},
        {DOP_TYPE_q3_k, 0.1468},
        {DOP_TYPE_iq4_xs, 0.0780},
        {DOP_TYPE_iq3_s, 0.1349},
    };
    enum { N = 8192 };
    float *x = malloc(N * sizeof *x);
    uint64_t seed = 3;
    for (int i = 0; i < N; i++)
        x[i] = 0.02f * normal(&seed);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        double e = relative_error(rows[i].type, x, N);
        cr_expect(dop_quantizable(rows[i].type));
        cr_expect(e < rows[i].bound && e > rows[i].bound / 4, "%s: %g", dop_type_of(rows[i].type)->name, e);
    }
    free(x);
}

/* Scales of nvfp4 have few bits for values as small as weights are. */
Test(quant, nvfp4_of_values_of_deviation_1)
{
    enum { N = 8192 };
    float *x = malloc(N * sizeof *x);
    uint64_t seed = 5;
    for (int i = 0; i < N; i++)
        x[i] = normal(&seed);
    double e = relative_error(DOP_TYPE_nvfp4, x, N);
    cr_expect(e < 0.0955 && e > 0.05, "%g", e);
    free(x);
}

/* Zeros, constants of both signs, one outlier, subnormal and huge values: finite results, and zeros stay zeros. */
Test(quant, extreme_blocks)
{
    static const float fills[] = {0, 1, -1, 3e-42f, 1e-20f, 60000, -60000};
    for (int t = 0; t < DOP_TYPE_COUNT; t++) {
        if (!dop_quantizable((dop_type)t))
            continue;
        for (size_t f = 0; f < sizeof fills / sizeof *fills; f++)
            for (int outlier = 0; outlier < 2; outlier++) {
                float x[256], y[256];
                uint8_t blocks[600];
                for (int i = 0; i < 256; i++)
                    x[i] = fills[f];
                if (outlier)
                    x[17] = -5;
                dop_quantize_row((dop_type)t, x, NULL, 256, blocks);
                dop_decode_row((dop_type)t, blocks, 256, y);
                for (int i = 0; i < 256; i++) {
                    cr_assert(isfinite(y[i]), "%s of %g", dop_type_of((dop_type)t)->name, (double)fills[f]);
                    if (!outlier && (fills[f] == 0 || fabsf(fills[f]) >= 1) &&
                        (t != DOP_TYPE_nvfp4 || fabsf(fills[f]) <= 2688)) /* its largest number */
                        cr_assert(fabsf(y[i] - x[i]) <= 0.26f * fabsf(x[i]), "%s: %g became %g",
                                  dop_type_of((dop_type)t)->name, (double)x[i], (double)y[i]);
                }
            }
    }
}

/* A row that does not fill its last block. */
Test(quant, short_rows)
{
    uint64_t seed = 5;
    float x[300];
    for (int i = 0; i < 300; i++)
        x[i] = normal(&seed);
    for (int t = 0; t < DOP_TYPE_COUNT; t++)
        if (dop_quantizable((dop_type)t)) {
            double e = relative_error((dop_type)t, x, 300);
            cr_assert(e < (t == DOP_TYPE_q2_k   ? 0.27
                           : t == DOP_TYPE_q3_k ? 0.15
                                                : 0.14),
                      "%s: %g", dop_type_of((dop_type)t)->name, e);
        }
}

/* --- lanes ------------------------------------------------------------------------------------------------------------- */

/* Eight blocks of n values through every operation, as bytes. */
static void
through_lanes(const dop_lanes *l, const float *x, const float *w, uint32_t n, dop_buf *out)
{
    float side[DOP_LANES * 128], scale[DOP_LANES], off[DOP_LANES], error[DOP_LANES];
    uint8_t q[128];
    dop_lane_sums sums = {0};
    l->side_by_side(x, n, side);
    dop_buf_append(out, side, DOP_LANES * n * sizeof *side);
    l->fit_scale(side, w, n, -8, 7, scale);
    dop_buf_append(out, scale, sizeof scale);
    l->fit_scale(side, w, n, -32, 31, scale);
    dop_buf_append(out, scale, sizeof scale);
    l->error_e2m1(side, w, n, scale, error);
    dop_buf_append(out, error, sizeof error);
    for (int free_off = 0; free_off < 2; free_off++) {
        l->fit_affine(side, w, n, 15, free_off, scale, off);
        dop_buf_append(out, scale, sizeof scale);
        dop_buf_append(out, off, sizeof off);
        l->error(side, w, n, scale, off, 0, 15, error);
        dop_buf_append(out, error, sizeof error);
    }
    l->round(x, n, scale[0] > 0 ? 1 / scale[0] : 0, off[0], 0, 15, q);
    dop_buf_append(out, q, n);
    for (int j = 0; j < DOP_LANES; j++)
        scale[j] = scale[j] > 0 ? 1 / scale[j] : 0;
    l->sums(side, w, n, scale, off, 0, 15, &sums);
    dop_buf_append(out, &sums, sizeof sums);
    cr_assert(!out->failed);
}

/* The same bytes on every machine: with narrow vectors as with wide ones, and those that the formulas say. */
Test(quant, lanes)
{
    static const uint32_t sizes[] = {16, 32, 128};
    uint64_t seed = 11;
    for (int round = 0; round < 60; round++) {
        float x[DOP_LANES * 128], w[DOP_LANES * 128];
        const uint32_t n = sizes[round % 3];
        for (uint32_t i = 0; i < DOP_LANES * n; i++)
            x[i] = i / n == 3 ? 0 : i / n == 4 ? 0.5f : ldexpf(normal(&seed), -(int)(i / n) * round / 4);
        dop_buf narrow = {0}, best = {0};
        for (uint32_t i = 0; i < DOP_LANES * n; i++)
            w[i] = (float)(next(&seed) % 1000) / 100;
        const float *weights = round % 2 ? w : NULL;
        through_lanes(&dop_lanes_of_4, x, weights, n, &narrow);
        through_lanes(dop_lanes_best(), x, weights, n, &best);
        cr_assert(narrow.size == best.size && memcmp(narrow.data, best.data, best.size) == 0, "%u values", n);
        dop_buf_finish(&narrow);
        dop_buf_finish(&best);
    }
    if (dop_lanes_best() == &dop_lanes_of_4)
        cr_skip_test("this machine has the narrow vectors only");
}

/* --- against the files of another quantizer, made from the same values ---------------------------------------------------- */

static dop_type
gguf_type(uint32_t number)
{
    dop_gguf_tensor_info info;
    char name[32];
    dop_type t = DOP_TYPE_none;
    cr_assert(dop_gguf_tensor_type(number, &info));
    snprintf(name, sizeof name, "%s", info.name);
    for (char *p = name; *p; p++)
        *p = (char)tolower((unsigned char)*p);
    cr_assert(dop_type_parse(name, strlen(name), &t), "%s", name);
    return t;
}

static void
compare_tensor(const dop_gguf *from, const dop_gguf *file, const dop_gguf_tensor *t)
{
    char name[256];
    snprintf(name, sizeof name, "%.*s", (int)t->name.len, t->name.data);
    const dop_gguf_tensor *o = dop_gguf_find_tensor(from, name);
    cr_assert_not_null(o, "%s", name);
    dop_type type = gguf_type(t->type), source = gguf_type(o->type);
    if (!dop_quantizable(type))
        return;
    uint32_t cols = (uint32_t)t->dims[0];
    uint64_t bytes = 0, source_bytes = 0;
    cr_assert(dop_type_row_bytes(type, cols, &bytes) && dop_type_row_bytes(source, cols, &source_bytes));
    float *x = malloc(cols * sizeof *x), *theirs = malloc(cols * sizeof *x), *ours = malloc(cols * sizeof *x);
    uint8_t *blocks = malloc(bytes);
    double e_theirs = 0, e_ours = 0;
    for (uint64_t r = 0; r < t->dims[1]; r++) {
        dop_decode_row(source, from->map.data + o->offset + r * source_bytes, cols, x);
        dop_decode_row(type, file->map.data + t->offset + r * bytes, cols, theirs);
        dop_quantize_row(type, x, NULL, cols, blocks);
        dop_decode_row(type, blocks, cols, ours);
        for (uint32_t c = 0; c < cols; c++) {
            e_theirs += pow((double)theirs[c] - (double)x[c], 2);
            e_ours += pow((double)ours[c] - (double)x[c], 2);
        }
    }
    cr_expect(e_ours <= e_theirs, "%s as %s: squared error %g, the published file has %g", name,
              dop_type_of(type)->name, e_ours, e_theirs);
    free(x);
    free(theirs);
    free(ours);
    free(blocks);
}

Test(quant, no_worse_than_published_files)
{
    static const char *const kinds[] = {"q8_0", "q6_k", "q4_k_m", "q4_0", "iq4_xs", "nvfp4", "iq3_s"};
    const char *base = DOP_SHARED_DIR "/models/shakespeare-gemma3-gguf/shakespeare-gemma3-";
    char path[512];
    dop_diag diag = {0};
    dop_gguf from;
    snprintf(path, sizeof path, "%sf16.gguf", base);
    if (access(path, R_OK) != 0)
        cr_skip_test("no %s", path);
    cr_assert_eq(dop_gguf_open(path, &diag, &from), DOP_OK, "%s", diag.message);
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        char other[512];
        dop_gguf file;
        snprintf(other, sizeof other, "%s%s.gguf", base, kinds[k]);
        cr_assert_eq(dop_gguf_open(other, &diag, &file), DOP_OK, "%s", diag.message);
        for (size_t i = 0; i < file.tensor_count; i++)
            compare_tensor(&from, &file, &file.tensors[i]);
        dop_gguf_close(&file);
    }
    dop_gguf_close(&from);
}

/* --- --quant ---------------------------------------------------------------------------------------------------------------- */

static dop_weight items[] = {
    {.name = "L0.attn_norm", .source = "blk.0.attn_norm.weight", .type = DOP_TYPE_f32, .rank = 1},
    {.name = "L0.down", .source = "blk.0.ffn_down.weight", .type = DOP_TYPE_bf16, .rank = 2},
    {.name = "L0.q", .source = "blk.0.attn_q.weight", .type = DOP_TYPE_bf16, .rank = 2},
    {.name = "L1.down", .source = "blk.1.ffn_down.weight", .type = DOP_TYPE_bf16, .rank = 2},
    {.name = "L1.q", .source = "blk.1.attn_q.weight", .type = DOP_TYPE_bf16, .rank = 2},
    {.name = "embed", .source = "token_embd.weight", .type = DOP_TYPE_bf16, .rank = 2},
};
enum { N_ITEMS = sizeof items / sizeof *items };

/* Types in the order of items, or the error's text. */
static void
expect_types(const char *spec, const char *expected)
{
    dop_weights w = {.n = N_ITEMS, .items = items};
    dop_type types[N_ITEMS], asked[N_ITEMS];
    dop_diag diag = {0};
    char got[512] = "";
    if (dop_quant_choose(spec, &w, &diag, types, asked) == DOP_OK) {
        for (int i = 0; i < N_ITEMS; i++)
            snprintf(got + strlen(got), sizeof got - strlen(got), "%s%s", i ? " " : "", dop_type_of(types[i])->name);
        cr_expect_str_eq(got, expected, "--quant %s: %s", spec ? spec : "", got);
    } else {
        cr_expect(strstr(diag.message, expected), "--quant %s: %s", spec, diag.message);
    }
}

/* A K type gives way where padding would cost more than a type that is no worse. */
Test(quant, fallback)
{
    static const struct {
        uint32_t cols;
        dop_type asked, made;
    } cases[] = {
        {576, DOP_TYPE_q4_k, DOP_TYPE_int4_g32},  {576, DOP_TYPE_q5_k, DOP_TYPE_q5_1},
        {576, DOP_TYPE_q6_k, DOP_TYPE_q8_0},      {768, DOP_TYPE_q4_k, DOP_TYPE_q4_k},
        {768, DOP_TYPE_q6_k, DOP_TYPE_q6_k},      {1152, DOP_TYPE_q6_k, DOP_TYPE_q6_k},
        {1100, DOP_TYPE_q4_k, DOP_TYPE_int4_g32}, {576, DOP_TYPE_q8_0, DOP_TYPE_q8_0},
        {64, DOP_TYPE_q4_k, DOP_TYPE_int4_g32},
    };
    uint64_t seed = 9;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        float x[1152];
        dop_type made = dop_quant_fallback(cases[i].asked, 64, cases[i].cols);
        cr_expect(made == cases[i].made, "%u columns of %s: %s", cases[i].cols, dop_type_of(cases[i].asked)->name,
                  dop_type_of(made)->name);
        for (uint32_t k = 0; k < cases[i].cols; k++)
            x[k] = normal(&seed);
        if (made != cases[i].asked)
            cr_expect(relative_error(made, x, cases[i].cols) < relative_error(cases[i].asked, x, cases[i].cols) * 1.02);
    }
    /* What a file stores padded stays; what is made does not. */
    dop_weight w[2] = {{.name = "L0.q", .source = "q", .type = DOP_TYPE_q4_k, .rank = 2, .rows = 8, .cols = 576},
                       {.name = "L0.k", .source = "k", .type = DOP_TYPE_f16, .rank = 2, .rows = 8, .cols = 576}};
    dop_type types[2], asked[2];
    cr_assert_eq(dop_quant_choose("q4_k", &(dop_weights){.n = 2, .items = w}, NULL, types, asked), DOP_OK);
    cr_expect(types[0] == DOP_TYPE_q4_k && types[1] == DOP_TYPE_int4_g32);
    cr_expect(asked[0] == DOP_TYPE_q4_k && asked[1] == DOP_TYPE_q4_k);
}

Test(quant, specifications)
{
    expect_types(NULL, "f32 bf16 bf16 bf16 bf16 bf16");
    expect_types("keep", "f32 bf16 bf16 bf16 bf16 bf16");
    expect_types("q4_k", "f32 q4_k q4_k q4_k q4_k q4_k");
    expect_types("attn=q8_0,ffn=q4_0,embed=q6_k", "f32 q4_0 q8_0 q4_0 q8_0 q6_k");
    expect_types("all=q4_0,embed=keep,q=f16", "f32 q4_0 f16 q4_0 f16 bf16");
    expect_types("q9", "`quant`: unknown type q9; known are keep f32");
    expect_types("q5_0", "weights can be read as q5_0, but not made");
    expect_types("u32", "weights can be read as u32, but not made");
    expect_types("ffn=", "unknown type ;");
    expect_types("ffn=q4_0,,", "expected CLASS=TYPE instead of \"\"");
    expect_types("ffn=q4_0,q8_0", "expected CLASS=TYPE instead of \"q8_0\"");
    expect_types("head=q4_0",
                 "no matrix of class head; classes are attn, ffn, embed, head (here embed is also the output)");
    expect_types("none.yaml", "cannot open");
}

static void
expect_file(const char *text, const char *expected)
{
    char path[] = "/tmp/quant-XXXXXX.yaml";
    int fd = mkstemps(path, 5);
    cr_assert(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    close(fd);
    expect_types(path, expected);
    unlink(path);
}

Test(quant, files_of_patterns)
{
    expect_file("L0.*: q8_0\n\"*ffn_down*\": q4_k\n", "f32 q8_0 q8_0 q4_k bf16 bf16");
    expect_file("token_embd.weight: keep\n'*': q4_0\n", "f32 q4_0 q4_0 q4_0 q4_0 bf16");
    expect_file("L7.*: q8_0\n", "the pattern L7.* fits no matrix of the model");
    expect_file("L0.*: q7\n", "L0.*: unknown type q7");
    expect_file("- a\n", "expected a mapping of tensor name patterns to types");
    expect_file("a: [1]\n", "expected PATTERN: TYPE");
    expect_file("a: b: c\n", "not YAML");
}
