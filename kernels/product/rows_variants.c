/* Variants of products on CPU devices: their tiles, and the regions that each supports (gen_rows.c). */
#include "kernels/gen/gen.h"
#include "kernels/gen/gen_tail.h"
#include "kernels/gen/int8.h"
#include "kernels/gen/legal.h"
#include "kernels/gen/products.h"
#include "kernels/gen/trips.h"
#include "kernels/product/gen_rows.h"
#include "kernels/row/gen_group.h"

#include "kernels/emit/weight_types.h"

static uint64_t
trips_rows(const dop_site *s, const dop_tile *tile)
{
    const dop_analysis *a = s->r->info;
    const dop_blocks blocks = dop_blocks_of(s->g, s->r);
    const uint64_t slots = blocks.n || a->experts.sum ? 1 : a->experts.slots,
                   sums = a->experts.sum ? a->experts.slots : 1;
    const uint64_t stores = tile->bm > 1 ? dop_turns((uint64_t)tile->rows * tile->bm / 4, 1) * 7 : 0;
    const uint32_t walkers = tile->claims ? 1 : tile->loops; /* one workgroup may claim all blocks */
    uint64_t n = dop_trips_prologue(s, tile, tile->bm) + 64;
    for (uint32_t i = 0; i < a->product.n_parts; i++) {
        const dop_segment *part = &a->product.parts[i];
        uint32_t unit = dop_part_unit(s->g, part);
        unit = unit > tile->bk ? unit : tile->bk;
        /* Rows that are not a multiple of four values are gathered value by value, which takes longer. */
        const uint64_t load =
            dop_region_wide(s->g, s->r, a->product.activations[part->act]) && a->product.depth % 4 == 0
                ? 1
                : 1 + tile->bm * 6u;
        const uint64_t beside =
            a->product.beside
                ? dop_turns(dop_div_up_u32(dop_product_depth(s->g, a->product.beside), unit), 1) * load + 1
                : 0;
        const uint64_t each =
            sums * (dop_turns(dop_div_up_u32(a->product.depth, unit), 1) * load + 1) + beside + stores + 1;
        const uint32_t set = tile->rows * tile->wg;
        if (part->argmax) {
            const uint32_t parts = (uint32_t)dop_node_i(s->g, part->argmax, DOP_A_parts);
            const uint64_t span = dop_div_up_u32(part->rows, parts);
            n += dop_turns(parts, tile->loops) * (dop_turns(span + set - 1, set) * each + 2);
        } else {
            n += dop_turns(slots * dop_div_up_u32(part->rows, set), walkers) * each;
        }
    }
    return n + dop_tail_trips(s, tile);
}

/* Chooses the tile. A workgroup is one subgroup, and a block of rows by tokens is as large as the bound on unrolled code
 * allows. */
static void
choose_rows_tile(const dop_site *s, bool gemv, dop_tile *tile)
{
    const dop_graph *g = s->g;
    const dop_target *t = s->t;
    dop_products p = dop_products_of(s);
    uint32_t unit = 8;
    for (uint32_t i = 0; i < s->r->n_nodes; i++) {
        const dop_node *n = dop_node_at(g, s->r->nodes[i]);
        const dop_weight_type *w =
            dop_op_of(n->op)->root == DOP_ROOT_product ? dop_weight_type_of(dop_node_at(g, n->src[1])->type) : NULL;
        unit = w && w->unit > unit ? w->unit : unit;
    }
    const dop_blocks b = dop_blocks_of(g, s->r);
    uint64_t products = (uint64_t)p.rows * p.k / (b.n ? b.slots : 1);
    bool small = products < (1 << 19); /* compiling takes longer than running: less code is better */
    tile->wg = t->subgroup;
    /* Rows, matrices, tokens and the values of a step are unrolled, so the code grows with their product. */
    tile->bm = gemv ? 1 : small || g->max_t <= 4 ? 4 : 8;
    tile->bk = unit > 8 || !small ? 32 : 16;
    tile->rows = small ? 2 : p.most > 1 ? 2 : 4;
    while (tile->rows > 1 && p.rows < tile->rows * t->subgroup * t->cores * 2)
        tile->rows /= 2;
    /* Each workgroup computes its own activations, so it should have about 2^18 products. Every core should get equally many
     * workgroups, because the driver distributes them in advance. Blocks of tokens are also workgroups. */
    const uint32_t tiles = b.n ? b.n * (b.span / tile->bm) : dop_div_up_u32(gemv ? 1 : g->max_t, tile->bm);
    uint64_t loops = (products * tile->bm) >> 18, most = t->cores * 8 / tiles;
    loops = loops > most ? most : loops;
    tile->loops = loops < t->cores ? t->cores : dop_pow2_floor((uint32_t)loops);
    while (t->loop_trips && trips_rows(s, tile) > t->loop_trips && tile->loops < p.rows)
        tile->loops *= 2;
    /* Threads start at different times, or are preempted, so equal shares do not end at the same time. Ranges of an arg-max
     * remain fixed shares, which were faster: late threads matter little for a large matrix. */
    if (t->cpu && t->merges && gemv && !s->r->info->tail.id && s->r->info->product.n_parts <= DOP_COUNTS_MOST) {
        tile->claims = true;
        tile->claims = !t->loop_trips || trips_rows(s, tile) <= t->loop_trips;
    }
}

