#include "tests/unit/kernels_tiles.h"

#include "compiler/target/target.h"
#include "ir/syntax/text.h"
#include "kernels/descriptor.h"
#include "passes/pass.h"

#include <stdio.h>
#include <string.h>

/* --- graphs ---------------------------------------------------------------------------------------------------------- */

static void
begin(const tile_case *c, uint32_t ctx, dop_buf *out)
{
    dop_buf_printf(out,
                   "graph tiles(T%s%u, S<=%u, Q=1) {\n  %%tok:u32[T] = input \"tokens\"\n"
                   "  %%pos:u32[T] = input \"positions\"\n  %%seq:u32[T] = input \"sequences\"\n",
                   c->tokens > 1 ? "<=" : "=", c->tokens, ctx);
}

static bool
has_blocks(const char *type)
{
    return strcmp(type, "f16") != 0 && strcmp(type, "f32") != 0;
}

/* Products of rows that have 8 bits already where weights are in blocks, so that integers round nothing: one, two that meet, with a norm
 * before them, or two apart. */
static void
product(const tile_case *c, uint64_t seed, dop_buf *out)
{
    const uint32_t k = seed % 5 == 0 ? 96 : 160, n = seed % 3 ? 72 : 40, form = (uint32_t)(seed / 2 % 3);
    const bool mixed = strcmp(c->type, "mixed") == 0, blocks = has_blocks(c->type), norm = form == 1 && !blocks;
    const char *const type = mixed ? "q8_0" : c->type;
    begin(c, 32 + 2 * c->tokens, out);
    dop_buf_printf(out, "  %%t:%s[24,%u] = weight \"t0\"\n  %%x0:f32[T,%u] = gather %%t, %%tok\n",
                   blocks ? "q8_0" : "f16", k, k);
    dop_buf_printf(out, "  %%w1:%s[%u,%u] = weight \"w1\"\n  %%w2:%s[%u,%u] = weight \"w2\"\n", type, n, k,
                   mixed ? "f16" : type, n, k);
    if (norm)
        dop_buf_printf(out, "  %%v:f32[%u] = weight \"v\"\n  %%x:f32[T,%u] = rmsnorm %%x0, %%v eps=0x1p-20 add=0\n", k,
                       k);
    const char *x = norm ? "x" : "x0";
    dop_buf_printf(out, "  %%p:f32[T,%u] = matmul %%%s, %%w1\n", n, x);
    if (form || mixed)
        dop_buf_printf(out, "  %%q:f32[T,%u] = matmul %%%s, %%w2\n", n, x);
    if (form == 1 && !mixed)
        dop_buf_printf(out, "  %%a:f32[T,%u] = silu %%p\n  %%y:f32[T,%u] = mul %%a, %%q\n", n, n);
    dop_buf_puts(out, form == 1 && !mixed ? "  return %x0, %y\n}\n"
                      : form || mixed     ? "  return %x0, %p, %q\n}\n"
                                          : "  return %x0, %p\n}\n");
}

/* Products with the matrices of two of five experts, of several rows also summed up. */
static void
experts(const tile_case *c, uint64_t seed, dop_buf *out)
{
    const uint32_t h = 64, w = seed % 3 ? 40 : 24;
    const bool sum = c->tokens > 1 && seed / 2 % 2;
    begin(c, 32 + 2 * c->tokens, out);
    dop_buf_printf(out,
                   "  %%t:%s[16,%u] = weight \"t0\"\n  %%r:f32[16,5] = weight \"t1\"\n"
                   "  %%w:%s[5,%u,%u] = weight \"w1\"\n  %%x:f32[T,%u] = gather %%t, %%tok\n"
                   "  %%r0:f32[T,5] = gather %%r, %%tok\n  %%p:f32[T,5] = softmax %%r0\n"
                   "  %%ids:u32[T,2] = top_k %%p k=2 groups=1 group_best=1 group_keep=1\n"
                   "  %%pk:f32[T,2] = pick %%p, %%ids\n  %%g:f32[T,2,%u] = matmul_at %%x, %%w, %%ids\n",
                   has_blocks(c->type) ? "q8_0" : "f16", h, c->type, w, h, h, w);
    if (sum)
        dop_buf_printf(out, "  %%y:f32[T,%u] = weighted_sum %%g, %%pk\n", w);
    dop_buf_puts(out, sum ? "  return %x, %y\n}\n" : "  return %x, %g, %pk\n}\n");
}

