/* Kernels for row regions, which consist of row programs, and for element-wise regions. */
#include "ir/graph/access.h"
#include "ir/graph/dims.h"
#include "ir/graph/unit.h"
#include "kernels/gen/gen.h"
#include "kernels/gen/gen_cache.h"
#include "kernels/gen/products.h"
#include "kernels/gen/row_program.h"
#include "kernels/gen/templates.h"
#include "kernels/gen/trips.h"
#include "kernels/nest/nest.h"

enum { MANY = 8 }; /* workgroups per multiprocessor from which on larger ones are used */

/* Returns the length in values of the longest unit of the region's programs. */
static uint32_t
longest_unit(const dop_region *r)
{
    uint32_t most = 0;
    for (uint32_t i = 0; i < r->info->row.n_programs; i++)
        most = r->info->row.programs[i].unit.len > most ? r->info->row.programs[i].unit.len : most;
    return most;
}

/* Returns the number of cooperative lanes per unit; 0: the whole workgroup. A subgroup processes a unit in stages with short
 * units. It also does so if a workgroup has several subgroups and a subgroup loads a whole unit at once (tile_row). */
static uint32_t
row_lanes(const dop_gen *gen)
{
    const dop_tile *tile = &gen->choice->tile;
    const uint32_t sg = gen->e.target->subgroup, most = longest_unit(gen->e.r);
    const bool several = tile->subgroup && tile->wg > sg && most <= sg * 4;
    return (gen->e.routes && most <= sg * 16) || several ? sg : 0;
}

/* Opens the nest of a kernel and its main function. */
static void
open_main(dop_gen *gen, const dop_nest_placement *pl, dop_nest *n)
{
    dop_nest_open(n, dop_variant_of(gen->choice->variant)->name, pl, gen->e.g->arena, gen->e.diag);
    dop_nest_function(n, "main", "");
}

/* Declares the unit and the row of the step for the workgroup or, with `each`, for each subgroup. */
static void
declare_row_unit(dop_gen *gen, dop_nest *n, uint32_t each, uint32_t units)
{
    const char *row = "DOP_GROUP.y", *unit = "DOP_GROUP.x";
    if (each)
        unit = dop_nest_text(n, "DOP_GROUP.x * (WG / SG) + gl_LocalInvocationIndex / SG");
    if (each && gen->e.routes) {
        dop_nest_let(n, "uint", "item", "%s", unit);
        row = dop_nest_text(n, "item / %uu", units);
        unit = dop_nest_text(n, "item %% %uu", units);
    }
    dop_nest_let(n, "uint", "t", "%s", row);
    dop_nest_let(n, "uint", "unit", "%s", unit);
    if (each)
        dop_nest_let(n, "uint", "lane", "gl_LocalInvocationIndex %% SG");
}

