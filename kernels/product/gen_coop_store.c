/* Epilogue of products on matrix units: sums become values of the region's outputs. */
#include "kernels/gen/templates.h"
#include "kernels/product/gen_coop.h"
#include "kernels/row/gen_group.h"

/* Returns the number of adjacent values (1 or 4), all of one part, that are stored at once. */
static uint32_t
stored_width(const dop_coop *o)
{
    uint32_t width = 4;
    for (uint32_t i = 0; i < o->n_parts; i++) {
        const dop_segment *part = &o->part[i];
        width = part->rows % 4 == 0 ? width : 1;
        for (uint32_t k = 0; k < part->n_outs; k++)
            width = dop_emit_wide(&o->gen->e, part->outs[k]) ? width : 1;
    }
    return width;
}

/* Emits code that computes the part's outputs at ix from the sums and stores them; `e` is the index of the first sum. */
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

/* Emits code that stores values of token t from column c on. */
static void
store_at(const dop_coop *o, uint32_t width, dop_buf *store)
{
    dop_emit *e = &o->gen->e;
    const dop_blocks b = dop_blocks_of(e->g, e->r);
    uint32_t before = 0;
    for (uint32_t i = 0; i < o->n_parts; i++) {
        const uint32_t end = before + o->part[i].rows;
        if (i + 1 < o->n_parts)
            dop_buf_printf(store, "                    %sif (c < %uu) {\n", i > 0 ? "} else " : "", end);
        else if (o->n_parts > 1)
            dop_buf_puts(store, "                    } else {\n");
        if (before > 0)
            dop_buf_printf(store, "                    c -= %uu;\n", before);
        if (b.n)
            dop_buf_printf(store, "                    uint s = %s;\n",
                           dop_blocks_column(o->gen, &b, DOP_STORED_PAIR, o->part[i].rows));
        dop_emit_scope(e, store, "                    ");
        store_values(o->gen, &o->part[i], width, (dop_index){"t", b.n ? "s" : "c"});
        before = end;
    }
    if (o->n_parts > 1)
        dop_buf_puts(store, "                    }\n");
}

/* Emits the epilogue of a lane's s-th values of the fragments, as code that loads operands, and code that stores. Loads are
 * unconditional: past the last token or row, other operands are loaded and not used. Returns true if anything is loaded. */
static bool
store_apart(const dop_coop *o, uint32_t width, uint32_t s, dop_buf *load, dop_buf *store)
{
    dop_emit *e = &o->gen->e;
    const dop_index ix = {dop_emit_str(e, "token%u", s), dop_emit_str(e, "row%u", s)};
    dop_buf_printf(load,
                   "            uint q%u = DOP_VALUE(%uu, %uu);\n"
                   "            uint token%u = min(t0 + wm * WM + i * MM + DOP_TOKEN(q%u), dop_tokens - 1u), row%u = "
                   "min(DOP_COLUMN(q%u), %uu);\n",
                   s, s, width, s, s, s, s, o->rows - width);
    dop_buf_printf(store,
                   "            if (t0 + wm * WM + i * MM + DOP_TOKEN(q%u) < dop_tokens && DOP_COLUMN(q%u) < %uu) {\n"
                   "                uint e = DOP_PLACE(q%u);\n",
                   s, s, o->rows, s);
    const size_t size = load->size;
    dop_emit_scope(e, store, "                ");
    e->constants = e->early = load;
    store_values(o->gen, o->part, width, ix);
    e->constants = e->early = NULL;
    dop_buf_puts(store, "            }\n");
    return load->size > size;
}

/* True if an epilogue with separate loads slows the preceding loop over the depth. With some weight types the loop takes a
 * tenth longer (tests/bench/log/2026-11-24-shallow-split-k), unless its bounds are variables, as with split-K. */
static bool
slows_loop(const dop_gen *gen, const dop_segment *part)
{
    static const dop_type slow[] = {DOP_TYPE_q8_0, DOP_TYPE_mxfp4, DOP_TYPE_int4_g128, DOP_TYPE_int4_g64,
                                    DOP_TYPE_int4_g32};
    const dop_graph *g = gen->e.g;
    const dop_type type = dop_product_type(g, part->mats[0]);
    bool slows = false;
    for (uint32_t i = 0; i < sizeof slow / sizeof *slow; i++)
        slows = slows || slow[i] == type;
    return slows && gen->choice->tile.shares <= 1;
}

