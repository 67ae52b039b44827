/* Every storage type through gather and every matmul variant on the first device, against the scalar decoder (integer
 * variants: with activations rounded as they round them): odd shapes, with the profiles of a CPU and of GPUs with and
 * without subgroups and 16-bit storage. */
#include "compiler/pack/repack.h"
#include "compiler/target/target.h"
#include "ir/interp/interp.h"
#include "ir/syntax/text.h"
#include "kernels/emit/weight_types.h"
#include "kernels/kernel.h"
#include "passes/fusion/region.h"
#include "passes/pass.h"
#include "plan/plan_format.h"
#include "tests/unit/kernels_blocks.h"
#include "tests/unit/kernels_device.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct bench {
    lab_device *device;
    uint8_t *heap;
    uint64_t address, used; /* of the heap; bytes of it */
    dop_templates templates;
    dop_arena arena;
    dop_diag diag;
} bench;

#define OK(b, call) cr_assert_eq((call), DOP_OK, "%s", (b)->diag.message)

static void
bench_open(bench *b)
{
    memset(b, 0, sizeof *b);
    dop_status st = lab_device_open(true, 0, &b->diag, &b->device);
    if (st == DOP_E_DEVICE)
        cr_skip_test("no Vulkan device here");
    OK(b, st);
    b->heap = lab_device_heap(b->device, &b->address);
    dop_arena_init(&b->arena);
    OK(b, dop_templates_load(DOP_GLSL_SOURCE_DIR, &b->templates, &b->diag));
}

static void
bench_close(bench *b)
{
    lab_device_close(b->device);
    dop_templates_finish(&b->templates);
    dop_arena_finish(&b->arena);
}

/* Bytes of the heap, from where they begin in it. */
static uint64_t
take(bench *b, uint64_t size, uint8_t fill)
{
    uint64_t at = b->used;
    b->used += dop_align_u64(size, 256);
    cr_assert(b->used <= LAB_HEAP, "%llu bytes", (unsigned long long)b->used);
    memset(b->heap + at, fill, size);
    return at;
}

/* --- random weights --------------------------------------------------------------------------------------------------- */

typedef struct matrix {
    dop_type type;
    uint32_t rows, cols;
    float *values;   /* as the scalar decoder sees them */
    uint8_t *packed; /* size bytes */
    uint64_t size;
} matrix;

static matrix
random_matrix(dop_type t, uint32_t rows, uint32_t cols, uint64_t seed)
{
    const dop_type_info *ti = dop_type_of(t);
    uint32_t blocks = (cols + ti->block - 1) / ti->block, padded = dop_packed_row_values(t, cols);
    matrix m = {t, rows, cols, calloc((size_t)rows * cols, 4), NULL, dop_packed_bytes(t, rows, cols)};
    uint8_t *row = malloc((size_t)blocks * ti->bytes);
    m.packed = calloc(1, m.size + 16);
    for (uint32_t r = 0; r < rows; r++) {
        for (uint32_t i = 0; i < blocks; i++)
            lab_random_block(t, &seed, 1, row + (size_t)i * ti->bytes);
        dop_decode_row(t, row, cols, m.values + (size_t)r * cols);
        if (ti->kind == DOP_KIND_QUANT)
            dop_repack_row(t, row, r, rows, cols, m.packed);
        else
            memcpy(m.packed + (size_t)r * padded * ti->bytes, row, (size_t)cols * ti->bytes);
    }
    free(row);
    return m;
}

static void
matrix_free(matrix *m)
{
    free(m->values);
    free(m->packed);
}

/* --- cases -------------------------------------------------------------------------------------------------------------- */

typedef struct shape {
    uint32_t tokens, vocab, k, n;
} shape;

typedef struct setting {
    const char *name, *forced; /* forced: the variant of matmul regions, NULL: the target's own choice */
    uint32_t caps;
    bool cpu;
    dop_type expand; /* weights are expanded to it first */
} setting;

