/* Linear recurrences: a head's state stays in registers while the rows of the step are processed one by one (scan.glsl) or,
 * where there are many, in chunks, whose rows do not wait for each other (scan_chunks.glsl). */
#include "kernels/gen_scan.h"

#include <string.h>

dop_scan
dop_scan_at(const dop_site *s)
{
    const dop_graph *g = s->g;
    const dop_node *n = dop_node_at(g, s->r->info->scan.root);
    const dop_shape *q = &dop_node_at(g, n->src[0])->shape, *v = &dop_node_at(g, n->src[2])->shape;
    uint32_t count = q->dim[2].mul;
    return (dop_scan){n,     v->dim[1].mul,          v->dim[2].mul, q->dim[1].mul,
                      count, count % 4 == 0 ? 4 : 1, n->n_srcs > 6, dop_node_at(g, n->src[3])->shape.rank == 3};
}

dop_scan
dop_scan_of(const dop_gen *gen)
{
    return dop_scan_at(&(dop_site){gen->e.g, gen->e.r, gen->e.target, gen->e.routes});
}

/* Staging of q, k or v: code that puts `count` values of each staged row, from column `base` on, into shared memory, with the
 * macro `put` for four values, or `put`1 for one. */
static void
stage_values(dop_gen *gen, dop_node_id src, uint32_t count, const char *base, const char *put, uint32_t most,
             dop_buf *body)
{
    dop_emit *e = &gen->e;
    dop_buf *inner = dop_gen_text(gen);
    uint32_t width = most == 4 && count % 4 == 0 && dop_emit_wide(e, src) ? 4 : 1;
    const char *t = e->g->max_t == 1 ? "0u" : "t";
    dop_emit_scope(e, inner, "            ");
    const char *x = dop_emit_value(e, src, (dop_index){t, "c"}, width);
    dop_emit_line(e, width == 4 ? "%s(at >> 2, %s);" : "%s1(at, %s);", put, x);
    dop_buf_printf(body,
                   "        for (uint at = gl_LocalInvocationIndex * %uu; at < count * %uu; at += WG * %uu) {\n"
                   "            uint t = first + at / %uu, c = %s + at %% %uu;\n%s        }\n",
                   width, count, width, count, base, count, dop_buf_text(inner));
}

void
dop_scan_head(dop_gen *gen, const dop_scan *s, uint32_t which, dop_buf *body)
{
    dop_emit *e = &gen->e;
    const dop_program *made = &e->r->info->scan.heads[which];
    uint32_t n_binds = e->n_binds;
    dop_rowprog p = {.nodes = made->nodes,
                     .n_nodes = made->n_nodes,
                     .len = s->count,
                     .t = e->g->max_t == 1 ? "0u" : "t",
                     .unit = "g",
                     .lanes = gen->choice->tile.subgroup ? e->target->subgroup : 0,
                     .lane = "lane",
                     .staged = s->n->src[which],
                     .stage = which ? "DOP_SK" : "DOP_SQ",
                     .stage_base = "row * N",
                     .serial = which};
    dop_gen_rowprog(gen, &p, body);
    e->n_binds = n_binds;
}

/* Heads of q or k: one subgroup per head, or the whole workgroup for one head after the other. */
static void
stage_heads(dop_gen *gen, const dop_scan *s, dop_buf *body)
{
    const dop_analysis *a = gen->e.r->info;
    uint32_t jobs = 0, job = 0;
    for (uint32_t i = 0; i < 2; i++)
        jobs += a->scan.heads[i].n_nodes > 0;
    if (jobs == 0)
        return;
    if (gen->choice->tile.subgroup)
        dop_buf_printf(
            body, "    for (uint job = gl_LocalInvocationIndex / SG; job < count * %uu; job += SUBGROUPS) {\n", jobs);
    else
        dop_buf_printf(body, "    for (uint job = 0u; job < count * %uu; job++) {\n", jobs);
    dop_buf_printf(body, "    uint row = job / %uu, t = first + row;\n", jobs);
    for (uint32_t i = 0; i < 2; i++) {
        if (a->scan.heads[i].n_nodes == 0)
            continue;
        dop_buf_printf(body, "    if (job %% %uu == %uu) {\n", jobs, job++);
        dop_scan_head(gen, s, i, body);
        dop_buf_puts(body, "    }\n");
    }
    dop_buf_puts(body, "    }\n");
}

