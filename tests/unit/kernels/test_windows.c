/* Convolutions as products over windows (op unfold): the interpreter against a plain loop and against op conv, and kernels of all kinds of
 * targets against the interpreter, with shapes and numbers of windows that follow from a seed. */
#include "tests/unit/kernels_util.h"
#include "tests/unit/test_ir_util.h"

#include "ir/graph/access.h"

#include <math.h>
#include <stdlib.h>

typedef struct windows {
    uint32_t pictures, height, width, cols, outs; /* height 0: one line */
    uint32_t taps, taps_y, stride, dilation, pad, more, up;
} windows;

static uint32_t
pick(uint64_t *state, uint32_t from, uint32_t end)
{
    return from + (uint32_t)(test_random(state) % (end - from));
}

static windows
random_windows(uint64_t *state)
{
    windows w = {.pictures = pick(state, 1, 4), .height = pick(state, 0, 9), .width = pick(state, 3, 12)};
    w.cols = pick(state, 1, 9);
    w.outs = pick(state, 1, 7);
    w.taps = pick(state, 1, 4);
    w.taps_y = w.height ? pick(state, 1, 4) : 1;
    w.stride = pick(state, 1, 4);
    w.dilation = pick(state, 1, 3);
    w.up = pick(state, 1, 4);
    w.more = pick(state, 0, 3);
    w.pad = pick(state, 2, 5);
    return w;
}

static dop_status
leaf_of(void *user, const dop_graph *g, dop_node_id leaf, uint32_t t, dop_tensor *out, dop_diag *diag)
{
    (void)user;
    (void)t;
    (void)diag;
    out->f = dop_arena_alloc(g->arena, out->count * sizeof *out->f);
    uint64_t state = leaf * 77;
    for (uint64_t i = 0; i < out->count; i++)
        ((float *)(uintptr_t)out->f)[i] = test_value(&state);
    return DOP_OK;
}

/* The convolution as its definition reads: one output value. */
static double
plain(const windows *w, const float *x, const float *m, const float *bias, uint32_t picture, int y, int x0,
      uint32_t out)
{
    const uint32_t tall = w->height ? w->height : 1;
    double sum = bias ? (double)bias[out] : 0;
    for (uint32_t i = 0; i < w->taps_y; i++)
        for (uint32_t j = 0; j < w->taps; j++) {
            const int down = w->height ? y * (int)w->stride + (int)(i * w->dilation) - (int)w->pad : 0,
                      along = x0 * (int)w->stride + (int)(j * w->dilation) - (int)w->pad;
            if (down < 0 || along < 0 || down >= (int)(tall * w->up) || along >= (int)(w->width * w->up))
                continue;
            const uint32_t row = (picture * tall + (uint32_t)down / w->up) * w->width + (uint32_t)along / w->up;
            for (uint32_t c = 0; c < w->cols; c++)
                sum += (double)x[row * w->cols + c] * (double)m[((out * w->taps_y + i) * w->taps + j) * w->cols + c];
        }
    return sum;
}

static void
put_windows(dop_buf *text, const char *name, const char *of, const windows *w, const char *rows, uint32_t cols)
{
    dop_buf_printf(text, "%%%s:f32[%s,%u] = unfold %%%s width=%u", name, rows, w->taps * w->taps_y * cols, of,
                   w->width);
    if (w->height)
        dop_buf_printf(text, " height=%u", w->height);
    dop_buf_printf(text, " taps=%u taps_y=%u stride=%u dilation=%u pad=%u more=%u up=%u\n", w->taps, w->taps_y,
                   w->stride, w->dilation, w->pad, w->more, w->up);
}

