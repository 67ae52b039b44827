/* Tiles of products on matrix units (gen_matmul_coop.c), and split-K for tiles that would leave multiprocessors
 * idle. */
#include "kernels/gen/legal.h"
#include "kernels/gen/products.h"
#include "kernels/product/gen_coop.h"
#include "kernels/row/gen_group.h"

#include "ir/graph/access.h"

/* Returns the throughput of register-direct tiles with weights of a type (dop_direct_type), in percent; 0: the type cannot be
 * register-direct. */
static uint32_t
direct_percent(const dop_target *t, dop_type type, uint32_t mats)
{
    const dop_schedule_numbers *n = &t->schedule;
    for (uint32_t i = 0; i < n->n_coop_direct; i++)
        if (n->coop_direct[i].type == (uint32_t)type)
            return mats > 1 ? n->coop_direct[i].two : n->coop_direct[i].one;
    return 0;
}

/* Returns the target's row for a weight type that is loaded in units (dop_unit_type); all 0 if it is not. */
static dop_unit_type
units_of(const dop_target *t, dop_type type)
{
    const dop_schedule_numbers *n = &t->schedule;
    for (uint32_t i = 0; i < n->n_coop_units; i++)
        if (n->coop_units[i].type == (uint32_t)type)
            return n->coop_units[i];
    return (dop_unit_type){0};
}

uint32_t
dop_coop_sums_bytes(const dop_tile *tile, uint32_t n_mats, const dop_target *t, uint32_t side)
{
    return n_mats * (tile->wg / t->subgroup) * dop_matrix_m(t->matrix) * (side * dop_matrix_n(t->matrix) + 4) * 4;
}

/* Returns the bytes of shared memory of a tile. It holds activations and, unless weights are register-direct, a tile of each
 * of n_mats matrices. Rows are padded by 8 halves against bank conflicts; activations of register-direct tiles are stored as
 * two halves of the depth. The epilogue reuses the memory for at least one fragment of sums per subgroup and matrix, with
 * rows padded by 4 floats. */
uint32_t
dop_coop_tile_bytes(const dop_tile *tile, uint32_t n_mats, const dop_target *t)
{
    const uint32_t past = tile->bm * (tile->bk + 16) * 2, both = (tile->bm + n_mats * tile->bn) * (tile->bk + 8) * 2,
                   factors = tile->direct ? past : both, sums = dop_coop_sums_bytes(tile, n_mats, t, 1);
    return factors > sums ? factors : sums;
}

dop_stored_rows
dop_coop_stored(const dop_graph *g, const dop_region *r)
{
    dop_stored_rows rows = {.type = DOP_TYPE_COUNT};
    dop_node_id id = dop_node_base(g, r->info->product.act, &rows.start);
    uint32_t cols = dop_blocks_of(g, r).by_pair ? r->info->product.depth : dop_node_cols(g, id);
    if (dop_region_has(r, id) && dop_node_at(g, id)->op == DOP_OP_unfold && rows.start == 0) {
        const dop_node_id source = dop_node_at(g, id)->src[0];
        const dop_unfold u = dop_unfold_of(g, id);
        rows.windows = id;
        id = dop_node_base(g, source, &rows.start);
        if (dop_node_cols(g, source) % 8 || u.width * u.up > UINT16_MAX || u.height * u.up > UINT16_MAX)
            return rows; /* positions are stored as 16 bits */
        cols = dop_node_cols(g, id);
    }
    const dop_type type = dop_node_at(g, id)->type;
    rows.id = id;
    rows.cols = cols;
    if (!dop_region_has(r, id) && rows.start % 8 == 0 && cols % 8 == 0 &&
        (type == DOP_TYPE_f16 || type == DOP_TYPE_f32))
        rows.type = type;
    return rows;
}

uint32_t
dop_coop_window_bytes(const dop_graph *g, const dop_region *r, const dop_tile *tile)
{
    const dop_stored_rows rows = dop_coop_stored(g, r);
    return rows.type < DOP_TYPE_COUNT && rows.windows ? tile->bm * 8 : 0;
}

bool
dop_coop_fits_shared(const dop_site *s, const dop_tile *tile, uint32_t n_mats)
{
    return dop_coop_tile_bytes(tile, n_mats, s->t) + dop_coop_window_bytes(s->g, s->r, tile) +
               dop_coop_book_bytes(s->g, s->r, tile) + tile->wg / s->t->subgroup * 4 <=
           s->t->shared_bytes;
}

