/* Choosing a variant and a tile for a region.  The table is kernels.def; here are the conditions beyond capabilities
 * and the tile sizes, each with its reason. */
#include "kernels/gen.h"

#include "kernels/weight_types.h"

#include <stdio.h>
#include <string.h>

static const dop_variant variants[] = {
    {"", DOP_TPL_none, 0, ""},
#define KERNEL(name, tpl, caps, when) {#name, DOP_TPL_##tpl, caps, when},
#include "kernels/kernels.def"
#undef KERNEL
};

const dop_variant *
dop_variant_of(dop_variant_id v)
{
    return &variants[v];
}

bool
dop_variant_parse(const char *name, dop_variant_id *out)
{
    for (int i = 1; i < DOP_VARIANT_COUNT; i++)
        if (strcmp(variants[i].name, name) == 0) {
            *out = (dop_variant_id)i;
            return true;
        }
    return false;
}

/* The first matmul of the region, and the columns that all of them make. */
static const dop_node *
first_matmul(const dop_graph *g, const dop_region *r, uint32_t *out_rows)
{
    const dop_analysis *a = r->info;
    *out_rows = 0;
    for (uint32_t i = 0; i < a->n_products; i++)
        *out_rows += dop_node_cols(g, a->products[i]);
    return dop_node_at(g, a->products[0]);
}

/* Lanes of a row must divide a subgroup, and the products that one invocation holds are registers. */
static const char *
attention_decode_refuses(const dop_graph *g, const dop_region *r, const dop_target *t, uint32_t wg)
{
    const dop_node *a = dop_node_at(g, r->info->attention);
    const dop_node *q = dop_node_at(g, a->src[0]), *k = dop_node_at(g, a->src[1]);
    uint32_t dim = q->shape.dim[2].mul, lanes = dim / 8;
    if (g->max_t != 1)
        return "more than one token";
    if (k->type != DOP_TYPE_f16 || dop_node_at(g, a->src[2])->type != DOP_TYPE_f16)
        return "the cache is not f16";
    if (dim % 8 || t->subgroup == 0 || lanes == 0 || t->subgroup % lanes || 64 % t->subgroup || wg > t->max_workgroup ||
        wg / lanes > 64)
        return "8 values per lane do not make a head a part of a subgroup";
    if (64 * lanes / wg * (q->shape.dim[1].mul / k->shape.dim[1].mul) > 64)
        return "too many query heads share a KV head";
    return NULL;
}

const char *
dop_variant_impossible(dop_variant_id v, const dop_graph *g, const dop_region *r, const dop_target *t)
{
    if (dop_caps_missing(variants[v].caps, t->caps))
        return "the target lacks a capability it needs";
    if (v == DOP_VARIANT_attention_decode)
        return attention_decode_refuses(g, r, t, DOP_ATTENTION_DECODE_WG);
    if (v == DOP_VARIANT_dequant && (r->n_nodes != 1 || dop_node_at(g, r->nodes[0])->op != DOP_OP_dequant))
        return "not a matrix of weights";
    if ((v == DOP_VARIANT_gemv_rows || v == DOP_VARIANT_matmul_rows) && t->subgroup < 8)
        return "subgroups are smaller than 8";
    return dop_is_int8(v) ? dop_int8_refuses(g, r, t) : NULL;
}

