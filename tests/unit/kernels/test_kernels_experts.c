/* Products by expert with many rows on a software device, against the interpreter: rows in blocks of one expert each, tiles
 * over them, what joins the tiles and what comes after.  Steps have as many rows as the graph takes, fewer, and one. */
#include "tests/unit/kernels_util.h"

#include "base/base.h"
#include "runtime/device/device.h"

#include <criterion/criterion.h>
#include <string.h>

typedef struct shape {
    const char *what;
    uint32_t t, experts, k, hidden, width;
    double spread; /* factor on the scores; 0: all are equal, and everybody takes the first k */
    bool bias;
    const char *gate, *up, *down; /* types of the weights; NULL: f16, f32 and bf16 */
} shape;

static const shape shapes[] = {
    {"seven rows, odd sizes", 7, 3, 2, 36, 21, 1, false, NULL, NULL, NULL},
    {"most experts have no row", 9, 6, 2, 32, 24, 0, true, NULL, NULL, NULL},
    {"all rows on one expert, more than a block", 64, 5, 1, 24, 40, 0, false, NULL, NULL, NULL},
    {"eight experts, three active, biases", 33, 8, 3, 40, 20, 2, true, NULL, NULL, NULL},
    {"many experts for few rows each", 64, 24, 1, 20, 12, 3, false, NULL, NULL, NULL},
    {"levels, three bits", 9, 3, 2, 256, 256, 1, false, "iq4_xs", "nvfp4", "iq3_s"},
    {"three bits and two", 9, 3, 2, 256, 256, 1, false, "iq3_xxs", "iq2_s", "iq2_xs"},
    {"two bits and one", 9, 3, 2, 256, 256, 1, false, "iq2_xxs", "iq1_m", "iq1_s"},
    {"three levels and four", 9, 3, 2, 256, 256, 1, false, "tq1_0", "tq2_0", "q2_0"},
    {"signs, one and a half bytes", 9, 3, 2, 300, 264, 1, false, "q1_0", "q3_k", "q1_0"},
    {"formats of blocks of 256", 9, 3, 2, 256, 256, 1, false, "q4_k", "q6_k", "q5_k"},
};

enum { N_SHAPES = sizeof shapes / sizeof *shapes, N_FLOATS = 5 }; /* the first ones have weights in floats */

static void
write_graph(const shape *s, dop_buf *out)
{
    const uint32_t e = s->experts, k = s->k, h = s->hidden, w = s->width;
    dop_buf_printf(out,
                   "graph experts(T<=%u, S<=200, Q=1) {\n"
                   "  %%tok:u32[T] = input \"tokens\"\n"
                   "  %%t:f16[16,%u] = weight \"t0\"\n"
                   "  %%r:f32[16,%u] = weight \"t1\"\n"
                   "  %%wg:%s[%u,%u,%u] = weight \"w1\"\n"
                   "  %%wu:%s[%u,%u,%u] = weight \"w2\"\n"
                   "  %%wd:%s[%u,%u,%u] = weight \"w3\"\n"
                   "  %%b:f32[%u,%u] = weight \"t2\"\n",
                   s->t, h, e, s->gate ? s->gate : "f16", e, w, h, s->up ? s->up : "f32", e, w, h,
                   s->down ? s->down : "bf16", e, h, w, e, h);
    dop_buf_printf(out,
                   "  %%x:f32[T,%u] = gather %%t, %%tok\n"
                   "  %%r0:f32[T,%u] = gather %%r, %%tok\n"
                   "  %%s:f32[T,%u] = scale %%r0 by=%.1f\n"
                   "  %%p:f32[T,%u] = softmax %%s\n"
                   "  %%ids:u32[T,%u] = top_k %%p k=%u groups=1 group_best=1 group_keep=1\n"
                   "  %%pk:f32[T,%u] = pick %%p, %%ids\n",
                   h, e, e, s->spread, e, k, k, k);
    dop_buf_printf(out,
                   "  %%xs:f32[T,%u] = scale %%x by=0.5\n"
                   "  %%g:f32[T,%u,%u] = matmul_at %%xs, %%wg, %%ids\n"
                   "  %%u:f32[T,%u,%u] = matmul_at %%xs, %%wu, %%ids\n"
                   "  %%a:f32[T,%u,%u] = silu %%g\n"
                   "  %%m:f32[T,%u,%u] = mul %%a, %%u\n"
                   "  %%d:f32[T,%u,%u] = matmul_at %%m, %%wd, %%ids\n",
                   h, k, w, k, w, k, w, k, w, k, h);
    if (s->bias)
        dop_buf_printf(out,
                       "  %%bi:f32[T,%u,%u] = gather %%b, %%ids\n"
                       "  %%db:f32[T,%u,%u] = add %%d, %%bi\n",
                       k, h, k, h);
    dop_buf_printf(out,
                   "  %%y:f32[T,%u] = weighted_sum %%%s, %%pk\n"
                   "  %%z:f32[T,%u] = add %%y, %%x\n"
                   "  return %%z, %%m\n}\n",
                   h, s->bias ? "db" : "d", h);
}

