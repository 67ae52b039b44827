/* Random graphs compiled fused and unfused by the real passes and kernels, against the interpreter: of all, what the
 * passes made is interpreted; the kernels of every 26th small one (with --long, of twice as many and of every third) run on
 * a software device, whose compiler is what takes the time.  A failing graph is printed as text; `fuzz_graph FILE`
 * (tests/fuzz) runs it again, and `fuzz_graph FIRST COUNT` runs larger ones, for as long as wanted. */
#include "tests/unit/kernels_util.h"

#include "base/base.h"
#include "runtime/device/device.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

enum { GRAPHS = 520, ON_DEVICE = 26, ON_DEVICE_WHOLE = 3, LARGE = 1000 };

static kernel_lab *
open_lab(void)
{
    kernel_lab *lab;
    dop_buf why = {0};
    if (!kernel_lab_open(&lab, &why))
        cr_skip_test("%s", why.data ? why.data : "no device");
    dop_buf_finish(&why);
    return lab;
}

/* Targets take turns. */
static void
check_seeds(uint32_t n, bool small, uint32_t on_device)
{
    kernel_lab *lab = open_lab();
    for (uint32_t seed = 0; seed < n; seed++) {
        dop_buf text = {0}, wrong = {0};
        kernel_random_graph(seed, small, &text);
        kernel_lab_runs run = on_device && seed % on_device == 0 ? KERNEL_LAB_BOTH : KERNEL_LAB_NONE;
        bool ok = kernel_lab_check(lab, text.data, text.size, kernel_lab_target(seed), run, &wrong);
        cr_expect(ok, "seed %u: %s\n%s", seed, wrong.data ? wrong.data : "?", text.data);
        dop_buf_finish(&text);
        dop_buf_finish(&wrong);
    }
    kernel_lab_close(lab);
}

Test(kernels, random_graphs_agree_with_the_interpreter, .timeout = 500)
{
    check_seeds(GRAPHS / 2, true, ON_DEVICE);
}

Test(kernels_whole, random_graphs_agree_with_the_interpreter, .timeout = 1500)
{
    check_seeds(GRAPHS, true, ON_DEVICE_WHOLE);
}

Test(kernels, larger_graphs_are_what_the_passes_made_of_them, .timeout = 300)
{
    check_seeds(LARGE / 4, false, 0);
}

Test(kernels_whole, larger_graphs_are_what_the_passes_made_of_them, .timeout = 600)
{
    check_seeds(LARGE, false, 0);
}

/* Of graphs 0 .. n - 1, each op of the n_wanted is in 15 at least.  Gives the lines of the longest. */
static uint32_t
count_ops(uint32_t n, bool small, const char *const *wanted, uint32_t n_wanted)
{
    uint32_t ops[64] = {0}, longest = 0;
    for (uint32_t seed = 0; seed < n; seed++) {
        dop_buf a = {0}, b = {0};
        kernel_random_graph(seed, small, &a);
        kernel_random_graph(seed, small, &b);
        cr_assert(strncmp(a.data, "graph random", 12) == 0, "%s", a.data);
        cr_assert(a.size == b.size && memcmp(a.data, b.data, a.size) == 0);
        uint32_t lines = 0;
        for (const char *p = a.data; (p = strchr(p, '\n')) != NULL; p++)
            lines++;
        longest = lines > longest ? lines : longest;
        for (uint32_t i = 0; i < n_wanted; i++)
            ops[i] += strstr(a.data, wanted[i]) != NULL;
        dop_buf_finish(&a);
        dop_buf_finish(&b);
    }
    for (uint32_t i = 0; i < n_wanted; i++)
        cr_expect(ops[i] >= 15, "%s in %u graphs only", wanted[i], ops[i]);
    return longest;
}

Test(kernels, random_graphs_are_well_typed_and_repeatable)
{
    static const char *const wanted[] = {" attention ",   " matmul ", " rope ", " row_istd ", " layernorm ", " slice ",
                                         " state_write ", " argmax ", " div ",  " gather ",   " softmax "};
    static const char *const large[] = {" attention ",   " top_k ",       " groups=4 ",   " pick ",
                                        " matmul_at ",   " concat ",      " short_conv ", " linear_scan ",
                                        " state_write ", " weighted_sum "};
    cr_expect(count_ops(GRAPHS, true, wanted, sizeof wanted / sizeof *wanted) > 40);
    cr_expect(count_ops(LARGE, false, large, sizeof large / sizeof *large) > 60);
}