static const char *
condition(dop_variant_id v, const dop_graph *g, const dop_region *r, const dop_target *t)
{
    const char *no = dop_variant_impossible(v, g, r, t);
    if (no)
        return no;
    if (dop_is_int8(v) && t->int_dot != DOP_INT_DOT_PREFER)
        return "rounds activations to 8 bits, only when asked for";
    if ((v == DOP_VARIANT_gemv_rows_i8 || v == DOP_VARIANT_gemv_rows || v == DOP_VARIANT_matmul_rows ||
         v == DOP_VARIANT_attention_rows) &&
        !t->cpu)
        return "meant for CPU devices";
    if ((v == DOP_VARIANT_gemv_subgroup || v == DOP_VARIANT_gemv_subgroup_i8 || v == DOP_VARIANT_attention_decode) &&
        t->cpu)
        return "sums across lanes are slow on CPU devices";
    if (v == DOP_VARIANT_attention_coop) {
        const dop_node *a = dop_node_at(g, r->info->attention);
        if (g->max_t < 16 || a->op != DOP_OP_attention)
            return "fewer than 16 tokens";
        if (dop_node_at(g, a->src[1])->type != DOP_TYPE_f16 || dop_node_at(g, a->src[2])->type != DOP_TYPE_f16)
            return "the cache is not f16";
        if (dop_node_at(g, a->src[0])->shape.dim[2].mul % 16 || dop_node_at(g, a->src[0])->shape.dim[2].mul > 256)
            return "the head is no multiple of 16 values, or longer than 256";
        if (dop_node_at(g, a->src[0])->shape.dim[1].mul / dop_node_at(g, a->src[1])->shape.dim[1].mul >
            dop_matrix_m(t->matrix))
            return "more query heads share a KV head than a matrix has rows";
    }
    if (v == DOP_VARIANT_matmul_coop) {
        uint32_t rows;
        if (dop_node_cols(g, first_matmul(g, r, &rows)->src[0]) % 8)
            return "rows are not a multiple of 8 values";
        if (g->max_t < 16)
            return "fewer than 16 tokens";
    }
    return NULL;
}

static uint32_t
pow2_floor(uint32_t v)
{
    uint32_t p = 1;
    while (p * 2 <= v)
        p *= 2;
    return p;
}

/* CPU devices: one subgroup is a workgroup; blocks of rows by tokens as large as the code they unroll into may be. */
static void
tile_rows(const dop_graph *g, const dop_region *r, const dop_target *t, bool gemv, dop_tile *tile)
{
    uint32_t rows, unit = 8, mats = r->info->most_mats, k = dop_node_cols(g, first_matmul(g, r, &rows)->src[0]);
    for (uint32_t i = 0; i < r->info->n_products; i++) {
        const dop_node *n = dop_node_at(g, r->info->products[i]);
        const dop_weight_type *w = dop_weight_type_of(dop_node_at(g, n->src[1])->type);
        unit = w && w->unit > unit ? w->unit : unit;
    }
    uint64_t products = (uint64_t)rows * k;
    bool small = products < (1 << 19); /* compiling takes longer than running: less code */
    tile->wg = t->subgroup;
    /* What is unrolled: rows by matrices by tokens by the values of a step. */
    tile->bm = gemv ? 1 : small || g->max_t <= 4 ? 4 : 8;
    tile->bk = unit > 8 || !small ? 32 : 16;
    tile->rows = small ? 2 : mats > 1 ? 2 : 4;
    while (tile->rows > 1 && rows < tile->rows * t->subgroup * t->cores * 2)
        tile->rows /= 2;
    /* A workgroup makes its activations itself, so it should have a quarter of a million products to do, and every core
     * as many workgroups as the next: the driver shares them out beforehand.  Blocks of tokens are workgroups too. */
    uint64_t loops = (products * tile->bm) >> 18, most = t->cores * 8 / dop_div_up_u32(gemv ? 1 : g->max_t, tile->bm);
    loops = loops > most ? most : loops;
    tile->loops = loops < t->cores ? t->cores : pow2_floor((uint32_t)loops);
}

/* Float weights are read as they are: as many lanes on a row as there are invocations in one wave, so that much is in
 * flight, the prologue is paid once and no workgroup waits for room.  What does not fit a wave streams: a subgroup a row.
 * Where large workgroups share out evenly over the multiprocessors, they are better: one load of the activation serves
 * more rows. */