/* Sets the tile from a shape. Returns true if it fits the target, with subgroup tiles reduced to fit in registers. */
static bool
coop_tile(const dop_coop_shape *x, uint32_t mats, const dop_site *s, dop_tile *tile)
{
    const dop_target *t = s->t;
    tile->bm = x->bm;
    tile->bn = x->bn;
    tile->bk = x->bk;
    tile->tm = x->wm < dop_matrix_m(t->matrix) ? dop_matrix_m(t->matrix) : x->wm;
    tile->tn = x->wn < dop_matrix_n(t->matrix) ? dop_matrix_n(t->matrix) : x->wn;
    tile->direct = x->kind >= DOP_SHAPE_DIRECT;
    const bool large = x->kind >= DOP_SHAPE_SOONER; /* sums may need more than half of the registers */
    if (large && !tile->direct && mats * tile->tm * tile->tn * 7 > t->subgroup * t->registers * 4)
        return false;
    /* With narrow subgroups, sums may need half the registers of an invocation. */
    while (!large && tile->tm > dop_matrix_m(t->matrix) &&
           mats * tile->tm * tile->tn > t->subgroup * (t->registers / 2))
        tile->tm /= 2;
    tile->wg = tile->bm / tile->tm * (tile->bn / tile->tn) * t->subgroup;
    return tile->wg <= t->max_workgroup && dop_coop_fits_shared(s, tile, mats);
}

/* True if the parts can be joined, so that tiles walk over the rows of all parts as if of one matrix. Their products may
 * differ only in the matrix. */
static bool
can_join(const dop_site *s)
{
    const dop_product_facts *a = &s->r->info->product;
    const dop_segment *first = a->parts;
    for (uint32_t i = 0; i < a->n_parts; i++) {
        const dop_segment *part = &a->parts[i];
        if (part->n_mats != 1 || part->rows == 0 || part->act != first->act)
            return false;
        const dop_node_id w = dop_node_at(s->g, part->mats[0])->src[1], w0 = dop_node_at(s->g, first->mats[0])->src[1];
        if (dop_node_at(s->g, w)->type != dop_node_at(s->g, w0)->type || dop_node_at(s->g, w)->shape.rank != 2 ||
            dop_row_values(s->g, w) != dop_row_values(s->g, w0))
            return false;
    }
    return a->n_parts > 1 && a->n_awaited == 0;
}

/* Returns the number of columns of tiles with bn weight rows each: of all parts as one matrix (joined), or summed over the
 * parts. */
static uint32_t
columns_of(const dop_site *s, uint32_t bn, bool joined)
{
    const dop_product_facts *a = &s->r->info->product;
    uint32_t rows = 0, columns = 0;
    for (uint32_t i = 0; i < a->n_parts; i++) {
        rows += a->parts[i].rows;
        columns += dop_div_up_u32(a->parts[i].rows, bn);
    }
    return joined ? dop_div_up_u32(rows, bn) : columns;
}

/* A division of a shape's tiles among workgroups (split-K, joined parts), and the time until the last workgroup ends, in
 * steps of the depth. */
typedef struct coop_division {
    bool joined;
    uint32_t shares, undivided; /* as in dop_tile */
    uint64_t time;
} coop_division;

/* True if workgroups may share the depth of tiles (split-K). A multiprocessor must have room for only one tile, because
 * smaller workgroups fill the last wave anyway. Tiles must be nearly full of tokens, because small batches have other tiles.
 * The counters must not be in use for waits. */
static bool
can_share(const dop_coop_shape *x, const dop_site *s, const dop_products *p)
{
    return s->t->merges && s->r->info->product.n_awaited == 0 &&
           s->g->max_t * 4 >= dop_div_up_u32(s->g->max_t, x->bm) * x->bm * 3 && x->bm * x->bn * p->most >= 128 * 128 &&
           dop_matrix_m(s->t->matrix) * dop_matrix_n(s->t->matrix) / s->t->subgroup % 4 == 0;
}

/* Chooses split-K to reduce wave quantization. Tiles of whole waves have one workgroup each. The remaining tiles would leave
 * some multiprocessors idle, so several workgroups share the depth of each of them if that ends sooner. The time consists of
 * the overhead per workgroup, of the merge, and of each share. Quantized weights take an eighth more if the depth loop's
 * bounds are not constants, or if register-direct tiles are joined. Shares of a small depth lose if they need several waves.
 * Register-direct tiles have more sums, so their overheads are larger (schedule numbers *_direct); they are not used for
 * small depths (can_be_direct). */