static void
attention(const tile_case *c, uint64_t seed, dop_buf *out)
{
    const uint32_t heads = seed % 2 ? 4 : 6, dim = seed / 2 % 2 && c->target != TILE_UNITS ? 32 : 64;
    begin(c, 96 + c->tokens, out);
    dop_buf_printf(out,
                   "  %%t:f16[24,%u] = weight \"t0\"\n  %%u:f16[24,%u] = weight \"t1\"\n"
                   "  %%kc:%s[Q,S,2,%u] = state \"k\" kind=append\n  %%vc:%s[Q,S,2,%u] = state \"v\" kind=append\n",
                   heads * dim, 2 * dim, c->type, dim, c->type, dim);
    dop_buf_printf(out,
                   "  %%x:f32[T,%u] = gather %%t, %%tok\n  %%z:f32[T,%u] = gather %%u, %%tok\n"
                   "  %%q:f32[T,%u,%u] = reshape %%x\n  %%k:f32[T,2,%u] = reshape %%z\n"
                   "  %%kw:%s[Q,S,2,%u] = state_write %%kc, %%k, %%pos, %%seq\n"
                   "  %%vw:%s[Q,S,2,%u] = state_write %%vc, %%k, %%pos, %%seq\n",
                   heads * dim, 2 * dim, heads, dim, dim, c->type, dim, c->type, dim);
    dop_buf_printf(out,
                   "  %%a:f32[T,%u,%u] = attention %%q, %%kw, %%vw, %%pos, %%seq scale=0.125 window=%u cap=0\n"
                   "  %%y:f32[T,%u] = reshape %%a\n  return %%y, %%kw\n}\n",
                   heads, dim, seed % 3 ? 0u : 20u, heads * dim);
}

static void
scan(const tile_case *c, uint64_t seed, dop_buf *out)
{
    const bool units = c->target == TILE_UNITS, delta = seed / 2 % 2;
    const uint32_t heads = 2, n = units || seed % 2 ? 16 : 20, p = units || seed % 3 ? 16 : 9, v = heads * p;
    begin(c, 32 + 2 * c->tokens, out);
    dop_buf_printf(out, "  %%tv:f16[24,%u] = weight \"tv\"\n  %%tq:f16[24,%u] = weight \"tq\"\n", v, n);
    dop_buf_printf(out, "  %%tk:f16[24,%u] = weight \"tk\"\n  %%ta:f16[24,%u] = weight \"ta\"\n", n, heads);
    dop_buf_printf(out, "  %%ss:f32[Q,%u,%u,%u] = state \"s\" kind=replace\n", heads, p, n);
    dop_buf_printf(out, "  %%v1:f32[T,%u] = gather %%tv, %%tok\n  %%v:f32[T,%u,%u] = reshape %%v1\n", v, heads, p);
    dop_buf_printf(out, "  %%q1:f32[T,%u] = gather %%tq, %%tok\n  %%k1:f32[T,%u] = gather %%tk, %%tok\n", n, n);
    dop_buf_printf(out, "  %%q:f32[T,1,%u] = reshape %%q1\n  %%k2:f32[T,1,%u] = reshape %%k1\n", n, n);
    dop_buf_printf(out, "  %%k:f32[T,1,%u] = scale %%k2 by=%.9g\n", n, 0.5 / (double)n);
    dop_buf_printf(out, "  %%a1:f32[T,%u] = gather %%ta, %%tok\n  %%a:f32[T,%u] = sigmoid %%a1\n", heads, heads);
    dop_buf_printf(out, "  %%y:f32[T,%u,%u] = linear_scan %%q, %%k, %%v, %%a, %%ss, %%seq%s interleaved=0\n", heads, p,
                   delta ? ", %a" : "");
    dop_buf_printf(out,
                   "  %%after:f32[Q,%u,%u,%u] = linear_scan_state %%q, %%k, %%v, %%a, %%ss, %%seq%s interleaved=0\n",
                   heads, p, n, delta ? ", %a" : "");
    dop_buf_printf(out, "  %%ss1:f32[Q,%u,%u,%u] = state_write %%ss, %%after\n", heads, p, n);
    dop_buf_printf(out, "  %%out:f32[T,%u] = reshape %%y\n  return %%out, %%ss1\n}\n", v);
}

