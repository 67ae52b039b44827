/* Attention: code that all kernels of attention share, and the general kernel, which uses no matrix units and has no special form
 * for one token.  The prologue computes queries and, for one token, the keys and values of this step. */
#include "kernels/gen.h"

#include <string.h>

typedef dop_attn attn;

bool
dop_attn_has_row(const dop_gen *gen, const attn *a, uint32_t which)
{
    dop_node_id w = dop_node_base(gen->e.g, a->n->src[1 + which], NULL);
    return dop_node_at(gen->e.g, w)->op == DOP_OP_state_write &&
           (dop_region_has(gen->e.r, w) || dop_emit_in_mailbox(&gen->e, w));
}

/* Values of a row of the cache for one KV head. */
static uint32_t
row_dim(const attn *a, uint32_t which)
{
    return which ? a->value_stride : a->dim;
}

/* Receives rows of K and V of this step from mailboxes of another stage, one subgroup for each.  In a step of several rows these
 * are the rows of the workgroup's sequence up to the current row, which follow one another in the step from `row0` on. */
static void
receive_rows(dop_gen *gen, const attn *a, uint32_t job, dop_buf *body)
{
    dop_emit *e = &gen->e;
    const bool several = e->g->max_t > 1;
    uint32_t n = 0, each = 0;
    for (uint32_t which = 0; which < 2; which++)
        each += a->keeps[which];
    for (uint32_t which = 0; which < 2; which++) {
        dop_node_id w = dop_node_base(e->g, a->n->src[1 + which], NULL);
        if (!a->keeps[which] || dop_region_has(e->r, w))
            continue;
        dop_buf_printf(body, several ? "    if (j >= %uu && (j - %uu) %% %uu == %uu)\n" : "    if (j == %uu)\n",
                       several ? job : job + n, job, each, n);
        dop_buf_printf(body,
                       "        for (uint i = lane; i < %uu; i += SG) {\n"
                       "            uint c = %skvh * %uu + i * 4u;\n",
                       row_dim(a, which) / 4,
                       several ? dop_emit_str(e, "(row0 + (j - %uu) / %uu) * %uu + ", job, each, dop_node_cols(e->g, w))
                               : "",
                       row_dim(a, which));
        n++;
        dop_emit_scope(e, body, "            ");
        dop_emit_line(e, several ? "DOP_NEW%u_PUT(%s, %s);" : "DOP_NEW%u_PUT(i, %s);", which,
                      several ? dop_emit_str(e, "(j - %uu) / %uu * DOP_NEW + i", job, each)
                              : dop_emit_receive(e, w, "c"),
                      several ? dop_emit_receive(e, w, "c") : "");
        dop_buf_puts(body, "        }\n");
    }
}

static uint32_t
count_received(const dop_gen *gen, const attn *a)
{
    uint32_t n = 0;
    for (uint32_t which = 0; which < 2; which++)
        n += a->keeps[which] && !dop_region_has(gen->e.r, dop_node_base(gen->e.g, a->n->src[1 + which], NULL));
    return n;
}

/* Queries that need no row program (no sums over a head): every invocation computes some values. */
static void
load_queries(dop_gen *gen, const attn *a, dop_buf *body)
{
    dop_emit *e = &gen->e;
    dop_buf *inner = dop_gen_text(gen);
    dop_emit_scope(e, inner, "        ");
    uint32_t width = dop_emit_wide(e, a->n->src[0]) ? 4 : 1;
    const char *q = dop_emit_value(e, a->n->src[0], (dop_index){e->g->max_t == 1 ? "0u" : "t", "c"}, width);
    dop_emit_line(e, width == 4 ? "DOP_Q_PUT(i >> 2, %s);" : "DOP_Q_PUT1(i, %s);", q);
    dop_buf_printf(body,
                   "    for (uint i = gl_LocalInvocationIndex * %uu; i < R * D; i += WG * %uu) {\n"
                   "        uint j = i / D, t = DOP_T(j), c = DOP_H(j) * D + i %% D;\n"
                   "%s    }\n",
                   width, width, dop_buf_text(inner));
}

/* Each workgroup sums up statistics of whole rows for itself; they become variables that are bound until the end of the
 * prologue. */
static void
sum_whole_rows(dop_gen *gen, dop_buf *body)
{
    const dop_analysis *found = gen->e.r->info;
    for (uint32_t i = 0; i < found->attn.n_whole; i++) {
        const dop_rowprog p = {.nodes = found->attn.whole[i].nodes,
                               .n_nodes = found->attn.whole[i].n_nodes,
                               .len = found->attn.whole[i].unit.len,
                               .t = "0u",
                               .unit = "0u",
                               .serial = DOP_MAX_WRITES + 1 + i};
        dop_gen_rowprog(gen, &p, body);
    }
}

/* Query heads and cache writes as row programs, one subgroup each where there are subgroups.  The workgroup whose split
 * contains the position writes the caches, and itself reads the rows back. */