/* Does the variant round activations to 8 bits? */
static bool
is_int8(const setting *how)
{
    return strstr(how->forced, "_i8") != NULL;
}

/* Are weights of this type in rows of this length expanded (passes/expand_weights.c)? */
static bool
is_expanded(const setting *how, dop_type t, uint32_t k)
{
    return how->expand != DOP_TYPE_none && dop_type_of(t)->kind == DOP_KIND_QUANT && k % 8 == 0;
}

static dop_target
target_of(bench *b, const setting *how)
{
    dop_target target;
    OK(b, dop_target_resolve("lavapipe", &b->diag, &target));
    target.cpu = how->cpu;
    target.caps = how->caps & lab_device_caps(b->device);
    target.subgroup = target.caps & DOP_CAP_subgroup ? lab_device_subgroup(b->device) : 1;
    target.max_workgroup = 64;
    return target;
}

/* A row in 8 bits per 32 values, as types/int.glsl does it: what the values become, and what each may differ by where it
 * lies so near the middle between two steps that rounding may go either way.  *step: of the unit of each value. */
static void
round_row(const float *x, uint32_t n, float *rounded, float *either, float *step)
{
    for (uint32_t u = 0; u < n; u += 32) {
        float top = 0;
        for (uint32_t i = u; i < n && i < u + 32; i++)
            top = fmaxf(top, fabsf(x[i]));
        for (uint32_t i = u; i < n && i < u + 32; i++) {
            double v = top > 0 ? (double)x[i] * 127 / (double)top : 0;
            step[i] = top / 127;
            rounded[i] = (float)rint(v) * step[i];
            either[i] = fabs(fabs(v - trunc(v)) - 0.5) < 1e-4 ? step[i] : 0;
        }
    }
}

/* Product of a row of activations with one of weights against what the device made of it. */
static void
compare_product(const setting *how, const matrix *w, uint32_t n, const float *x, const float *rounded,
                const float *either, const float *step, double got)
{
    double sum = 0, size = 0, free = 0, exact = 0, most = 0;
    for (uint32_t c = 0; c < w->cols; c++) {
        double v = (double)w->values[(size_t)n * w->cols + c];
        sum += (double)rounded[c] * v;
        size += fabs((double)rounded[c] * v);
        free += (double)either[c] * fabs(v);
        exact += (double)x[c] * v;
        most += (double)step[c] / 2 * fabs(v);
    }
    double allowed =
        (2e-5 + (is_expanded(how, w->type, w->cols) && how->expand == DOP_TYPE_f16 ? 1.0 / 2048 : 0)) * size + free +
        1e-6;
    cr_assert(fabs(got - sum) <= allowed, "%s, %s [%u,%u]: product %u is %g instead of %g", how->name,
              dop_type_of(w->type)->name, w->rows, w->cols, n, got, sum);
    if (is_int8(how))
        cr_assert(fabs(got - exact) <= allowed + most, "%s, %s [%u,%u]: product %u is %g, far from %g", how->name,
                  dop_type_of(w->type)->name, w->rows, w->cols, n, got, exact);
}

/* Has the variant code for the type, and for rows of the length? */
static bool
is_possible(const setting *how, const dop_graph *g, const dop_target *target)
{
    dop_variant_id v;
    if (!is_int8(how) && strcmp(how->forced, "few") != 0)
        return true;
    cr_assert(dop_variant_parse(how->forced, &v));
    for (dop_region_id r = 1; r < g->n_regions; r++)
        if (!g->regions[r].dead && g->regions[r].tpl == dop_variant_of(v)->tpl)
            return !dop_kernel_fits(v, g, &g->regions[r], target).why;
    return false;
}

static dop_type
expand(void *user, const dop_graph *g, dop_node_id matmul)
{
    const setting *how = user;
    (void)g;
    (void)matmul;
    return how->expand;
}

