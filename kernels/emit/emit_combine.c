/* Merges the splits of a cache (flash decoding), as an expression of the emitter. */
#include "kernels/emit/emit.h"

/* One split's result in memory. `a` is the argument; `row` is the stride between results in values. */
typedef struct split_row {
    const char *a, *T;
    uint32_t i, row, head, width;
} split_row;

static void
load_split(dop_emit *e, const split_row *p)
{
    dop_emit_line(e, "    float m%u = -1e30, l%u = 0.0;", p->i, p->i);
    dop_emit_line(e, "    %s x%u = %s(0.0);", p->T, p->i, p->T);
    dop_emit_line(e, "    if (%uu < used) {", p->i);
    dop_emit_line(e, "        uint at = row + %uu;", p->i * p->row);
    dop_emit_line(e, "        vec2 ml = dop_ld2_f32(%s, at + %uu);", p->a, p->head);
    dop_emit_line(e, "        m%u = ml.x;", p->i);
    dop_emit_line(e, "        l%u = ml.y;", p->i);
    if (p->width == 4)
        dop_emit_line(e, "        x%u = vec4(dop_ld2_f32(%s, at + d), dop_ld2_f32(%s, at + d + 2u));", p->i, p->a,
                      p->a);
    else
        dop_emit_line(e, "        x%u = dop_ld1_f32(%s, at + d);", p->i, p->a);
    dop_emit_line(e, "    }");
}

/* Emits a loop that polls the mailboxes of all splits until every value has arrived. */
static void
receive_splits(dop_emit *e, const split_row *p, uint32_t splits)
{
    const char *words = p->width == 4 ? "uvec4" : "uint";
    for (uint32_t i = 0; i < splits; i++)
        dop_emit_line(e, "    uint hm%u = 0xf149f2cau, hl%u = 0u; // -1e30, 0\n        %s hx%u = %s(0u);", i, i, words,
                      i, words);
    dop_emit_line(e, "    for (uint n = 0u;; n++) {");
    dop_emit_line(e, "        bool missing = false;");
    for (uint32_t i = 0; i < splits; i++) {
        dop_emit_line(e, "        if (%uu < used) {", i);
        dop_emit_line(e, "            uint at = row + %uu;", i * p->row);
        dop_emit_line(e, "            hm%u = dop_look1(%s, at + %uu);", i, p->a, p->head);
        dop_emit_line(e, "            hl%u = dop_look1(%s, at + %uu);", i, p->a, p->head + 1);
        dop_emit_line(e, "            hx%u = dop_look%u(%s, at + d);", i, p->width, p->a);
        dop_emit_line(e, "        }");
    }
    for (uint32_t i = 0; i < splits; i++)
        dop_emit_line(e, "        missing = missing || dop_missing(hm%u) || dop_missing(hl%u) || dop_missing(hx%u);", i,
                      i, i);
    dop_emit_line(e, "        if (!missing || dop_given_up(n))");
    dop_emit_line(e, "            break;");
    dop_emit_line(e, "    }");
    for (uint32_t i = 0; i < splits; i++) {
        dop_emit_line(e, "    float m%u = uintBitsToFloat(hm%u), l%u = uintBitsToFloat(hl%u);", i, i, i, i);
        dop_emit_line(e, "    %s x%u = uintBitsToFloat(hx%u);", p->T, i, i);
    }
}

/* Merges the partial results of the splits; only splits that cover cache rows were written. */
const char *
dop_emit_combine(dop_emit *e, dop_node_id node, dop_index ix, uint32_t width)
{
    const dop_graph *g = e->g;
    const dop_node *n = dop_node_at(g, node);
    uint32_t head = n->shape.dim[2].mul, max_splits = (uint32_t)dop_node_i(g, node, DOP_A_splits);
    uint32_t splits = e->splits ? e->splits : max_splits;
    dop_node_id split = dop_node_base(g, n->src[0], NULL);
    const char *first = dop_node_at(g, split)->op == DOP_OP_attn_split ? dop_emit_first(e, split, "p") : "0u";
    bool mailbox = e->routes && (e->routes[split] & DOP_MAILBOX);
    const char *a = mailbox ? dop_emit_mailbox_arg(e, split, false) : dop_emit_arg(e, split, false);
    const char *out = dop_emit_str(e, "v%u", e->n_temps++), *T = width == 4 ? "vec4" : "float";
    uint32_t heads = dop_node_cols(g, node) / head, row = head + (mailbox ? 4 : 2); /* mailboxes align splits */
    dop_emit_line(e, "%s %s = %s(0.0);", T, out, T);
    dop_emit_line(e, "{");
    dop_emit_line(e, "    uint p = %s, n = p + 1u - %s;", dop_emit_position(e, ix.t), first);
    if (dop_node_i(g, split, DOP_A_top))
        dop_emit_line(e, "    n = min(n, %uu);", (uint32_t)dop_node_i(g, split, DOP_A_top));
    if (dop_node_at(g, split)->op == DOP_OP_attn_split)
        dop_emit_line(e, "    uint len = dop_split_len(n, %uu, %uu), used = dop_split_count(n, len, %uu);", splits,
                      dop_split_round(g, split), splits);
    else
        dop_emit_line(e, "    uint used = %uu;", splits);
    dop_emit_line(e, "    uint h = %s / %uu, d = %s %% %uu, row = (%s * %uu + h * %uu) * %uu;", ix.c, head, ix.c, head,
                  ix.t, heads * max_splits, max_splits, row);
    /* Issues the loads of all splits at once: one round trip to memory instead of one per split. Unrolled here, because
     * drivers that do not unroll a loop over arrays keep the arrays in memory. */
    dop_emit_line(e, "    float m = -1e30, l = 0.0;");
    if (mailbox)
        receive_splits(e, &(split_row){a, T, 0, row, head, width}, splits);
    for (uint32_t i = 0; i < splits && !mailbox; i++)
        load_split(e, &(split_row){a, T, i, row, head, width});
    for (uint32_t i = 0; i < splits; i++)
        dop_emit_line(e, "    m = max(m, m%u);", i);
    dop_emit_line(e, "    float w;");
    for (uint32_t i = 0; i < splits; i++) {
        dop_emit_line(e, "    w = exp(m%u - m);", i);
        dop_emit_line(e, "    l += w * l%u;", i);
        dop_emit_line(e, "    %s += w * x%u;", out, i);
    }
    dop_emit_line(e, "    %s /= l;", out);
    dop_emit_line(e, "}");
    return out;
}
