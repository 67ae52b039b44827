/* Experts of few rows on a software device, against the interpreter: a whole layer's choice, products and sum, as the
 * passes fuse it, for every way of choosing, and every kind of weights. */
#include "tests/unit/kernels_util.h"

#include "base/base.h"

#include <criterion/criterion.h>

typedef struct layer {
    const char *what;
    uint32_t t, experts, k, hidden, width, groups, keep;
    bool sigmoid, correction, normalized, bias, shared;
    const char *up, *down; /* types of the weights */
} layer;

static const layer layers[] = {
    {"8 experts, 3 active, odd sizes", 1, 8, 3, 36, 20, 1, 1, false, false, true, false, false, "f16", "bf16"},
    {"groups, correction, a shared expert", 1, 16, 4, 40, 36, 4, 2, true, true, true, false, true, "bf16", "f16"},
    {"more scores than invocations", 1, 300, 5, 32, 8, 1, 1, false, true, false, false, false, "f16", "f16"},
    {"all experts, and rows that end within a unit", 1, 3, 3, 40, 40, 1, 1, false, false, true, false, false, "q8_0",
     "q5_1"},
    {"one expert of two, three rows", 3, 2, 1, 36, 20, 1, 1, true, false, false, false, false, "f16", "q4_0"},
    {"rows longer than shared memory, of which one is a shared expert's", 1, 4, 3, 16, 2720, 1, 1, false, false, false,
     false, true, "f16", "f16"},
    {"three rows, groups", 3, 12, 2, 64, 32, 3, 1, true, true, true, true, false, "q5_k", "f16"},
    {"6 experts, 2 active, biases", 1, 6, 2, 72, 24, 1, 1, false, false, true, true, false, "f32", "f16"},
    {"blocks of 256, whole and in part", 1, 5, 2, 256, 96, 1, 1, true, false, true, false, false, "q4_k", "q6_k"},
    {"blocks of 32", 1, 7, 3, 96, 64, 1, 1, false, false, false, true, true, "mxfp4", "q8_0"},
    {"levels", 1, 4, 2, 256, 64, 1, 1, false, false, true, false, false, "iq4_xs", "nvfp4"},
    {"three bits", 1, 4, 2, 256, 256, 1, 1, false, false, true, false, true, "iq3_s", "iq3_xxs"},
    {"two bits", 1, 4, 2, 296, 256, 1, 1, false, false, true, true, false, "iq2_xs", "iq2_xxs"},
    {"two bits and one", 3, 4, 2, 256, 40, 1, 1, false, false, true, false, false, "iq2_s", "iq1_s"},
    {"one bit, three levels", 1, 4, 2, 256, 256, 1, 1, false, false, true, false, false, "iq1_m", "tq1_0"},
    {"three levels and four", 1, 4, 2, 256, 256, 1, 1, false, false, true, false, false, "tq2_0", "q2_0"},
    {"signs", 3, 4, 2, 128, 128, 1, 1, false, false, true, false, false, "q1_0", "q1_0"},
};

enum {
    N_LAYERS = sizeof layers / sizeof *layers,
    N_SHAPES = 7
}; /* of those after the first N_SHAPES golden.gpt_oss has the biases, and the others differ in their types only */

static void
write_choice(const layer *s, dop_buf *out)
{
    const uint32_t e = s->experts, k = s->k;
    const char *by = "sc";
    dop_buf_printf(out, "  %%r:f32[T,%u] = matmul %%n, %%wr\n  %%sc:f32[T,%u] = %s %%r\n", e, e,
                   s->sigmoid ? "sigmoid" : "softmax");
    if (s->correction) {
        dop_buf_printf(out, "  %%by:f32[T,%u] = add %%sc, %%c\n", e);
        by = "by";
    }
    dop_buf_printf(out,
                   "  %%ids:u32[T,%u] = top_k %%%s k=%u groups=%u group_best=%u group_keep=%u\n"
                   "  %%p:f32[T,%u] = pick %%sc, %%ids\n",
                   k, by, k, s->groups, s->groups > 1 ? 2 : 1, s->keep, k);
    if (s->normalized)
        dop_buf_printf(out,
                       "  %%pm:f32[T,1] = row_mean %%p\n  %%ps:f32[T,1] = scale %%pm by=%u.0\n"
                       "  %%w:f32[T,%u] = div %%p, %%ps\n",
                       k, k);
    else
        dop_buf_printf(out, "  %%w:f32[T,%u] = scale %%p by=1.5\n", k);
}

