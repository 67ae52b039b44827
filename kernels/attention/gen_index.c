/* Sparse attention: index scores of the positions for a row, and the choice of the top positions. */
#include "kernels/attention/gen_attend.h"
#include "kernels/gen/gen.h"
#include "kernels/gen/gen_cache.h"
#include "kernels/gen/templates.h"
#include "kernels/gen/trips.h"

enum { HEADS = 16 }; /* maximum number of index heads whose sums an invocation holds at once */

/* Returns the index in the form that the cache functions need (gen_cache.c): one head of keys, and no values. */
static dop_attn
describe_index(const dop_site *s)
{
    dop_attn a = {.id = s->r->info->root, .kv = 1, .group = 1, .splits = 1, .max_splits = 1, .keys_only = true};
    a.n = dop_node_at(s->g, a.id);
    const dop_shape *q = &dop_node_at(s->g, a.n->src[0])->shape;
    a.heads = q->dim[1].mul;
    a.dim = q->dim[2].mul;
    return a;
}

static uint32_t
index_heads_at_once(const dop_attn *a)
{
    uint32_t n = HEADS;
    while (a->heads % n)
        n--;
    return n;
}

/* Returns the values of a key that are multiplied at once. */
static uint32_t
index_load_width(const dop_graph *g, const dop_attn *a)
{
    const bool halves = dop_node_at(g, a->n->src[1])->type == DOP_TYPE_f16 && a->dim % 8 == 0;
    return halves || dop_attn_in_blocks(g, a, 0) ? 8 : 4;
}

/* Returns the statement that puts a value of the row's queries, or of its weights, into shared memory. */
static const char *
emit_index_load(dop_gen *gen, dop_node_id id, const char *put, const char *put1, const char *col, bool wide)
{
    dop_emit *e = &gen->e;
    dop_buf b = {0};
    dop_emit_scope(e, &b, "            ");
    const uint32_t width = wide && dop_emit_wide(e, id) ? 4 : 1;
    dop_emit_line(e, width == 4 ? put : put1, dop_emit_value(e, id, (dop_index){"t", col}, width));
    const char *text = b.failed ? "" : dop_emit_str(e, "%s", b.data);
    dop_buf_finish(&b);
    return text;
}

static dop_status
emit_scores(dop_gen *gen)
{
    dop_emit *e = &gen->e;
    const dop_graph *g = e->g;
    const dop_attn a = describe_index(&gen->site);
    const uint32_t cols = dop_node_cols(g, a.id);
    dop_keys keys = {0};
    dop_buf *decls = dop_keys_text(gen, &keys, "DECLS");
    dop_attn_positions(gen, &a, decls);
    dop_keys_set(&keys, "SEQUENCE", dop_attn_sequence(gen, &a, "t", decls));
    dop_attn_loads(gen, &a, (const char *const[]){"dop_ldc4", NULL}, decls);
    const bool wide = dop_emit_wide(e, a.n->src[0]);
    DOP_NUMBERS(gen, &keys, &gen->main, {"D", a.dim}, {"H", a.heads}, {"HS", index_heads_at_once(&a)}, {"COLS", cols},
                {"#STEP", index_load_width(g, &a)}, {"WIDTH", wide ? 4 : 1});
    dop_keys_set(&keys, "N_TOKENS", dop_emit_n_tokens(e));
    dop_keys_set(&keys, "POSITION", dop_emit_position(e, "t"));
    dop_keys_set(&keys, "SCALE", dop_emit_str(e, "%.9g", dop_node_f(g, a.id, DOP_A_scale)));
    dop_keys_set(&keys, "LOAD_Q",
                 emit_index_load(gen, a.n->src[0], "dop_q[i / 4u] = %s;", "dop_q[i / 4u][i % 4u] = %s;", "c", wide));
    dop_keys_set(&keys, "LOAD_W", emit_index_load(gen, a.n->src[2], "", "dop_w[i] = %s;", "i", false));
    dop_keys_set(&keys, "OUT", dop_emit_arg(e, a.id, true));
    gen->grid[0] = dop_div_up_u32(cols, gen->choice->tile.wg);
    gen->grid[1] = g->max_t;
    return dop_template_fill(gen, "index_scores.glsl", &keys, &gen->main);
}

