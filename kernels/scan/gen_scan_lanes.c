/* Linear recurrences row by row, with the state in vectors divided among lanes (gen_scan.c). */
#include "kernels/gen/legal.h"
#include "kernels/gen/templates.h"
#include "kernels/gen/trips.h"
#include "kernels/scan/gen_scan.h"

/* Declares sizes, shared memory, and the macros that store to it. */
static void
declare_scan(dop_scan_nest *o)
{
    static const char *const rows_of[] = {"q", "k", "e", "v", "decay", "beta"};
    dop_nest *n = &o->n;
    const uint32_t rows = o->rows, pitch = o->s.count / o->s.width;
    const uint32_t counts[] = {rows * pitch,  rows * pitch,         o->s.each ? rows * pitch : 0,
                               rows * o->s.p, o->s.each ? 0 : rows, o->s.delta ? rows : 0};
    dop_buf b = {0};
    for (uint32_t i = 0; i < 6; i++) {
        const char *name = dop_nest_text(n, "scan_%s", rows_of[i]), letter = "QKEVDB"[i];
        if (counts[i] > 0)
            o->staged |= dop_nest_shared(n, i < 3 ? o->vec : "float", name, counts[i]);
        dop_buf_printf(&b, "#define DOP_S%c_PUT(i, x) %s[i] = x\n#define DOP_S%c_PUT1(i, x) %s[%s] = x\n", letter, name,
                       letter, name, i < 3 && o->s.width == 4 ? "(i) >> 2][(i) & 3u" : "i");
    }
    dop_nest_hole(n, "stores", dop_gen_keep(o->gen, &b));
    DOP_LIBRARY(o->gen, n, NULL, {"P", o->s.p}, {"N", o->s.count}, {"W", o->s.width}, {"L", o->lanes}, {"R", o->r},
                {"J", o->j}, {"ROWS", rows}, {"LK", pitch}, {"TEAMS", o->gen->choice->tile.wg / o->lanes});
}

/* Begins loops over the state vectors s[r * J + j] of an invocation, each initialized to `value` (NULL: not). The innermost
 * block is conditional: it covers vectors inside the state, at row p, column n and index c. */
static void
each_vector(dop_scan_nest *o, const char *value)
{
    dop_nest *n = &o->n;
    dop_nest_unrolled(n, "r", o->r);
    dop_nest_unrolled(n, "j", o->j);
    dop_nest_let(n, "uint", "p", "team + r * TEAMS");
    dop_nest_let(n, "uint", "n", "(part + j * L) * W");
    dop_nest_let(n, "uint", "c", "(h * P + p) * N + n");
    if (value)
        dop_nest_set(n, "s[r * J + j]", "%s", value);
    dop_nest_if(n, "p < P && n < N");
}

/* Emits code that saves the state after the last row, or after `row` (an expression) if there are enough copies for every
 * row. */
static void
save_state(dop_scan_nest *o, const char *row)
{
    const dop_graph *g = o->gen->e.g;
    if (g->keeps_each)
        dop_nest_if(&o->n, "rows - begin %s %uu", row ? "<" : ">=", g->copies);
    dop_scan_place(o, row);
    each_vector(o, NULL);
    dop_scan_save(o, "s[r * J + j]", !row);
    dop_nest_ends(&o->n, g->keeps_each ? 4 : 3);
}

/* Adds up a value over the lanes that share a row of the state. */
static void
sum_lanes(dop_scan_nest *o, const char *place)
{
    const uint32_t sg = o->gen->choice->tile.subgroup ? o->gen->e.target->subgroup : 1;
    if (o->lanes == sg && sg > 1)
        dop_nest_reduce(&o->n, place, "subgroupAdd(%s)", place);
    for (uint32_t i = o->lanes == sg ? 0 : o->lanes / 2; i > 0; i /= 2)
        dop_nest_reduce(&o->n, place, "%s + subgroupShuffleXor(%s, %uu)", place, place, i);
}

