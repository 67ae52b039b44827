/* Attention as a nest (attend.h): holes and statements that all attention kernels share. The prologue computes queries and,
 * for one token, the keys and values of this step. */
#include "kernels/attention/gen_attend.h"
#include "ir/graph/dims.h"
#include "kernels/attention/attend.h"
#include "kernels/gen/gen_cache.h"
#include "kernels/gen/gen_tail.h"
#include "kernels/gen/products.h"
#include "kernels/gen/row_program.h"
#include "kernels/gen/templates.h"

#include <string.h>

typedef dop_attn attn;

bool
dop_attn_has_row(const dop_gen *gen, const attn *a, uint32_t which)
{
    dop_node_id w = dop_node_base(gen->e.g, a->n->src[1 + which], NULL);
    return dop_node_at(gen->e.g, w)->op == DOP_OP_state_write &&
           (dop_region_has(gen->e.r, w) || dop_emit_in_mailbox(&gen->e, w));
}

/* Returns the values of a cache row per KV head. */
static uint32_t
row_dim(const attn *a, uint32_t which)
{
    return which ? a->value_stride : a->dim;
}

/* Emits code that receives this step's rows of K and V from another stage's mailboxes, one subgroup per row. In a multi-row
 * step, these are the consecutive rows of the workgroup's sequence from `row0` up to the current row. */
static void
receive_cache_rows(dop_gen *gen, const attn *a, uint32_t job, dop_buf *body)
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

/* Emits code that stages queries that need no row program (no reduction over a head): each invocation computes some
 * values. */
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

/* Computes statistics of whole rows, redundantly in each workgroup. They are variables bound until the end of the
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

/* Emits the prologue: stages query rows in dop_q, and writes this step's rows of the caches. These are row programs, each run
 * by one subgroup if there are subgroups. The workgroup whose split contains the position writes the caches, and reads the
 * rows back. */
static void
emit_head_prologue(dop_gen *gen, const attn *a, dop_buf *body)
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
    /* Start with later subgroups: the first ones may still wait for queries. */
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
    receive_cache_rows(gen, a, first + n_writes, body);
    e->n_binds = n_outer;
    dop_buf_puts(body, "    }\n");
    if (n_writes && !(a->keeps[0] && a->keeps[1]))
        /* Workgroup barriers are expensive on CPU devices, and not needed if the workgroup is one subgroup. */
        dop_buf_printf(body, "    if (hi == last + 1u)\n        %s();\n",
                       gen->e.target->cpu && gen->choice->tile.subgroup &&
                               gen->choice->tile.wg == gen->e.target->subgroup
                           ? "subgroupMemoryBarrier"
                           : "groupMemoryBarrier");
}

const char *
dop_attn_sequence(dop_gen *gen, const attn *a, const char *row, dop_buf *decls)
{
    dop_emit *e = &gen->e;
    const dop_node *cache = dop_node_at(e->g, a->n->src[1]);
    if (e->g->max_q < 2 || !dop_attention_cached(e->g, a->id))
        return "";
    dop_buf_puts(decls, "uint dop_first;\n");
    /* Values with several rows per row of the step all belong to one sequence. */
    const char *sequence = dop_emit_str(e, "%s.sequence", dop_emit_row(e, e->multiple > 1 ? "0u" : row));
    if (cache->shape.dim[1].sym != DOP_SYM_R)
        return dop_emit_str(e, "    dop_first = %s;\n", dop_emit_page_table(e, sequence));
    return dop_emit_str(e, "    dop_first = %s * %uu;\n", sequence,
                        (uint32_t)dop_dim_value(e->g, cache->shape.dim[1], e->g->max_t));
}

/* Returns the expression of row t's position, or of the last position that it attends to. For values that the row table
 * lacks, because an earlier part of the model computed them (op received). */
static const char *
load_received_position(dop_emit *e, dop_node_id from)
{
    return dop_emit_str(e, "dop_ld1_u32(%s, t)", dop_emit_source_arg(e, from));
}

