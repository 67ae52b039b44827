/* The end of products on matrix units: sums become values of the region's outputs. */
#include "kernels/gen_coop.h"

uint32_t
dop_coop_store_width(dop_emit *e, const dop_coop_rows *rows)
{
    uint32_t width = 4;
    for (uint32_t i = 0; i < rows->n; i++) {
        const dop_segment *part = &rows->part[i];
        width = part->rows % 4 == 0 ? width : 1;
        for (uint32_t k = 0; k < part->n_outs; k++)
            width = dop_emit_wide(e, part->outs[k]) ? width : 1;
    }
    return width;
}

/* Code that computes the part's outputs at ix from the sums, and stores them.  The template declares `e`, the place of the first
 * sum, and the macros DOP_SUM1 and DOP_SUM4, which read sums there. */
static void
store_values(dop_gen *gen, const dop_segment *part, uint32_t width, dop_index ix)
{
    dop_emit *e = &gen->e;
    const uint32_t n_binds = e->n_binds;
    for (uint32_t m = 0; m < part->n_mats; m++) {
        const char *name = dop_emit_str(e, "acc%u", m);
        dop_emit_line(e, "%s %s = DOP_SUM%u(%uu, e);", width == 4 ? "vec4" : "float", name, width, m);
        dop_emit_bind(e, part->mats[m], name, false, NULL);
    }
    for (uint32_t i = 0; i < part->n_outs; i++)
        dop_emit_store(e, part->outs[i], ix, width, dop_emit_value(e, part->outs[i], ix, width));
    e->n_binds = n_binds;
}

static void
store_part(dop_gen *gen, const dop_segment *part, uint32_t width, dop_buf *store)
{
    dop_emit *e = &gen->e;
    const dop_blocks b = dop_blocks_of(e->g, e->r);
    if (b.n)
        dop_buf_printf(store, "                    uint s = %s;\n",
                       dop_blocks_column(gen, &b, DOP_STORED_PAIR, part->rows));
    dop_emit_scope(e, store, "                    ");
    store_values(gen, part, width, (dop_index){"t", b.n ? "s" : "c"});
}

void
dop_coop_store(dop_gen *gen, const dop_coop_rows *rows, uint32_t width, dop_buf *store)
{
    uint32_t before = 0;
    for (uint32_t i = 0; i < rows->n; i++) {
        const uint32_t end = before + rows->part[i].rows;
        if (i + 1 < rows->n)
            dop_buf_printf(store, "                    %sif (c < %uu) {\n", i > 0 ? "} else " : "", end);
        else if (rows->n > 1)
            dop_buf_puts(store, "                    } else {\n");
        if (before > 0)
            dop_buf_printf(store, "                    c -= %uu;\n", before);
        store_part(gen, &rows->part[i], width, store);
        before = end;
    }
    if (rows->n > 1)
        dop_buf_puts(store, "                    }\n");
}

/* The epilogue of the s-th values that a lane has of the fragments: code that loads their operands, and code that stores them.
 * Loads have no condition: past the last token or row, the operands of another one are loaded and not used.  Returns whether
 * anything is loaded. */
static bool
store_apart(dop_gen *gen, const dop_coop_rows *rows, uint32_t width, uint32_t s, dop_buf *load, dop_buf *store)
{
    dop_emit *e = &gen->e;
    const dop_index ix = {dop_emit_str(e, "token%u", s), dop_emit_str(e, "row%u", s)};
    dop_buf_printf(load,
                   "            uint q%u = DOP_VALUE(%uu, %uu);\n"
                   "            uint token%u = min(t0 + wm * WM + i * MM + DOP_TOKEN(q%u), dop_tokens - 1u), row%u = "
                   "min(DOP_COLUMN(q%u), %uu);\n",
                   s, s, width, s, s, s, s, rows->rows - width);
    dop_buf_printf(store,
                   "            if (t0 + wm * WM + i * MM + DOP_TOKEN(q%u) < dop_tokens && DOP_COLUMN(q%u) < %uu) {\n"
                   "                uint e = DOP_PLACE(q%u);\n",
                   s, s, rows->rows, s);
    const size_t size = load->size;
    dop_emit_scope(e, store, "                ");
    e->constants = e->early = load;
    store_values(gen, rows->part, width, ix);
    e->constants = e->early = NULL;
    dop_buf_puts(store, "            }\n");
    return load->size > size;
}

/* Does an epilogue with loads apart slow the loop over the depth before it?  With weights of some types the loop takes a tenth
 * longer (tests/bench/log/2026-11-24-shallow-split-k), unless its bounds are variables, as with split-K. */
static bool
slows_loop(const dop_gen *gen, const dop_segment *part)
{
    static const dop_type slow[] = {DOP_TYPE_q8_0, DOP_TYPE_mxfp4, DOP_TYPE_int4_g128, DOP_TYPE_int4_g64,
                                    DOP_TYPE_int4_g32};
    const dop_graph *g = gen->e.g;
    const dop_type type = dop_node_at(g, dop_node_at(g, part->mats[0])->src[1])->type;
    bool slows = false;
    for (uint32_t i = 0; i < sizeof slow / sizeof *slow; i++)
        slows = slows || slow[i] == type;
    return slows && gen->choice->tile.shares <= 1;
}

/* Loads of all operands come before all stores: a compiler must assume that a store changes what the next load reads, so
 * alternating loads and stores would wait for each other. */
bool
dop_coop_store_apart(dop_gen *gen, const dop_coop_rows *rows, uint32_t width, dop_buf *load, dop_buf *store)
{
    const dop_target *t = gen->e.target;
    const uint32_t fragment = dop_matrix_m(t->matrix) * dop_matrix_n(t->matrix),
                   times = rows->deep * rows->side * fragment / (t->subgroup * width), n_temps = gen->e.n_temps;
    bool loads =
        rows->n == 1 && rows->rows >= width && !dop_blocks_of(gen->e.g, gen->e.r).n && !slows_loop(gen, rows->part);
    for (uint32_t s = 0; loads && s < times; s++)
        loads = store_apart(gen, rows, width, s, load, store);
    if (!loads) {
        dop_buf_finish(load);
        dop_buf_finish(store);
        gen->e.n_temps = n_temps;
    }
    return loads;
}