static void
rows(const tile_case *c, uint64_t seed, dop_buf *out)
{
    const uint32_t k = seed % 2 ? 160 : 39;
    begin(c, 32 + 2 * c->tokens, out);
    dop_buf_printf(out,
                   "  %%t:f16[24,%u] = weight \"t0\"\n  %%v:f32[%u] = weight \"v\"\n"
                   "  %%x:f32[T,%u] = gather %%t, %%tok\n  %%y:f32[T,%u] = rmsnorm %%x, %%v eps=0x1p-20 add=0\n"
                   "  %%z:f32[T,%u] = softmax %%y\n  return %%y, %%z\n}\n",
                   k, k, k, k, k);
}

static void
elements(const tile_case *c, uint64_t seed, dop_buf *out)
{
    const uint32_t k = seed % 2 ? 160 : 39;
    begin(c, 32 + 2 * c->tokens, out);
    dop_buf_printf(out,
                   "  %%t:f16[24,%u] = weight \"t0\"\n  %%x:f32[T,%u] = gather %%t, %%tok\n"
                   "  %%y:f32[T,%u] = silu %%x\n  return %%y\n}\n",
                   k, k, k);
}

static void
pick(const tile_case *c, uint64_t seed, dop_buf *out)
{
    const uint32_t n = seed % 2 ? 300 : 4200;
    begin(c, 32 + 2 * c->tokens, out);
    dop_buf_printf(out,
                   "  %%t:f16[24,32] = weight \"t0\"\n  %%w:f16[%u,32] = weight \"w1\"\n"
                   "  %%x:f32[T,32] = gather %%t, %%tok\n  %%y:f32[T,%u] = matmul %%x, %%w\n"
                   "  %%id:u32[T] = argmax %%y\n  return %%y, %%id\n}\n",
                   n, n);
}

static void
expanded(const tile_case *c, uint64_t seed, dop_buf *out)
{
    const uint32_t k = seed % 2 ? 96 : 256;
    begin(c, 32 + 2 * c->tokens, out);
    dop_buf_printf(out,
                   "  %%t:f16[24,%u] = weight \"t0\"\n  %%w:q8_0[24,%u] = weight \"w1\"\n"
                   "  %%d:f32[24,%u] = dequant %%w\n  %%x:f32[T,%u] = gather %%t, %%tok\n"
                   "  %%y:f32[T,24] = matmul %%x, %%d\n  return %%y\n}\n",
                   k, k, k, k);
}

static void
moment(const tile_case *c, uint64_t seed, dop_buf *out)
{
    const uint32_t cols = seed % 2 ? 32 : 96, groups = seed / 2 % 2 ? 2 : 8;
    begin(c, 32 + 2 * c->tokens, out);
    dop_buf_printf(out,
                   "  %%t:f16[24,%u] = weight \"t0\"\n  %%x:f32[T,%u] = gather %%t, %%tok\n"
                   "  %%m:f32[4,%u,3] = moments %%x parts=4 groups=%u\n  return %%x, %%m\n}\n",
                   cols, cols, groups, groups);
}