/* Returns the expression of the last position that a row at position p attends to. */
static const char *
last_seen_position(dop_emit *e, const attn *a, const char *row)
{
    const dop_reach r = dop_attention_reach(e->g, a->id);
    const dop_node_id lasts = dop_attention_lasts(e->g, a->id);
    if (!dop_mask_has_lasts(r.mask))
        return "p";
    const char *last = dop_node_at(e->g, lasts)->op != DOP_OP_input ? load_received_position(e, lasts)
                                                                    : dop_emit_str(e, "%s.sequence", row);
    if (r.mask == DOP_MASK_segments)
        return dop_emit_str(e, "max(p, %s)", last);
    const char *l = e->limit; /* the row table has it in `sequence` (step_record.h) */
    if (!l)
        return last;
    return e->g->reaches_differ ? dop_emit_str(e, "(%s > 0u ? min(%s, p + %s - 1u) : %s)", l, last, l, last)
                                : dop_emit_str(e, "min(%s, p + %s - 1u)", last, l);
}

const char *
dop_attn_bounds(dop_gen *gen, const attn *a)
{
    dop_emit *e = &gen->e;
    const bool cached = dop_attention_cached(e->g, a->id), lasts = dop_attention_lasts(e->g, a->id) != 0;
    if (cached && !lasts)
        return dop_emit_str(e, "uint end = %s, begin = DOP_FIRST(end);", dop_emit_seen_position(e, a->id, "t"));
    const dop_node_id positions = a->n->src[3];
    const char *row = dop_emit_row(e, "t");
    if (cached)
        return dop_emit_str(e, "uint p = %s.position, begin = DOP_FIRST(p), end = %s;", row,
                            last_seen_position(e, a, row));
    const char *first = dop_emit_first(e, a->id, "p");
    const char *position = dop_node_at(e->g, positions)->op != DOP_OP_input ? load_received_position(e, positions)
                                                                            : dop_emit_str(e, "%s.position", row);
    return dop_emit_str(e, "uint p = %s, begin = t - p + %s, end = t - p + %s;", position, first,
                        last_seen_position(e, a, row));
}

/* Returns code that declares the range of each of the workgroup's tokens, from[i] .. pq[i], and the union of these, lo .. hi
 * - 1: positions, or rows of the step. For a list of positions, `last` is the last index used. */
static const char *
declare_row_ranges(dop_gen *gen, const attn *a, const dop_attend_rows *rows)
{
    if (rows->span)
        return rows->span;
    const uint32_t top = dop_attention_chosen(gen->e.g, a->id) ? (uint32_t)dop_node_i(gen->e.g, a->id, DOP_A_top) : 0;
    return dop_emit_str(&gen->e,
                        "    uint from[%s], pq[%s], lo = 0xffffffffu, hi = 0u;\n"
                        "    [[unroll]] for (uint i = 0u; i < %s; i++) {\n"
                        "        uint t = %s;\n"
                        "        %s\n"
                        "        from[i] = begin;\n"
                        "        pq[i] = end;\n"
                        "        lo = min(lo, begin);\n"
                        "        hi = max(hi, end + 1u);\n"
                        "    }\n%s"
                        "    uint last = hi - 1u;\n",
                        rows->tokens, rows->tokens, rows->tokens, rows->token, dop_attn_bounds(gen, a),
                        top ? dop_emit_str(&gen->e, "    hi = min(hi, %uu);\n", top) : "");
}

/* Returns code that narrows the positions lo .. hi - 1 to those of the workgroup's split. `used` is the number of splits that
 * are not empty. */
static const char *
narrow_to_split(dop_emit *e, const attn *a)
{
    return a->splits < 2
               ? ""
               : dop_emit_str(
                     e,
                     "    uint len = dop_split_len(hi - lo, %uu, %uu), used = dop_split_count(hi - lo, len, %uu);\n"
                     "    lo += split * len;\n"
                     "    hi = dop_split_end(hi, lo, len, split, %uu);\n"
                     "    if (lo >= hi)\n        return;\n",
                     a->splits, a->round, a->splits, a->splits);
}