static void
write_products(const layer *s, dop_buf *out)
{
    const uint32_t k = s->k, h = s->hidden, w = s->width;
    const char *up = "u", *y = "d";
    if (s->shared)
        dop_buf_printf(out,
                       "  %%sg:f32[T,%u] = matmul %%n, %%wsg\n  %%sa:f32[T,%u] = silu %%sg\n"
                       "  %%sd:f32[T,%u] = matmul %%sa, %%wsd\n",
                       w, w, h);
    dop_buf_printf(out,
                   "  %%g:f32[T,%u,%u] = matmul_at %%n, %%wg, %%ids\n"
                   "  %%u:f32[T,%u,%u] = matmul_at %%n, %%wu, %%ids\n",
                   k, w, k, w);
    if (s->bias) {
        dop_buf_printf(out, "  %%ub:f32[T,%u,%u] = gather %%bu, %%ids\n  %%u1:f32[T,%u,%u] = add %%u, %%ub\n", k, w, k,
                       w);
        up = "u1";
    }
    dop_buf_printf(out,
                   "  %%a:f32[T,%u,%u] = silu %%g\n  %%m:f32[T,%u,%u] = mul %%a, %%%s\n"
                   "  %%dx:f32[T,%u,%u] = matmul_at %%m, %%wd, %%ids\n  %%d:f32[T,%u] = weighted_sum %%dx, %%w\n",
                   k, w, k, w, up, k, h, h);
    if (s->bias) {
        dop_buf_printf(out,
                       "  %%db:f32[T,%u,%u] = gather %%bd, %%ids\n  %%ds:f32[T,%u] = weighted_sum %%db, %%w\n"
                       "  %%d1:f32[T,%u] = add %%d, %%ds\n",
                       k, h, h, h);
        y = "d1";
    }
    if (s->shared) {
        dop_buf_printf(out, "  %%dd:f32[T,%u] = add %%%s, %%sd\n", h, y);
        y = "dd";
    }
    dop_buf_printf(out, "  %%z:f32[T,%u] = add %%x, %%%s\n  return %%z\n}\n", h, y);
}

static void
write_layer(const layer *s, dop_buf *out)
{
    const uint32_t e = s->experts, h = s->hidden, w = s->width;
    dop_buf_printf(out,
                   "graph layer(T<=%u, S<=200, Q=1) {\n"
                   "  %%tok:u32[T] = input \"tokens\"\n  %%t:f16[16,%u] = weight \"t0\"\n"
                   "  %%nw:f32[%u] = weight \"v0\"\n  %%wr:f16[%u,%u] = weight \"w0\"\n"
                   "  %%wg:%s[%u,%u,%u] = weight \"w1\"\n  %%wu:%s[%u,%u,%u] = weight \"w2\"\n"
                   "  %%wd:%s[%u,%u,%u] = weight \"w3\"\n",
                   s->t, h, h, e, h, s->up, e, w, h, s->up, e, w, h, s->down, e, h, w);
    if (s->correction)
        dop_buf_printf(out, "  %%c:f32[%u] = weight \"v1\"\n", e);
    if (s->bias)
        dop_buf_printf(out, "  %%bu:bf16[%u,%u] = weight \"t1\"\n  %%bd:f32[%u,%u] = weight \"t2\"\n", e, w, e, h);
    if (s->shared)
        dop_buf_printf(out, "  %%wsg:f16[%u,%u] = weight \"w4\"\n  %%wsd:f16[%u,%u] = weight \"w5\"\n", w, h, h, w);
    dop_buf_printf(out, "  %%x:f32[T,%u] = gather %%t, %%tok\n  %%n:f32[T,%u] = rmsnorm %%x, %%nw eps=0x1p-20 add=0\n",
                   h, h);
    write_choice(s, out);
    write_products(s, out);
}

static void
check(kernel_lab *lab, const char *what, const dop_buf *text, const dop_target *target, kernel_lab_runs runs)
{
    dop_buf why = {0};
    bool ok = kernel_lab_check(lab, text->data, text->size, target, runs, &why);
    cr_expect(ok, "%s: %s\n%s", what, why.data ? why.data : "?", text->data);
    dop_buf_finish(&why);
}

