/* Prefill attention on matrix units. */
#include "kernels/gen.h"

#include <math.h>

/* How a matrix of probabilities, which is a sum to the matrix units, becomes a factor of the second product. */
typedef enum pass_way {
    PASS_CAST,   /* by a conversion: the NV form, whose matrices are not tied to a use */
    PASS_HALVES, /* through shared memory, as sums of f16 */
    PASS_FLOATS  /* through shared memory, as sums of f32 that invocations convert */
} pass_way;

/* Consequences of a tile: how its subgroups divide the work, and where things are in shared memory, in words of 16 bytes. */
typedef struct layout {
    uint32_t dim, value_dim; /* of a head, filled up with zeros to whole matrices */
    uint32_t heads;          /* of a workgroup; others have the other query heads of its KV head */
    uint32_t subgroups, row_groups, position_groups;
    uint32_t value_groups; /* the same rows and positions, for a share of the values each */
    uint32_t depth_groups; /* value groups that make a share of the scores' depth each and add them up */
    uint32_t m, rows;      /* rows of queries: of a matrix, of the workgroup */
    uint32_t positions;    /* processed at a time */
    bool split_q;          /* queries are sums of two halves */
    bool q_stays;          /* queries stay in shared memory, because registers would not hold them */
    bool one_buffer;       /* K and V of a tile take turns in one buffer of shared memory */
    bool in_keys;          /* V is columns of K */
    pass_way pass;
    uint32_t v_at, q_at, piece_at, piece, words;
    uint32_t bytes; /* of shared memory in all */
} layout;

enum { MATRIX = 16 }; /* columns of a matrix */

