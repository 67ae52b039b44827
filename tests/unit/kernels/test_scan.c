/* Short convolutions and linear recurrences of odd sizes: fused and unfused, with steps of one row and of many, on targets with
 * and without subgroups, against the interpreter.  Steps longer and shorter than what a convolution keeps, and than the rows
 * that a kernel stages at a time. */
#include "tests/unit/kernels_util.h"

#include "base/base.h"
#include "runtime/device/device.h"

#include <criterion/criterion.h>
#include <string.h>

typedef struct shape {
    uint32_t max_t, taps, groups, n, heads, p;
    bool delta, norms; /* beta; norms of keys and of what the heads give */
    int in_turn;       /* the attribute interleaved */
} shape;

static const shape shapes[] = {
    {1, 4, 1, 16, 3, 8, false, false, 0}, {1, 2, 2, 12, 6, 5, true, true, 1},    {37, 4, 2, 16, 4, 16, true, true, 1},
    {19, 3, 1, 7, 3, 9, false, false, 0}, {40, 5, 3, 20, 3, 33, true, false, 1}, {33, 2, 1, 64, 2, 20, false, true, 0},
    {3, 8, 1, 36, 1, 4, true, true, 0},
};

/* q and k are gathered; v is a convolution of as many columns; decay and beta are below 1, keys about as long as 1. */
static void
write_graph(const shape *s, dop_buf *b)
{
    uint32_t values = s->heads * s->p, keys = s->groups * s->n;
    if (s->max_t == 1)
        dop_buf_puts(b, "graph scan(T=1, S<=64, Q=1) {\n");
    else
        dop_buf_printf(b, "graph scan(T<=%u, S<=64, Q=1) {\n", s->max_t);
    dop_buf_puts(b, "  %tok:u32[T] = input \"tokens\"\n  %seq:u32[T] = input \"sequences\"\n");
    dop_buf_printf(b, "  %%tv:f16[24,%u] = weight \"tv\"\n  %%tq:f16[24,%u] = weight \"tq\"\n", values, keys);
    dop_buf_printf(b, "  %%tk:f16[24,%u] = weight \"tk\"\n  %%ta:f16[24,%u] = weight \"ta\"\n", keys, s->heads);
    dop_buf_printf(b, "  %%taps1:f32[%u] = weight \"taps\"\n  %%bias:f32[%u] = weight \"v1\"\n", s->taps * values,
                   values);
    dop_buf_printf(b, "  %%cs:f32[Q,%u,%u] = state \"c\" kind=replace\n", s->taps - 1, values);
    dop_buf_printf(b, "  %%ss:f32[Q,%u,%u,%u] = state \"s\" kind=replace\n", s->heads, s->p, s->n);
    dop_buf_printf(b, "  %%x:f32[T,%u] = gather %%tv, %%tok\n  %%taps:f32[%u,%u] = reshape %%taps1\n", values, s->taps,
                   values);
    dop_buf_printf(b, "  %%cv:f32[T,%u] = short_conv %%x, %%cs, %%taps, %%seq%s\n", values, s->delta ? "" : ", %bias");
    dop_buf_printf(b, "  %%cs1:f32[Q,%u,%u] = state_write %%cs, %%x, %%seq\n", s->taps - 1, values);
    dop_buf_printf(b, "  %%v1:f32[T,%u] = silu %%cv\n  %%v:f32[T,%u,%u] = reshape %%v1\n", values, s->heads, s->p);
    dop_buf_printf(b, "  %%q1:f32[T,%u] = gather %%tq, %%tok\n  %%k1:f32[T,%u] = gather %%tk, %%tok\n", keys, keys);
    dop_buf_printf(b, "  %%q:f32[T,%u,%u] = reshape %%q1\n  %%k2:f32[T,%u,%u] = reshape %%k1\n", s->groups, s->n,
                   s->groups, s->n);
    if (s->norms)
        dop_buf_printf(b,
                       "  %%kr:f32[T,%u,1] = row_rms %%k2 eps=0.001\n  %%k3:f32[T,%u,%u] = mul %%k2, %%kr\n"
                       "  %%k:f32[T,%u,%u] = scale %%k3 by=%.9g\n",
                       s->groups, s->groups, s->n, s->groups, s->n, 0.8 / (double)s->n);
    else
        dop_buf_printf(b, "  %%k:f32[T,%u,%u] = scale %%k2 by=%.9g\n", s->groups, s->n, 0.5 / (double)s->n);
    dop_buf_printf(b, "  %%a1:f32[T,%u] = gather %%ta, %%tok\n  %%a:f32[T,%u] = sigmoid %%a1\n", s->heads, s->heads);
    dop_buf_printf(b, "  %%y:f32[T,%u,%u] = linear_scan %%q, %%k, %%v, %%a, %%ss, %%seq%s interleaved=%d\n", s->heads,
                   s->p, s->delta ? ", %a" : "", s->in_turn);
    dop_buf_printf(b,
                   "  %%after:f32[Q,%u,%u,%u] = linear_scan_state %%q, %%k, %%v, %%a, %%ss, %%seq%s interleaved=%d\n",
                   s->heads, s->p, s->n, s->delta ? ", %a" : "", s->in_turn);
    dop_buf_printf(b, "  %%ss1:f32[Q,%u,%u,%u] = state_write %%ss, %%after\n", s->heads, s->p, s->n);
    if (s->norms)
        dop_buf_printf(b, "  %%yr:f32[T,%u,1] = row_rms %%y eps=0.001\n  %%yn:f32[T,%u,%u] = mul %%y, %%yr\n", s->heads,
                       s->heads, s->p);
    dop_buf_printf(b, "  %%z:f32[T,%u,%u] = add %%%s, %%v\n  %%out:f32[T,%u] = reshape %%z\n", s->heads, s->p,
                   s->norms ? "yn" : "y", values);
    dop_buf_puts(b, "  return %out, %cs1, %ss1\n}\n");
}

Test(scan, odd_shapes, .timeout = 300)
{
    kernel_lab *lab;
    dop_buf why = {0};
    if (!kernel_lab_open(&lab, &why))
        cr_skip_test("%s", why.data ? why.data : "no device");
    for (uint32_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (uint32_t t = i % KERNEL_LAB_TARGETS; t < KERNEL_LAB_TARGETS; t += KERNEL_LAB_TARGETS) {
            dop_buf text = {0};
            dop_buf_finish(&why);
            write_graph(&shapes[i], &text);
            bool ok = kernel_lab_check(lab, text.data, text.size, kernel_lab_target(t), KERNEL_LAB_BOTH, &why);
            cr_expect(ok, "shape %u, target %u: %s\n%s", i, t, why.data ? why.data : "?", text.data);
            if (shapes[i].max_t == 1)
                for (int fuse = 0; fuse < 2; fuse++) {
                    dop_buf_finish(&why);
                    ok = kernel_lab_steps(lab, text.data, 9, kernel_lab_target(t), fuse, &why);
                    cr_expect(ok, "steps, shape %u, target %u: %s\n%s", i, t, why.data ? why.data : "?", text.data);
                }
            dop_buf_finish(&text);
        }
    dop_buf_finish(&why);
    kernel_lab_close(lab);
}
