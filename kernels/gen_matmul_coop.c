/* Matmul regions of several tokens on matrix units. */
#include "kernels/gen_coop.h"

#include "kernels/weight_types.h"

/* Is a row of activations loaded as it is stored, eight values at a time? */
static bool
as_stored(const dop_gen *gen, const dop_parts *p)
{
    const dop_graph *g = gen->e.g;
    uint32_t start = 0;
    dop_node_id act = dop_node_base(g, p->act, &start);
    dop_type type = dop_node_at(g, act)->type;
    uint32_t cols = dop_blocks_of(g, gen->e.r).by_pair ? p->k : dop_node_cols(g, act);
    return !dop_region_has(gen->e.r, act) && start % 8 == 0 && cols % 8 == 0 &&
           (type == DOP_TYPE_f16 || type == DOP_TYPE_f32);
}

/* For matmul_own_part.glsl (matmul_few_part.glsl became slower without its test, by measurement).  Whatever stored rows past the
 * last token hold, they only reach sums that are not stored.  So it is not worth waiting for the number of tokens, unless the
 * buffer ends before the tile does, or the row is computed from what may name any address. */
static const char *
guard_row(const dop_gen *gen, const dop_parts *p)
{
    const dop_graph *g = gen->e.g;
    uint32_t start = 0;
    const bool whole = dop_node_rows(g, dop_node_base(g, p->act, &start), g->max_t) >= gen->choice->tile.bm;
    return whole && as_stored(gen, p) ? ""
                                      : "    if (t >= dop_tokens)\n"
                                        "        return dop_raw8(uvec4(0u), uvec4(0u));\n";
}

/* Returns an expression that converts r to halves.  A stored row is loaded as it is and converted later. */
static const char *
load_activation(dop_gen *gen, const dop_parts *p, dop_buf *load)
{
    dop_emit *e = &gen->e;
    const dop_graph *g = e->g;
    uint32_t start = 0;
    dop_node_id act = dop_node_base(g, p->act, &start);
    dop_type type = dop_node_at(g, act)->type;
    const dop_blocks b = dop_blocks_of(g, e->r);
    uint32_t cols = b.by_pair ? p->k : dop_node_cols(g, act); /* a row of [T,k,K] is that of a pair */
    dop_coop_guard_column(gen, p, load);
    dop_emit_scope(e, load, "    ");
    if (as_stored(gen, p)) {
        const char *a = dop_emit_arg(e, act, false);
        dop_emit_line(e, "uint at = t * %uu + c + %uu;", cols, start);
        if (type == DOP_TYPE_f16) {
            dop_emit_line(e, "return dop_raw8(C32x4(%s).v[at >> 3], uvec4(0u));", a);
            return "r.a";
        }
        dop_emit_line(e, "return dop_raw8(C32x4(%s).v[at >> 2], C32x4(%s).v[(at >> 2) + 1u]);", a, a);
        return "dop_pack8(uintBitsToFloat(r.a), uintBitsToFloat(r.b))";
    }
    if (b.by_pair) {
        dop_emit_line(e, "uint s = %s;", dop_blocks_column(gen, &b, "t", p->k));
        dop_emit_line(e, "uint row = %s;", dop_blocks_row(gen, &b, "t"));
    }
    const char *t = b.by_pair ? "row" : "t", *c = b.by_pair ? "s" : "c";
    const char *x = dop_emit_value(e, p->act, (dop_index){t, c}, 4);
    const char *y = dop_emit_value(e, p->act, (dop_index){t, dop_emit_str(e, "(%s + 4u)", c)}, 4);
    dop_emit_line(e, "return dop_raw8(dop_pack8(%s, %s), uvec4(0u));", x, y);
    return "r.a";
}

#define STORED_PAIR "dop_pair[wm * WM + i * MM + r]"

