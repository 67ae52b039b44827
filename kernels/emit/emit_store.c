/* Emits stores of values: results, and states that a step writes. */
#include "kernels/emit/emit.h"

#include "ir/graph/cache_row.h"
#include "ir/region/region.h"

/* For a replace state that keeps the last rows of a sequence: copies row `row` + `by` of the old state to row `row` of the
 * new one. */
static void
move_row(dop_emit *e, dop_node_id node, const char *q, const char *copy, const char *row, const char *by, dop_index ix,
         uint32_t width)
{
    const dop_node *n = dop_node_at(e->g, node);
    uint32_t cols = dop_node_cols(e->g, n->src[1]), values = dop_node_cols(e->g, node);
    const char *old = dop_emit_value(
        e, n->src[0], (dop_index){q, dop_emit_str(e, "((%s + %s) * %uu + %s)", row, by, cols, ix.c)}, width);
    dop_emit_line(e, "dop_st%u_%s(%s, %s + %s * %uu + %s * %uu + %s, %s);", width, dop_type_of(n->type)->name,
                  dop_emit_arg(e, node, true), copy, q, values, row, cols, ix.c, old);
}

/* Position of row t within its sequence's rows of this step, and the state copy that it writes. `before` and `behind` count
 * the sequence's rows before and after it, up to the larger of `kept` and the number of copies. `each`: every row has its own
 * copy; otherwise only the last row has one. `steps` is the copy's distance from the current one. */
typedef struct row_copy {
    const char *before, *behind, *each, *steps;
} row_copy;

static row_copy
row_copy_of(dop_emit *e, const char *t, uint32_t kept)
{
    const uint32_t copies = e->g->copies, most = copies > kept ? copies : kept;
    row_copy x = {dop_emit_neighbours(e, t, most, false), dop_emit_neighbours(e, t, most, true),
                  dop_emit_str(e, "r%u", e->n_temps++), NULL};
    dop_emit_index(e, "bool %s = %s + %s + 1u < %uu;", x.each, x.before, x.behind, copies);
    x.steps = dop_emit_str(e, "(%s ? %s + 1u : 1u)", x.each, x.before);
    return x;
}

/* Emits code that stores the last rows of a sequence as of each row of the step. A row belongs to its own copy and to those
 * of the next rows; the first row also moves older rows. */
static void
store_each_tail(dop_emit *e, dop_node_id node, dop_index ix, uint32_t width, const char *value)
{
    const dop_node *n = dop_node_at(e->g, node);
    const uint32_t cols = dop_node_cols(e->g, n->src[1]), kept = n->shape.dim[1].mul, copies = e->g->copies;
    const uint64_t values = dop_node_rows(e->g, node, 1) * dop_node_cols(e->g, node);
    const char *indent = e->indent, *q = dop_emit_sequence(e, n->src[2], ix.t), *a = dop_emit_arg(e, node, true);
    const row_copy x = row_copy_of(e, ix.t, kept);
    const char *now = dop_emit_str(e, "r%u", e->n_temps++),
               *base = dop_emit_str(e, "%s * %uu", q, dop_node_cols(e->g, node));
    dop_buf *constants = e->constants, *early = e->early;
    const uint32_t n_memo = e->n_memo;
    dop_emit_index(e, "uint %s = %s.parity[%s];", now, dop_emit_step(e), q);
    e->constants = e->early = NULL;
    dop_emit_line(e, "for (uint d = 0u; d < %uu && d <= %s; d++)", kept, x.behind);
    dop_emit_line(e, "    if (%s || d == %s)", x.each, x.behind);
    dop_emit_line(
        e, "        dop_st%u_%s(%s, (%s + (%s ? %s + d + 1u : 1u)) %% %uu * %lluu + %s + (%uu - d) * %uu + %s, %s);",
        width, dop_type_of(n->type)->name, a, now, x.each, x.before, copies, (unsigned long long)values, base, kept - 1,
        cols, ix.c, value);
    dop_emit_line(e, "if (%s == 0u)", x.before);
    dop_emit_line(e, "    for (uint d = 0u; d + 1u < %uu && d <= %s; d++)", kept, x.behind);
    dop_emit_line(e, "        for (uint kept = 0u; (%s || d == %s) && kept + d + 1u < %uu; kept++) {", x.each, x.behind,
                  kept);
    e->indent = dop_emit_str(e, "%s            ", indent);
    const char *copy =
        dop_emit_str(e, "(%s + (%s ? d + 1u : 1u)) %% %uu * %lluu", now, x.each, copies, (unsigned long long)values);
    move_row(e, node, q, copy, "kept", "(d + 1u)", ix, width);
    e->indent = indent;
    dop_emit_line(e, "        }");
    e->constants = constants;
    e->early = early;
    e->n_memo = n_memo;
}