static uint32_t
scores_bytes(dop_gen *gen)
{
    const dop_attn a = describe_index(&gen->site);
    return (index_heads_at_once(&a) * a.dim + a.heads) * 4;
}

static dop_refusal
fits_scores(const dop_site *s)
{
    return describe_index(s).dim % 4 ? (dop_refusal){"keys are not a multiple of 4 values", NULL} : (dop_refusal){0};
}

static void
tile_scores(const dop_site *s, dop_tile *tile)
{
    tile->wg = s->t->cpu ? 32 : s->t->max_workgroup < 128 ? s->t->max_workgroup : 128;
}

static uint64_t
trips_scores(const dop_site *s, const dop_tile *tile)
{
    const dop_attn a = describe_index(s);
    const uint32_t n = index_heads_at_once(&a);
    return (uint64_t)a.heads / n * (dop_turns((uint64_t)n * a.dim, tile->wg) + dop_turns(a.dim, 4) * (n + 1) + 2 * n) +
           dop_turns(a.heads, tile->wg) + 64;
}

const dop_descriptor dop_descriptor_index_scores = {
    .any_wg = true,
    .fits = fits_scores,
    .tile = tile_scores,
    .shared = scores_bytes,
    .emit = emit_scores,
    .trips = trips_scores,
};

static dop_status
emit_positions(dop_gen *gen)
{
    dop_emit *e = &gen->e;
    const dop_graph *g = e->g;
    const dop_node_id id = e->r->info->root;
    dop_keys keys = {0};
    dop_emit_scope(e, dop_keys_text(gen, &keys, "SCORE"), "    ");
    dop_emit_line(e, "return dop_order(%s);", dop_emit_value(e, dop_node_at(g, id)->src[0], (dop_index){"t", "i"}, 1));
    DOP_NUMBERS(gen, &keys, &gen->main, {"K", dop_node_cols(g, id)},
                {"COLS", dop_node_cols(g, dop_node_at(g, id)->src[0])});
    dop_keys_set(&keys, "N_TOKENS", dop_emit_n_tokens(e));
    dop_keys_set(&keys, "POSITION", dop_emit_position(e, "t"));
    dop_keys_set(&keys, "OUT", dop_emit_arg(e, id, true));
    gen->grid[0] = g->max_t;
    return dop_template_fill(gen, "top_positions.glsl", &keys, &gen->main);
}

static uint32_t
positions_bytes(dop_gen *gen)
{
    return (256 + 2 + 2 * gen->choice->tile.wg) * 4;
}

/* Chooses one workgroup per row, as large as the target allows. */
static void
tile_positions(const dop_site *s, dop_tile *tile)
{
    tile->wg = s->t->cpu ? 32 : s->t->max_workgroup < 1024 ? s->t->max_workgroup : 1024;
}

/* Returns the loop trip count: four radix digits and two walks over an invocation's share of the row. */
static uint64_t
trips_positions(const dop_site *s, const dop_tile *tile)
{
    const dop_node_id id = s->r->info->root;
    const uint32_t cols = dop_node_cols(s->g, dop_node_at(s->g, id)->src[0]);
    return 6 * dop_turns(cols, tile->wg) + 4 * (256 + dop_turns(256, tile->wg)) + 2 * dop_halvings(tile->wg) +
           dop_turns(dop_node_cols(s->g, id), tile->wg) + 64;
}

const dop_descriptor dop_descriptor_top_positions = {
    .any_wg = true,
    .tile = tile_positions,
    .shared = positions_bytes,
    .emit = emit_positions,
    .trips = trips_positions,
};