/* sum: prefix of the functions that read a sum. */
static void
store_part(dop_gen *gen, const dop_part *part, uint32_t width, const char *sum, dop_buf *store)
{
    dop_emit *e = &gen->e;
    uint32_t n_binds = e->n_binds;
    const dop_blocks b = dop_blocks_of(e->g, e->r);
    if (b.id)
        dop_buf_printf(store, "                    uint s = %s;\n",
                       dop_blocks_column(gen, &b, STORED_PAIR, part->rows));
    dop_emit_scope(e, store, "                    ");
    for (uint32_t m = 0; m < part->n_mats; m++) {
        const char *at = dop_emit_str(e, "(%uu * (WG / SG) + sg) * (MM * LS) + e", m),
                   *name = dop_emit_str(e, "acc%u", m);
        if (width == 4)
            dop_emit_line(e, "vec4 %s = dop_%s4(%s);", name, sum, at);
        else
            dop_emit_line(e, "float %s = dop_%s1(%s);", name, sum, at);
        dop_emit_bind(e, part->mats[m], name, false, NULL);
    }
    dop_index ix = {"t", b.id ? "s" : "c"};
    for (uint32_t i = 0; i < part->n_outs; i++)
        dop_emit_store(e, part->outs[i], ix, width, dop_emit_value(e, part->outs[i], ix, width));
    e->n_binds = n_binds;
}

/* Values of row c of several parts go where the part stores them, under their row there. */
static void
store_tile(dop_gen *gen, const dop_coop_rows *rows, uint32_t width, const char *sum, dop_buf *store)
{
    uint32_t before = 0;
    for (uint32_t i = 0; i < rows->n; i++) {
        const uint32_t end = before + rows->part[i].rows;
        if (i + 1 < rows->n)
            dop_buf_printf(store, "                    %sif (c < %uu) {\n", i > 0 ? "} else " : "", end);
        else if (rows->n > 1)
            dop_buf_puts(store, "                    } else {\n");
        if (before > 0)
            dop_buf_printf(store, "                    c -= %uu;\n", before);
        store_part(gen, &rows->part[i], width, sum, store);
        before = end;
    }
    if (rows->n > 1)
        dop_buf_puts(store, "                    }\n");
}

/* Which row the activations of a piece are of, and where a tile's rows are stored. */
static void
row_keys(dop_gen *gen, dop_keys *keys)
{
    const dop_blocks b = dop_blocks_of(gen->e.g, gen->e.r);
    if (!b.id) {
        dop_keys_set(keys, "LOAD_ROW", "min(t0 + i / (BK / 8u), dop_tokens - 1u)");
        dop_keys_set(keys, "ROW_OF", "t0");
        dop_keys_set(keys, "ROWS", "");
        dop_keys_set(keys, "STORE_ROW", "t0 + wm * WM + i * MM + r");
        return;
    }
    /* Rows without a pair use the activations of another one; they are not stored. */
    const char *pair = "min(dop_pair[(lane + i * WG) / (BK / 8u) % BM], dop_tokens * DOP_SLOTS - 1u)";
    dop_keys_set(keys, "LOAD_ROW", "t0");
    dop_keys_set(keys, "ROW_OF", "row_of[i]");
    dop_keys_set(keys, "ROWS",
                 dop_emit_str(&gen->e,
                              "    uint row_of[NA];\n"
                              "    [[unroll]] for (uint i = 0u; i < NA; i++)\n"
                              "        row_of[i] = %s;\n",
                              b.by_pair ? pair : dop_blocks_row(gen, &b, pair)));
    dop_keys_set(keys, "STORE_ROW", dop_blocks_row(gen, &b, STORED_PAIR));
}

/* How many values side by side, of the same part, can be stored at once. */
static uint32_t
store_width(dop_emit *e, const dop_coop_rows *rows)
{
    uint32_t width = 4;
    for (uint32_t i = 0; i < rows->n; i++) {
        const dop_part *part = &rows->part[i];
        width = part->rows % 4 == 0 ? width : 1;
        for (uint32_t k = 0; k < part->n_outs; k++)
            width = dop_emit_wide(e, part->outs[k]) ? width : 1;
    }
    return width;
}

