/* Arg-max of the logits: of whole rows, of parts of a row, or merging partial results. In a greedy decode step, the last
 * dispatch also advances the step record.
 *
 * For a row flagged in the step record, the pick is restricted to the columns of a mask (dop_step of base/step_record.h).
 * Partial results cover all columns, so the merge reads such a row's logits again. A row may also request sampling. Kernels
 * for CPU devices do not sample, because the host has the logits anyway and is faster. */
#include "kernels/row/gen_argmax.h"

#include "base/step_record.h"
#include "kernels/gen/gen.h"
#include "kernels/gen/products.h"
#include "kernels/gen/templates.h"
#include "kernels/gen/trips.h"

/* Emits the maximum over the columns [first, end) and, with `each`, the second largest value. The kernel that picks considers
 * only columns allowed by the row's mask. */
static void
scan_logits(dop_gen *gen, dop_node_id x, const char *first, const char *end, bool picks, bool each, dop_buf *scan)
{
    dop_emit *e = &gen->e;
    bool tokens = dop_node_per_token(e->g, x) && e->g->max_t > 1;
    dop_buf_printf(scan, "    for (uint c = %s + gl_LocalInvocationIndex; c < %s; c += WG) {\n", first, end);
    dop_emit_scope(e, scan, "        ");
    if (picks) /* loaded together with the logit, so that there is only one wait */
        dop_emit_line(e, "uint may = masked ? U32(%s).v[mask + c / 32u] : 0xffffffffu;", dop_emit_step(e));
    const char *v = dop_emit_value(e, x, (dop_index){tokens ? "t" : "0u", "c"}, 1);
    dop_emit_line(e, "float logit = dop_logit(%s);", v);
    /* Values that are not finite are detected even in masked columns. */
    const char *may = picks ? "((may >> c % 32u & 1u) != 0u || logit > 3.4e38)" : "true";
    if (each)
        dop_emit_line(e, "next = %s ? max(next, min(logit, best)) : next;", may);
    dop_emit_line(e, "if (logit > best && %s) {", may);
    dop_emit_line(e, "    best = logit;");
    dop_emit_line(e, "    at = c;");
    dop_emit_line(e, "}");
    dop_buf_puts(scan, "    }\n");
}

/* Returns the number of workgroups that share a row in a multi-row step, at 16 columns per invocation. Limited by the number
 * of multiprocessors, and by the workgroup size, because the last workgroup merges one result per invocation. */
static uint32_t
count_row_sharers(const dop_gen *gen, uint32_t cols)
{
    const dop_emit *e = &gen->e;
    const dop_target *t = e->target;
    const uint32_t wg = gen->choice->tile.wg, most = t->cores / e->g->max_t, all = dop_div_up_u32(cols, wg * 16);
    if (t->cpu || !t->merges || most < 2 || e->g->max_t > DOP_COUNTS_MOST)
        return 1;
    return all < most ? (all < wg ? all : wg) : most < wg ? most : wg;
}

/* Emits the maximum over a row in a multi-row step, or over a workgroup's share of it. The loop is memory-bound, so each
 * invocation loads four columns at a time, with four loads in flight. Loads past the end are clamped. */