static void
divide_depth(const dop_coop_shape *x, const dop_site *s, const dop_products *p, coop_division *d)
{
    const dop_schedule_numbers *in = &s->t->schedule;
    const uint32_t cores = s->t->cores, across = dop_div_up_u32(s->g->max_t, x->bm),
                   columns = columns_of(s, x->bn, d->joined), whole = across * columns / cores * cores / across,
                   rest = (columns - whole) * across, waves = dop_div_up_u32(whole * across, cores),
                   idle = waves * cores - whole * across; /* in the last whole wave */
    const bool quant = dop_type_of(p->type)->kind == DOP_KIND_QUANT, direct = x->kind >= DOP_SHAPE_DIRECT;
    const uint32_t begin = direct ? in->tile_begin_direct : in->tile_begin;
    d->shares = 0;
    d->undivided = 0;
    d->time = (uint64_t)dop_div_up_u32(across * columns, cores) * (p->k + begin);
    d->time += direct && d->joined && quant ? d->time / 8 : 0;
    if (rest == 0 || rest > DOP_COUNTS_MOST || !can_share(x, s, p) || (direct && d->joined))
        return;
    for (uint32_t n = 2; n <= in->split_k_most && n <= dop_div_up_u32(p->k, x->bk); n++) {
        const uint32_t left = rest > idle ? (rest - idle) * n : 0;
        if (left > cores && p->k / n < in->split_k_shallow)
            continue;
        const uint64_t meet =
            (in->split_k_meet + (uint64_t)n * in->split_k_meet_each) * (direct ? in->split_k_meet_direct : 100) / 100;
        uint64_t time =
            (uint64_t)waves * (p->k + begin) + meet + (uint64_t)dop_div_up_u32(left, cores) * (p->k / n + begin);
        time += quant ? time / 8 : 0;
        if (time >= d->time)
            continue;
        d->shares = n;
        d->undivided = whole;
        d->time = time;
    }
}

/* Returns the better division: parts are joined if this ends sooner, at the cost of looking up addresses and epilogues by
 * row. Parts of register-direct tiles are always joined, because their loop is too long to be repeated per part. */
static coop_division
division_of(const dop_coop_shape *x, const dop_site *s, const dop_products *p)
{
    coop_division apart = {.joined = false}, joined = {.joined = true};
    if (x->kind >= DOP_SHAPE_DIRECT && s->r->info->product.n_parts > 1) {
        divide_depth(x, s, p, &joined);
        return joined;
    }
    divide_depth(x, s, p, &apart);
    if (!can_join(s))
        return apart;
    divide_depth(x, s, p, &joined);
    return joined.time < apart.time ? joined : apart;
}

/* Returns the relative time until the last workgroup ends, for comparing shapes. */
static uint64_t
estimate_shape_time(const dop_coop_shape *x, const dop_site *s, const dop_products *p)
{
    const uint32_t percent = x->kind >= DOP_SHAPE_DIRECT ? direct_percent(s->t, p->type, p->most)
                             : p->most > 1               ? x->two
                                                         : x->one;
    return percent ? division_of(x, s, p).time * x->bm * x->bn / percent : UINT64_MAX;
}

/* True if the shape's weights can be register-direct. Their loads are not bounds-checked, so tiles must divide tokens and
 * depth, and the rows of a subgroup must belong to one part. */
static bool
can_be_direct(const dop_coop_shape *x, const dop_site *s, const dop_products *p)
{
    const dop_product_facts *a = &s->r->info->product;
    uint32_t start = 0;
    const uint64_t rows = dop_node_rows(s->g, dop_node_base(s->g, a->act, &start), s->g->max_t);
    if ((a->n_parts > 1 && !can_join(s)) || rows < s->g->max_t || s->g->max_t % x->bm)
        return false;
    const dop_node_id first = dop_node_at(s->g, a->parts[0].mats[0])->src[1];
    const dop_type type = dop_node_at(s->g, first)->type;
    if (!(s->t->caps & DOP_CAP_coop_khr) || !(s->t->caps & DOP_CAP_coop_pairs) || s->t->subgroup != 32 ||
        s->t->matrix != DOP_MATRIX_SHAPE(16, 16, 16) || direct_percent(s->t, type, p->most) == 0 || p->k % x->bk ||
        p->k < s->t->schedule.split_k_shallow || dop_coop_stored(s->g, s->r).type != DOP_TYPE_f16)
        return false;
    for (uint32_t i = 0; i < a->n_parts; i++)
        for (uint32_t m = 0; m < a->parts[i].n_mats; m++) {
            const dop_node_id w = dop_node_at(s->g, a->parts[i].mats[m])->src[1];
            if (dop_node_at(s->g, w)->type != type || dop_node_at(s->g, w)->shape.rank != 2 ||
                dop_row_values(s->g, w) != dop_row_values(s->g, first) || a->parts[i].rows % x->wn ||
                a->parts[i].rows == 0)
                return false;
        }
    return true;
}