/* Emits the recurrence for chunks of one row (c = 1). */
static void
row_by_row(dop_scan_nest *o)
{
    static const char *const both[] = {"k", "q"};
    const char *dot = o->s.width == 4 ? "dot(%s, %s)" : "%s * %s";
    dop_nest *n = &o->n;
    dop_nest_for(n, "i", "0u", o->spare ? "rows - first" : "count", NULL);
    if (o->s.each) {
        dop_nest_unrolled(n, "j", o->j);
        dop_nest_let(n, "uint", "n", "part + j * L");
        dop_nest_let(n, o->vec, "each", "n * W < N ? scan_e[i * LK + n] : %s", o->zero)->reads = o->staged;
        dop_nest_each(n, "r", o->r, "s[r * J + j]", "s[r * J + j] * each");
        dop_nest_end(n);
    }
    dop_nest_let(n, "float", "decay", o->s.each ? "1.0" : "scan_decay[i]")->reads = o->staged;
    for (uint32_t i = 0; i < 2; i++)
        dop_nest_array(n, o->vec, both[i], o->j);
    dop_nest_let(n, "float", "meet", "0.0");
    dop_nest_unrolled(n, "j", o->j);
    dop_nest_let(n, "uint", "n", "part + j * L");
    for (uint32_t i = 0; i < 2; i++)
        dop_nest_set(n, i ? "q[j]" : "k[j]", "n * W < N ? scan_%s[i * LK + n] : %s", both[i], o->zero)->reads =
            o->staged;
    dop_nest_dot(n, "meet", dot, "k[j]", "q[j]");
    dop_nest_end(n);
    sum_lanes(o, "meet");
    dop_nest_unrolled(n, "r", o->r);
    dop_nest_let(n, "uint", "p", "team + r * TEAMS");
    dop_nest_let(n, "float", "add", "p < P ? scan_v[i * P + p] : 0.0")->reads = o->staged;
    dop_nest_let(n, "float", "sum", "0.0");
    dop_nest_each(n, "j", o->j, "sum", dot, "s[r * J + j]", "q[j]")->step = "+";
    if (o->s.delta) {
        dop_nest_let(n, "float", "old", "0.0");
        dop_nest_each(n, "j", o->j, "old", dot, "s[r * J + j]", "k[j]")->step = "+";
        sum_lanes(o, "old");
        dop_nest_set(n, "add", "scan_beta[i] * (add - decay * old)");
    }
    sum_lanes(o, "sum"); /* (decay S + add k) q, without waiting for the new S */
    dop_nest_set(n, "sum", "decay * sum + add * meet");
    dop_nest_each(n, "j", o->j, "s[r * J + j]", "decay * s[r * J + j] + add * k[j]");
    dop_nest_if(n, "part == 0u && p < P");
    dop_nest_store(n, o->results, "scan_v[i * P + p]", "sum");
    dop_nest_ends(n, 2);
    if (o->gen->e.g->keeps_each)
        save_state(o, "i");
    dop_nest_end(n);
}

static dop_status
emit_scan(dop_gen *gen)
{
    const dop_tile *tile = &gen->choice->tile;
    const dop_scan s = dop_scan_at(&gen->site);
    dop_scan_nest o = {.rows = tile->bq,
                       .lanes = tile->lanes,
                       .r = dop_div_up_u32(s.p, tile->wg / tile->lanes),
                       .j = dop_div_up_u32(s.count, tile->lanes * s.width),
                       .vec = s.width == 4 ? "vec4" : "float",
                       .zero = s.width == 4 ? "vec4(0.0)" : "0.0"};
    dop_nest_placement pl = {.at = {{[DOP_LEVEL_loop] = o.rows},
                                    {[DOP_LEVEL_group] = tile->wg / o.lanes, [DOP_LEVEL_reg] = o.r},
                                    {[DOP_LEVEL_lane] = o.lanes, [DOP_LEVEL_reg] = o.j}},
                             .sum = o.lanes > 1 ? DOP_MEET_lanes : DOP_MEET_none};
    dop_nest *n = &o.n;
    dop_scan_open(&o, gen, &pl);
    declare_scan(&o);
    dop_scan_begin(&o);
    dop_nest_let(n, "uint", "part", "gl_LocalInvocationIndex %% L");
    dop_nest_let(n, "uint", "team", "gl_LocalInvocationIndex / L");
    dop_nest_let(n, "uint", "lane", "gl_LocalInvocationIndex %% SG");
    dop_nest_array(n, o.vec, "s", o.r * o.j);
    const char *load = dop_scan_load(&o);
    each_vector(&o, o.zero);
    dop_nest_set(n, "s[r * J + j]", "%s", load);
    dop_nest_ends(n, 3);
    const char *end = o.spare ? "places" : "rows";
    dop_nest_for(n, "first", "begin", end, "ROWS");
    dop_nest_let(n, "uint", "count", "min(ROWS, %s - first)", end);
    dop_scan_stage(&o);
    row_by_row(&o);
    dop_scan_finish(&o, "P");
    dop_nest_end(n);
    save_state(&o, NULL);
    dop_nest_end(n);
    return dop_gen_print_nest(gen, n);
}

/* Returns the bytes of shared memory for q, k, v, decays and beta of `rows` rows. */
static uint32_t
scan_rows_bytes(const dop_scan *s, uint32_t rows)
{
    return rows * ((s->each ? 3 : 2) * s->count + s->p + 2) * 4;
}

static uint32_t
scan_shared_bytes(dop_gen *gen)
{
    const dop_scan s = dop_scan_at(&gen->site);
    return scan_rows_bytes(&s, gen->choice->tile.bq);
}

/* Returns the number of lanes that share a row of the state. On a CPU device it is 1: joint loads would not be wider, and
 * sums across lanes would dominate the code. */