/* What random graphs found, made small. */
static const struct {
    const char *what, *text;
} found[] = {
    {"a cache that the graph does not return is written",
     "graph cache(T=1, S<=100, Q=1) {\n"
     "  %tok:u32[T] = input \"tokens\"\n"
     "  %pos:u32[T] = input \"positions\"\n"
     "  %seq:u32[T] = input \"sequences\"\n"
     "  %t:f16[24,32] = weight \"t0\"\n"
     "  %x:f32[T,32] = gather %t, %tok\n"
     "  %wq:f16[64,32] = weight \"w1\"\n"
     "  %wk:f16[32,32] = weight \"w2\"\n"
     "  %wv:f16[32,32] = weight \"w3\"\n"
     "  %rope:f32[29,16] = weight \"t.rope16\"\n" /* 4 + 100 / 4 rows */
     "  %kc:f16[Q,S,2,16] = state \"ca\" kind=append\n"
     "  %vc:f16[Q,S,2,16] = state \"cb\" kind=append\n"
     "  %q:f32[T,64] = matmul %x, %wq\n"
     "  %k:f32[T,32] = matmul %x, %wk\n"
     "  %v:f32[T,32] = matmul %x, %wv\n"
     "  %q3:f32[T,4,16] = reshape %q\n"
     "  %k3:f32[T,2,16] = reshape %k\n"
     "  %v3:f32[T,2,16] = reshape %v\n"
     "  %kr:f32[T,2,16] = rope %k3, %pos, %rope dims=16 interleaved=0 low=4\n"
     "  %kc1:f16[Q,S,2,16] = state_write %kc, %kr, %pos, %seq\n"
     "  %vc1:f16[Q,S,2,16] = state_write %vc, %v3, %pos, %seq\n"
     "  %a:f32[T,4,16] = attention %q3, %kc1, %vc1, %pos, %seq scale=0.25 window=0 cap=0\n"
     "  %y:f32[T,4,16] = scale %a by=1.5\n"
     "  return %y\n"
     "}\n"},
    {"a slice of what an epilogue makes is not the product's own column", "graph slice(T=1, S<=100, Q=1) {\n"
                                                                          "  %tok:u32[T] = input \"tokens\"\n"
                                                                          "  %t:f16[24,32] = weight \"t0\"\n"
                                                                          "  %x:f32[T,32] = gather %t, %tok\n"
                                                                          "  %w:f32[64,32] = weight \"w1\"\n"
                                                                          "  %y:f32[T,64] = matmul %x, %w\n"
                                                                          "  %a:f32[T,64] = softplus %y\n"
                                                                          "  %s:f32[T,7] = slice %a start=3\n"
                                                                          "  %b:f32[T,7] = scale %s by=2\n"
                                                                          "  return %b, %y\n"
                                                                          "}\n"},
    {"a row program whose rows are wanted is not made for the last row only", "graph last(T<=5, S<=100, Q=1) {\n"
                                                                              "  %tok:u32[T] = input \"tokens\"\n"
                                                                              "  %t:bf16[24,32] = weight \"t0\"\n"
                                                                              "  %x:f32[T,32] = gather %t, %tok\n"
                                                                              "  %m:f32[T,1] = row_mean %x\n"
                                                                              "  %i:f32[T,1] = row_istd %x eps=0.001\n"
                                                                              "  %d:f32[T,32] = sub %x, %m\n"
                                                                              "  %n:f32[T,32] = mul %d, %i\n"
                                                                              "  %l:f32[1,32] = last_row %n\n"
                                                                              "  %w:f32[150,32] = weight \"w1\"\n"
                                                                              "  %y:f32[1,150] = matmul %l, %w\n"
                                                                              "  return %n, %y\n"
                                                                              "}\n"},
    {"gathered rows that one product reads and the graph returns are stored", "graph rows(T<=7, S<=100, Q=1) {\n"
                                                                              "  %tok:u32[T] = input \"tokens\"\n"
                                                                              "  %t:bf16[24,32] = weight \"t0\"\n"
                                                                              "  %x:f32[T,32] = gather %t, %tok\n"
                                                                              "  %w:bf16[33,32] = weight \"w1\"\n"
                                                                              "  %y:f32[T,33] = matmul %x, %w\n"
                                                                              "  return %y, %x\n"
                                                                              "}\n"},
    {"softmax of rows and of heads, of what a chain makes, far from zero", "graph soft(T<=5, S<=100, Q=1) {\n"
                                                                           "  %tok:u32[T] = input \"tokens\"\n"
                                                                           "  %t:f16[24,600] = weight \"t0\"\n"
                                                                           "  %o:f16[24,33] = weight \"t1\"\n"
                                                                           "  %x:f32[T,600] = gather %t, %tok\n"
                                                                           "  %s:f32[T,600] = scale %x by=9\n"
                                                                           "  %a:f32[T,600] = softmax %s\n"
                                                                           "  %b:f32[T,600] = scale %a by=100\n"
                                                                           "  %h:f32[T,5,120] = reshape %x\n"
                                                                           "  %g:f32[T,5,120] = offset %h by=300\n"
                                                                           "  %c:f32[T,5,120] = softmax %g\n"
                                                                           "  %z:f32[T,33] = gather %o, %tok\n"
                                                                           "  %d:f32[T,33] = softmax %z\n"
                                                                           "  %e:f32[T,33] = softmax %d\n"
                                                                           "  return %b, %c, %e\n"
                                                                           "}\n"},
    {"short heads of several tokens, a subgroup each, fewer than a workgroup has subgroups",
     "graph heads(T<=5, S<=100, Q=1) {\n"
     "  %tok:u32[T] = input \"tokens\"\n"
     "  %pos:u32[T] = input \"positions\"\n"
     "  %t:f16[24,96] = weight \"t0\"\n"
     "  %w:f32[16] = weight \"w1\"\n"
     "  %rope:f32[S,16] = weight \"t.rope16\"\n"
     "  %x:f32[T,96] = gather %t, %tok\n"
     "  %h:f32[T,6,16] = reshape %x\n"
     "  %n:f32[T,6,16] = rmsnorm %h, %w eps=1e-05 add=0\n"
     "  %r:f32[T,6,16] = rope %n, %pos, %rope dims=16 interleaved=1\n"
     "  %s:f32[T,6,16] = softmax %r\n"
     "  return %r, %s\n"
     "}\n"},
    {"a rotated row goes straight into a product", "graph turned(T=1, S<=100, Q=1) {\n"
                                                   "  %tok:u32[T] = input \"tokens\"\n"
                                                   "  %pos:u32[T] = input \"positions\"\n"
                                                   "  %seq:u32[T] = input \"sequences\"\n"
                                                   "  %t:f16[24,64] = weight \"t0\"\n"
                                                   "  %rope:f32[S,64] = weight \"t.rope64\"\n"
                                                   "  %w:f16[33,64] = weight \"w1\"\n"
                                                   "  %x:f32[T,64] = gather %t, %tok\n"
                                                   "  %h:f32[T,1,64] = reshape %x\n"
                                                   "  %r:f32[T,1,64] = rope %h, %pos, %rope dims=64 interleaved=0\n"
                                                   "  %v:f32[T,64] = reshape %r\n"
                                                   "  %y:f32[T,33] = matmul %v, %w\n"
                                                   "  return %y\n"
                                                   "}\n"},
    {"one rotated by low and high parts of its position, too",
     "graph turned(T=1, S<=100, Q=1) {\n"
     "  %tok:u32[T] = input \"tokens\"\n"
     "  %pos:u32[T] = input \"positions\"\n"
     "  %seq:u32[T] = input \"sequences\"\n"
     "  %t:f16[24,64] = weight \"t0\"\n"
     "  %rope:f32[20,64] = weight \"t.rope64\"\n"
     "  %w:f16[33,64] = weight \"w1\"\n"
     "  %x:f32[T,64] = gather %t, %tok\n"
     "  %h:f32[T,1,64] = reshape %x\n"
     "  %r:f32[T,1,64] = rope %h, %pos, %rope dims=64 interleaved=1 low=10\n"
     "  %v:f32[T,64] = reshape %r\n"
     "  %y:f32[T,33] = matmul %v, %w\n"
     "  return %y\n"
     "}\n"},
    {"attentions with different windows are one kernel",
     "graph windows(T<=5, S<=100, Q=1) {\n"
     "  %tok:u32[T] = input \"tokens\"\n"
     "  %pos:u32[T] = input \"positions\"\n"
     "  %seq:u32[T] = input \"sequences\"\n"
     "  %t:f16[24,32] = weight \"t0\"\n"
     "  %x:f32[T,32] = gather %t, %tok\n"
     "  %q:f32[T,2,16] = reshape %x\n"
     "  %kc:f16[Q,S,2,16] = state \"ca\" kind=append\n"
     "  %vc:f16[Q,S,2,16] = state \"cb\" kind=append\n"
     "  %kc1:f16[Q,S,2,16] = state_write %kc, %q, %pos, %seq\n"
     "  %vc1:f16[Q,S,2,16] = state_write %vc, %q, %pos, %seq\n"
     "  %a:f32[T,2,16] = attention %q, %kc1, %vc1, %pos, %seq scale=0.25 window=3 cap=0\n"
     "  %b:f32[T,2,16] = attention %a, %kc1, %vc1, %pos, %seq scale=0.25 window=0 cap=0\n"
     "  return %a, %b\n"
     "}\n"},
    {"of several rows the last one replaces the state", "graph tail(T<=5, S<=100, Q=1) {\n"
                                                        "  %tok:u32[T] = input \"tokens\"\n"
                                                        "  %seq:u32[T] = input \"sequences\"\n"
                                                        "  %t:f16[24,32] = weight \"t0\"\n"
                                                        "  %p:f32[Q,32] = state \"p\" kind=replace\n"
                                                        "  %x:f32[T,32] = gather %t, %tok\n"
                                                        "  %old:f32[T,32] = gather %p, %seq\n"
                                                        "  %y:f32[T,32] = add %x, %old\n"
                                                        "  %p1:f32[Q,32] = state_write %p, %y, %seq\n"
                                                        "  return %y, %p1\n"
                                                        "}\n"},
    {"two matrices of a few tokens fit a small shared memory", "graph pair(T<=5, S<=100, Q=1) {\n"
                                                               "  %tok:u32[T] = input \"tokens\"\n"
                                                               "  %t:f16[24,32] = weight \"t0\"\n"
                                                               "  %x:f32[T,32] = gather %t, %tok\n"
                                                               "  %wg:f16[33,32] = weight \"w1\"\n"
                                                               "  %wu:f16[33,32] = weight \"w2\"\n"
                                                               "  %g:f32[T,33] = matmul %x, %wg\n"
                                                               "  %u:f32[T,33] = matmul %x, %wu\n"
                                                               "  %a:f32[T,33] = silu %g\n"
                                                               "  %y:f32[T,33] = mul %a, %u\n"
                                                               "  return %y\n"
                                                               "}\n"},
};

