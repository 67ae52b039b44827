/* Small-batch products on matrix units (up to 64 tokens): one tile has all tokens, so that weights are read once. */
#include "kernels/gen/legal.h"
#include "kernels/gen/products.h"
#include "kernels/product/gen_coop.h"

#include "kernels/emit/weight_types.h"

/* True if the step has more tokens than schedule.small_some (many_tokens: small_many), for which other tile shapes are
 * listed. */
static bool
some_tokens(const dop_graph *g, const dop_target *t)
{
    return g->max_t > t->schedule.small_some;
}

static bool
many_tokens(const dop_graph *g, const dop_target *t)
{
    return g->max_t > t->schedule.small_many;
}

/* True if the kernel is matmul_coop_own, in which each subgroup loads its own factors. */
static bool
is_own_kernel(const dop_gen *gen)
{
    return gen->descriptor == &dop_descriptor_matmul_coop_own;
}

/* True if the part's weights are loaded in whole units: quantized weights, if every invocation has at least one unit to
 * load. */
static bool
few_loads_units(const dop_gen *gen, const dop_segment *part)
{
    const dop_graph *g = gen->e.g;
    const dop_tile *tile = &gen->choice->tile;
    if (!is_own_kernel(gen) && !many_tokens(g, gen->e.target) && tile->bn * part->n_mats * tile->bk / 32 < tile->wg)
        return false;
    for (uint32_t m = 0; m < part->n_mats; m++)
        if (dop_type_of(dop_product_type(g, part->mats[m]))->kind == DOP_KIND_QUANT)
            return true;
    return false;
}

static dop_status
emit_coop_few(dop_gen *gen)
{
    return dop_coop_emit(
        gen, &(dop_coop_form){.kind = DOP_COOP_few, .bytes = dop_coop_tile_bytes, .in_units = few_loads_units});
}

/* Returns the first shape of a list of schedule.small_tiles. Lists begin with the widest shape: every workgroup loads a tile
 * of activations, so fewer, wider workgroups load less, as long as every multiprocessor has one. */
static const dop_few_shape *
first_listed_shape(const dop_target *t, dop_few_list list)
{
    const dop_few_shape *x = t->schedule.small_tiles;
    while (x->list != list)
        x++;
    return x;
}

/* Sets the tile from a shape, if it suits the products and the target (subgroups of 32, fragments of 16 x 16). `last`: there
 * is no alternative, so occupancy is not checked. */
static bool
few_tile(const dop_site *s, const dop_few_shape *x, bool last, dop_tile *tile)
{
    const dop_products p = dop_products_of(s);
    const dop_target *t = s->t;
    const uint32_t m = dop_matrix_m(t->matrix), n = dop_matrix_n(t->matrix), k = dop_matrix_k(t->matrix);
    if (t->subgroup != 32 || m != 16 || n != 16 || (!last && x->rows / p.most < n))
        return false;
    if (!last && (p.rows / x->rows * 100 < t->cores * s->t->schedule.small_busy ||
                  x->rows / p.most > t->schedule.small_most_rows))
        return false;
    tile->bm = dop_div_up_u32(s->g->max_t, m) * m;
    tile->bn = x->rows / p.most / n > 1 ? x->rows / p.most / n * n : n;
    tile->tm = x->tm < tile->bm && tile->bm % x->tm == 0 ? x->tm : tile->bm;
    tile->tn = x->tn < tile->bn ? x->tn : tile->bn;
    tile->bk = x->bk;
    tile->unroll = x->ahead;
    const uint32_t subgroups = tile->bm / tile->tm * (tile->bn / tile->tn);
    for (tile->wg = x->wg; tile->wg / t->subgroup < subgroups; tile->wg *= 2)
        ;
    tile->ds = tile->wg / t->subgroup / subgroups;
    while (tile->bk > p.k && tile->bk > k * tile->ds)
        tile->bk /= 2;
    while (tile->bk > k * tile->ds && tile->bk > 32 && !dop_coop_fits_shared(s, tile, p.most))
        tile->bk /= 2;
    return tile->wg <= t->max_workgroup && tile->wg / t->subgroup % subgroups == 0 && tile->bk >= k * tile->ds &&
           dop_coop_fits_shared(s, tile, p.most);
}

/* Chooses the tile if no listed shape suits. Tiles have so few weight rows that every multiprocessor has a workgroup. The
 * subgroups of a workgroup divide the depth, and many loads of weights are in flight. */