/* Kernels of equal text are one. */
static uint32_t
find_kernel(bench *b, const dop_kernel *k, const dop_target *target)
{
    dop_buf spirv = {0};
    uint32_t shared, kernel;
    if (lab_device_find(b->device, k->glsl, &kernel))
        return kernel;
    OK(b, dop_kernel_compile("test", k, target, &b->diag, &spirv, &shared));
    OK(b, lab_device_add(b->device, k->glsl, &spirv, k->subgroup, &b->diag, &kernel));
    dop_buf_finish(&spirv);
    return kernel;
}

/* x = rows of emb; y = x w^T, both stored.  False: not possible. */
static bool
run_case(bench *b, const setting *how, dop_type t, shape s)
{
    char text[1024];
    dop_target target = target_of(b, how);
    dop_type emb_type = is_int8(how) ? DOP_TYPE_f32 : t;
    const char *type = dop_type_of(t)->name;
    int len = snprintf(
        text, sizeof text,
        "graph test(T%s%u, S<=16, Q=1) {\n  %%tok:u32[T] = input \"tokens\"\n  %%emb:%s[%u,%u] = weight \"emb\"\n"
        "  %%w:%s[%u,%u] = weight \"w\"\n  %%x:f32[T,%u] = gather %%emb, %%tok\n"
        "  %%y:f32[T,%u] = matmul %%x, %%w\n  return %%x, %%y\n}\n",
        s.tokens > 1 ? "<=" : "=", s.tokens, dop_type_of(emb_type)->name, s.vocab, s.k, type, s.n, s.k, s.k, s.n);
    dop_graph g;
    size_t end;
    OK(b, dop_graph_parse("test", text, (size_t)len, &b->arena, &b->diag, &g, &end));
    setting asked = *how;
    dop_pass_ctx cx = {.arena = &b->arena, .diag = &b->diag, .target = &target, .expand = expand, .user = &asked};
    dop_pass_options opt = {.stop_after = -1};
    OK(b, dop_passes_run(&cx, &opt, &g));
    if (!is_possible(how, &g, &target))
        return false;
    uint32_t expanded = 0, n_dispatches = 0;
    matrix emb = random_matrix(emb_type, s.vocab, s.k, 7), w = random_matrix(t, s.n, s.k, 11);
    uint64_t *at = calloc(g.n_nodes, sizeof *at); /* of storage in the heap */
    lab_dispatch *dispatches = calloc(g.n_regions, sizeof *dispatches);
    uint32_t tokens[64];
    b->used = 0;
    for (dop_node_id id = 0; id < g.n_nodes; id++) { /* 0 is the step record */
        const dop_node *n = id ? dop_node_at(&g, id) : NULL;
        const matrix *m =
            n && n->op == DOP_OP_weight ? strcmp(dop_node_s(&g, id, DOP_A_name), "w") == 0 ? &w : &emb : NULL;
        uint64_t rows = n && n->op == DOP_OP_dequant ? s.n : s.tokens;
        uint64_t size = m ? m->size + 16 : n ? rows * dop_node_cols(&g, id) * 4 + 64 : sizeof(dop_step);
        at[id] = take(b, size, m || !n ? 0 : 255);
        if (m)
            memcpy(b->heap + at[id], m->packed, m->size);
    }
    const uint64_t counts_size = DOP_COUNTS_MOST * sizeof(uint32_t), counts = take(b, counts_size, 0);
    dop_step *step = (dop_step *)(void *)(b->heap + at[0]);
    step->n_rows = s.tokens;
    for (uint32_t i = 0; i < s.tokens; i++) {
        tokens[i] = (i * 5 + s.vocab - 1) % s.vocab;
        step->rows[i] = (dop_row){.token = tokens[i], .position = i};
    }
    for (dop_region_id r = 1; r < g.n_regions; r++) {
        const dop_region *reg = &g.regions[r];
        dop_selection choice;
        dop_kernel k;
        if (reg->dead)
            continue;
        bool product = reg->tpl == DOP_TPL_gemv || reg->tpl == DOP_TPL_matmul;
        OK(b, dop_kernel_select(&g, reg, &target, product ? how->forced : NULL, &b->diag, &choice));
        expanded += strcmp(dop_variant_of(choice.variant)->name, "dequant") == 0;
        OK(b, dop_kernel_generate(&b->templates, &g, reg, &target, &choice, NULL, &b->diag, &k));
        lab_dispatch *d = &dispatches[n_dispatches++];
        *d = (lab_dispatch){find_kernel(b, &k, &target), {k.grid[0], k.grid[1], k.grid[2]}, k.n_args, {0}, true};
        for (uint32_t i = 0; i < k.n_args; i++)
            d->args[i] = k.args[i].numbers                  ? k.args[i].number[0] | (uint64_t)k.args[i].number[1] << 32
                         : k.args[i].kind == DOP_ARG_COUNTS ? b->address + counts
                                                            : b->address + at[k.args[i].value];
    }
    OK(b, lab_device_run(b->device, dispatches, n_dispatches, &b->diag));
    for (uint64_t i = 0; i < counts_size; i++)
        cr_assert_eq(b->heap[counts + i], 0, "%s, %s: counters are not zero after the step", how->name, type);
    cr_assert_eq(expanded, is_expanded(how, t, s.k), "%s, %s: %u matrices expanded", how->name, type, expanded);
    const float *x = (const float *)(const void *)(b->heap + at[dop_node_base(&g, g.outs[0], NULL)]);
    const float *y = (const float *)(const void *)(b->heap + at[dop_node_base(&g, g.outs[1], NULL)]);
    for (uint32_t i = 0; i < s.tokens; i++) {
        const float *row = emb.values + (size_t)tokens[i] * s.k;
        for (uint32_t c = 0; c < s.k; c++)
            cr_assert(fabsf(x[i * s.k + c] - row[c]) <= 2e-6f * (fabsf(row[c]) + 1),
                      "%s, %s: gathered value %u of row %u is %g instead of %g", how->name, type, c, tokens[i],
                      (double)x[i * s.k + c], (double)row[c]);
        float *rounded = calloc((size_t)s.k * 3, sizeof *rounded), *either = rounded + s.k, *steps = either + s.k;
        if (is_int8(how))
            round_row(row, s.k, rounded, either, steps);
        else
            memcpy(rounded, row, s.k * sizeof *rounded);
        for (uint32_t n = 0; n < s.n; n++)
            compare_product(how, &w, n, row, rounded, either, steps, (double)y[i * s.n + n]);
        free(rounded);
    }
    free(at);
    free(dispatches);
    matrix_free(&emb);
    matrix_free(&w);
    return true;
}