static void
stage(dop_gen *gen, const dop_scan *s, dop_buf *body)
{
    const dop_analysis *a = gen->e.r->info;
    const char *head = dop_emit_str(&gen->e, "h * P");
    for (uint32_t i = 0; i < 2; i++)
        if (a->scan.heads[i].n_nodes == 0)
            stage_values(gen, s->n->src[i], s->count, "g * N", i ? "DOP_SK_PUT" : "DOP_SQ_PUT", s->width, body);
    stage_heads(gen, s, body);
    stage_values(gen, s->n->src[2], s->p, head, "DOP_SV_PUT", 1, body);
    if (s->each)
        stage_values(gen, s->n->src[3], s->count, "h * N", "DOP_SE_PUT", s->width, body);
    else
        stage_values(gen, s->n->src[3], 1, "h", "DOP_SD_PUT", 1, body);
    if (s->delta)
        stage_values(gen, s->n->src[6], 1, "h", "DOP_SB_PUT", 1, body);
}

void
dop_scan_behind(dop_gen *gen, const dop_scan *s, const char *stride, const char *store_if, dop_buf *body)
{
    dop_emit *e = &gen->e;
    const dop_analysis *a = e->r->info;
    uint32_t n_binds = e->n_binds;
    dop_rowprog p = {.nodes = a->scan.behind.nodes,
                     .n_nodes = a->scan.behind.n_nodes,
                     .len = s->p,
                     .t = e->g->max_t == 1 ? "0u" : "t",
                     .unit = "h",
                     .lanes = gen->choice->tile.subgroup ? e->target->subgroup : 0,
                     .lane = "lane",
                     .store_if = store_if,
                     .serial = 2};
    dop_emit_bind(e, a->scan.made[0], "scan_v", true, dop_emit_str(e, "(h * P - row * %s)", stride));
    dop_gen_rowprog(gen, &p, body);
    e->n_binds = n_binds;
}

/* The epilogue on the values: a row program for each row. */
static void
emit_behind(dop_gen *gen, const dop_scan *s, dop_buf *body)
{
    if (gen->e.r->info->scan.behind.n_nodes == 0)
        return;
    dop_buf_puts(body, "        barrier();\n");
    dop_buf_puts(body, gen->choice->tile.subgroup
                           ? "    for (uint row = gl_LocalInvocationIndex / SG; row < count; row += SUBGROUPS) {\n"
                           : "    for (uint row = 0u; row < count; row++) {\n");
    dop_buf_puts(body, "    uint t = first + row;\n");
    dop_scan_behind(gen, s, "P", NULL, body);
    dop_buf_puts(body, "    }\n");
}

/* Expressions of the sequence of the workgroup's rows, and (state_base) of the place where the sequence's state begins, in the copy that
 * dop_emit_replace_copy names. */
static const char *
sequence(dop_emit *e, const dop_scan *s)
{
    return dop_emit_sequence(e, s->n->src[5], dop_graph_mixes(e->g) ? "begin" : "0u");
}

static const char *
state_base(dop_emit *e, const dop_scan *s, dop_node_id state, const char *steps)
{
    const char *q = sequence(e, s), *copy = dop_emit_replace_copy(e, state, q, steps);
    return e->g->max_q == 1 ? copy : dop_emit_str(e, "(%s + %s * %uu)", copy, q, dop_node_cols(e->g, state));
}

const char *
dop_scan_load(dop_gen *gen, const dop_scan *s, dop_buf *out)
{
    dop_emit *e = &gen->e;
    const dop_node *state = dop_node_at(e->g, s->n->src[4]);
    dop_emit_scope(e, out, "    ");
    const char *copy = state_base(e, s, s->n->src[4], NULL);
    return dop_emit_str(e, "dop_ld%u_%s(%s, %s + (h * P + p) * N + n)", s->width, dop_type_of(state->type)->name,
                        dop_emit_arg(e, s->n->src[4], false), copy);
}