/* h' = d h + b u, read and replaced by rows; c' = c / 2 + 1 replaced as a whole; the row before in f16.  With a pick, which
 * commits the step on the device, and without, when the host does. */
#define RECURRENT(RETURN)                                  \
    "graph recurrent(T=1, S<=64, Q=1) {\n"                 \
    "  %tok:u32[T] = input \"tokens\"\n"                   \
    "  %seq:u32[T] = input \"sequences\"\n"                \
    "  %emb:f16[24,32] = weight \"t0\"\n"                  \
    "  %nw:f32[32] = weight \"v0\"\n"                      \
    "  %dw:f32[48] = weight \"v1\"\n"                      \
    "  %b:f32[48] = weight \"v2\"\n"                       \
    "  %wi:f16[48,32] = weight \"w1\"\n"                   \
    "  %wo:f16[24,48] = weight \"w2\"\n"                   \
    "  %h:f32[Q,48] = state \"h\" kind=replace\n"          \
    "  %c:f32[Q,4,8] = state \"c\" kind=replace\n"         \
    "  %p:f16[Q,32] = state \"p\" kind=replace\n"          \
    "  %x:f32[T,32] = gather %emb, %tok\n"                 \
    "  %n:f32[T,32] = rmsnorm %x, %nw eps=0x1p-20 add=0\n" \
    "  %before:f32[T,32] = gather %p, %seq\n"              \
    "  %mixed:f32[T,32] = add %n, %before\n"               \
    "  %u:f32[T,48] = matmul %mixed, %wi\n"                \
    "  %old:f32[T,48] = gather %h, %seq\n"                 \
    "  %d:f32[48] = sigmoid %dw\n"                         \
    "  %dh:f32[T,48] = mul %old, %d\n"                     \
    "  %bu:f32[T,48] = mul %u, %b\n"                       \
    "  %new:f32[T,48] = add %dh, %bu\n"                    \
    "  %half:f32[Q,4,8] = scale %c by=0.5\n"               \
    "  %more:f32[Q,4,8] = offset %half by=1\n"             \
    "  %h1:f32[Q,48] = state_write %h, %new, %seq\n"       \
    "  %c1:f32[Q,4,8] = state_write %c, %more\n"           \
    "  %p1:f16[Q,32] = state_write %p, %n, %seq\n"         \
    "  %g:f32[T,48] = silu %new\n"                         \
    "  %y:f32[T,24] = matmul %g, %wo\n" RETURN "}\n"