static void
narrow_tile(const dop_site *s, dop_tile *tile)
{
    const dop_target *t = s->t;
    const dop_schedule_numbers *of = &t->schedule;
    const dop_products p = dop_products_of(s);
    const uint32_t m = dop_matrix_m(t->matrix), n = dop_matrix_n(t->matrix), k = dop_matrix_k(t->matrix);
    const uint32_t rows = p.rows / p.most;
    tile->bm = tile->tm = dop_div_up_u32(s->g->max_t, m) * m;
    tile->tn = n;
    tile->wg = t->max_workgroup < of->narrow_wg ? t->max_workgroup : of->narrow_wg;
    for (tile->bn = 4 * n; tile->bn > n && dop_div_up_u32(rows, tile->bn) < t->cores; tile->bn /= 2)
        ;
    if (dop_div_up_u32(rows, tile->bn) < 2 * t->cores && t->max_workgroup >= of->narrow_wg_busy)
        tile->wg = of->narrow_wg_busy;
    uint32_t subgroups = tile->wg / t->subgroup;
    while (subgroups % (tile->bn / tile->tn))
        tile->tn *= 2;
    tile->ds = subgroups / (tile->bn / tile->tn);
    tile->bk = of->narrow_depth;
    while (tile->bk > k * tile->ds && (tile->bk > p.k || !dop_coop_fits_shared(s, tile, p.most) ||
                                       tile->bk * (tile->bm + p.most * tile->bn) > tile->wg * 8 * 8))
        tile->bk /= 2;
    uint32_t pieces =
        dop_div_up_u32(tile->bk * tile->bm / 8, tile->wg) + dop_div_up_u32(tile->bk * p.most * tile->bn / 8, tile->wg);
    tile->unroll = 1;
    while (tile->unroll < 4 && tile->unroll * 2 * pieces <= 8 && tile->unroll * tile->bk < p.k)
        tile->unroll *= 2;
}

static bool
quantized(const dop_site *s)
{
    return dop_type_of(dop_products_of(s).type)->kind == DOP_KIND_QUANT;
}

/* Sets the tile from the first suitable shape among the first `most` of a list. `any`: the list's last shape always suits. */
static bool
choose_from(const dop_site *s, dop_few_list list, uint32_t most, bool any, dop_tile *tile)
{
    const dop_few_shape *x = first_listed_shape(s->t, list),
                        *end = s->t->schedule.small_tiles + s->t->schedule.n_small_tiles;
    for (uint32_t i = 0; i < most && x < end && x->list == list; i++, x++)
        if (few_tile(s, x, any && (x + 1 == end || x[1].list != list), tile))
            return true;
    return false;
}

/* True if there are enough weight rows for wide tiles: a tile for the given percentage of multiprocessors. */
static bool
enough_rows(const dop_site *s, uint32_t busy)
{
    return dop_products_of(s).rows / first_listed_shape(s->t, DOP_FEW_FLOATS)->rows * 100 >= s->t->cores * busy;
}

/* Chooses a tile for more than 16 tokens, if there are enough rows. Up to 32 tokens, two workgroups of float weights share a
 * multiprocessor, so that one loads while the other multiplies; for quantized weights one is enough. With more tokens, tiles
 * of quantized weights are small and need more rows. Single matrices, such as that of the logits, have the widest tile. */
static bool
wide_tile(const dop_site *s, dop_tile *tile)
{
    const bool blocks = quantized(s);
    const dop_schedule_numbers *in = &s->t->schedule;
    const dop_few_shape *one = first_listed_shape(s->t, DOP_FEW_ONE_WIDE);
    const dop_products p = dop_products_of(s);
    if (!many_tokens(s->g, s->t)) {
        const dop_few_shape *x = first_listed_shape(s->t, blocks ? DOP_FEW_BLOCKS_SOME : DOP_FEW_SOME_WIDE);
        return some_tokens(s->g, s->t) &&
               p.rows / x->rows * 100 >= s->t->cores * (blocks ? in->small_busy : in->small_busy_wide) &&
               few_tile(s, x, true, tile);
    }
    if (p.most == 1 && p.rows / one->rows * 100 >= s->t->cores * in->small_busy && few_tile(s, one, true, tile))
        return true;
    return enough_rows(s, blocks ? in->small_busy_blocks : in->small_busy_wide) &&
           few_tile(s, first_listed_shape(s->t, blocks ? DOP_FEW_BLOCKS_WIDE : DOP_FEW_FLOATS_WIDE), true, tile);
}

