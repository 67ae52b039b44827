/* What a kernel's descriptor says it can make is what it can make: for odd shapes on all kinds of targets, fused and not,
 * a variant that fits is generated and compiled when it is asked for, one that does not fit is refused with its reason, and
 * where one fits a region gets a kernel. */
#include "compiler/library/make.h"
#include "compiler/target/target.h"
#include "passes/pass.h"
#include "tests/unit/kernels_util.h"

#include "ir/region/region.h"
#include "ir/syntax/text.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- graphs --------------------------------------------------------------------------------------------------------- */

typedef struct attention_shape {
    uint32_t tokens, heads, kv, dim;
    const char *cache;
    uint32_t rotated; /* values of a head; 0: no rope */
} attention_shape;

static void
attention_text(const attention_shape *s, dop_buf *out)
{
    uint32_t q = s->heads * s->dim, k = s->kv * s->dim, rot = s->rotated;
    dop_buf_printf(out,
                   "graph test(T%s%u, S<=512, Q=1) {\n"
                   "%%tok:u32[T] = input \"tokens\"\n%%pos:u32[T] = input \"positions\"\n"
                   "%%seq:u32[T] = input \"sequences\"\n%%emb:f16[50,64] = weight \"emb\"\n%%wq:f16[%u,64] = weight "
                   "\"wq\"\n%%wk:f16[%u,64] = weight \"wk\"\n"
                   "%%wo:f16[64,%u] = weight \"wo\"\n%%kc:%s[Q,S,%u,%u] = state \"k\" kind=append\n"
                   "%%vc:%s[Q,S,%u,%u] = state \"v\" kind=append\n",
                   s->tokens == 1 ? "=" : "<=", s->tokens, q, k, q, s->cache, s->kv, s->dim, s->cache, s->kv, s->dim);
    if (rot)
        dop_buf_printf(out, "%%rt:f32[512,%u] = weight \"rt\"\n", rot);
    dop_buf_printf(
        out,
        "%%x:f32[T,64] = gather %%emb, %%tok\n%%qm:f32[T,%u] = matmul %%x, %%wq\n%%km:f32[T,%u] = matmul %%x, %%wk\n"
        "%%q0:f32[T,%u,%u] = reshape %%qm\n%%k0:f32[T,%u,%u] = reshape %%km\n",
        q, k, s->heads, s->dim, s->kv, s->dim);
    if (rot)
        dop_buf_printf(out,
                       "%%q:f32[T,%u,%u] = rope %%q0, %%pos, %%rt dims=%u interleaved=0\n"
                       "%%k:f32[T,%u,%u] = rope %%k0, %%pos, %%rt dims=%u interleaved=0\n",
                       s->heads, s->dim, rot, s->kv, s->dim, rot);
    dop_buf_printf(out,
                   "%%kw:%s[Q,S,%u,%u] = state_write %%kc, %s, %%pos, %%seq\n"
                   "%%vw:%s[Q,S,%u,%u] = state_write %%vc, %%k0, %%pos, %%seq\n"
                   "%%a:f32[T,%u,%u] = attention %s, %%kw, %%vw, %%pos, %%seq scale=0.25 window=0 cap=0\n"
                   "%%ar:f32[T,%u] = reshape %%a\n%%o:f32[T,64] = matmul %%ar, %%wo\n%%y:f32[T,64] = add %%x, %%o\n"
                   "return %%y\n}\n",
                   s->cache, s->kv, s->dim, rot ? "%k" : "%k0", s->cache, s->kv, s->dim, s->heads, s->dim,
                   rot ? "%q" : "%q0", q);
}

/* Attention with a mask, over a cache or over the keys and values of its step. */
static void
mask_text(uint32_t tokens, bool cached, const char *mask, dop_buf *out)
{
    const bool causal = strcmp(mask, "causal") == 0;
    dop_buf_printf(
        out,
        "graph test(T%s%u, S<=512, Q=1) {\n%%tok:u32[T] = input \"tokens\"\n%%pos:u32[T] = input "
        "\"positions\"\n%%seq:u32[T] = input \"sequences\"\n%%last:u32[T] = input \"lasts\"\n%%emb:f16[50,64] "
        "= weight \"emb\"\n%%w:f32[16] = weight \"w\"\n%%kc:f32[Q,S,4,16] = state \"k\" kind=append\n%%x:f32[T,64] "
        "= gather %%emb, %%tok\n%%h:f32[T,4,16] = reshape %%x\n%%n:f32[T,4,16] = rmsnorm %%h, %%w eps=1e-5 "
        "add=0\n%%k:f32[Q,S,4,16] = state_write %%kc, %%n, %%pos, %%seq\n%%a:f32[T,4,16] = attention %%n, %s, %s, "
        "%%pos, %%seq%s scale=0.25 window=0 cap=0 mask=%s\n%%y:f32[T,64] = reshape %%a\nreturn %%y%s\n}\n",
        tokens == 1 ? "=" : "<=", tokens, cached ? "%k" : "%n", cached ? "%k" : "%h", causal ? "" : ", %last", mask,
        cached ? ", %k" : "");
}

