/* Attention on CPU devices, four query rows at a time: what fills attention_rows.glsl. */
#include "kernels/gen.h"

enum { ROWS = 4 };

/* Code for sums over the lanes of a subgroup, for as many positions as lanes: each step adds half of a lane's partial sums to
 * those of another lane and receives the other half, until lane i has the sum for position i. */
static void
sums(uint32_t lanes, dop_buf *out)
{
    for (uint32_t n = lanes / 2; n > 0; n /= 2) {
        dop_buf_printf(out, "            {\n                bool upper = (LANE & %uu) != 0u;\n", n);
        for (uint32_t i = 0; i < n; i++)
            dop_buf_printf(out,
                           "                parts[%u] = (upper ? parts[%u] : parts[%u]) + "
                           "subgroupShuffle(upper ? parts[%u] : parts[%u], LANE ^ %uu);\n",
                           i, i + n, i, i, i + n, n);
        dop_buf_puts(out, "            }\n");
    }
}

/* Expression of the positions of four query rows, which usually are neighbouring query heads of one token.  A step of one row
 * loads its position once, because loads are expensive on CPU devices. */
static const char *
positions(dop_emit *e, dop_node_id of)
{
    if (e->g->max_t == 1 || dop_attention_reach(e->g, of).mask == DOP_MASK_cache)
        return dop_emit_str(e, "uvec4(%s)", dop_emit_seen_position(e, of, "0"));
    return dop_emit_str(e, "uvec4(%s, %s, %s, %s)", dop_emit_seen_position(e, of, "DOP_T(0u)"),
                        dop_emit_seen_position(e, of, "DOP_T(1u)"), dop_emit_seen_position(e, of, "DOP_T(2u)"),
                        dop_emit_seen_position(e, of, "DOP_T(R - 1u)"));
}

static const char *
span(dop_emit *e, dop_node_id of)
{
    return dop_emit_str(
        e,
        "    uvec4 pq = %s; // of the rows, and their bounds\n"
        "    uint least = min(min(pq.x, pq.y), min(pq.z, pq.w)), last = max(max(pq.x, pq.y), max(pq.z, pq.w));\n"
        "    uint lo = DOP_FIRST(least), hi = last + 1u;\n",
        positions(e, of));
}

static dop_status
emit(dop_gen *gen)
{
    dop_emit *e = &gen->e;
    const dop_graph *g = e->g;
    dop_attn a = dop_attn_find(gen);
    dop_keys keys = {0};
    dop_buf *decls = dop_keys_text(gen, &keys, "DECLS");
    const bool eights = a.dim % 8 == 0 && a.value_dim % 8 == 0 && a.value_start % 8 == 0 && a.value_stride % 8 == 0,
               cached = dop_attention_cached(g, a.id),
               mixes = dop_attn_mixes(&(dop_site){g, e->r, e->target, e->routes});
    const uint32_t step = dop_attn_in_eights(g, &a) && eights ? 8 : 4, once = gen->choice->tile.positions;
    a.rows = ROWS;
    /* With rows of several sequences, a workgroup has those of only one token. */
    const uint32_t of_token = dop_div_up_u32(a.group, ROWS);
    DOP_NUMBERS(gen, &keys, &gen->main, DOP_ATTN_SHAPE(a), {"G", a.group}, {"#STEP", step}, {"TILE", DOP_ROWS_TILE},
                {"ONCE", once}, {"#MIXES", mixes}, {"OF_TOKEN", of_token}, {"#TURNS", DOP_ROWS_TILE / once});
    const dop_status lanes = dop_template_fill(gen, "rows.glsl", &keys, decls);
    if (lanes != DOP_OK)
        return lanes;
    dop_attn_positions(gen, &a, decls);
    dop_attn_sequence(gen, &a, mixes ? "DOP_T(0u)" : "0u", &keys, decls);
    dop_attn_prologue(gen, &a, dop_keys_text(gen, &keys, "PROLOGUE"));
    dop_attn_store(gen, &a, dop_keys_text(gen, &keys, "STORE"));
    dop_attn_tail(gen, "DOP_H(0u)", "min(R, n_rows - r0)", 1, decls, &keys); /* only one token's heads have a tail */
    sums(gen->choice->tile.wg, dop_keys_text(gen, &keys, "SUMS"));
    dop_attn_loads(gen, &a, "dop_ldw4", decls);
    dop_keys_set(&keys, "SPAN", cached ? span(e, a.id) : dop_attn_span(gen, &a, "R", "DOP_T(i)"));
    dop_keys_set(&keys, "FROM", cached ? "DOP_FIRST(pq[j])" : "from[j]");
    dop_keys_set(&keys, "N_TOKENS", dop_emit_n_tokens(e));
    dop_keys_set(&keys, "SCORE", dop_attn_score(gen, &a, "x"));
    dop_keys_set(&keys, "SINK", dop_attn_sink(gen, &a));
    gen->grid[0] = a.kv;
    gen->grid[1] = mixes ? g->max_t * of_token : dop_div_up_u32(g->max_t * a.group, a.rows);
    gen->grid[2] = a.splits;
    return dop_template_fill(gen, "attention_rows.glsl", &keys, &gen->main);
}

static uint32_t
shared_bytes(dop_gen *gen)
{
    dop_attn a = dop_attn_find(gen);
    return (ROWS * (a.dim > a.value_dim ? a.dim : a.value_dim) + DOP_ROWS_TILE * ROWS) * 4 + dop_tail_bytes(gen, 1);
}

static dop_refusal
fits(const dop_site *s)
{
    for (uint32_t i = 0; i < s->r->n_nodes; i++)
        if (dop_node_at(s->g, s->r->nodes[i])->op == DOP_OP_attn_combine)
            return (dop_refusal){"it does not merge the splits of the cache", "--no-fuse"};
    return dop_attn_refuses_slopes(s);
}

static const char *
avoid(const dop_site *s)
{
    return s->t->cpu ? NULL : "meant for CPU devices";
}

static uint64_t
trips(const dop_site *s, const dop_tile *tile)
{
    const dop_attn a = dop_attn_at(s);
    const uint64_t n = dop_attn_reaches(s, &a), tile_of = DOP_ROWS_TILE;
    const uint64_t inner = tile->positions < tile_of ? 3 * (tile_of / tile->positions + 1) : 0;
    return dop_trips_heads(s, tile, &a, ROWS) + dop_turns(n, tile_of) * (inner + 1);
}

static void
choose_tile(const dop_site *s, dop_tile *tile)
{
    dop_attn_tile(s, tile);
    tile->wg = s->t->subgroup;
    /* An iteration takes one position per lane, for which that lane then sums up; more positions would be more code. */
    tile->positions = tile->wg;
    while (tile->positions < DOP_ROWS_TILE && dop_trips_too_many(s, &dop_descriptor_attention_rows, tile))
        tile->positions *= 2;
}

const dop_descriptor dop_descriptor_attention_rows = {
    .fits = fits,
    .avoid = avoid,
    .tile = choose_tile,
    .shared = shared_bytes,
    .emit = emit,
    .trips = trips,
    .texels = true,
    .stage = DOP_VARIANT_attention_decode,
};