static void
positions(const tile_case *c, uint64_t seed, dop_buf *out)
{
    begin(c, 96, out);
    dop_buf_printf(
        out,
        "  %%t:f16[24,48] = weight \"t0\"\n  %%u:f16[24,3] = weight \"t1\"\n  %%o:f16[24,16] = weight \"t2\"\n"
        "  %%xc:f32[Q,S,1,16] = state \"x\" kind=append\n  %%x:f32[T,48] = gather %%t, %%tok\n"
        "  %%w:f32[T,3] = gather %%u, %%tok\n  %%z:f32[T,16] = gather %%o, %%tok\n"
        "  %%q:f32[T,3,16] = reshape %%x\n  %%k:f32[T,1,16] = reshape %%z\n"
        "  %%xw:f32[Q,S,1,16] = state_write %%xc, %%k, %%pos, %%seq\n"
        "  %%s:f32[T,96] = index_scores %%q, %%xw, %%w, %%pos, %%seq scale=0x1p-2\n"
        "  %%c:u32[T,%u] = top_positions %%s, %%pos k=%u\n"
        "  %%kc:f32[Q,S,1,16] = state \"k\" kind=append\n"
        "  %%kw:f32[Q,S,1,16] = state_write %%kc, %%k, %%pos, %%seq\n"
        "  %%a:f32[T,3,16] = attention %%q, %%kw, %%kw, %%pos, %%seq, %%c scale=0.25 window=0 cap=0 top=%u\n"
        "  %%y:f32[T,48] = reshape %%a\n  return %%y, %%xw, %%kw\n}\n",
        seed % 2 ? 5 : 17, seed % 2 ? 5 : 17, seed % 2 ? 5 : 17);
}

#define CASE(name, target, write, ...)                        \
    {                                                         \
        DOP_VARIANT_##name, TILE_##target, write, __VA_ARGS__ \
    }
static const tile_case cases[] = {
    CASE(dequant, GPU, expanded, 5, "", 0),
    CASE(elementwise, GPU, elements, 5, "", 0),
    CASE(row_subgroup, GPU, rows, 5, "", 0),
    CASE(row, PLAIN, rows, 5, "", 0),
    CASE(gemv_rows_i8, CPU, product, 1, "q4_0", 0.1),
    CASE(gemv_rows, CPU, product, 1, "f16", 0),
    CASE(gemv_subgroup_i8, GPU, product, 1, "q4_0", 0.1),
    CASE(gemv_subgroup_mixed, GPU, product, 1, "mixed", 0.1),
    CASE(gemv_subgroup, GPU, product, 1, "f16", 0),
    CASE(gemv_i8, PLAIN, product, 1, "q4_0", 0.1),
    CASE(gemv, PLAIN, product, 1, "f16", 0),
    CASE(few_i8, GPU, product, 5, "q4_0", 0.1),
    CASE(few, GPU, product, 3, "f16", 0),
    CASE(matmul_rows, CPU, product, 9, "f16", 0),
    CASE(matmul_tiled, PLAIN, product, 21, "f16", 0),
    CASE(expert_block_rows, CPU, experts, 24, "f16", 0),
    CASE(expert_tiled, PLAIN, experts, 24, "f16", 0),
    CASE(expert_subgroup_i8, GPU, experts, 1, "q4_0", 0.1),
    CASE(expert_subgroup, GPU, experts, 1, "q4_0", 1e-3),
    CASE(expert_rows, CPU, experts, 1, "f16", 0),
    CASE(expert_subgroup, GPU, experts, 1, "f16", 0),
    CASE(expert_i8, PLAIN, experts, 1, "q4_0", 0.1),
    CASE(expert, PLAIN, experts, 1, "f16", 0),
    CASE(expert_each_subgroup, GPU, experts, 3, "f16", 0),
    CASE(expert_each, PLAIN, experts, 3, "f16", 0),
    CASE(choice, GPU, experts, 24, "f16", 0),
    CASE(group_rows, GPU, experts, 24, "f16", 0),
    CASE(index_scores, GPU, positions, 3, "", 0),
    CASE(top_positions, GPU, positions, 3, "", 0),
    CASE(attention_rows, CPU, attention, 5, "f16", 1e-3),
    CASE(attention_decode, GPU, attention, 1, "f16", 1e-3),
    CASE(attention_subgroup, GPU, attention, 5, "f16", 1e-3),
    CASE(attention_subgroup, GPU, attention, 1, "f16", 1e-3),
    CASE(attention, PLAIN, attention, 5, "f16", 1e-3),
    CASE(scan_subgroup, GPU, scan, 19, "", 0),
    CASE(scan, PLAIN, scan, 19, "", 0),
    CASE(moments, GPU, moment, 21, "", 0),
    CASE(argmax, GPU, pick, 1, "", 0),
    CASE(matmul_coop_own, UNITS, product, 16, "f16", 4e-3),
    CASE(matmul_coop_own, UNITS, product, 33, "q4_0", 4e-3),
    CASE(matmul_coop_few, UNITS, product, 16, "f16", 4e-3),
    CASE(matmul_coop_few, UNITS, product, 40, "q4_0", 4e-3),
    CASE(matmul_coop, UNITS, product, 70, "f16", 4e-3),
    CASE(matmul_coop, UNITS, product, 70, "q8_0", 4e-3),
    CASE(expert_coop, UNITS, experts, 64, "f16", 2e-3),
    CASE(attention_coop, UNITS, attention, 20, "f16", 8e-3),
    CASE(scan_coop, UNITS, scan, 64, "", 8e-3),
};

