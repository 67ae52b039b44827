/* Nest of products by cooperative lanes: y[t][n] = sum over k of x[t][k] * w[n][k]. The lanes of a group divide k, groups and
 * workgroups divide n, and every lane processes all t. The placement has the extents. */
#include "kernels/gen/int8.h"
#include "kernels/gen/templates.h"
#include "kernels/product/gen_expert.h"
#include "kernels/product/product.h"
#include "kernels/row/gen_argmax.h"

#include "kernels/emit/weight_types.h"

/* State for one part: sibling products whose results one epilogue combines. */
typedef struct part_of {
    dop_gen *gen;
    const dop_parts *p; /* the region's products, with fields set for the current part */
    dop_nest *n;
    const dop_product *x;
    const dop_segment *part;
    uint32_t index, n_wg;
    uint32_t mats;                   /* sums per weight row: one per matrix, and one for the second product (beside) */
    uint32_t t, rows, lanes, unroll; /* extents of the placement; t 0: one row of the step, without a loop variable */
    uint32_t per_wg;                 /* weight rows of each matrix per set */
    bool sets;                       /* a workgroup loops over several sets of weight rows */
    bool once;                       /* a lane stores at most one sum */
    const char *end_row;             /* expression of the end of the workgroup's weight rows */
} part_of;

uint32_t
dop_product_summed(const dop_parts *p)
{
    return p->sum ? p->slots : 1;
}

uint32_t
dop_product_units(const dop_parts *p)
{
    return dop_div_up_u32(p->k, p->unit);
}

uint32_t
dop_product_steps(const dop_parts *p)
{
    return dop_product_units(p) * dop_product_summed(p);
}

uint32_t
dop_product_all(const dop_parts *p)
{
    return dop_product_steps(p) + dop_div_up_u32(p->k2, p->unit);
}

/* --- weights: from memory to registers -------------------------------------------------------------------------------- */

/* Returns an index, clamped only if it may exceed `last`, because clamping is a third of a load's instructions. */
static const char *
clamp_index(dop_emit *e, bool beyond, const char *index, uint32_t last)
{
    return beyond ? dop_emit_str(e, "min(%s, %uu)", index, last) : index;
}

/* Emits one load for both a product (or a sum over slots) and the second product, whose weights have the same type; the
 * variable `more` selects. */
static void
load_both(dop_gen *gen, const dop_parts *p, dop_nest *n, dop_node_id w, const char *row, const char *into)
{
    dop_emit *e = &gen->e;
    const dop_node_id other = dop_node_at(e->g, p->beside)->src[1];
    const dop_weight_type *wt = dop_weight_type_of(dop_node_at(e->g, w)->type);
    const char *a = p->experts ? dop_expert_weights(gen, p, w, "slot") : dop_emit_arg(e, w, false),
               *b = dop_emit_arg(e, other, false);
    const char *aux = dop_emit_weight(e, w), *aux_b = dop_emit_weight(e, other);
    dop_nest_load(n, into, "dop_wload_%s(%s, (%s) * (more ? %uu : %uu) + v, more ? %s : %s)",
                  dop_type_of(wt->type)->name, dop_emit_either(e, "more", b, a), row,
                  dop_row_values(e->g, other) / wt->unit, dop_row_values(e->g, w) / wt->unit, aux_b, aux);
}

/* Returns the matrix of product m for loads of its weights. If a workgroup has only one slot, its expert's matrix is looked
 * up once, in `begin`; `globals` declares it. */
static const char *
find_product_matrix(dop_gen *gen, const dop_parts *p, uint32_t index, uint32_t m, dop_buf *globals, dop_buf *begin)
{
    dop_emit *e = &gen->e;
    const dop_node_id w = dop_node_at(e->g, p->part[index].mats[m])->src[1];
    if (!p->experts)
        return dop_emit_arg(e, w, false);
    if (p->sum)
        return dop_expert_weights(gen, p, w, "slot");
    const char *name = dop_emit_str(e, "dop_matrix%u_%u", index, m);
    dop_buf_printf(globals, "U32 %s;\n", name);
    dop_buf_printf(begin, "    %s = %s;\n", name, dop_expert_weights(gen, p, w, "dop_slot"));
    return name;
}