typedef struct product_shape {
    uint32_t tokens, k, n;
    uint32_t products; /* that meet in one output */
    const char *type;
    bool norm;
} product_shape;

static void
product_text(const product_shape *s, dop_buf *out)
{
    dop_buf_printf(
        out, "graph test(T%s%u, S<=512, Q=1) {\n%%tok:u32[T] = input \"tokens\"\n%%emb:f16[50,%u] = weight \"emb\"\n",
        s->tokens == 1 ? "=" : "<=", s->tokens, s->k);
    for (uint32_t i = 0; i < s->products; i++)
        dop_buf_printf(out, "%%w%u:%s[%u,%u] = weight \"w%u\"\n", i, s->type, s->n, s->k, i);
    dop_buf_printf(out, "%%nw:f32[%u] = weight \"nw\"\n%%x0:f32[T,%u] = gather %%emb, %%tok\n", s->k, s->k);
    if (s->norm)
        dop_buf_printf(out, "%%x:f32[T,%u] = rmsnorm %%x0, %%nw eps=0x1p-20 add=0\n", s->k);
    const char *x = s->norm ? "%x" : "%x0", *sum = "%p0";
    char name[16] = "%p0";
    for (uint32_t i = 0; i < s->products; i++)
        dop_buf_printf(out, "%%p%u:f32[T,%u] = matmul %s, %%w%u\n", i, s->n, x, i);
    for (uint32_t i = 1; i < s->products; i++) {
        dop_buf_printf(out, "%%s%u:f32[T,%u] = %s %s, %%p%u\n", i, s->n, i % 2 ? "add" : "mul", sum, i);
        snprintf(name, sizeof name, "%%s%u", i);
        sum = name;
    }
    dop_buf_printf(out, "return %s\n}\n", sum);
}

/* --- targets --------------------------------------------------------------------------------------------------------- */

typedef struct bench {
    dop_templates templates;
    dop_diag diag;
    uint32_t fitting, refused, compiled;
    uint32_t n_seen;
    uint64_t seen[4096]; /* digests of compiled texts */
} bench;

static dop_target
named(const char *name)
{
    dop_target t;
    dop_diag diag = {0};
    cr_assert(dop_target_resolve(name, &diag, &t) == DOP_OK, "%s", diag.message);
    return t;
}

enum { TARGETS = 10 };
static void
make_targets(dop_target *t)
{
    t[0] = named("tier1");
    t[1] = named("tier2");
    t[2] = named("tier3");
    t[3] = named("lavapipe");
    t[4] = named("nvidia-hopper");
    t[5] = named("intel-xe2");
    t[6] = named("tier1"); /* what one may write into a target's file */
    t[6].subgroup = 128;
    t[7] = named("tier1");
    t[7].subgroup = 4;
    t[7].max_workgroup = 64;
    t[7].shared_bytes = 8192;
    t[8] = named("lavapipe");
    t[8].subgroup = 32;
    t[9] = named("amd-rdna3");
    t[9].subgroup = 64;
    t[9].matrix = DOP_MATRIX_SHAPE(16, 16, 16);
    t[9].max_workgroup = 256;
    t[9].shared_bytes = 16384;
}

/* --- checks ---------------------------------------------------------------------------------------------------------- */

static uint64_t
digest(const char *text)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (; *text; text++)
        h = (h ^ (uint8_t)*text) * 0x100000001b3u;
    return h;
}

static bool
is_new(bench *b, const char *glsl)
{
    uint64_t h = digest(glsl);
    for (uint32_t i = 0; i < b->n_seen; i++)
        if (b->seen[i] == h)
            return false;
    if (b->n_seen < sizeof b->seen / sizeof *b->seen)
        b->seen[b->n_seen++] = h;
    return true;
}

static void
check_choice(bench *b, const dop_graph *g, const dop_region *r, const dop_target *t, const char *forced, bool compile,
             const char *what)
{
    dop_selection c;
    dop_kernel k;
    dop_diag diag = {0};
    dop_status st = dop_kernel_select(g, r, t, forced, &diag, &c);
    if (st == DOP_OK)
        st = dop_kernel_generate(&b->templates, g, r, t, &c, NULL, &diag, &k);
    cr_expect(st == DOP_OK, "%s, target %s, %s: %s", what, t->name, forced ? forced : "chosen", diag.message);
    if (st != DOP_OK || !compile || !is_new(b, k.glsl))
        return;
    dop_buf spirv = {0};
    uint32_t shared = 0;
    st = dop_kernel_compile("test", &k, t, &diag, &spirv, &shared);
    cr_expect(st == DOP_OK, "%s, target %s, %s: %s", what, t->name, forced ? forced : "chosen", diag.message);
    b->compiled++;
    dop_buf_finish(&spirv);
}