static dop_status
emit_part(dop_gen *gen, const dop_parts *p, const dop_coop_rows *rows, const dop_coop_form *form, dop_buf *out)
{
    dop_emit *e = &gen->e;
    const dop_part *part = rows->part;
    const dop_tile *tile = &gen->choice->tile;
    dop_keys keys = {0};
    dop_buf load_a = {0}, load_b = {0}, take_b = {0}, store = {0}, find = {0};
    uint32_t width = store_width(e, rows);
    dop_keys_set(&keys, "TAKE_A", load_activation(gen, p, &load_a));
    dop_coop_weights(gen, p, rows, form->in_units(gen, part), &keys, &load_b, &take_b, form->finds ? &find : NULL);
    store_tile(gen, rows, width, form->sum, &store);
    row_keys(gen, &keys);
    dop_keys_num(gen, &keys, "P", (uint32_t)(part - p->part));
    dop_keys_set(&keys, "GUARD_ROW", guard_row(gen, p));
    dop_keys_num(gen, &keys, "M", part->n_mats);
    dop_keys_num(gen, &keys, "N", rows->rows);
    dop_keys_num(gen, &keys, "K", p->k);
    dop_keys_num(gen, &keys, "W", width);
    dop_keys_num(gen, &keys, "FM", tile->tm / dop_matrix_m(e->target->matrix));
    dop_keys_num(gen, &keys, "FN", tile->tn / dop_matrix_n(e->target->matrix));
    dop_keys_set(&keys, "LOAD_A", load_a.data ? load_a.data : "");
    dop_keys_set(&keys, "LOAD_B", load_b.data ? load_b.data : "");
    dop_keys_set(&keys, "TAKE_B", take_b.data ? take_b.data : "");
    dop_keys_set(&keys, "STORE", store.data ? store.data : "");
    dop_status st = e->status == DOP_OK ? dop_template_fill(gen, form->part, &keys, out) : e->status;
    if (st == DOP_OK && form->end)
        st = dop_template_fill(gen, form->end, &keys, out);
    dop_buf_finish(&load_a);
    dop_buf_finish(&load_b);
    dop_buf_finish(&find);
    dop_buf_finish(&take_b);
    dop_buf_finish(&store);
    return st;
}

/* One row of `side` fragments of sums for each subgroup and matrix. */
uint32_t
dop_coop_sums_bytes(const dop_tile *tile, uint32_t n_mats, const dop_target *t, uint32_t side)
{
    return n_mats * (tile->wg / t->subgroup) * dop_matrix_m(t->matrix) * (side * dop_matrix_n(t->matrix) + 4) * 4;
}

/* Bytes of shared memory for a tile of activations and of n_mats matrices, rows padded by 8 halves against bank conflicts;
 * afterwards it holds at least one fragment of sums for each subgroup and matrix, rows padded by 4 floats. */
uint32_t
dop_coop_tile_bytes(const dop_tile *tile, uint32_t n_mats, const dop_target *t)
{
    uint32_t factors = (tile->bm + n_mats * tile->bn) * (tile->bk + 8) * 2,
             sums = dop_coop_sums_bytes(tile, n_mats, t, 1);
    return factors > sums ? factors : sums;
}

/* How many of a subgroup's few fragments in a row fit so many bytes side by side. */
static uint32_t
stored_side_by_side(const dop_tile *tile, uint32_t n_mats, const dop_target *t, uint32_t bytes)
{
    uint32_t row = tile->tn / dop_matrix_n(t->matrix), side = row;
    while (side > 1 && (row % side || dop_coop_sums_bytes(tile, n_mats, t, side) > bytes))
        side--;
    return side;
}