/* Emits code that finds the position of loop unit v in its row: that of a slot, or of the second product. */
static void
find_depth_unit(const dop_parts *p, dop_nest *n, const char *v)
{
    const uint32_t units = dop_product_units(p), steps = dop_product_steps(p);
    dop_nest_let(n, "uint", "v", "%s", v);
    if (p->beside) {
        dop_nest_let(n, "uint", "slot", "min(v / %uu, %uu)", units, p->slots - 1);
        dop_nest_let(n, "bool", "more", "v >= %uu", steps);
        dop_nest_set(n, "v", "v - (more ? %uu : slot * %uu)", steps, units);
    } else if (p->sum) {
        dop_nest_let(n, "uint", "slot", "v / %uu", units);
        dop_nest_set(n, "v", "v %% %uu", units);
    }
}

/* Returns the loads of units of matrix m in flight at once; *out_steps: units per step. */
static uint32_t
loads_of(const dop_gen *gen, const dop_parts *p, const dop_segment *part, uint32_t m, uint32_t *out_steps)
{
    const dop_graph *g = gen->e.g;
    const dop_node_id w = dop_node_at(g, part->mats[m])->src[1];
    *out_steps = p->beside ? 1 : p->unit / dop_weight_type_of(dop_node_at(g, w)->type)->unit;
    return gen->choice->tile.unroll * gen->choice->tile.rows * *out_steps;
}

static void
note_no_memory(dop_nest *n)
{
    if (n->status == DOP_OK)
        n->status = DOP_NO_MEMORY(n->diag);
}

/* Emits the function dop_fetchP(row, u, ...). It loads weight units from u on into registers, for all rows of a group of
 * lanes and all matrices of a part. `begin` gets statements that look up matrices beforehand. */
static void
emit_fetch(dop_gen *gen, const dop_parts *p, dop_nest *n, uint32_t index, dop_buf *begin)
{
    dop_emit *e = &gen->e;
    const dop_segment *part = &p->part[index];
    const dop_tile *tile = &gen->choice->tile;
    const uint32_t units = dop_product_units(p), all = dop_product_all(p);
    const bool rows_end = part->argmax || part->rows % (tile->wg / tile->lanes * tile->rows) != 0;
    const char *row = clamp_index(e, rows_end, dop_emit_str(e, "row + i %% %uu", tile->rows), part->rows - 1);
    const char *v = dop_emit_str(e, "u + i / %uu * LANES", tile->rows),
               **matrices = dop_arena_alloc(n->arena, part->n_mats * sizeof *matrices);
    dop_buf parameters = {0}, globals = {0};
    if (!matrices) {
        note_no_memory(n);
        return;
    }
    dop_buf_puts(&parameters, "uint row, uint u");
    for (uint32_t m = 0, steps; m < part->n_mats; m++) {
        const dop_node_id w = dop_node_at(e->g, part->mats[m])->src[1];
        const uint32_t count = loads_of(gen, p, part, m, &steps);
        matrices[m] = p->beside ? NULL : find_product_matrix(gen, p, index, m, &globals, begin);
        dop_buf_printf(&parameters, ", out dop_raw_%s q%u[%u]", dop_type_of(dop_node_at(e->g, w)->type)->name, m,
                       count);
    }
    if (globals.data)
        dop_nest_hole(n, "matrices of experts", dop_gen_keep(gen, &globals));
    dop_nest_function(n, dop_nest_text(n, "dop_fetch%u", index), dop_gen_keep(gen, &parameters));
    dop_nest_unrolled(n, "i", tile->unroll * tile->rows);
    find_depth_unit(p, n, clamp_index(e, all % (tile->lanes * tile->unroll) != 0, v, all - 1));
    for (uint32_t m = 0, steps; m < part->n_mats; m++) {
        const dop_node_id w = dop_node_at(e->g, part->mats[m])->src[1];
        const dop_weight_type *wt = dop_weight_type_of(dop_node_at(e->g, w)->type);
        const uint32_t per_row = dop_row_values(e->g, w) / wt->unit;
        loads_of(gen, p, part, m, &steps);
        if (p->beside)
            load_both(gen, p, n, w, row, dop_nest_text(n, "q%u[i]", m));
        for (uint32_t s = 0; s < steps && !p->beside; s++) {
            const char *unit = dop_emit_str(e, "v * %uu + %uu", steps, s);
            dop_nest_load(n, dop_nest_text(n, "q%u[i * %uu + %uu]", m, steps, s),
                          "dop_wload_%s(%s, (%s) * %uu + %s, %s)", dop_type_of(wt->type)->name, matrices[m], row,
                          per_row, clamp_index(e, units * steps > per_row, unit, per_row - 1), dop_emit_weight(e, w));
        }
    }
    dop_nest_ends(n, 2);
}

