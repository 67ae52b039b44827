/* Tiled products of several tokens (GEMM) as a nest, staged through shared memory. A workgroup computes BM rows of the step
 * by BN rows of each of a part's matrices; activations and decoded weights are staged. */
#include "kernels/gen/gen_waits.h"
#include "kernels/gen/legal.h"
#include "kernels/gen/products.h"
#include "kernels/gen/templates.h"
#include "kernels/gen/trips.h"
#include "kernels/product/product.h"
#include "kernels/row/gen_group.h"

#include "kernels/emit/weight_types.h"

#include <string.h>

/* Emits the load of x for one (token t, column c .. c+3), and accumulates its squares for the row statistics. */
static void
load_tile(dop_gen *gen, const dop_parts *p, const char *k, dop_buf *load)
{
    dop_emit *e = &gen->e;
    const char *in = "                ", *c = "c";
    const dop_blocks b = dop_blocks_of(e->g, e->r);
    if (b.by_pair) {
        dop_buf_printf(load, "%suint s = %s;\n", in, dop_blocks_column(gen, &b, "dop_pair[m]", p->k));
        c = "s";
    }
    if (dop_emit_wide(e, p->act)) {
        dop_emit_scope(e, load, in);
        dop_emit_line(e, "x = %s;", dop_emit_value(e, p->act, (dop_index){"t", c}, 4));
        for (uint32_t i = 0; i < p->n_stats; i++)
            dop_emit_line(e, "stat%u[i / WG] += dop_sumsq(%s);", i,
                          dop_emit_value(e, dop_node_at(e->g, p->stats[i])->src[0], (dop_index){"t", "c"}, 4));
        return;
    }
    dop_buf_printf(load, "%sfor (uint j = 0u; j < 4u; j++)\n%s    if (c + j < %s) {\n", in, in, k);
    dop_emit_scope(e, load, "                        ");
    dop_emit_line(e, "x[j] = %s;", dop_emit_value(e, p->act, (dop_index){"t", dop_emit_str(e, "(%s + j)", c)}, 1));
    for (uint32_t i = 0; i < p->n_stats; i++)
        dop_emit_line(e, "stat%u[i / WG] += dop_sumsq(%s);", i,
                      dop_emit_value(e, dop_node_at(e->g, p->stats[i])->src[0], (dop_index){"t", "(c + j)"}, 1));
    dop_buf_printf(load, "%s    }\n", in);
}

/* GLSL expressions of a product's depth: row lengths of the activation and of the matrix, and `aux` of its storage type. If
 * the region is one product of stored values, they are numbers of the dispatch: a layer has several such products, which then
 * share a kernel. These loops are as fast with a limit from push constants (unlike those of matrix units). In other regions
 * they are constants. */
typedef struct depth {
    const char *k, **stride, **aux; /* stride, aux: [n_mats], one per matrix of the part */
} depth;

/* Returns the number as a product with a power of two, so that the compiler can infer which low bits of an index are 0. */
static const char *
even_number(dop_emit *e, uint32_t value)
{
    uint32_t factor = 1;
    while (factor < 32 && value % (factor * 2) == 0)
        factor *= 2;
    return dop_emit_str(e, "(%s * %uu)", dop_emit_number(e, value / factor), factor);
}