void
dop_scan_save(dop_gen *gen, const dop_scan *s, const char *value, const char *indent, dop_buf *before, dop_buf *out)
{
    dop_emit *e = &gen->e;
    const dop_analysis *a = e->r->info;
    if (a->scan.saved) {
        dop_emit_scope(e, before, "    ");
        dop_emit_line(e, "uint to = %s;", state_base(e, s, a->scan.saved, "1u"));
    }
    dop_emit_scope(e, out, indent);
    if (a->scan.saved)
        dop_emit_line(e, "dop_st%u_f32(%s, to + c, %s);", s->width, dop_emit_arg(e, a->scan.saved, true), value);
    if (a->scan.made[1] && dop_region_is_out(e->r, a->scan.made[1]))
        dop_emit_store(e, a->scan.made[1], (dop_index){sequence(e, s), "c"}, s->width, value);
}

/* Appends code for each vector s[r * J + j] of the state that an invocation has: `before`, then for those inside the state `inner`, which
 * is at row p, column n and place c. */
static void
each_vector(const dop_scan *s, const char *before, const char *inner, dop_buf *body)
{
    dop_buf_printf(body,
                   "    [[unroll]] for (uint r = 0u; r < R; r++)\n"
                   "        [[unroll]] for (uint j = 0u; j < J; j++) {\n"
                   "            uint p = team + r * TEAMS, n = (part + j * L) * %uu, c = (h * P + p) * N + n;\n%s"
                   "            if (p < P && n < N) {\n%s            }\n        }\n",
                   s->width, before, inner);
}

/* The state after row i of the rows from `first` on, in a copy of its own; `before` receives what is computed once for all rows. */
static void
save_each(dop_gen *gen, const dop_scan *s, dop_buf *before, dop_buf *out)
{
    dop_emit *e = &gen->e;
    const dop_node_id saved = e->r->info->scan.saved;
    if (!saved) {
        dop_emit_fail(e, DOP_E_INPUT, "a state after each row is stored by the kernel that computes it", s->n->src[4]);
        return;
    }
    const uint64_t values = dop_node_rows(e->g, saved, 1) * dop_node_cols(e->g, saved);
    dop_emit_scope(e, before, "    ");
    const char *q = sequence(e, s);
    dop_emit_line(e, "uint version = %s.parity[%s] + 1u - begin, own = %s * %uu;", dop_emit_step(e), q, q,
                  e->g->max_q == 1 ? 0 : dop_node_cols(e->g, saved));
    dop_buf_printf(out,
                   "            if (rows - begin < %uu) {\n"
                   "            uint to = (version + first + i) %% %uu * %lluu + own;\n",
                   e->g->copies, e->g->copies, (unsigned long long)values);
    each_vector(s, "",
                dop_emit_str(e, "                dop_st%u_f32(%s, to + c, s[r * J + j]);\n", s->width,
                             dop_emit_arg(e, saved, true)),
                out);
    dop_buf_puts(out, "            }\n");
}

void
dop_scan_begin(dop_gen *gen, const dop_scan *s, dop_buf *out)
{
    dop_emit *e = &gen->e;
    const bool interleaved = dop_node_i(e->g, e->r->info->scan.root, DOP_A_interleaved) != 0;
    dop_buf_printf(out, "    uint h = DOP_GROUP.x, g = h %s %uu;\n", interleaved ? "%" : "/",
                   interleaved ? s->groups : s->heads / s->groups);
    gen->grid[0] = s->heads;
    gen->grid[1] = dop_graph_mixes(e->g) ? e->g->max_t : 1;
    gen->grid[2] = 1;
    const char *rows = dop_emit_n_tokens(e);
    if (!dop_graph_mixes(e->g)) {
        dop_buf_printf(out, "    const uint begin = 0u;\n    uint rows = %s;\n", rows);
        return;
    }
    const char *step = dop_emit_step(e);
    dop_buf_printf(out,
                   "    uint begin = DOP_GROUP.y, rows = begin + 1u;\n"
                   "    if (begin >= %s || (begin > 0u && %s.rows[begin - 1u].sequence == %s.rows[begin].sequence))\n"
                   "        return;\n"
                   "    while (rows < %s && %s.rows[rows].sequence == %s.rows[begin].sequence)\n"
                   "        rows++;\n",
                   rows, step, step, rows, step, step);
}

