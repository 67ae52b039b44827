/* Linear recurrences of many rows on matrix units, in chunks (gen_scan.c); scan_coop.glsl has the fragment
 * operations. */
#include "kernels/gen/legal.h"
#include "kernels/gen/templates.h"
#include "kernels/scan/gen_scan.h"

enum { BLOCK = 16, MOST_STATE = 256 };

/* Properties derived from a tile: the division of work among subgroups, and the shared memory layout in 16-byte words. */
typedef struct layout {
    uint32_t rows;      /* rows per chunk */
    uint32_t split;     /* subgroups that share columns of the state */
    uint32_t workers;   /* subgroups that hold a part of the state */
    uint32_t subgroups; /* all subgroups of the workgroup */
    uint32_t pieces;    /* factors that pass through a subgroup's piece of shared memory at once */
    uint32_t piece_at, words;
    uint32_t bytes; /* total bytes of shared memory */
} layout;

/* Returns the number of subgroups that share columns of the state. Updating a column's state is as much work as its products,
 * so dividing columns among subgroups pays. It does not with a delta rule, because the parts must be combined before the
 * column is solved. */
static uint32_t
split_of(const dop_scan *s, const dop_target *t)
{
    uint32_t split = 1;
    while (!s->delta && s->p / BLOCK * split * 2 <= t->schedule.scan_units_workers &&
           s->count / BLOCK % (split * 2) == 0)
        split *= 2;
    return split;
}

static layout
lay_out_scan(const dop_scan *s, uint32_t rows, const dop_target *t)
{
    enum { SUMS = 256 }; /* maximum bytes that common.glsl uses for reductions */
    layout l = {.rows = rows, .split = split_of(s, t)};
    l.workers = s->p / BLOCK * l.split;
    l.subgroups = l.workers + t->schedule.scan_helpers;
    l.piece_at = rows * 4 * (s->count / 8 + 1) + (s->delta ? 4 : 2) * rows * (rows / 8 + 1);
    uint32_t others = (rows * (s->p + 4) + 4 * rows + BLOCK + (s->delta ? rows * BLOCK : 0)) * 4;
    for (l.pieces = 4;; l.pieces /= 2) {
        l.words = l.piece_at + l.workers * BLOCK * (l.pieces * 4 + 1);
        l.bytes = l.words * 16 + others;
        if (l.pieces == 1 || l.bytes + SUMS <= t->shared_bytes)
            return l;
    }
}

/* True if an accumulator can be converted to a factor: NV matrices have no fixed use. */
static bool
converts(const dop_gen *gen)
{
    return !(gen->e.target->caps & DOP_CAP_coop_khr);
}

/* Emits code that moves blocks of the state between global memory and fragments, through the subgroup's piece of shared
 * memory. `load` is the expression of four values in memory; NULL: store. */
static void
move_state(dop_scan_nest *o, const char *load)
{
    static const char block[] = "s[b], dop_s, PIECE_AT, 4u, true";
    dop_nest *n = &o->n;
    dop_nest_if(n, "works")->apart = true;
    dop_nest_unrolled(n, "b", o->j);
    if (!load) {
        dop_nest_call(n, "coopMatStoreNV", block);
        dop_nest_call(n, "DOP_SYNC", "");
    }
    dop_nest_for(n, "i", "lane", "64u", "SG")->unroll = true;
    dop_nest_let(n, "uint", "p", "p0 + i / 4u");
    dop_nest_let(n, "uint", "n", "n0 + b * 16u + i %% 4u * 4u");
    if (load) {
        dop_nest_set(n, "dop_s[PIECE_AT + i]", "floatBitsToUint(%s)", load);
        dop_nest_end(n);
        dop_nest_call(n, "DOP_SYNC", "");
        dop_nest_call(n, "coopMatLoadNV", block);
    } else {
        dop_nest_let(n, "uint", "c", "(h * P + p) * N + n");
        dop_nest_let(n, "vec4", "x", "uintBitsToFloat(dop_s[PIECE_AT + i])");
        dop_scan_save(o, "x", true);
        dop_nest_end(n);
    }
    dop_nest_call(n, "subgroupBarrier", "");
    dop_nest_ends(n, 2);
}

