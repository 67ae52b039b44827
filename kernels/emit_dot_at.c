/* Products of low rank over chosen segments of ranks, as an expression of the emitter: a row of a batch reads the ranks of its own
 * adapters and no others (gathered matrix-vector products of batched LoRA, https://arxiv.org/abs/2311.03285). */
#include "kernels/emit.h"

/* Adds the products of `step` columns from column `r` on to the sum. */
static void
add_columns(dop_emit *e, const dop_node *n, dop_index ix, const char *sum, const char *r, uint32_t step, uint32_t width)
{
    const char *x = dop_emit_value(e, n->src[0], (dop_index){ix.t, r}, step);
    for (uint32_t i = 0; i < width; i++) {
        const char *row = i ? dop_emit_str(e, "(%s + %uu)", ix.c, i) : ix.c;
        const char *w = dop_emit_value(e, n->src[1], (dop_index){row, r}, step);
        const char *to = width == 4 ? dop_emit_str(e, "%s.%c", sum, "xyzw"[i]) : sum;
        dop_emit_line(e, step == 4 ? "%s += dot(%s, %s);" : "%s += %s * %s;", to, x, w);
    }
}

static void
add_segments(dop_emit *e, dop_node_id node, dop_index ix, const char *sum, uint32_t width)
{
    const dop_node *n = dop_node_at(e->g, node);
    const uint32_t span = (uint32_t)dop_node_i(e->g, node, DOP_A_span), slots = dop_node_cols(e->g, n->src[2]),
                   segments = dop_node_cols(e->g, n->src[0]) / span, step = span % 4 ? 1 : 4;
    const uint32_t name = e->n_temps++;
    const char *outer = e->indent, *j = dop_emit_str(e, "j%u", name), *r = dop_emit_str(e, "k%u", name);
    const char *first = dop_emit_value(e, n->src[2], (dop_index){ix.t, "0u"}, 1);
    dop_emit_line(e, "float of%u = %s;", name, first);
    const uint32_t n_memo = e->n_memo; /* what is computed inside the loop is not visible behind it */
    dop_emit_line(e, "for (uint %s = 0u; %s < %uu && of%u >= 1.0;) {", j, j, slots, name);
    e->indent = dop_emit_str(e, "%s    ", outer);
    dop_emit_line(e, "uint from%u = (min(uint(of%u), %uu) - 1u) * %uu;", name, name, segments, span);
    dop_emit_line(e, "for (uint %s = from%u; %s < from%u + %uu; %s += %uu) {", r, name, r, name, span, r, step);
    e->indent = dop_emit_str(e, "%s        ", outer);
    add_columns(e, n, ix, sum, r, step, width);
    e->n_memo = n_memo;
    e->indent = dop_emit_str(e, "%s    ", outer);
    dop_emit_line(e, "}");
    dop_emit_line(e, "if (++%s < %uu) {", j, slots);
    e->indent = dop_emit_str(e, "%s        ", outer);
    const char *next = dop_emit_value(e, n->src[2], (dop_index){ix.t, j}, 1);
    dop_emit_line(e, "of%u = %s;", name, next);
    e->indent = outer;
    dop_emit_line(e, "    }");
    dop_emit_line(e, "}");
    e->n_memo = n_memo;
}

const char *
dop_emit_dot_at(dop_emit *e, dop_node_id node, dop_index ix, uint32_t width)
{
    const char *sum = dop_emit_str(e, "v%u", e->n_temps++);
    dop_buf *constants = e->constants, *early = e->early;
    dop_emit_line(e, width == 4 ? "vec4 %s = vec4(0.0);" : "float %s = 0.0;", sum);
    e->constants = e->early = NULL; /* loads depend on the loop's variables */
    add_segments(e, node, ix, sum, width);
    e->constants = constants;
    e->early = early;
    return sum;
}