/* Every variant of every region. */
static void
check_graph(bench *b, const dop_graph *g, const dop_target *t, bool compile, const char *what)
{
    for (dop_region_id id = 1; id < g->n_regions; id++) {
        const dop_region *r = &g->regions[id];
        uint32_t n = 0;
        if (r->dead)
            continue;
        for (int v = 1; v < DOP_VARIANT_COUNT; v++) {
            const dop_variant *x = dop_variant_of((dop_variant_id)v);
            if (x->tpl != r->tpl)
                continue;
            dop_refusal no = dop_kernel_fits((dop_variant_id)v, g, r, t);
            if (!no.why) {
                n++;
                check_choice(b, g, r, t, x->name, compile, what);
                continue;
            }
            dop_diag diag = {0};
            dop_selection c;
            b->refused++;
            cr_expect(*no.why && dop_kernel_select(g, r, t, x->name, &diag, &c) == DOP_E_INPUT,
                      "%s, target %s: %s is taken although %s", what, t->name, x->name, no.why);
        }
        b->fitting += n;
        if (n) {
            check_choice(b, g, r, t, NULL, compile, what);
            continue;
        }
        dop_diag diag = {0};
        dop_selection c;
        cr_expect(dop_kernel_select(g, r, t, NULL, &diag, &c) == DOP_E_INPUT &&
                      strstr(diag.message, "no kernel for ") && strstr(diag.message, "; "),
                  "%s, target %s: %s", what, t->name, diag.message);
    }
}

static void
check_text(bench *b, const dop_buf *text, const dop_target *t, bool compile, const char *what)
{
    for (int fuse = 0; fuse < 2; fuse++) {
        dop_arena arena;
        dop_graph g;
        dop_diag diag = {0};
        size_t end;
        dop_arena_init(&arena);
        dop_pass_options opt = {.stop_after = -1};
        dop_pass_ctx cx = {.arena = &arena, .diag = &diag, .target = t};
        dop_status st = dop_graph_parse("graph", text->data, text->size, &arena, &diag, &g, &end);
        cr_assert(st == DOP_OK, "%s: %s\n%s", what, diag.message, text->data);
        if (!fuse)
            dop_passes_skip_fusion(&opt);
        st = dop_passes_run(&cx, &opt, &g);
        cr_assert(st == DOP_OK, "%s, target %s: %s", what, t->name, diag.message);
        check_graph(b, &g, t, compile, what);
        dop_arena_finish(&arena);
    }
}

static void
open_bench(bench *b, dop_target *targets)
{
    memset(b, 0, sizeof *b);
    cr_assert(dop_templates_load(DOP_GLSL_SOURCE_DIR, &b->templates, &b->diag) == DOP_OK, "%s", b->diag.message);
    make_targets(targets);
}

/* Of what fits every tenth is compiled, with --long every fifth. */
enum { SOME = 10, MORE = 5 };

static void
check_attention(uint32_t every)
{
    static const attention_shape shapes[] = {
        {1, 4, 2, 2, "f32", 0},        {1, 4, 2, 6, "f32", 0},     {1, 4, 2, 12, "f16", 0},
        {1, 4, 2, 20, "f16", 0},       {16, 4, 2, 6, "f32", 0},    {16, 4, 2, 20, "f16", 4},
        {1, 4, 2, 64, "f16", 64},      {16, 4, 2, 64, "f16", 64},  {16, 4, 2, 64, "f32", 64},
        {1, 2, 1, 1024, "f16", 64},    {16, 2, 1, 1024, "f32", 0}, {1, 1, 1, 4096, "f16", 0},
        {16, 1, 1, 4096, "f32", 0},    {1, 33, 1, 64, "f16", 64},  {16, 33, 1, 64, "f16", 64},
        {1, 64, 1, 128, "f32", 0},     {32, 80, 1, 128, "f16", 0}, {3, 6, 2, 256, "f16", 256},
        {512, 16, 4, 128, "f16", 128}, {1, 8, 8, 384, "f16", 128},
    };
    bench *b = calloc(1, sizeof *b);
    dop_target targets[TARGETS];
    open_bench(b, targets);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (uint32_t k = 0; k < TARGETS; k++) {
            const attention_shape *s = &shapes[i];
            dop_buf text = {0};
            char what[128];
            if (strcmp(s->cache, "f16") == 0 && !(targets[k].caps & DOP_CAP_f16_storage))
                continue;
            attention_text(s, &text);
            snprintf(what, sizeof what, "%u tokens, %u heads of %u on %u, %s", s->tokens, s->heads, s->dim, s->kv,
                     s->cache);
            check_text(b, &text, &targets[k], (i + k) % every == 0, what);
            dop_buf_finish(&text);
        }
    cr_expect(b->fitting > 1000 && b->refused > 300 && b->compiled > 500 / every, "%u fit, %u refused, %u compiled",
              b->fitting, b->refused, b->compiled);
    dop_templates_finish(&b->templates);
    free(b);
}

Test(kernel_fits, attention, .timeout = 300)
{
    check_attention(SOME);
}

Test(kernel_fits_whole, attention, .timeout = 600)
{
    check_attention(MORE);
}