/* By default each form for one target and the other one for the next. */
static void
check_recurrent(bool whole)
{
    static const char *const texts[] = {
        RECURRENT("  return %y, %h1, %c1, %p1\n"),
        RECURRENT("  %id:u32[T] = argmax %y\n  return %y, %h1, %c1, %p1, %id\n"),
    };
    kernel_lab *lab = open_lab();
    for (size_t i = 0; i < 2; i++)
        for (uint32_t t = 0; t < KERNEL_LAB_TARGETS; t++)
            for (int fuse = 0; fuse < 2; fuse++) {
                if (!whole && t != (2 * i + (size_t)fuse) % KERNEL_LAB_TARGETS)
                    continue;
                dop_buf why = {0};
                bool ok = kernel_lab_steps(lab, texts[i], 9, kernel_lab_target(t), fuse, &why);
                cr_expect(ok, "text %zu, target %u, %s: %s", i, t, fuse ? "fused" : "unfused",
                          why.data ? why.data : "?");
                dop_buf_finish(&why);
            }
    kernel_lab_close(lab);
}

Test(kernels, recurrent_states_over_steps, .timeout = 300)
{
    check_recurrent(false);
}

Test(kernels_whole, recurrent_states_over_steps, .timeout = 600)
{
    check_recurrent(true);
}