dop_status
dop_coop_emit(dop_gen *gen, const dop_coop_form *form)
{
    dop_emit *e = &gen->e;
    const dop_tile *tile = &gen->choice->tile;
    dop_parts p;
    dop_keys keys = {0};
    dop_buf decls = {0}, begin = {0}, parts = {0}, calls = {0}, types = {0};
    dop_status st = dop_gen_parts(gen, &p);
    if (st != DOP_OK)
        return st;
    uint32_t first = 0, mats = 1;
    const uint32_t together = tile->joined ? p.n : 1;
    for (uint32_t i = 0; st == DOP_OK && i < p.n; i += together) {
        dop_coop_rows rows = {.part = &p.part[i], .n = together};
        for (uint32_t k = 0; k < together; k++)
            rows.rows += p.part[i + k].rows;
        mats = p.part[i].n_mats > mats ? p.part[i].n_mats : mats;
        st = emit_part(gen, &p, &rows, form, &parts);
        const char *call = dop_emit_str(e, "dop_part%u(wg - %uu%s);", i, first, form->call);
        first += dop_div_up_u32(rows.rows, tile->bn);
        dop_gen_call(&calls, call, i + together < p.n ? first : 0);
    }
    gen->halves = true;
    const uint32_t bytes = form->bytes(tile, mats, e->target);
    const dop_blocks b = dop_blocks_of(e->g, e->r);
    if (b.id) {
        dop_blocks_declare(&b, &decls);
        dop_blocks_begin(gen, &b, "gl_WorkGroupID.x", &begin);
    } else {
        dop_buf_puts(&begin, "    uint t0 = gl_WorkGroupID.x * BM; // tiles that share weights run side by side\n"
                             "    if (t0 >= dop_tokens)\n"
                             "        return;\n");
    }
    gen->grid[0] = b.id ? b.n * (b.span / tile->bm) : dop_div_up_u32(e->g->max_t, tile->bm);
    gen->grid[1] = first;
    gen->grid[2] = 1;
    dop_keys_num(gen, &keys, "BM", tile->bm);
    dop_keys_num(gen, &keys, "BN", tile->bn);
    dop_keys_num(gen, &keys, "BK", tile->bk);
    dop_keys_num(gen, &keys, "WM", tile->tm);
    dop_keys_num(gen, &keys, "WN", tile->tn);
    dop_keys_num(gen, &keys, "FJ", stored_side_by_side(tile, mats, e->target, bytes));
    dop_keys_num(gen, &keys, "WORDS", bytes / 16);
    dop_keys_set(&keys, "N_TOKENS", dop_emit_n_tokens(e));
    if (st == DOP_OK)
        st = form->declare(gen, &decls);
    if (st == DOP_OK)
        st = dop_coop_declare_weights(gen, &p, form->in_units, &decls, &types);
    dop_keys_set(&keys, "TYPES", types.data ? types.data : "");
    dop_keys_set(&keys, "DECLS", decls.data ? decls.data : "");
    dop_keys_set(&keys, "BEGIN", begin.data ? begin.data : "");
    dop_keys_set(&keys, "PARTS", parts.data ? parts.data : "");
    dop_keys_set(&keys, "CALLS", calls.data ? calls.data : "");
    if (st == DOP_OK)
        st = e->status == DOP_OK ? dop_template_fill(gen, "matmul_coop.glsl", &keys, &gen->main) : e->status;
    dop_buf_finish(&decls);
    dop_buf_finish(&begin);
    dop_buf_finish(&parts);
    dop_buf_finish(&types);
    dop_buf_finish(&calls);
    return st;
}

/* Shapes for any weights; shapes for quantized ones only, which are decoded less often with more tokens per tile, unless they are
 * loaded in units; shapes for two matrices in units; and shapes used only where waves of such tiles end sooner than those of the
 * first other shape that suits: for one matrix of floats or in units, and for two matrices that are not in units. */
typedef enum shape_kind {
    SHAPE_ANY,
    SHAPE_QUANT,
    SHAPE_UNITS,
    SHAPE_SOONER,
    SHAPE_SOONER_UNITS,
    SHAPE_SOONER_PAIR
} shape_kind;