static depth
depth_of(dop_gen *gen, const dop_parts *p, const dop_segment *part)
{
    dop_emit *e = &gen->e;
    depth d = {.stride = dop_arena_alloc(e->g->arena, part->n_mats * sizeof *d.stride),
               .aux = dop_arena_alloc(e->g->arena, part->n_mats * sizeof *d.aux)};
    if (!d.stride || !d.aux) {
        e->status = DOP_NO_MEMORY(e->diag);
        return d;
    }
    dop_node_id act = dop_node_base(e->g, p->act, NULL);
    bool numbers = !dop_blocks_of(e->g, e->r).n && p->n == 1 && part->n_mats == 1 && p->n_stats == 0 &&
                   !dop_region_has(e->r, act) && dop_row_values(e->g, act) == p->k;
    if (numbers) {
        e->long_row = act;
        d.k = e->row_values = even_number(e, p->k);
    } else {
        d.k = dop_emit_str(e, "%uu", p->k);
    }
    for (uint32_t m = 0; m < part->n_mats; m++) {
        dop_node_id w = dop_node_at(e->g, part->mats[m])->src[1];
        uint32_t stride = dop_row_values(e->g, w);
        d.aux[m] = dop_emit_weight(e, w);
        if (numbers && strcmp(d.aux[m], "0u") != 0)
            d.aux[m] = even_number(e, dop_weight_aux(e->g, w));
        d.stride[m] = numbers ? even_number(e, stride) : dop_emit_str(e, "%uu", stride);
    }
    return d;
}

/* Shared memory bits of a tile: activations, weights, and partial sums of statistics. */
typedef struct tile_memory {
    uint32_t a, b, stats;
} tile_memory;

/* Emits code that stages a tile of the activation, and accumulates its statistics. */
static void
stage_rows(dop_gen *gen, const dop_parts *p, const depth *deep, dop_nest *n, uint32_t memory)
{
    const dop_blocks b = dop_blocks_of(gen->e.g, gen->e.r);
    dop_buf load = {0};
    load_tile(gen, p, deep->k, &load);
    dop_nest_for(n, "i", "gl_LocalInvocationIndex", "BM * BK / 4u", "WG")->apart = true;
    dop_nest_let(n, "uint", "m", "i / (BK / 4u)");
    dop_nest_let(n, "uint", "k", "(i %% (BK / 4u)) * 4u");
    dop_nest_let(n, "uint", "t", "%s", b.n ? dop_blocks_row(gen, &b, "dop_pair[m]") : "t0 + m");
    dop_nest_let(n, "uint", "c", "k0 + k");
    dop_nest_let(n, "vec4", "x", "vec4(0.0)");
    dop_nest_if(n, "t < %s && c < %s", dop_emit_n_tokens(&gen->e), deep->k)->apart = true;
    dop_nest_hole(n, "x", dop_gen_keep(gen, &load));
    dop_nest_end(n);
    dop_nest_for(n, "j", "0u", "4u", NULL);
    dop_nest_store(n, memory, "dop_a[(k + j) * (BM + 1u) + m]", "x[j]");
    dop_nest_ends(n, 2);
}

/* Emits code that stages a decoded tile of each matrix. */
static void
stage_weights(dop_gen *gen, const dop_segment *part, const depth *deep, dop_nest *n, uint32_t memory)
{
    for (uint32_t m = 0; m < part->n_mats; m++) {
        const dop_node_id w = dop_node_at(gen->e.g, part->mats[m])->src[1];
        dop_nest_for(n, "i", "gl_LocalInvocationIndex", "BN * BK / 4u", "WG")->apart = true;
        dop_nest_let(n, "uint", "n", "i / (BK / 4u)");
        dop_nest_let(n, "uint", "k", "(i %% (BK / 4u)) * 4u");
        dop_nest_let(n, "uint", "c", "k0 + k");
        dop_nest_let(n, "vec4", "w", "vec4(0.0)");
        dop_nest_if(n, "c < %s", deep->stride[m])->apart = true;
        dop_nest_load(n, "w", "dop_w4_%s(%s, min(n0 + n, %uu) * %s + c, %s)",
                      dop_type_of(dop_node_at(gen->e.g, w)->type)->name, dop_emit_matrix(&gen->e, w, "dop_matrix"),
                      part->rows - 1, deep->stride[m], deep->aux[m]);
        dop_nest_end(n);
        dop_nest_for(n, "j", "0u", "4u", NULL);
        dop_nest_store(n, memory, dop_nest_text(n, "dop_b[(%uu * BK + k + j) * (BN + 1u) + n]", m), "w[j]");
        dop_nest_ends(n, 2);
    }
}