static void
tile_gemv_float(const dop_target *t, uint32_t teams, uint32_t units, uint32_t sg, bool paired, dop_tile *tile)
{
    uint32_t wave = t->cores * 1152, large = dop_div_up_u32(teams, 512 / sg);
    tile->lanes = sg;
    if (!paired && !t->cpu && t->max_workgroup >= 512 && large * 20 >= dop_div_up_u32(large, t->cores) * t->cores * 17)
        tile->wg = 512;
    else if (teams * 16 <= wave)
        for (tile->lanes = 16; tile->lanes < 128 && tile->lanes * 2 <= units && teams * tile->lanes * 2 <= wave;)
            tile->lanes *= 2;
    /* Four loads of 16 bytes in flight per lane hide their latency; eight cost registers. */
    tile->unroll = tile->lanes >= 128 ? 2 : 4;
}

/* Blocks are decoded: half as many invocations, which hold more, and rows that share a load of the activation.  It lies
 * in shared memory: where it is long, large workgroups stage it less often, as long as every multiprocessor has one. */
static void
tile_gemv_quant(const dop_target *t, uint32_t teams, uint32_t k, uint32_t sg, dop_tile *tile)
{
    uint32_t wave = t->cores * 512;
    tile->lanes = sg;
    tile->unroll = 1;
    if (teams * sg > wave)
        tile->rows = 2;
    if (teams / tile->rows * sg > wave && sg > 16)
        tile->lanes = 16;
    if (t->cpu || t->max_workgroup < 512 || (tile->rows == 2 && k < 4096))
        return;
    tile->wg = 512;
    while (teams / (tile->wg / tile->lanes * tile->rows) < t->cores * 7 / 8 && tile->wg > 256 && k < 4096)
        tile->wg /= 2;
    while (teams / (tile->wg / tile->lanes * tile->rows) < t->cores * 7 / 8 && tile->lanes < 128 && k >= 4096)
        tile->lanes *= 2;
}

static void
tile_gemv(const dop_graph *g, const dop_region *r, const dop_target *t, dop_tile *tile)
{
    uint32_t rows, k;
    const dop_node *mm = first_matmul(g, r, &rows);
    k = dop_node_cols(g, mm->src[0]);
    uint32_t sg = tile->subgroup && t->subgroup > 1 ? t->subgroup : 32;
    const dop_weight_type *wt = dop_weight_type_of(dop_node_at(g, mm->src[1])->type);
    uint32_t units = k / (wt ? wt->unit : 8); /* loads along a row */
    uint32_t teams = rows / r->info->most_mats;
    tile->wg = 256 <= t->max_workgroup ? 256 : pow2_floor(t->max_workgroup);
    tile->rows = 1;
    tile->stage = 1;
    if (dop_type_of(dop_node_at(g, mm->src[1])->type)->kind == DOP_KIND_QUANT)
        tile_gemv_quant(t, teams, k, sg, tile);
    else
        tile_gemv_float(t, teams, units, sg, teams < rows, tile);
    while (tile->lanes > 4 && tile->lanes > units)
        tile->lanes /= 2;
    while (tile->unroll > 1 && tile->lanes * (tile->unroll / 2) >= units)
        tile->unroll /= 2;
}

/* A tile on matrix units: tokens, rows, depth, and the part of it that a subgroup owns. */
typedef struct coop_shape {
    uint32_t bm, bn, bk, wm, wn;
    uint32_t busy; /* percent of the multiprocessors that must have a tile; large tiles make up for idle neighbours */
    bool quant;    /* for quantized weights only: with more tokens to a tile, weights are decoded less often */
} coop_shape;

/* By measurement on an H200 (tests/bench/RESULTS.md), the best first. */
static const coop_shape coop_shapes[] = {
    {256, 64, 64, 64, 32, 90, true},  {128, 128, 64, 64, 32, 70, false}, {128, 64, 64, 32, 32, 50, false},
    {64, 64, 128, 32, 16, 50, false}, {64, 32, 64, 16, 16, 100, false},  {32, 32, 64, 16, 16, 0, false},
};