/* A tile on matrix units: tokens, rows, depth, and the part of it that a subgroup owns. */
typedef struct coop_shape {
    uint32_t bm, bn, bk, wm, wn;
    uint32_t busy;  /* percent of the multiprocessors that must have a tile; large tiles make up for idle ones */
    uint32_t speed; /* percent of the usual shapes' values per time: larger tiles read fewer bytes per product */
    shape_kind kind;
} coop_shape;

/* By measurement on an H200 (tests/bench/RESULTS.md), the best first. */
static const coop_shape coop_shapes[] = {
    {128, 192, 64, 64, 48, 70, 112, SHAPE_SOONER},
    {128, 96, 64, 32, 48, 70, 88, SHAPE_SOONER},
    {128, 192, 64, 64, 32, 70, 112, SHAPE_SOONER_UNITS},
    {128, 96, 64, 32, 48, 70, 112, SHAPE_SOONER_PAIR},
    {256, 64, 64, 64, 32, 90, 100, SHAPE_QUANT},
    {128, 128, 64, 64, 32, 70, 100, SHAPE_ANY},
    {128, 64, 64, 64, 16, 50, 100, SHAPE_UNITS},
    {128, 64, 64, 32, 32, 50, 100, SHAPE_ANY},
    {64, 64, 128, 32, 16, 50, 100, SHAPE_ANY},
    {64, 32, 64, 16, 16, 100, 100, SHAPE_ANY},
    {32, 32, 64, 16, 16, 0, 100, SHAPE_ANY},
};

/* Does the shape fit the target once the subgroups' parts are small enough for its registers? */
static bool
coop_tile(const coop_shape *s, uint32_t mats, const dop_target *t, dop_tile *tile)
{
    tile->bm = s->bm;
    tile->bn = s->bn;
    tile->bk = s->bk;
    tile->tm = s->wm;
    tile->tn = s->wn;
    const bool large = s->kind >= SHAPE_SOONER; /* sums may take more than half of the registers */
    if (large && mats * tile->tm * tile->tn * 7 > t->subgroup * t->registers * 4)
        return false;
    /* Narrow subgroups: sums may take half the registers of an invocation. */
    while (!large && tile->tm > dop_matrix_m(t->matrix) &&
           mats * tile->tm * tile->tn > t->subgroup * (t->registers / 2))
        tile->tm /= 2;
    tile->wg = tile->bm / tile->tm * (tile->bn / tile->tn) * t->subgroup;
    return tile->wg <= t->max_workgroup &&
           dop_coop_tile_bytes(tile, mats, t) + tile->wg / t->subgroup * 4 <= t->shared_bytes;
}

/* Can tiles go through the rows of all parts?  Products may differ only in their matrix. */
static bool
can_join(const dop_site *s)
{
    const dop_analysis *a = s->r->info;
    const dop_part *first = a->parts;
    for (uint32_t i = 0; i < a->n_parts; i++) {
        const dop_part *part = &a->parts[i];
        if (part->n_mats != 1 || part->rows == 0 || part->act != first->act)
            return false;
        const dop_node_id w = dop_node_at(s->g, part->mats[0])->src[1], w0 = dop_node_at(s->g, first->mats[0])->src[1];
        if (dop_node_at(s->g, w)->type != dop_node_at(s->g, w0)->type || dop_node_at(s->g, w)->shape.rank != 2 ||
            dop_row_values(s->g, w) != dop_row_values(s->g, w0))
            return false;
    }
    return a->n_parts > 1;
}

/* Waves of tiles of bm tokens by bn rows, of each part or of all parts together. */
static uint32_t
waves(const dop_site *s, uint32_t bm, uint32_t bn, bool joined)
{
    const dop_analysis *a = s->r->info;
    uint32_t rows = 0, across = 0;
    for (uint32_t i = 0; i < a->n_parts; i++) {
        rows += a->parts[i].rows;
        across += dop_div_up_u32(a->parts[i].rows, bn);
    }
    return dop_div_up_u32(dop_div_up_u32(s->g->max_t, bm) * (joined ? dop_div_up_u32(rows, bn) : across), s->t->cores);
}