/* Emits code that stages decays and beta: the first subgroup loads them and computes prefix sums of the decays'
 * logarithms. */
static void
stage_factors(dop_scan_nest *o)
{
    dop_emit *e = &o->gen->e;
    dop_nest *n = &o->n;
    const dop_node_id *src = o->s.n->src;
    dop_buf text = {0};
    dop_emit_scope(e, &text, "            ");
    dop_emit_line(e, "float part = sum + subgroupInclusiveAdd(row < count ? scan_log2(%s) : 0.0);",
                  dop_emit_value(e, src[3], (dop_index){"t", "h"}, 1));
    const char *beta = o->s.delta ? dop_emit_value(e, src[6], (dop_index){"t", "h"}, 1) : NULL;
    dop_nest_if(n, "sub == 0u")->apart = true;
    dop_nest_let(n, "float", "sum", "0.0");
    dop_nest_for(n, "base", "0u", "ROWS", "SG")->unroll = true;
    dop_nest_let(n, "uint", "row", "base + lane");
    dop_nest_let(n, "uint", "t", "min(first + row, rows - 1u)");
    dop_nest_hole(n, "decay", dop_gen_keep(o->gen, &text));
    dop_nest_if(n, "row < ROWS");
    dop_nest_store(n, o->all, "scan_log[row]", "part");
    dop_nest_store(n, o->all, "scan_from[row]", "exp2(part)");
    if (beta)
        dop_nest_store(n, o->all, "scan_beta[row]", "row < count ? %s : 0.0", beta);
    dop_nest_end(n);
    dop_nest_set(n, "sum", "subgroupShuffle(part, SG - 1u)");
    dop_nest_end(n);
    dop_nest_for(n, "row", "lane", "ROWS", "SG");
    dop_nest_store(n, o->all, "scan_to[row]", "exp2(sum - scan_log[row])");
    dop_nest_ends(n, 2);
}

/* Emits code that computes y = S q and u = S k. Blocks of the state are factors, as many at a time as fit in the subgroup's
 * piece of shared memory. */
static void
multiply_state(dop_scan_nest *o, uint32_t pieces)
{
    static const char each[] = "PIECES && b0 + i < NB";
    const char *factor = converts(o->gen) ? "part" : "factor";
    dop_nest *n = &o->n;
    dop_nest_if(n, "works")->apart = true;
    dop_nest_unrolled(n, "rb", o->r);
    dop_nest_set(n, "u[rb]", "FRAG(0.0)");
    dop_nest_set(n, "y[rb]", "FRAG(0.0)");
    dop_nest_end(n);
    dop_nest_for(n, "b0", "0u", "NB", "PIECES")->unroll = true;
    dop_nest_array(n, "scan_factor", "part", pieces);
    dop_nest_for(n, "i", "0u", each, NULL)->unroll = true;
    dop_nest_set(n, "part[i]", "scan_halves(s[b0 + i])");
    if (!converts(o->gen)) {
        dop_nest_call(n, "DOP_STORE", "part[i], PIECE_AT + i * 4u, 2u, LP");
        dop_nest_end(n);
        dop_nest_call(n, "DOP_SYNC", "");
        dop_nest_array(n, "scan_factor", factor, pieces);
        dop_nest_for(n, "i", "0u", each, NULL)->unroll = true;
        dop_nest_call(n, "DOP_LOAD", "factor[i], PIECE_AT + i * 4u, 2u, LP, false");
        dop_nest_end(n);
        dop_nest_call(n, "subgroupBarrier", "");
    } else {
        dop_nest_end(n);
    }
    dop_nest_for(n, "i", "0u", each, NULL)->unroll = true;
    dop_nest_unrolled(n, "rb", o->r);
    dop_nest_let(n, "uint", "at", "rb * 16u * LK + n0 / 8u + (b0 + i) * 2u");
    for (uint32_t m = 0; m <= o->s.delta; m++)
        dop_nest_call(n, "DOP_TIMES",
                      dop_nest_text(n, "%s + at, REST, LK, false, %s[i]", m ? "u[rb], K_AT" : "y[rb], Q_AT", factor))
            ->reads = o->staged;
    dop_nest_ends(n, 4);
}