static void
store_tail(dop_emit *e, dop_node_id node, dop_index ix, uint32_t width, const char *value)
{
    const dop_graph *g = e->g;
    const dop_node *n = dop_node_at(g, node);
    uint32_t cols = dop_node_cols(g, n->src[1]), kept = n->shape.dim[1].mul, values = dop_node_cols(g, node);
    const char *type = dop_type_of(n->type)->name, *indent = e->indent;
    dop_buf *constants = e->constants, *early = e->early;
    if (e->status != DOP_OK)
        return;
    if (n->type != DOP_TYPE_f32 && (n->type != DOP_TYPE_f16 || width != 4)) {
        e->status = DOP_FAIL(e->diag, DOP_E_INPUT, "no kernel keeps the last rows of %%%s", n->name);
        return;
    }
    if (e->g->keeps_each) {
        store_each_tail(e, node, ix, width, value);
        return;
    }
    const char *q = dop_emit_sequence(e, n->src[2], ix.t), *copy = dop_emit_replace_copy(e, node, q, "1u");
    const char *a = dop_emit_arg(e, node, true);
    if (g->max_t == 1) {
        for (uint32_t i = 0; i + 1 < kept; i++)
            move_row(e, node, q, copy, dop_emit_str(e, "%uu", i), "1u", ix, width);
        dop_emit_line(e, "dop_st%u_%s(%s, %s + %s * %uu + %s, %s);", width, type, a, copy, q, values,
                      dop_emit_str(e, "%uu + %s", (kept - 1) * cols, ix.c), value);
        return;
    }
    /* keeps: this row is among the last `kept` of its sequence. at: its index among the kept rows. first: it is its
     * sequence's first row in the step. rows: number of its sequence's rows in the step. */
    const char *rows = dop_emit_rows(e, e->multiple), *keeps, *at, *first;
    if (dop_graph_mixes(g)) {
        const char *behind = dop_emit_neighbours(e, ix.t, kept, true);
        keeps = dop_emit_str(e, "%s < %uu", behind, kept);
        at = dop_emit_str(e, "(%uu - %s)", kept - 1, behind);
        first = dop_emit_str(e, "%s == 0u", dop_emit_neighbours(e, ix.t, 1, false));
        rows = dop_emit_str(e, "(%s + 1u)", behind);
    } else {
        keeps = dop_emit_str(e, "%s + %uu >= %s", ix.t, kept, rows);
        at = dop_emit_str(e, "(%s + %uu - %s)", ix.t, kept, rows);
        first = dop_emit_str(e, "%s == 0u", ix.t);
    }
    dop_emit_line(e, "if (%s)", keeps);
    dop_emit_line(e, "    dop_st%u_%s(%s, %s + %s * %uu + %s * %uu + %s, %s);", width, type, a, copy, q, values, at,
                  cols, ix.c, value);
    /* In a step shorter than the state, older rows move; values computed in this loop are visible only inside of it. */
    uint32_t n_memo = e->n_memo;
    e->constants = e->early = NULL;
    dop_emit_line(e, "if (%s)", first);
    dop_emit_line(e, "    for (uint kept = 0u; kept + %s < %uu; kept++) {", rows, kept);
    e->indent = dop_emit_str(e, "%s        ", indent);
    move_row(e, node, q, copy, "kept", rows, ix, width);
    e->indent = indent;
    dop_emit_line(e, "    }");
    e->constants = constants;
    e->early = early;
    e->n_memo = n_memo;
}

/* Returns the index where a step writes the successor of a replace state, in the copy `steps` after the current one. */
static const char *
replace_index(dop_emit *e, dop_node_id node, dop_index ix, const char *steps)
{
    const dop_graph *g = e->g;
    const dop_node *n = dop_node_at(g, node);
    const char *q = n->n_srcs > 2 ? dop_emit_sequence(e, n->src[2], ix.t) : g->max_q == 1 ? "0u" : ix.t;
    if (n->n_srcs == 2 && e->g->keeps_each)
        dop_emit_fail(e, DOP_E_INPUT, "a state after each row is stored by the kernel that computes it", node);
    const char *copy = dop_emit_replace_copy(e, node, q, steps);
    return dop_emit_str(e, "(%s + %s)", copy, dop_emit_flat(e, node, (dop_index){q, ix.c}, dop_node_cols(g, node), 0));
}

/* Returns the row of append state that the step writes. */
static const char *
append_row(dop_emit *e, const dop_node *write, const char *t)
{
    const dop_graph *g = e->g;
    const char *pos = dop_emit_value(e, write->src[2], (dop_index){t, "0u"}, 1), *row;
    uint32_t ring = dop_cache_ring(g, write->src[0]), rows = ring ? ring : g->max_s;
    if (!ring && g->max_q > 1) {
        const char *table = dop_emit_page_table(e, dop_emit_sequence(e, write->src[3], t));
        return dop_emit_page_row(e, "U32", table, dop_emit_str(e, "min(%s, %uu)", pos, rows - 1));
    }
    const char *varies = e->r->info->attn.root ? dop_emit_ring(e, e->r->info->attn.root) : NULL;
    if (varies || ring)
        row = dop_emit_str(e, "%s %% %s", pos, varies ? varies : dop_emit_str(e, "%uu", ring));
    else
        row = dop_emit_str(e, "min(%s, %uu)", pos, rows - 1);
    if (g->max_q == 1)
        return ring || varies ? dop_emit_str(e, "(%s)", row) : row;
    return dop_emit_str(e, "(%s * %uu + %s)", dop_emit_sequence(e, write->src[3], t), rows, row);
}

