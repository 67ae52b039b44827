/* Linear recurrences whose state lies in vectors among lanes: row by row, and in chunks (gen_scan.c). */
#include "kernels/gen_scan.h"

/* Declares sizes, shared memory, and the macros that store in it.  In a chunk each row of q, k and decays of single columns is padded by
 * a vector against bank conflicts. */
static void
declare(dop_scan_nest *o)
{
    static const char *const rows_of[] = {"q", "k", "e", "v", "decay", "beta"};
    static const char *const products[] = {"scan_from", "scan_to", "scan_qk", "scan_kk"};
    dop_nest *n = &o->n;
    const uint32_t rows = o->rows, pitch = o->s.count / o->s.width + o->chunks;
    const uint32_t counts[] = {rows * pitch,  rows * pitch,         o->s.each ? rows * pitch : 0,
                               rows * o->s.p, o->s.each ? 0 : rows, o->s.delta || o->chunks ? rows : 0};
    dop_buf b = {0};
    dop_buf_printf(&b, "#define DOP_AT(i) %s\n", o->chunks ? "((i) / (N / 4u) * LK + (i) % (N / 4u))" : "(i)");
    for (uint32_t i = 0; i < 6; i++) {
        const char *name = dop_nest_text(n, "scan_%s", rows_of[i]), letter = "QKEVDB"[i];
        if (counts[i] > 0)
            o->staged |= dop_nest_shared(n, i < 3 ? o->vec : "float", name, counts[i]);
        dop_buf_printf(&b, "#define DOP_S%c_PUT(i, x) %s[DOP_AT(i)] = x\n#define DOP_S%c_PUT1(i, x) %s[%s] = x\n",
                       letter, name, letter, name, i < 3 && o->s.width == 4 ? "DOP_AT((i) >> 2)][(i) & 3u" : "i");
    }
    for (uint32_t i = 0; i < 3u + o->s.delta && o->chunks; i++)
        o->products |= dop_nest_shared(n, i < 2 ? "float" : "vec4", products[i], i < 2 ? rows : rows * (rows / 4 + 1));
    dop_nest_hole(n, "stores", dop_gen_keep(o->gen, &b));
    DOP_LIBRARY(o->gen, n, o->chunks ? "scan_chunk.glsl" : NULL, {"P", o->s.p}, {"N", o->s.count}, {"W", o->s.width},
                {"L", o->lanes}, {"R", o->r}, {"J", o->j}, {"ROWS", rows}, {"LK", pitch}, {"LM", rows / 4 + 1},
                {"GROUPS", rows / o->lanes}, {"TEAMS", o->gen->choice->tile.wg / o->lanes}, {"#DELTA", o->s.delta});
}

/* Begins statements for each vector s[r * J + j] of the state that an invocation has: a value, then under a condition those for vectors
 * inside the state, at row p, column n and place c. */
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

/* The state after the last row, or after a row (an expression), of which every one leaves a state where there are copies enough. */
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

/* Adds up a value over the lanes of a team. */
static void
sum_lanes(dop_scan_nest *o, const char *place)
{
    const uint32_t sg = o->gen->choice->tile.subgroup ? o->gen->e.target->subgroup : 1;
    if (o->lanes == sg && sg > 1)
        dop_nest_reduce(&o->n, place, "subgroupAdd(%s)", place);
    for (uint32_t i = o->lanes == sg ? 0 : o->lanes / 2; i > 0; i /= 2)
        dop_nest_reduce(&o->n, place, "%s + subgroupShuffleXor(%s, %uu)", place, place, i);
}