static void
scan_fours(dop_gen *gen, dop_node_id x, uint32_t cols, uint32_t shares, dop_buf *scan)
{
    dop_emit *e = &gen->e;
    dop_buf_printf(scan,
                   "    for (uint first = %sgl_LocalInvocationIndex * 4u; first < %uu; first += WG * %uu) {\n"
                   "        vec4 x[4];\n        uint may[4];\n"
                   "        [[unroll]] for (uint k = 0u; k < 4u; k++) {\n"
                   "            uint c = min(first + k * WG * 4u, %uu);\n",
                   shares > 1 ? "part * WG * 16u + " : "", cols, shares * 16, cols - 4);
    dop_emit_scope(e, scan, "            ");
    dop_emit_line(e, "may[k] = masked ? U32(%s).v[mask + c / 32u] >> c %% 32u : 0xffffffffu;", dop_emit_step(e));
    dop_emit_line(e, "x[k] = %s;", dop_emit_value(e, x, (dop_index){"t", "c"}, 4));
    dop_buf_printf(scan,
                   "        }\n        [[unroll]] for (uint i = 0u; i < 16u; i++) {\n"
                   "            float logit = dop_logit(x[i / 4u][i %% 4u]);\n"
                   "            uint c = first + i / 4u * WG * 4u + i %% 4u;\n"
                   "            if (c >= %uu || !((may[i / 4u] >> i %% 4u & 1u) != 0u || logit > 3.4e38))\n"
                   "                continue;\n"
                   "            next = max(next, min(logit, best));\n"
                   "            if (logit > best) {\n"
                   "                best = logit;\n"
                   "                at = c;\n"
                   "            }\n"
                   "        }\n"
                   "    }\n",
                   cols);
}

/* Emits the merge: workgroups that share a row store their results, and the last one to finish reduces them. */
static void
merge_row_shares(dop_gen *gen, uint32_t shares, dop_buf *found)
{
    dop_emit *e = &gen->e;
    const char *memory = dop_emit_sums(e, (uint64_t)e->g->max_t * shares * 16), *counts = dop_emit_counts(e);
    gen->hands_on = true;
    gen->grid[0] = shares;
    dop_buf_printf(
        found,
        "    if (gl_LocalInvocationIndex == 0u)\n"
        "        dop_hand4_f32(%s, (t * %uu + part) * 4u, vec4(best, uintBitsToFloat(at), dop_next[0], 0.0));\n"
        "    if (!dop_last_of(%s, t, %uu))\n        return;\n"
        "    best = next = -3.4e38;\n    at = 0xffffffffu;\n"
        "    if (gl_LocalInvocationIndex < %uu) {\n"
        "        vec4 x = dop_take4_f32(%s, (t * %uu + gl_LocalInvocationIndex) * 4u);\n"
        "        best = x.x;\n        at = floatBitsToUint(x.y);\n        next = x.z;\n    }\n"
        "    dop_next[gl_LocalInvocationIndex] = next;\n"
        "    dop_largest(best, at);\n",
        memory, shares, counts, shares, shares, memory, shares);
}

/* Returns the offset of the masks in the step record, in words. */
static uint32_t
masks_at(const dop_graph *g)
{
    const uint32_t page = dop_graph_page(g);
    return DOP_STEP_WORDS + (page ? g->max_q * (g->max_s / page) : 0);
}

/* Returns the index, in the step record, of the parity that selects the current copy of replace states for the row's
 * sequence. */
static const char *
row_parity_index(const dop_graph *g)
{
    return g->max_q == 1 ? "0" : "row.sequence";
}

/* Emits code that loads the row's entry in the row table and its mask. If the pick advances the step, loads all fields that
 * change as well. The first row is loaded along with the number of rows, because it is usually the last one; a dependent load
 * costs a round trip to memory. */
static void
find_mask(dop_emit *e, bool each, uint32_t cols, dop_buf *scan)
{
    const dop_graph *g = e->g;
    const char *s = dop_emit_step(e);
    if (each)
        dop_buf_printf(scan, "    if (t >= %s)\n        return;\n    Row row = %s.rows[t];\n", dop_emit_n_tokens(e), s);
    else
        dop_buf_printf(scan,
                       "    uint n_out = %s.n_out, n_rows = %s.n_rows;\n    Row row = %s.rows[0];\n"
                       "    if (n_rows > 1u)\n        row = %s.rows[n_rows - 1u];\n",
                       s, s, s, s);
    dop_buf_printf(scan,
                   "    bool masked = (row.flags & %uu) != 0u;\n"
                   "    uint mask = %uu + row.sequence * %uu;\n",
                   DOP_ROW_MASKED, masks_at(g), dop_div_up_u32(cols, 32));
    if (!each && dop_graph_replaces(g))
        dop_buf_printf(scan, "    uint parity = %s.parity[%s];\n", s, row_parity_index(g));
}