void
dop_attn_prologue(dop_gen *gen, const attn *a, dop_buf *body)
{
    dop_emit *e = &gen->e;
    const dop_analysis *found = e->r->info;
    bool subgroups = gen->choice->tile.subgroup, queries = found->attn.query_runs;
    uint32_t n_writes = found->attn.n_writes, n_outer = e->n_binds;
    sum_whole_rows(gen, body);
    uint32_t n_binds = e->n_binds, n_received = count_received(gen, a);
    if (!queries)
        load_queries(gen, a, body);
    if (!queries && !n_writes && !n_received) {
        e->n_binds = n_outer;
        return;
    }
    dop_rowprog p = {.len = a->dim, .t = "0u", .lanes = subgroups ? e->target->subgroup : 0, .lane = "lane"};
    uint32_t first = queries ? a->rows : 0;
    dop_buf_printf(body, "    uint jobs = %uu%s;\n", first,
                   e->g->max_t > 1 ? dop_emit_str(e, " + (hi == last + 1u ? (last + 1u - made) * %uu : 0u)", n_received)
                   : n_writes + n_received ? dop_emit_str(e, " + (hi == last + 1u ? %uu : 0u)", n_writes + n_received)
                                           : "");
    /* The first subgroups may still wait for queries. */
    const char *subgroup = queries || e->target->cpu ? "gl_LocalInvocationIndex / SG"
                                                     : "(gl_LocalInvocationIndex / SG + SUBGROUPS / 2u) % SUBGROUPS";
    if (subgroups)
        dop_buf_printf(body,
                       "    uint lane = gl_LocalInvocationIndex %% SG;\n"
                       "    for (uint j = %s; j < jobs; j += SUBGROUPS) {\n",
                       subgroup);
    else
        dop_buf_puts(body, "    for (uint j = 0u; j < jobs; j++) {\n");
    if (queries) {
        dop_buf_puts(body, "    if (j < R) {\n    uint unit = DOP_H(j);\n");
        p.nodes = found->attn.query.nodes;
        p.n_nodes = found->attn.query.n_nodes;
        p.unit = "unit";
        p.staged = a->n->src[0];
        p.stage = "DOP_Q";
        p.stage_base = "j * D";
        dop_gen_rowprog(gen, &p, body);
        e->n_binds = n_binds;
        dop_buf_puts(body, "    }\n");
    }
    for (uint32_t w = 0; w < n_writes; w++) {
        dop_buf_printf(body, "    if (j == %uu) {\n", first + w);
        uint32_t which = found->attn.writes[w].which;
        p.len = row_dim(a, which);
        p.nodes = found->attn.writes[w].prog.nodes;
        p.n_nodes = found->attn.writes[w].prog.n_nodes;
        p.unit = "kvh";
        p.store_if = found->attn.writes[w].again ? "false" : NULL;
        p.staged = a->keeps[which] ? dop_node_at(e->g, found->attn.writes[w].id)->src[1] : 0;
        p.stage = which ? "DOP_NEW1" : "DOP_NEW0";
        p.stage_base = "0u";
        p.serial = w + 1;
        dop_gen_rowprog(gen, &p, body);
        e->n_binds = n_binds;
        dop_buf_puts(body, "    }\n");
    }
    receive_rows(gen, a, first + n_writes, body);
    e->n_binds = n_outer;
    dop_buf_puts(body, "    }\n");
    if (n_writes && !(a->keeps[0] && a->keeps[1]))
        /* On CPU devices a barrier of the workgroup is expensive, and not needed where the workgroup is one subgroup. */
        dop_buf_printf(body, "    if (hi == last + 1u)\n        %s();\n",
                       gen->e.target->cpu && gen->choice->tile.subgroup &&
                               gen->choice->tile.wg == gen->e.target->subgroup
                           ? "subgroupMemoryBarrier"
                           : "groupMemoryBarrier");
}

/* Declares dop_first, where there are several sequences: where the page table of the workgroup's sequence begins in the step
 * record, or in which row the sequence's ring begins. */
void
dop_attn_sequence(dop_gen *gen, const attn *a, const char *row, dop_keys *keys, dop_buf *decls)
{
    dop_emit *e = &gen->e;
    const dop_node *cache = dop_node_at(e->g, a->n->src[1]);
    bool several = e->g->max_q > 1 && dop_attention_cached(e->g, a->id), ring = cache->shape.dim[1].sym == DOP_SYM_R;
    if (several)
        dop_buf_puts(decls, "uint dop_first;\n");
    /* Values with several rows for a row of the step are all of one sequence. */
    const char *sequence = several ? dop_emit_str(e, "%s.sequence", dop_emit_row(e, e->multiple > 1 ? "0u" : row)) : "";
    const char *first =
        !several ? ""
        : ring ? dop_emit_str(e, "%s * %uu", sequence, (uint32_t)dop_dim_value(e->g, cache->shape.dim[1], e->g->max_t))
               : dop_emit_page_table(e, sequence);
    dop_keys_set(keys, "SEQUENCE", several ? dop_emit_str(e, "    dop_first = %s;\n", first) : "");
}