/* Emits code that adds up the partial results of subgroups that share columns, in the first of them, and stores the sums. */
static void
store_scan_results(dop_scan_nest *o, uint32_t split)
{
    static const char place[] = "scan_v, rb * 16u * LV + p0, LV, false";
    dop_nest *n = &o->n;
    for (uint32_t part = 1; part <= split; part++) {
        dop_nest_if(n, "%s", part < split ? dop_nest_text(n, "sub / CB == %uu", part) : "sub < CB")->apart = true;
        dop_nest_unrolled(n, "rb", o->r);
        dop_nest_call(n, "coopMatStoreNV", dop_nest_text(n, "y[rb], %s", place))->writes = o->results;
        dop_nest_ends(n, 2);
        if (part == split)
            return;
        dop_nest_if(n, "sub < CB")->apart = true;
        dop_nest_unrolled(n, "rb", o->r);
        dop_nest_array(n, "FRAG", "other", 1);
        dop_nest_call(n, "coopMatLoadNV", dop_nest_text(n, "other[0], %s", place))->reads = o->results;
        dop_nest_each(n, "e", o->lanes, "y[rb][e]", "other[0][e]")->step = "+";
        dop_nest_ends(n, 2);
    }
}

static void
by_chunk(dop_scan_nest *o, const layout *l)
{
    dop_nest *n = &o->n;
    dop_nest_library(n, "scan_products", "SUBGROUPS - 1u - sub", o->staged, o->products | o->solved);
    dop_nest_array(n, "FRAG", "y", o->r);
    dop_nest_array(n, "FRAG", "u", o->r);
    multiply_state(o, l->pieces);
    if (o->s.delta) {
        dop_nest_for(n, "i", "WG - 1u - gl_LocalInvocationIndex", "ROWS", "WG")->apart = true;
        dop_nest_library(n, "scan_invert", "i", o->solved, o->products);
        dop_nest_end(n);
    }
    /* u becomes v; with a delta rule, beta (v - S k) */
    dop_nest_if(n, "works")->apart = true;
    dop_nest_unrolled(n, "rb", o->r);
    dop_nest_array(n, "FRAG", "v", 1);
    dop_nest_call(n, "coopMatLoadNV", "v[0], scan_v, rb * 16u * LV + p0, LV, false")->reads = o->staged;
    dop_nest_call(n, "DOP_SCALE", "y[rb], scan_from");
    if (o->s.delta) {
        dop_nest_call(n, "DOP_SCALE", "u[rb], scan_from");
        dop_nest_each(n, "e", o->lanes, "v[0][e]", "v[0][e] - u[rb][e]");
        dop_nest_call(n, "DOP_SCALE", "v[0], scan_beta");
    }
    dop_nest_set(n, "u[rb]", "v[0]");
    dop_nest_ends(n, 2);
    /* then the added rows x as factors; with a delta rule, the block-wise solution of the triangular system */
    dop_nest_if(n, "works")->apart = true;
    dop_nest_array(n, "scan_factor", "x", o->r);
    dop_nest_unrolled(n, "rb", o->r);
    if (o->s.delta) {
        dop_nest_for(n, "c", "0u", "rb", NULL)->unroll = true;
        dop_nest_call(n, "DOP_TIMES", "u[rb], KK_AT + rb * 16u * LM + c * 2u, REST_M, LM, false, x[c]");
        dop_nest_end(n);
        dop_nest_call(n, "DOP_FACTOR", "x[rb], u[rb]");
        dop_nest_set(n, "u[rb]", "FRAG(0.0)");
        dop_nest_call(n, "DOP_TIMES", "u[rb], KK_AT + rb * 16u * LM + rb * 2u, REST_M, LM, true, x[rb]");
    }
    dop_nest_call(n, "DOP_FACTOR", "x[rb], u[rb]");
    dop_nest_end(n);
    dop_nest_if(n, "sub < CB");
    dop_nest_unrolled(n, "rb", o->r);
    dop_nest_for(n, "c", "0u", "rb + 1u", NULL)->unroll = true;
    dop_nest_call(n, "DOP_TIMES", "y[rb], QK_AT + rb * 16u * LM + c * 2u, REST_M, LM, false, x[c]")->reads =
        o->products;
    dop_nest_ends(n, 3);
    dop_nest_unrolled(n, "rb", o->r);
    dop_nest_call(n, "DOP_SCALE", "u[rb], scan_to");
    dop_nest_call(n, "DOP_FACTOR", "x[rb], u[rb]");
    dop_nest_end(n);
    dop_nest_let(n, "float", "all", "scan_from[ROWS - 1u]");
    dop_nest_unrolled(n, "b", o->j);
    dop_nest_each(n, "e", o->lanes, "s[b][e]", "s[b][e] * all");
    dop_nest_unrolled(n, "rb", o->r);
    dop_nest_call(n, "DOP_TIMES", "s[b], K_AT + rb * 16u * LK + n0 / 8u + b * 2u, REST, LK, true, x[rb]")->reads =
        o->staged;
    dop_nest_ends(n, 3);
    store_scan_results(o, l->split);
}

