/* Small-batch products (2 to 8 tokens) on GPUs. Weights are read and unpacked once for all tokens, by cooperative lanes that
 * share rows as in a GEMV. */
#include "kernels/gen/gen_waits.h"
#include "kernels/gen/int8.h"
#include "kernels/gen/products.h"
#include "kernels/gen/templates.h"
#include "kernels/gen/trips.h"
#include "kernels/product/gemv_tiles.h"
#include "kernels/product/gen_few_stage.h"
#include "kernels/product/product.h"

#include "kernels/emit/weight_types.h"

enum { MOST_ROWS = 8, INT_UNIT = 32 };

static dop_few_piece
piece_in(const dop_gen *gen)
{
    return dop_few_piece_of(&gen->site, gen->descriptor->ints, gen->e.routes != NULL);
}

/* Returns the placement of small-batch products: every invocation processes all rows of the step, groups of cooperative lanes
 * divide the weight rows, and the lanes of a group divide the depth. */
static dop_nest_placement
place_few(const dop_gen *gen, const dop_parts *p)
{
    const dop_tile *tile = &gen->choice->tile;
    const dop_few_piece x = piece_in(gen);
    const uint32_t units = dop_div_up_u32(p->k, p->unit), sg = gen->e.target->subgroup;
    dop_nest_placement pl = {.subgroup = sg, .sum = tile->lanes > sg ? DOP_MEET_shared : DOP_MEET_lanes};
    pl.at[DOP_PLACE_t][DOP_LEVEL_reg] = gen->e.g->max_t;
    pl.at[DOP_PLACE_n][DOP_LEVEL_group] = tile->wg / tile->lanes;
    pl.at[DOP_PLACE_n][DOP_LEVEL_loop] = tile->loops;
    pl.at[DOP_PLACE_n][DOP_LEVEL_reg] = tile->rows;
    pl.at[DOP_PLACE_k][DOP_LEVEL_piece] = x.n;
    pl.at[DOP_PLACE_k][DOP_LEVEL_loop] = dop_div_up_u32(x.units < units ? x.units : units, tile->lanes * tile->unroll);
    pl.at[DOP_PLACE_k][DOP_LEVEL_lane] = tile->lanes;
    pl.at[DOP_PLACE_k][DOP_LEVEL_reg] = tile->unroll;
    pl.x = (dop_movement){.path = gen->e.routes && x.n == 1 ? DOP_PATH_whole : DOP_PATH_pieces,
                          .unit = x.units * p->unit,
                          .form = gen->descriptor->ints ? "8 bits"
                                  : x.half              ? "halves"
                                                        : "floats"};
    pl.w = (dop_movement){.path = DOP_PATH_direct, .ahead = 1, .unit = p->unit};
    return pl;
}

/* Declares the shared memory for staged rows of the step, and the functions that access it. */
static void
declare_few_rows(dop_gen *gen, const dop_parts *p, dop_nest *n, dop_product *x)
{
    const dop_few_piece piece = piece_in(gen);
    const uint32_t steps = gen->e.g->max_t * piece.units, quarters = p->unit / 4;
    dop_keys keys = {0};
    dop_buf text = {0};
    if (gen->descriptor->ints) {
        DOP_NUMBERS(gen, &keys, &text, {"XI_UNITS", steps});
        gen->e.status = dop_template_fill(gen, "gemv_i8.glsl", &keys, &text);
        if (gen->e.status == DOP_OK)
            gen->e.status = dop_template_fill(gen, "few_i8.glsl", &keys, &text);
        x->rows = dop_nest_memory(n, "dop_xq");
    } else if (piece.half && gen->e.routes) {
        /* The stages of a dispatch share this array, so all of them declare it with type vec4. */
        x->rows = dop_nest_shared(n, "vec4", "dop_x", steps);
        dop_buf_puts(&text, "void dop_x_put(uint i, vec4 x)\n{\n"
                            "    vec2 w = uintBitsToFloat(uvec2(packHalf2x16(x.xy), packHalf2x16(x.zw)));\n"
                            "    if ((i & 1u) == 0u)\n        dop_x[i >> 1].xy = w;\n"
                            "    else\n        dop_x[i >> 1].zw = w;\n}\n#define DOP_X_PUT(i, x) dop_x_put(i, x)\n");
    } else if (piece.half) {
        x->rows = dop_nest_shared(n, "uvec4", "dop_x", steps);
        dop_buf_puts(&text, "uvec4 dop_x_halves(vec4 a, vec4 b)\n{\n"
                            "    return uvec4(packHalf2x16(a.xy), packHalf2x16(a.zw), packHalf2x16(b.xy), "
                            "packHalf2x16(b.zw));\n}\n");
    } else {
        /* The array holds the first four values of every step, then the next four, and so on: adjacent invocations, which
         * process adjacent steps, read adjacent words. */
        x->rows = dop_nest_shared(n, "vec4", "dop_x", steps * quarters);
        dop_buf_printf(&text,
                       "#define DOP_X_PUT(i, x) dop_x[(i) %% %uu * %uu + (i) / %uu] = x\n"
                       "#define DOP_X_GET(v, q) dop_x[(q) * %uu + (v)]\n",
                       quarters, steps, quarters, steps);
    }
    dop_nest_hole(n, "rows in shared memory", dop_gen_keep(gen, &text));
}