bool
dop_attn_mixes(const dop_site *s)
{
    const dop_attn a = dop_attn_at(s);
    const dop_node *sequences = dop_node_at(s->g, a.n->src[4]);
    return dop_attention_cached(s->g, a.id) && s->g->max_q > 1 && s->g->max_t > 1 &&
           sequences->shape.dim[0].sym == DOP_SYM_T;
}

/* Expression of the position of row t, or of the last position that the row sees, where an earlier part of the model made that
 * value (op received) and the row table does not have it. */
static const char *
received(dop_emit *e, dop_node_id from)
{
    return dop_emit_str(e, "dop_ld1_u32(%s, t)", dop_emit_source_arg(e, from));
}

/* Expression of the last position that a row at position p sees. */
static const char *
last_of(dop_emit *e, const attn *a, const char *row)
{
    const dop_reach r = dop_attention_reach(e->g, a->id);
    const dop_node_id lasts = dop_attention_lasts(e->g, a->id);
    if (!dop_mask_has_lasts(r.mask))
        return "p";
    const char *last =
        dop_node_at(e->g, lasts)->op != DOP_OP_input ? received(e, lasts) : dop_emit_str(e, "%s.sequence", row);
    if (r.mask == DOP_MASK_segments)
        return dop_emit_str(e, "max(p, %s)", last);
    const char *l = e->limit; /* step_record.h */
    if (!l)
        return last;
    return e->g->reaches_differ ? dop_emit_str(e, "(%s > 0u ? min(%s, p + %s - 1u) : %s)", l, last, l, last)
                                : dop_emit_str(e, "min(%s, p + %s - 1u)", last, l);
}

const char *
dop_attn_bounds(dop_gen *gen, const attn *a)
{
    dop_emit *e = &gen->e;
    if (dop_attention_cached(e->g, a->id))
        return dop_emit_str(e, "uint end = %s, begin = DOP_FIRST(end);", dop_emit_seen_position(e, a->id, "t"));
    const dop_node_id positions = a->n->src[3];
    const char *first = dop_emit_first(e, a->id, "p"), *row = dop_emit_row(e, "t");
    const char *position =
        dop_node_at(e->g, positions)->op != DOP_OP_input ? received(e, positions) : dop_emit_str(e, "%s.position", row);
    return dop_emit_str(e, "uint p = %s, begin = t - p + %s, end = t - p + %s;", position, first, last_of(e, a, row));
}

const char *
dop_attn_span(dop_gen *gen, const attn *a, const char *n, const char *token)
{
    return dop_emit_str(&gen->e,
                        "    uint from[%s], pq[%s]; // rows of the step that each row sees, and their bounds\n"
                        "    uint lo = 0xffffffffu, hi = 0u;\n"
                        "    [[unroll]] for (uint i = 0u; i < %s; i++) {\n"
                        "        uint t = %s;\n"
                        "        %s\n"
                        "        from[i] = begin;\n"
                        "        pq[i] = end;\n"
                        "        lo = min(lo, begin);\n"
                        "        hi = max(hi, end + 1u);\n"
                        "    }\n",
                        n, n, n, token, dop_attn_bounds(gen, a));
}

static const char *
span(dop_gen *gen, const attn *a)
{
    dop_emit *e = &gen->e;
    if (!dop_attention_cached(e->g, a->id))
        return dop_attn_span(gen, a, "BQ", "min(t0 + i, n_tokens - 1u)");
    const char *step = dop_emit_step(e);
    const bool all = dop_attention_reach(e->g, a->id).mask == DOP_MASK_cache;
    const char *seen = all ? dop_emit_seen_position(e, a->id, "t0") : NULL;
    if (dop_attention_lasts(e->g, a->id))
        return dop_emit_str(e,
                            "    uint from[BQ], pq[BQ]; // positions that each row sees, and their bounds\n"
                            "    uint lo = 0xffffffffu, last = 0u;\n"
                            "    [[unroll]] for (uint i = 0u; i < BQ; i++) {\n"
                            "        uint t = min(t0 + i, n_tokens - 1u), p = %s.rows[t].position;\n"
                            "        from[i] = DOP_FIRST(p);\n"
                            "        pq[i] = %s;\n"
                            "        lo = min(lo, from[i]);\n"
                            "        last = max(last, pq[i]);\n"
                            "    }\n"
                            "    uint hi = last + 1u;\n",
                            step, last_of(e, a, NULL));
    /* Of a list of positions, `last` is the last place that is used. */
    const uint32_t top = (uint32_t)dop_node_i(e->g, a->id, DOP_A_top);
    const char *list = top ? dop_emit_str(e, "    last = min(last, %uu);\n", top - 1) : "";
    return dop_emit_str(e,
                        "    uint pq[BQ]; // positions of the tokens, and their bounds\n"
                        "    uint least = %s, last = least;\n"
                        "    pq[0] = least;\n"
                        "    [[unroll]] for (uint i = 1u; i < BQ; i++) {\n"
                        "        pq[i] = %s;\n"
                        "        least = min(least, pq[i]);\n"
                        "        last = max(last, pq[i]);\n"
                        "    }\n"
                        "%s    uint lo = DOP_FIRST(least), hi = last + 1u;\n",
                        seen ? seen : dop_emit_str(e, "%s.rows[t0].position", step),
                        seen ? seen : dop_emit_str(e, "%s.rows[min(t0 + i, n_tokens - 1u)].position", step), list);
}