/* Emits code that multiplies a tile with register blocking: TM rows by TN columns of every matrix per invocation. */
static void
multiply_tile(dop_nest *n, uint32_t mats, const tile_memory *memory)
{
    const char *all = dop_nest_text(n, "%uu", mats);
    dop_nest_for(n, "k", "0u", "BK", NULL);
    dop_nest_array(n, "float", "a", n->placement.at[DOP_PLACE_t][DOP_LEVEL_reg]);
    dop_nest_array(n, "float", "b", mats * n->placement.at[DOP_PLACE_n][DOP_LEVEL_reg]);
    dop_nest_for(n, "i", "0u", "TM", NULL);
    dop_nest_set(n, "a[i]", "dop_a[k * (BM + 1u) + ty * TM + i]")->reads = memory->a;
    dop_nest_end(n);
    dop_nest_for(n, "m", "0u", all, NULL);
    dop_nest_for(n, "j", "0u", "TN", NULL);
    dop_nest_set(n, "b[m * TN + j]", "dop_b[(m * BK + k) * (BN + 1u) + tx * TN + j]")->reads = memory->b;
    dop_nest_ends(n, 2);
    dop_nest_for(n, "m", "0u", all, NULL);
    dop_nest_for(n, "i", "0u", "TM", NULL);
    dop_nest_for(n, "j", "0u", "TN", NULL);
    dop_nest_add(n, "acc[(m * TM + i) * TN + j]", "a[i] * b[m * TN + j]");
    dop_nest_ends(n, 4);
}

/* Functions for statistic i: partial sums per invocation, reduced through shared memory after the products. */
static void
begin_stat(dop_nest *n, uint32_t i, uint32_t passes)
{
    const char *own = dop_nest_text(n, "stat%u", i);
    dop_nest_array(n, "float", own, passes);
    dop_nest_for(n, "i", "0u", dop_nest_text(n, "%uu", passes), NULL);
    dop_nest_set(n, dop_nest_text(n, "%s[i]", own), "0.0");
    dop_nest_end(n);
}

static void
share_stat(dop_nest *n, uint32_t i, uint32_t passes, uint32_t memory)
{
    dop_nest_for(n, "i", "0u", dop_nest_text(n, "%uu", passes), NULL);
    dop_nest_if(n, "i * WG + gl_LocalInvocationIndex < BM * BK / 4u")->apart = true;
    dop_nest_store(n, memory, dop_nest_text(n, "dop_rs%u[i * WG + gl_LocalInvocationIndex]", i), "stat%u[i]", i);
    dop_nest_ends(n, 2);
}

static void
take_stat(const dop_gen *gen, const dop_parts *p, dop_nest *n, uint32_t i, uint32_t memory)
{
    const char *rs = dop_nest_text(n, "rs%u", i);
    dop_nest_let(n, "float", rs, "0.0");
    dop_nest_for(n, "q", "0u", "BK / 4u", NULL);
    dop_nest_add(n, rs, "dop_rs%u[(ty * TM + i) * (BK / 4u) + q]", i)->reads = memory;
    dop_nest_end(n);
    dop_nest_set(n, rs, "inversesqrt(%s / %u.0 + %.9g)", rs, p->k, dop_node_f(gen->e.g, p->stats[i], DOP_A_eps));
}