/* Emits the epilogue of all values that a lane has in adjacent fragments in two pieces: `load` loads the operands of all
 * values, `store` computes and stores the values. A compiler must assume that stores alias later loads, so alternating loads
 * and stores would be serialized. Returns false, without code, if there are no operands to load. */
static bool
all_apart(const dop_coop *o, uint32_t width, dop_buf *load, dop_buf *store)
{
    dop_gen *gen = o->gen;
    const dop_target *t = gen->e.target;
    const uint32_t fragment = dop_matrix_m(t->matrix) * dop_matrix_n(t->matrix),
                   times = o->deep * o->side * fragment / (t->subgroup * width), n_temps = gen->e.n_temps;
    bool loads = o->form->kind <= DOP_COOP_direct && o->n_parts == 1 && o->rows >= width &&
                 !dop_blocks_of(gen->e.g, gen->e.r).n && !slows_loop(gen, o->part);
    for (uint32_t s = 0; loads && s < times; s++)
        loads = store_apart(o, width, s, load, store);
    if (!loads) {
        dop_buf_finish(load);
        dop_buf_finish(store);
        gen->e.n_temps = n_temps;
    }
    return loads;
}

/* Handles the case in which each lane has at most one value of all of a workgroup's fragments. The epilogue of a waiting part
 * is a chain of loads, of which only the last ones depend on the awaited value. The others are issued before the loop over
 * the depth. */
static bool
once_apart(const dop_coop *o, dop_buf *load, dop_buf *store)
{
    dop_emit *e = &o->gen->e;
    const dop_target *t = e->target;
    const uint32_t values = o->side * dop_matrix_m(t->matrix) * dop_matrix_n(t->matrix);
    if (!o->operands || o->fm > 1 || o->fn > o->side || o->n_parts > 1 || values > o->teams * t->subgroup ||
        dop_blocks_of(e->g, e->r).n)
        return false;
    dop_buf_printf(load,
                   "    const uint i = 0u, j = 0u;\n    const uint q = min(share * SG + lane %% SG, %uu);\n"
                   "    const uint token = min(t0 + wm * WM + DOP_TOKEN(q), dop_tokens - 1u);\n"
                   "    const uint row = min(DOP_COLUMN(q), %uu);\n",
                   values - 1, o->rows - 1);
    dop_buf_printf(store,
                   "            if (share * SG + lane %% SG < %uu && t0 + wm * WM + DOP_TOKEN(q) < dop_tokens && "
                   "DOP_COLUMN(q) < %uu) {\n                uint e = DOP_PLACE(q);\n",
                   values, o->rows);
    dop_emit_scope(e, store, "                ");
    e->constants = e->early = load;
    store_values(o->gen, o->part, 1, (dop_index){"token", "row"});
    e->constants = e->early = NULL;
    dop_buf_puts(store, "            }\n");
    return true;
}

/* Emits the split-K merge: workgroups that share a tile store their sums, in the order of their invocations. The last one to
 * finish adds all sums in the order of the shares, so that the result is deterministic. */
static void
merge_shares(const dop_coop *o)
{
    dop_nest *n = o->n;
    const dop_target *t = o->gen->e.target;
    const uint32_t fours = dop_matrix_m(t->matrix) * dop_matrix_n(t->matrix) / t->subgroup / 4,
                   each = o->fm * o->fn * fours, sums = o->part->n_mats * o->fm * o->fn;
    const char *counts = dop_emit_counts(&o->gen->e), *memory = dop_emit_sums(&o->gen->e, 0);
    dop_nest_if(n, "dop_share < SHARES");
    dop_nest_let(n, "const uint", "each", "%uu * WG", o->gen->e.r->info->product.most_mats * each);
    dop_nest_let(n, "uint", "first", "dop_tile * SHARES * each + lane");
    dop_nest_unrolled(n, "f", sums);
    dop_nest_unrolled(n, "q", fours);
    dop_nest_code(
        n,
        "dop_hand4_f32(%s, (first + dop_share * each + (f * %uu + q) * WG) * 4u,\n"
        "              vec4(acc[f][4u * q], acc[f][4u * q + 1u], acc[f][4u * q + 2u], acc[f][4u * q + 3u]));\n",
        memory, fours);
    dop_nest_ends(n, 2);
    dop_nest_return(n, "!dop_last_of(%s, dop_tile, SHARES)", counts);
    dop_nest_each(n, "f", sums, "acc[f]", "FRAG(0.0)");
    /* Unrolled for one share only: if the kernels of a layer together exceed the instruction cache, they slow each other
     * down. */
    dop_nest_for(n, "s", "0u", "SHARES", NULL)->rolled = true;
    dop_nest_unrolled(n, "f", sums);
    dop_nest_unrolled(n, "q", fours);
    dop_nest_let(n, "vec4", "sum", "dop_take4_f32(%s, (first + s * each + (f * %uu + q) * WG) * 4u)", memory, fours);
    dop_nest_each(n, "u", 4, "acc[f][4u * q + u]", "sum[u]")->step = "+";
    dop_nest_ends(n, 4);
}