void
dop_attn_store(dop_gen *gen, const attn *a, dop_buf *store)
{
    dop_emit *e = &gen->e;
    const char *t = e->g->max_t == 1 ? "0u" : "t";
    if (a->n->op == DOP_OP_attn_split && e->routes) {
        const char *out = dop_emit_mailbox_arg(e, a->id, true);
        dop_buf_printf(
            store,
            "    uint at = (h * %uu + split) * (DV + 4u);\n    dop_send4(%s, at + d, o);\n"
            "    if (d == 0u) {\n        dop_send1(%s, at + DV, m);\n        dop_send1(%s, at + DV + 1u, l);\n"
            "    }\n",
            a->max_splits, out, out, out);
        return;
    }
    if (a->n->op == DOP_OP_attn_split) {
        const char *out = dop_emit_arg(e, a->id, true);
        dop_buf_printf(store,
                       "    uint at = ((%s * %uu + h) * %uu + split) * (DV + 2u);\n"
                       "    for (uint i = 0u; i < 4u; i++)\n"
                       "        dop_st1_f32(%s, at + d + i, o[i]);\n"
                       "    if (d == 0u) {\n"
                       "        dop_st1_f32(%s, at + DV, m);\n"
                       "        dop_st1_f32(%s, at + DV + 1u, l);\n"
                       "    }\n",
                       t, a->heads, a->max_splits, out, out, out);
        return;
    }
    uint32_t n_binds = e->n_binds;
    dop_buf_puts(store, "    o /= l;\n    uint c = h * DV + d;\n");
    dop_emit_bind(e, a->id, "o", false, NULL);
    dop_emit_scope(e, store, "    ");
    dop_index ix = {t, "c"};
    for (uint32_t i = 0; i < e->r->info->attn.n_after; i++) {
        dop_node_id out = e->r->info->attn.after[i];
        uint32_t width = 4;
        if (!dop_emit_wide(e, out)) {
            e->status = DOP_FAIL(e->diag, DOP_E_INTERNAL, "attention output %%%s is not a multiple of 4 wide",
                                 dop_node_at(e->g, out)->name);
            break;
        }
        dop_emit_store(e, out, ix, width, dop_emit_value(e, out, ix, width));
    }
    e->n_binds = n_binds;
}

const char *
dop_attn_sink(dop_gen *gen, const attn *a)
{
    dop_emit *e = &gen->e;
    const dop_node_id sinks = dop_attention_sinks(e->g, a->id);
    if (!sinks)
        return "";
    dop_buf b = {0};
    if (a->splits > 1)
        dop_buf_puts(&b, "                if (split == 0u) {\n");
    else
        dop_buf_puts(&b, "                {\n");
    dop_emit_scope(e, &b, "                    ");
    const char *s = dop_emit_value(e, sinks, (dop_index){"0u", "h"}, 1);
    dop_emit_line(e, "float with = max(top, %s), fix = exp(top - with);", s);
    dop_emit_line(e, "sum = sum * fix + exp(%s - with);", s);
    dop_emit_line(e, "o *= fix;");
    dop_emit_line(e, "top = with;");
    dop_buf_puts(&b, "                }\n");
    const char *text = b.failed ? "" : dop_emit_str(e, "%s", b.data);
    dop_buf_finish(&b);
    return text;
}

const char *
dop_attn_score(dop_gen *gen, const attn *a, const char *x)
{
    dop_emit *e = &gen->e;
    double scale = dop_node_f(e->g, a->id, DOP_A_scale), cap = dop_node_f(e->g, a->id, DOP_A_cap);
    if (cap > 0)
        return dop_emit_str(e, "%.9g * dop_tanh(%s * %.9g)", cap, x, scale / cap);
    return dop_emit_str(e, "%s * %.9g", x, scale);
}