static dop_status
emit_scan_coop(dop_gen *gen)
{
    const dop_scan s = dop_scan_at(&gen->site);
    const layout l = lay_out_scan(&s, gen->choice->tile.bq, gen->e.target);
    dop_scan_nest o = {.units = true,
                       .rows = l.rows,
                       .r = l.rows / BLOCK,
                       .j = s.count / BLOCK / l.split,
                       .lanes = BLOCK * BLOCK / gen->e.target->subgroup};
    dop_nest_placement pl = {.at = {{[DOP_LEVEL_reg] = o.r, [DOP_LEVEL_unit] = BLOCK},
                                    {[DOP_LEVEL_group] = s.p / BLOCK, [DOP_LEVEL_unit] = BLOCK},
                                    {[DOP_LEVEL_group] = l.split, [DOP_LEVEL_reg] = o.j, [DOP_LEVEL_unit] = BLOCK}},
                             .sum = l.split > 1 ? DOP_MEET_each : DOP_MEET_none};
    dop_nest *n = &o.n;
    gen->halves = true;
    if (!converts(gen))
        gen->e.caps |= DOP_CAP_coop_f16_sums;
    dop_scan_open(&o, gen, &pl);
    DOP_LIBRARY(gen, n, "scan_coop.glsl", {"P", s.p}, {"N", s.count}, {"ROWS", l.rows}, {"#SPLIT", l.split},
                {"PIECES", l.pieces}, {"PIECES_AT", l.piece_at}, {"WORDS", l.words}, {"#DELTA", s.delta},
                {"#CONVERTS", converts(gen)});
    o.staged = dop_nest_memory(n, "staged rows");
    o.products = dop_nest_memory(n, "products of rows");
    dop_scan_begin(&o);
    dop_nest_let(n, "uint", "lane", "gl_LocalInvocationIndex %% SG");
    dop_nest_let(n, "uint", "sub", "gl_LocalInvocationIndex / SG");
    dop_nest_let(n, "uint", "p0", "sub %% CB * 16u");
    dop_nest_let(n, "uint", "n0", "sub / CB * NB * 16u");
    dop_nest_let(n, "bool", "works", "sub < WORKERS");
    dop_nest_array(n, "FRAG", "s", o.j);
    const char *load = dop_scan_load(&o);
    dop_scan_place(&o, NULL);
    move_state(&o, load);
    dop_nest_for(n, "i", "gl_LocalInvocationIndex", "16u", "WG")->apart = true;
    dop_nest_store(n, o.staged, "scan_number[i]", "float(i)");
    dop_nest_end(n);
    dop_nest_for(n, "first", "begin", "rows", "ROWS");
    dop_nest_let(n, "uint", "count", "min(ROWS, rows - first)");
    stage_factors(&o);
    dop_scan_stage(&o);
    by_chunk(&o, &l);
    dop_scan_finish(&o, "LV");
    dop_nest_end(n);
    move_state(&o, NULL);
    dop_nest_end(n);
    return dop_gen_print_nest(gen, n);
}