/* The first n layers for all targets, the next ones up to `end` for one each. */
static void
check_layers(kernel_lab_runs runs, uint32_t n, uint32_t end)
{
    kernel_lab *lab;
    dop_buf no = {0};
    if (!kernel_lab_open(&lab, &no))
        cr_skip_test("%s", no.data ? no.data : "no device");
    for (uint32_t i = 0; i < end; i++) {
        dop_buf text = {0};
        write_layer(&layers[i], &text);
        for (uint32_t t = 0; t < KERNEL_LAB_TARGETS; t++)
            if (i < n || t == i % KERNEL_LAB_TARGETS)
                check(lab, layers[i].what, &text, kernel_lab_target(t), runs);
        dop_buf_finish(&text);
    }
    kernel_lab_close(lab);
}

/* Without fusion their kernels are those of other tests, each of one op; codes are decoded in unit.test_weight_types too. */
Test(kernels_few_rows, layers_agree_with_the_interpreter, .timeout = 300)
{
    check_layers(KERNEL_LAB_FUSED, 0, N_SHAPES);
}

Test(kernels_few_rows_whole, layers_agree_with_the_interpreter, .timeout = 600)
{
    check_layers(KERNEL_LAB_BOTH, 3, N_LAYERS);
}

/* Products of a normed row, whose statistic is summed up beside them, and of a row that is stored as halves: with as many
 * subgroups as rows, more and fewer.  Fused by default; one target for each form below. */
static void
check_statistics(bool whole)
{
    static const struct {
        uint32_t rows, cols, target; /* rows that are no whole vectors go through tiles value by value */
    } forms[] = {{2, 36, 1}, {3, 36, 1}, {8, 36, 1}, {12, 38, 2}};
    kernel_lab *lab;
    dop_buf no = {0};
    if (!kernel_lab_open(&lab, &no))
        cr_skip_test("%s", no.data ? no.data : "no device");
    for (uint32_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        const uint32_t cols = forms[i].cols;
        dop_buf text = {0};
        dop_buf_printf(&text,
                       "graph ffn(T<=%u, S<=200, Q=1) {\n"
                       "  %%tok:u32[T] = input \"tokens\"\n  %%t:f16[16,%u] = weight \"t0\"\n"
                       "  %%nw:f32[%u] = weight \"v0\"\n  %%wg:f16[72,%u] = weight \"w1\"\n"
                       "  %%wu:f16[72,%u] = weight \"w2\"\n  %%wd:f16[%u,72] = weight \"w3\"\n"
                       "  %%x:f32[T,%u] = gather %%t, %%tok\n"
                       "  %%n:f32[T,%u] = rmsnorm %%x, %%nw eps=0x1p-20 add=0\n"
                       "  %%g:f32[T,72] = matmul %%n, %%wg\n  %%u:f32[T,72] = matmul %%n, %%wu\n"
                       "  %%a:f32[T,72] = silu %%g\n  %%m:f16[T,72] = mul %%a, %%u\n"
                       "  %%d:f32[T,%u] = matmul %%m, %%wd\n  %%z:f32[T,%u] = add %%x, %%d\n  return %%z\n}\n",
                       forms[i].rows, cols, cols, cols, cols, cols, cols, cols, cols, cols);
        check(lab, "products of a normed row and of halves", &text, kernel_lab_target(forms[i].target),
              whole ? KERNEL_LAB_BOTH : KERNEL_LAB_FUSED);
        dop_buf_finish(&text);
    }
    kernel_lab_close(lab);
}

Test(kernels_few_rows, statistics_and_halves, .timeout = 300)
{
    check_statistics(false);
}

Test(kernels_few_rows_whole, statistics_and_halves, .timeout = 600)
{
    check_statistics(true);
}

/* Slot j takes matrix j: no choice, as in products of heads with a matrix each.  Many rows come in tiles of a slot, here several. */
static void
check_slots(bool whole)
{
    kernel_lab *lab;
    dop_buf no = {0};
    if (!kernel_lab_open(&lab, &no))
        cr_skip_test("%s", no.data ? no.data : "no device");
    for (uint32_t i = 0; i < 3; i++) {
        const uint32_t t = (const uint32_t[]){1, 3, 150}[i];
        dop_buf text = {0};
        dop_buf_printf(&text,
                       "graph slots(T<=%u, S<=200, Q=1) {\n"
                       "  %%tok:u32[T] = input \"tokens\"\n  %%t:f16[16,60] = weight \"t0\"\n"
                       "  %%w:q8_0[3,24,20] = weight \"w1\"\n  %%x:f32[T,60] = gather %%t, %%tok\n"
                       "  %%h:f32[T,3,20] = reshape %%x\n  %%y:f32[T,3,24] = matmul_at %%h, %%w\n"
                       "  %%z:f32[T,3,24] = scale %%y by=0.5\n  return %%z\n}\n",
                       t);
        for (uint32_t k = 0; k < KERNEL_LAB_TARGETS; k++)
            if (whole || k == i)
                check(lab, "a matrix for each slot", &text, kernel_lab_target(k),
                      whole ? KERNEL_LAB_BOTH : KERNEL_LAB_FUSED);
        dop_buf_finish(&text);
    }
    kernel_lab_close(lab);
}