static void
check_products(uint32_t every)
{
    static const product_shape shapes[] = {
        {1, 64, 48, 1, "f16", true},     {1, 31, 7, 1, "f32", true},         {16, 31, 7, 1, "f16", true},
        {16, 68, 40, 1, "f16", true},    {16, 68, 40, 1, "q8_0", true},      {32, 64, 48, 2, "q4_0", true},
        {32, 128, 64, 3, "f16", false},  {16, 128, 64, 4, "f16", true},      {512, 128, 64, 4, "q4_k", true},
        {1, 128, 64, 4, "q4_k", true},   {1, 16384, 64, 1, "q4_0", true},    {1, 16384, 64, 2, "q8_0", false},
        {1, 40000, 8, 1, "q4_0", false}, {1, 40000, 8, 1, "f16", true},      {16, 40000, 8, 1, "f16", true},
        {1, 100, 3, 1, "q4_0", true},    {1, 4096, 4096, 1, "iq4_nl", true},
    };
    bench *b = calloc(1, sizeof *b);
    dop_target targets[TARGETS];
    open_bench(b, targets);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (uint32_t k = 0; k < TARGETS; k++) {
            const product_shape *s = &shapes[i];
            dop_buf text = {0};
            char what[128];
            product_text(s, &text);
            snprintf(what, sizeof what, "%u tokens, %u products of %s[%u,%u]%s", s->tokens, s->products, s->type, s->n,
                     s->k, s->norm ? ", normed" : "");
            check_text(b, &text, &targets[k], (i + k) % every == 0, what);
            dop_buf_finish(&text);
        }
    cr_expect(b->fitting > 1000 && b->refused > 300 && b->compiled > 500 / every, "%u fit, %u refused, %u compiled",
              b->fitting, b->refused, b->compiled);
    dop_templates_finish(&b->templates);
    free(b);
}

Test(kernel_fits, products, .timeout = 300)
{
    check_products(SOME);
}

Test(kernel_fits_whole, products, .timeout = 600)
{
    check_products(MORE);
}

/* Products of one activation, each with rows and weights of its own: one region of several parts.  rows 0: there are fewer.  Two
 * are multiplied by each other, in one part. */
typedef struct siblings {
    uint32_t tokens, k;
    uint32_t rows[3];
    const char *types[3];
} siblings;

/* Compiles what is chosen for them, and returns the tile; grid has the workgroups of all tiles, and *out_sums the bytes of memory for
 * sums that workgroups share. */
static dop_tile
tile_and_sums(bench *b, const siblings *s, const dop_target *t, uint32_t grid[3], uint64_t *out_sums)
{
    dop_arena arena;
    dop_graph g;
    dop_buf text = {0}, spirv = {0};
    dop_selection c = {0};
    dop_kernel kernel;
    size_t end;
    uint32_t shared = 0;
    dop_arena_init(&arena);
    dop_buf_printf(&text, "graph test(T%s%u, S<=512, Q=1) {\n%%tok:u32[T] = input \"tokens\"\n",
                   s->tokens > 1 ? "<=" : "=", s->tokens);
    dop_buf_printf(&text, "%%emb:f16[50,%u] = weight \"emb\"\n", s->k);
    const uint32_t n = s->rows[2] ? 3 : s->rows[1] ? 2 : 1, parts = n == 2 ? 1 : n;
    const dop_template tpl = s->tokens > 1 ? DOP_TPL_matmul : DOP_TPL_gemv;
    const char *variant = !t->cpu ? "matmul_coop" : tpl == DOP_TPL_gemv ? "gemv_rows" : "matmul_rows";
    for (uint32_t i = 0; i < n; i++)
        dop_buf_printf(&text, "%%w%u:%s[%u,%u] = weight \"w%u\"\n", i, s->types[i], s->rows[i], s->k, i);
    dop_buf_printf(&text, "%%nw:f32[%u] = weight \"nw\"\n%%e:f32[T,%u] = gather %%emb, %%tok\n", s->k, s->k);
    dop_buf_printf(&text, "%%x:f32[T,%u] = rmsnorm %%e, %%nw eps=1e-05 add=0\n", s->k);
    for (uint32_t i = 0; i < n; i++)
        dop_buf_printf(&text, "%%p%u:f32[T,%u] = matmul %%x, %%w%u\n", i, s->rows[i], i);
    if (n == 2)
        dop_buf_printf(&text, "%%y:f32[T,%u] = mul %%p0, %%p1\n", s->rows[0]);
    dop_buf_puts(&text, n == 2 ? "return %y\n}\n" : n == 3 ? "return %p0, %p1, %p2\n}\n" : "return %p0\n}\n");
    const dop_pass_options opt = {.stop_after = -1};
    dop_pass_ctx cx = {.arena = &arena, .diag = &b->diag, .target = t};
    dop_status st = dop_graph_parse("graph", text.data, text.size, &arena, &b->diag, &g, &end);
    if (st == DOP_OK)
        st = dop_passes_run(&cx, &opt, &g);
    for (dop_region_id id = 1; st == DOP_OK && id < g.n_regions && c.variant == DOP_VARIANT_none; id++)
        if (!g.regions[id].dead && g.regions[id].tpl == tpl && g.regions[id].info->product.n_parts == parts)
            if ((st = dop_kernel_select(&g, &g.regions[id], t, variant, &b->diag, &c)) == DOP_OK &&
                (st = dop_kernel_generate(&b->templates, &g, &g.regions[id], t, &c, NULL, &b->diag, &kernel)) == DOP_OK)
                st = dop_kernel_compile("test", &kernel, t, &b->diag, &spirv, &shared);
    cr_assert(st == DOP_OK && c.variant != DOP_VARIANT_none, "%s\n%s", b->diag.message, text.data);
    memcpy(grid, kernel.grid, sizeof kernel.grid);
    *out_sums = 0;
    bool counts = false;
    for (uint32_t i = 0; i < kernel.n_args; i++) {
        *out_sums += kernel.args[i].kind == DOP_ARG_SUMS ? kernel.args[i].bytes : 0;
        counts = counts || kernel.args[i].kind == DOP_ARG_COUNTS;
    }
    cr_expect(c.tile.direct == ((kernel.caps & DOP_CAP_coop_pairs) != 0), "the plan must say what a kernel needs");
    cr_expect(counts == (c.tile.claims || c.tile.shares > 1), "%s", counts ? "counters for nothing" : "no counters");
    dop_buf_finish(&text);
    dop_buf_finish(&spirv);
    dop_arena_finish(&arena);
    return c.tile;
}