static dop_status
emit_row(dop_gen *gen)
{
    dop_emit *e = &gen->e;
    const dop_graph *g = e->g;
    const dop_region *r = e->r;
    const dop_node_id out = r->outs[0];
    const bool tokens =
        dop_node_per_token(g, dop_node_at(g, out)->op == DOP_OP_state_write ? dop_node_at(g, out)->src[1] : out);
    const uint32_t each = row_lanes(gen), wg = gen->choice->tile.wg;
    dop_nest n;
    dop_nest_placement pl = {.subgroup = e->target->subgroup, .sum = each ? DOP_MEET_lanes : DOP_MEET_shared};
    uint32_t units = 0, first = 0;
    for (uint32_t i = 0; i < r->info->row.n_programs; i++)
        units += r->info->row.programs[i].unit.units;
    pl.at[DOP_PLACE_t][DOP_LEVEL_grid] = tokens ? g->max_t : 1;
    pl.at[DOP_PLACE_n][DOP_LEVEL_grid] = each ? dop_div_up_u32(units, wg / each) : units;
    pl.at[DOP_PLACE_n][DOP_LEVEL_group] = each ? wg / each : 1;
    open_main(gen, &pl, &n);
    declare_row_unit(gen, &n, each, units);
    dop_nest_return(&n, "t >= %s", tokens ? dop_emit_n_tokens(e) : "1u");
    for (uint32_t i = 0; i < r->info->row.n_programs; i++) {
        const dop_program *x = &r->info->row.programs[i];
        const char *unit = dop_nest_text(&n, "unit%u", i);
        dop_nest_if(&n, "unit >= %uu && unit < %uu", first, first + x->unit.units)->apart = each != 0;
        dop_nest_let(&n, "uint", unit, "unit - %uu", first);
        dop_rowprog p = {.nodes = x->nodes,
                         .n_nodes = x->n_nodes,
                         .len = x->unit.len,
                         .t = tokens ? "t" : "0u",
                         .unit = x->unit.units == 1 && first == 0 ? "0u" : unit,
                         .lanes = each,
                         .lane = "lane",
                         .serial = i};
        uint32_t n_binds = e->n_binds;
        dop_nest_rowprog(gen, &p, &n);
        e->n_binds = n_binds;
        dop_nest_end(&n);
        first += x->unit.units;
    }
    dop_nest_end(&n);
    gen->grid[0] = n.placement.at[DOP_PLACE_n][DOP_LEVEL_grid];
    gen->grid[1] = n.placement.at[DOP_PLACE_t][DOP_LEVEL_grid];
    if (each && e->routes) {
        gen->grid[0] = dop_div_up_u32(units * gen->grid[1], wg / each);
        gen->grid[1] = 1;
    }
    return dop_gen_print_nest(gen, &n);
}

/* True if a value is computed from a row of a matrix. Its many loads should not wait for the sums of other values. */
static bool
reads_matrix_rows(const dop_graph *g, const dop_region *r)
{
    bool reads = false;
    for (uint32_t i = 0; i < r->n_nodes; i++)
        for (uint32_t k = 0; k < dop_node_at(g, r->nodes[i])->n_srcs; k++)
            reads = reads || dop_node_map(g, r->nodes[i], k, DOP_AXIS_row).kind == DOP_ACCESS_col;
    return reads;
}

/* Emits an element-wise kernel: each invocation computes `width` adjacent values of a row. */
static dop_status
emit_elementwise_kernel(dop_gen *gen)
{
    dop_emit *e = &gen->e;
    const dop_graph *g = e->g;
    const dop_region *r = e->r;
    dop_buf values = {0}, loads = {0};
    dop_nest n;
    dop_node_id first = r->outs[0];
    if (dop_node_at(g, first)->op == DOP_OP_state_write)
        first = dop_node_at(g, first)->src[1];
    uint32_t cols = dop_node_cols(g, first), width = cols % 4 == 0 ? 4 : 1;
    for (uint32_t i = 0; i < r->n_outs; i++)
        if (!dop_emit_wide(e, r->outs[i]))
            width = 1;
    const bool tokens = dop_node_per_token(g, first);
    uint32_t rows = tokens ? g->max_t : (uint32_t)dop_dim_value(g, dop_node_at(g, first)->shape.dim[0], 1);
    if (dop_node_at(g, first)->shape.rank == 1 && !tokens)
        rows = 1;
    gen->grid[0] = dop_div_up_u32(rows * (cols / width), gen->choice->tile.wg);
    dop_nest_placement pl = {.subgroup = e->target->subgroup};
    pl.at[DOP_PLACE_n][DOP_LEVEL_grid] = gen->grid[0];
    pl.at[DOP_PLACE_n][DOP_LEVEL_lane] = gen->choice->tile.wg;
    pl.at[DOP_PLACE_n][DOP_LEVEL_reg] = width;
    open_main(gen, &pl, &n);
    dop_nest_let(&n, "uint", "i", "DOP_GROUP.x * WG + gl_LocalInvocationIndex");
    dop_nest_let(&n, "uint", "t", "i / %uu", cols / width);
    dop_nest_let(&n, "uint", "c", "(i %% %uu) * %uu", cols / width, width);
    dop_nest_return(&n, "t >= %s", tokens ? dop_emit_n_tokens(e) : dop_nest_text(&n, "%uu", rows));
    dop_emit_scope(e, &values, "    ");
    dop_index ix = {rows == 1 ? "0u" : "t", "c"};
    if (reads_matrix_rows(g, r))
        e->constants = e->early = &loads;
    for (uint32_t i = 0; i < r->n_outs; i++)
        dop_emit_store(e, r->outs[i], ix, width, dop_emit_value(e, r->outs[i], ix, width));
    if (e->early)
        dop_nest_hole(&n, "loads", dop_gen_keep(gen, &loads));
    e->constants = e->early = NULL;
    dop_nest_hole(&n, "values", dop_gen_keep(gen, &values));
    dop_nest_end(&n);
    return dop_gen_print_nest(gen, &n);
}