/* Emits sampling: the function that reads any column of the row, and the call for rows that request it. */
static void
put_draw(dop_gen *gen, dop_node_id x, dop_buf *decls, dop_buf *draw)
{
    dop_emit *e = &gen->e;
    const dop_graph *g = e->g;
    const uint32_t cols = dop_node_cols(g, x);
    const char *s = dop_emit_step(e);
    bool tokens = dop_node_per_token(g, x) && g->max_t > 1;
    dop_buf_printf(decls,
                   "#define DOP_COLUMNS %uu\nuint dop_t, dop_mask;\nbool dop_masked;\n"
                   "// A logit of the row; very small: its column may not be picked.\n"
                   "float dop_column(uint c)\n{\n"
                   "    uint may = dop_masked ? U32(%s).v[dop_mask + c / 32u] : 0xffffffffu;\n",
                   cols, s);
    dop_emit_scope(e, decls, "    ");
    dop_emit_line(e, "return (may >> c %% 32u & 1u) != 0u ? %s : -3.4e38;",
                  dop_emit_value(e, x, (dop_index){tokens ? "dop_t" : "0u", "c"}, 1));
    dop_buf_puts(decls, "}\n");
    dop_buf_printf(draw,
                   "    if ((row.flags & %uu) != 0u) {\n"
                   "        dop_t = t;\n        dop_mask = mask;\n        dop_masked = masked;\n"
                   "        dop_draw(U32(%s), %uu + row.sequence * %uu, row.position);\n    }\n",
                   DOP_ROW_DRAWN, s, masks_at(g) + g->max_q * dop_div_up_u32(cols, 32),
                   (uint32_t)(sizeof(dop_row_way) / sizeof(uint32_t)));
}

/* Emits the pick for the index of the maximum: the index itself, or the id at that index of a list. The id 0xffffffff reports
 * a logit that was not finite. */
static void
name_pick(dop_emit *e, dop_node_id list, dop_buf *store)
{
    if (!list) {
        dop_buf_puts(store, "        at = best > 3.4e38 ? 0xffffffffu : at;\n");
        return;
    }
    dop_emit_scope(e, store, "        ");
    const char *id =
        dop_emit_value(e, list, (dop_index){"0u", dop_emit_str(e, "min(at, %uu)", dop_node_cols(e->g, list) - 1)}, 1);
    dop_emit_line(e, "at = best > 3.4e38 || at == 0xffffffffu ? 0xffffffffu : uint(%s);", id);
}

/* Emits code that stores the pick of a single-row step and advances the step record: the picked id is the token of the next
 * step. */
static void
store_pick(dop_emit *e, dop_buf *store)
{
    const dop_graph *g = e->g;
    const char *s = dop_emit_step(e);
    dop_buf_printf(store,
                   "        %s.ids[n_out %% %uu] = at;\n        %s.n_out = n_out + 1u;\n"
                   "        %s.rows[0] = Row(at, row.position%s, row.sequence, row.flags);\n"
                   "        %s.n_rows = 1u;\n",
                   s, DOP_STEP_RING, s, s, g->stays ? "" : " + 1u", s);
    /* All rows of the step belong to one sequence and are complete, so the states it wrote become current. */
    if (dop_graph_replaces(g))
        dop_buf_printf(store, "        %s.parity[%s] = (parity + 1u) %% %uu;\n", s, row_parity_index(g), g->copies);
}

/* Emits code that stores the picks of a multi-row step for the host. A row may request that the device continues with its
 * pick. */
