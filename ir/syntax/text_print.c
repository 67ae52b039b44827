/* The printer of text.h.  It formats floats itself, since printf depends on the host's locale. */
#include "ir/graph/ops.h"
#include "ir/graph/shapes.h"
#include "ir/syntax/text.h"

#include <string.h>

enum { NAME_COLUMN = 30 }; /* column of the equals signs, unless a name is longer */

/* Prints a double as "%a" does in the C locale: 0x1.8p+3, exact, shortest. */
static void
print_double(dop_buf *b, double v)
{
    uint64_t u;
    memcpy(&u, &v, sizeof u);
    uint64_t man = u & 0xfffffffffffffu;
    int exp = (int)(u >> 52 & 2047);
    dop_buf_puts(b, u >> 63 ? "-0x" : "0x");
    dop_buf_puts(b, exp ? "1" : "0");
    if (man) {
        char digits[14] = {0};
        int n = 13;
        for (int i = 12; i >= 0; i--, man >>= 4)
            digits[i] = "0123456789abcdef"[man & 15];
        while (digits[n - 1] == '0')
            n--;
        dop_buf_puts(b, ".");
        dop_buf_append(b, digits, (size_t)n);
    }
    dop_buf_printf(b, "p%+d", exp ? exp - 1023 : (u << 1) ? -1022 : 0);
}

static void
print_quoted(dop_buf *b, const char *s)
{
    dop_buf_puts(b, "\"");
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        if (c == '"' || c == '\\')
            dop_buf_printf(b, "\\%c", c);
        else if (c < 0x20 || c >= 0x7f)
            dop_buf_printf(b, "\\x%02x", c);
        else
            dop_buf_append(b, s, 1);
    }
    dop_buf_puts(b, "\"");
}

static void
print_node_ids(dop_buf *b, const dop_graph *g, const dop_node_id *ids, uint32_t n, const char *between)
{
    for (uint32_t i = 0; i < n; i++)
        dop_buf_printf(b, "%s %%%s", i ? between : "", g->nodes[ids[i]].name);
}

static void
print_node(dop_buf *b, const dop_graph *g, const dop_node *n)
{
    char shape[DOP_SHAPE_TEXT];
    const dop_op_info *info = dop_op_of(n->op);
    size_t start = b->size;
    dop_buf_printf(b, "  %%%s:%s%s", n->name, dop_type_of(n->type)->name, dop_shape_text(g, &n->shape, shape));
    while (!b->failed && b->size - start < NAME_COLUMN)
        dop_buf_puts(b, " ");
    dop_buf_printf(b, " = %s", info->name);
    print_node_ids(b, g, n->src, n->n_srcs, ",");
    for (uint8_t k = 0; k < info->n_attrs; k++) {
        dop_attr_id a = info->attrs[k];
        if (dop_attr_optional(a) && n->attr[k].i == 0)
            continue;
        dop_buf_puts(b, " ");
        if (a != DOP_A_name)
            dop_buf_printf(b, "%s=", dop_attr_name(a));
        switch (dop_attr_kind_of(a)) {
        case DOP_ATTR_F:
            print_double(b, n->attr[k].f);
            break;
        case DOP_ATTR_I:
        case DOP_ATTR_O:
            dop_buf_printf(b, "%lld", (long long)n->attr[k].i);
            break;
        case DOP_ATTR_W:
        case DOP_ATTR_D:
            dop_buf_puts(b, dop_attr_word(a, n->attr[k].i));
            break;
        case DOP_ATTR_S:
            print_quoted(b, n->attr[k].s);
            break;
        }
    }
    if (n->label.role[0])
        dop_buf_printf(b, " ; %s", dop_label_text(n->label));
    dop_buf_puts(b, "\n");
}

/* Prints the regions, numbered as they would be after dop_graph_compact(), so that the text reads back to itself. */
static void
print_regions(dop_buf *b, const dop_graph *g)
{
    uint32_t number = 0;
    for (dop_region_id id = 1; id < g->n_regions; id++) {
        const dop_region *r = &g->regions[id];
        if (r->dead)
            continue;
        if (number++ == 0)
            dop_buf_puts(b, "---\n");
        dop_buf_printf(b, "region @%u %s", number, dop_template_name(r->tpl));
        if (r->variant) {
            dop_buf_printf(b, " using %s", r->variant);
            dop_tile_put(&r->tile, b);
        }
        dop_buf_puts(b, " writes");
        print_node_ids(b, g, r->outs, r->n_outs, "");
        dop_buf_puts(b, " {");
        print_node_ids(b, g, r->nodes, r->n_nodes, "");
        dop_buf_puts(b, " }\n");
    }
}

void
dop_graph_print(const dop_graph *g, dop_buf *out_text)
{
    const char *between = "(";
    dop_buf_printf(out_text, "graph %s", g->name);
    for (uint32_t i = 1; i < DOP_N_SYMS; i++) {
        const bool exact = i == DOP_SYM_Q || (i == DOP_SYM_T && g->max_t == 1);
        if (!g->dim_names[i])
            continue;
        dop_buf_printf(out_text, "%s%s%s%u", between, g->dim_names[i], exact ? "=" : "<=", g->bound[i]);
        between = ", ";
    }
    dop_buf_puts(out_text, ") {\n");
    for (dop_node_id id = 1; id < g->n_nodes; id++)
        print_node(out_text, g, &g->nodes[id]);
    dop_buf_puts(out_text, "  return");
    print_node_ids(out_text, g, g->outs, g->n_outs, ",");
    dop_buf_puts(out_text, "\n}\n");
    print_regions(out_text, g);
}