void
dop_product_team(dop_gen *gen, dop_nest *n)
{
    DOP_LIBRARY(gen, n, "team.glsl", {"#LANES", gen->choice->tile.lanes});
}

void
dop_product_sums(dop_gen *gen, dop_nest *n, dop_product *x)
{
    const dop_nest_placement *pl = &n->placement;
    const uint32_t sums = gen->e.r->info->product.most_mats * dop_placement_size(pl, DOP_PLACE_n, DOP_LEVEL_reg) *
                          dop_placement_size(pl, DOP_PLACE_t, DOP_LEVEL_reg);
    if (pl->sum == DOP_MEET_shared)
        x->sums = dop_nest_shared(n, "float", "dop_sums", gen->choice->tile.wg / pl->subgroup * sums);
}

/* Texts for the holes of a part: the region's expressions, and surrounding code. */
typedef struct part_text {
    const char *begin, *early, *end, *finish;
} part_text;

/* --- one part --------------------------------------------------------------------------------------------------------- */

/* Returns the expression of a lane's sum for row r (and row t of the step) of matrix m. */
static const char *
lane_sum(const part_of *o, uint32_t m)
{
    dop_nest *n = o->n;
    return o->t ? dop_nest_text(n, "acc[(%uu + r) * R + t]", m * o->rows)
                : dop_nest_text(n, "acc[%u + r]", m * o->rows);
}

/* Returns the expression of the sum of matrix m in the epilogue. */
static const char *
stored_sum(const part_of *o, uint32_t m)
{
    if (o->t)
        return dop_nest_text(o->n, "y[%u]", m);
    return o->rows == 1 ? dop_nest_text(o->n, "acc[%u]", m) : lane_sum(o, m);
}

static uint32_t
count_lane_sums(const part_of *o)
{
    return o->mats * o->rows * (o->t ? o->t : 1);
}

/* Emits code that finds the sum that a lane stores, if it stores at most one. The epilogue's loads are then issued before the
 * products, which hide their latency. */
static void
store_place(const part_of *o, const char *early)
{
    dop_nest *n = o->n;
    if (!o->once)
        return;
    if (o->t) {
        dop_nest_let(n, "uint", "r", "LANE %% %uu", o->rows);
        dop_nest_let(n, "uint", "t", "min(LANE / %uu, %s - 1u)", o->rows, dop_emit_n_tokens(&o->gen->e));
    } else {
        dop_nest_let(n, "uint", "r", "min(LANE, %uu)", o->rows - 1);
    }
    dop_nest_let(n, "uint", "c", "min(row + r, %uu)", o->part->rows - 1);
    dop_nest_hole(n, "end, loads", early);
}

/* Returns the expression of the activations that unit s of a loop step is multiplied by. */
static const char *
step_activations(const part_of *o, uint32_t unit, uint32_t steps, uint32_t s)
{
    dop_buf b = {0};
    if (steps == 1)
        return "x";
    dop_buf_printf(&b, "vec4[%u](", unit / 4);
    for (uint32_t q = 0; q < unit / 4; q++)
        dop_buf_printf(&b, "%sx[%u]", q ? ", " : "", s * unit / 4 + q);
    dop_buf_puts(&b, ")");
    return dop_gen_keep(o->gen, &b);
}