/* Emits code that stores a subgroup's adjacent fragments of sums to its own piece of shared memory, so that lanes have
 * adjacent values of the same token. */
static void
pass_through(const dop_coop *o)
{
    dop_nest *n = o->n;
    const bool shared = o->form->kind >= DOP_COOP_few;
    dop_nest_unrolled(n, "m", o->part->n_mats);
    dop_nest_unrolled(n, "f", o->side);
    dop_nest_call(n, "coopMatStoreNV",
                  "acc[(m * FM + i) * FN + j * FJ + f], dop_s,\n"
                  "    (m * (WG / SG) + own) * (MM * LS / 4u) + f * (MN / 4u), LS / 4u, false")
        ->writes = o->memory[0];
    dop_nest_ends(n, 2);
    if (!shared)
        dop_nest_call(n, "DOP_SYNC", "");
}

/* Emits code that stores the values of the fragments that are stored together, in a loop over a lane's values. Groups of
 * subgroups divide the values, and add up their partial sums as they read them. */
static void
store_fragments(const dop_coop *o, uint32_t width, const char *store)
{
    dop_nest *n = o->n;
    const dop_target *t = o->gen->e.target;
    const bool shared = o->form->kind >= DOP_COOP_few;
    const uint32_t values = o->deep * o->side * dop_matrix_m(t->matrix) * dop_matrix_n(t->matrix);
    const dop_blocks b = dop_blocks_of(o->gen->e.g, o->gen->e.r);
    if (!shared) {
        dop_nest_unrolled(n, "s", values / (t->subgroup * width));
        dop_nest_let(n, "uint", "q", "DOP_VALUE(s, %uu)", width);
    } else {
        dop_nest_for(n, "q", dop_nest_text(n, "(share * SG + lane %% SG) * %uu", width),
                     dop_nest_text(n, "%uu", values), dop_nest_text(n, "TEAMS * SG * %uu", width))
            ->apart = true;
    }
    dop_nest_code(n, "uint e = DOP_PLACE(q), r = DOP_TOKEN(q), c = DOP_COLUMN(q);\n");
    dop_nest_let(n, "uint", "t", "%s", b.n ? dop_blocks_row(o->gen, &b, DOP_STORED_PAIR) : "t0 + wm * WM + i * MM + r");
    dop_nest_if(n, "t < dop_tokens && c < %uu", o->rows)->apart = true;
    dop_nest_hole(n, "end", store)->reads = shared ? o->memory[0] : 0;
    dop_nest_ends(n, 2);
}

void
dop_coop_end(const dop_coop *o)
{
    dop_nest *n = o->n;
    dop_buf load = {0}, store = {0};
    const bool direct = o->form->kind == DOP_COOP_direct, shared = o->form->kind >= DOP_COOP_few;
    const uint32_t width = stored_width(o);
    const bool once = once_apart(o, &load, &store), apart = once || all_apart(o, width, &load, &store);
    if (!apart)
        store_at(o, width, &store);
    if (once)
        o->operands->value = dop_gen_keep(o->gen, &load);
    if (o->gen->choice->tile.shares > 1)
        merge_shares(o);
    const char *end = dop_gen_keep(o->gen, &store);
    dop_nest_for(n, "i", "0u", "FM", dop_nest_text(n, "%uu", o->deep))->unroll = true;
    if (!direct)
        dop_nest_unrolled(n, "j", o->fn / o->side);
    if (apart && !once)
        dop_nest_hole(n, "operands", dop_gen_keep(o->gen, &load));
    if (!direct)
        pass_through(o);
    if (apart)
        dop_nest_hole(n, "end", end)->reads = once ? o->memory[0] : 0;
    else
        store_fragments(o, width, end);
    if (shared) /* an iteration ends when all have read these fragments */
        dop_nest_code(n, "// the next fragments\n")->writes = o->memory[0];
    else if (!direct)
        dop_nest_call(n, "subgroupBarrier", "");
    dop_nest_ends(n, direct ? 1 : 2);
}