/* Does the shape fit the target once the subgroups' parts are as small as its registers want them? */
static bool
coop_tile(const coop_shape *s, uint32_t mats, const dop_target *t, dop_tile *tile)
{
    tile->bm = s->bm;
    tile->bn = s->bn;
    tile->bk = s->bk;
    tile->tm = s->wm;
    tile->tn = s->wn;
    /* Narrow subgroups: sums may take half the registers of an invocation. */
    while (tile->tm > dop_matrix_m(t->matrix) && mats * tile->tm * tile->tn > t->subgroup * (t->registers / 2))
        tile->tm /= 2;
    tile->wg = tile->bm / tile->tm * (tile->bn / tile->tn) * t->subgroup;
    return tile->wg <= t->max_workgroup &&
           dop_coop_shared_bytes(tile, mats, t) + tile->wg / t->subgroup * 4 <= t->shared_bytes;
}

/* Matrix units: the largest tile that still gives the multiprocessors work, several matrices per part counted.  Few tokens
 * may leave most of a tile empty: what counts for them is how many workgroups decode the weights. */
static void
tile_coop(const dop_graph *g, const dop_region *r, const dop_target *t, dop_tile *tile)
{
    uint32_t rows, mats = r->info->most_mats;
    const dop_node *mm = first_matmul(g, r, &rows);
    bool quant = dop_type_of(dop_node_at(g, mm->src[1])->type)->kind == DOP_KIND_QUANT;
    for (size_t i = 0; i < sizeof coop_shapes / sizeof *coop_shapes; i++) {
        const coop_shape *s = &coop_shapes[i];
        bool last = i + 1 == sizeof coop_shapes / sizeof *coop_shapes;
        /* Paired matrices (gate and up) double the weights' share of shared memory and registers. */
        bool suits =
            g->max_t * (s->quant ? 1 : 4) >= s->bm && (mats == 1 || s->bn * s->bm < 128 * 128) && (quant || !s->quant);
        uint32_t tiles = dop_div_up_u32(g->max_t, s->bm) * dop_div_up_u32(rows / mats, s->bn);
        if (last || (suits && tiles * 100 >= t->cores * s->busy))
            if (coop_tile(s, mats, t, tile) || last)
                return;
    }
}

static void
tile_matmul(const dop_graph *g, const dop_region *r, const dop_target *t, dop_tile *tile)
{
    uint32_t rows;
    (void)first_matmul(g, r, &rows);
    tile->bm = g->max_t >= 64 ? 64 : g->max_t >= 32 ? 32 : g->max_t >= 16 ? 16 : 8;
    tile->bn = 64;
    tile->bk = 32;
    /* Activations, two weight tiles (gate and up), and a quarter more for statistics and sums. */
    while ((tile->bm + 2 * tile->bn + 3) * tile->bk * 4 > t->shared_bytes / 5 * 4 && (tile->bn > 32 || tile->bm > 8)) {
        if (tile->bn > 32)
            tile->bn /= 2;
        else
            tile->bm /= 2;
    }
    tile->tm = tile->bm >= 32 ? 4 : 2;
    tile->tn = 4;
    tile->wg = tile->bm / tile->tm * (tile->bn / tile->tn);
    while (tile->wg > t->max_workgroup) {
        tile->tm *= 2;
        tile->wg /= 2;
    }
}

/* Eight values for each invocation, so that stores are 16 bytes wide side by side; CPU devices take whole units, whose
 * scales are then loaded once, in few workgroups. */
static void
tile_dequant(const dop_graph *g, const dop_region *r, const dop_target *t, dop_tile *tile)
{
    const dop_weight_type *wt = dop_weight_type_of(dop_node_at(g, dop_node_at(g, r->nodes[0])->src[0])->type);
    uint32_t cols = dop_node_cols(g, r->nodes[0]);
    tile->bk = t->cpu && wt && cols % wt->unit == 0 ? wt->unit : 8;
    uint64_t each = (uint64_t)dop_node_at(g, r->nodes[0])->shape.dim[0].mul * cols / (tile->bk * tile->wg) + 1;
    uint64_t most = t->cpu ? 4 * t->cores : 32768; /* below any device's limit */
    tile->loops = (uint32_t)(each < most ? each : most);
}

