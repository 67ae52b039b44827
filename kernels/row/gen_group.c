/* Products by expert: a small dispatch sorts the rows of a step into blocks of one expert each. Product kernels then look up
 * their rows in these blocks. */
#include "kernels/row/gen_group.h"
#include "kernels/gen/gen.h"
#include "kernels/gen/products.h"
#include "kernels/gen/templates.h"
#include "kernels/gen/trips.h"

dop_blocks
dop_blocks_of(const dop_graph *g, const dop_region *r)
{
    enum { SPAN = 128 }; /* maximum number of rows per tile, for blocks of consecutive rows */
    const dop_analysis *a = r->info;
    const dop_expert_facts *x = &a->experts;
    const bool apart = a->product.n_mats > 0 && dop_node_has_experts(g, a->product.mats[0]) && !x->ids && !x->sum;
    if (!x->blocks && (!apart || g->max_t < DOP_MATRIX_ROWS))
        return (dop_blocks){0};
    dop_blocks b = {.id = x->blocks, .slots = x->slots, .by_pair = dop_node_at(g, a->product.act)->shape.rank == 3};
    if (!b.id) {
        for (b.span = DOP_MATRIX_ROWS; b.span < SPAN && 2 * b.span <= g->max_t;)
            b.span *= 2;
        b.n = b.slots * dop_div_up_u32(g->max_t, b.span);
        return b;
    }
    const dop_shape *s = &dop_node_at(g, b.id)->shape;
    b.n = s->dim[0].mul;
    b.span = s->dim[1].mul - 1;
    return b;
}

dop_refusal
dop_blocks_refuse(const dop_site *s)
{
    uint32_t span = dop_blocks_of(s->g, s->r).span;
    if (span < DOP_SPAN_LEAST || (span & (span - 1)) != 0)
        return (dop_refusal){"its rows do not come in blocks of 8, 16, 32, ...", NULL};
    return dop_products_refuse(s);
}

uint32_t
dop_blocks_bytes(const dop_gen *gen, uint32_t bm)
{
    return dop_blocks_of(gen->e.g, gen->e.r).n ? bm * 4 : 0;
}

static void
declare_blocks(const dop_blocks *b, dop_buf *decls)
{
    dop_buf_printf(decls, "#define DOP_SPAN %uu\n#define DOP_SLOTS %uu\nshared uint dop_pair[BM];\nuint dop_matrix;\n",
                   b->span, b->slots);
}

/* Emits code that sets dop_pair and dop_matrix for tile number `tile`, and returns if the tile has no pairs. */
static void
begin_block_tiles(dop_gen *gen, const dop_blocks *b, const char *tile, dop_buf *out)
{
    if (!b->id) {
        const uint32_t each = b->n / b->slots; /* blocks per slot */
        dop_buf_printf(out,
                       "    // Tiles of a slot, whose matrix they share, side by side.\n"
                       "    const uint t0 = 0u;\n"
                       "    const uint tiles = %uu * (DOP_SPAN / BM);\n"
                       "    uint first = %s %% tiles * BM, end = %s;\n"
                       "    dop_matrix = %s / tiles;\n"
                       "    if (first >= end)\n"
                       "        return;\n"
                       "    for (uint i = gl_LocalInvocationIndex; i < BM; i += WG)\n"
                       "        dop_pair[i] = first + i < end ? (first + i) * DOP_SLOTS + dop_matrix : 0xffffffffu;\n"
                       "    barrier();\n",
                       each, tile, dop_emit_n_tokens(&gen->e), tile);
        return;
    }
    const char *a = dop_emit_arg(&gen->e, b->id, false);
    dop_buf_printf(out,
                   "    // A block may be several tiles, of which the first ones are used.\n"
                   "    const uint t0 = 0u;\n"
                   "    uint block = %s / (DOP_SPAN / BM) * (DOP_SPAN + 1u);\n"
                   "    uint first = block + 1u + %s %% (DOP_SPAN / BM) * BM;\n"
                   "    if (%s.v[first] == 0xffffffffu)\n"
                   "        return;\n"
                   "    dop_matrix = %s.v[block];\n"
                   "    for (uint i = gl_LocalInvocationIndex; i < BM; i += WG)\n"
                   "        dop_pair[i] = %s.v[first + i];\n"
                   "    barrier();\n",
                   tile, tile, a, a, a);
}