enum { ALL = DOP_CAP_f16_storage | DOP_CAP_f16_math | DOP_CAP_i8_storage | DOP_CAP_subgroup };

/* Shapes: K not a multiple of a block or of 4, one row, odd rows; the last one for weights that are expanded. */
static const shape shapes[] = {{0, 3, 300, 7}, {0, 2, 512, 65}, {0, 5, 33, 1}, {0, 2, 264, 3}};

/* The driver's compiler is slow, and functions of types/codes.glsl are all made alike. */
static bool
is_code(int t)
{
    return strstr(dop_weight_type_of((dop_type)t)->file, "codes") != NULL;
}

enum { EVERY = 6 }; /* instead of a number below it: all types */

/* The variant, forced on matmul regions, with every type, or with the sixth of them that `sixth` says: each in the first
 * possible shape, from one on that differs from type to type. */
static uint32_t
each_type(const setting *how, uint32_t tokens, uint32_t sixth)
{
    uint32_t cases = 0;
    bench b;
    bench_open(&b);
    for (int t = 0; t < DOP_TYPE_COUNT; t++) {
        if (!dop_weight_type_of((dop_type)t) || (sixth < EVERY && (uint32_t)t % EVERY != sixth))
            continue;
        const uint32_t n = is_code(t) ? 2 : how->expand ? 4 : 3;
        bool run = false;
        for (uint32_t i = 0; i < n && !run; i++) {
            shape s = shapes[((uint32_t)t / (sixth < EVERY ? EVERY : 1) + sixth + i) % n];
            s.tokens = tokens;
            run = run_case(&b, how, (dop_type)t, s);
        }
        cases += run;
    }
    bench_close(&b);
    return cases;
}