/* Emits code that multiplies the weights loaded from matrix m for step j by the activations x. */
static void
multiply_matrix(const part_of *o, uint32_t m)
{
    dop_nest *n = o->n;
    const dop_type type = dop_product_type(o->gen->e.g, o->part->mats[m]);
    const char *name = dop_type_of(type)->name, *ints = o->p->ints ? "i" : "";
    uint32_t steps;
    loads_of(o->gen, o->p, o->part, m, &steps);
    dop_nest_unrolled(n, "r", o->rows);
    if (o->p->beside) {
        const uint32_t first = dop_product_steps(o->p);
        dop_nest_let(n, "float", "y", "dop_wdot%s_%s(q%u[j * %uu + r], x)", ints, name, m, o->rows);
        dop_nest_add(n, "acc[r]", "v < %uu ? y : 0.0", first);
        dop_nest_add(n, dop_nest_text(n, "acc[%u + r]", o->rows), "v < %uu ? 0.0 : y", first);
    }
    for (uint32_t s = 0; s < steps && !o->p->beside; s++)
        dop_nest_dot(n, lane_sum(o, m), "dop_wdot%s_%s(q%u[(j * %uu + r) * %uu + %uu], %s)", ints, name, m, o->rows,
                     steps, s, step_activations(o, dop_weight_type_of(type)->unit, steps, s));
    dop_nest_end(n);
}

/* Emits code that multiplies the weights loaded for step j, unit v, by all rows of the step. Weights are unpacked once and
 * stay in registers; activations of only one row at a time are in registers. */
static void
multiply_step(const part_of *o)
{
    dop_nest *n = o->n;
    if (o->t)
        dop_nest_unrolled(n, "t", o->t);
    o->x->get(o->gen, o->p, n, o->x->rows);
    for (uint32_t m = 0; m < o->part->n_mats; m++)
        multiply_matrix(o, m);
    if (o->t)
        dop_nest_end(n);
}

static const char *const *
name_weight_registers(const part_of *o)
{
    const char **registers = dop_arena_alloc(o->n->arena, o->part->n_mats * sizeof *registers);
    for (uint32_t m = 0; registers && m < o->part->n_mats; m++)
        registers[m] = dop_nest_text(o->n, "q%u", m);
    if (!registers)
        note_no_memory(o->n);
    return registers;
}

/* Emits the sums of one set of weight rows: a loop over the steps of a lane, inside a loop over pieces of the depth if
 * activations are staged in pieces. */
static void
sum_row_set(const part_of *o)
{
    dop_nest *n = o->n;
    const bool pieces = n->placement.at[DOP_PLACE_k][DOP_LEVEL_piece] > 0;
    const uint32_t units = dop_product_all(o->p);
    const char *end = dop_nest_text(n, "%uu", units);
    dop_nest_zeros(n, "acc", count_lane_sums(o));
    if (pieces) {
        dop_stmt *piece = dop_nest_for(n, "first", "0u", end, "PIECE");
        piece->more = dop_nest_text(n, "end + LANE < %uu", units);
        piece->again = "row, end + LANE";
        dop_nest_let(n, "uint", "end", "min(first + PIECE, %uu)", units);
        end = "end";
    }
    if (n->placement.x.path == DOP_PATH_pieces)
        dop_nest_call(n, o->x->put, dop_nest_text(n, "first * %uu", o->p->unit));
    dop_nest_for(n, "u", pieces ? "first + LANE" : "LANE", end, dop_nest_text(n, "LANES * %uu", o->unroll))->apart =
        true;
    dop_nest_ahead(n, dop_nest_text(n, "dop_fetch%u", o->index), "row, LANE", "row, u", name_weight_registers(o),
                   o->part->n_mats);
    dop_nest_unrolled(n, "j", o->unroll);
    dop_nest_let(n, "uint", "v", "u + j * LANES");
    /* A break would prevent the optimizer from unrolling the loop. */
    if (pieces || !o->gen->e.routes || units % (o->lanes * o->unroll) != 0)
        dop_nest_break(n, dop_nest_text(n, "v >= %s", end));
    if (pieces)
        dop_nest_set(n, "v", "v - first");
    multiply_step(o);
    dop_nest_ends(n, pieces ? 3 : 2);
}