/* ALiBi: a function of the head, and the score of row j at position p with it. */
static const char *
slopes(dop_gen *gen, const attn *a)
{
    const uint32_t max = (uint32_t)dop_node_i(gen->e.g, a->id, DOP_A_alibi), n = dop_pow2_floor(a->heads);
    return !max ? ""
                : dop_emit_str(&gen->e,
                               "float dop_slope(uint h)\n{\n    return %.9g * exp2(%.9g * (h < %uu ? float(h) + 1.0 : "
                               "float(h - %uu) + 0.5));\n}\n",
                               1 / dop_alibi_root(gen->e.g, a->id), -(double)max / n, n, n);
}

static const char *
score_at_distance(dop_gen *gen, const attn *a)
{
    dop_emit *e = &gen->e;
    const char *x = dop_attn_score(gen, a, "s[j]");
    const dop_node_id table = dop_attention_relative(e->g, a->id);
    const bool cached = dop_attention_cached(e->g, a->id);
    if (table) {
        const int most = (int)dop_node_i(e->g, a->id, DOP_A_relative);
        x = dop_emit_str(e, "%s + dop_ld1_f32(%s, DOP_H(j) * %uu + uint(clamp(int(p) - int(%s), -%d, %d) + %d))", x,
                         dop_emit_arg(e, table, false), dop_row_values(e->g, table), cached ? "pq[j / G]" : "DOP_T(j)",
                         most, most, most);
    }
    if (!dop_node_i(e->g, a->id, DOP_A_alibi))
        return x;
    return cached ? dop_emit_str(e, "%s - dop_slope(DOP_H(j)) * (float(pq[j / G]) - float(p))", x)
                  : dop_emit_str(e, "%s - dop_slope(DOP_H(j)) * abs(float(DOP_T(j)) - float(p))", x);
}

void
dop_attn_merge(dop_gen *gen, const attn *a, dop_node_id merged, dop_buf *out)
{
    dop_emit *e = &gen->e;
    if (!merged)
        return;
    dop_buf *inner = dop_gen_text(gen);
    dop_emit_scope(e, inner, "        ");
    dop_index ix = {"0u", "c"};
    dop_emit_store(e, merged, ix, 4, dop_emit_value(e, merged, ix, 4));
    dop_buf_printf(out,
                   "    for (uint i = gl_LocalInvocationIndex; i < %uu; i += WG) {\n"
                   "        uint c = %s * DV + i * 4u;\n%s    }\n",
                   a->merged_heads * a->value_dim / 4, a->head0, dop_buf_text(inner));
}

void
dop_attn_store_whole(dop_gen *gen, const attn *a, dop_node_id merged, dop_buf *out)
{
    dop_emit *e = &gen->e;
    uint32_t n_binds = e->n_binds;
    (void)a;
    if (!merged)
        return;
    dop_emit_bind(e, merged, "o", false, NULL);
    dop_emit_scope(e, out, "                ");
    dop_index ix = {"0u", "c"};
    dop_emit_store(e, merged, ix, 4, dop_emit_value(e, merged, ix, 4));
    e->n_binds = n_binds;
}

void
dop_attn_tail(dop_gen *gen, const char *first, const char *n, uint32_t at_once, dop_buf *decls, dop_keys *keys)
{
    const bool has = dop_tail_heads(gen) > 0;
    dop_tail_declare(gen, at_once, decls);
    dop_keys_set(keys, "TAIL",
                 has ? dop_emit_str(&gen->e, "    for (uint j = 0u; j < %s; j += %uu)\n        dop_tail(%s + j);\n", n,
                                    at_once, first)
                     : "");
}

attn
dop_attn_at(const dop_site *s)
{
    const dop_graph *g = s->g;
    attn a = {.id = s->r->info->attn.root, .splits = 1};
    a.n = dop_node_at(g, a.id);
    const dop_node *q = dop_node_at(g, a.n->src[0]);
    a.heads = q->shape.dim[1].mul;
    a.dim = q->shape.dim[2].mul;
    a.kv = dop_cache_heads(g, a.n->src[1]);
    a.group = a.heads / a.kv;
    uint32_t start;
    dop_node_id values = dop_node_base(g, a.n->src[2], &start);
    const dop_shape *v = &dop_node_at(g, values)->shape;
    const dop_shape *read = &dop_node_at(g, a.n->src[2])->shape;
    a.value_dim = read->dim[read->rank - 1].mul;
    a.value_stride = v->dim[v->rank - 1].mul;
    a.value_start = start;
    if (!dop_attention_cached(g, a.id)) /* rows of this step have one head beside the other */
        a.value_stride = a.value_dim;
    a.merged_heads = a.group;
    a.head0 = "head0";
    if (a.n->op == DOP_OP_attn_split) {
        a.splits = (uint32_t)dop_node_i(g, a.id, DOP_A_splits);
        a.round = dop_split_round(g, a.id);
    }
    a.max_splits = a.splits;
    return a;
}

attn
dop_attn_find(const dop_gen *gen)
{
    return dop_attn_at(&(dop_site){gen->e.g, gen->e.r, gen->e.target, gen->e.routes});
}