/* The same with more shapes, which is for long runs: a type sees the first two in turns and the others, those of codes.glsl only
 * one; turn 2, 3 or 4: a third of those types each. */
static uint32_t
every_type(const setting *how, uint32_t tokens, uint32_t turn)
{
    uint32_t cases = 0;
    bench b;
    bench_open(&b);
    for (int t = 0; t < DOP_TYPE_COUNT; t++)
        for (size_t i = 0; dop_weight_type_of((dop_type)t) && i < (how->expand ? 4 : 3); i++) {
            shape s = shapes[i];
            if (is_code(t) && (i >= 2 || (turn >= 2 && (uint32_t)t % 3 != turn - 2)))
                continue;
            if (i < 2 && i == ((uint32_t)t + turn) % 2)
                continue;
            s.tokens = tokens;
            cases += run_case(&b, how, (dop_type)t, s);
        }
    bench_close(&b);
    return cases;
}

/* VARIANT(TEST, PROFILE, FORCED, CAPS, CPU, EXPANDED TO, TOKENS, SIXTH, TURN, SOME, ALL): two tests of one setting, with
 * `each_type` and with `every_type`; in how many cases, where not all types are possible, or 0. */
#define VARIANT(test, profile, forced, caps, cpu, expand, tokens, sixth, turn, some, all) \
    Test(weight_types, test)                                                              \
    {                                                                                     \
        const setting how = {profile, forced, caps, cpu, expand};                         \
        uint32_t cases = each_type(&how, tokens, sixth);                                  \
        cr_assert((some) ? cases == (some) : cases >= 4, "%u cases", cases);              \
    }                                                                                     \
    Test(weight_types_whole, test)                                                        \
    {                                                                                     \
        const setting how = {profile, forced, caps, cpu, expand};                         \
        uint32_t cases = every_type(&how, tokens, turn);                                  \
        cr_assert((all) ? cases == (all) : cases >= 30, "%u cases", cases);               \
    }

enum { NO_SUBGROUP = ALL & ~DOP_CAP_subgroup, INTS = ALL | DOP_CAP_int_dot, WIDE = ALL | DOP_CAP_int64 };

