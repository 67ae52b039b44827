/* Moments of groups of columns over many rows, of which group norms are made: the number of values of a group in some rows, their mean, and
 * the sum of their squared distances from it.  A workgroup has a group and a part of the rows. */
#include "kernels/gen.h"
#include "kernels/nest/nest.h"

/* The function that reads values of the region's source: one, or four next to each other. */
static void
put_reader(dop_gen *gen, dop_node_id x, const char *name, uint32_t width, dop_buf *out)
{
    dop_emit *e = &gen->e;
    dop_buf_printf(out, "%s %s(uint t, uint c)\n{\n", width == 4 ? "vec4" : "float", name);
    dop_emit_scope(e, out, "    ");
    dop_emit_line(e, "return %s;", dop_emit_value(e, x, (dop_index){"t", "c"}, width));
    dop_buf_puts(out, "}\n");
}

static dop_status
emit(dop_gen *gen)
{
    dop_emit *e = &gen->e;
    const dop_graph *g = e->g;
    const dop_node_id id = e->r->info->root, x = dop_node_at(g, id)->src[0];
    const dop_shape *s = &dop_node_at(g, id)->shape;
    const uint32_t parts = s->dim[0].mul, groups = s->dim[1].mul, wide = dop_node_cols(g, x) / groups,
                   load = wide % 4 == 0 && dop_emit_wide(e, x) ? 4 : 1;
    const char *type = load == 4 ? "vec4" : "float";
    dop_nest n;
    dop_nest_placement pl = {.at = {{[DOP_LEVEL_grid] = parts, [DOP_LEVEL_group] = gen->choice->tile.wg},
                                    {[DOP_LEVEL_grid] = groups},
                                    {[DOP_LEVEL_reg] = load}},
                             .sum = DOP_MEET_each,
                             .subgroup = 1};
    dop_buf readers = {0};
    put_reader(gen, x, "dop_x", load, &readers);
    put_reader(gen, x, "dop_x1", 1, &readers);
    const char *rows = dop_emit_rows(e, dop_node_row_multiple(g, x)), *out = dop_emit_arg(e, id, true);
    dop_nest_open(&n, "moments", &pl, g->arena, e->diag);
    const uint32_t memory = dop_nest_shared(&n, "vec2", "dop_sums", gen->choice->tile.wg);
    dop_nest_hole(&n, "x", dop_gen_keep(gen, &readers));
    dop_nest_function(&n, "main", "");
    /* Distances are first taken from one of the values, because sums of squares cancel out far from zero. */
    dop_nest_code(&n,
                  "uint group = gl_WorkGroupID.x, part = gl_WorkGroupID.y, rows = %s;\n"
                  "uint span = (rows + %uu) / %uu, first = min(part * span, rows), end = min(first + span, rows);\n"
                  "uint count = (end - first) * %uu, at = min(first, rows - 1u);\n"
                  "float near = dop_x1(at, group * %uu);\n"
                  "vec2 sums = vec2(0.0);\n",
                  rows, parts - 1, parts, wide, wide);
    dop_nest_for(&n, "i", "gl_LocalInvocationIndex", dop_nest_text(&n, "count / %uu", load), "WG")->apart = true;
    dop_nest_code(&n,
                  "%s x = dop_x(first + i / %uu, group * %uu + i %% %uu * %uu) - near;\n"
                  "sums += vec2(dot(x, %s(1.0)), dot(x, x));\n",
                  type, wide / load, wide, wide / load, load, type);
    dop_nest_end(&n);
    dop_nest_store(&n, memory, "dop_sums[gl_LocalInvocationIndex]", "sums");
    dop_nest_for(&n, "halves", "2u", "WG + 1u", "halves");
    dop_stmt *half = dop_nest_if(&n, "gl_LocalInvocationIndex < WG / halves");
    half->apart = half->disjoint = true;
    dop_nest_code(&n, "dop_sums[gl_LocalInvocationIndex] += dop_sums[gl_LocalInvocationIndex + WG / halves];\n");
    dop_nest_ends(&n, 2);
    dop_nest_if(&n, "gl_LocalInvocationIndex == 0u")->apart = true;
    dop_nest_code(&n,
                  "sums = dop_sums[0];\n"
                  "float n = float(max(count, 1u));\n"
                  "uint o = (part * %uu + group) * 3u;\n"
                  "dop_st1_f32(%s, o, float(count));\n"
                  "dop_st1_f32(%s, o + 1u, count > 0u ? near + sums.x / n : 0.0);\n"
                  "dop_st1_f32(%s, o + 2u, max(sums.y - sums.x * sums.x / n, 0.0));\n",
                  groups, out, out, out)
        ->reads = 0; /* which is its own sum */
    dop_nest_ends(&n, 2);
    gen->grid[0] = groups;
    gen->grid[1] = parts;
    return dop_gen_print_nest(gen, &n);
}

static uint32_t
shared_bytes(dop_gen *gen)
{
    return gen->choice->tile.wg * 8;
}

const dop_descriptor dop_descriptor_moments = {
    .shared = shared_bytes,
    .emit = emit,
    .trips = dop_trips_moments,
};