static void
choose_coop_few_tile(const dop_site *s, dop_tile *tile)
{
    const bool many = many_tokens(s->g, s->t), deep = dop_products_of(s).k >= s->t->schedule.small_deep;
    bool done;
    if (wide_tile(s, tile))
        done = true;
    else if (quantized(s))
        done = many ? choose_from(s, DOP_FEW_BLOCKS_MANY, UINT32_MAX, true, tile)
                    : choose_from(s, DOP_FEW_BLOCKS, deep ? UINT32_MAX : 1, false, tile);
    else if (many)
        done = choose_from(s, DOP_FEW_FLOATS_MANY, UINT32_MAX, true, tile);
    else
        done = some_tokens(s->g, s->t) ? choose_from(s, DOP_FEW_FLOATS_SOME, UINT32_MAX, false, tile)
                                       : choose_from(s, DOP_FEW_FLOATS, UINT32_MAX, false, tile);
    if (!done)
        narrow_tile(s, tile);
}

/* Maximum number of tokens: one tile holds all, and its sums must fit in a workgroup's registers. */
enum { MOST_FEW = 64 };

static dop_refusal
fits_coop_few(const dop_site *s)
{
    const dop_refusal no = dop_coop_fits(s);
    if (no.why)
        return no;
    dop_tile tile = {.wg = 0};
    if (s->g->max_t > MOST_FEW)
        return (dop_refusal){"more than 64 tokens", NULL};
    choose_coop_few_tile(s, &tile);
    const uint32_t mats = dop_products_of(s).most;
    if (!dop_coop_fits_shared(s, &tile, mats))
        return (dop_refusal){"a tile does not fit shared memory", NULL};
    if (tile.bk % (dop_matrix_k(s->t->matrix) * tile.ds))
        return (dop_refusal){"the subgroups cannot share out the depth", NULL};
    return no;
}

static const char *
avoid_coop_few(const dop_site *s)
{
    dop_tile tile = {.wg = 0};
    /* If there are enough tiles, float weights do not justify a tile whose subgroups hold all tokens. */
    return many_tokens(s->g, s->t) && !quantized(s) && enough_rows(s, s->t->schedule.small_busy_wide) &&
                   !wide_tile(s, &tile)
               ? "as many tiles as there are, by tokens and rows, take less time"
               : NULL;
}

/* Checks that one tile has all tokens, and that the depth is divided among `teams` groups of subgroups. */
static bool
check_tokens(dop_check *c, uint32_t teams, uint32_t ahead)
{
    const dop_tile *t = c->tile;
    const uint32_t m = dop_matrix_m(c->s->t->matrix);
    return dop_check_equal(c, DOP_TILE_NO_bm, dop_div_up_u32(c->s->g->max_t, m) * m, "all tokens in whole matrices") &&
           dop_check_range(c, DOP_TILE_NO_ds, 1, t->wg / c->s->t->subgroup) &&
           dop_coop_legal_tile(c, teams, ahead, true) &&
           dop_check_equal(c, DOP_TILE_NO_wg, (uint64_t)t->ds * (t->bm / t->tm) * (t->bn / t->tn) * c->s->t->subgroup,
                           "ds subgroups for each tm x tn of bm x bn");
}

static void
legal_coop_few(dop_check *c)
{
    if (dop_check_range(c, DOP_TILE_NO_unroll, 1, DOP_MOST_PIECES))
        check_tokens(c, c->tile->ds, c->tile->unroll);
}

const dop_descriptor dop_descriptor_matmul_coop_few = {
    .fields = DOP_COOP_FIELDS | DOP_FIELD(ds) | DOP_FIELD(unroll),
    .legal = legal_coop_few,
    .fits = fits_coop_few,
    .avoid = avoid_coop_few,
    .tile = choose_coop_few_tile,
    .shared = dop_coop_shared,
    .emit = emit_coop_few,
    .matrix_form = DOP_CAP_coop_khr,
};

/* --- matmul_coop_own: subgroups that load their own factors ------------------------------------------------------------ */

/* Depth in values of a subgroup's iteration: two units of 32. */
enum { DEEP = 64 };