/* Tiles go through the rows of all parts where this saves a wave; addresses and ends are then found by row. */
static bool
joins(const dop_site *s, uint32_t bm, uint32_t bn)
{
    return can_join(s) && waves(s, bm, bn, true) < waves(s, bm, bn, false);
}

/* Time until the last wave ends, in some unit: the large tiles of a last wave leave more of the device idle. */
static uint64_t
time_of(const coop_shape *x, const dop_site *s)
{
    return (uint64_t)waves(s, x->bm, x->bn, joins(s, x->bm, x->bn)) * x->bm * x->bn * 10000 / x->speed;
}

/* Is the shape for such weights and so many tokens and matrices? */
static bool
suits(const coop_shape *x, const dop_site *s, const dop_products *p)
{
    const uint32_t max_t = s->g->max_t;
    /* By measurement: of two matrices only types whose scales are long to decode. */
    const bool units = p->type == DOP_TYPE_q4_k || (p->type == DOP_TYPE_q8_0 && p->most == 1);
    const bool quant = dop_type_of(p->type)->kind == DOP_KIND_QUANT;
    /* Paired matrices (gate and up) double the weights' share of shared memory and registers. */
    if (max_t * (x->kind == SHAPE_QUANT ? 1 : 4) < x->bm || (p->most > 1 && x->bn * x->bm >= 128 * 128))
        return false;
    switch (x->kind) {
    case SHAPE_ANY:
        return true;
    case SHAPE_QUANT:
        return quant && !units;
    case SHAPE_UNITS:
        return units && p->most > 1;
    case SHAPE_SOONER:
        return !quant && p->most == 1;
    case SHAPE_SOONER_UNITS:
        return p->most == 1 && (units || p->type == DOP_TYPE_q4_0); /* those that were measured */
    case SHAPE_SOONER_PAIR:
        return !units && p->most > 1;
    }
    return false;
}

/* Matrix units: the largest tile that still keeps the multiprocessors busy, counting the matrices of all parts, or one whose waves
 * end sooner.  Few tokens may leave most of a tile empty; what matters then is how many workgroups decode the weights. */
static void
choose_tile(const dop_site *s, dop_tile *tile)
{
    const dop_target *t = s->t;
    const dop_products p = dop_products_of(s);
    const coop_shape *const last = coop_shapes + sizeof coop_shapes / sizeof *coop_shapes - 1, *best = NULL, *x;
    for (x = coop_shapes; x < last; x++) {
        dop_tile other = *tile;
        const uint32_t tiles = dop_div_up_u32(s->g->max_t, x->bm) * dop_div_up_u32(p.rows / p.most, x->bn);
        if (!suits(x, s, &p) || tiles * 100 < t->cores * x->busy || !coop_tile(x, p.most, t, &other))
            continue;
        if (x->kind < SHAPE_SOONER)
            break;
        if (!best || time_of(x, s) < time_of(best, s))
            best = x;
    }
    if (!best || time_of(best, s) >= time_of(x, s))
        best = x;
    coop_tile(best, p.most, t, tile);
    tile->joined = joins(s, best->bm, best->bn);
}

/* Shapes for products by expert, measured like the others: the first one that fits and has as many rows as a block. */
static const coop_shape block_shapes[] = {
    {128, 128, 64, 64, 32, 0, 100, SHAPE_ANY}, {128, 64, 64, 32, 32, 0, 100, SHAPE_ANY},
    {64, 64, 32, 32, 16, 0, 100, SHAPE_ANY},   {32, 64, 64, 16, 16, 0, 100, SHAPE_ANY},
    {16, 64, 64, 16, 16, 0, 100, SHAPE_ANY},
};