static dop_tile
tile_of(bench *b, const siblings *s, const dop_target *t, uint32_t grid[3])
{
    uint64_t sums;
    return tile_and_sums(b, s, t, grid, &sums);
}

/* Tiles on matrix units go through the rows of all products where that takes fewer waves, and the products are alike. */
Test(kernel_fits, tiles_over_the_rows_of_all_parts, .timeout = 300)
{
    static const siblings llama = {512, 4096, {4096, 1024, 1024}, {"f16", "f16", "f16"}},
                          few = {128, 4096, {3840, 768, 768}, {"f16", "f16", "f16"}},
                          odd = {512, 4096, {4099, 1025, 1021}, {"f16", "f16", "f16"}},
                          mixed = {512, 4096, {4096, 1024, 1024}, {"f16", "f16", "bf16"}};
    bench *b = calloc(1, sizeof *b);
    dop_target targets[TARGETS];
    uint32_t grid[3];
    open_bench(b, targets);
    const dop_target *hopper = &targets[4];
    dop_tile tile = tile_of(b, &llama, hopper, grid);
    cr_expect(tile.joined && grid[0] * grid[1] <= hopper->cores && grid[1] * tile.bn == 6144,
              "tiles of %u rows, %u x %u of them", tile.bn, grid[0], grid[1]);
    tile = tile_of(b, &few, hopper, grid);
    cr_expect(!tile.joined, "as many tiles of %u rows either way", tile.bn);
    tile = tile_of(b, &odd, hopper, grid);
    cr_expect(tile.joined && grid[1] == (6145 + tile.bn - 1) / tile.bn, "%u tiles of %u rows", grid[1], tile.bn);
    tile = tile_of(b, &mixed, hopper, grid);
    cr_expect(!tile.joined, "weights of two types");
    dop_templates_finish(&b->templates);
    free(b);
}

/* Workgroups share the depth of tiles that would leave most multiprocessors idle: of all tiles, or of those after the last whole
 * wave.  Each share has memory for the sums of its tile. */
Test(kernel_fits, workgroups_that_share_tiles, .timeout = 300)
{
    static const siblings shared[] = {
        {512, 8192, {2048}, {"f16"}},  {512, 8192, {2048}, {"q4_0"}}, {300, 8200, {2051}, {"f16"}},
        {512, 4096, {28672}, {"f16"}}, {256, 4104, {2560}, {"bf16"}},
    };
    static const siblings even = {512, 4096, {4096}, {"f16"}}, shallow = {512, 256, {2048}, {"f16"}},
                          waves = {512, 2560, {10496}, {"f16"}}, few = {64, 14336, {4096}, {"q4_k"}};
    bench *b = calloc(1, sizeof *b);
    dop_target targets[TARGETS];
    uint32_t grid[3];
    uint64_t sums;
    open_bench(b, targets);
    dop_target hopper = targets[4];
    for (size_t i = 0; i < sizeof shared / sizeof *shared; i++) {
        const siblings *s = &shared[i];
        const dop_tile tile = tile_and_sums(b, s, &hopper, grid, &sums);
        const uint32_t across = (s->tokens + tile.bm - 1) / tile.bm, columns = (s->rows[0] + tile.bn - 1) / tile.bn,
                       divided = columns - tile.undivided;
        cr_expect(tile.shares > 1 && tile.undivided < columns, "case %zu: %u shares, %u of %u undivided", i,
                  tile.shares, tile.undivided, columns);
        cr_expect(grid[0] == across && grid[1] == tile.undivided + divided * tile.shares, "case %zu: %u x %u", i,
                  grid[0], grid[1]);
        cr_expect(sums == (uint64_t)across * divided * tile.shares * tile.bm * tile.bn * 4, "case %zu: %llu bytes", i,
                  (unsigned long long)sums);
        cr_expect(across * divided <= DOP_COUNTS_MOST, "case %zu: %u counters", i, across * divided);
    }
    cr_expect(tile_and_sums(b, &shallow, &hopper, grid, &sums).shares == 0, "it would take longer to meet");
    dop_target plain = hopper; /* direct tiles are fewer: theirs would meet once */
    plain.caps &= ~(uint32_t)DOP_CAP_coop_pairs;
    cr_expect(tile_and_sums(b, &even, &plain, grid, &sums).shares == 0 && sums == 0, "whole waves");
    cr_expect(tile_and_sums(b, &even, &hopper, grid, &sums).shares > 1, "too few direct tiles for a whole wave");
    cr_expect(tile_and_sums(b, &waves, &plain, grid, &sums).shares == 0, "they would meet twice");
    cr_expect(tile_and_sums(b, &waves, &hopper, grid, &sums).shares > 1, "direct tiles meet once");
    cr_expect(tile_and_sums(b, &few, &hopper, grid, &sums).shares == 0, "tiles would be half empty");
    hopper.merges = false;
    cr_expect(tile_and_sums(b, &shared[0], &hopper, grid, &sums).shares == 0 && sums == 0, "no atomics for it");
    dop_templates_finish(&b->templates);
    free(b);
}