/* True if the shape is meant for the region's weights, tokens and matrices (dop_shape_kind). */
static bool
suits_region(const dop_coop_shape *x, const dop_site *s, const dop_products *p)
{
    const uint32_t max_t = s->g->max_t;
    const dop_unit_type in = units_of(s->t, p->type);
    const bool units = p->most > 1 ? in.two > 0 : in.one > 1;
    const bool quant = dop_type_of(p->type)->kind == DOP_KIND_QUANT;
    /* Paired matrices (gate and up) double the weights' share of shared memory and registers. */
    if (max_t * (x->kind == DOP_SHAPE_QUANT ? 1 : 4) < x->bm ||
        (x->kind < DOP_SHAPE_DIRECT && p->most > 1 && x->bn * x->bm >= 128 * 128))
        return false;
    switch ((dop_shape_kind)x->kind) {
    case DOP_SHAPE_ANY:
        return true;
    case DOP_SHAPE_QUANT:
        return quant && !units;
    case DOP_SHAPE_UNITS:
        return units && p->most > 1;
    case DOP_SHAPE_SOONER:
        return !quant && p->most == 1;
    case DOP_SHAPE_SOONER_UNITS:
        return p->most == 1 && in.one;
    case DOP_SHAPE_SOONER_PAIR:
        return !units && p->most > 1;
    case DOP_SHAPE_DIRECT:
        return p->most == 1 && can_be_direct(x, s, p);
    case DOP_SHAPE_DIRECT_PAIR:
        return p->most == 2 && can_be_direct(x, s, p);
    }
    return false;
}

/* Chooses the tile: the first (largest) shape that still occupies the multiprocessors, counting the matrices of all parts, or
 * a shape whose waves end sooner. Few tokens may leave most of a tile empty; then the number of workgroups that decode the
 * weights decides. */
void
dop_coop_choose_tile(const dop_site *s, dop_tile *tile)
{
    const dop_target *t = s->t;
    const dop_products p = dop_products_of(s);
    const dop_coop_shape *const first = t->schedule.coop_tiles, *const last = first + t->schedule.n_coop_tiles - 1,
                                *best = NULL, *x;
    for (x = first; x < last; x++) {
        dop_tile other = *tile;
        if (!suits_region(x, s, &p) || !coop_tile(x, p.most, s, &other))
            continue;
        const uint32_t tiles = dop_div_up_u32(s->g->max_t, x->bm) * dop_div_up_u32(p.rows / p.most, x->bn);
        const bool busy = tiles * 100 >= t->cores * x->busy;
        if (x->kind < DOP_SHAPE_SOONER && busy)
            break;
        if (x->kind < DOP_SHAPE_SOONER || (!busy && division_of(x, s, &p).shares == 0))
            continue; /* the time of split-K tiles accounts for their occupancy */
        if (!best || estimate_shape_time(x, s, &p) < estimate_shape_time(best, s, &p))
            best = x;
    }
    if (!best || estimate_shape_time(best, s, &p) >= estimate_shape_time(x, s, &p))
        best = x;
    coop_tile(best, p.most, s, tile);
    const coop_division d = division_of(best, s, &p);
    tile->joined = d.joined;
    tile->shares = d.shares;
    tile->undivided = d.undivided;
}

/* Clears split-K and register-direct fields, which are chosen only for the shape they belong to. */
void
dop_coop_settle(const dop_site *s, dop_tile *tile)
{
    (void)s;
    *tile = (dop_tile){.wg = tile->wg,
                       .bm = tile->bm,
                       .bn = tile->bn,
                       .bk = tile->bk,
                       .tm = tile->tm,
                       .tn = tile->tn,
                       .joined = tile->joined,
                       .subgroup = tile->subgroup};
}