/* One matrix of rows for each subgroup, as many subgroups as the queries leave room for. */
static void
tile_attention_coop(const dop_graph *g, const dop_region *r, const dop_target *t, dop_tile *tile)
{
    const dop_node *a = dop_node_at(g, r->info->attention);
    const dop_shape *q = &dop_node_at(g, a->src[0])->shape;
    uint32_t dim = q->dim[2].mul, group = q->dim[1].mul / dop_node_at(g, a->src[1])->shape.dim[1].mul;
    uint32_t teams = dim <= 128 ? 4 : 2, rows = dop_matrix_m(t->matrix);
    /* Small models: more, smaller workgroups. */
    while (teams > 1 && dop_div_up_u32(g->max_t * q->dim[1].mul, teams * rows) < 2 * t->cores)
        teams /= 2;
    tile->wg = teams * t->subgroup;
    tile->bq = teams * rows / group;
    if (tile->bq == 0)
        tile->bq = 1;
}

static void
tile_attention(const dop_graph *g, const dop_region *r, const dop_target *t, dop_tile *tile)
{
    const dop_node *a = dop_node_at(g, r->info->attention);
    const dop_node *q = dop_node_at(g, a->src[0]), *k = dop_node_at(g, a->src[1]);
    uint32_t dim = q->shape.dim[2].mul, group = q->shape.dim[1].mul / k->shape.dim[1].mul;
    tile->wg = 128;
    while (tile->wg < dim / 4 && tile->wg < t->max_workgroup)
        tile->wg *= 2;
    /* One token: 64 positions at once, which is the shortest split, by as many invocations as fit. */
    if (g->max_t == 1 && tile->subgroup && !t->cpu) {
        tile->wg = dim <= 64 ? 128 : 256;
        while (tile->wg > t->max_workgroup)
            tile->wg /= 2;
        tile->ds = tile->wg / 64;
    }
    tile->bq = group >= 16 ? 1 : 16 / group;
    if (tile->bq > g->max_t)
        tile->bq = g->max_t;
    /* queries, scores and the final sums share the workgroup's memory */
    while (tile->bq > 1 &&
           (group * tile->bq * (dim + tile->wg + tile->wg / 8) + tile->wg * 6) * 4 > t->shared_bytes / 4 * 3)
        tile->bq /= 2;
}