Test(kernels_few_rows, a_matrix_for_each_slot, .timeout = 300)
{
    check_slots(false);
}

Test(kernels_few_rows_whole, a_matrix_for_each_slot, .timeout = 600)
{
    check_slots(true);
}

/* Products of low rank over the segments that a table names for each row, beside a product of the same row, and behind them a product
 * that reads the sum; spans of whole vectors and others, longer ones than are loaded at once, and a part of a span. */
static void
check_ranks(bool whole)
{
    kernel_lab *lab;
    dop_buf no = {0};
    if (!kernel_lab_open(&lab, &no))
        cr_skip_test("%s", no.data ? no.data : "no device");
    static const struct {
        uint32_t span, used, ranks, t;
    } forms[] = {{8, 0, 32, 1}, {3, 0, 16, 3}, {24, 0, 48, 3}, {16, 2, 64, 3}};
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        const uint32_t span = forms[i].span, used = forms[i].used, ranks = forms[i].ranks, t = forms[i].t;
        dop_buf text = {0};
        dop_buf_printf(
            &text,
            "graph adapted(T<=%u, S<=200, Q=1) {\n"
            "  %%tok:u32[T] = input \"tokens\"\n  %%t:f16[16,64] = weight \"t0\"\n  %%tn:f32[16,4] = weight \"t1\"\n"
            "  %%w:q8_0[40,64] = weight \"w1\"\n  %%v:f16[24,40] = weight \"w2\"\n"
            "  %%a:f16[%u,64] = weight \"w3\"\n  %%b:f16[40,%u] = weight \"w4\"\n"
            "  %%x:f32[T,64] = gather %%t, %%tok\n  %%n0:f32[T,4] = gather %%tn, %%tok\n"
            "  %%n1:f32[T,4] = scale %%n0 by=3\n  %%n:f32[T,4] = offset %%n1 by=2\n"
            "  %%q:f32[T,40] = matmul %%x, %%w\n  %%l:f32[T,%u] = matmul %%x, %%a\n"
            "  %%u:f32[T,40] = dot_at %%l, %%b, %%n span=%u used=%u\n  %%y:f32[T,40] = add %%q, %%u\n"
            "  %%z:f32[T,24] = matmul %%y, %%v\n  return %%z, %%n\n}\n",
            t, ranks, ranks, ranks, span, used);
        for (uint32_t k = 0; k < KERNEL_LAB_TARGETS; k++)
            if (whole || k == i % KERNEL_LAB_TARGETS)
                check(lab, "chosen ranks", &text, kernel_lab_target(k), KERNEL_LAB_FUSED);
        dop_buf_finish(&text);
    }
    kernel_lab_close(lab);
}

Test(kernels_few_rows, chosen_ranks, .timeout = 300)
{
    check_ranks(false);
}

Test(kernels_few_rows_whole, chosen_ranks, .timeout = 600)
{
    check_ranks(true);
}