bool
dop_coop_legal_tile(dop_check *c, uint32_t teams, uint32_t ahead, bool all_units)
{
    const dop_tile *t = c->tile;
    const dop_target *target = c->s->t;
    const uint32_t m = dop_matrix_m(target->matrix), n = dop_matrix_n(target->matrix), k = dop_matrix_k(target->matrix),
                   mats = c->s->r->info->product.most_mats, sg = target->subgroup;
    bool units = false;
    for (uint32_t i = 0; i < c->s->r->info->product.n_mats; i++) {
        const dop_type type = dop_product_type(c->s->g, c->s->r->info->product.mats[i]);
        units =
            units || (dop_type_of(type)->kind == DOP_KIND_QUANT && (all_units || units_of(target, type).type == type));
    }
    uint32_t deep = k * teams;
    while (units && deep % 32) /* weights in units of 32 are loaded whole */
        deep *= 2;
    if (!dop_check_multiple(c, DOP_TILE_NO_tm, m, m, DOP_MOST_SIDE) ||
        !dop_check_multiple(c, DOP_TILE_NO_tn, n, n, DOP_MOST_SIDE) ||
        !dop_check_multiple(c, DOP_TILE_NO_bm, t->tm, t->tm, DOP_MOST_SIDE) ||
        !dop_check_multiple(c, DOP_TILE_NO_bn, t->tn, t->tn, DOP_MOST_SIDE) ||
        !dop_check_multiple(c, DOP_TILE_NO_bk, deep, deep, DOP_MOST_SIDE))
        return false;
    const uint64_t sums = (uint64_t)mats * t->tm * t->tn / sg,
                   steps = (uint64_t)mats * (t->tm / m) * (t->tn / n) * (t->bk / k / teams),
                   pieces = ahead * (dop_div_up_u32(t->bm * t->bk / 8, t->wg) +
                                     dop_div_up_u32(mats * t->bn * t->bk / 8, t->wg));
    dop_check_most(c, DOP_TILE_NO_tm, sums, DOP_MOST_SUMS, "tm x tn (sums of an invocation)");
    dop_check_most(c, DOP_TILE_NO_bk, steps, DOP_MOST_FRAGMENTS, "tm x tn x bk (products of fragments)");
    return dop_check_most(c, DOP_TILE_NO_bk, pieces, DOP_MOST_PIECES,
                          "(bm + bn) x bk (pieces that an invocation loads)");
}

/* Checks split-K, whose tiles need counters, and register-direct weights, which are loaded without bounds checks, 128 values
 * per iteration, by subgroups of 32. */
static void
legal_division(dop_check *c)
{
    const dop_tile *t = c->tile;
    const dop_product_facts *a = &c->s->r->info->product;
    const uint32_t columns = columns_of(c->s, t->bn, t->joined), across = dop_div_up_u32(c->s->g->max_t, t->bm),
                   moved = t->bm * t->bk / 16;
    dop_check_when(c, !t->joined || can_join(c->s), DOP_TILE_NO_joined, "the parts cannot be joined");
    if (t->shares > 1) {
        dop_check_range(c, DOP_TILE_NO_shares, 2, dop_div_up_u32(a->depth, t->bk));
        if (dop_check_range(c, DOP_TILE_NO_undivided, 0, columns - 1))
            dop_check_most(c, DOP_TILE_NO_undivided,
                           (uint64_t)(columns - dop_tile_get(t, DOP_TILE_NO_undivided)) * across, DOP_COUNTS_MOST,
                           "tiles whose depth is shared");
        dop_check_when(c, c->s->t->merges && a->n_awaited == 0, DOP_TILE_NO_shares,
                       "workgroups cannot share the depth here");
    }
    if (!t->direct)
        return;
    dop_check_equal(c, DOP_TILE_NO_bk, 128, "a turn of register-direct weights");
    dop_check_when(c,
                   a->depth % t->bk == 0 && c->s->g->max_t % t->bm == 0 && moved % t->wg == 0 &&
                       moved / t->wg <= t->tm / dop_matrix_m(c->s->t->matrix),
                   DOP_TILE_NO_direct, "register-direct weights need tiles that divide tokens and depth");
}

void
dop_coop_legal(dop_check *c)
{
    const dop_tile *t = c->tile;
    const dop_blocks b = dop_blocks_of(c->s->g, c->s->r);
    if (!dop_coop_legal_tile(c, 1, t->direct ? 0 : 1, false))
        return;
    dop_check_equal(c, DOP_TILE_NO_wg, (uint64_t)(t->bm / t->tm) * (t->bn / t->tn) * c->s->t->subgroup,
                    "a subgroup for each tm x tn of bm x bn");
    if (b.n)
        dop_check_divides(c, DOP_TILE_NO_bm, b.span, "rows of a block");
    else
        legal_division(c);
}

/* Chooses the tile for products by expert: the first shape that fits and has at most as many rows as a block. */
void
dop_coop_choose_tile_at(const dop_site *s, dop_tile *tile)
{
    const uint32_t span = dop_blocks_of(s->g, s->r).span, mats = dop_products_of(s).most;
    const dop_coop_shape *x = s->t->schedule.coop_block_tiles;
    for (uint32_t i = 0; i < s->t->schedule.n_coop_block_tiles; i++)
        if (x[i].bm <= span && coop_tile(&x[i], mats, s, tile))
            return;
}