Test(windows, the_interpreter_is_a_plain_loop)
{
    uint64_t state = 1;
    uint32_t n = 0;
    for (uint32_t seed = 0; seed < 200; seed++) {
        const windows w = random_windows(&state);
        const dop_unfold u =
            dop_unfold_from(w.width, w.height, w.taps, w.taps_y, w.stride, w.dilation, w.pad, w.more, w.up);
        const uint32_t from = w.pictures * w.width * (w.height ? w.height : 1),
                       to = (uint32_t)(w.pictures * u.wide * u.tall);
        char rows[16];
        dop_arena arena;
        dop_graph g;
        dop_buf text = {0};
        dop_diag diag = {0};
        dop_interp *it = NULL;
        const dop_tensor *x, *m, *b, *y;
        if (u.wide == 0 || u.tall == 0)
            continue;
        n++;
        snprintf(rows, sizeof rows, "%u", to);
        dop_buf_printf(&text,
                       "graph c(T=1) {\n%%x:f32[%u,%u] = weight \"x\"\n%%w:f32[%u,%u] = weight \"w\"\n%%b:f32[%u] = "
                       "weight \"b\"\n",
                       from, w.cols, w.outs, w.taps * w.taps_y * w.cols, w.outs);
        put_windows(&text, "u", "x", &w, rows, w.cols);
        dop_buf_printf(&text, "%%p:f32[%s,%u] = matmul %%u, %%w\n%%y:f32[%s,%u] = add %%p, %%b\nreturn %%y\n}\n", rows,
                       w.outs, rows, w.outs);
        dop_arena_init(&arena);
        test_must_parse(text.data, &arena, &g);
        const dop_leaf_provider leaves = {NULL, leaf_of};
        cr_assert_eq(dop_interp_create(&g, 1, &leaves, &diag, &it), DOP_OK, "%s", diag.message);
        cr_assert_eq(dop_interp_eval(it, test_find(&g, "y"), &diag, &y), DOP_OK, "%s", diag.message);
        cr_assert_eq(dop_interp_eval(it, test_find(&g, "x"), &diag, &x), DOP_OK);
        cr_assert_eq(dop_interp_eval(it, test_find(&g, "w"), &diag, &m), DOP_OK);
        cr_assert_eq(dop_interp_eval(it, test_find(&g, "b"), &diag, &b), DOP_OK);
        for (uint32_t i = 0; i < to * w.outs; i++) {
            const uint32_t place = i / w.outs % (uint32_t)(u.wide * u.tall);
            const double want = plain(&w, x->f, m->f, b->f, i / w.outs / (uint32_t)(u.wide * u.tall),
                                      (int)(place / u.wide), (int)(place % u.wide), i % w.outs);
            cr_assert_float_eq((double)y->f[i], want, 1e-4, "seed %u value %u: %g instead of %g\n%s", seed, i,
                               (double)y->f[i], want, text.data);
        }
        dop_interp_destroy(it);
        dop_arena_finish(&arena);
        dop_buf_finish(&text);
    }
    cr_expect_gt(n, 100u);
}

/* A picture in op conv has its own axes; otherwise both are the same. */
Test(windows, a_product_over_windows_is_op_conv)
{
    static const char text[] =
        "graph c(T=1) {\n%x:f32[63,5] = weight \"x\"\n%w:f32[4,45] = weight \"w\"\n"
        "%u:f32[20,45] = unfold %x width=7 height=9 taps=3 taps_y=3 stride=2 dilation=1 pad=1\n"
        "%y:f32[20,4] = matmul %u, %w\n%x3:f32[9,7,5] = reshape %x\n%w4:f32[4,3,3,5] = reshape %w\n"
        "%z:f32[5,4,4] = conv %x3, %w4 stride=2 dilation=1 pad=1\nreturn %y, %z\n}\n";
    dop_arena arena;
    dop_graph g;
    dop_diag diag = {0};
    dop_interp *it = NULL;
    const dop_tensor *y, *z;
    const dop_leaf_provider leaves = {NULL, leaf_of};
    dop_arena_init(&arena);
    test_must_parse(text, &arena, &g);
    cr_assert_eq(dop_interp_create(&g, 1, &leaves, &diag, &it), DOP_OK);
    cr_assert_eq(dop_interp_eval(it, test_find(&g, "y"), &diag, &y), DOP_OK, "%s", diag.message);
    cr_assert_eq(dop_interp_eval(it, test_find(&g, "z"), &diag, &z), DOP_OK, "%s", diag.message);
    cr_assert_eq(y->count, z->count);
    for (uint64_t i = 0; i < y->count; i++)
        cr_expect_float_eq((double)y->f[i], (double)z->f[i], 1e-5, "value %llu", (unsigned long long)i);
    dop_interp_destroy(it);
    dop_arena_finish(&arena);
}