/* Emits code that reduces the sums over cooperative lanes, or only over the lanes of each of their subgroups. */
static void
reduce_lane_sums(const part_of *o)
{
    dop_nest *n = o->n;
    dop_nest_unrolled(n, "i", count_lane_sums(o));
    if (n->placement.sum == DOP_MEET_shared) {
        dop_nest_reduce(n, "acc[i]", "subgroupAdd(acc[i])");
        dop_nest_if(n, "gl_LocalInvocationIndex %% SG == 0u")->apart = true;
        dop_nest_store(n, o->x->sums,
                       dop_nest_text(n, "dop_sums[gl_LocalInvocationIndex / SG * %uu + i]", count_lane_sums(o)),
                       "acc[i]");
        dop_nest_end(n);
    } else {
        dop_nest_reduce(n, "acc[i]", "dop_team_sum(acc[i])")->together = n->placement.sum == DOP_MEET_each;
    }
    dop_nest_end(n);
}

/* Emits the epilogue of a lane's sums of one row and column. With several rows of the step, first sets y to the sums of row t
 * and column c of all matrices. */
static void
emit_sum_epilogue(const part_of *o, const char *end)
{
    dop_nest *n = o->n;
    const uint32_t all = o->rows * o->t, subgroups = o->t ? o->lanes / n->placement.subgroup : 0;
    if (o->t) {
        dop_nest_array(n, "float", "y", o->mats);
        dop_nest_unrolled(n, "m", o->mats);
        if (n->placement.sum == DOP_MEET_shared) {
            dop_nest_set(n, "y[m]", "0.0");
            dop_nest_unrolled(n, "k", subgroups);
            dop_nest_add(n, "y[m]", "dop_sums[((TEAM * %uu + k) * %uu + m) * %uu + r * R + t]", subgroups, o->mats, all)
                ->reads = o->x->sums;
        } else {
            dop_nest_unrolled(n, "i", all);
            dop_nest_set(n, "y[m]", "i == r * R + t ? acc[m * %uu + i] : i == 0u ? 0.0 : y[m]", all);
        }
        dop_nest_ends(n, 2);
        dop_nest_hole(n, "stat", o->x->done)->reads = o->x->stats;
    }
    dop_nest_hole(n, "end", end);
}

/* Emits code that stores the sums of each row and column from one lane. */
static void
store_rows(const part_of *o, const char *end)
{
    dop_nest *n = o->n;
    const uint32_t all = o->rows * (o->t ? o->t : 1);
    const char *tokens = o->t ? dop_emit_n_tokens(&o->gen->e) : NULL;
    if (o->once && o->t) {
        dop_nest_if(n, "LANE < %uu && LANE / %uu < %s && row + r < %uu", all, o->rows, tokens, o->part->rows)->apart =
            true;
    } else if (o->once) {
        dop_nest_if(n, "LANE < %uu && row + LANE < %s", o->rows, o->end_row)->apart = true;
    } else {
        dop_nest_for(n, "i", "LANE", dop_nest_text(n, "%uu", all), "LANES")->apart = true;
        if (o->t)
            dop_nest_let(n, "uint", "t", "i / %uu", o->rows);
        dop_nest_let(n, "uint", "r", "i %% %uu", o->rows);
        dop_nest_let(n, "uint", "c", "row + r");
        dop_nest_if(n, "%sc < %s", o->t ? dop_nest_text(n, "t < %s && ", tokens) : "", o->end_row);
    }
    emit_sum_epilogue(o, end);
    dop_nest_end(n);
    if (!o->once)
        dop_nest_end(n);
}

/* Begins the loop over sets of weight rows. If all activations stay in shared memory, the first weights of the next set are
 * prefetched during the last products of the current set. */