static void
tile_row(const dop_site *s, dop_tile *tile)
{
    const dop_graph *g = s->g;
    dop_node_id out = s->r->outs[0];
    dop_unit u = dop_node_unit(g, dop_node_at(g, out)->op == DOP_OP_state_write ? dop_node_at(g, out)->src[1] : out);
    uint32_t least = tile->subgroup && s->t->subgroup > 32 ? s->t->subgroup : 32;
    while (tile->wg > least && tile->wg * 4 > u.len)
        tile->wg /= 2;
    /* One subgroup per unit: a multiprocessor holds more subgroups than workgroups. */
    if (tile->subgroup && !s->t->cpu && g->max_t > 1 && longest_unit(s->r) <= s->t->subgroup * 4)
        for (tile->wg = s->t->subgroup;
             tile->wg < s->t->subgroup * s->t->schedule.row_subgroups && tile->wg * 2 <= s->t->max_workgroup;
             tile->wg *= 2)
            ;
    /* Sums within one subgroup need no barriers, which are expensive on CPU devices. */
    if (s->t->cpu && tile->subgroup)
        tile->wg = s->t->subgroup;
}

/* Chooses small workgroups, so that all multiprocessors get some; large ones if there are many, because starting each takes
 * time. */
static void
tile_elementwise(const dop_site *s, dop_tile *tile)
{
    const dop_schedule_numbers *in = &s->t->schedule;
    const dop_node_id out = s->r->outs[0];
    const uint64_t loads = dop_node_rows(s->g, out, s->g->max_t) * dop_node_cols(s->g, out) / 4;
    const uint32_t large = dop_wg_of(s->t, in->element_wg_busy);
    tile->wg = loads >= (uint64_t)MANY * s->t->cores * large ? large : in->element_wg;
}

const dop_descriptor dop_descriptor_row = {
    .fits = dop_attn_refuses_blocks,
    .tile = tile_row,
    .emit = emit_row,
    .trips = dop_trips_row,
};

/* Every element-wise region can be a stage: its workgroups get the size of the persistent dispatch, and surplus invocations
 * idle without leaving. */
static const char *
any_stage(const dop_site *s, dop_tile *tile)
{
    (void)s;
    (void)tile;
    return NULL;
}

static const char *
row_stage(const dop_site *s, dop_tile *tile)
{
    (void)tile;
    return s->g->max_t > 1 ? NULL : "a row program of one row";
}

const dop_descriptor dop_descriptor_row_subgroup = {
    .tile = tile_row,
    .emit = emit_row,
    .trips = dop_trips_row,
    .stage = DOP_VARIANT_row_subgroup,
    .as_stage = row_stage,
};

const dop_descriptor dop_descriptor_elementwise = {
    .any_wg = true,
    .tile = tile_elementwise,
    .emit = emit_elementwise_kernel,
    .stage = DOP_VARIANT_elementwise,
    .as_stage = any_stage,
};