uint32_t
dop_tiles_begin(dop_gen *gen, const char *tile, const char *tokens, dop_buf *decls, dop_buf *out)
{
    const dop_blocks b = dop_blocks_of(gen->e.g, gen->e.r);
    const uint32_t bm = gen->choice->tile.bm;
    if (!b.n) {
        dop_buf_printf(out,
                       "    uint t0 = %s * BM; // tiles that share weights run side by side\n"
                       "    if (t0 >= %s)\n        return;\n",
                       tile, tokens);
        return dop_div_up_u32(gen->e.g->max_t, bm);
    }
    declare_blocks(&b, decls);
    begin_block_tiles(gen, &b, tile, out);
    return b.n * (b.span / bm);
}

const char *
dop_blocks_row(dop_gen *gen, const dop_blocks *b, const char *pair)
{
    return dop_emit_str(&gen->e, "%s / %uu", pair, b->slots);
}

const char *
dop_blocks_column(dop_gen *gen, const dop_blocks *b, const char *pair, uint32_t n)
{
    return dop_emit_str(&gen->e, "%s %% %uu * %uu + c", pair, b->slots, n);
}

/* Emits a function that reads four expert ids: from the row table if they are an input, otherwise from memory. */
static void
emit_read_ids(dop_gen *gen, dop_node_id ids, uint32_t experts, dop_buf *out)
{
    dop_emit *e = &gen->e;
    dop_node_id base = dop_node_base(e->g, ids, NULL);
    dop_buf_puts(out, "uvec4 dop_ids(uint i)\n{\n");
    if (dop_node_is_input(e->g, base)) {
        dop_buf_puts(out, "    uvec4 ids;\n    for (uint k = 0u; k < 4u; k++) {\n        uint t = i * 4u + k;\n");
        dop_emit_scope(e, out, "        ");
        dop_emit_line(e, "ids[k] = %s;", dop_emit_value(e, base, (dop_index){"t", "0u"}, 1));
        dop_buf_puts(out, "    }\n");
    } else {
        dop_buf_printf(out, "    uvec4 ids = dop_ldc4(%s, i);\n", dop_emit_arg(e, base, false));
    }
    /* Scores that are not finite may give invalid expert numbers, which must not be used as an index. */
    dop_buf_printf(out, "    return min(ids, uvec4(%uu));\n}\n", experts - 1);
}

/* Returns the number of slices of the ids; each invocation counts one slice. Limited by half of the shared memory for the
 * counts, and to 64, because the counts of all slices must be summed. */
static uint32_t
count_id_slices(const dop_gen *gen, uint32_t experts)
{
    const uint32_t fit = gen->e.target->shared_bytes / 8 / experts,
                   most = gen->choice->tile.wg < 64 ? gen->choice->tile.wg : 64;
    return fit == 0 ? 1 : fit < most ? fit : most;
}

static dop_status
emit_group_rows(dop_gen *gen)
{
    dop_emit *e = &gen->e;
    const dop_graph *g = e->g;
    dop_node_id id = e->r->info->root;
    const dop_shape *s = &dop_node_at(g, id)->shape;
    const uint32_t experts = (uint32_t)dop_node_i(g, id, DOP_A_experts);
    dop_node_id ids = dop_node_at(g, id)->src[0];
    dop_keys keys = {0};
    dop_buf *read = dop_keys_text(gen, &keys, "IDS");
    emit_read_ids(gen, ids, experts, read);
    DOP_NUMBERS(gen, &keys, &gen->main, {"EXPERTS", experts}, {"SPAN", s->dim[1].mul - 1}, {"BLOCKS", s->dim[0].mul},
                {"SLICES", count_id_slices(gen, experts)}, {"SLOTS", dop_node_cols(g, ids)});
    dop_keys_set(&keys, "N_TOKENS", dop_emit_n_tokens(e));
    dop_keys_set(&keys, "OUT", dop_emit_arg(e, id, true));
    return dop_template_fill(gen, "group.glsl", &keys, &gen->main);
}

static uint32_t
group_shared_bytes(dop_gen *gen)
{
    const uint32_t experts = (uint32_t)dop_node_i(gen->e.g, gen->e.r->info->root, DOP_A_experts);
    return (count_id_slices(gen, experts) + 2) * experts * 4;
}

/* Chooses one workgroup, as large as the target allows. */
static void
choose_group_tile(const dop_site *s, dop_tile *tile)
{
    tile->wg = s->t->cpu ? 64 : s->t->max_workgroup < 1024 ? s->t->max_workgroup : 1024;
}

const dop_descriptor dop_descriptor_group_rows = {
    .any_wg = true,
    .tile = choose_group_tile,
    .shared = group_shared_bytes,
    .emit = emit_group_rows,
    .trips = dop_trips_group,
};