static void
store_each(dop_emit *e, const char *token, dop_buf *store)
{
    const char *s = dop_emit_step(e);
    const bool stays = e->g->stays;
    const char *turn = stays ? dop_emit_str(e, "row.flags / %uu", DOP_ROW_TURN) : "row.position";
    const char *next = stays ? dop_emit_str(e, "row.position, row.sequence, row.flags + %uu", DOP_ROW_TURN)
                             : "row.position + 1u, row.sequence, row.flags";
    dop_buf_printf(store,
                   "        bool continued = (row.flags & %uu) != 0u;\n"
                   "        %s.ids[continued ? t + %s %% %uu * %uu : t] = at;\n"
                   "        if (t < %uu)\n            %s.margins[t] = floatBitsToUint(best - dop_next[0]);\n"
                   "        if (continued) {\n"
                   "            %s.rows[t] = Row(%s, %s);\n        }\n",
                   DOP_ROW_CONTINUED, s, turn, DOP_STEP_TURNS, DOP_STEP_MAX_SEQUENCES, DOP_STEP_MAX_SEQUENCES, s, s,
                   token, next);
}

/* True if the kernel picks for every row of the step, for the host. */
static bool
picks_each(const dop_graph *g, dop_node_id id)
{
    return dop_node_at(g, id)->shape.dim[0].sym == DOP_SYM_T && g->max_t > 1;
}

static bool
draws(const dop_target *t, dop_op op)
{
    return !t->cpu && op != DOP_OP_argmax_part;
}

static dop_status
emit_argmax(dop_gen *gen)
{
    dop_emit *e = &gen->e;
    const dop_graph *g = e->g;
    dop_node_id id = e->r->outs[e->r->n_outs - 1];
    const dop_node *n = dop_node_at(g, id);
    dop_keys keys = {0};
    dop_buf *scan = dop_keys_text(gen, &keys, "SCAN"), *store = dop_keys_text(gen, &keys, "STORE"),
            *decls = dop_keys_text(gen, &keys, "DECLS"), *draw = dop_keys_text(gen, &keys, "DRAW"),
            *found = dop_keys_text(gen, &keys, "MEET");
    const bool each = picks_each(g, id);
    const dop_node_id list = n->n_srcs > 1 ? n->src[1] : 0;
    uint32_t cols = dop_node_cols(g, n->src[0]);
    DOP_NUMBERS(gen, &keys, &gen->main, {"#MARGIN", each});
    if (n->op == DOP_OP_argmax_merge) {
        const char *a = dop_emit_arg(e, n->src[0], false);
        dop_node_id x = dop_node_at(g, n->src[0])->src[0];
        find_mask(e, false, dop_node_cols(g, x), scan);
        dop_buf_printf(scan,
                       "    for (uint i = gl_LocalInvocationIndex; i < %uu; i += WG) {\n"
                       "        float v = dop_ld1_f32(%s, i * 2u);\n"
                       "        uint w = uint(dop_ld1_f32(%s, i * 2u + 1u));\n"
                       "        if (v > best || (v == best && w < at)) {\n"
                       "            best = v;\n"
                       "            at = w;\n"
                       "        }\n"
                       "    }\n"
                       "    if (masked) {\n"
                       "    best = -3.4e38;\n"
                       "    at = 0xffffffffu;\n",
                       cols / 2, a, a);
        scan_logits(gen, x, "0u", dop_emit_str(e, "%uu", dop_node_cols(g, x)), true, false, scan);
        dop_buf_puts(scan, "    }\n");
    } else if (n->op == DOP_OP_argmax_part) {
        uint32_t parts = (uint32_t)dop_node_i(g, id, DOP_A_parts), chunk = dop_div_up_u32(cols, parts);
        gen->grid[0] = parts;
        scan_logits(gen, n->src[0], dop_emit_str(e, "part * %uu", chunk),
                    dop_emit_str(e, "min((part + 1u) * %uu, %uu)", chunk, cols), false, false, scan);
    } else {
        find_mask(e, each, cols, scan);
        const uint32_t shares = count_row_sharers(gen, cols);
        if (each && cols % 4 == 0 && dop_emit_wide(e, n->src[0])) {
            scan_fours(gen, n->src[0], cols, shares, scan);
            if (shares > 1)
                merge_row_shares(gen, shares, found);
        } else {
            scan_logits(gen, n->src[0], "0u", dop_emit_str(e, "%uu", cols), true, each, scan);
        }
    }
    if (n->op == DOP_OP_argmax_part) {
        const char *a = dop_emit_arg(e, id, true);
        dop_buf_printf(store,
                       "        dop_st1_f32(%s, part * 2u, best);\n"
                       "        dop_st1_f32(%s, part * 2u + 1u, float(at));\n",
                       a, a);
    } else if (each) {
        gen->grid[1] = g->max_t;
        name_pick(e, list, store);
        store_each(e, list ? "at == 0xffffffffu ? 0u : at" : dop_emit_str(e, "min(at, %uu)", cols - 1), store);
    } else {
        name_pick(e, list, store);
        store_pick(e, store);
    }
    const dop_node_id x = n->op == DOP_OP_argmax_merge ? dop_node_at(g, n->src[0])->src[0] : n->src[0];
    if (draws(e->target, n->op))
        put_draw(gen, x, decls, draw);
    const dop_status st = dop_template_fill(gen, "largest.glsl", &keys, &gen->main);
    return st == DOP_OK ? dop_template_fill(gen, "argmax.glsl", &keys, &gen->main) : st;
}