VARIANT(gemv_rows, "cpu", "gemv_rows", ALL, true, DOP_TYPE_none, 1, 0, 0, 0, 0)
VARIANT(gemv_rows_in_64_bits, "cpu", "gemv_rows", WIDE, true, DOP_TYPE_none, 1, 1, 3, 0, 0)
VARIANT(gemv_subgroup, "tier 1", "gemv_subgroup", ALL, false, DOP_TYPE_none, 1, EVERY, 0, 0, 0)
VARIANT(gemv, "tier 2", "gemv", NO_SUBGROUP, false, DOP_TYPE_none, 1, 2, 3, 0, 0)
VARIANT(gemv_without_16_bit, "tier 3", "gemv", 0, false, DOP_TYPE_none, 1, 3, 2, 0, 0)
/* Fifteen types in two shapes each, thirteen of types/codes.glsl, or a third of these, in one. */
VARIANT(gemv_subgroup_i8, "tier 1", "gemv_subgroup_i8", INTS, false, DOP_TYPE_none, 1, EVERY, 0, 28, 43)
VARIANT(gemv_rows_i8, "cpu", "gemv_rows_i8", INTS, true, DOP_TYPE_none, 1, 4, 3, 4, 34)
VARIANT(gemv_i8, "tier 2", "gemv_i8", NO_SUBGROUP | DOP_CAP_int_dot, false, DOP_TYPE_none, 1, 5, 4, 4, 34)
/* Rows of any length that is a multiple of four. */
VARIANT(few, "tier 1", "few", ALL, false, DOP_TYPE_none, 3, EVERY, 1, 3, 3)
VARIANT(few_i8, "tier 1", "few_i8", INTS, false, DOP_TYPE_none, 3, 2, 1, 5, 28)
VARIANT(matmul_rows, "cpu", "matmul_rows", ALL, true, DOP_TYPE_none, 3, 3, 0, 0, 0)
VARIANT(matmul_rows_in_64_bits, "cpu", "matmul_rows", WIDE, true, DOP_TYPE_none, 13, 4, 3, 0, 0)
VARIANT(matmul_tiled_cpu, "cpu", "matmul_tiled", ALL, true, DOP_TYPE_none, 5, 5, 4, 0, 0)
VARIANT(matmul_tiled, "tier 1", "matmul_tiled", ALL, false, DOP_TYPE_none, 5, 3, 1, 0, 0)
VARIANT(matmul_tiled_without_16_bit, "tier 3", "matmul_tiled", 0, false, DOP_TYPE_none, 17, 0, 2, 0, 0)
/* Two steps: quantized weights become f16 or f32 in memory, and the variant reads those. */
VARIANT(dequant_and_matmul_rows, "cpu", "matmul_rows", WIDE, true, DOP_TYPE_f16, 9, 1, 4, 0, 0)
VARIANT(dequant_and_matmul_tiled, "tier 1", "matmul_tiled", ALL, false, DOP_TYPE_f16, 5, 2, 3, 0, 0)
VARIANT(dequant_to_f32_without_16_bit, "tier 3", "matmul_tiled", 0, false, DOP_TYPE_f32, 5, 5, 2, 0, 0)

/* Rows that are in shared memory piece by piece. */
Test(weight_types, few_in_pieces)
{
    static const struct {
        setting how;
        dop_type type;
    } cases[] = {{{"tier 1", "few", ALL, false, DOP_TYPE_none}, DOP_TYPE_f16},
                 {{"tier 1", "few_i8", INTS, false, DOP_TYPE_none}, DOP_TYPE_q4_k}};
    bench b;
    bench_open(&b);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        cr_assert(run_case(&b, &cases[i].how, cases[i].type, (shape){8, 2, 4136, 5}));
    bench_close(&b);
}

/* --- weights as halves ------------------------------------------------------------------------------------------------- */

/* Has the type a codebook that values are looked up in? */
static bool
has_book(dop_type t)
{
    return dop_type_of(t)->pack.book >= 1024;
}

/* How weights become halves: eight at a time, in whole units, or eight at a time with the codebook in shared memory. */
typedef enum halves_form { EIGHTS, UNITS, SHARED_BOOK } halves_form;

/* The line that makes the functions of a type for it (kernels/product/gen_coop_weights.c). */
static const char *
halves_of(bench *b, dop_type t, bool units)
{
    const dop_type_info *ti = dop_type_of(t);
    const bool book = has_book(t), moved = book && ti->pack.unit_bytes == 4;
    const char *form = units                              ? moved  ? "DOP_TAKE_MOVED"
                                                            : book ? "DOP_TAKE_BOOK"
                                                                   : "DOP_TAKE"
                       : ti->pack.ints == DOP_INTS_LEVELS ? "DOP_HALVES_LEVELS"
                                                          : "DOP_HALVES_ANY";
    if (is_code((int)t))
        return dop_arena_printf(&b->arena, "%s(%s)\n", form, ti->name);
    return units ? "" : dop_arena_printf(&b->arena, "DOP_HALVES_%s\n", ti->name);
}

