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

dop_status
dop_gen_attention_coop(dop_gen *gen)
{
    dop_emit *e = &gen->e;
    const dop_graph *g = e->g;
    dop_attn a = dop_attn_find(gen);
    const dop_tile *tile = &gen->choice->tile;
    dop_keys keys = {0};
    dop_buf load = {0}, store = {0}, sink = {0};
    a.rows = a.group * tile->bq;
    if (!dop_emit_wide(e, a.n->src[0]))
        return DOP_FAIL(e->diag, DOP_E_INPUT, "attention_coop: queries are not a multiple of 4 wide");
    dop_emit_scope(e, &load, "            ");
    dop_emit_line(e, "q = %s;", dop_emit_value(e, a.n->src[0], (dop_index){"t", "c"}, 4));
    dop_attn_store(gen, &a, &store);
    sink_code(gen, &a, &sink);
    uint32_t rows = tile->wg / e->target->subgroup * dop_matrix_m(e->target->matrix);
    gen->shared += rows * a.dim * 2 + rows * (36 * 4 + 40 * 2);
    dop_keys_num(gen, &keys, "D", a.dim);
    dop_keys_num(gen, &keys, "G", a.group);
    dop_keys_num(gen, &keys, "BQ", tile->bq);
    dop_keys_num(gen, &keys, "KV", a.kv);
    dop_keys_num(gen, &keys, "FD", a.dim / 16);
    dop_keys_set(&keys, "WINDOW", dop_emit_window(e, a.id));
    dop_keys_set(&keys, "STEP_RECORD", dop_emit_step(e));
    dop_keys_set(&keys, "N_TOKENS", dop_emit_n_tokens(e));
    dop_keys_set(&keys, "K", dop_emit_arg(e, a.n->src[1], false));
    dop_keys_set(&keys, "V", dop_emit_arg(e, a.n->src[2], false));
    dop_keys_set(&keys, "SCORE", dop_attn_score(gen, &a, "x"));
    dop_keys_set(&keys, "LOAD_Q", load.data ? load.data : "");
    dop_keys_set(&keys, "STORE", store.data ? store.data : "");
    dop_keys_set(&keys, "SINK", sink.data ? sink.data : "");
    dop_keys_set(&keys, "DECLS", "");
    gen->grid[0] = a.kv;
    gen->grid[1] = dop_div_up_u32(g->max_t, tile->bq);
    gen->grid[2] = 1;
    dop_status st = e->status == DOP_OK ? dop_template_fill(gen, "attention_coop.glsl", &keys, &gen->main) : e->status;
    dop_buf_finish(&load);
    dop_buf_finish(&store);
    dop_buf_finish(&sink);
    return st;
}