/* A step has some pictures and perhaps a part of one.  Two convolutions, the first of which makes four rows of each, the second one again;
 * bias, activation and a residual belong to them. */
static void
put_graph(uint64_t *state, dop_buf *text)
{
    const uint32_t cols = pick(state, 0, 2) ? 32 : 3 * pick(state, 1, 4), mid = 4 * pick(state, 1, 6),
                   out = pick(state, 5, 40);
    const bool flat = pick(state, 0, 3) == 0;
    const windows first = {.width = 4,
                           .height = flat ? 0 : 3,
                           .taps = 1 + 2 * pick(state, 0, 2),
                           .taps_y = 1,
                           .stride = 1,
                           .dilation = 1,
                           .up = 2};
    windows a = first,
            b = {.width = 8, .height = flat ? 0 : 6, .taps = 1 + 2 * pick(state, 0, 2), .stride = 2, .dilation = 1};
    const uint32_t times = flat ? 2 : 4;
    a.taps_y = flat ? 1 : a.taps;
    a.pad = a.taps / 2;
    b.taps_y = flat ? 1 : b.taps;
    b.pad = b.taps / 2;
    b.up = 1;
    const char *type = pick(state, 0, 2) ? "f16" : "bf16";
    char many[8];
    snprintf(many, sizeof many, "%uT", times);
    dop_buf_printf(
        text,
        "graph convolutions(T<=29, S<=64) {\n%%tok:u32[T] = input \"tokens\"\n%%t:f16[24,%u] = weight \"t\"\n"
        "%%w:%s[%u,%u] = weight \"w\"\n%%v:%s[%u,%u] = weight \"v\"\n%%wb:f32[%u] = weight \"wb\"\n%%vb:f32[%u] = "
        "weight \"vb\"\n"
        "%%r:f16[24,%u] = weight \"r\"\n%%x:f32[T,%u] = gather %%t, %%tok\n",
        cols, type, mid, a.taps * a.taps_y * cols, type, out, b.taps * b.taps_y * mid, mid, out, out, cols);
    put_windows(text, "a", "x", &a, many, cols);
    dop_buf_printf(text,
                   "%%m:f32[%s,%u] = matmul %%a, %%w\n%%mb:f32[%s,%u] = add %%m, %%wb\n%%ma:f32[%s,%u] = gelu %%mb\n",
                   many, mid, many, mid, many, mid);
    put_windows(text, "b", "ma", &b, "T", mid);
    dop_buf_printf(
        text,
        "%%n:f32[T,%u] = matmul %%b, %%v\n%%nb:f32[T,%u] = add %%n, %%vb\n%%g:f32[T,%u] = gather %%r, %%tok\n"
        "%%y:f32[T,%u] = add %%nb, %%g\nreturn %%y\n}\n",
        out, out, out, out);
}

Test(windows, kernels_agree_with_the_interpreter, .timeout = 300)
{
    enum { GRAPHS = 6 };
    kernel_lab *lab = NULL;
    dop_buf why = {0};
    uint64_t state = 5;
    if (!kernel_lab_open(&lab, &why)) {
        cr_skip_test("%s", why.data ? why.data : "no device");
        return;
    }
    for (uint32_t i = 0; i < GRAPHS; i++) {
        dop_buf text = {0}, wrong = {0};
        put_graph(&state, &text);
        cr_expect(kernel_lab_check(lab, text.data, text.size, kernel_lab_target(i),
                                   i < KERNEL_LAB_TARGETS ? KERNEL_LAB_BOTH : KERNEL_LAB_FUSED, &wrong),
                  "graph %u: %s\n%s", i, wrong.data ? wrong.data : "?", text.data);
        dop_buf_finish(&text);
        dop_buf_finish(&wrong);
    }
    cr_expect_gt(kernel_lab_count(lab).kernels, 8u);
    kernel_lab_close(lab);
    dop_buf_finish(&why);
}