/* Returns the bytes of shared memory per invocation. */
static uint32_t
shared_each(const dop_graph *g, const dop_target *t, dop_node_id id)
{
    return ((draws(t, dop_node_at(g, id)->op) ? 4u : 2u) + (picks_each(g, id) ? 1u : 0u)) * 4;
}

static uint32_t
argmax_shared_bytes(dop_gen *gen)
{
    const dop_emit *e = &gen->e;
    return gen->choice->tile.wg * shared_each(e->g, e->target, e->r->outs[e->r->n_outs - 1]);
}

/* Chooses the largest workgroup that the target allows, because one workgroup processes a whole row of logits. */
static void
choose_argmax_tile(const dop_site *s, dop_tile *tile)
{
    dop_node_id id = s->r->outs[s->r->n_outs - 1];
    bool row = picks_each(s->g, id) || dop_node_at(s->g, id)->op == DOP_OP_argmax_merge;
    if (row && !s->t->cpu)
        tile->wg = dop_wg_of(s->t, s->t->schedule.argmax_wg);
    const uint32_t each = shared_each(s->g, s->t, id) + 4; /* plus the reduction slot of every kernel */
    while (tile->wg > 1 && tile->wg * each > s->t->shared_bytes)
        tile->wg /= 2;
}

const dop_descriptor dop_descriptor_argmax = {
    .tile = choose_argmax_tile,
    .shared = argmax_shared_bytes,
    .emit = emit_argmax,
    .trips = dop_trips_argmax,
};

void
dop_gemv_argmax(dop_gen *gen, const dop_segment *part, uint32_t n_wg, dop_buf *decls, dop_buf *begin, dop_buf *end)
{
    dop_emit *e = &gen->e;
    const dop_keys none = {0};
    const dop_status st = dop_template_fill(gen, "largest.glsl", &none, decls);
    if (e->status == DOP_OK)
        e->status = st;
    dop_buf_puts(begin, "    float best = -3.4e38;\n    uint where = 0xffffffffu;\n");
    dop_buf_puts(end, "    dop_largest(best, where);\n    if (gl_LocalInvocationIndex == 0u) {\n");
    const char *a = dop_emit_arg(e, part->argmax, true);
    dop_buf_printf(
        end, "        dop_st1_f32(%s, wg * 2u, best);\n        dop_st1_f32(%s, wg * 2u + 1u, float(where));\n    }\n",
        a, a);
    uint32_t parts = (uint32_t)dop_node_i(e->g, part->argmax, DOP_A_parts);
    if (n_wg < parts) /* fewer workgroups than results: the remaining results cover no rows */
        dop_buf_printf(end,
                       "    for (uint p = wg + %uu * (gl_LocalInvocationIndex + 1u); p < %uu; p += %uu * WG)\n"
                       "        dop_st1_f32(%s, p * 2u, -3.4e38);\n",
                       n_wg, parts, n_wg, a);
}