/* The text of a kernel that expands weights, with the functions of products on matrix units in the place of its own. */
static const char *
with_halves(bench *b, const char *glsl, dop_type t, halves_form how)
{
    const char *name = dop_type_of(t)->name, *begin = strstr(glsl, "void main()"), *line = strchr(glsl, '\n') + 1,
               *coop = strstr(dop_templates_get(&b->templates, "matmul_coop.glsl"), "struct dop_raw8"), *read,
               *call = dop_arena_printf(&b->arena, "dop_w4_%s", name);
    const bool units = how == UNITS;
    dop_buf out = {0};
    cr_assert(begin && coop);
    dop_buf_printf(&out, "%.*s#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require\n",
                   (int)(line - glsl), glsl);
    if (how == SHARED_BOOK)
        dop_buf_printf(&out, "#define DOP_BOOK_WORDS %uu\n", dop_type_of(t)->pack.book / 4);
    dop_buf_printf(&out, "%.*s%.*s%s%s%suvec4 eight(U32 p, uint i, uint aux) { return ", (int)(begin - line), line,
                   (int)(strstr(coop, "#define DOP_HALVES_f16") - coop), coop,
                   dop_templates_get(&b->templates, "types/halves.glsl"),
                   units ? dop_templates_get(&b->templates, "matmul_coop_units.glsl") : "", halves_of(b, t, units));
    if (units)
        dop_buf_printf(&out, "dop_take_%s(dop_%s_%s(p, i >> 5, aux), (i >> 3) & 3u); }\n", name,
                       has_book(t) ? "bload" : "wload", name);
    else
        dop_buf_printf(&out, "dop_w8_%s(dop_w8load_%s(p, i, aux), i); }\n", name, name);
    dop_buf_printf(&out, "vec4 halves(U32 p, uint i, uint aux)\n{\n    uvec4 e = eight(p, i & ~7u, aux);\n"
                         "    return (i & 4u) != 0u ? dop_f16x4(e.zw) : dop_f16x4(e.xy);\n}\n");
    /* The first use has as arguments the matrix, a place in it, and where its scales are. */
    if (how == SHARED_BOOK) {
        const char *body = strchr(begin, '{') + 2, *w = strstr(begin, call) + strlen(call) + 1,
                   *aux = strchr(strchr(w, ',') + 1, ',') + 1;
        dop_buf_printf(&out, "%.*s    dop_fill_book(%.*s,%.*s);\n    barrier();\n", (int)(body - begin), begin,
                       (int)strcspn(w, ","), w, (int)strcspn(aux, ")"), aux);
        begin = body;
    }
    for (; (read = strstr(begin, call)); begin = read + strlen(call))
        dop_buf_printf(&out, "%.*shalves", (int)(read - begin), begin);
    dop_buf_printf(&out, "%s", begin);
    const char *text = dop_arena_printf(&b->arena, "%s", out.data);
    dop_buf_finish(&out);
    return text;
}

/* Values of a matrix as halves, against the scalar decoder: scales are rounded to halves first, so that values may be wrong by two
 * roundings of the largest one of their unit. */
static void
compare_halves(const matrix *w, const float *got, halves_form how)
{
    static const char *const forms[] = {"eights", "units", "eights, the codebook shared"};
    for (uint32_t u = 0; u < w->rows * w->cols; u += 32) {
        float most = 0;
        for (uint32_t i = u; i < u + 32; i++)
            most = fmaxf(most, fabsf(w->values[i]));
        for (uint32_t i = u; i < u + 32; i++)
            cr_assert(fabsf(got[i] - w->values[i]) <= most / 1024 + 1e-7f, "%s in %s: value %u is %g instead of %g",
                      dop_type_of(w->type)->name, forms[how], i, (double)got[i], (double)w->values[i]);
    }
}