/* Products of stored rows share a kernel where only their depths differ: the depth is a number of the dispatch. */
Test(kernels_few_rows, products_share_a_kernel, .timeout = 300)
{
    static const char *const more[] = {"return %y, %y2, %z", "%o:f32[T,48] = matmul %y2, %u\n  return %y, %y2, %z, %o"};
    uint64_t n[2];
    kernel_lab *lab;
    dop_buf no = {0};
    if (!kernel_lab_open(&lab, &no))
        cr_skip_test("%s", no.data ? no.data : "no device");
    for (size_t i = 0; i < 2; i++) {
        dop_buf text = {0};
        dop_buf_printf(&text,
                       "graph products(T<=12, S<=200, Q=1) {\n"
                       "  %%tok:u32[T] = input \"tokens\"\n  %%t:f16[16,64] = weight \"t0\"\n"
                       "  %%w:f16[96,64] = weight \"w1\"\n  %%w2:f16[160,64] = weight \"w2\"\n"
                       "  %%v:f16[48,96] = weight \"w3\"\n  %%u:f16[48,160] = weight \"w4\"\n"
                       "  %%x:f32[T,64] = gather %%t, %%tok\n  %%y:f32[T,96] = matmul %%x, %%w\n"
                       "  %%y2:f32[T,160] = matmul %%x, %%w2\n  %%z:f32[T,48] = matmul %%y, %%v\n  %s\n}\n",
                       more[i]);
        check(lab, "products", &text, kernel_lab_target(2), KERNEL_LAB_FUSED);
        n[i] = kernel_lab_count(lab).kernels;
        dop_buf_finish(&text);
    }
    cr_expect_eq(n[0], n[1], "%llu kernels, and %llu", (unsigned long long)n[0], (unsigned long long)n[1]);
    kernel_lab_close(lab);
}

/* Every element-wise op, on values of both signs from near zero to 6; the random graphs have some of them. */
Test(kernels_few_rows, element_by_element, .timeout = 300)
{
    static const char *const ops[] = {"add %x, %v",
                                      "sub %x, %v",
                                      "mul %x, %v",
                                      "div %x, %w",
                                      "silu %x",
                                      "gelu %x",
                                      "gelu_tanh %x",
                                      "relu %x",
                                      "relu2 %x",
                                      "sigmoid %x",
                                      "tanh %x",
                                      "exp %x",
                                      "softplus %x",
                                      "at_most %x by=0.25",
                                      "at_least %x by=-0.25",
                                      "softcap %x cap=2",
                                      "scale %x by=-0.75",
                                      "offset %x by=0.5",
                                      "xielu %x, %p, %n, %b"};
    kernel_lab *lab;
    dop_buf no = {0};
    if (!kernel_lab_open(&lab, &no))
        cr_skip_test("%s", no.data ? no.data : "no device");
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        dop_buf text = {0};
        dop_buf_puts(
            &text,
            "graph each(T<=3, S<=200, Q=1) {\n  %tok:u32[T] = input \"tokens\"\n  %t:f32[16,40] = weight \"t0\"\n"
            "  %v:f32[40] = weight \"v0\"\n  %p:f32[1] = weight \"v1\"\n  %n:f32[1] = weight \"v2\"\n"
            "  %b:f32[1] = weight \"v3\"\n  %o:f32[T,40] = gather %t, %tok\n  %x:f32[T,40] = scale %o by=2\n"
            "  %s:f32[T,40] = sigmoid %x\n  %w:f32[T,40] = offset %s by=0.5\n");
        dop_buf_printf(&text, "  %%y:f32[T,40] = %s\n  return %%y\n}\n", ops[i]);
        check(lab, ops[i], &text, kernel_lab_target((uint32_t)i % KERNEL_LAB_TARGETS), KERNEL_LAB_FUSED);
        dop_buf_finish(&text);
    }
    kernel_lab_close(lab);
}

/* Caches in blocks have the bytes that GGML's formulas give (ir/graph/cache_row.h), in rows of table values that nothing rounds
 * on the way, with both signs. */
Test(kernels_few_rows, bytes_of_caches_in_blocks, .timeout = 300)
{
    static const char *const types[] = {"q8_0", "q4_0"};
    kernel_lab *lab;
    dop_buf no = {0};
    if (!kernel_lab_open(&lab, &no))
        cr_skip_test("%s", no.data ? no.data : "no device");
    for (size_t i = 0; i < 2; i++) {
        dop_buf text = {0};
        dop_buf_printf(&text,
                       "graph cache(T<=3, S<=24, Q=1) {\n"
                       "  %%tok:u32[T] = input \"tokens\"\n  %%pos:u32[T] = input \"positions\"\n"
                       "  %%seq:u32[T] = input \"sequences\"\n  %%t:f32[16,128] = weight \"t0\"\n"
                       "  %%k:%s[Q,S,2,64] = state \"k\" kind=append\n  %%v:%s[Q,S,4,32] = state \"v\" kind=append\n"
                       "  %%x:f32[T,128] = gather %%t, %%tok\n  %%x3:f32[T,2,64] = reshape %%x\n"
                       "  %%half:f32[T,128] = scale %%x by=-0.5\n  %%h:f32[T,4,32] = reshape %%half\n"
                       "  %%k1:%s[Q,S,2,64] = state_write %%k, %%x3, %%pos, %%seq\n"
                       "  %%v1:%s[Q,S,4,32] = state_write %%v, %%h, %%pos, %%seq\n  return %%k1, %%v1\n}\n",
                       types[i], types[i], types[i], types[i]);
        for (uint32_t k = 0; k < 2; k++) /* neighbouring invocations of a subgroup make a block */
            check(lab, types[i], &text, kernel_lab_target(k), KERNEL_LAB_FUSED);
        dop_buf_finish(&text);
    }
    kernel_lab_close(lab);
}