dop_status
dop_kernel_select(const dop_graph *g, const dop_region *r, const dop_target *target, const char *forced, dop_diag *diag,
                  dop_choice *out_choice)
{
    dop_choice *c = out_choice;
    size_t used = 0;
    memset(c, 0, sizeof *c);
    char possible[256] = "", rejected[448] = "";
    for (int i = 1; i < DOP_VARIANT_COUNT; i++) {
        dop_variant_id v = (dop_variant_id)i;
        if (variants[i].tpl != r->tpl)
            continue;
        const char *no = condition(v, g, r, target);
        bool named = forced && strcmp(forced, variants[i].name) == 0, can = !dop_variant_impossible(v, g, r, target);
        if (can)
            snprintf(possible + strlen(possible), sizeof possible - strlen(possible), "%s%s", *possible ? ", " : "",
                     variants[i].name);
        if (no && !named && used < sizeof rejected)
            used += (size_t)snprintf(rejected + used, sizeof rejected - used, "; not %s: %s", variants[i].name, no);
        if (!c->variant && (forced ? named && can : !no))
            c->variant = v;
    }
    if (!c->variant)
        return DOP_FAIL(diag, DOP_E_INPUT, "no kernel %s%sfor %s on target %s; possible: %s", forced ? forced : "",
                        forced ? " " : "", dop_template_name(r->tpl), target->name, *possible ? possible : "none");
    snprintf(c->why, sizeof c->why, "%s%s%s", forced ? "asked for" : variants[c->variant].when, "", rejected);
    c->tile.wg = 256 <= target->max_workgroup ? 256 : pow2_floor(target->max_workgroup);
    c->tile.subgroup = (variants[c->variant].caps & DOP_CAP_subgroup) != 0;
    switch (r->tpl) {
    case DOP_TPL_gemv:
        if (c->variant == DOP_VARIANT_gemv_rows || c->variant == DOP_VARIANT_gemv_rows_i8)
            tile_rows(g, r, target, true, &c->tile);
        else
            tile_gemv(g, r, target, &c->tile);
        break;
    case DOP_TPL_matmul:
        if (c->variant == DOP_VARIANT_matmul_coop)
            tile_coop(g, r, target, &c->tile);
        else if (c->variant == DOP_VARIANT_matmul_rows)
            tile_rows(g, r, target, false, &c->tile);
        else
            tile_matmul(g, r, target, &c->tile);
        break;
    case DOP_TPL_attention:
        if (c->variant == DOP_VARIANT_attention_coop)
            tile_attention_coop(g, r, target, &c->tile);
        else
            tile_attention(g, r, target, &c->tile);
        if (c->variant == DOP_VARIANT_attention_rows)
            c->tile.wg = target->subgroup;
        if (c->variant == DOP_VARIANT_attention_decode) {
            c->tile.wg = DOP_ATTENTION_DECODE_WG;
            c->tile.bq = 1;
        }
        break;
    case DOP_TPL_row: {
        dop_unit u = dop_node_unit(
            g, dop_node_at(g, r->outs[0])->op == DOP_OP_state_write ? dop_node_at(g, r->outs[0])->src[1] : r->outs[0]);
        while (c->tile.wg > 32 && c->tile.wg * 4 > u.len)
            c->tile.wg /= 2;
        /* Sums over a single subgroup need no barriers, which are dear on CPU devices. */
        if (target->cpu && c->tile.subgroup)
            c->tile.wg = target->subgroup;
        break;
    }
    case DOP_TPL_elementwise:
        if (c->variant == DOP_VARIANT_dequant)
            tile_dequant(g, r, target, &c->tile);
        else
            c->tile.wg = 64;
        break;
    default:
        break;
    }
    return DOP_OK;
}

/* Workgroups that all the matrices of a region take when each walks over `loops` sets of rows. */
static uint32_t
count_stage_groups(const dop_graph *g, const dop_region *r, uint32_t products, uint32_t rows_each)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < r->info->n_products; i += products)
        n += dop_div_up_u32(dop_node_cols(g, r->info->products[i]), rows_each);
    return n;
}

/* One workgroup per core, which walks over its share of the rows: as many lanes on a row as make that share even, and
 * few steps.  Four steps in flight, since few invocations are there to hide latency; lanes on floats read whole 256 bytes
 * of a row. */
static void
tile_stage(const dop_graph *g, const dop_region *r, const dop_target *t, dop_tile *tile)
{
    uint32_t rows, products = r->info->most_mats, best = UINT32_MAX;
    const dop_node *mm = first_matmul(g, r, &rows);
    const dop_weight_type *wt = dop_weight_type_of(dop_node_at(g, mm->src[1])->type);
    bool quant = dop_type_of(dop_node_at(g, mm->src[1])->type)->kind == DOP_KIND_QUANT;
    uint32_t units = dop_div_up_u32(dop_node_cols(g, mm->src[0]), wt ? wt->unit : 8), steps = 1;
    *tile = (dop_tile){.wg = t->persistent, .rows = 1, .stage = 1, .subgroup = true};
    uint32_t least = quant ? 4 : 16;
    for (uint32_t lanes = least; lanes <= tile->wg && (lanes == least || lanes <= units); lanes *= 2) {
        uint32_t per = tile->wg / lanes, loops = 1;
        /* Each matrix has workgroups of its own. */
        while (loops * per < rows && count_stage_groups(g, r, products, per * loops) > t->cores)
            loops++;
        /* What a set of rows costs besides its steps is half a step of blocks, or one of floats; half where a row is one
         * batch of loads, since then one set is summed up while the next is on its way. */
        uint32_t n = dop_div_up_u32(units, lanes), cost = loops * (2 * n + (quant || (loops > 1 && n == 4) ? 1 : 2));
        if (cost > best)
            continue;
        best = cost;
        steps = n;
        tile->lanes = lanes;
        tile->loops = loops;
    }
    tile->unroll = steps >= 4 ? 4 : steps >= 2 ? 2 : 1;
    if (quant && products > 1 && tile->unroll > 2)
        tile->unroll = 2;
}