/* Weights go to registers past shared memory, where the device orders elements of matrices as the kernel does, and
 * where subgroups find no end of a matrix, of its rows or of the tokens. */
Test(kernel_fits, weights_past_shared_memory, .timeout = 300)
{
    static const siblings direct[] = {
        {512, 14336, {4096}, {"f16"}},
        {1024, 4096, {4096}, {"bf16"}},
        {512, 4096, {14336, 14336}, {"f16", "f16"}},
        {1024, 3072, {8192, 8192}, {"bf16", "bf16"}},
        {512, 14336, {4096}, {"q8_0"}},
        {1024, 14336, {4096}, {"q4_k"}},
        {1024, 4096, {14336, 14336}, {"q4_0", "q4_0"}},
        {1024, 2560, {2048, 1024, 1024}, {"f16", "f16", "f16"}},
        {512, 14336, {4096}, {"q6_k"}},
        {1024, 4096, {14336, 14336}, {"q5_k", "q5_k"}},
        {512, 14336, {4096}, {"iq4_nl"}},
    };
    static const siblings others[] = {
        {500, 14336, {4096}, {"f16"}}, /* the last tile has fewer tokens */
        {512, 14400, {4096}, {"f16"}}, /* half a step is left of a row */
        {512, 14336, {4112}, {"f16"}}, /* a subgroup has rows of nothing */
        {512, 1024, {28672}, {"f16"}}, /* begins and ends outweigh the loop */
        {512, 14336, {4096}, {"f32"}}, /* more than registers hold */
        {512, 4096, {14336, 14336}, {"f16", "bf16"}},
        {1024, 2560, {2048, 1024, 1024}, {"f16", "f16", "bf16"}},
    };
    bench *b = calloc(1, sizeof *b);
    dop_target targets[TARGETS];
    uint32_t grid[3];
    open_bench(b, targets);
    dop_target hopper = targets[4];
    for (size_t i = 0; i < sizeof direct / sizeof *direct; i++) {
        const dop_tile tile = tile_of(b, &direct[i], &hopper, grid);
        cr_expect(tile.direct && tile.bm * tile.bn * (direct[i].rows[1] && !direct[i].rows[2] ? 2 : 1) == 128 * 256,
                  "case %zu: %u x %u", i, tile.bm, tile.bn);
        cr_expect(!tile.joined || tile.shares == 0, "case %zu: parts and shares", i);
    }
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        cr_expect(!tile_of(b, &others[i], &hopper, grid).direct, "case %zu", i);
    hopper.caps &= ~(uint32_t)DOP_CAP_coop_pairs;
    cr_expect(!tile_of(b, &direct[0], &hopper, grid).direct, "elements in some other order");
    dop_templates_finish(&b->templates);
    free(b);
}

/* On CPU devices the workgroups of one token claim blocks, unless one of them could then make more iterations of loops than the
 * driver allows. */