static uint32_t
count_scan_lanes(const dop_site *site, const dop_scan *s)
{
    const dop_target *t = site->t;
    uint32_t lanes = t->subgroup < t->schedule.scan_lanes ? t->subgroup : t->schedule.scan_lanes;
    if (t->cpu)
        return 1;
    while (lanes > 1 && lanes > s->count / s->width)
        lanes /= 2;
    return lanes;
}

/* Chooses the tile. A workgroup holds the state of a head; on a CPU device it is one subgroup, whose barriers are free. */
static void
choose_scan_tile(const dop_site *site, dop_tile *tile)
{
    const dop_scan s = dop_scan_at(site);
    const dop_target *t = site->t;
    uint32_t room = t->shared_bytes / 2 / scan_rows_bytes(&s, 1), most = tile->wg;
    tile->lanes = tile->subgroup ? count_scan_lanes(site, &s) : 1;
    tile->wg = tile->subgroup ? t->subgroup : 32;
    while (!(t->cpu && tile->subgroup) && tile->wg * 2 <= most && tile->wg < s.p * tile->lanes)
        tile->wg *= 2;
    tile->bq = site->g->max_t < t->schedule.scan_rows ? site->g->max_t : t->schedule.scan_rows;
    if (tile->bq > room)
        tile->bq = room ? room : 1;
}

/* Chooses the tile of a stage: one workgroup per head, as in an ordinary dispatch. It prefetches its state while values of
 * the rows are computed. All rows are staged at once, because each staging waits for other stages. */
static const char *
scan_as_stage(const dop_site *site, dop_tile *tile)
{
    const dop_scan s = dop_scan_at(site);
    tile->lanes = count_scan_lanes(site, &s);
    tile->bq = site->g->max_t;
    if (tile->bq > 1 && scan_rows_bytes(&s, tile->bq) > site->t->shared_bytes / 2)
        return "the rows of a recurrence take too much shared memory";
    return dop_scan_fits(site).why;
}

/* Returns the loop trip count, with the staging of rows counted value by value. */
static uint64_t
trips_scan(const dop_site *site, const dop_tile *tile)
{
    const dop_scan_facts *facts = &site->r->info->scan;
    const dop_scan s = dop_scan_at(site);
    const uint32_t sg = site->t->subgroup, lanes = tile->subgroup ? sg : tile->wg, teams = tile->wg / lanes;
    const uint32_t rows = tile->bq ? tile->bq : 1, halvings = dop_halvings(tile->lanes);
    uint64_t staged = dop_turns((uint64_t)rows * s.p, tile->wg) +
                      2 * dop_turns((uint64_t)rows * s.count, (uint64_t)tile->wg * s.width) + 8;
    for (uint32_t i = 0; i < 2; i++)
        if (facts->heads[i].n_nodes)
            staged += dop_turns(rows, teams) * dop_trips_program(site, &facts->heads[i], s.count, lanes);
    if (facts->behind.n_nodes)
        staged += dop_turns(rows, teams) * dop_trips_program(site, &facts->behind, s.p, lanes);
    return (dop_turns(site->g->max_t, rows) + site->g->max_q) *
               (staged + rows * (1ull + (tile->lanes > 1 && tile->lanes != sg ? 2 * halvings : 0)) + 1) +
           256;
}

/* Checks the tile. Groups of lanes, which reduce by shuffles, divide the rows of a head's state; a lane holds `held` vectors
 * of it. */
static void
legal_scan(dop_check *c)
{
    const dop_scan s = dop_scan_at(c->s);
    const dop_tile *t = c->tile;
    dop_check_range(c, DOP_TILE_NO_bq, 1, c->s->g->max_t);
    if (!dop_check_power(c, DOP_TILE_NO_lanes, 1, t->subgroup ? c->s->t->subgroup : 1))
        return;
    const uint64_t held = (uint64_t)dop_div_up_u32(s.p, t->wg / t->lanes) * dop_div_up_u32(s.count, t->lanes * s.width);
    dop_check_most(c, DOP_TILE_NO_wg, held * s.width, DOP_MOST_STATE, "values of the state of an invocation");
}

#define SCAN                                                                                         \
    .fits = dop_scan_fits, .tile = choose_scan_tile, .shared = scan_shared_bytes, .emit = emit_scan, \
    .trips = trips_scan, .legal = legal_scan
#define SCAN_STAGE .stage = DOP_VARIANT_scan_subgroup

const dop_descriptor dop_descriptor_scan = {SCAN, SCAN_STAGE, .fields = DOP_FIELD(bq)};
const dop_descriptor dop_descriptor_scan_subgroup = {SCAN, SCAN_STAGE, .as_stage = scan_as_stage,
                                                     .fields = DOP_FIELD(bq) | DOP_FIELD(lanes)};