/* Emits statistics of the rows, which only the epilogue needs: subgroups divide the rows and compute them before the first
 * piece is used. `done` gets code that reads the statistics of row t. */
static void
sum_few_stats(dop_gen *gen, const dop_parts *p, dop_nest *n, uint32_t memory, dop_buf *done)
{
    dop_emit *e = &gen->e;
    const uint32_t sg = e->target->subgroup, subgroups = gen->choice->tile.wg / sg, rows = e->g->max_t;
    const uint32_t share = subgroups > rows ? subgroups / rows : 1;
    for (uint32_t i = 0; i < p->n_stats; i++) {
        const dop_node *stat = dop_node_at(e->g, p->stats[i]);
        dop_buf inner = {0};
        dop_emit_scope(e, &inner, "                ");
        dop_emit_line(e, "sum += dop_sumsq(%s);", dop_emit_value(e, stat->src[0], (dop_index){"t", "c"}, 4));
        dop_nest_if(n, "c0 == 0u");
        dop_nest_let(n, "uint", "s", "gl_LocalInvocationIndex / SG");
        dop_nest_for(n, "t", dop_nest_text(n, "s / %uu", share), dop_emit_n_tokens(e),
                     dop_nest_text(n, "%uu", subgroups / share))
            ->apart = true;
        dop_nest_let(n, "float", "sum", "0.0");
        dop_nest_for(n, "c", dop_nest_text(n, "(s %% %uu * SG + gl_LocalInvocationIndex %% SG) * 4u", share),
                     dop_nest_text(n, "%uu", p->k), dop_nest_text(n, "%uu", share * sg * 4))
            ->apart = true;
        dop_nest_hole(n, "stat", dop_gen_keep(gen, &inner));
        dop_nest_end(n);
        dop_nest_reduce(n, "sum", "subgroupAdd(sum)");
        dop_nest_if(n, "gl_LocalInvocationIndex %% SG == 0u")->apart = true;
        dop_nest_store(n, memory, dop_nest_text(n, "dop_rs%u[t * %uu + s %% %uu]", i, share, share), "sum");
        for (int blocks = 0; blocks < 3; blocks++)
            dop_nest_end(n);
        dop_buf_printf(done,
                       "                float rs%u = 0.0;\n                for (uint k = 0u; k < %uu; k++)\n"
                       "                    rs%u += dop_rs%u[t * %uu + k];\n"
                       "                rs%u = inversesqrt(rs%u / %u.0 + %.9g);\n",
                       i, share, i, i, share, i, i, p->k, dop_node_f(e->g, p->stats[i], DOP_A_eps));
    }
}

/* Emits code that loads four values of the activation from column c of row t on, if within the row. */
static void
load_four(dop_gen *gen, const dop_parts *p, dop_nest *n, const char *to)
{
    dop_emit *e = &gen->e;
    dop_buf load = {0};
    dop_emit_scope(e, &load, "                ");
    dop_emit_line(e, "%s = %s;", to, dop_emit_value(e, p->act, (dop_index){"t", "c"}, 4));
    dop_nest_if(n, "t < %s && c < %uu", dop_emit_n_tokens(e), p->k)->apart = true;
    dop_nest_hole(n, "x", dop_gen_keep(gen, &load));
    dop_nest_end(n);
}

/* Emits the staging of rows in an ordinary dispatch: a function that stages a piece of every row, from column c0 on. An
 * invocation moves eight or four adjacent columns. */