/* Emits code that stores four values of a cache row that is stored in quantized blocks. */
static void
store_in_blocks(dop_emit *e, dop_node_id node, dop_index ix, uint32_t width, const char *value)
{
    const dop_node *n = dop_node_at(e->g, node);
    const uint32_t cols = dop_node_cols(e->g, node);
    if (width != 4) {
        dop_emit_fail(e, DOP_E_INPUT, "a cache in blocks is written four values at a time: use `kv` f16", node);
        return;
    }
    e->caps |= DOP_CAP_f16_storage;
    e->blocks = true;
    dop_emit_line(e, "dop_st4_%s(%s, %s * %uu, %s, %uu, %s);", dop_type_of(n->type)->name, dop_emit_arg(e, node, true),
                  append_row(e, n, ix.t), (uint32_t)(dop_cache_row_bytes(n->type, cols) / 4), ix.c, cols, value);
}

/* Emits the condition that the sequence has rows in this step. Otherwise its replace state must not be written, because the
 * copy to be replaced predates the sequence's last step. */
static const char *
has_rows_in_step(dop_emit *e, const char *sequence)
{
    const char *n = dop_emit_str(e, "r%u", e->n_temps++), *has = dop_emit_str(e, "r%u", e->n_temps++);
    dop_emit_line(e, "bool %s = false;", has);
    dop_emit_line(e, "for (uint %s = 0u; %s < %s; %s++)", n, n, dop_emit_rows(e, e->multiple), n);
    dop_emit_line(e, "    %s = %s || %s.sequence == %s;", has, has, dop_emit_row(e, n), sequence);
    return has;
}

void
dop_emit_store(dop_emit *e, dop_node_id node, dop_index ix, uint32_t width, const char *value)
{
    const dop_graph *g = e->g;
    const dop_node *n = dop_node_at(g, node);
    const char *at;
    if (e->status != DOP_OK)
        return;
    const bool rows = dop_is_replace_state(g, node) && n->n_srcs > 2, each = rows && g->keeps_each;
    if (rows)
        ix.t = dop_emit_own_row(e, ix.t);
    if (dop_is_replace_state(g, node) && n->shape.rank > dop_node_at(g, n->src[1])->shape.rank) {
        store_tail(e, node, ix, width, value);
        return;
    }
    const row_copy own = each ? row_copy_of(e, ix.t, 0) : (row_copy){.steps = "1u"};
    if (dop_is_replace_state(g, node)) {
        at = replace_index(e, node, ix, own.steps);
    } else if (n->op == DOP_OP_state_write) {
        at = dop_emit_str(e, "(%s * %uu + %s)", append_row(e, n, ix.t), dop_node_cols(g, node), ix.c);
    } else {
        at = dop_emit_flat(e, node, ix, dop_node_cols(g, node), 0);
    }
    const bool index = n->type == DOP_TYPE_u32;
    const bool blocks = dop_node_writes_blocks(g, node);
    if (!index && !blocks && n->type != DOP_TYPE_f32 && n->type != DOP_TYPE_f16) {
        dop_emit_fail(e, DOP_E_INTERNAL, "values are stored as f32, f16 or u32", node);
        return;
    }
    if (n->type == DOP_TYPE_f16 && width == 1)
        e->caps |= DOP_CAP_f16_storage;
    if (e->routes && (e->routes[node] & DOP_MAILBOX)) {
        const char *place = n->op != DOP_OP_state_write ? at
                            : g->max_t == 1             ? ix.c
                                            : dop_emit_str(e, "(%s * %uu + %s)", ix.t, dop_node_cols(g, node), ix.c);
        dop_emit_line(e, index ? "dop_send%u(%s, %s, float(%s));" : "dop_send%u(%s, %s, %s);", width,
                      dop_emit_add_arg(e, node, DOP_ARG_VALUE, true, true), place, value);
        if (!(e->routes[node] & DOP_LEAVES))
            return;
    }
    if (blocks) {
        store_in_blocks(e, node, ix, width, value);
        return;
    }
    /* The last of a sequence's rows determines its state. */
    const char *last = "";
    if (each)
        last = dop_emit_str(e, "if (%s || %s == 0u) ", own.each, own.behind);
    else if (rows && g->max_t > 1)
        last = dop_graph_mixes(g) ? dop_emit_str(e, "if (%s == 0u) ", dop_emit_neighbours(e, ix.t, 1, true))
                                  : dop_emit_str(e, "if (%s + 1u == %s) ", ix.t, dop_emit_rows(e, e->multiple));
    else if (dop_is_replace_state(g, node) && n->n_srcs == 2 && g->max_q > 1)
        last = dop_emit_str(e, "if (%s) ", has_rows_in_step(e, ix.t));
    const bool hands = n->type == DOP_TYPE_f32 && dop_region_hands_on(e->r, node);
    dop_emit_line(e, "%sdop_%s%u_%s(%s, %s, %s);", last, hands ? "hand" : "st", width, dop_type_of(n->type)->name,
                  dop_emit_arg(e, node, true), at, value);
}
