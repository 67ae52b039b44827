#include "compiler/region_facts.h"

#include "ir/region.h"
#include "passes/region.h"

const char *
dop_region_label(const dop_graph *g, const dop_region *r)
{
    dop_node_id root = r->info->root;
    /* What stands at the region's heart names it; a row program alone is named by what it stores. */
    const char *label = dop_node_at(g, root)->label;
    return label && *label ? label : dop_node_at(g, r->outs[0])->label;
}

void
dop_region_ops(const dop_graph *g, const dop_region *r, dop_buf *out)
{
    for (uint32_t i = 0; i < r->n_nodes; i++)
        dop_buf_printf(out, "%s%s", i ? " " : "", dop_op_of(dop_node_at(g, r->nodes[i])->op)->name);
}

typedef struct traffic {
    const dop_graph *g;
    const dop_region *r;
    uint32_t depth;
    uint64_t bytes;
} traffic;

static void
count_read(void *user, dop_node_id base)
{
    traffic *t = user;
    const dop_node *n = dop_node_at(t->g, base);
    if (n->op == DOP_OP_input)
        return;
    if (n->op == DOP_OP_state || n->op == DOP_OP_state_write) {
        /* A cache is read as deep as the sequence is long, and not at all by a write. */
        for (uint32_t i = 0; i < t->r->n_nodes; i++) {
            const dop_node *x = dop_node_at(t->g, t->r->nodes[i]);
            for (uint32_t k = 1; k < x->n_srcs && k < 3; k++)
                if ((x->op == DOP_OP_attention || x->op == DOP_OP_attn_split) &&
                    dop_node_base(t->g, x->src[k], NULL) == base)
                    t->bytes += dop_node_bytes(t->g, base) / t->g->max_s / t->g->max_q * t->depth;
        }
        return;
    }
    /* Of a table only the gathered or rotated rows are read. */
    bool table = false;
    for (uint32_t i = 0; i < t->r->n_nodes; i++) {
        const dop_node *x = dop_node_at(t->g, t->r->nodes[i]);
        table = table || (x->op == DOP_OP_gather && x->src[0] == base) || (x->op == DOP_OP_rope && x->src[2] == base);
    }
    uint64_t bytes = dop_node_bytes(t->g, base);
    if (table)
        bytes = bytes / dop_dim_value(t->g, n->shape.dim[0], 1) * t->g->max_t;
    t->bytes += bytes;
}

void
dop_region_traffic(const dop_graph *g, const dop_region *r, uint32_t depth, uint64_t *out_read, uint64_t *out_written)
{
    traffic t = {g, r, depth, 0};
    dop_region_reads(r, count_read, &t);
    *out_read = t.bytes;
    *out_written = 0;
    for (uint32_t i = 0; i < r->n_outs; i++) {
        const dop_node *n = dop_node_at(g, r->outs[i]);
        *out_written += n->op == DOP_OP_state_write ? dop_node_bytes(g, n->src[1]) : dop_node_bytes(g, r->outs[i]);
    }
}