/* What is wrong with a kernel may be that it stores nothing: whatever dispatch is left out of a step, an output misses. */
Test(kernels, an_output_that_is_never_stored_is_noticed, .timeout = 300)
{
    static const char text[] = "graph pair(T<=5, S<=100, Q=1) {\n"
                               "  %tok:u32[T] = input \"tokens\"\n"
                               "  %t:f16[24,32] = weight \"t0\"\n"
                               "  %x:f32[T,32] = gather %t, %tok\n"
                               "  %w:f16[33,32] = weight \"w1\"\n"
                               "  %y:f32[T,33] = matmul %x, %w\n"
                               "  return %x, %y\n"
                               "}\n";
    kernel_lab *lab = open_lab();
    for (uint32_t lost = 0; lost <= 2;
         lost++) { /* there are two dispatches, also fused: the product reads what is stored */
        dop_buf why = {0};
        kernel_lab_lose(lab, lost);
        bool ok = kernel_lab_check(lab, text, sizeof text - 1, kernel_lab_target(0), KERNEL_LAB_BOTH, &why);
        cr_expect_eq(ok, lost == 2, "without dispatch %u: %s", lost, why.data ? why.data : "nothing was noticed");
        cr_expect(ok || (why.data && strstr(why.data, lost == 0 ? "%x value" : "%y value")), "%s",
                  why.data ? why.data : "?");
        dop_buf_finish(&why);
    }
    kernel_lab_close(lab);
}

/* Products of one row and of several, and vectors that are added to the first: the dispatch has more arguments than push constants
 * hold.  By default the two kinds of rows take turns over the targets. */
