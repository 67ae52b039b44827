/* Values that also depend on rows of earlier steps: short convolutions, and states that keep a sequence's last rows. */
#include "kernels/emit.h"

/* Taps are [K,C]: a matrix, or a vector of the same values, which no quantizer touches. */
static const char *
tap_value(dop_emit *e, dop_node_id taps, uint32_t k, uint32_t cols, const char *c, uint32_t width)
{
    bool vector = dop_node_at(e->g, dop_node_base(e->g, taps, NULL))->shape.rank == 1;
    dop_index ix = {vector ? "0u" : dop_emit_str(e, "%uu", k), c};
    if (vector && k > 0)
        ix.c = dop_emit_str(e, "(%s + %uu)", c, k * cols);
    return dop_emit_value(e, taps, ix, width);
}

/* x of the row `ago` rows before ix.t, which has `before` rows of its sequence before it in this step; the rows before those
 * come from the state.  Where it depends on the row which one is needed, both are loaded, so that no load waits for a condition. */
static const char *
row_before(dop_emit *e, dop_node_id node, dop_index ix, const char *before, uint32_t ago, uint32_t kept, uint32_t width)
{
    const dop_node *n = dop_node_at(e->g, node);
    uint32_t cols = dop_node_cols(e->g, node);
    const char *seq = dop_emit_sequence(e, n->src[3], ix.t);
    if (ago == 0)
        return dop_emit_value(e, n->src[0], ix, width);
    if (e->g->max_t == 1)
        return dop_emit_value(e, n->src[1], (dop_index){seq, dop_emit_str(e, "(%s + %uu)", ix.c, (kept - ago) * cols)},
                              width);
    const char *row = dop_emit_str(e, "r%u", e->n_temps++), *at = dop_emit_str(e, "c%u", e->n_temps++);
    dop_emit_index(e, "uint %s = max(%s, %uu) - %uu;", row, ix.t, ago, ago);
    dop_emit_index(e, "uint %s = min(%s + %uu, %uu) * %uu + %s;", at, before, kept - ago, kept - 1, cols, ix.c);
    const char *x = dop_emit_value(e, n->src[0], (dop_index){row, ix.c}, width);
    const char *s = dop_emit_value(e, n->src[1], (dop_index){seq, at}, width);
    const char *name = dop_emit_str(e, "v%u", e->n_temps++);
    dop_emit_line(e, "%s %s = %s >= %uu ? %s : %s;", width == 4 ? "vec4" : "float", name, before, ago, x, s);
    return name;
}

static const char *
emit_conv(dop_emit *e, dop_node_id node, dop_index ix, uint32_t width)
{
    const dop_graph *g = e->g;
    const dop_node *n = dop_node_at(g, node);
    uint32_t cols = dop_node_cols(g, node), kept = dop_node_at(g, n->src[1])->shape.dim[1].mul;
    const char *T = width == 4 ? "vec4" : "float", *out = dop_emit_str(e, "v%u", e->n_temps++);
    const char *before = dop_graph_mixes(g) ? dop_emit_neighbours(e, ix.t, kept, false) : ix.t;
    const char *bias = n->n_srcs > 4 ? dop_emit_value(e, n->src[4], (dop_index){"0u", ix.c}, width) : "0.0";
    dop_emit_line(e, "%s %s = %s(%s);", T, out, T, bias);
    for (uint32_t k = 0; k <= kept; k++) {
        const char *tap = tap_value(e, n->src[2], k, cols, ix.c, width);
        dop_emit_line(e, "%s += %s * %s;", out, tap, row_before(e, node, ix, before, kept - k, kept, width));
    }
    return out;
}

/* A row that the state kept moves up by `by` rows. */
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
    const char *q = dop_emit_sequence(e, n->src[2], ix.t), *copy = dop_emit_replace_copy(e, node, q, true);
    const char *a = dop_emit_arg(e, node, true);
    if (g->max_t == 1) {
        for (uint32_t i = 0; i + 1 < kept; i++)
            move_row(e, node, q, copy, dop_emit_str(e, "%uu", i), "1u", ix, width);
        dop_emit_line(e, "dop_st%u_%s(%s, %s + %s * %uu + %s, %s);", width, type, a, copy, q, values,
                      dop_emit_str(e, "%uu + %s", (kept - 1) * cols, ix.c), value);
        return;
    }
    /* `at`: where among the kept rows this one belongs, if it is one of the last; `rows`: how many its sequence has. */
    const char *rows = dop_emit_n_tokens(e), *keeps, *at, *first;
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
    /* In a step shorter than the state, older rows stay; what moves them is visible inside the loop only. */
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

const dop_emit_rows dop_emit_of_rows = {emit_conv, store_tail};