static void
begin_sets(const part_of *o, const char *first)
{
    dop_nest *n = o->n;
    const bool late = n->placement.x.path == DOP_PATH_pieces;
    const uint32_t stride = o->part->argmax ? o->per_wg : o->n_wg * o->per_wg;
    dop_stmt *sets = dop_nest_for(n, "set", first, o->end_row, dop_nest_text(n, "%uu", stride));
    sets->more = dop_nest_text(n, "set + %uu < %s", stride, o->end_row);
    sets->again = late ? "row, LANE" : "next_row, LANE";
    sets->late = late;
    dop_nest_let(n, "uint", "next_row", "row + %uu", stride);
}

/* Emits code that resets (or with `done` reduces) statistics of the activation that are accumulated in the loop of the
 * products. */
static void
sum_product_stats(const part_of *o, bool done)
{
    const dop_parts *p = o->p;
    for (uint32_t i = 0; i < p->n_stats && o->x->stats_beside; i++) {
        const char *name = dop_nest_text(o->n, "dop_stat%u", i);
        if (done)
            dop_nest_reduce(o->n, name, "inversesqrt(dop_team_sum(%s) / %u.0 + %.9g)", name, p->k,
                            dop_node_f(o->gen->e.g, p->stats[i], DOP_A_eps))
                ->together = o->n->placement.sum == DOP_MEET_each;
        else
            dop_nest_set(o->n, name, "0.0");
    }
}

static void
lower_part(const part_of *o, const char *first, bool ahead, const part_text *text)
{
    dop_nest *n = o->n;
    dop_nest_function(n, dop_nest_text(n, "dop_part%u", o->index), "uint wg");
    if (*text->begin)
        dop_nest_hole(n, "begin", text->begin);
    dop_nest_let(n, "uint", "row", "%s + TEAM * %uu", first, o->rows);
    for (uint32_t m = 0, steps; m < o->part->n_mats; m++)
        dop_nest_array(
            n, dop_nest_text(n, "dop_raw_%s", dop_type_of(dop_product_type(o->gen->e.g, o->part->mats[m]))->name),
            dop_nest_text(n, "q%u", m), loads_of(o->gen, o->p, o->part, m, &steps));
    if (ahead)
        store_place(o, text->early);
    if (n->placement.x.path == DOP_PATH_whole)
        dop_nest_call(n, o->x->put, o->x->put_all);
    if (o->sets)
        begin_sets(o, first);
    if (!ahead)
        store_place(o, text->early);
    sum_product_stats(o, false);
    sum_row_set(o);
    reduce_lane_sums(o);
    sum_product_stats(o, true);
    store_rows(o, text->end);
    if (o->sets) {
        dop_nest_set(n, "row", "next_row");
        dop_nest_end(n);
    }
    if (*text->finish)
        dop_nest_hole(n, "finish", text->finish);
    dop_nest_end(n);
}

/* Emits the expressions of the epilogue for row t and column c; `early` gets their loads. */
static void
emit_end(const part_of *o, dop_buf *early, dop_buf *end)
{
    dop_emit *e = &o->gen->e;
    const dop_parts *p = o->p;
    const uint32_t n_binds = e->n_binds;
    dop_index ix = {o->t ? "t" : p->t, "c"};
    if (p->experts && !p->sum)
        ix.c = dop_emit_str(e, "(dop_slot * %uu + c)", o->part->rows);
    for (uint32_t m = 0; m < o->part->n_mats; m++)
        dop_emit_bind(e, p->sum ? p->sum : o->part->mats[m], stored_sum(o, m), false, NULL);
    if (p->beside)
        dop_emit_bind(e, p->beside, stored_sum(o, 1), false, NULL);
    for (uint32_t i = 0; i < p->n_stats; i++)
        dop_emit_bind(e, p->stats[i], dop_emit_str(e, "%s%u", o->t ? "rs" : "dop_stat", i), false, NULL);
    if (o->once)
        e->constants = e->early = early;
    dop_emit_scope(e, end, "        ");
    for (uint32_t i = 0; i < o->part->n_outs; i++)
        dop_emit_store(e, o->part->outs[i], ix, 1, dop_emit_value(e, o->part->outs[i], ix, 1));
    if (o->part->argmax) {
        const char *y = dop_emit_value(e, dop_node_at(e->g, o->part->argmax)->src[0], ix, 1);
        dop_emit_line(e, "float logit = dop_logit(%s);", y);
        dop_emit_line(e, "if (logit > best || (logit == best && c < where)) {");
        dop_emit_line(e, "    best = logit;");
        dop_emit_line(e, "    where = c;");
        dop_emit_line(e, "}");
    }
    e->constants = e->early = NULL;
    e->n_binds = n_binds;
}