bool
dop_attn_values_in_keys(const dop_graph *g, const attn *a)
{
    return dop_storage_node(g, a->n->src[1]) == dop_storage_node(g, a->n->src[2]) && a->value_stride == a->dim;
}

bool
dop_attn_makes_heads(const dop_gen *gen)
{
    const dop_analysis *a = gen->e.r->info;
    return a->attn.n_writes > 0 || a->attn.query_runs;
}

dop_refusal
dop_attn_refuses_slopes(const dop_site *s)
{
    const dop_node_id root = s->r->info->attn.root;
    if (dop_attention_chosen(s->g, root))
        return (dop_refusal){"rows see positions of a list", NULL};
    if (dop_attention_relative(s->g, root))
        return (dop_refusal){"scores grow by a table of distances", NULL};
    return dop_node_i(s->g, root, DOP_A_alibi) ? (dop_refusal){"scores fall with the distance (ALiBi)", NULL}
                                               : dop_attn_refuses(s);
}

dop_refusal
dop_attn_refuses_step(const dop_site *s)
{
    return dop_attention_cached(s->g, s->r->info->attn.root) ? dop_attn_refuses_slopes(s)
                                                             : (dop_refusal){"keys and values are in no cache", NULL};
}

/* Refuses what no kernel of attention can compute. */
static dop_refusal
refuse_heads(const dop_site *s)
{
    const dop_analysis *found = s->r->info;
    attn a = dop_attn_at(s);
    if (a.dim % 4 || a.value_dim % 4 || a.value_start % 4 || a.value_stride % 4)
        return (dop_refusal){"heads are not a multiple of 4 values", "heads that are padded with zeros"};
    for (uint32_t i = 0; i < found->attn.n_after && a.n->op == DOP_OP_attention; i++)
        if (!dop_region_wide(s->g, s->r, found->attn.after[i]))
            return (dop_refusal){"an output is not a multiple of 4 values wide", "--no-fuse"};
    return dop_tail_refuses(s);
}

dop_refusal
dop_attn_refuses(const dop_site *s)
{
    const dop_node_id root = s->r->info->attn.root;
    const dop_node_id lasts = dop_attention_lasts(s->g, root);
    /* Where a step has rows of several sequences, the row table has their sequences in that column. */
    if (lasts &&
        (dop_attention_cached(s->g, root) || (s->g->max_q > 1 && dop_node_at(s->g, lasts)->op == DOP_OP_input)))
        return (dop_refusal){"the row table has no column for the last position that a row sees", NULL};
    return refuse_heads(s);
}

/* Do rows over a cache see other rows of their block, whose last position is received, which this kernel computes?  What writes
 * the cache must have ended. */
static bool
sees_blocks(const dop_site *s)
{
    const dop_analysis *found = s->r->info;
    const dop_node_id root = found->attn.root, lasts = dop_attention_lasts(s->g, root);
    return lasts && dop_attention_cached(s->g, root) && dop_node_at(s->g, lasts)->op == DOP_OP_received &&
           dop_attention_reach(s->g, root).mask == DOP_MASK_segments && found->attn.n_writes == 0 && !s->routes &&
           dop_node_i(s->g, root, DOP_A_alibi) == 0;
}

/* The number of query rows whose sums over invocations are added up at once: as many as a quarter of the shared memory holds. */
static uint32_t
rows_at_once(uint32_t rows, const dop_tile *tile, const dop_target *t)
{
    uint32_t batch = t->shared_bytes / 4 / (tile->wg * 16);
    return batch < 1 ? 1 : batch > rows ? rows : batch;
}

/* The number of query heads of a head group that a workgroup takes: as many as it has shared memory for. */
static uint32_t
heads_of(const attn *a, const dop_tile *tile)
{
    return a->group / (tile->group_wgs ? tile->group_wgs : 1);
}

static uint32_t
tile_bytes(const attn *a, const dop_tile *tile, const dop_target *t)
{
    uint32_t rows = heads_of(a, tile) * tile->bq;
    return (rows * a->dim + rows * tile->wg + rows_at_once(rows, tile, t) * tile->wg * 4 + rows * tile->wg / 8) * 4;
}

/* Values of a K row that an invocation multiplies at once. */
static uint32_t
step_of(const dop_graph *g, const attn *a)
{
    const bool halves = dop_node_at(g, a->n->src[1])->type == DOP_TYPE_f16 && a->dim % 8 == 0;
    return halves || dop_attn_in_blocks(g, a, 0) ? 8 : 4;
}

