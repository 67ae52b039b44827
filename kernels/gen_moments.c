/* Moments of groups of columns over many rows, of which group norms are made. */
#include "kernels/gen.h"

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
    dop_keys keys = {0};
    dop_buf *decls = dop_keys_text(gen, &keys, "DECLS");
    gen->grid[0] = groups;
    gen->grid[1] = parts;
    gen->grid[2] = 1;
    put_reader(gen, x, "dop_x", load, decls);
    put_reader(gen, x, "dop_x1", 1, decls);
    DOP_NUMBERS(gen, &keys, &gen->main, {"PARTS", parts}, {"GROUPS", groups}, {"WIDE", wide}, {"LOAD", load},
                {"LOADS", wide / load});
    dop_keys_set(&keys, "TYPE", load == 4 ? "vec4" : "float");
    dop_keys_set(&keys, "ROWS", dop_emit_rows(e, dop_node_row_multiple(g, x)));
    dop_keys_set(&keys, "OUT", dop_emit_arg(e, id, true));
    return dop_template_fill(gen, "moments.glsl", &keys, &gen->main);
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