uint32_t
tile_cases(const tile_case **out_cases)
{
    *out_cases = cases;
    return sizeof cases / sizeof *cases;
}

/* --- tiles ----------------------------------------------------------------------------------------------------------- */

static uint64_t
next(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static uint32_t
any_number(uint64_t *state)
{
    static const uint32_t primes[] = {2, 3, 5, 7, 11, 13, 17, 31, 61, 127, 251, 509, 1021, 2039, 4093};
    const uint64_t x = next(state);
    switch (x % 6) {
    case 0:
        return (uint32_t)(x / 8 % 2);
    case 1:
        return primes[x / 8 % (sizeof primes / sizeof *primes)];
    case 2:
        return (uint32_t)(x / 8 % 4097);
    default:
        return 1u << x / 8 % 13;
    }
}

/* A number near another one, which legal tiles are made of. */
static uint32_t
near_number(uint32_t from, uint64_t *state)
{
    const uint64_t x = next(state);
    switch (x % 5) {
    case 0:
        return from * 2;
    case 1:
        return from / 2;
    case 2:
        return from + (uint32_t)(x / 8 % 3) + 1;
    default:
        return 1u << x / 8 % 9;
    }
}

typedef struct trial {
    const tile_case *c;
    tile_kind kind;
    uint64_t seed;
    const dop_templates *templates;
    tile_result *out;
    dop_tile tile; /* once it is made; all regions of the variant have it */
    char wrong[256];
} trial;

static uint32_t
fields_of(dop_variant_id v)
{
    uint32_t fields = dop_kernel_fields(v);
    for (int k = 0; k < DOP_TILE_FIELDS; k++)
        fields &= ~(dop_tile_tuned(k) ? 0u : 1u << k);
    return fields;
}

/* Changes some of the fields. */
static void
change(const trial *x, uint64_t *state, dop_tile *tile)
{
    const uint32_t fields = fields_of(x->c->variant);
    for (int k = 0; k < DOP_TILE_FIELDS; k++)
        if (fields >> k & 1 && (next(state) % 3 || x->kind == TILE_ANY))
            dop_tile_set(tile, k, x->kind == TILE_ANY ? any_number(state) : near_number(dop_tile_get(tile, k), state));
}

/* Moves a field to what the check says that it must be, or to another number near it. */
static void
mend(const trial *x, const dop_tile_fault *fault, uint64_t *state, dop_tile *tile)
{
    const char *must = strstr(fault->why, " must be ");
    uint32_t value;
    if (fault->field >= DOP_TILE_FIELDS || !(fields_of(x->c->variant) >> fault->field & 1))
        change(x, state, tile);
    else if (must && sscanf(must, " must be %u (", &value) == 1)
        dop_tile_set(tile, fault->field, value);
    else if (must && next(state) % 2 && sscanf(must, " must be a multiple of %u", &value) == 1)
        dop_tile_set(tile, fault->field, value * (1 + (uint32_t)(next(state) % 4)));
    else
        dop_tile_set(tile, fault->field, near_number(dop_tile_get(tile, fault->field), state));
}

/* An illegal tile is refused with a reason, and before anything is generated from it. */
static void
check_refusal(trial *x, const dop_graph *g, const dop_region *r, const dop_target *t, const dop_selection *from,
              const dop_tile_fault *fault)
{
    dop_selection choice = *from;
    dop_kernel kernel;
    dop_diag diag = {0};
    choice.tile = x->tile;
    choice.source = "test";
    snprintf(x->out->fault, sizeof x->out->fault, "%s", fault->why);
    if (dop_kernel_generate(x->templates, g, r, t, &choice, NULL, &diag, &kernel) != DOP_E_INPUT ||
        strncmp(diag.message, "test: ", 6) != 0 || !strstr(diag.message, fault->why))
        snprintf(x->wrong, sizeof x->wrong, "an illegal tile is generated: %.150s", fault->why);
}

static void
choose(void *user, const dop_graph *g, const dop_region *r, const dop_target *t, dop_selection *choice)
{
    trial *x = user;
    const dop_variant *v = dop_variant_of(x->c->variant);
    dop_selection own;
    dop_diag diag = {0};
    dop_tile_fault fault;
    uint64_t state = x->seed * 1000003 + (uint64_t)x->c->variant;
    if (r->tpl != v->tpl || dop_kernel_select(g, r, t, v->name, &diag, &own) != DOP_OK)
        return;
    if (!x->out->met) {
        x->tile = own.tile;
        change(x, &state, &x->tile);
    } else if (!x->out->legal) {
        return;
    }
    dop_kernel_settle(own.variant, g, r, t, &x->tile);
    bool legal = dop_kernel_legal(own.variant, g, r, t, &x->tile, &fault);
    for (uint32_t tries = 0; !legal && !x->out->met && x->kind == TILE_LEGAL && tries < 200; tries++) {
        if (tries % 40 == 39)
            x->tile = own.tile;
        mend(x, &fault, &state, &x->tile);
        dop_kernel_settle(own.variant, g, r, t, &x->tile);
        legal = dop_kernel_legal(own.variant, g, r, t, &x->tile, &fault);
    }
    if (!legal)
        check_refusal(x, g, r, t, &own, &fault);
    x->out->met = true;
    x->out->legal = x->out->legal || legal;
    if (!legal)
        return;
    *choice = own;
    choice->tile = x->tile;
    choice->source = "test";
}

/* Generates and compiles all kernels of the graph, without a device. */
static bool
compile_only(trial *x, const char *text, const dop_target *target, dop_buf *why)
{
    dop_arena arena;
    dop_graph g;
    dop_diag diag = {0};
    size_t end;
    dop_arena_init(&arena);
    dop_pass_ctx cx = {.arena = &arena, .diag = &diag, .target = target};
    const dop_pass_options opt = {.stop_after = -1};
    dop_status st = dop_graph_parse("graph", text, strlen(text), &arena, &diag, &g, &end);
    if (st == DOP_OK)
        st = dop_passes_run(&cx, &opt, &g);
    for (dop_region_id r = 1; st == DOP_OK && r < g.n_regions; r++) {
        dop_selection choice;
        dop_kernel k;
        dop_buf spirv = {0};
        uint32_t shared = 0;
        if (g.regions[r].dead)
            continue;
        st = dop_kernel_select(&g, &g.regions[r], target, NULL, &diag, &choice);
        if (st == DOP_OK)
            choose(x, &g, &g.regions[r], target, &choice);
        if (st == DOP_OK && choice.variant == x->c->variant && choice.source)
            st = dop_kernel_generate(x->templates, &g, &g.regions[r], target, &choice, NULL, &diag, &k);
        if (st == DOP_OK && choice.variant == x->c->variant && choice.source)
            st = dop_kernel_compile("tile", &k, target, &diag, &spirv, &shared);
        dop_buf_finish(&spirv);
    }
    if (st != DOP_OK)
        dop_buf_puts(why, diag.message);
    dop_arena_finish(&arena);
    return st == DOP_OK;
}

bool
tile_check(kernel_lab *lab, const dop_templates *templates, const tile_case *c, const dop_target *target,
           tile_kind kind, uint64_t seed, tile_result *out, dop_buf *why)
{
    dop_buf text = {0};
    trial x = {.c = c, .kind = kind, .seed = seed, .templates = templates, .out = out};
    const kernel_lab_choice choice = {choose, &x, c->slack};
    *out = (tile_result){0};
    c->write(c, seed, &text);
    bool ok =
        lab ? kernel_lab_check_choice(lab, text.data, target, &choice, why) : compile_only(&x, text.data, target, why);
    out->tile = x.tile;
    if (ok && x.wrong[0])
        dop_buf_puts(why, x.wrong);
    if (ok && out->met && !out->legal && !out->fault[0])
        dop_buf_puts(why, "an illegal tile has no reason");
    ok = ok && !x.wrong[0] && (out->legal || out->fault[0] || !out->met);
    if (!ok) {
        dop_buf_printf(why, "\n%s, seed %llu, tile", dop_variant_of(c->variant)->name, (unsigned long long)seed);
        dop_tile_put(&x.tile, why);
        dop_buf_printf(why, "\n%s", text.data ? text.data : "");
    }
    dop_buf_finish(&text);
    return ok;
}

dop_target
tile_target_of(tile_target kind, const char *named, uint32_t caps, uint32_t subgroup)
{
    static const char *const names[] = {"lavapipe", "tier1", "tier3"};
    dop_target t;
    dop_diag diag = {0};
    if (dop_target_resolve(kind == TILE_UNITS ? named : names[kind], &diag, &t) != DOP_OK)
        fprintf(stderr, "%s\n", diag.message);
    if (kind == TILE_UNITS)
        return t;
    t.caps = (t.caps | DOP_CAP_int_dot | DOP_CAP_f16_storage) & caps & ~(uint32_t)DOP_CAP_texels;
    t.subgroup = t.caps & DOP_CAP_subgroup ? subgroup : 1;
    t.loop_trips = 65535; /* of the software device that runs them */
    return t;
}

int
tile_check_cases(uint32_t first, uint32_t step, uint32_t n, const char *units)
{
    dop_templates templates;
    dop_diag diag = {0};
    dop_buf no = {0};
    kernel_lab *lab;
    uint32_t caps, subgroup;
    int failures = 0;
    if (dop_templates_load(DOP_GLSL_SOURCE_DIR, &templates, &diag) != DOP_OK)
        return 1;
    if (!kernel_lab_open_any(&lab, &caps, &subgroup, &no)) {
        dop_buf_finish(&no);
        dop_templates_finish(&templates);
        return -1;
    }
    for (uint32_t i = first; i < sizeof cases / sizeof *cases; i += step) {
        const dop_target target = tile_target_of(cases[i].target, units, caps, subgroup);
        uint32_t legal = 0, met = 0, of_units = cases[i].target == TILE_UNITS;
        for (uint32_t seed = 0; seed < 2 * n; seed++) {
            tile_result result;
            dop_buf why = {0};
            const tile_kind kind = seed < n ? TILE_LEGAL : TILE_ANY;
            const bool ok =
                tile_check(of_units ? NULL : lab, &templates, &cases[i], &target, kind, seed, &result, &why);
            legal += kind == TILE_LEGAL && result.legal;
            met += result.met;
            failures += !ok;
            if (!ok)
                fprintf(stderr, "%s\n", why.data ? why.data : "?");
            dop_buf_finish(&why);
        }
        if (met < n || legal < n * 3 / 4) {
            fprintf(stderr, "%s: %u regions, %u legal tiles\n", dop_variant_of(cases[i].variant)->name, met, legal);
            failures++;
        }
    }
    kernel_lab_close(lab);
    dop_templates_finish(&templates);
    return failures;
}