static void
choose_tile_at(const dop_site *s, dop_tile *tile)
{
    const uint32_t span = dop_blocks_of(s->g, s->r).span, mats = dop_products_of(s).most;
    for (size_t i = 0; i < sizeof block_shapes / sizeof *block_shapes; i++)
        if (block_shapes[i].bm <= span && coop_tile(&block_shapes[i], mats, s->t, tile))
            return;
}

/* Has every invocation a unit to load, as often as any other? */
static bool
in_units(const dop_gen *gen, const dop_part *part)
{
    const dop_tile *tile = &gen->choice->tile;
    const uint32_t units = tile->bn * part->n_mats * tile->bk / 32;
    return units % tile->wg == 0 && dop_coop_decoded_later(gen->e.g, part);
}

static dop_status
declare(dop_gen *gen, dop_buf *decls)
{
    (void)gen;
    dop_buf_puts(decls, "#define DEEP BK\n");
    return DOP_OK;
}

static dop_status
emit(dop_gen *gen)
{
    static const dop_coop_form whole = {.part = "matmul_coop_part.glsl",
                                        .finds = true,
                                        .sum = "c",
                                        .call = ", t0",
                                        .bytes = dop_coop_tile_bytes,
                                        .in_units = in_units,
                                        .declare = declare};
    return dop_coop_emit(gen, &whole);
}

uint32_t
dop_coop_mats(const dop_gen *gen)
{
    uint32_t mats = 1;
    dop_parts p;
    if (dop_gen_parts(gen, &p) != DOP_OK)
        return 0; /* generation says why */
    for (uint32_t i = 0; i < p.n; i++)
        mats = p.part[i].n_mats > mats ? p.part[i].n_mats : mats;
    return mats;
}

uint32_t
dop_coop_shared(dop_gen *gen)
{
    const uint32_t mats = dop_coop_mats(gen);
    return mats == 0 ? 0
                     : dop_coop_tile_bytes(&gen->choice->tile, mats, gen->e.target) +
                           dop_blocks_bytes(gen, gen->choice->tile.bm);
}

dop_refusal
dop_coop_fits(const dop_site *s)
{
    dop_refusal no = dop_products_refuse(s);
    dop_diag ignored = {0};
    dop_gen gen;
    dop_parts p;
    dop_gen_open(&gen, s, &dop_descriptor_matmul_coop, NULL, &ignored);
    if (no.why || dop_gen_parts(&gen, &p) != DOP_OK)
        return no;
    if (p.n_stats)
        return (dop_refusal){"a row statistic is wanted after the sum, which f16 inputs cannot hold unscaled", NULL};
    if (dop_matrix_fit_of(s->t, s->g->max_t, p.k) == DOP_MATRIX_FIT_ragged || !dop_emit_wide(&gen.e, p.act))
        return (dop_refusal){"rows are not a multiple of 8 values", NULL};
    return no;
}

static dop_refusal
fits_at(const dop_site *s)
{
    dop_refusal no = dop_blocks_refuse(s);
    return no.why ? no : dop_coop_fits(s);
}

static const char *
avoid_at(const dop_site *s)
{
    return dop_blocks_of(s->g, s->r).span < DOP_MATRIX_ROWS ? "fewer than 16 rows of an expert" : NULL;
}

static const char *
avoid(const dop_site *s)
{
    return s->g->max_t < DOP_MATRIX_ROWS ? "fewer than 16 tokens" : NULL;
}

/* The KHR form tells the driver what a matrix is for, so that it need not transpose it in registers: products gain a tenth on
 * an H200. */
const dop_descriptor dop_descriptor_matmul_coop = {
    .fits = dop_coop_fits,
    .avoid = avoid,
    .tile = choose_tile,
    .shared = dop_coop_shared,
    .emit = emit,
    .matrix_form = DOP_CAP_coop_khr,
};
const dop_descriptor dop_descriptor_expert_coop = {
    .fits = fits_at,
    .avoid = avoid_at,
    .tile = choose_tile_at,
    .shared = dop_coop_shared,
    .emit = emit,
    .matrix_form = DOP_CAP_coop_khr,
};