/* c = 1 */
static void
row_by_row(dop_scan_nest *o)
{
    static const char *const both[] = {"k", "q"};
    const char *dot = o->s.width == 4 ? "dot(%s, %s)" : "%s * %s";
    dop_nest *n = &o->n;
    dop_nest_for(n, "i", "0u", "count", NULL);
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

/* Sums of L rows at once over the lanes of a team: lane `part` gets that of row `part`, in x[0].  The steps are written out, so that
 * the rows stay in registers. */
static void
sum_rows(dop_scan_nest *o, const char *x, const char *rows)
{
    dop_nest *n = &o->n;
    const char *place = dop_nest_text(n, "%s[u]", x);
    dop_nest_array(n, "float", x, o->lanes);
    dop_nest_each(n, "u", o->lanes, place, "%s[r * L + u]", rows);
    for (uint32_t half = o->lanes / 2; half > 0; half /= 2) {
        dop_nest_unrolled(n, "u", half);
        dop_nest_let(n, "bool", "upper", "(part & %uu) != 0u", half);
        dop_nest_let(n, "float", "give", "upper ? %s[u] : %s[u + %uu]", x, x, half);
        dop_nest_reduce(n, place, "(upper ? %s[u + %uu] : %s[u]) + subgroupShuffleXor(give, %uu)", x, half, x, half);
        dop_nest_end(n);
    }
}

/* What the state from before a chunk gives each row: y = S q, and with a delta rule S k, which makes v what the row adds. */
static void
multiply_state(dop_scan_nest *o)
{
    static const char *const sums[] = {"sum[r * L + u]", "old[r * L + u]"}, *const names[] = {"q", "k"};
    dop_nest *n = &o->n;
    dop_nest_array(n, "float", "y", o->r * (o->rows / o->lanes));
    dop_nest_unrolled(n, "b", o->rows / o->lanes);
    for (uint32_t m = 0; m <= o->s.delta; m++)
        dop_nest_zeros(n, m ? "old" : "sum", o->r * o->lanes);
    dop_nest_unrolled(n, "u", o->lanes);
    dop_nest_unrolled(n, "j", o->j);
    dop_nest_let(n, "uint", "n", "part + j * L");
    dop_nest_if(n, "n * 4u < N");
    for (uint32_t m = 0; m <= o->s.delta; m++) {
        dop_nest_let(n, "vec4", names[m], "scan_%s[(b * L + u) * LK + n]", names[m])->reads = o->staged;
        dop_nest_each(n, "r", o->r, sums[m], "dot(s[r * J + j], %s)", names[m])->step = "+";
    }
    dop_nest_ends(n, 3);
    dop_nest_let(n, "uint", "i", "b * L + part");
    dop_nest_unrolled(n, "r", o->r);
    sum_rows(o, "of_q", "sum");
    dop_nest_set(n, "y[r * GROUPS + b]", "scan_from[i] * of_q[0]")->reads = o->products;
    if (o->s.delta) {
        dop_nest_let(n, "uint", "p", "team + r * TEAMS");
        sum_rows(o, "of_k", "old");
        dop_nest_if(n, "p < P");
        dop_nest_store(n, o->added, "scan_v[i * P + p]", "scan_beta[i] * (scan_v[i * P + p] - scan_from[i] * of_k[0])");
        dop_nest_end(n);
    }
    dop_nest_ends(n, 2);
}

static const char four_rows[] = "vec4(scan_v[at], scan_v[at + P], scan_v[at + 2u * P], scan_v[at + 3u * P])";

/* c > 1: the state is met before and after, and rows meet each other in between. */
static void
by_chunk(dop_scan_nest *o)
{
    dop_nest *n = &o->n;
    dop_nest_library(n, "scan_products", "count", o->staged, o->products);
    multiply_state(o);
    if (o->s.delta) { /* what each row adds depends on the rows before it, but every column is independent */
        dop_nest_for(n, "p", "gl_LocalInvocationIndex", "P", "WG")->apart = true;
        dop_nest_for(n, "i", "1u", "count", NULL);
        dop_nest_let(n, "vec4", "x", "vec4(0.0)");
        dop_nest_for(n, "j", "0u", "(i + 3u) / 4u", NULL);
        dop_nest_let(n, "uint", "at", "4u * j * P + p");
        dop_nest_add(n, "x", "scan_kk[i * LM + j] * %s", four_rows)->reads = o->added;
        dop_nest_end(n);
        dop_nest_store(n, o->solved, "scan_v[i * P + p]", "scan_v[i * P + p] - ((x.x + x.y) + (x.z + x.w))");
        dop_nest_ends(n, 2);
    }
    dop_nest_unrolled(n, "b", o->rows / o->lanes);
    dop_nest_let(n, "uint", "i", "b * L + part");
    dop_nest_for(n, "j", "0u", "(b * L + L + 3u) / 4u", NULL);
    dop_nest_let(n, "vec4", "m", "scan_qk[i * LM + j]")->reads = o->products;
    dop_nest_unrolled(n, "r", o->r);
    dop_nest_let(n, "uint", "at", "4u * j * P + min(team + r * TEAMS, P - 1u)");
    dop_nest_add(n, "y[r * GROUPS + b]", "dot(m, %s)", four_rows)->reads = o->staged | o->solved;
    dop_nest_ends(n, 3);
    dop_nest_let(n, "float", "all", "scan_from[ROWS - 1u]");
    dop_nest_each(n, "i", o->r * o->j, "s[i]", "s[i] * all");
    dop_nest_for(n, "i", "0u", "count", NULL);
    dop_nest_let(n, "float", "to", "scan_to[i]")->reads = o->products;
    dop_nest_array(n, "vec4", "k", o->j);
    dop_nest_each(n, "j", o->j, "k[j]", "(part + j * L) * W < N ? scan_k[i * LK + part + j * L] : vec4(0.0)")->reads =
        o->staged;
    dop_nest_unrolled(n, "r", o->r);
    dop_nest_let(n, "float", "x", "to * scan_v[i * P + min(team + r * TEAMS, P - 1u)]")->reads = o->solved;
    dop_nest_each(n, "j", o->j, "s[r * J + j]", "x * k[j]")->step = "+";
    dop_nest_ends(n, 2);
    dop_nest_unrolled(n, "b", o->rows / o->lanes);
    dop_nest_unrolled(n, "r", o->r);
    dop_nest_let(n, "uint", "i", "b * L + part");
    dop_nest_let(n, "uint", "p", "team + r * TEAMS");
    dop_nest_if(n, "i < count && p < P");
    dop_nest_store(n, o->all, "scan_v[i * P + p]", "y[r * GROUPS + b]");
    dop_nest_ends(n, 3);
}

static bool
in_chunks(const dop_gen *gen)
{
    return gen->descriptor == &dop_descriptor_scan_chunks;
}

static dop_status
emit(dop_gen *gen)
{
    const bool chunks = in_chunks(gen);
    const dop_tile *tile = &gen->choice->tile;
    const dop_scan s = dop_scan_of(gen);
    dop_scan_nest o = {.chunks = chunks,
                       .rows = tile->bq,
                       .lanes = tile->lanes,
                       .r = dop_div_up_u32(s.p, tile->wg / tile->lanes),
                       .j = dop_div_up_u32(s.count, tile->lanes * s.width),
                       .vec = s.width == 4 ? "vec4" : "float",
                       .zero = s.width == 4 ? "vec4(0.0)" : "0.0"};
    dop_nest_placement pl = {.at = {{[DOP_LEVEL_loop] = chunks ? 0 : o.rows, [DOP_LEVEL_reg] = chunks ? o.rows : 0},
                                    {[DOP_LEVEL_group] = tile->wg / o.lanes, [DOP_LEVEL_reg] = o.r},
                                    {[DOP_LEVEL_lane] = o.lanes, [DOP_LEVEL_reg] = o.j}},
                             .sum = o.lanes > 1 ? DOP_MEET_lanes : DOP_MEET_none};
    dop_nest *n = &o.n;
    dop_scan_open(&o, gen, &pl);
    declare(&o);
    dop_scan_begin(&o);
    dop_nest_let(n, "uint", "part", "gl_LocalInvocationIndex %% L");
    dop_nest_let(n, "uint", "team", "gl_LocalInvocationIndex / L");
    dop_nest_let(n, "uint", "lane", "gl_LocalInvocationIndex %% SG");
    dop_nest_array(n, o.vec, "s", o.r * o.j);
    const char *load = dop_scan_load(&o);
    each_vector(&o, o.zero);
    dop_nest_set(n, "s[r * J + j]", "%s", load);
    dop_nest_ends(n, 3);
    if (chunks)
        dop_nest_library(n, "scan_clear", "", 0, o.products);
    dop_nest_for(n, "first", "begin", "rows", "ROWS");
    dop_nest_let(n, "uint", "count", "min(ROWS, rows - first)");
    if (chunks)
        dop_nest_library(n, "scan_pad", "count", 0, o.all);
    dop_scan_stage(&o);
    (chunks ? by_chunk : row_by_row)(&o);
    dop_scan_finish(&o, "P");
    dop_nest_end(n);
    save_state(&o, NULL);
    dop_nest_end(n);
    return dop_gen_print_nest(gen, n);
}

/* Bytes of shared memory for so many rows: q, k, v, decays and beta; in a chunk also the products of the rows with one another (two
 * matrices for the delta rule) and decays to and from each row.  Rows of a chunk are padded by a vector. */
static uint32_t
bytes_of(const dop_scan *s, uint32_t rows, bool chunks)
{
    const uint32_t pad = chunks ? 4 : 0, products = chunks ? (s->delta ? 2 : 1) * (rows + 4) + 2 : 0;
    return rows * ((s->each ? 3 : 2) * (s->count + pad) + products + s->p + 2) * 4;
}

static uint32_t
shared_bytes(dop_gen *gen)
{
    const dop_scan s = dop_scan_of(gen);
    return bytes_of(&s, gen->choice->tile.bq, in_chunks(gen));
}

/* Invocations that share a row of the state.  On a CPU device a lane has whole rows: its loads are no wider together, and sums
 * across lanes would make up most of the code. */
static uint32_t
lanes_of(const dop_site *site, const dop_scan *s)
{
    const dop_target *t = site->t;
    uint32_t lanes = t->subgroup < t->schedule.scan_lanes ? t->subgroup : t->schedule.scan_lanes;
    if (t->cpu)
        return 1;
    while (lanes > 1 && lanes > s->count / s->width)
        lanes /= 2;
    return lanes;
}

/* The tile of a recurrence row by row: a workgroup has the state of a head; on a CPU device it is one subgroup, whose barriers cost
 * nothing. */
static void
tile_of(const dop_site *site, dop_tile *tile)
{
    const dop_scan s = dop_scan_at(site);
    const dop_target *t = site->t;
    uint32_t room = t->shared_bytes / 2 / bytes_of(&s, 1, false), most = tile->wg;
    tile->lanes = tile->subgroup ? lanes_of(site, &s) : 1;
    tile->wg = tile->subgroup ? t->subgroup : 32;
    while (!(t->cpu && tile->subgroup) && tile->wg * 2 <= most && tile->wg < s.p * tile->lanes)
        tile->wg *= 2;
    tile->bq = site->g->max_t < t->schedule.scan_rows ? site->g->max_t : t->schedule.scan_rows;
    if (tile->bq > room)
        tile->bq = room ? room : 1;
}

/* The tile of a recurrence in chunks, which have as many rows as the shared memory holds, at most schedule.scan_chunk. */
static void
tile_of_chunks(const dop_site *site, dop_tile *tile)
{
    enum { SUMS = 256 }; /* most bytes that common.glsl uses for reductions */
    const dop_scan s = dop_scan_at(site);
    tile_of(site, tile);
    const uint32_t least = site->t->schedule.scan_chunk_least, chunk = site->t->schedule.scan_chunk,
                   step = tile->lanes > least ? tile->lanes : least;
    tile->bq = (chunk / step > 0 ? chunk / step : 1) * step;
    while (tile->bq > step &&
           (tile->bq - step >= site->g->max_t || bytes_of(&s, tile->bq, true) + SUMS > site->t->shared_bytes))
        tile->bq -= step;
}

/* Can the recurrence be computed in chunks?  An invocation multiplies its part of the state with as many rows at a time as lanes
 * share a row of the state, in code without loops, so that its part must be small. */
static dop_refusal
fits_chunks(const dop_site *site)
{
    const dop_scan s = dop_scan_at(site);
    dop_tile tile = {.wg = dop_wg_of(site->t, site->t->schedule.workgroup), .subgroup = true};
    if (s.each)
        return (dop_refusal){"every column of the state decays by itself", NULL};
    if (s.width != 4)
        return (dop_refusal){"rows of the state are no multiple of 4 values", NULL};
    tile_of(site, &tile);
    uint32_t rows = dop_div_up_u32(s.p, tile.wg / tile.lanes), vectors = dop_div_up_u32(s.count, tile.lanes * 4);
    if (rows * vectors * tile.lanes > site->t->schedule.scan_chunk_products)
        return (dop_refusal){"an invocation would have too much of the state", NULL};
    return dop_scan_keeps_last(site);
}

static const char *
avoid_chunks(const dop_site *s)
{
    if (dop_graph_mixes(s->g))
        return "the step has rows of several sequences, few of each";
    if (s->g->max_t < s->t->schedule.scan_chunk_least)
        return "fewer rows than a chunk";
    /* Lanes wait for shared memory instead of the previous row's state.  A software device takes seconds to compile chunks. */
    return s->t->schedule.scan_chunks && !s->t->cpu ? NULL : "row by row was not slower where it was measured";
}

/* The tile of a stage: a workgroup for each head, as in an ordinary dispatch; it prefetches its state while the row's values are
 * computed. */
static const char *
as_stage(const dop_site *site, dop_tile *tile)
{
    const dop_scan s = dop_scan_at(site);
    tile->lanes = lanes_of(site, &s);
    tile->bq = 1;
    return dop_scan_fits(site).why;
}

/* Iterations row by row; the staging of rows is counted value by value. */
static uint64_t
trips(const dop_site *site, const dop_tile *tile)
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

/* Iterations in chunks: also the products of a chunk's rows with one another, and the solution of each column. */
static uint64_t
trips_in_chunks(const dop_site *site, const dop_tile *tile)
{
    const dop_scan s = dop_scan_at(site);
    const uint64_t rows = tile->bq;
    const uint64_t pairs = dop_turns((rows / 2 + 1) * (rows / 2 + 2) / 2, tile->wg) * (s.count / 4 + rows + 4);
    const uint64_t columns = dop_turns(s.p, tile->wg) * rows * (rows / 8 + 3);
    const uint64_t padding = 4 * dop_turns(rows * (s.count + s.p), tile->wg);
    const uint64_t own =
        pairs + dop_turns(rows, tile->wg) * (rows + 2) + columns + padding + rows * rows / 4 + 4 * rows;
    return trips(site, tile) + (dop_turns(site->g->max_t, rows) + site->g->max_q) * own;
}

const dop_descriptor dop_descriptor_scan_chunks = {
    .fits = fits_chunks,
    .avoid = avoid_chunks,
    .tile = tile_of_chunks,
    .shared = shared_bytes,
    .emit = emit,
    .trips = trips_in_chunks,
};
const dop_descriptor dop_descriptor_scan = {
    .fits = dop_scan_fits,
    .tile = tile_of,
    .shared = shared_bytes,
    .emit = emit,
    .trips = trips,
    .stage = DOP_VARIANT_scan_subgroup,
};
const dop_descriptor dop_descriptor_scan_subgroup = {
    .fits = dop_scan_fits,
    .tile = tile_of,
    .shared = shared_bytes,
    .emit = emit,
    .trips = trips,
    .stage = DOP_VARIANT_scan_subgroup,
    .as_stage = as_stage,
};