/* So many rows to a workgroup that an invocation would go round its loops more often than a software device lets it, were there
 * not more workgroups for it. */
Test(kernels_few_rows, products_of_many_turns, .timeout = 300)
{
    kernel_lab *lab;
    dop_buf no = {0}, text = {0};
    dop_target one_core = *kernel_lab_target(0);
    one_core.cores = 1;
    if (!kernel_lab_open(&lab, &no))
        cr_skip_test("%s", no.data ? no.data : "no device");
    dop_buf_puts(&text, "graph rows(T<=64, S<=200, Q=1) {\n"
                        "  %tok:u32[T] = input \"tokens\"\n  %t:f16[16,8] = weight \"t0\"\n"
                        "  %w:f16[66000,8] = weight \"w1\"\n  %x:f32[T,8] = gather %t, %tok\n"
                        "  %y:f32[T,66000] = matmul %x, %w\n  return %y\n}\n");
    check(lab, "a product of 66000 rows", &text, &one_core, KERNEL_LAB_FUSED);
    dop_buf_finish(&text);
    kernel_lab_close(lab);
}

/* ---- latent attention --------------------------------------------------------------------------------------------- */

typedef struct latent {
    const char *what;
    uint32_t t, heads, rank, rotated, plain, value;
    bool interleaved;
    uint32_t wg, shared; /* of the target: the largest workgroup, and bytes of its memory */
} latent;

/* Queries and the row of the cache are low ranks, normed, and heads of which the first values rotate; values are columns of
 * the keys.  A lane of the software device's subgroups, of which there are 8, has about as many values as one of a GPU's 32 has of
 * DeepSeek-V3's, whose sizes but for the number of heads are the next ones: code grows with them, and what a compiler takes for it
 * with more than that.  Small ones are in tests/golden/deepseek_v3. */
static const latent latents[] = {
    {"one row, rows of 160 in the cache: a head in each workgroup", 1, 2, 128, 32, 16, 16, true, 256, 9216},
    {"three rows, rows of 160", 3, 2, 128, 32, 16, 16, true, 128, 9216},
    {"one row, subgroups that take turns with their sums", 1, 2, 64, 64, 16, 80, false, 256, 8192},
};
static const latent of_full_size[] = {
    {"one row, rows of 576 in the cache: a head in each workgroup", 1, 2, 512, 64, 16, 16, true, 256, 32768},
    {"three rows, rows of 576", 3, 2, 512, 64, 16, 16, true, 128, 32768},
};