/* Returns the epilogue of the sum of row t and column c. */
static const char *
matmul_epilogue(dop_gen *gen, const dop_parts *p, const dop_segment *part, const dop_blocks *b, const char *pair)
{
    dop_emit *e = &gen->e;
    const uint32_t n_binds = e->n_binds;
    const dop_index ix = {"t", b->n ? "s" : "c"};
    dop_buf end = {0};
    for (uint32_t i = 0; i < p->n_stats; i++)
        dop_emit_bind(e, p->stats[i], dop_emit_str(e, "rs%u", i), false, NULL);
    for (uint32_t m = 0; m < part->n_mats; m++)
        dop_emit_bind(e, part->mats[m], dop_emit_str(e, "acc[(%uu * TM + i) * TN + j]", m), false, NULL);
    if (b->n)
        dop_buf_printf(&end, "                uint s = %s;\n", dop_blocks_column(gen, b, pair, part->rows));
    dop_emit_scope(e, &end, "                ");
    for (uint32_t i = 0; i < part->n_outs; i++)
        dop_emit_store(e, part->outs[i], ix, 1, dop_emit_value(e, part->outs[i], ix, 1));
    e->n_binds = n_binds;
    return dop_gen_keep(gen, &end);
}

/* Emits a part: a workgroup computes BM rows of the step by BN rows of each of the part's matrices. */
static void
emit_matmul_part(dop_gen *gen, const dop_parts *p, dop_nest *n, uint32_t index, const tile_memory *memory)
{
    dop_emit *e = &gen->e;
    const dop_segment *part = &p->part[index];
    const dop_tile *tile = &gen->choice->tile;
    const uint32_t passes = dop_div_up_u32(tile->bm * tile->bk / 4, tile->wg),
                   sums = part->n_mats * tile->tm * tile->tn;
    const depth deep = depth_of(gen, p, part);
    if (e->status != DOP_OK)
        return;
    dop_nest_function(n, dop_nest_text(n, "dop_part%u", index), "uint wg, uint t0");
    dop_nest_let(n, "uint", "n0", "wg * BN");
    dop_nest_let(n, "uint", "tx", "gl_LocalInvocationIndex %% (BN / TN)");
    dop_nest_let(n, "uint", "ty", "gl_LocalInvocationIndex / (BN / TN)");
    dop_nest_array(n, "float", "acc", sums);
    dop_nest_for(n, "i", "0u", dop_nest_text(n, "%uu", sums), NULL);
    dop_nest_set(n, "acc[i]", "0.0");
    dop_nest_end(n);
    for (uint32_t i = 0; i < p->n_stats; i++)
        begin_stat(n, i, passes);
    dop_nest_for(n, "k0", "0u", deep.k, "BK");
    stage_rows(gen, p, &deep, n, memory->a);
    stage_weights(gen, part, &deep, n, memory->b);
    multiply_tile(n, part->n_mats, memory);
    dop_nest_end(n);
    for (uint32_t i = 0; i < p->n_stats; i++)
        share_stat(n, i, passes, memory->stats);
    const dop_blocks b = dop_blocks_of(e->g, e->r);
    const char *pair = "dop_pair[ty * TM + i]", *end = matmul_epilogue(gen, p, part, &b, pair);
    dop_nest_for(n, "i", "0u", "TM", NULL);
    for (uint32_t i = 0; i < p->n_stats; i++)
        take_stat(gen, p, n, i, memory->stats);
    dop_nest_for(n, "j", "0u", "TN", NULL);
    dop_nest_let(n, "uint", "t", "%s", b.n ? dop_blocks_row(gen, &b, pair) : "t0 + ty * TM + i");
    dop_nest_let(n, "uint", "c", "n0 + tx * TN + j");
    dop_nest_if(n, "t < %s && c < %uu", dop_emit_n_tokens(e), part->rows);
    dop_nest_hole(n, "end", end);
    dop_nest_ends(n, 4);
}