static dop_status
emit_as(dop_gen *gen, const char *template)
{
    const dop_scan s = dop_scan_of(gen);
    const dop_tile *tile = &gen->choice->tile;
    dop_keys keys = {0};
    dop_buf *from = dop_keys_text(gen, &keys, "FROM"), *save = dop_keys_text(gen, &keys, "SAVE"),
            *inner = dop_gen_text(gen);
    const char *load = dop_scan_load(gen, &s, from);
    stage(gen, &s, dop_keys_text(gen, &keys, "STAGE"));
    emit_behind(gen, &s, dop_keys_text(gen, &keys, "AFTER"));
    dop_scan_save(gen, &s, "s[r * J + j]", "                ", save, inner);
    each_vector(&s, "            s[r * J + j] = VEC(0.0);\n",
                dop_emit_str(&gen->e, "                s[r * J + j] = %s;\n", load), from);
    if (inner->data)
        each_vector(&s, "", inner->data, save);
    dop_buf *each = dop_keys_text(gen, &keys, "SAVE_EACH");
    if (gen->e.g->keeps_each)
        save_each(gen, &s, from, each);
    dop_scan_begin(gen, &s, dop_keys_text(gen, &keys, "BEGIN"));
    DOP_NUMBERS(gen, &keys, &gen->main, {"P", s.p}, {"N", s.count}, {"#W", s.width}, {"#L", tile->lanes},
                {"J", dop_div_up_u32(s.count, tile->lanes * s.width)},
                {"R", dop_div_up_u32(s.p, tile->wg / tile->lanes)}, {"ROWS", tile->bq}, {"#DELTA", s.delta},
                {"#EACH", s.each}, {"#COPIES", gen->e.g->keeps_each ? gen->e.g->copies : 0});
    return dop_template_fill(gen, template, &keys, &gen->main);
}

static dop_status
emit(dop_gen *gen)
{
    return emit_as(gen, "scan.glsl");
}

static dop_status
emit_chunks(dop_gen *gen)
{
    return emit_as(gen, "scan_chunks.glsl");
}

static uint32_t
row_bytes(const dop_scan *s)
{
    return ((s->each ? 3 : 2) * s->count + s->p + 2) * 4;
}

static uint32_t
shared_bytes(dop_gen *gen)
{
    const dop_scan s = dop_scan_of(gen);
    return gen->choice->tile.bq * row_bytes(&s);
}

dop_refusal
dop_scan_keeps_last(const dop_site *s)
{
    if (s->g->keeps_each)
        return (dop_refusal){"the state after each row is kept", "a kernel that goes from row to row"};
    return dop_scan_fits(s);
}

dop_refusal
dop_scan_fits(const dop_site *s)
{
    const dop_node *state = dop_node_at(s->g, dop_scan_at(s).n->src[4]);
    if (state->op != DOP_OP_state || state->type != DOP_TYPE_f32)
        return (dop_refusal){"the state before the step is not kept as f32", NULL};
    return (dop_refusal){0};
}

/* Bytes of shared memory for a chunk of `rows` rows: q, k, v, and the products of the rows with one another (two matrices for the
 * delta rule), each row padded by a vector of 4. */
static uint32_t
chunk_bytes(const dop_scan *s, uint32_t rows)
{
    uint32_t matrices = s->delta ? 2 : 1;
    return rows * (2 * (s->count + 4) + matrices * (rows + 4) + s->p + 4) * 4;
}

static uint32_t
shared_of_chunks(dop_gen *gen)
{
    const dop_scan s = dop_scan_of(gen);
    return chunk_bytes(&s, gen->choice->tile.bq);
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
    uint32_t room = t->shared_bytes / 2 / row_bytes(&s), most = tile->wg;
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
           (tile->bq - step >= site->g->max_t || chunk_bytes(&s, tile->bq) + SUMS > site->t->shared_bytes))
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

const dop_descriptor dop_descriptor_scan_chunks = {
    .fits = fits_chunks,
    .avoid = avoid_chunks,
    .tile = tile_of_chunks,
    .shared = shared_of_chunks,
    .emit = emit_chunks,
    .trips = dop_trips_scan_chunks,
};
const dop_descriptor dop_descriptor_scan = {
    .fits = dop_scan_fits,
    .tile = tile_of,
    .shared = shared_bytes,
    .emit = emit,
    .trips = dop_trips_scan,
    .stage = DOP_VARIANT_scan_subgroup,
};
const dop_descriptor dop_descriptor_scan_subgroup = {
    .fits = dop_scan_fits,
    .tile = tile_of,
    .shared = shared_bytes,
    .emit = emit,
    .trips = dop_trips_scan,
    .stage = DOP_VARIANT_scan_subgroup,
    .as_stage = as_stage,
};