/* Emits the store of four values o from column d of head h on: a partial result with statistics m and l, or the normalized
 * output. */
static void
emit_output_store(dop_gen *gen, const attn *a, dop_buf *store)
{
    dop_emit *e = &gen->e;
    const char *t = e->g->max_t == 1 ? "0u" : "t";
    if (a->n->op == DOP_OP_attn_split) {
        const bool sends = e->routes != NULL;
        const char *out = sends ? dop_emit_mailbox_arg(e, a->id, true) : dop_emit_arg(e, a->id, true),
                   *one = sends ? "dop_send1" : "dop_st1_f32";
        dop_buf_printf(store, "    uint at = ((%s * %uu + h) * %uu + split) * (DV + %uu);\n", sends ? "0u" : t,
                       a->heads, a->max_splits, sends ? 4 : 2);
        dop_buf_printf(store,
                       sends ? "    dop_send4(%s, at + d, o);\n"
                             : "    DOP_EACH(i, 4u) dop_st1_f32(%s, at + d + i, o[i]);\n",
                       out);
        dop_buf_printf(store,
                       "    if (d == 0u) {\n        %s(%s, at + DV, m);\n        %s(%s, at + DV + 1u, l);\n    }\n",
                       one, out, one, out);
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

/* Returns code that adds head h's sink to o, top and sum. */
static const char *
add_head_sink(dop_gen *gen, const attn *a)
{
    dop_emit *e = &gen->e;
    const dop_node_id sinks = dop_attention_sinks(e->g, a->id);
    dop_buf *b = dop_gen_text(gen);
    if (!sinks)
        return "";
    dop_buf_printf(b, "        %s{\n", a->splits > 1 ? "if (split == 0u) " : "");
    dop_emit_scope(e, b, "            ");
    const char *s = dop_emit_value(e, sinks, (dop_index){"0u", "h"}, 1);
    dop_emit_line(e, "float with = max(top, %s), fix = exp(top - with);", s);
    dop_emit_line(e, "sum = sum * fix + exp(%s - with);", s);
    dop_emit_line(e, "o *= fix;");
    dop_emit_line(e, "top = with;");
    dop_buf_puts(b, "        }\n");
    return dop_buf_text(b);
}

/* Returns the score for a product of query and key. */
static const char *
scale_product(dop_gen *gen, const attn *a, const char *x)
{
    dop_emit *e = &gen->e;
    double scale = dop_node_f(e->g, a->id, DOP_A_scale), cap = dop_node_f(e->g, a->id, DOP_A_cap);
    if (cap > 0)
        return dop_emit_str(e, "%.9g * dop_tanh(%s * %.9g)", cap, x, scale / cap);
    return dop_emit_str(e, "%s * %.9g", x, scale);
}

/* Returns the ALiBi slope function of a head ("": none). score_at_distance returns the score of row j at position p including
 * ALiBi and distance tables. */
static const char *
declare_alibi_slope(dop_gen *gen, const attn *a)
{
    const uint32_t max = (uint32_t)dop_node_i(gen->e.g, a->id, DOP_A_alibi), n = dop_pow2_floor(a->heads);
    return !max ? ""
                : dop_emit_str(&gen->e,
                               "float dop_slope(uint h)\n{\n    return %.9g * exp2(%.9g * (h < %uu ? float(h) + 1.0 : "
                               "float(h - %uu) + 0.5));\n}\n",
                               1 / dop_alibi_root(gen->e.g, a->id), -(double)max / n, n, n);
}

static const char *
score_at_distance(dop_gen *gen, const attn *a, const char *product)
{
    dop_emit *e = &gen->e;
    const char *x = scale_product(gen, a, product);
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

/* Declares the per-head product, and returns code that runs it for completed heads. */
static const char *
run_head_products(dop_gen *gen, const char *first, const char *n, uint32_t at_once, dop_buf *decls)
{
    dop_tail_declare(gen, at_once, decls);
    return dop_tail_heads(gen) == 0
               ? ""
               : dop_emit_str(&gen->e, "    for (uint j = 0u; j < %s; j += %uu)\n        dop_tail(%s + j);\n", n,
                              at_once, first);
}

/* --- statements ------------------------------------------------------------------------------------------------------ */

/* Returns code that stores four values of `merged` at column c: computed here, or from the variable `name`. */
static const char *
store_merged(dop_gen *gen, dop_node_id merged, const char *name)
{
    dop_emit *e = &gen->e;
    const uint32_t n_binds = e->n_binds;
    dop_buf *text = dop_gen_text(gen);
    if (name)
        dop_emit_bind(e, merged, name, false, NULL);
    dop_emit_scope(e, text, "        ");
    const dop_index ix = {"0u", "c"};
    dop_emit_store(e, merged, ix, 4, dop_emit_value(e, merged, ix, 4));
    e->n_binds = n_binds;
    return dop_buf_text(text);
}

/* Returns code that merges splits. The last workgroup of a head group to finish does it, when all partial results exist. In a
 * stage, the workgroup of the last split receives the results of all others. A workgroup with several splits runs that one
 * last, so it never waits for itself. */
static const char *
merge_head_splits(dop_attend *x, dop_node_id merged)
{
    dop_emit *e = &x->gen->e;
    const attn *a = &x->a;
    return dop_emit_str(
        e,
        "%s    if (%s)\n        return;\n"
        "    for (uint i = gl_LocalInvocationIndex; i < %uu; i += WG) {\n"
        "        uint c = %s * DV + i * 4u;\n%s    }\n",
        x->whole ? dop_emit_str(e, "    if (used == 1u) {\n    %s        return;\n    }\n", x->tail) : "",
        e->routes ? "split + 1u != used" : dop_emit_str(e, "!dop_last_of(%s, DOP_GROUP.x, used)", dop_emit_counts(e)),
        a->merged_heads * a->value_dim / 4, a->head0, store_merged(x->gen, merged, NULL));
}

void
dop_attend_open(dop_attend *x, dop_gen *gen, const dop_nest_placement *pl, const dop_attend_rows *rows,
                const char *const words[2])
{
    dop_emit *e = &gen->e;
    const attn *a = &x->a;
    const dop_node_id merged = e->r->info->attn.merged;
    const dop_number shape[] = {
        {"D", a->dim}, {"DV", a->value_dim}, {"VS", a->value_stride}, {"V0", a->value_start}, {"KV", a->kv}};
    dop_buf begins = {0}, ends = {0};
    x->gen = gen;
    dop_nest_open(&x->n, dop_variant_of(gen->choice->variant)->name, pl, e->g->arena, e->diag);
    x->n.placement.axes = "tsd";
    x->n.placement.operands[0] = "q";
    x->n.placement.operands[1] = "kv";
    for (size_t i = 0; i < sizeof shape / sizeof *shape; i++)
        dop_nest_number(&x->n, shape[i].name, shape[i].value);
    dop_attn_positions(gen, a, &x->decls);
    const char *sequence = dop_attn_sequence(gen, a, rows->sequence, &x->decls);
    emit_head_prologue(gen, a, &begins);
    if (merged && x->whole)
        dop_buf_printf(&ends, "    if (used == 1u) {\n        o /= l;\n        uint c = h * DV + d;\n%s    } else {\n",
                       store_merged(gen, merged, "o"));
    emit_output_store(gen, a, &ends);
    dop_buf_puts(&ends, merged && x->whole ? "    }\n" : "");
    x->tail = run_head_products(gen, rows->tail, rows->tail_heads, rows->at_once, &x->decls);
    x->begin = dop_emit_str(e, "%s%s%s    DOP_RING_FROM(lo);\n%s", rows->find, sequence,
                            declare_row_ranges(gen, a, rows), narrow_to_split(e, a));
    dop_attn_loads(gen, a, words, &x->decls);
    x->score = score_at_distance(gen, a, rows->product);
    dop_buf_puts(&x->decls, declare_alibi_slope(gen, a));
    x->sink = add_head_sink(gen, a);
    x->merge = merged ? merge_head_splits(x, merged) : "";
    x->prologue = dop_gen_keep(gen, &begins);
    x->store = dop_gen_keep(gen, &ends);
}

void
dop_attend_begin(dop_attend *x, const char *early)
{
    dop_nest *n = &x->n;
    dop_nest_hole(n, "rows of the cache", dop_gen_keep(x->gen, &x->decls));
    dop_nest_function(n, "main", "");
    dop_nest_hole(n, "rows, positions", x->begin);
    dop_nest_hole(n, "loads before queries are there", early);
    dop_nest_hole(n, "q, k, v", x->prologue)->writes = x->q;
}

const char *
dop_attend_load(dop_attend *x, char which, uint32_t step, const char *d)
{
    if (step == 4)
        return dop_nest_text(&x->n, "vec4 x0 = DOP_LD4_%c(at, %s);", which, d);
    return dop_nest_text(&x->n,
                         "DOP_PIECE_%c w = DOP_LD_%c(at, (%s) >> 3); "
                         "vec4 x0 = DOP_SCALED_%c(w, DOP_LO_%c(w)), x1 = DOP_SCALED_%c(w, DOP_HI_%c(w));",
                         which, which, d, which, which, which, which);
}

/* If rows attend to all positions from 0 on, the lower bound is not tested. */
const char *
dop_attend_seen(dop_attend *x, const char *token)
{
    dop_emit *e = &x->gen->e;
    const bool all = dop_attention_cached(e->g, x->a.id) && strcmp(dop_emit_first(e, x->a.id, "p"), "0u") == 0;
    return dop_nest_text(&x->n, all ? "p < hi && p <= pq[%s]" : "p < hi && p <= pq[%s] && p >= from[%s]", token, token);
}

const char *
dop_attend_rescale(dop_attend *x)
{
    const char *j = x->vector ? "" : "[j]";
    return dop_nest_text(&x->n, "%s fix = exp(m%s - top%s); m%s = top%s; l%s *= fix;", x->vector ? "vec4" : "float", j,
                         j, j, j, j);
}

/* A row that attends to no position here has only scores of -1e30. Its weights must be 0, not exp(0). */
const char *
dop_attend_weight(dop_attend *x, const char *score, const char *most)
{
    return x->vector ? dop_nest_text(&x->n, "exp(%s - %s) * vec4(greaterThan(%s, vec4(-1e29)))", score, most, score)
                     : dop_nest_text(&x->n, "%s > -1e29 ? exp(%s - %s) : 0.0", score, score, most);
}

void
dop_attend_halve(dop_attend *x, const char *array, uint32_t values, const char *lane, uint32_t bit)
{
    const uint32_t half = values / 2;
    dop_nest_code(&x->n, "bool upper%u = (%s & %uu) != 0u;\n", bit, lane, bit);
    for (uint32_t i = 0; i < half; i++)
        dop_nest_code(&x->n, "%s[%u] = (upper%u ? %s[%u] : %s[%u]) + DOP_OTHER(upper%u ? %s[%u] : %s[%u], %uu);\n",
                      array, i, bit, array, i + half, array, i, bit, array, i, array, i + half, bit);
}

void
dop_attend_store(dop_attend *x)
{
    dop_nest *n = &x->n;
    dop_nest_hole(n, "sink", x->sink);
    dop_nest_code(n, "float m = top, l = sum;\n");
    dop_nest_hole(n, "end", x->store);
}

dop_status
dop_attend_finish(dop_attend *x)
{
    dop_nest_hole(&x->n, "merge of splits", x->merge);
    dop_nest_hole(&x->n, "product of heads", x->tail);
    dop_nest_end(&x->n);
    return dop_gen_print_nest(x->gen, &x->n);
}