static uint32_t
own_bytes(const dop_tile *tile, uint32_t n_mats, const dop_target *t)
{
    const uint32_t slices = tile->ds * dop_matrix_n(t->matrix) * (DEEP + 8) * 2;
    const uint32_t sums = dop_coop_sums_bytes(tile, n_mats, t, 1);
    return slices > sums ? slices : sums;
}

static dop_status
emit_own(dop_gen *gen)
{
    return dop_coop_emit(gen, &(dop_coop_form){.kind = DOP_COOP_own, .bytes = own_bytes, .in_units = few_loads_units});
}

static uint32_t
own_shared(dop_gen *gen)
{
    return own_bytes(&gen->choice->tile, gen->e.r->info->product.most_mats, gen->e.target);
}

/* Chooses the tile: 32 weight rows if most multiprocessors then have a workgroup, otherwise 16. The number of subgroups that
 * divide the depth is twice schedule.small_own_depth for few tokens. It is halved beyond schedule.small_some tokens, and
 * again if there are two workgroups per multiprocessor, so that both fit in its registers. For many tokens it is
 * schedule.small_own_depth. */
static void
own_tile(const dop_site *s, dop_tile *tile)
{
    const dop_products p = dop_products_of(s);
    const uint32_t m = dop_matrix_m(s->t->matrix), n = dop_matrix_n(s->t->matrix), tiles = p.rows / (2 * n);
    const uint32_t rows = tiles * 100 >= s->t->cores * s->t->schedule.small_busy ? 2 * n : n;
    tile->bm = tile->tm = dop_div_up_u32(s->g->max_t, m) * m;
    tile->bn = tile->tn = rows / p.most > n ? rows / p.most : n;
    const bool two = tiles * 100 >= s->t->cores * s->t->schedule.small_busy_own;
    const uint32_t depth = s->t->schedule.small_own_depth;
    tile->ds = many_tokens(s->g, s->t) ? depth : depth * 2 / ((some_tokens(s->g, s->t) ? 2u : 1u) * (two ? 2u : 1u));
    tile->bk = DEEP * tile->ds;
    tile->wg = tile->ds * s->t->subgroup;
    tile->unroll = 1;
}

static dop_refusal
own_fits(const dop_site *s)
{
    const dop_refusal no = dop_coop_fits(s);
    if (no.why)
        return no;
    if (s->g->max_t > MOST_FEW)
        return (dop_refusal){"more than 64 tokens", NULL};
    if (s->t->subgroup != 32 || s->t->matrix != DOP_MATRIX_SHAPE(16, 16, 16))
        return (dop_refusal){"its pieces are for subgroups of 32 and matrices of 16 x 16 x 16", NULL};
    return no;
}

static const char *
own_avoid(const dop_site *s)
{
    const dop_products p = dop_products_of(s);
    if (p.most > 1 || enough_rows(s, s->t->schedule.small_busy_wide))
        return "there are enough rows of weights for wide tiles";
    /* For float weights, no gain was measured if multiprocessors have two workgroups, or if few have one and the depth is
     * short. */
    const uint32_t tiles = p.rows / (2 * dop_matrix_n(s->t->matrix));
    const bool many = tiles > s->t->cores,
               few = tiles * 100 < s->t->cores * s->t->schedule.small_busy && p.k < 2 * p.rows,
               windows = dop_coop_stored(s->g, s->r).windows != 0;
    if (many_tokens(s->g, s->t) && !quantized(s) && (many || few || windows))
        return "activations of so many tokens are better read by a workgroup than by each subgroup";
    return NULL;
}

/* Checks the tile: a subgroup processes all of it, and as much of the depth at a time as fits in its slice of shared
 * memory. */
static void
own_legal(dop_check *c)
{
    const dop_tile *t = c->tile;
    if (!check_tokens(c, t->ds, 1))
        return;
    dop_check_equal(c, DOP_TILE_NO_tm, t->bm, "bm");
    dop_check_equal(c, DOP_TILE_NO_tn, t->bn, "bn");
    dop_check_equal(c, DOP_TILE_NO_bk, (uint64_t)DEEP * t->ds, "64 values for each of ds subgroups");
}

const dop_descriptor dop_descriptor_matmul_coop_own = {
    .fields = DOP_COOP_FIELDS | DOP_FIELD(ds),
    .legal = own_legal,
    .fits = own_fits,
    .avoid = own_avoid,
    .tile = own_tile,
    .shared = own_shared,
    .emit = emit_own,
    .matrix_form = DOP_CAP_coop_khr,
};
