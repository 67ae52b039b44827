/* Linear recurrences as a nest: y[t][p] = sum over k of S[p][k] q[t][k], with a state S that changes with every row of the
 * step. A workgroup computes head h for all rows of the step, or those of one sequence. Groups of L adjacent invocations
 * divide the rows of the head's state, P x N, and the lanes of a group divide the columns. So an invocation holds R rows with
 * J vectors each in registers. Values of ROWS rows of the step at a time are staged in shared memory, where results overwrite
 * v.
 *
 * Placements differ in the chunk size c: the rows that are multiplied by the state at once. S is the state before the chunk,
 * d(j, i) the product of decays of rows j + 1 to i, and d(i) that of the chunk's first row to row i:
 *   row i adds          x_i = beta_i (v_i - d(i) S k_i - sum over j < i of d(j, i) (k_i k_j) x_j), or v_i without beta
 *   its result          y_i = d(i) S q_i + sum over j <= i of d(j, i) (q_i k_j) x_j
 *   the state after it  d(last) S + sum over j of d(j, last) x_j k_j^T
 * c = 1 is the recurrence row by row, where each row computes q k. With larger chunks the state is read and written once for
 * all rows, and no row waits for the state after another one. This is the duality of Mamba-2 (arXiv 2405.21060); for the
 * delta rule it is the UT transform of gated DeltaNet (arXiv 2412.06464), as a triangular system. Decays are running products
 * of factors of at most 1, so nothing overflows. Missing rows of the last chunk have no effect. */
#include "kernels/scan/gen_scan.h"
#include "kernels/gen/row_program.h"
#include "kernels/gen/templates.h"

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

void
dop_scan_open(dop_scan_nest *o, dop_gen *gen, dop_nest_placement *pl)
{
    o->gen = gen;
    o->s = dop_scan_at(&gen->site);
    pl->at[DOP_PLACE_t][DOP_LEVEL_piece] = dop_div_up_u32(gen->e.g->max_t, o->rows);
    pl->at[DOP_PLACE_n][DOP_LEVEL_grid] = o->s.heads;
    pl->x = (dop_movement){.path = DOP_PATH_pieces, .unit = o->s.width, .form = o->units ? "two halves" : "floats"};
    pl->w = (dop_movement){.path = DOP_PATH_direct, .unit = o->s.width};
    pl->subgroup = gen->e.target->subgroup;
    dop_nest_open(&o->n, dop_variant_of(gen->choice->variant)->name, pl, gen->e.g->arena, gen->e.diag);
    o->added = dop_nest_memory(&o->n, "what rows add");
    o->solved = dop_nest_memory(&o->n, "the solution");
    o->results = dop_nest_memory(&o->n, "results of rows");
}

/* sequence returns the expression of the sequence of the workgroup's rows; state_base, that of the offset of its state in the
 * copy from dop_emit_replace_copy. */
static const char *
find_scan_sequence(dop_emit *e, const dop_scan *s)
{
    return dop_emit_sequence(e, s->n->src[5], dop_graph_mixes(e->g) ? "begin" : "0u");
}

static const char *
state_base(dop_emit *e, const dop_scan *s, dop_node_id state, const char *steps)
{
    const char *q = find_scan_sequence(e, s), *copy = dop_emit_replace_copy(e, state, q, steps);
    return e->g->max_q == 1 ? copy : dop_emit_str(e, "(%s + %s * %uu)", copy, q, dop_node_cols(e->g, state));
}

const char *
dop_scan_load(dop_scan_nest *o)
{
    dop_emit *e = &o->gen->e;
    const dop_node_id state = o->s.n->src[4];
    dop_buf before = {0};
    dop_emit_scope(e, &before, "    ");
    const char *copy = state_base(e, &o->s, state, NULL), *q = find_scan_sequence(e, &o->s);
    if (e->g->keeps_each)
        dop_emit_line(e, "uint version = %s.parity[%s] + 1u - begin, own = %s * %uu;", dop_emit_step(e), q, q,
                      e->g->max_q == 1 ? 0 : dop_node_cols(e->g, state));
    dop_nest_hole(&o->n, "state before the step", dop_gen_keep(o->gen, &before));
    return dop_emit_str(e, "dop_ld%u_%s(%s, %s + (h * P + p) * N + n)", o->s.width,
                        dop_type_of(dop_node_at(e->g, state)->type)->name, dop_emit_arg(e, state, false), copy);
}