static void
emit_put_rows(dop_gen *gen, const dop_parts *p, dop_nest *n, const dop_product *x, dop_buf *done)
{
    dop_emit *e = &gen->e;
    const dop_few_piece piece = piece_in(gen);
    const uint32_t at_once = gen->descriptor->ints || piece.half ? 8 : 4;
    const uint32_t of_row = piece.units * p->unit / at_once;
    dop_nest_function(n, "dop_put_rows", "uint c0");
    dop_nest_for(n, "i", "gl_LocalInvocationIndex", dop_nest_text(n, "%uu", e->g->max_t * of_row), "WG")->apart = true;
    dop_nest_let(n, "uint", "t", "i / %uu", of_row);
    dop_nest_array(n, "vec4", "xs", at_once / 4);
    dop_nest_unrolled(n, "j", at_once / 4);
    dop_nest_let(n, "uint", "c", "c0 + i %% %uu * %uu + j * 4u", of_row, at_once);
    dop_nest_let(n, "vec4", "x", "vec4(0.0)");
    load_four(gen, p, n, "x");
    dop_nest_set(n, "xs[j]", "x");
    dop_nest_end(n);
    if (at_once == 4)
        dop_nest_call(n, "DOP_X_PUT", "i, xs[0]")->writes = x->rows;
    else if (gen->descriptor->ints)
        dop_nest_call(n, "dop_xi_put8", "i, xs[0], xs[1]")->writes = x->rows;
    else
        dop_nest_store(n, x->rows, "dop_x[i]", "dop_x_halves(xs[0], xs[1])");
    dop_nest_end(n);
    sum_few_stats(gen, p, n, x->stats, done);
    dop_nest_end(n);
}

/* Emits the staging of rows in a stage: an invocation receives four adjacent columns of every row from mailboxes. It polls
 * once for all rows before it waits for the first, so that the polls overlap. */
static void
emit_receive_rows(dop_gen *gen, const dop_parts *p, dop_nest *n, const dop_product *x, dop_buf *done)
{
    const dop_few_piece piece = piece_in(gen);
    dop_buf text = {0};
    dop_few_receive(gen, p, &piece, &text, done);
    dop_nest_function(n, "dop_put_rows", "uint c0");
    dop_nest_hole(n, "x, from mailboxes", dop_gen_keep(gen, &text))->writes = x->rows | x->stats;
    dop_nest_end(n);
}

/* Emits code that loads the activations of row t into registers, in the form that products need. */
static void
get_few_row(dop_gen *gen, const dop_parts *p, dop_nest *n, uint32_t rows)
{
    if (gen->descriptor->ints) {
        dop_nest_let(n, "dop_xi", "x", "dop_xi_get(t * PIECE + v)")->reads = rows;
    } else if (piece_in(gen).half) {
        dop_nest_let(n, "uvec4", "halves", "%s(dop_x[t * PIECE + v])", gen->e.routes ? "floatBitsToUint" : "")->reads =
            rows;
        dop_nest_array(n, "vec4", "x", 2);
        dop_nest_set(n, "x[0]", "dop_f16x4(halves.xy)");
        dop_nest_set(n, "x[1]", "dop_f16x4(halves.zw)");
    } else {
        dop_nest_array(n, "vec4", "x", p->unit / 4);
        dop_nest_unrolled(n, "q", p->unit / 4);
        dop_nest_set(n, "x[q]", "DOP_X_GET(t * PIECE + v, q)")->reads = rows;
        dop_nest_end(n);
    }
}

static uint32_t
stat_values(const dop_gen *gen, const dop_parts *p)
{
    const uint32_t subgroups = gen->choice->tile.wg / gen->e.target->subgroup, n = gen->e.g->max_t;
    const dop_few_piece piece = piece_in(gen);
    return gen->e.routes ? dop_few_stat_values(gen, p, &piece) : n * (subgroups > n ? subgroups / n : 1);
}

/* Opens the nest of a placement with its numbers, and declares the groups of lanes. */
static void
open_few_nest(dop_gen *gen, const dop_nest_placement *pl, dop_nest *n)
{
    dop_nest_open(n, dop_variant_of(gen->choice->variant)->name, pl, gen->e.g->arena, gen->e.diag);
    dop_nest_number(n, "R", gen->e.g->max_t);
    dop_product_team(gen, n);
}