/* Few KV heads: their query heads are shared out as long as about every workgroup has one of `splits` parts. */
static uint32_t
stage_sharers(const dop_graph *g, const dop_region *r, const dop_target *t, uint32_t splits)
{
    const dop_node *a = dop_node_at(g, r->info->attention);
    uint32_t kv = dop_node_at(g, a->src[1])->shape.dim[1].mul, group = dop_node_at(g, a->src[0])->shape.dim[1].mul / kv;
    return kv * group * splits * 8 <= t->cores * 9 ? group : 1;
}

static uint32_t
count_splits(const dop_graph *g, const dop_region *r)
{
    dop_node_id id = r->info->attention;
    return dop_node_at(g, id)->op == DOP_OP_attn_split ? (uint32_t)dop_node_i(g, id, DOP_A_splits) : 1;
}

/* Into how many parts a cache is cut while query heads are shared out that later are not; 0: that is not so. */
static uint32_t
short_splits(const dop_graph *g, const dop_region *r, const dop_target *t)
{
    uint32_t splits = count_splits(g, r);
    if (stage_sharers(g, r, t, splits) > 1)
        return 0;
    while (splits > 1 && stage_sharers(g, r, t, splits) == 1)
        splits /= 2;
    return stage_sharers(g, r, t, splits) > 1 ? splits : 0;
}

const char *
dop_kernel_select_stage(const dop_graph *g, const dop_region *r, const dop_target *target, const dop_choice *own,
                        dop_choice *out_choice)
{
    dop_choice *c = out_choice;
    *c = *own;
    if (own->variant == DOP_VARIANT_gemv_subgroup || own->variant == DOP_VARIANT_gemv_subgroup_i8) {
        tile_stage(g, r, target, &c->tile);
        return NULL;
    }
    if (r->tpl != DOP_TPL_attention || (variants[DOP_VARIANT_attention_decode].caps & ~target->caps))
        return "a region is neither products of one token nor attention";
    c->variant = DOP_VARIANT_attention_decode;
    c->tile = (dop_tile){.wg = target->persistent,
                         .bq = 1,
                         .subgroup = true,
                         .sharers = stage_sharers(g, r, target, count_splits(g, r))};
    /* Long caches: where 64 positions are one row for each invocation, twice as many at a time need half the barriers. */
    uint32_t dim = dop_node_at(g, dop_node_at(g, r->info->attention)->src[0])->shape.dim[2].mul;
    if (short_splits(g, r, target) > 1 && target->persistent * 8 == dim * 64)
        c->tile.positions = 128;
    return attention_decode_refuses(g, r, target, target->persistent);
}

uint32_t
dop_kernel_select_short(const dop_graph *g, const dop_region *r, const dop_target *target, const dop_choice *stage,
                        dop_choice *out_choice)
{
    dop_choice *c = out_choice;
    *c = *stage;
    uint32_t splits = stage->variant == DOP_VARIANT_attention_decode ? short_splits(g, r, target) : 0;
    if (splits < 2)
        return 0;
    c->tile.splits = splits;
    c->tile.sharers = stage_sharers(g, r, target, splits);
    c->tile.positions = 0;
    return splits * DOP_STAGE_WHOLE;
}
