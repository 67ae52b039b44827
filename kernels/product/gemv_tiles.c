/* Tiles of single-row products (GEMV) on GPUs (gen_gemv.c), for ordinary dispatches and for stages of a persistent
 * dispatch. */
#include "kernels/product/gemv_tiles.h"

#include "kernels/emit/weight_types.h"
#include "kernels/gen/gen.h"
#include "kernels/gen/int8.h"
#include "kernels/gen/legal.h"
#include "kernels/gen/products.h"

/* Chooses the tile for float weights, which need no decoding. The invocations of one wave are divided among all rows: many
 * loads are in flight, the prologue runs once, and no workgroup waits for a free multiprocessor. If rows exceed one wave,
 * each gets a subgroup. Large workgroups are better if they divide evenly among the multiprocessors, because one load of the
 * activation serves more rows. */
static void
tile_float(const dop_target *t, uint32_t teams, uint32_t units, uint32_t sg, bool paired, dop_tile *tile)
{
    const uint32_t most = t->schedule.gemv_most_lanes, loads = t->schedule.gemv_loads;
    uint32_t wave = t->cores * t->schedule.gemv_float_wave, large = dop_div_up_u32(teams, 512 / sg);
    tile->lanes = sg;
    if (!paired && !t->cpu && t->max_workgroup >= 512 &&
        (uint64_t)large * 100 >= (uint64_t)dop_div_up_u32(large, t->cores) * t->cores * t->schedule.gemv_float_even)
        tile->wg = 512;
    else if (teams * 16 <= wave)
        for (tile->lanes = 16; tile->lanes < most && tile->lanes * 2 <= units && teams * tile->lanes * 2 <= wave;)
            tile->lanes *= 2;
    tile->unroll = tile->lanes >= most && loads > 1 ? loads / 2 : loads;
}

/* Chooses the tile for quantized weights, which must be decoded: half as many invocations as for floats, because each needs
 * more registers, and several rows share a load of the activation. The activation is staged in shared memory. If it is long,
 * large workgroups stage it less often, as long as every multiprocessor has one. */
static void
tile_quant(const dop_target *t, uint32_t teams, uint32_t k, uint32_t sg, dop_tile *tile)
{
    const uint32_t most = t->schedule.gemv_most_lanes, enough = t->cores * t->schedule.gemv_quant_busy / 8;
    uint32_t wave = t->cores * t->schedule.gemv_quant_wave, far = t->schedule.gemv_quant_long;
    tile->lanes = sg;
    tile->unroll = 1;
    if (teams * sg > wave)
        tile->rows = 2;
    if (teams / tile->rows * sg > wave && sg > 16)
        tile->lanes = 16;
    if (t->cpu || t->max_workgroup < 512 || (tile->rows == 2 && k < far))
        return;
    /* The activation is so long that staging it takes several round trips to memory. */
    if (k >= t->schedule.gemv_quant_staged && t->max_workgroup >= 1024) {
        tile->wg = 1024;
        while (teams / (tile->wg / tile->lanes * tile->rows) < t->cores * t->schedule.gemv_quant_staged_busy / 8 &&
               tile->lanes < most)
            tile->lanes *= 2;
        return;
    }
    tile->wg = 512;
    while (teams / (tile->wg / tile->lanes * tile->rows) < enough && tile->wg > 256 && k < far)
        tile->wg /= 2;
    while (teams / (tile->wg / tile->lanes * tile->rows) < enough && tile->lanes < most && k >= far)
        tile->lanes *= 2;
}

static void
gemv_tile(const dop_site *s, dop_type type, dop_tile *tile)
{
    const dop_target *t = s->t;
    dop_products p = dop_products_of(s);
    uint32_t sg = tile->subgroup && t->subgroup > 1 ? t->subgroup : 32;
    const dop_weight_type *wt = dop_weight_type_of(type);
    uint32_t units = p.k / (wt ? wt->unit : 8); /* loads along a row */
    uint32_t teams = p.rows / p.most;
    tile->rows = 1;
    tile->stage = 1;
    if (dop_type_of(type)->kind == DOP_KIND_QUANT)
        tile_quant(t, teams, p.k, sg, tile);
    else
        tile_float(t, teams, units, sg, teams < p.rows, tile);
    while (tile->lanes > tile->wg)
        tile->lanes /= 2;
    while (tile->lanes > 4 && tile->lanes > units)
        tile->lanes /= 2;
    while (tile->unroll > 1 && tile->lanes * (tile->unroll / 2) >= units)
        tile->unroll /= 2;
}

void
dop_gemv_tile(const dop_site *s, dop_tile *tile)
{
    gemv_tile(s, dop_products_of(s).type, tile);
}

void
dop_gemv_tile_i8(const dop_site *s, dop_tile *tile)
{
    gemv_tile(s, dop_int8_type(s), tile);
}

/* Returns the number of workgroups for all matrices of a region, if each processes rows_each rows. */
static uint32_t
count_stage_groups(const dop_site *s, uint32_t products, uint32_t rows_each)
{
    const dop_analysis *a = s->r->info;
    uint32_t n = 0;
    for (uint32_t i = 0; i < a->product.n_mats; i += products)
        n += dop_div_up_u32(dop_product_cols(s->g, a->product.mats[i]), rows_each) *
             (a->experts.sum ? 1 : a->experts.slots);
    return n;
}

/* Returns the number of steps of a row with loads in flight at once: the target's maximum, or a divisor of the row's steps (9
 * steps are three batches of three). Halved with three sibling products, because these hold three times as much. */