static void
run_halves(bench *b, dop_type t, halves_form in)
{
    const setting how = {"tier 1", "matmul_tiled", ALL, false, DOP_TYPE_f32};
    const uint32_t rows = 3, cols = 512;
    char text[512];
    dop_target target = target_of(b, &how);
    matrix w = random_matrix(t, rows, cols, 11);
    int len = snprintf(text, sizeof text,
                       "graph test(T=1, S<=16, Q=1) {\n  %%w:%s[%u,%u] = weight \"w\"\n  %%v:f32[%u,%u] = dequant %%w\n"
                       "  return %%v\n}\n",
                       dop_type_of(t)->name, rows, cols, rows, cols);
    dop_graph g;
    size_t end;
    OK(b, dop_graph_parse("test", text, (size_t)len, &b->arena, &b->diag, &g, &end));
    dop_pass_ctx cx = {.arena = &b->arena, .diag = &b->diag, .target = &target};
    dop_pass_options opt = {.stop_after = -1};
    OK(b, dop_passes_run(&cx, &opt, &g));
    b->used = 0;
    const uint64_t packed = take(b, w.size + 16, 0), values = take(b, (uint64_t)rows * cols * 4, 255);
    memcpy(b->heap + packed, w.packed, w.size);
    uint32_t ran = 0;
    for (dop_region_id r = 1; r < g.n_regions; r++) {
        dop_selection choice;
        dop_kernel k;
        if (g.regions[r].dead)
            continue;
        OK(b, dop_kernel_select(&g, &g.regions[r], &target, NULL, &b->diag, &choice));
        OK(b, dop_kernel_generate(&b->templates, &g, &g.regions[r], &target, &choice, NULL, &b->diag, &k));
        k.glsl = with_halves(b, k.glsl, t, in);
        k.caps |= DOP_CAP_f16_math;
        lab_dispatch d = {find_kernel(b, &k, &target), {k.grid[0], k.grid[1], k.grid[2]}, k.n_args, {0}, true};
        for (uint32_t i = 0; i < k.n_args; i++)
            d.args[i] = k.args[i].numbers ? k.args[i].number[0] | (uint64_t)k.args[i].number[1] << 32
                                          : b->address + (k.args[i].value == g.outs[0] ? values : packed);
        OK(b, lab_device_run(b->device, &d, 1, &b->diag));
        ran++;
    }
    cr_assert_eq(ran, 1);
    compare_halves(&w, (const float *)(const void *)(b->heap + values), in);
    matrix_free(&w);
}

static void
all_halves(halves_form how)
{
    bench b;
    bench_open(&b);
    for (int t = 0; t < DOP_TYPE_COUNT; t++)
        if (dop_weight_type_of((dop_type)t) && dop_type_of((dop_type)t)->kind == DOP_KIND_QUANT &&
            (how != SHARED_BOOK || has_book((dop_type)t)))
            run_halves(&b, (dop_type)t, how);
    bench_close(&b);
}

Test(weight_types, halves_in_units)
{
    all_halves(UNITS);
}

Test(weight_types, halves_of_codebooks_in_shared_memory)
{
    all_halves(SHARED_BOOK);
}

Test(weight_types_whole, halves_in_eights)
{
    all_halves(EIGHTS);
}

/* --- the packed sizes --------------------------------------------------------------------------------------------------- */

Test(weight_types, packing_costs_little)
{
    for (int t = 0; t < DOP_TYPE_COUNT; t++) {
        const dop_type_info *ti = dop_type_of((dop_type)t);
        if (!dop_weight_type_of((dop_type)t))
            continue;
        /* A codebook is there once; tq1_0 is read with two bits a value. */
        double stored = 1024.0 * 1024 / ti->block * ti->bytes,
               packed = (double)(dop_packed_bytes((dop_type)t, 1024, 1024) - ti->pack.book);
        cr_assert(packed <= stored * (t == DOP_TYPE_tq1_0 ? 66.0 / 54 : 1.04), "%s: %g bytes packed, %g stored",
                  ti->name, packed, stored);
    }
}