static void
write_latent(const latent *l, dop_buf *out)
{
    const uint32_t h = l->heads, r = l->rank, d = r + l->rotated, q = 48, hidden = 32;
    dop_buf_printf(out,
                   "graph latent(T<=%u, S<=100, Q=1) {\n"
                   "  %%tok:u32[T] = input \"tokens\"\n  %%pos:u32[T] = input \"positions\"\n"
                   "  %%seq:u32[T] = input \"sequences\"\n  %%t:f16[16,%u] = weight \"t0\"\n"
                   "  %%rt:f32[S,%u] = weight \"t1\"\n  %%qw:f32[%u] = weight \"v0\"\n  %%cw:f32[%u] = weight \"v1\"\n"
                   "  %%wq:f16[%u,%u] = weight \"w0\"\n  %%wc:f16[%u,%u] = weight \"w1\"\n"
                   "  %%wr:f16[%u,%u] = weight \"w2\"\n  %%wp:f16[%u,%u] = weight \"w3\"\n"
                   "  %%wt:f16[%u,%u] = weight \"w4\"\n  %%up:f16[%u,%u,%u] = weight \"w5\"\n"
                   "  %%vp:f16[%u,%u,%u] = weight \"w6\"\n  %%wo:f16[%u,%u] = weight \"w7\"\n"
                   "  %%c:f16[Q,S,1,%u] = state \"c\" kind=append\n",
                   l->t, hidden, l->rotated, q, r, q, hidden, r, hidden, l->rotated, hidden, h * l->plain, q,
                   h * l->rotated, q, h, r, l->plain, h, l->value, r, hidden, h * l->value, d);
    dop_buf_printf(out,
                   "  %%x:f32[T,%u] = gather %%t, %%tok\n  %%qa:f32[T,%u] = matmul %%x, %%wq\n"
                   "  %%qn:f32[T,%u] = rmsnorm %%qa, %%qw eps=0x1p-20 add=0\n  %%ca:f32[T,%u] = matmul %%x, %%wc\n"
                   "  %%cn:f32[T,%u] = rmsnorm %%ca, %%cw eps=0x1p-20 add=0\n  %%ra:f32[T,%u] = matmul %%x, %%wr\n"
                   "  %%p:f32[T,%u] = matmul %%qn, %%wp\n  %%ph:f32[T,%u,%u] = reshape %%p\n"
                   "  %%o:f32[T,%u] = matmul %%qn, %%wt\n  %%oh:f32[T,%u,%u] = reshape %%o\n"
                   "  %%u:f32[T,%u,%u] = matmul_at %%ph, %%up\n  %%qc:f32[T,%u,%u] = concat %%oh, %%u\n"
                   "  %%qr:f32[T,%u,%u] = rope %%qc, %%pos, %%rt dims=%u interleaved=%u\n",
                   hidden, q, q, r, r, l->rotated, h * l->plain, h, l->plain, h * l->rotated, h, l->rotated, h, r, h, d,
                   h, d, l->rotated, l->interleaved);
    dop_buf_printf(out,
                   "  %%rh:f32[T,1,%u] = reshape %%ra\n  %%ch:f32[T,1,%u] = reshape %%cn\n"
                   "  %%kc:f32[T,1,%u] = concat %%rh, %%ch\n"
                   "  %%kr:f32[T,1,%u] = rope %%kc, %%pos, %%rt dims=%u interleaved=%u\n"
                   "  %%c1:f16[Q,S,1,%u] = state_write %%c, %%kr, %%pos, %%seq\n"
                   "  %%v:f16[Q,S,1,%u] = slice %%c1 start=%u\n"
                   "  %%a:f32[T,%u,%u] = attention %%qr, %%c1, %%v, %%pos, %%seq scale=0.125 window=0 cap=0\n"
                   "  %%y:f32[T,%u,%u] = matmul_at %%a, %%vp\n  %%yr:f32[T,%u] = reshape %%y\n"
                   "  %%ao:f32[T,%u] = matmul %%yr, %%wo\n  %%z:f32[T,%u] = add %%x, %%ao\n  return %%z, %%c1\n}\n",
                   l->rotated, r, d, d, l->rotated, l->interleaved, d, r, l->rotated, h, r, h, l->value, h * l->value,
                   hidden, hidden);
}

/* One row step after step, so that the cache is what steps wrote. */
static void
check_latents(const latent *list, size_t n)
{
    dop_target gpu = *kernel_lab_target(1);
    kernel_lab *lab;
    dop_buf no = {0};
    if (!kernel_lab_open(&lab, &no))
        cr_skip_test("%s", no.data ? no.data : "no device");
    for (size_t i = 0; i < n; i++) {
        dop_buf text = {0}, why = {0};
        const latent *l = &list[i];
        write_latent(l, &text);
        gpu.max_workgroup = l->wg;
        gpu.shared_bytes = l->shared;
        const bool ok = l->t == 1 ? kernel_lab_steps(lab, text.data, 4, &gpu, true, &why)
                                  : kernel_lab_check(lab, text.data, text.size, &gpu, KERNEL_LAB_FUSED, &why);
        cr_expect(ok, "%s: %s\n%s", l->what, why.data ? why.data : "?", text.data);
        dop_buf_finish(&text);
        dop_buf_finish(&why);
    }
    kernel_lab_close(lab);
}

Test(kernels_few_rows, latent_attention_agrees_with_the_interpreter, .timeout = 300)
{
    check_latents(latents, sizeof latents / sizeof *latents);
}

Test(kernels_few_rows_whole, latent_attention_agrees_with_the_interpreter, .timeout = 600)
{
    check_latents(of_full_size, sizeof of_full_size / sizeof *of_full_size);
}