static uint32_t
max_u32(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

/* Must queries be sums of two halves?  Rounding a query to f16 makes an error in its scores that grows with the scale.  Usually
 * the scale is one over the root of the length, and the error does not matter.  Where queries and keys are normed and the scale is
 * 1 (Gemma 4), it does. */
static bool
splits_queries(const dop_graph *g, const dop_attn *a)
{
    return dop_node_f(g, a->id, DOP_A_scale) * sqrt(a->dim) > 2;
}

/* 32-bit registers of an invocation that live through the loop over positions, without queries. */
static uint32_t
value_registers(const layout *l, const dop_target *t)
{
    const uint32_t sum = l->m * MATRIX / t->subgroup, scores = l->positions / l->position_groups / MATRIX;
    return (l->value_dim / l->value_groups / MATRIX + scores + 2) * sum +
           l->positions * max_u32(l->dim, l->value_dim) / 2 / (l->subgroups * t->subgroup);
}

/* The same, if queries stay in registers. */
static uint32_t
registers(const layout *l, const dop_target *t)
{
    return value_registers(l, t) + l->dim / MATRIX / l->depth_groups * (l->m * MATRIX / t->subgroup) / 2;
}

/* The heads of a workgroup: all that share a KV head, or as many as divide these and are no more than the rows of a matrix. */
static uint32_t
heads_of(const dop_attn *a, uint32_t m)
{
    uint32_t heads = a->group;
    for (uint32_t of = 1; heads > m; of++)
        if (a->group % of == 0)
            heads = a->group / of;
    return heads;
}

static layout
layout_of(const dop_graph *g, const dop_attn *a, const dop_tile *tile, const dop_target *t)
{
    layout l = {.dim = dop_div_up_u32(a->dim, MATRIX) * MATRIX,
                .value_dim = dop_div_up_u32(a->value_dim, MATRIX) * MATRIX,
                .value_groups = tile->group_wgs ? tile->group_wgs : 1,
                .m = dop_matrix_m(t->matrix),
                .in_keys = dop_attn_values_in_keys(g, a)};
    l.heads = heads_of(a, l.m);
    l.depth_groups = l.dim / MATRIX % l.value_groups == 0 ? l.value_groups : 1;
    l.subgroups = tile->wg / t->subgroup;
    l.position_groups = tile->ds ? tile->ds : 1;
    l.row_groups = max_u32(l.subgroups / l.position_groups / l.value_groups, 1);
    l.positions = tile->positions ? tile->positions : 64;
    l.rows = l.row_groups * l.m;
    l.split_q = splits_queries(g, a);
    l.q_stays = l.split_q || registers(&l, t) > t->schedule.attention_units_registers;
    l.pass = !(t->caps & DOP_CAP_coop_khr) ? PASS_CAST : t->caps & DOP_CAP_coop_f16_sums ? PASS_HALVES : PASS_FLOATS;
    uint32_t k = l.positions * (l.dim / 8 + 1), v = l.positions * (l.value_dim / 8 + 1);
    uint32_t q = l.rows * (l.dim / 8 + 1) * (l.split_q ? 2 : 1),
             stats = (2 * l.position_groups * l.value_groups + 2) * l.rows * 4 + 64;
    l.piece = l.m * 5 * (l.pass == PASS_FLOATS ? 2 : 1);
    uint32_t pieces = l.piece * l.subgroups, rest = pieces + (l.q_stays ? q : 0);
    l.one_buffer = !l.in_keys && (k + v + rest) * 16 + stats > t->shared_bytes;
    uint32_t tiles = l.in_keys ? k : l.one_buffer ? max_u32(k, v) : k + v;
    l.v_at = l.in_keys ? a->value_start / 8 : l.one_buffer ? 0 : k;
    l.q_at = l.q_stays ? tiles : 0;
    l.piece_at = l.q_stays ? tiles + q : tiles;
    l.words = max_u32(l.piece_at + pieces, q);
    l.bytes = l.words * 16 + stats;
    return l;
}

/* Code for attention sinks: a head's sink is one more score, which counts only in the sum of the softmax. */
static void
sink_code(dop_gen *gen, const dop_attn *a, dop_buf *out)
{
    dop_emit *e = &gen->e;
    const dop_node_id sinks = dop_attention_sinks(e->g, a->id);
    if (!sinks)
        return;
    dop_emit_scope(e, out, "    ");
    const char *s = dop_emit_value(e, sinks, (dop_index){"0u", "h"}, 1);
    /* The largest score may be far below a sink; the sum is then large, as it should be. */
    dop_emit_line(e, "l += exp2(%s * 1.44269504 - most);", s);
}

/* Scores as exponents of 2, as exp2 takes them: SCORE of a product (the cap), times FACTOR. */
static void
set_score(dop_gen *gen, const dop_attn *a, dop_buf *decls, dop_keys *keys)
{
    dop_emit *e = &gen->e;
    double scale = dop_node_f(e->g, a->id, DOP_A_scale), cap = dop_node_f(e->g, a->id, DOP_A_cap);
    const double log2e = 1.4426950408889634;
    dop_keys_set(keys, "SCORE", cap > 0 ? dop_emit_str(e, "dop_tanh(x * %.9g)", scale / cap) : "x");
    dop_buf_printf(decls, "#define FACTOR %.9g\n", (cap > 0 ? cap : scale) * log2e);
}

static dop_status
emit(dop_gen *gen)
{
    dop_emit *e = &gen->e;
    dop_attn a = dop_attn_find(gen);
    const dop_tile *tile = &gen->choice->tile;
    const layout l = layout_of(e->g, &a, tile, e->target);
    dop_keys keys = {0};
    dop_buf *decls = dop_keys_text(gen, &keys, "DECLS"), *load = dop_keys_text(gen, &keys, "LOAD_Q");
    if (l.row_groups * l.position_groups * l.value_groups != l.subgroups || l.positions % (16 * l.position_groups) ||
        l.heads * tile->bq > l.rows)
        return DOP_FAIL(e->diag, DOP_E_INPUT,
                        "attention_coop: %u invocations do not make %u groups of positions, %u positions at a time, %u "
                        "tokens with %u heads each in %u rows",
                        tile->wg, l.position_groups, l.positions, tile->bq, l.heads, l.rows);
    a.rows = l.heads * tile->bq;
    gen->halves = true;
    gen->votes = true;
    if (l.pass == PASS_HALVES)
        e->caps |= DOP_CAP_coop_f16_sums;
    dop_attn_positions(gen, &a, decls);
    dop_emit_scope(e, load, "            ");
    dop_emit_line(e, "q = %s;", dop_emit_value(e, a.n->src[0], (dop_index){"t", "c"}, 4));
    dop_attn_store(gen, &a, dop_keys_text(gen, &keys, "STORE"));
    sink_code(gen, &a, dop_keys_text(gen, &keys, "SINK"));
    DOP_NUMBERS(gen, &keys, &gen->main, DOP_ATTN_SHAPE(a), {"G", l.heads}, {"SHARES", a.group / l.heads},
                {"BQ", tile->bq}, {"RG", l.row_groups}, {"#PS", l.position_groups}, {"VG", l.value_groups},
                {"#DG", l.depth_groups}, {"#IN_KEYS", l.in_keys}, {"CP", l.positions}, {"V_AT", l.v_at},
                {"Q_AT", l.q_at}, {"PIECES_AT", l.piece_at}, {"PIECE", l.piece}, {"WORDS", l.words},
                {"#SPLIT_Q", l.split_q}, {"#Q_STAYS", l.q_stays}, {"#ONE_BUFFER", l.one_buffer}, {"#PASS", l.pass},
                {"#EAGER", dop_node_f(e->g, a.id, DOP_A_cap) > 0});
    set_score(gen, &a, decls, &keys);
    dop_keys_set(&keys, "BOUNDS", dop_attn_bounds(gen, &a));
    dop_keys_set(&keys, "N_TOKENS", dop_emit_n_tokens(e));
    if (dop_node_at(e->g, a.n->src[1])->type == DOP_TYPE_f32)
        e->blocks = true; /* whose functions pack halves */
    dop_buf_puts(decls, "#define DOP_WORDS(p, i) U32x4(p).v[i]\n");
    dop_attn_loads(gen, &a, (const char *const[]){"DOP_WORDS", "DOP_WORDS"}, decls);
    dop_keys_set(&keys, "SEQUENCE", dop_attn_sequence(gen, &a, "0u", decls));
    gen->grid[0] = a.kv * (a.group / l.heads);
    gen->grid[1] = dop_div_up_u32(e->g->max_t, tile->bq);
    gen->grid[2] = 1;
    return dop_template_fill(gen, "attention_coop.glsl", &keys, &gen->main);
}

static uint32_t
shared_bytes(dop_gen *gen)
{
    dop_attn a = dop_attn_find(gen);
    return layout_of(gen->e.g, &a, &gen->choice->tile, gen->e.target).bytes;
}

static uint32_t
longest_head(const dop_target *t)
{
    uint32_t most = 0;
    for (uint32_t i = 0; i < t->schedule.n_attention_tiles; i++)
        most = max_u32(most, t->schedule.attention_tiles[i].most_dim);
    return most;
}

static dop_refusal
fits(const dop_site *s)
{
    dop_diag ignored = {0};
    dop_gen gen;
    dop_attn a = dop_attn_at(s);
    dop_gen_open(&gen, s, NULL, NULL, &ignored);
    if (dop_attn_mixes(s))
        return (dop_refusal){"the rows of a step are of several sequences", NULL};
    if (a.n->op != DOP_OP_attention)
        return (dop_refusal){"the cache is split", NULL};
    if (!dop_attn_in_eights(s->g, &a) && dop_attention_cached(s->g, a.id))
        return (dop_refusal){"the cache is f32", "--kv f16"};
    if (a.dim % 8 || max_u32(a.dim, a.value_dim) > longest_head(s->t))
        return (dop_refusal){"the head is no multiple of 8 values, or longer than schedule.attention_tiles has", NULL};
    const bool in_keys = dop_attn_values_in_keys(s->g, &a) && a.value_start % 8 == 0 && a.value_dim % MATRIX == 0;
    if (!in_keys && (a.value_start || a.value_stride != a.value_dim || a.value_dim % 8))
        return (dop_refusal){"values are no rows of multiples of 8", NULL};
    if (dop_matrix_n(s->t->matrix) != MATRIX)
        return (dop_refusal){"the target's matrices have fewer than 16 columns", NULL};
    if (dop_attn_makes_heads(&gen) || !dop_emit_wide(&gen.e, a.n->src[0]))
        return (dop_refusal){"the region makes heads or cache rows itself", "--no-fuse"};
    return dop_attn_refuses_slopes(s);
}

/* Avoided for one token only.  Unused rows of a matrix cost nothing: even 4 rows take less time with matrix units than without. */
static const char *
avoid(const dop_site *s)
{
    return s->g->max_t < 2 ? "one token" : NULL;
}

/* A head too long for the sums of one subgroup, whose registers then do not hold queries either, gets groups of values. */
static layout
take_shape(const dop_site *s, const dop_attn *a, const dop_attention_groups *of, dop_tile *tile)
{
    enum { ONE_GROUP = 256, MOST_GROUPS = 8 };
    layout l;
    tile->ds = of->position_groups;
    tile->positions = of->positions;
    const uint32_t m = dop_matrix_m(s->t->matrix);
    tile->bq = of->row_groups * m / heads_of(a, m);
    for (tile->group_wgs = 1;; tile->group_wgs *= 2) {
        tile->wg = of->row_groups * of->position_groups * tile->group_wgs * s->t->subgroup;
        l = layout_of(s->g, a, tile, s->t);
        const uint32_t next = 2 * tile->group_wgs;
        const uint32_t used = l.split_q ? value_registers(&l, s->t) : registers(&l, s->t);
        if (l.value_dim <= ONE_GROUP || of->position_groups > 1 || next > MOST_GROUPS ||
            l.value_dim % (next * MATRIX) || used <= s->t->schedule.attention_units_registers)
            return l;
    }
}

/* The tile: the first row of schedule.attention_tiles that fits the head and the target.  Where there are not enough rows of
 * queries to occupy all cores, positions are divided among subgroups instead. */
static void
choose_tile(const dop_site *s, dop_tile *tile)
{
    const dop_target *t = s->t;
    dop_attn a = dop_attn_at(s);
    const dop_attention_shape *rows = t->schedule.attention_tiles;
    for (uint32_t i = 0; i < t->schedule.n_attention_tiles; i++) {
        if (max_u32(a.dim, a.value_dim) > rows[i].most_dim)
            continue;
        bool many = take_shape(s, &a, &rows[i].many, tile).bytes <= t->shared_bytes && tile->wg <= t->max_workgroup;
        if (many && dop_div_up_u32(s->g->max_t, tile->bq) * (a.heads / heads_of(&a, dop_matrix_m(t->matrix))) * 4 >=
                        t->cores * 3)
            return;
        if (take_shape(s, &a, &rows[i].few, tile).bytes <= t->shared_bytes && tile->wg <= t->max_workgroup)
            return;
        if (many) {
            take_shape(s, &a, &rows[i].many, tile);
            return;
        }
    }
}

const dop_descriptor dop_descriptor_attention_coop = {
    .fits = fits,
    .avoid = avoid,
    .tile = choose_tile,
    .shared = shared_bytes,
    .emit = emit,
    .stage = DOP_VARIANT_attention_decode,
    .matrix_form = DOP_CAP_coop_khr,
};
