/* Prefill attention on matrix units. */
#include "kernels/gen.h"

/* A sink is one more score that only the sum sees. */
static void
sink_code(dop_gen *gen, const dop_attn *a, dop_buf *out)
{
    dop_emit *e = &gen->e;
    if (a->n->n_srcs < 6)
        return;
    dop_emit_scope(e, out, "    ");
    const char *s = dop_emit_value(e, a->n->src[5], (dop_index){"0u", "h"}, 1);
    dop_emit_line(e, "l += exp(%s - m);",
                  s); /* the largest score may be far below a sink: then l is large, as it should */
}

static dop_status
emit(dop_gen *gen)
{
    dop_emit *e = &gen->e;
    const dop_graph *g = e->g;
    dop_attn a = dop_attn_find(gen);
    const dop_tile *tile = &gen->choice->tile;
    dop_keys keys = {0};
    dop_buf decls = {0}, load = {0}, store = {0}, sink = {0};
    a.rows = a.group * tile->bq;
    gen->halves = true;
    dop_attn_positions(gen, &a, &decls);
    dop_emit_scope(e, &load, "            ");
    dop_emit_line(e, "q = %s;", dop_emit_value(e, a.n->src[0], (dop_index){"t", "c"}, 4));
    dop_attn_store(gen, &a, &store);
    sink_code(gen, &a, &sink);
    dop_attn_shape(gen, &a, &keys);
    dop_keys_num(gen, &keys, "G", a.group);
    dop_keys_num(gen, &keys, "BQ", tile->bq);
    dop_keys_num(gen, &keys, "FD", a.dim / 16);
    dop_keys_set(&keys, "STEP_RECORD", dop_emit_step(e));
    dop_keys_set(&keys, "N_TOKENS", dop_emit_n_tokens(e));
    dop_keys_set(&keys, "K", dop_emit_arg(e, a.n->src[1], false));
    dop_keys_set(&keys, "V", dop_emit_arg(e, a.n->src[2], false));
    dop_keys_set(&keys, "SCORE", dop_attn_score(gen, &a, "x"));
    dop_keys_set(&keys, "LOAD_Q", load.data ? load.data : "");
    dop_keys_set(&keys, "STORE", store.data ? store.data : "");
    dop_keys_set(&keys, "SINK", sink.data ? sink.data : "");
    dop_attn_sequence(gen, &a, "0u", &keys, &decls);
    dop_keys_set(&keys, "DECLS", decls.data ? decls.data : "");
    gen->grid[0] = a.kv;
    gen->grid[1] = dop_div_up_u32(g->max_t, tile->bq);
    gen->grid[2] = 1;
    dop_status st = e->status == DOP_OK ? dop_template_fill(gen, "attention_coop.glsl", &keys, &gen->main) : e->status;
    dop_buf_finish(&decls);
    dop_buf_finish(&load);
    dop_buf_finish(&store);
    dop_buf_finish(&sink);
    dop_buf_finish(&decls);
    return st;
}

static uint32_t
shared_bytes(dop_gen *gen)
{
    const dop_target *t = gen->e.target;
    uint32_t rows = gen->choice->tile.wg / t->subgroup * dop_matrix_m(t->matrix);
    return rows * dop_attn_find(gen).dim * 2 + rows * (36 * 4 + 40 * 2);
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
    if (dop_node_at(s->g, a.n->src[1])->type != DOP_TYPE_f16 || dop_node_at(s->g, a.n->src[2])->type != DOP_TYPE_f16)
        return (dop_refusal){"the cache is not f16", "--kv f16"};
    if (a.dim % 16 || a.dim > 256)
        return (dop_refusal){"the head is no multiple of 16 values, or longer than 256", NULL};
    if (a.value_dim != a.dim || a.value_stride != a.dim)
        return (dop_refusal){"keys and values have different lengths", NULL};
    if (a.group > dop_matrix_m(s->t->matrix))
        return (dop_refusal){"more query heads share a KV head than a matrix has rows", NULL};
    if (dop_attn_makes_heads(&gen) || !dop_emit_wide(&gen.e, a.n->src[0]))
        return (dop_refusal){"the region makes heads or cache rows itself", "--no-fuse"};
    return dop_attn_refuses(s);
}

static const char *
avoid(const dop_site *s)
{
    return s->g->max_t < DOP_MATRIX_ROWS ? "fewer than 16 tokens" : NULL;
}

/* One matrix of rows for each subgroup, and as many subgroups as there are queries for. */
static void
choose_tile(const dop_site *s, dop_tile *tile)
{
    const dop_target *t = s->t;
    dop_attn a = dop_attn_at(s);
    uint32_t subgroups = a.dim <= 128 ? 4 : 2, rows = dop_matrix_m(t->matrix);
    /* Small models: more, smaller workgroups. */
    while (subgroups > 1 && dop_div_up_u32(s->g->max_t * a.heads, subgroups * rows) < 2 * t->cores)
        subgroups /= 2;
    while (subgroups > 1 && subgroups * t->subgroup > t->max_workgroup)
        subgroups /= 2;
    tile->wg = subgroups * t->subgroup;
    tile->bq = subgroups * rows / a.group;
    if (tile->bq == 0)
        tile->bq = 1;
}

/* A driver takes ten times as long to compile this when its loops over fragments were unrolled before, and it runs no
 * faster; products run an eighth faster then.  The KHR form loses a third on an H200, where it gains a tenth for products. */
const dop_descriptor dop_descriptor_attention_coop = {
    .fits = fits,
    .avoid = avoid,
    .tile = choose_tile,
    .shared = shared_bytes,
    .emit = emit,
    .stage = DOP_VARIANT_attention_decode,
    .matrix_form = DOP_CAP_coop_nv,
    .unoptimized = true,
};