static void
tile_of_one(const dop_site *s, dop_tile *tile)
{
    choose_rows_tile(s, true, tile);
}

static void
tile_of_several(const dop_site *s, dop_tile *tile)
{
    choose_rows_tile(s, false, tile);
}

/* Refuses subgroups below eight lanes: eight lanes with four values each make a unit. */
static dop_refusal
fits_rows(const dop_site *s)
{
    if (s->t->subgroup < 8)
        return (dop_refusal){"subgroups are smaller than 8", NULL};
    dop_refusal no = dop_tail_refuses(s);
    return no.why ? no : dop_products_refuse(s);
}

static dop_refusal
fits_rows_ints(const dop_site *s)
{
    dop_refusal no = fits_rows(s);
    return no.why ? no : dop_int8_refuses(s);
}

static const char *
avoid_gpus(const dop_site *s)
{
    return s->t->cpu ? NULL : "meant for CPU devices";
}

static const char *
avoid_ints_and_gpus(const dop_site *s)
{
    const char *no = dop_int8_avoid(s);
    return no ? no : avoid_gpus(s);
}

static dop_refusal
fits_experts(const dop_site *s)
{
    const dop_analysis *a = s->r->info;
    if (a->product.n_stats > 0)
        return (dop_refusal){"a statistic is summed up beside the products", NULL};
    if (!a->experts.sum && dop_node_at(s->g, a->product.act)->shape.rank == 3)
        return (dop_refusal){"each slot has a row of its own", NULL};
    return fits_rows(s);
}

static dop_refusal
fits_blocks(const dop_site *s)
{
    dop_refusal no = dop_blocks_refuse(s);
    if (s->r->info->product.n_stats > 0)
        return (dop_refusal){"a statistic is summed up beside the products", NULL};
    return no.why ? no : fits_rows(s);
}

/* Checks the tile: the lanes of the one subgroup exchange four activation values each. Rows of matrices, tokens and the
 * values of a step are unrolled. */
static void
check_lanes(dop_check *c)
{
    const dop_tile *t = c->tile;
    const dop_product_facts *a = &c->s->r->info->product;
    const uint32_t unit = dop_products_unit(c->s->g, c->s->r), least = unit > 8 ? unit : 8,
                   most = DOP_MOST_UNROLLED / ((t->bk > least ? t->bk : least) * (a->most_mats + (a->beside != 0)));
    dop_check_equal(c, DOP_TILE_NO_wg, c->s->t->subgroup, "a subgroup");
    if (dop_check_power(c, DOP_TILE_NO_bk, 8, 4 * c->s->t->subgroup) &&
        dop_check_range(c, DOP_TILE_NO_rows, 1, most / t->bm ? most / t->bm : 1))
        dop_check_range(c, DOP_TILE_NO_loops, 1, DOP_MOST_GROUPS);
}

static void
legal_one(dop_check *c)
{
    if (dop_check_equal(c, DOP_TILE_NO_bm, 1, "one row"))
        check_lanes(c);
}

/* Checks the tile: tokens are stored in fours, and tiles divide a block of rows of one expert. */
static void
legal_several(dop_check *c)
{
    const dop_blocks b = dop_blocks_of(c->s->g, c->s->r);
    if (dop_check_multiple(c, DOP_TILE_NO_bm, 4, 4, 64) &&
        (!b.n || dop_check_divides(c, DOP_TILE_NO_bm, b.span, "rows of a block")))
        check_lanes(c);
}

/* Clears `claims` if the loop trip count would exceed the target's limit, because one workgroup may claim all blocks. */
static void
settle_rows_tile(const dop_site *s, dop_tile *tile)
{
    if (tile->rows && tile->loops) /* otherwise the tile is illegal */
        tile->claims = tile->claims && (!s->t->loop_trips || trips_rows(s, tile) <= s->t->loop_trips);
}

/* Descriptor fields of all variants, of those for one row, and of those for several. */
#define ROWS .shared = dop_rows_shared, .emit = dop_rows_emit, .trips = trips_rows, .ahead = true, .texels = true
#define ONE                                                              \
    .tile = tile_of_one, .legal = legal_one, .settle = settle_rows_tile, \
    .fields = DOP_FIELD(rows) | DOP_FIELD(loops) | DOP_FIELD(bk), ROWS
#define SEVERAL                                                           \
    .tile = tile_of_several, .avoid = avoid_gpus, .legal = legal_several, \
    .fields = DOP_FIELD(rows) | DOP_FIELD(loops) | DOP_FIELD(bm) | DOP_FIELD(bk), ROWS

const dop_descriptor dop_descriptor_gemv_rows = {ONE, .fits = fits_rows, .avoid = avoid_gpus, .tunes = DOP_FIELD(rows)};
const dop_descriptor dop_descriptor_gemv_rows_i8 = {ONE, .fits = fits_rows_ints, .avoid = avoid_ints_and_gpus,
                                                    .tunes = DOP_FIELD(rows), .ints = true};
const dop_descriptor dop_descriptor_matmul_rows = {SEVERAL, .fits = fits_rows};
const dop_descriptor dop_descriptor_expert_rows = {ONE, .fits = fits_experts, .avoid = avoid_gpus};
const dop_descriptor dop_descriptor_expert_block_rows = {SEVERAL, .fits = fits_blocks};