static void
check_shapes(kernel_lab_runs runs, uint32_t first, uint32_t n)
{
    kernel_lab *lab;
    dop_buf no = {0};
    if (!kernel_lab_open(&lab, &no))
        cr_skip_test("%s", no.data ? no.data : "no device");
    for (size_t i = first; i < n; i++) {
        dop_buf text = {0}, why = {0};
        write_graph(&shapes[i], &text);
        for (uint32_t t = 0; t < KERNEL_LAB_TARGETS; t++)
            if (t == i % KERNEL_LAB_TARGETS || (i == 3 && runs == KERNEL_LAB_BOTH)) {
                bool ok = kernel_lab_check(lab, text.data, text.size, kernel_lab_target(t), runs, &why);
                cr_expect(ok, "%s: %s\n%s", shapes[i].what, why.data ? why.data : "?", text.data);
            }
        dop_buf_finish(&text);
        dop_buf_finish(&why);
    }
    kernel_lab_close(lab);
}

/* Without fusion their kernels are those of other tests, each of one op, and types are decoded in unit.test_weight_types: these run in the
 * long form, here only floats and the last shape. */
Test(kernels_experts, blocks_of_rows_agree_with_the_interpreter, .timeout = 300)
{
    check_shapes(KERNEL_LAB_FUSED, 0, N_FLOATS);
    check_shapes(KERNEL_LAB_FUSED, N_SHAPES - 1, N_SHAPES);
}

Test(kernels_experts_whole, blocks_of_rows_agree_with_the_interpreter, .timeout = 600)
{
    check_shapes(KERNEL_LAB_BOTH, 0, N_SHAPES);
}

/* A sum over slots whose products share one row of the activation, read as it is or staged, in one row of a step. */
Test(kernels_experts, a_sum_of_products_of_one_activation)
{
    static const char *const types[] = {"f16", "q8_0"};
    kernel_lab *lab;
    dop_buf why = {0};
    if (!kernel_lab_open(&lab, &why))
        cr_skip_test("%s", dop_buf_text(&why));
    for (uint32_t i = 0; i < 2 * KERNEL_LAB_TARGETS; i++) {
        dop_buf text = {0};
        dop_buf_printf(&text,
                       "graph sum(T=1, S<=34, Q=1) {\n"
                       "  %%tok:u32[T] = input \"tokens\"\n"
                       "  %%t:f16[16,96] = weight \"t0\"\n"
                       "  %%r:f32[16,5] = weight \"t1\"\n"
                       "  %%w:%s[5,24,96] = weight \"w1\"\n"
                       "  %%x:f32[T,96] = gather %%t, %%tok\n"
                       "  %%r0:f32[T,5] = gather %%r, %%tok\n"
                       "  %%p:f32[T,5] = softmax %%r0\n"
                       "  %%ids:u32[T,2] = top_k %%p k=2 groups=1 group_best=1 group_keep=1\n"
                       "  %%pk:f32[T,2] = pick %%p, %%ids\n"
                       "  %%g:f32[T,2,24] = matmul_at %%x, %%w, %%ids\n"
                       "  %%y:f32[T,24] = weighted_sum %%g, %%pk\n"
                       "  return %%x, %%y\n}\n",
                       types[i % 2]);
        cr_expect(kernel_lab_check(lab, text.data, text.size, kernel_lab_target(i / 2), KERNEL_LAB_BOTH, &why), "%s",
                  dop_buf_text(&why));
        dop_buf_finish(&text);
    }
    kernel_lab_close(lab);
    dop_buf_finish(&why);
}