static dop_status
emit(dop_gen *gen)
{
    dop_emit *e = &gen->e;
    const dop_graph *g = e->g;
    attn a = dop_attn_find(gen);
    const dop_tile *tile = &gen->choice->tile;
    dop_keys keys = {0};
    dop_buf *decls = dop_keys_text(gen, &keys, "DECLS");
    const dop_node_id merged = e->r->info->attn.merged;
    const uint32_t step = step_of(g, &a);
    gen->merges = merged != 0;
    a.merged_heads = heads_of(&a, tile);
    a.rows = a.merged_heads * tile->bq;
    DOP_NUMBERS(gen, &keys, &gen->main, DOP_ATTN_SHAPE(a), {"#MERGE", merged != 0}, {"G", a.merged_heads},
                {"GROUP_WGS", a.group / a.merged_heads}, {"BQ", tile->bq}, {"DS", tile->ds ? tile->ds : 1},
                {"BATCH", rows_at_once(a.rows, tile, e->target)}, {"#STEP", step});
    dop_attn_positions(gen, &a, decls);
    dop_attn_sequence(gen, &a, "t0", &keys, decls);
    dop_attn_prologue(gen, &a, dop_keys_text(gen, &keys, "PROLOGUE"));
    dop_attn_store(gen, &a, dop_keys_text(gen, &keys, "STORE"));
    dop_attn_tail(gen, a.head0, "G", 1, decls, &keys);
    dop_keys_set(&keys, "SPAN", span(gen, &a));
    dop_keys_set(&keys, "FROM",
                 dop_attention_cached(g, a.id) && !dop_attention_lasts(g, a.id) ? "DOP_FIRST(pq[j / G])"
                                                                                : "from[j / G]");
    dop_keys_set(&keys, "N_TOKENS", dop_emit_n_tokens(e));
    dop_buf_puts(decls, "#define DOP_COHERENT4(p, i) C32x4(p).v[i]\n");
    dop_attn_loads(gen, &a, "DOP_COHERENT4", decls);
    dop_keys_set(&keys, "SCORE", score_at_distance(gen, &a));
    dop_buf_puts(decls, slopes(gen, &a));
    dop_keys_set(&keys, "SINK", dop_attn_sink(gen, &a));
    dop_attn_merge(gen, &a, merged, dop_keys_text(gen, &keys, "MERGE_BODY"));
    dop_keys_set(&keys, "COUNTS", merged ? dop_emit_counts(e) : "0");
    gen->grid[0] = a.heads / a.merged_heads;
    gen->grid[1] = dop_div_up_u32(g->max_t, tile->bq);
    gen->grid[2] = a.splits;
    return dop_template_fill(gen, "attention.glsl", &keys, &gen->main);
}

static uint32_t
shared_bytes(dop_gen *gen)
{
    attn a = dop_attn_find(gen);
    return tile_bytes(&a, &gen->choice->tile, gen->e.target) + dop_tail_bytes(gen, 1);
}

/* More query heads to a KV head than a workgroup holds are divided among workgroups. */
static void
divide_heads(const attn *a, const dop_target *t, dop_tile *tile)
{
    const uint32_t sums = tile->wg * 4;
    for (uint32_t n = 1; n <= a->group; n++) {
        if (a->group % n)
            continue;
        tile->group_wgs = n;
        if (a->group / n <= t->schedule.attention_heads && tile_bytes(a, tile, t) + sums <= t->shared_bytes)
            return;
    }
}

void
dop_attn_tile(const dop_site *s, dop_tile *tile)
{
    const dop_graph *g = s->g;
    const dop_target *t = s->t;
    attn a = dop_attn_at(s);
    uint32_t sums = tile->wg * 4, least = tile->subgroup ? t->subgroup : 32;
    tile->wg = dop_wg_of(t, t->schedule.attention_wg);
    while (tile->wg < a.value_dim / 4 && tile->wg * 2 <= t->max_workgroup)
        tile->wg *= 2;
    /* One token: 64 positions at once, which is the shortest split, by as many invocations as fit. */
    if (g->max_t == 1 && tile->subgroup && !t->cpu) {
        tile->wg = t->schedule.attention_one_wg / (a.dim <= 64 ? 2 : 1);
        while (tile->wg > t->max_workgroup)
            tile->wg /= 2;
        while (tile->wg < a.value_dim / 4 && tile->wg * 2 <= t->max_workgroup)
            tile->wg *= 2;
        tile->ds = tile->wg / 64;
        while (tile->ds > t->subgroup || (tile->ds > 1 && a.dim % (tile->ds * step_of(g, &a))))
            tile->ds /= 2;
    }
    const uint32_t rows = t->schedule.attention_rows;
    tile->bq = a.group >= rows || dop_attn_mixes(s) || dop_attention_chosen(g, a.id) ? 1 : rows / a.group;
    if (tile->bq > g->max_t)
        tile->bq = g->max_t;
    /* queries, scores and the final sums share the workgroup's memory */
    while (tile->bq > 1 &&
           (a.group * tile->bq * (a.dim + tile->wg + tile->wg / 8) + tile->wg * 6) * 4 > t->shared_bytes / 4 * 3)
        tile->bq /= 2;
    /* With large head groups, fewer positions at a time, as long as every four values of a head have an invocation. */
    while (tile_bytes(&a, tile, t) + sums > t->shared_bytes && tile->wg > least && tile->wg / 2 >= a.value_dim / 4) {
        tile->wg /= 2;
        if (tile->ds > 1)
            tile->ds /= 2;
    }
    divide_heads(&a, t, tile);
}