static dop_nest_placement
place_matmul(const dop_gen *gen, const dop_parts *p)
{
    const dop_tile *tile = &gen->choice->tile;
    dop_nest_placement pl = {.subgroup = 1, .sum = DOP_MEET_none};
    pl.at[DOP_PLACE_t][DOP_LEVEL_grid] = gen->grid[1];
    pl.at[DOP_PLACE_t][DOP_LEVEL_group] = tile->bm / tile->tm;
    pl.at[DOP_PLACE_t][DOP_LEVEL_reg] = tile->tm;
    pl.at[DOP_PLACE_n][DOP_LEVEL_group] = tile->bn / tile->tn;
    pl.at[DOP_PLACE_n][DOP_LEVEL_reg] = tile->tn;
    pl.at[DOP_PLACE_k][DOP_LEVEL_piece] = dop_div_up_u32(p->k, tile->bk);
    pl.at[DOP_PLACE_k][DOP_LEVEL_loop] = tile->bk;
    pl.x = pl.w = (dop_movement){.path = DOP_PATH_pieces, .unit = 4};
    return pl;
}

static dop_status
emit_matmul(dop_gen *gen)
{
    dop_emit *e = &gen->e;
    const dop_tile *tile = &gen->choice->tile;
    dop_parts p;
    dop_nest n;
    dop_buf decls = {0}, begin = {0}, calls = {0};
    dop_status st = dop_gen_parts(gen, &p);
    if (st != DOP_OK)
        return st;
    const char *tokens = dop_emit_n_tokens(e);
    gen->grid[1] = dop_tiles_begin(gen, "gl_WorkGroupID.y", tokens, &decls, &begin);
    const dop_nest_placement pl = place_matmul(gen, &p);
    dop_nest_open(&n, dop_variant_of(gen->choice->variant)->name, &pl, e->g->arena, e->diag);
    const dop_number sizes[] = {
        {"BM", tile->bm}, {"BN", tile->bn}, {"BK", tile->bk}, {"TM", tile->tm}, {"TN", tile->tn}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        dop_nest_number(&n, sizes[i].name, sizes[i].value);
    tile_memory memory = {
        .a = dop_nest_shared(&n, "float", "dop_a", tile->bk * (tile->bm + 1)),
        .b = dop_nest_shared(&n, "float", "dop_b", e->r->info->product.most_mats * tile->bk * (tile->bn + 1))};
    for (uint32_t i = 0; i < p.n_stats; i++)
        memory.stats |= dop_nest_shared(&n, "float", dop_nest_text(&n, "dop_rs%u", i), tile->bm * tile->bk / 4);
    dop_nest_hole(&n, "rows of a block", dop_gen_keep(gen, &decls));
    uint32_t first = 0, makers = 0, *order = dop_arena_alloc(n.arena, p.n * sizeof *order);
    if (!order)
        return DOP_NO_MEMORY(e->diag);
    dop_stmt *waits = dop_waits_declare(gen, &n);
    dop_waits_order(gen, &p, order);
    for (uint32_t k = 0; e->status == DOP_OK && k < p.n; k++) {
        const uint32_t i = order[k];
        emit_matmul_part(gen, &p, &n, i, &memory);
        const char *call = dop_waits_call(gen, i, dop_emit_str(e, "dop_part%u(wg - %uu, t0);", i, first));
        first += dop_div_up_u32(p.part[i].rows, tile->bn);
        makers = dop_region_part_is_awaited(e->r, i) ? first : makers;
        dop_gen_call(&calls, call, k + 1 < p.n ? first : 0);
    }
    gen->grid[0] = first;
    dop_waits_define(gen, waits, makers, first - makers, dop_emit_str(e, "(%s + BM - 1u) / BM", tokens));
    return dop_product_finish(gen, &n, dop_gen_keep(gen, &begin), &calls);
}

static uint32_t
matmul_shared_bytes(dop_gen *gen)
{
    const dop_tile *tile = &gen->choice->tile;
    const dop_product_facts *a = &gen->e.r->info->product;
    return ((tile->bm + 1) + a->most_mats * (tile->bn + 1)) * tile->bk * 4 + a->n_stats * tile->bm * tile->bk +
           dop_blocks_bytes(gen, tile->bm);
}

/* Chooses the tile for `rows` rows of the step, or of a block, which is then a multiple of tiles. */
static void
tile_of_rows(const dop_site *s, uint32_t rows, dop_tile *tile)
{
    const dop_target *t = s->t;
    dop_products p = dop_products_of(s);
    uint32_t mats = p.most < 2 ? 2 : p.most;
    tile->bm = rows >= 64 ? 64 : rows >= 32 ? 32 : rows >= 16 ? 16 : 8;
    tile->bn = t->schedule.tile_rows;
    tile->bk = 32;
    /* Activations, at least two weight tiles (gate and up), and a quarter more for statistics and sums. */
    while ((tile->bm + mats * tile->bn + mats + 1) * tile->bk * 4 > t->shared_bytes / 5 * 4 &&
           (tile->bn > 32 || tile->bm > 8 || tile->bk > 8)) {
        if (tile->bn > 32)
            tile->bn /= 2;
        else if (tile->bm > 8)
            tile->bm /= 2;
        else
            tile->bk /= 2;
    }
    tile->tm = tile->bm >= 32 ? 4 : 2;
    tile->tn = 4;
    tile->wg = tile->bm / tile->tm * (tile->bn / tile->tn);
    while (tile->wg > t->max_workgroup) {
        tile->tm *= 2;
        tile->wg /= 2;
    }
    while (tile->tm > 2 && tile->tm * tile->tn * p.most > t->schedule.tile_sums && tile->wg * 2 <= t->max_workgroup) {
        tile->tm /= 2;
        tile->wg *= 2;
    }
}

static void
choose_matmul_tile(const dop_site *s, dop_tile *tile)
{
    tile_of_rows(s, s->g->max_t, tile);
}

static void
choose_matmul_tile_at(const dop_site *s, dop_tile *tile)
{
    tile_of_rows(s, dop_blocks_of(s->g, s->r).span, tile);
}

/* Checks the tile: each invocation has tm by tn sums of every matrix, and loads are vec4s of the depth. Tiles divide a block
 * of rows of one expert. */
static void
legal_matmul(dop_check *c)
{
    const dop_tile *t = c->tile;
    const uint32_t mats = c->s->r->info->product.most_mats;
    const dop_blocks b = dop_blocks_of(c->s->g, c->s->r);
    if (!dop_check_range(c, DOP_TILE_NO_bm, 1, DOP_MOST_SIDE) ||
        !dop_check_range(c, DOP_TILE_NO_bn, 1, DOP_MOST_SIDE) ||
        !dop_check_multiple(c, DOP_TILE_NO_bk, 4, 4, DOP_MOST_SIDE) ||
        !dop_check_divides(c, DOP_TILE_NO_tm, t->bm, "bm") || !dop_check_divides(c, DOP_TILE_NO_tn, t->bn, "bn"))
        return;
    dop_check_equal(c, DOP_TILE_NO_wg, (uint64_t)(t->bm / t->tm) * (t->bn / t->tn), "bm / tm x bn / tn");
    dop_check_most(c, DOP_TILE_NO_tm, (uint64_t)t->tm * t->tn, DOP_MOST_SUMS / mats, "tm x tn");
    if (b.n)
        dop_check_divides(c, DOP_TILE_NO_bm, b.span, "rows of a block");
}

#define TILED                                                                                            \
    .shared = matmul_shared_bytes, .emit = emit_matmul, .trips = dop_trips_tiles, .legal = legal_matmul, \
    .any_wg = true, .fields = DOP_FIELD(bm) | DOP_FIELD(bn) | DOP_FIELD(bk) | DOP_FIELD(tm) | DOP_FIELD(tn)

const dop_descriptor dop_descriptor_matmul_tiled = {TILED, .fits = dop_products_refuse, .tile = choose_matmul_tile};
const dop_descriptor dop_descriptor_expert_tiled = {TILED, .fits = dop_blocks_refuse, .tile = choose_matmul_tile_at};