/* Emits the functions of all parts, and their calls by the workgroups of each part. */
static dop_status
emit_few_parts(dop_gen *gen, const dop_parts *p, dop_nest *n, const dop_product *x)
{
    dop_buf calls = {0};
    const dop_tile *tile = &gen->choice->tile;
    const uint32_t each = tile->wg / tile->lanes * tile->rows, sets = tile->loops ? tile->loops : 1;
    uint32_t first = 0, makers = 0, *order = dop_arena_alloc(n->arena, p->n * sizeof *order);
    if (!order)
        return DOP_NO_MEMORY(gen->e.diag);
    dop_stmt *waits = dop_waits_declare(gen, n);
    dop_waits_order(gen, p, order);
    for (uint32_t k = 0; gen->e.status == DOP_OK && k < p->n; k++) {
        const uint32_t i = order[k];
        const bool awaited = dop_region_part_is_awaited(gen->e.r, i);
        const uint32_t n_wg = dop_div_up_u32(p->part[i].rows, awaited ? each : each * sets);
        dop_product_part(gen, p, n, x, i, n_wg);
        const char *call = dop_waits_call(gen, i, dop_emit_str(&gen->e, "dop_part%u(wg - %uu);", i, first));
        first += n_wg;
        makers = awaited ? first : makers;
        dop_gen_call(&calls, call, k + 1 < p->n ? first : 0);
    }
    gen->grid[0] = first;
    dop_waits_define(gen, waits, makers, first - makers, NULL);
    return dop_product_finish(gen, n, NULL, &calls);
}

static dop_status
emit_few(dop_gen *gen)
{
    dop_emit *e = &gen->e;
    dop_parts p;
    dop_nest n;
    dop_buf done = {0};
    dop_status st = dop_gen_parts(gen, &p);
    if (st != DOP_OK)
        return st;
    const dop_few_piece piece = piece_in(gen);
    const dop_nest_placement pl = place_few(gen, &p);
    dop_product x = {.put = "dop_put_rows", .put_all = "0u", .get = get_few_row};
    gen->halves = piece.half && (e->routes || dop_region_has(e->r, dop_node_base(e->g, p.act, NULL)));
    open_few_nest(gen, &pl, &n);
    dop_nest_number(&n, "PIECE", piece.units);
    declare_few_rows(gen, &p, &n, &x);
    for (uint32_t i = 0; i < p.n_stats; i++)
        x.stats |= dop_nest_shared(&n, "float", dop_nest_text(&n, "dop_rs%u", i), stat_values(gen, &p));
    dop_product_sums(gen, &n, &x);
    (e->routes ? emit_receive_rows : emit_put_rows)(gen, &p, &n, &x, &done);
    x.done = dop_gen_keep(gen, &done);
    return emit_few_parts(gen, &p, &n, &x);
}

/* Chooses the tile: one workgroup per multiprocessor, or slightly fewer with equal shares. Every workgroup stages all rows of
 * the step, which takes about as long as its share of the weights. */
static void
choose_few_tile(const dop_site *s, dop_tile *tile)
{
    const dop_target *t = s->t;
    dop_products p = dop_products_of(s);
    const uint32_t unit = dop_products_unit(s->g, s->r), units = dop_div_up_u32(p.k, unit);
    const bool quant = dop_type_of(p.type)->kind == DOP_KIND_QUANT, large = t->max_workgroup >= 512 && t->cores > 1;
    const uint32_t piece = dop_few_piece_of(s, unit == INT_UNIT && quant, false).units;
    const uint32_t least = quant ? 8 : 16, most_wg = large ? 512 : tile->wg, step = t->subgroup * 2;
    uint64_t best = UINT64_MAX;
    tile->rows = p.most > 2 || p.k < t->schedule.few_long ? 1 : 2; /* two rows share a load of the activation */
    tile->unroll = 1;
    tile->lanes = least;
    tile->wg = most_wg;
    for (uint32_t lanes = least; lanes <= 128 && (lanes == least || lanes <= units); lanes *= 2)
        for (uint32_t wg = most_wg; wg >= most_wg / 2 && wg >= lanes && wg <= most_wg; wg -= step) {
            const uint32_t rows = wg / lanes * tile->rows, groups = dop_few_groups(s, rows);
            /* Staging a value takes 1.5 times as long as a weight. */
            const uint64_t cost = (uint64_t)(2 * rows * p.most + 3 * s->g->max_t) * dop_div_up_u32(groups, t->cores) *
                                  dop_div_up_u32(units, lanes) * lanes;
            /* Among tiles of equal cost, prefer more invocations, which stage faster: down of llama3.1-8b q4_k takes 23 us
             * for four rows instead of 31, and 18 instead of 25 for two. */
            const bool more = cost == best && wg > tile->wg && lanes <= t->subgroup;
            if (wg % lanes || wg % t->subgroup || (cost >= best && !more))
                continue;
            best = cost;
            tile->lanes = lanes;
            tile->wg = wg;
        }
    while (tile->lanes > 4 && (tile->lanes > units || tile->lanes > piece))
        tile->lanes /= 2;
}