/* Most positions that one workgroup of attention walks over; with a window, no more than the window reaches. */
uint64_t
dop_attn_reaches(const dop_site *s, const dop_attn *a)
{
    const dop_graph *g = s->g;
    const dop_reach reach = dop_attention_reach(g, a->id);
    uint64_t n = reach.window ? (uint64_t)reach.window + g->max_t : g->max_s;
    if (!dop_attention_cached(g, a->id))
        return g->max_t;
    if (reach.mask == DOP_MASK_cache)
        return reach.ring;
    const uint64_t top = (uint64_t)dop_node_i(g, a->id, DOP_A_top);
    n = n < g->max_s ? n : g->max_s;
    n = top && top < n ? top : n;
    if (a->splits < 2)
        return n;
    const uint64_t whole = (uint64_t)dop_node_i(g, a->id, DOP_A_whole),
                   least = (uint64_t)dop_node_i(g, a->id, DOP_A_least);
    const uint64_t each = n / a->splits + 1, most = each > whole ? each : whole;
    return most > least ? most : least;
}

/* Loop trip count of the prologue and epilogue of attention: heads of queries and of this step's rows, statistics of whole rows, a
 * per-head product. */
uint64_t
dop_trips_heads(const dop_site *s, const dop_tile *tile, const dop_attn *a, uint32_t rows)
{
    const dop_analysis *found = s->r->info;
    const uint32_t lanes = tile->subgroup ? s->t->subgroup : tile->wg;
    const uint32_t len = a->dim > a->value_dim ? a->dim : a->value_dim;
    uint64_t n = 256 + dop_turns((uint64_t)rows * len, tile->wg) * 2;
    n += rows * dop_trips_program(s, &found->attn.query, a->dim, lanes);
    for (uint32_t i = 0; i < found->attn.n_writes; i++)
        n += dop_trips_program(s, &found->attn.writes[i].prog, len, lanes) + dop_turns(len, 8ull * lanes) * 5;
    for (uint32_t i = 0; i < found->attn.n_whole; i++)
        n += dop_trips_program(s, &found->attn.whole[i], found->attn.whole[i].unit.len, tile->wg);
    return n + (found->tail.id ? (dop_turns(1u << 14, tile->wg) + dop_turns(a->value_dim, 4)) * rows : 0);
}

/* Loop trip count of the general kernel: loops over the query rows of a workgroup, for every chunk of positions. */
static uint64_t
trips(const dop_site *s, const dop_tile *tile)
{
    const dop_attn a = dop_attn_at(s);
    const uint32_t ds = tile->ds ? tile->ds : 1, at_once = tile->wg / ds, lanes = a.value_dim / 4;
    const uint32_t rows = a.group / (tile->group_wgs ? tile->group_wgs : 1) * tile->bq, shares = tile->wg / lanes;
    const uint64_t chunk = dop_turns(a.dim / ds, 4) * (rows + 2) +
                           dop_turns(at_once, shares ? shares : 1) * (rows + 2) + 6ull * (rows + 1) +
                           (tile->subgroup ? rows * (dop_halvings(ds) + dop_turns(tile->wg, s->t->subgroup))
                                           : (uint64_t)dop_halvings(tile->wg) * (rows + 2)) +
                           1;
    return dop_trips_heads(s, tile, &a, rows) + dop_turns(dop_attn_reaches(s, &a), at_once) * chunk +
           rows * (tile->wg + 64ull);
}

static dop_refusal
fits(const dop_site *s)
{
    dop_refusal no = sees_blocks(s) ? refuse_heads(s) : dop_attn_refuses(s);
    if (!no.why && dop_attn_at(s).value_dim / 4 > dop_pow2_floor(s->t->max_workgroup))
        return (dop_refusal){"a head has more values than four for each invocation",
                             "a target with a larger max_workgroup"};
    return no;
}

static dop_refusal
fits_alone(const dop_site *s)
{
    dop_refusal no = dop_attn_refuses_blocks(s);
    return no.why ? no : fits(s);
}

const dop_descriptor dop_descriptor_attention = {
    .fits = fits_alone,
    .tile = dop_attn_tile,
    .shared = shared_bytes,
    .emit = emit,
    .trips = trips,
    .stage = DOP_VARIANT_attention_decode,
};
const dop_descriptor dop_descriptor_attention_subgroup = {
    .fits = fits,
    .tile = dop_attn_tile,
    .shared = shared_bytes,
    .emit = emit,
    .trips = trips,
    .stage = DOP_VARIANT_attention_decode,
};