void
dop_scan_place(dop_scan_nest *o, const char *row)
{
    dop_emit *e = &o->gen->e;
    const dop_node_id saved = e->r->info->scan.saved;
    dop_buf before = {0};
    if (!saved && row)
        dop_emit_fail(e, DOP_E_INPUT, "a state after each row is stored by the kernel that computes it",
                      o->s.n->src[4]);
    if (!saved)
        return;
    dop_emit_scope(e, &before, "    ");
    const uint64_t values = dop_node_rows(e->g, saved, 1) * dop_node_cols(e->g, saved);
    dop_emit_line(e, "uint to = %s;",
                  row ? dop_emit_str(e, "(version + first + %s) %% %uu * %lluu + own", row, e->g->copies,
                                     (unsigned long long)values)
                      : state_base(e, &o->s, saved, "1u"));
    dop_nest_hole(&o->n, "state after the step", dop_gen_keep(o->gen, &before));
}

void
dop_scan_save(dop_scan_nest *o, const char *value, bool last)
{
    dop_emit *e = &o->gen->e;
    const dop_scan_facts *facts = &e->r->info->scan;
    dop_buf text = {0};
    dop_emit_scope(e, &text, "            ");
    if (facts->saved)
        dop_emit_line(e, "dop_st%u_f32(%s, to + c, %s);", o->s.width, dop_emit_arg(e, facts->saved, true), value);
    if (last && facts->made[1] && dop_region_is_out(e->r, facts->made[1]))
        dop_emit_store(e, facts->made[1], (dop_index){find_scan_sequence(e, &o->s), "c"}, o->s.width, value);
    dop_nest_hole(&o->n, "state", dop_gen_keep(o->gen, &text));
}

void
dop_scan_begin(dop_scan_nest *o)
{
    dop_gen *gen = o->gen;
    dop_emit *e = &gen->e;
    dop_nest *n = &o->n;
    const bool interleaved = dop_node_i(e->g, e->r->info->scan.root, DOP_A_interleaved) != 0;
    const bool mixes = dop_graph_mixes(e->g);
    const char *rows = dop_emit_rows(e, e->multiple);
    gen->grid[0] = o->s.heads;
    gen->grid[1] = mixes ? e->g->max_t : 1;
    o->spare = e->routes && e->g->max_t > 1;
    o->all = o->staged | o->added | o->solved | o->results;
    dop_nest_function(n, "main", "");
    dop_nest_let(n, "uint", "h", "DOP_GROUP.x");
    dop_nest_let(n, "uint", "g", "h %s %uu", interleaved ? "%" : "/",
                 interleaved ? o->s.groups : o->s.heads / o->s.groups);
    dop_nest_let(n, mixes ? "uint" : "const uint", "begin", mixes ? "DOP_GROUP.y" : "0u");
    dop_nest_let(n, "uint", "rows", "%s", mixes ? "begin + 1u" : rows);
    if (mixes)
        dop_nest_hole(n, "rows of the sequence",
                      dop_nest_text(n,
                                    "    if (begin >= %s || (begin > 0u && %s.sequence == %s.sequence))\n"
                                    "        return;\n"
                                    "    while (rows < %s && %s.sequence == %s.sequence)\n"
                                    "        rows++;\n",
                                    rows, dop_emit_row(e, "begin - 1u"), dop_emit_row(e, "begin"), rows,
                                    dop_emit_row(e, "rows"), dop_emit_row(e, "begin")));
    if (o->spare)
        dop_nest_let(n, "uint", "places", "rows == %s ? %uu : rows", rows, e->g->max_t);
}

/* Emits code that runs a row program over values of row `row` of the chunk, which is row t of the step. `p` has the other
 * properties. */