void
dop_product_part(dop_gen *gen, const dop_parts *p, dop_nest *n, const dop_product *x, uint32_t index, uint32_t n_wg)
{
    const dop_nest_placement *pl = &n->placement;
    const dop_segment *part = &p->part[index];
    dop_parts own = *p;
    part_of o = {.gen = gen, .p = &own, .n = n, .x = x, .part = part, .index = index, .n_wg = n_wg};
    dop_buf early = {0}, end = {0}, begin = {0}, finish = {0}, decls = {0};
    own.act = p->activations[part->act];
    own.ints = p->ints && (!p->mixed || dop_int8_part(gen->e.g, part));
    o.mats = part->n_mats + (p->beside != 0);
    o.t = pl->at[DOP_PLACE_t][DOP_LEVEL_reg];
    o.rows = dop_placement_size(pl, DOP_PLACE_n, DOP_LEVEL_reg);
    o.lanes = dop_placement_size(pl, DOP_PLACE_k, DOP_LEVEL_lane);
    o.unroll = dop_placement_size(pl, DOP_PLACE_k, DOP_LEVEL_reg);
    o.per_wg = dop_placement_size(pl, DOP_PLACE_n, DOP_LEVEL_group) * o.rows;
    o.once = o.rows * (o.t ? o.t : 1) <= o.lanes;
    const bool one = !part->argmax && n_wg * o.per_wg >= part->rows;
    o.sets = !o.t || !one;
    const char *first = dop_emit_str(&gen->e, "wg * %uu", o.per_wg);
    o.end_row = dop_emit_str(&gen->e, "%uu", part->rows);
    emit_fetch(gen, p, n, index, &begin);
    if (part->argmax) {
        const uint32_t chunk = dop_div_up_u32(part->rows, n_wg);
        dop_gemv_argmax(gen, part, n_wg, &decls, &begin, &finish);
        dop_nest_hole(n, "arg-max", dop_gen_keep(gen, &decls));
        first = dop_emit_str(&gen->e, "wg * %uu", chunk);
        o.end_row = dop_emit_str(&gen->e, "min((wg + 1u) * %uu, %uu)", chunk, part->rows);
    }
    emit_end(&o, &early, &end);
    const part_text text = {.begin = dop_gen_keep(gen, &begin),
                            .early = dop_gen_keep(gen, &early),
                            .end = dop_gen_keep(gen, &end),
                            .finish = dop_gen_keep(gen, &finish)};
    lower_part(&o, first, one && (o.t || (gen->e.routes && !p->experts)), &text);
}

dop_status
dop_product_finish(dop_gen *gen, dop_nest *n, const char *before, dop_buf *calls)
{
    dop_nest_function(n, "main", "");
    if (before && *before)
        dop_nest_hole(n, "before", before);
    const bool chooses = dop_nest_find(n, "dop_choose") != NULL;
    if (chooses)
        dop_nest_call(n, "dop_choose", "");
    dop_nest_let(n, "uint", "wg", "DOP_GROUP.x");
    dop_nest_hole(n, "parts", dop_gen_keep(gen, calls))->reads = chooses ? ~0u : 0; /* all rows that the choice wrote */
    dop_nest_end(n);
    n->placement.at[DOP_PLACE_n][DOP_LEVEL_grid] = gen->grid[0];
    return dop_gen_print_nest(gen, n);
}