static uint32_t
scan_coop_shared(dop_gen *gen)
{
    const dop_scan s = dop_scan_at(&gen->site);
    return lay_out_scan(&s, gen->choice->tile.bq, gen->e.target).bytes;
}

static void
choose_scan_coop_tile(const dop_site *site, dop_tile *tile)
{
    const dop_scan s = dop_scan_at(site);
    tile->bq = site->t->schedule.scan_units_chunk / BLOCK * BLOCK;
    while (tile->bq > BLOCK && lay_out_scan(&s, tile->bq, site->t).bytes > site->t->shared_bytes)
        tile->bq -= BLOCK;
    tile->wg = lay_out_scan(&s, tile->bq, site->t).subgroups * site->t->subgroup;
}

/* True if the values can be staged four at a time. */
static bool
in_fours(const dop_site *site, const dop_scan *s)
{
    const dop_analysis *a = site->r->info;
    bool wide = dop_region_wide(site->g, site->r, s->n->src[2]);
    for (uint32_t i = 0; i < 2; i++) {
        wide = wide && dop_region_wide(site->g, site->r, s->n->src[i]);
        for (uint32_t k = 0; k < a->scan.heads[i].n_nodes; k++) {
            dop_node_id id = a->scan.heads[i].nodes[k];
            if (dop_node_is(site->g, id, DOP_STATISTIC))
                id = dop_node_at(site->g, id)->src[0];
            wide = wide && dop_region_wide(site->g, site->r, id);
        }
    }
    return wide;
}

static dop_refusal
fits_scan_coop(const dop_site *site)
{
    const dop_scan s = dop_scan_at(site);
    const dop_target *t = site->t;
    if (t->matrix != DOP_MATRIX_SHAPE(BLOCK, BLOCK, BLOCK) || !(t->caps & (DOP_CAP_coop_nv | DOP_CAP_coop_f16_sums)))
        return (dop_refusal){"its matrix units have other shapes, or no sums of f16", NULL};
    if (s.each)
        return (dop_refusal){"every column of the state decays by itself", NULL};
    if (s.p % BLOCK || s.count % BLOCK || s.count > MOST_STATE)
        return (dop_refusal){"rows or columns of the state are no multiple of 16 values, or its rows longer than 256",
                             NULL};
    if (site->g->max_t < BLOCK)
        return (dop_refusal){"fewer rows than a matrix has", NULL};
    if ((s.p / BLOCK + t->schedule.scan_helpers) * t->subgroup > t->max_workgroup)
        return (dop_refusal){"a head has more columns than a workgroup has subgroups for", NULL};
    if (!in_fours(site, &s))
        return (dop_refusal){"its values cannot be made four at a time", NULL};
    if (site->g->keeps_each)
        return (dop_refusal){"the state after each row is kept", "a kernel that goes from row to row"};
    return dop_scan_fits(site);
}

static const char *
avoid_scan_coop(const dop_site *s)
{
    if (dop_graph_mixes(s->g))
        return "the step has rows of several sequences, few of each";
    if (s->g->max_t < s->t->schedule.scan_units_least)
        return "fewer rows than two chunks";
    return NULL;
}

static void
legal_scan_coop(dop_check *c)
{
    const dop_scan s = dop_scan_at(c->s);
    if (dop_check_multiple(c, DOP_TILE_NO_bq, BLOCK, BLOCK, DOP_MOST_SIDE))
        dop_check_equal(c, DOP_TILE_NO_wg,
                        (uint64_t)lay_out_scan(&s, c->tile->bq, c->s->t).subgroups * c->s->t->subgroup,
                        "subgroups for the columns of a head");
}

const dop_descriptor dop_descriptor_scan_coop = {
    .fields = DOP_FIELD(bq),
    .legal = legal_scan_coop,
    .fits = fits_scan_coop,
    .avoid = avoid_scan_coop,
    .tile = choose_scan_coop_tile,
    .shared = scan_coop_shared,
    .emit = emit_scan_coop,
    .stage = DOP_VARIANT_scan_subgroup,
    .matrix_form = DOP_CAP_coop_khr,
};