static void
run_scan_program(dop_scan_nest *o, const dop_program *made, dop_rowprog p)
{
    dop_emit *e = &o->gen->e;
    const uint32_t n_binds = e->n_binds;
    p.nodes = made->nodes;
    p.n_nodes = made->n_nodes;
    p.t = e->g->max_t == 1 ? "0u" : "t";
    p.lanes = o->gen->choice->tile.subgroup ? e->target->subgroup : 0;
    p.lane = "lane";
    p.memory = p.staged ? o->all : 0;
    dop_nest_rowprog(o->gen, &p, &o->n);
    e->n_binds = n_binds;
}

/* Returns an invocation's number for staging the next `n` values. In a stage it is rotated so that different invocations
 * stage each kind of values, and wait for their mailboxes concurrently. */
static const char *
next_invocations(dop_scan_nest *o, uint32_t n)
{
    const uint32_t sg = o->gen->e.target->subgroup, wg = o->gen->choice->tile.wg, first = o->next * sg;
    if (!o->gen->e.routes || !o->gen->choice->tile.subgroup)
        return "gl_LocalInvocationIndex";
    o->next = (o->next + dop_div_up_u32(n, sg)) % (wg / sg);
    return first ? dop_nest_text(&o->n, "((gl_LocalInvocationIndex + %uu) %% WG)", wg - first)
                 : "gl_LocalInvocationIndex";
}

/* Emits code that stages `count` values of each row, from column `base` on, with the macro DOP_S followed by `letter`. q, k
 * and per-column decays (Q, K, E) are staged four at a time where possible. For matrix units the loop is unrolled, so that
 * all loads are in flight at once; missing rows repeat the step's last row. */
static void
stage_values(dop_scan_nest *o, dop_node_id src, uint32_t count, const char *base, char letter)
{
    dop_emit *e = &o->gen->e;
    dop_nest *n = &o->n;
    dop_buf loads = {0}, text = {0};
    const bool vectors = letter == 'Q' || letter == 'K' || letter == 'E';
    const uint32_t width = o->units || (vectors && o->s.width == 4 && dop_emit_wide(e, src)) ? 4 : 1;
    const uint32_t places = o->rows * count / width, beyond = o->units && places % o->gen->choice->tile.wg ? 1 : 0;
    if (o->units) {
        dop_nest_for(n, "i", "0u", dop_nest_text(n, "%uu", places), "WG")->unroll = true;
        dop_nest_let(n, "uint", "at", "i + gl_LocalInvocationIndex");
        dop_nest_let(n, "uint", "row", "at / %uu", count / width);
        dop_nest_let(n, "uint", "t", "min(first + row, rows - 1u)");
        dop_nest_let(n, "uint", "c", "%s + at %% %uu * %uu", base, count / width, width);
    } else {
        dop_nest_for(n, "at", dop_nest_text(n, "%s * %uu", next_invocations(o, places), width),
                     dop_nest_text(n, "count * %uu", count), dop_nest_text(n, "WG * %uu", width))
            ->apart = true;
        dop_nest_let(n, "uint", "t", "first + at / %uu", count);
        dop_nest_let(n, "uint", "c", "%s + at %% %uu", base, count);
    }
    e->constants = e->early = e->routes ? &loads : NULL;
    dop_emit_scope(e, &text, "            ");
    const char *x = dop_emit_value(e, src, (dop_index){e->g->max_t == 1 ? "0u" : "t", "c"}, width);
    e->constants = e->early = NULL;
    dop_emit_line(e, "DOP_S%c_PUT%s(at%s, %s);", letter, width == 4 ? "" : "1", width == 4 && !o->units ? " >> 2" : "",
                  x);
    if (beyond)
        dop_nest_if(n, "at < %uu", places)->apart = true;
    if (loads.data)
        dop_nest_hole(n, "loads", dop_gen_keep(o->gen, &loads));
    dop_nest_hole(n, "rows", dop_gen_keep(o->gen, &text))->writes = o->all;
    dop_nest_ends(n, 1 + beyond);
}

/* Begins a loop over the staged rows with `jobs` jobs per row. Each subgroup, or otherwise the whole workgroup, processes one
 * at a time. */
