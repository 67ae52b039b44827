/* Arg-max of the logits: alone, as partial results, or merging partial results; the last step of a greedy token also
 * advances the step record. */
#include "kernels/gen.h"

static void
scan_row(dop_gen *gen, dop_node_id x, const char *first, const char *end, dop_buf *scan)
{
    dop_emit *e = &gen->e;
    bool tokens = dop_node_per_token(e->g, x) && e->g->max_t > 1;
    dop_buf_printf(scan, "    for (uint c = %s + gl_LocalInvocationIndex; c < %s; c += WG) {\n", first, end);
    dop_emit_scope(e, scan, "        ");
    const char *v = dop_emit_value(e, x, (dop_index){tokens ? "t" : "0u", "c"}, 1);
    dop_emit_line(e, "float logit = dop_logit(%s);", v);
    dop_emit_line(e, "if (logit > best) {");
    dop_emit_line(e, "    best = logit;");
    dop_emit_line(e, "    at = c;");
    dop_emit_line(e, "}");
    dop_buf_puts(scan, "    }\n");
}

/* One pick moves the step on: its id is the token of the next one. */
static void
store_pick(dop_emit *e, dop_buf *store)
{
    const dop_graph *g = e->g;
    const char *s = dop_emit_step(e);
    /* An id that no vocabulary has says that a logit was not finite. */
    dop_buf_printf(store,
                   "        at = best > 3.4e38 ? 0xffffffffu : at;\n"
                   "        %s.ids[%s.n_out %% 4096u] = at;\n        %s.n_out += 1u;\n"
                   "        Row last = %s.rows[%s.n_rows - 1u];\n"
                   "        %s.rows[0] = Row(at, last.position + 1u, last.sequence, 0u);\n"
                   "        %s.n_rows = 1u;\n",
                   s, s, s, s, s, s, s);
    /* The step is complete: what it made of the states that it replaces is current from now on. */
    if (dop_graph_replaces(g) && dop_graph_mixes(g))
        e->status = DOP_FAIL(e->diag, DOP_E_INPUT, "no kernel commits a step of several sequences");
    if (dop_graph_replaces(g))
        dop_buf_printf(store, "        %s.parity[%s] ^= 1u;\n", s, g->max_q == 1 ? "0" : "last.sequence");
}

/* Is there a pick of every row, for the host? */
static bool
picks_each(const dop_graph *g, dop_node_id id)
{
    return dop_node_at(g, id)->shape.dim[0].sym == DOP_SYM_T && g->max_t > 1;
}

static dop_status
emit(dop_gen *gen)
{
    dop_emit *e = &gen->e;
    const dop_graph *g = e->g;
    dop_node_id id = e->r->outs[e->r->n_outs - 1];
    const dop_node *n = dop_node_at(g, id);
    dop_keys keys = {0};
    dop_buf scan = {0}, store = {0};
    const bool each = picks_each(g, id);
    uint32_t cols = dop_node_cols(g, n->src[0]);
    gen->grid[0] = gen->grid[1] = gen->grid[2] = 1;
    if (n->op == DOP_OP_argmax_merge) {
        const char *a = dop_emit_arg(e, n->src[0], false);
        dop_buf_printf(&scan,
                       "    for (uint i = gl_LocalInvocationIndex; i < %uu; i += WG) {\n"
                       "        float v = dop_ld1_f32(%s, i * 2u);\n"
                       "        uint w = uint(dop_ld1_f32(%s, i * 2u + 1u));\n"
                       "        if (v > best || (v == best && w < at)) {\n"
                       "            best = v;\n"
                       "            at = w;\n"
                       "        }\n"
                       "    }\n",
                       cols / 2, a, a);
    } else if (n->op == DOP_OP_argmax_part) {
        uint32_t parts = (uint32_t)dop_node_i(g, id, DOP_A_parts), chunk = dop_div_up_u32(cols, parts);
        gen->grid[0] = parts;
        scan_row(gen, n->src[0], dop_emit_str(e, "part * %uu", chunk),
                 dop_emit_str(e, "min((part + 1u) * %uu, %uu)", chunk, cols), &scan);
    } else {
        scan_row(gen, n->src[0], "0u", dop_emit_str(e, "%uu", cols), &scan);
    }
    if (n->op == DOP_OP_argmax_part) {
        const char *a = dop_emit_arg(e, id, true);
        dop_buf_printf(&store,
                       "        dop_st1_f32(%s, part * 2u, best);\n"
                       "        dop_st1_f32(%s, part * 2u + 1u, float(at));\n",
                       a, a);
    } else if (each) {
        gen->grid[1] = g->max_t;
        dop_buf_printf(&store, "        if (t < %s)\n            %s.ids[t] = best > 3.4e38 ? 0xffffffffu : at;\n",
                       dop_emit_n_tokens(e), dop_emit_step(e));
    } else {
        store_pick(e, &store);
    }
    dop_keys_set(&keys, "DECLS", "");
    dop_keys_set(&keys, "SCAN", scan.data ? scan.data : "");
    dop_keys_set(&keys, "STORE", store.data ? store.data : "");
    dop_status st = e->status == DOP_OK ? dop_template_fill(gen, "argmax.glsl", &keys, &gen->main) : e->status;
    dop_buf_finish(&scan);
    dop_buf_finish(&store);
    return st;
}

static uint32_t
shared_bytes(dop_gen *gen)
{
    return gen->choice->tile.wg * 8;
}

/* A row of logits is one workgroup's: of as many invocations as there may be. */
static void
choose_tile(const dop_site *s, dop_tile *tile)
{
    if (picks_each(s->g, s->r->outs[s->r->n_outs - 1]) && !s->t->cpu)
        tile->wg = s->t->max_workgroup >= 1024 ? 1024 : dop_pow2_floor(s->t->max_workgroup);
}

const dop_descriptor dop_descriptor_argmax = {
    .tile = choose_tile,
    .shared = shared_bytes,
    .emit = emit,
};