static void
check_records(bool whole)
{
    enum { PRODUCTS = 6, VECTORS = 12 };
    kernel_lab *lab = open_lab();
    for (uint32_t rows = 1; rows <= 5; rows += 4) {
        dop_buf text = {0}, outs = {0};
        dop_buf_printf(&text,
                       "graph record(T%s%u, S<=100, Q=1) {\n  %%tok:u32[T] = input \"tokens\"\n"
                       "  %%t:f16[24,64] = weight \"t0\"\n  %%x:f32[T,64] = gather %%t, %%tok\n",
                       rows > 1 ? "<=" : "=", rows);
        for (uint32_t i = 0; i < PRODUCTS; i++) {
            dop_buf_printf(&text, "  %%w%u:f16[%u,64] = weight \"w%u\"\n  %%p%u:f32[T,%u] = matmul %%x, %%w%u\n", i,
                           32 + 4 * i, i, i, 32 + 4 * i, i);
            if (i > 0)
                dop_buf_printf(&outs, ", %%p%u", i);
        }
        for (uint32_t i = 0; i < VECTORS; i++) {
            dop_buf_printf(&text, "  %%b%u:f16[32] = weight \"b%u\"\n  %%y%u:f32[T,32] = add ", i, i, i);
            dop_buf_printf(&text, i ? "%%y%u, %%b%u\n" : "%%p%u, %%b%u\n", i ? i - 1 : 0, i);
        }
        dop_buf_printf(&text, "  return %%y%u%s\n}\n", VECTORS - 1, outs.data);
        cr_assert(!text.failed && !outs.failed);
        for (uint32_t t = whole ? 0 : rows > 1; t < KERNEL_LAB_TARGETS; t += whole ? 1 : 2) {
            dop_buf why = {0};
            cr_expect(kernel_lab_check(lab, text.data, text.size, kernel_lab_target(t), KERNEL_LAB_FUSED, &why),
                      "%u rows: %s", rows, why.data ? why.data : "?");
            dop_buf_finish(&why);
        }
        dop_buf_finish(&text);
        dop_buf_finish(&outs);
    }
    kernel_lab_close(lab);
}

Test(kernels, parameter_records, .timeout = 300)
{
    check_records(false);
}

Test(kernels_whole, parameter_records, .timeout = 600)
{
    check_records(true);
}

/* Rows of logits that several workgroups share: the last one to finish picks. */
Test(kernels, picks_from_rows_that_are_shared, .timeout = 300)
{
    static const char text[] = "graph pick(T<=3, S<=100, Q=1) {\n"
                               "  %tok:u32[T] = input \"tokens\"\n"
                               "  %t:f16[24,32] = weight \"t0\"\n"
                               "  %x:f32[T,32] = gather %t, %tok\n"
                               "  %w:f16[4200,32] = weight \"w1\"\n"
                               "  %y:f32[T,4200] = matmul %x, %w\n"
                               "  %id:u32[T] = argmax %y\n"
                               "  return %y, %id\n"
                               "}\n";
    kernel_lab *lab = open_lab();
    dop_target target = *kernel_lab_target(1);
    dop_buf why = {0};
    target.merges = true;
    target.cores = 64;
    cr_expect(kernel_lab_check(lab, text, sizeof text - 1, &target, KERNEL_LAB_FUSED, &why), "%s",
              why.data ? why.data : "?");
    dop_buf_finish(&why);
    kernel_lab_close(lab);
}

/* By default each for one target; they take turns. */
static void
check_found(bool whole)
{
    const kernel_lab_runs runs = whole ? KERNEL_LAB_BOTH : KERNEL_LAB_FUSED;
    kernel_lab *lab = open_lab();
    for (size_t i = 0; i < sizeof found / sizeof *found; i++)
        for (uint32_t t = 0; t < KERNEL_LAB_TARGETS; t++) {
            dop_buf why = {0};
            if (!whole && t != i % KERNEL_LAB_TARGETS)
                continue;
            bool ok = kernel_lab_check(lab, found[i].text, strlen(found[i].text), kernel_lab_target(t), runs, &why);
            cr_expect(ok, "%s: %s", found[i].what, why.data ? why.data : "?");
            dop_buf_finish(&why);
        }
    kernel_lab_close(lab);
}

Test(kernels, graphs_that_once_failed, .timeout = 300)
{
    check_found(false);
}

Test(kernels_whole, graphs_that_once_failed, .timeout = 600)
{
    check_found(true);
}