static uint32_t
few_shared_bytes(dop_gen *gen)
{
    const dop_tile *tile = &gen->choice->tile;
    dop_parts p;
    if (dop_gen_parts(gen, &p) != DOP_OK)
        return 0; /* the error is reported at generation */
    const dop_site s = gen->site;
    const uint32_t n = s.g->max_t, subgroups = tile->wg / s.t->subgroup;
    const uint32_t sums = subgroups * (1 + s.r->info->product.most_mats * tile->rows * n);
    const dop_few_piece x = piece_in(gen);
    return n * x.units * x.bytes + (sums + p.n_stats * (subgroups > n ? subgroups : n)) * 4;
}

static dop_refusal
refuse_few(const dop_site *s)
{
    const dop_analysis *a = s->r->info;
    if (s->g->max_t < 2 || s->g->max_t > MOST_ROWS)
        return (dop_refusal){"it is for steps of 2 to 8 rows", NULL};
    if (a->product.staged || a->experts.slots > 1 || !dop_region_wide(s->g, s->r, a->product.act))
        return (dop_refusal){"it takes plain activations only, four at a time", NULL};
    if (s->t->subgroup < 8)
        return (dop_refusal){"subgroups are smaller than 8", NULL};
    return dop_products_refuse(s);
}

static dop_refusal
fits_few(const dop_site *s)
{
    dop_refusal no = refuse_few(s);
    if (no.why)
        return no;
    for (uint32_t i = 0; i < s->r->info->product.n_mats; i++) {
        const dop_node *n = dop_node_at(s->g, s->r->info->product.mats[i]);
        if (dop_weight_type_of(dop_node_at(s->g, n->src[1])->type)->unit != 8)
            return (dop_refusal){"blocks are too large for floats of several rows", "int_dot: prefer"};
    }
    return no;
}

static dop_refusal
fits_few_ints(const dop_site *s)
{
    dop_refusal no = refuse_few(s);
    return no.why ? no : dop_int8_refuses(s);
}

static const char *
avoid_for_matrix_units(const dop_site *s, bool less_time)
{
    if (s->t->cpu)
        return "sums across lanes are slow on CPU devices";
    bool units = dop_matrix_fit_of(s->t, s->g->max_t, dop_products_of(s).k) == DOP_MATRIX_FIT_yes;
    return units && !less_time ? "matrix units take less time for these rows" : NULL;
}

static const char *
avoid_few(const dop_site *s)
{
    return avoid_for_matrix_units(s, false);
}

/* Packed integers are faster than matrix units (matmul_coop_few) up to schedule.int_rows rows, and up to eight rows if there
 * are many columns: matrix units take about as long for one row as for sixteen. For float products the limit is lower. */
static const char *
avoid_few_ints(const dop_site *s)
{
    const char *no = dop_int8_avoid(s);
    const bool many = s->g->max_t <= MOST_ROWS && dop_products_of(s).rows >= s->t->schedule.int_many_columns;
    return no ? no : avoid_for_matrix_units(s, s->g->max_t <= s->t->schedule.int_rows || many);
}

/* Checks the tile with all rows of the step in every lane. */
static void
legal_few(dop_check *c)
{
    if (dop_team_legal(c))
        dop_lane_legal(c, c->s->g->max_t);
}

#define FEW                                                                                           \
    .tile = choose_few_tile, .shared = few_shared_bytes, .trips = dop_trips_gemv, .legal = legal_few, \
    .fields = DOP_FIELD(lanes) | DOP_FIELD(rows) | DOP_FIELD(loops) | DOP_FIELD(unroll)
#define STAGED .emit = emit_few, .as_stage = dop_few_stage

const dop_descriptor dop_descriptor_few = {FEW, STAGED, .fits = fits_few, .avoid = avoid_few, .stage = DOP_VARIANT_few};
const dop_descriptor dop_descriptor_few_i8 = {
    FEW, STAGED, .fits = fits_few_ints, .avoid = avoid_few_ints, .stage = DOP_VARIANT_few_i8, .ints = true};