static uint32_t
steps_in_flight(uint32_t all, uint32_t steps, bool quant, uint32_t products)
{
    const uint32_t most = products > (quant ? 1 : 2) && all > 1 ? all / 2 : all;
    if (!quant && most == all && steps % all)
        for (uint32_t n = all + all / 2; n + 1 >= all && n > 1; n--)
            if (steps % n == 0)
                return n;
    return steps >= most ? most : steps >= 2 ? 2 : 1;
}

/* Returns the steps in flight for long stages with one matrix at a time, which have registers for about twice as many;
 * otherwise `otherwise`. */
static uint32_t
long_steps_in_flight(const dop_target *t, uint32_t steps, uint32_t loops, uint32_t otherwise)
{
    for (uint32_t n = 9; n >= 5 && steps * loops >= t->schedule.gemv_stage_long; n--)
        if (steps % n == 0)
            return n;
    return otherwise;
}

/* Chooses the tile of a stage. There is one workgroup per core, which walks over its share of the rows. The number of lanes
 * per row makes shares even and steps few. Several steps are in flight, because few invocations cannot hide latency. For
 * float weights, the lanes of a row read 256 contiguous bytes. */
const char *
dop_gemv_stage(const dop_site *s, dop_tile *tile)
{
    dop_products p = dop_products_of(s);
    const dop_weight_type *wt = dop_weight_type_of(p.type);
    bool quant = dop_type_of(p.type)->kind == DOP_KIND_QUANT;
    uint32_t units = dop_div_up_u32(p.k, wt ? wt->unit : 8), steps = 1, best = UINT32_MAX;
    tile->rows = tile->stage = 1;
    /* Lanes of several subgroups reduce through shared memory. */
    uint32_t least = quant ? 4 : s->t->subgroup > 1 && s->t->subgroup < 16 ? s->t->subgroup : 16;
    for (uint32_t lanes = least; tile->wg % lanes == 0 && (lanes == least || lanes <= units); lanes *= 2) {
        uint32_t per = tile->wg / lanes, loops = 1;
        /* Each matrix has its own workgroups. */
        while (loops * per < p.rows && count_stage_groups(s, p.most, per * loops) > s->t->cores)
            loops++;
        /* Overhead per set of rows: half a step with quantized weights, a full step with floats. For floats it is also half a
         * step if a row is one batch of loads, because one set is reduced while the next is in flight. */
        uint32_t n = dop_div_up_u32(units, lanes), cost = loops * (2 * n + (quant || (loops > 1 && n == 4) ? 1 : 2));
        if (cost > best || (cost == best && p.most > 2)) /* prefer fewer sets if each holds many sums */
            continue;
        best = cost;
        steps = n;
        tile->lanes = lanes;
        tile->loops = loops;
    }
    tile->unroll = steps_in_flight(s->t->schedule.gemv_stage_loads, steps, quant, p.most);
    if (!quant && p.most == 1)
        tile->unroll = long_steps_in_flight(s->t, steps, tile->loops, tile->unroll);
    return NULL;
}

/* Checks that groups of lanes fill the workgroup, and that their number allows reduction by halves, within subgroups or
 * across whole ones. */
bool
dop_team_legal(dop_check *c)
{
    const dop_tile *t = c->tile;
    return dop_check_power(c, DOP_TILE_NO_lanes, 1, dop_pow2_floor(t->wg)) &&
           dop_check_multiple(c, DOP_TILE_NO_wg, t->lanes, t->lanes, c->s->t->max_workgroup);
}

/* Checks the registers and code of a lane. It holds the weights of `unroll` steps of `rows` rows per matrix, and multiplies
 * them by `tokens` rows in unrolled loops. */
bool
dop_lane_legal(dop_check *c, uint32_t tokens)
{
    const dop_tile *t = c->tile;
    const dop_product_facts *a = &c->s->r->info->product;
    const uint32_t each = (a->most_mats + (a->beside != 0)) * dop_products_unit(c->s->g, c->s->r) * tokens,
                   most = DOP_MOST_UNROLLED / each ? DOP_MOST_UNROLLED / each : 1;
    return dop_check_range(c, DOP_TILE_NO_rows, 1, most) && dop_check_range(c, DOP_TILE_NO_unroll, 1, most) &&
           dop_check_most(c, t->rows > t->unroll ? DOP_TILE_NO_rows : DOP_TILE_NO_unroll, (uint64_t)t->rows * t->unroll,
                          most, "rows x unroll") &&
           dop_check_most(c, DOP_TILE_NO_loops, (uint64_t)(t->wg / t->lanes) * t->rows * t->loops, 1 << 24,
                          "wg / lanes x rows x loops");
}

/* Checks the tile of a GEMV. An arg-max reduces over the workgroup by halves, as do lanes of float products next to integer
 * ones. Per-head products need workgroups with adjacent rows in one set. */
void
dop_gemv_legal(dop_check *c)
{
    const dop_analysis *a = c->s->r->info;
    const dop_target *t = c->s->t;
    bool halved = c->tile->subgroup && dop_int8_mixed(c->s->g, c->s->r);
    for (uint32_t i = 0; i < a->product.n_parts; i++)
        halved = halved || a->product.parts[i].argmax;
    if (halved)
        dop_check_power(c, DOP_TILE_NO_wg, c->tile->subgroup ? t->subgroup : 1, dop_pow2_floor(t->max_workgroup));
    if (a->tail.id && !c->s->routes)
        dop_check_range(c, DOP_TILE_NO_loops, 0, 1);
    dop_check_range(c, DOP_TILE_NO_stage, 0, 1);
    if (dop_team_legal(c))
        dop_lane_legal(c, 1);
}
