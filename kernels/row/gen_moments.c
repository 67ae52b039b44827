/* Moments of groups of columns over many rows, for group norms: number of values, mean, and sum of squared deviations of a
 * group in one part of the rows. A workgroup processes some adjacent groups and one part of the rows. */
#include "kernels/gen/gen.h"
#include "kernels/gen/legal.h"
#include "kernels/gen/templates.h"
#include "kernels/gen/trips.h"
#include "kernels/nest/nest.h"

enum { LOADS = 4 }; /* loads in flight per invocation */

/* How the invocations of a workgroup divide some adjacent groups of columns over one part of the rows. */
typedef struct moments_tile {
    uint32_t wide, groups; /* columns per group; groups per workgroup */
    uint32_t load;         /* columns per load */
    uint32_t line, rows;   /* invocations per row, and rows at once */
} moments_tile;

/* Emits the function that reads one value of the region's source, or four adjacent ones. */
static void
put_reader(dop_gen *gen, dop_node_id x, const char *name, uint32_t width, dop_buf *out)
{
    dop_emit *e = &gen->e;
    dop_buf_printf(out, "%s %s(uint t, uint c)\n{\n", width == 4 ? "vec4" : "float", name);
    dop_emit_scope(e, out, "    ");
    dop_emit_line(e, "return %s;", dop_emit_value(e, x, (dop_index){"t", "c"}, width));
    dop_buf_puts(out, "}\n");
}

/* Computes the tile. A workgroup gets enough adjacent groups for full memory transactions, so that no other workgroup reads
 * the same cache lines. */
static moments_tile
divide_moments(const dop_site *s, uint32_t wg)
{
    const dop_node *n = dop_node_at(s->g, s->r->info->root);
    const dop_node_id x = n->src[0];
    const uint32_t groups = n->shape.dim[1].mul, wide = dop_node_cols(s->g, x) / groups,
                   bytes = wide * dop_type_of(dop_node_at(s->g, x)->type)->bytes;
    moments_tile tile = {.wide = wide, .groups = 1};
    while (tile.groups * bytes < s->t->schedule.moments_bytes && groups % (tile.groups * 2) == 0)
        tile.groups *= 2;
    tile.load = wide % 4 == 0 && dop_region_wide(s->g, s->r, x) ? 4 : 1;
    const uint32_t line = tile.groups * wide / tile.load;
    tile.line = line < wg ? line : wg;
    tile.rows = wg / tile.line;
    return tile;
}

/* Emits the tree reduction of the invocations' sums over the rows. */
static void
reduce_moments(dop_nest *n, uint32_t memory, const moments_tile *tile)
{
    dop_nest_store(n, memory, "dop_sums[gl_LocalInvocationIndex]", "sums");
    dop_nest_for(n, "apart", "1u", dop_nest_text(n, "%uu", tile->rows), "apart");
    dop_stmt *both = dop_nest_if(n, "row %% (2u * apart) == 0u && row + apart < %uu", tile->rows);
    both->apart = both->disjoint = true;
    dop_nest_code(n, "dop_sums[gl_LocalInvocationIndex] += dop_sums[gl_LocalInvocationIndex + apart * %uu];\n",
                  tile->line);
    dop_nest_ends(n, 2);
}