Test(kernel_fits, workgroups_that_claim_blocks, .timeout = 300)
{
    static const siblings one = {1, 576, {1536}, {"q4_0"}}, three = {1, 576, {576, 192, 192}, {"q4_0", "q8_0", "f16"}},
                          many = {1, 4096, {28672}, {"q4_0"}}, prompt = {64, 576, {1536}, {"q4_0"}};
    bench *b = calloc(1, sizeof *b);
    dop_target targets[TARGETS];
    uint32_t grid[3];
    open_bench(b, targets);
    dop_target cpu = targets[3];
    cr_assert(cpu.cpu && cpu.loop_trips);
    cr_expect(tile_of(b, &one, &cpu, grid).claims, "one product");
    cr_expect(tile_of(b, &three, &cpu, grid).claims, "three, of types that do not share code");
    cr_expect(!tile_of(b, &prompt, &cpu, grid).claims, "a workgroup has tokens of its own");
    cr_expect(!tile_of(b, &many, &cpu, grid).claims, "all of them would be too many for one");
    cpu.loop_trips = 0;
    cr_expect(tile_of(b, &many, &cpu, grid).claims, "no limit");
    cpu.merges = false;
    cr_expect(!tile_of(b, &many, &cpu, grid).claims, "no atomics for it");
    dop_templates_finish(&b->templates);
    free(b);
}

/* What no kernel computes yet is refused in one line with the reason, whatever else joins the region. */
Test(kernel_fits, masks, .timeout = 300)
{
    static const char *const masks[] = {"causal", "full", "segments"};
    bench *b = calloc(1, sizeof *b);
    dop_target targets[TARGETS];
    open_bench(b, targets);
    static const char picture[] =
        "graph p(Y<=9, X<=7) {\n%p:f32[Y,X,64] = input \"p\"\n%w:f32[64] = weight \"w\"\n"
        "%n:f32[Y,X,64] = rmsnorm %p, %w eps=1e-5 add=0\n%s:f32[Y,X,64] = silu %n\nreturn %s\n}\n";
    static const char conv[] = "graph p(T<=1) {\n%p:f32[9,9,4] = input \"p\"\n%w:f32[8,3,3,4] = weight \"w\"\n"
                               "%c:f32[9,9,8] = conv %p, %w stride=1 dilation=1 pad=1\n%s:f32[9,9,8] = silu %c\nreturn "
                               "%s\n}\n";
    for (uint32_t k = 0; k < 2 * TARGETS; k++) { /* nor any of these dimensions, nor windows */
        dop_buf text = {0};
        dop_buf_puts(&text, k % 2 ? picture : conv);
        check_text(b, &text, &targets[k / 2], false, k % 2 ? "a picture" : "a convolution");
        dop_buf_finish(&text);
    }
    cr_expect(b->refused > 10, "%u refused", b->refused);
    for (uint32_t i = 0; i < 3 * 4; i++)
        for (uint32_t k = 0; k < TARGETS; k++) {
            dop_buf text = {0};
            mask_text(i & 1 ? 8 : 1, i & 2, masks[i / 4], &text);
            if (targets[k].caps & DOP_CAP_f16_storage)
                check_text(b, &text, &targets[k], false, masks[i / 4]);
            dop_buf_finish(&text);
        }
    cr_expect(b->fitting > 100 && b->refused > 100, "%u fit, %u refused", b->fitting, b->refused);
    dop_templates_finish(&b->templates);
    free(b);
}

/* Short units have a subgroup each, as many in a workgroup as the target allows. */
Test(kernel_fits, short_units_in_small_workgroups, .timeout = 300)
{
    static const char text[] = "graph test(T<=5, S<=512, Q=1) {\n%tok:u32[T] = input \"tokens\"\n"
                               "%emb:f16[50,256] = weight \"emb\"\n%w:f32[64] = weight \"w\"\n"
                               "%x:f32[T,256] = gather %emb, %tok\n%h:f32[T,4,64] = reshape %x\n"
                               "%n:f32[T,4,64] = rmsnorm %h, %w eps=1e-05 add=0\nreturn %n\n}\n";
    static const uint32_t most[] = {64, 128, 1024}, wanted[] = {64, 128, 256};
    bench *b = calloc(1, sizeof *b);
    dop_target targets[TARGETS];
    open_bench(b, targets);
    for (uint32_t i = 0; i < 3; i++) {
        dop_arena arena;
        dop_graph g;
        dop_selection c = {0};
        size_t end;
        dop_target t = targets[4];
        t.subgroup = 64;
        t.max_workgroup = most[i];
        dop_arena_init(&arena);
        dop_pass_ctx cx = {.arena = &arena, .diag = &b->diag, .target = &t};
        const dop_pass_options opt = {.stop_after = -1};
        dop_status st = dop_graph_parse("graph", text, sizeof text - 1, &arena, &b->diag, &g, &end);
        if (st == DOP_OK)
            st = dop_passes_run(&cx, &opt, &g);
        for (dop_region_id id = 1; st == DOP_OK && id < g.n_regions && c.variant == DOP_VARIANT_none; id++)
            if (!g.regions[id].dead && g.regions[id].tpl == DOP_TPL_row)
                st = dop_kernel_select(&g, &g.regions[id], &t, NULL, &b->diag, &c);
        cr_assert(st == DOP_OK, "%s", b->diag.message);
        cr_expect(c.variant == DOP_VARIANT_row_subgroup && c.tile.wg == wanted[i], "%u invocations of %u", c.tile.wg,
                  most[i]);
        dop_arena_finish(&arena);
    }
    dop_templates_finish(&b->templates);
    free(b);
}