static dop_stmt *
begin_rows(dop_scan_nest *o, uint32_t jobs)
{
    const dop_tile *tile = &o->gen->choice->tile;
    dop_nest *n = &o->n;
    if (o->units) {
        const bool even = o->rows % (tile->wg / o->gen->e.target->subgroup) == 0;
        dop_nest_for(n, "i", "0u", "ROWS", "SUBGROUPS")->unroll = true;
        dop_nest_let(n, "uint", "row", even ? "i + sub" : "min(i + sub, ROWS - 1u)");
        return dop_nest_let(n, "uint", "t", "min(first + row, rows - 1u)");
    }
    dop_nest_for(n, "job", tile->subgroup ? "gl_LocalInvocationIndex / SG" : "0u",
                 dop_nest_text(n, "count * %uu", jobs), tile->subgroup ? "WG / SG" : NULL)
        ->apart = tile->subgroup;
    dop_nest_let(n, "uint", "row", "%s", jobs > 1 ? dop_nest_text(n, "job / %uu", jobs) : "job");
    return dop_nest_let(n, "uint", "t", "first + row");
}

/* Emits code that stages q and k: loaded, or computed by row programs. */
static void
stage_heads(dop_scan_nest *o)
{
    const dop_program *heads = o->gen->e.r->info->scan.heads;
    const uint32_t jobs = (heads[0].n_nodes ? 1u : 0) + (heads[1].n_nodes ? 1u : 0), wg = o->gen->choice->tile.wg;
    uint32_t job = 0;
    for (uint32_t i = 0; i < 2; i++)
        if (heads[i].n_nodes == 0)
            stage_values(o, o->s.n->src[i], o->s.count, "g * N", "QK"[i]);
    for (uint32_t i = 0; i < 2; i++) {
        dop_rowprog p = {.len = o->s.count, .unit = "g", .stage = i ? "DOP_SK" : "DOP_SQ", .stage_base = "row * N"};
        p.staged = o->s.n->src[i];
        p.serial = i;
        if (heads[i].n_nodes == 0)
            continue;
        if (o->units || job == 0)
            begin_rows(o, jobs);
        if (!o->units)
            dop_nest_if(&o->n, "job %% %uu == %uu", jobs, job);
        run_scan_program(o, &heads[i], p);
        dop_nest_ends(&o->n, o->units || ++job < jobs ? 1 : 2);
    }
    if (jobs > 0 && o->gen->choice->tile.subgroup) /* each job occupies one subgroup */
        o->next = jobs * o->rows % (wg / o->gen->e.target->subgroup);
}

void
dop_scan_stage(dop_scan_nest *o)
{
    const dop_node_id *src = o->s.n->src;
    stage_heads(o);
    stage_values(o, src[2], o->s.p, "h * P", 'V');
    if (o->units)
        return;
    stage_values(o, src[3], o->s.each ? o->s.count : 1, o->s.each ? "h * N" : "h", o->s.each ? 'E' : 'D');
    if (o->s.delta)
        stage_values(o, src[6], 1, "h", 'B');
}

void
dop_scan_finish(dop_scan_nest *o, const char *stride)
{
    dop_emit *e = &o->gen->e;
    const dop_scan_facts *facts = &e->r->info->scan;
    const dop_rowprog p = {.len = o->s.p, .unit = "h", .store_if = o->units ? "i + sub < count" : NULL, .serial = 2};
    const uint32_t n_binds = e->n_binds;
    if (facts->behind.n_nodes == 0)
        return;
    begin_rows(o, 1)->reads = o->results;
    const char *from = o->spare ? "min(row, rows - first - 1u)" : "row"; /* surplus rows repeat the last row */
    dop_emit_bind(e, facts->made[0], "scan_v", true, dop_emit_str(e, "(h * P - %s * %s)", from, stride));
    run_scan_program(o, &facts->behind, p);
    e->n_binds = n_binds;
    dop_nest_end(&o->n);
}

dop_refusal
dop_scan_fits(const dop_site *s)
{
    const dop_node *state = dop_node_at(s->g, dop_scan_at(s).n->src[4]);
    if (state->op != DOP_OP_state || state->type != DOP_TYPE_f32)
        return (dop_refusal){"the state before the step is not kept as f32", NULL};
    return (dop_refusal){0};
}