static dop_status
emit_moments(dop_gen *gen)
{
    dop_emit *e = &gen->e;
    const dop_graph *g = e->g;
    const dop_node_id id = e->r->info->root, x = dop_node_at(g, id)->src[0];
    const dop_shape *s = &dop_node_at(g, id)->shape;
    const uint32_t parts = s->dim[0].mul, groups = s->dim[1].mul, wg = gen->choice->tile.wg;
    const moments_tile tile = divide_moments(&(dop_site){.g = g, .r = e->r, .t = e->target}, wg);
    const uint32_t columns = tile.groups * tile.wide / tile.load, each = columns / tile.groups;
    const char *type = tile.load == 4 ? "vec4" : "float";
    dop_nest n;
    dop_nest_placement pl = {.at = {{[DOP_LEVEL_grid] = parts, [DOP_LEVEL_group] = tile.rows},
                                    {[DOP_LEVEL_grid] = groups / tile.groups, [DOP_LEVEL_group] = tile.line},
                                    {[DOP_LEVEL_reg] = tile.load}},
                             .sum = DOP_MEET_each,
                             .subgroup = 1};
    dop_buf readers = {0};
    put_reader(gen, x, "dop_x", tile.load, &readers);
    put_reader(gen, x, "dop_x1", 1, &readers);
    const char *rows = dop_emit_rows(e, dop_node_row_multiple(g, x)), *out = dop_emit_arg(e, id, true);
    dop_nest_open(&n, "moments", &pl, g->arena, e->diag);
    const uint32_t memory = dop_nest_shared(&n, "vec2", "dop_sums", wg);
    dop_nest_hole(&n, "x", dop_gen_keep(gen, &readers));
    dop_nest_function(&n, "main", "");
    /* Sums differences to one of the values, because sums of squares far from zero would cancel. */
    dop_nest_code(&n,
                  "uint part = gl_WorkGroupID.y, rows = %s, span = (rows + %uu) / %uu;\n"
                  "uint first = min(part * span, rows), end = min(first + span, rows), at = min(first, rows - 1u);\n"
                  "uint row = gl_LocalInvocationIndex / %uu, own = gl_LocalInvocationIndex %% %uu;\n"
                  "uint group = gl_WorkGroupID.x * %uu + own / %uu;\n"
                  "float near = dop_x1(at, group * %uu);\n"
                  "vec2 sums = vec2(0.0);\n",
                  rows, parts - 1, parts, tile.line, tile.line, tile.groups, each, tile.wide);
    dop_nest_if(&n, "row < %uu", tile.rows);
    dop_nest_for(&n, "c", "own", dop_nest_text(&n, "%uu", columns), dop_nest_text(&n, "%uu", tile.line));
    dop_nest_for(&n, "t", "first + row", "end", dop_nest_text(&n, "%uu", tile.rows * LOADS))->apart = true;
    dop_nest_unrolled(&n, "i", LOADS);
    dop_nest_code(&n,
                  "uint u = t + i * %uu;\n"
                  "%s x = dop_x(min(u, end - 1u), gl_WorkGroupID.x * %uu + c * %uu) - near;\n"
                  "sums += u < end ? vec2(dot(x, %s(1.0)), dot(x, x)) : vec2(0.0);\n",
                  tile.rows, type, tile.groups * tile.wide, tile.load, type);
    dop_nest_ends(&n, 4);
    reduce_moments(&n, memory, &tile);
    /* The first invocation of a group adds up the sums of its group's columns. */
    dop_nest_if(&n, "row == 0u && own %% %uu == 0u", each < tile.line ? each : tile.line)->apart = true;
    dop_nest_code(&n,
                  "sums = vec2(0.0);\n"
                  "for (uint i = 0u; i < %uu; i++)\n"
                  "    sums += dop_sums[gl_LocalInvocationIndex + i];\n"
                  "uint count = (end - first) * %uu, o = (part * %uu + group) * 3u;\n"
                  "float n = float(max(count, 1u));\n"
                  "dop_st1_f32(%s, o, float(count));\n"
                  "dop_st1_f32(%s, o + 1u, count > 0u ? near + sums.x / n : 0.0);\n"
                  "dop_st1_f32(%s, o + 2u, max(sums.y - sums.x * sums.x / n, 0.0));\n",
                  each < tile.line ? each : tile.line, tile.wide, groups, out, out, out);
    dop_nest_ends(&n, 2);
    gen->grid[0] = groups / tile.groups;
    gen->grid[1] = parts;
    return dop_gen_print_nest(gen, &n);
}

static uint32_t
moments_shared_bytes(dop_gen *gen)
{
    return gen->choice->tile.wg * 8;
}

static uint64_t
trips_moments(const dop_site *s, const dop_tile *tile)
{
    const dop_node *n = dop_node_at(s->g, s->r->info->root);
    const moments_tile by = divide_moments(s, tile->wg);
    const uint64_t rows = dop_node_rows(s->g, n->src[0], s->g->max_t), parts = n->shape.dim[0].mul,
                   columns = by.groups * by.wide / by.load;
    return dop_turns((rows + parts - 1) / parts, by.rows) * dop_turns(columns, by.line) + 2 * dop_halvings(tile->wg) +
           columns + 8;
}

/* Checks that an invocation has columns of only one group. */
static void
legal_moments(dop_check *c)
{
    const moments_tile by = divide_moments(c->s, c->tile->wg);
    const uint32_t columns = by.groups * by.wide / by.load;
    dop_check_range(c, DOP_TILE_NO_wg, by.groups > 1 ? columns : 1, c->s->t->max_workgroup);
}

const dop_descriptor dop_descriptor_moments = {
    .legal = legal_moments,
    .any_wg = true,
    .shared = moments_shared_bytes,
    .emit = emit_moments,
    .trips = trips_moments,
};