Test(kernel_fits, random_graphs, .timeout = 300)
{
    bench *b = calloc(1, sizeof *b);
    dop_target targets[TARGETS];
    open_bench(b, targets);
    for (uint32_t seed = 0; seed < 300; seed++) {
        dop_buf text = {0};
        char what[32];
        kernel_random_graph(seed, true, &text);
        snprintf(what, sizeof what, "seed %u", seed);
        const dop_target *t = &targets[seed % TARGETS];
        if ((t->caps & DOP_CAP_f16_storage) || !strstr(text.data, ":f16[S"))
            check_text(b, &text, t, false, what);
        dop_buf_finish(&text);
    }
    cr_expect(b->fitting > 1000 && b->refused > 300, "%u fit, %u refused", b->fitting, b->refused);
    dop_templates_finish(&b->templates);
    free(b);
}

static const char *
reason(const attention_shape *s, const dop_target *t, const char *variant)
{
    dop_buf text = {0};
    dop_arena arena;
    dop_graph g;
    dop_diag diag = {0};
    dop_variant_id v;
    size_t end;
    const char *why = "no such region";
    dop_arena_init(&arena);
    attention_text(s, &text);
    dop_pass_options opt = {.stop_after = -1};
    dop_pass_ctx cx = {.arena = &arena, .diag = &diag, .target = t};
    cr_assert(dop_variant_parse(variant, &v));
    cr_assert(dop_graph_parse("graph", text.data, text.size, &arena, &diag, &g, &end) == DOP_OK &&
              dop_passes_run(&cx, &opt, &g) == DOP_OK);
    for (dop_region_id r = 1; r < g.n_regions; r++)
        if (!g.regions[r].dead && g.regions[r].tpl == DOP_TPL_attention)
            why = dop_kernel_fits(v, &g, &g.regions[r], t).why;
    dop_buf_finish(&text);
    dop_arena_finish(&arena);
    return why ? why : "";
}

/* Each was accepted when it was asked for, and then failed or made something wrong. */
Test(kernel_fits, reasons)
{
    const dop_target hopper = named("nvidia-hopper"), tier1 = named("tier1"), tier3 = named("tier3");
    const attention_shape one = {1, 4, 2, 64, "f16", 64}, many = {16, 4, 2, 64, "f16", 64},
                          odd = {1, 4, 2, 6, "f32", 0}, long_heads = {1, 1, 1, 4096, "f32", 0},
                          wide = {1, 300, 1, 64, "f16", 0}, full = {16, 4, 2, 64, "f32", 64};
    cr_assert_str_eq(reason(&one, &hopper, "attention_rows"), "it does not merge the splits of the cache");
    cr_assert_str_eq(reason(&one, &hopper, "attention_coop"), "the cache is split");
    cr_assert_str_eq(reason(&full, &hopper, "attention_coop"), "the cache is f32");
    cr_assert_str_eq(reason(&many, &hopper, "attention_coop"), "");
    cr_assert_str_eq(reason(&odd, &tier3, "attention"), "heads are not a multiple of 4 values");
    cr_assert_str_eq(reason(&long_heads, &tier3, "attention"), "a head has more values than four for each invocation");
    cr_assert_str_eq(reason(&wide, &tier1, "attention"), ""); /* a head group is divided among workgroups */
    cr_assert_str_eq(reason(&wide, &tier1, "attention_decode"), "");
}

/* The step record in GLSL has its fields where the host has them. */
Test(kernel_fits, step_record)
{
    static const struct {
        const char *name;
        size_t at; /* bytes */
    } fields[] = {{"n_rows", offsetof(dop_step, n_rows)},
                  {"flags", offsetof(dop_step, flags)},
                  {"several_runs", offsetof(dop_step, several_runs)},
                  {"parity", offsetof(dop_step, parity)},
                  {"rows", offsetof(dop_step, rows)},
                  {"ids", offsetof(dop_step, ids)},
                  {"margins", offsetof(dop_step, margins)}};
    dop_diag diag = {0};
    dop_templates t;
    cr_assert_eq(dop_templates_load(DOP_GLSL_SOURCE_DIR, &t, &diag), DOP_OK, "%s", diag.message);
    const char *p = strstr(dop_templates_get(&t, "common.glsl"), " buffer Step {");
    unsigned found = 0;
    size_t at = 0;
    cr_assert(p);
    while ((p = strchr(p, '\n') + 1) && *p != '}') {
        char type[8], name[24];
        unsigned n = 1;
        cr_assert(sscanf(p, " SHARED %7s %23[a-z_][%u]", type, name, &n) >= 2, "%.40s", p);
        for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
            if (strcmp(fields[i].name, name) == 0) {
                cr_expect_eq(at, fields[i].at, "%s is at %zu", name, at);
                found++;
            }
        at += n * (strcmp(type, "Row") == 0 ? sizeof(dop_row) : sizeof(uint32_t));
    }
    cr_expect_eq(found, sizeof fields / sizeof *fields);
    cr_expect_eq(at, sizeof(dop_step));
    dop_templates_finish(&t);
}
