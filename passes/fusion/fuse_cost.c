/* Conditions of a fusion in addition to legality: time, register pressure, and demands of kernel paths. */
#include "ir/graph/access.h"
#include "ir/graph/ops.h"
#include "passes/fusion/fuse.h"

#include <stdlib.h>

enum {
    WIDTH = 4, /* elements of each value in an invocation: loads are 16 bytes wide */
    ADDRESSES = 8
};

bool
dop_fuse_disabled(const dop_pass_ctx *cx, const dop_graph *g, dop_region_id a, dop_region_id b)
{
    return cx->keep_apart && cx->keep_apart(cx->user, g, &g->regions[a], &g->regions[b]);
}

bool
dop_fuse_asked(const dop_pass_ctx *cx, const dop_graph *g, dop_region_id a, dop_region_id b)
{
    return cx->joins && cx->joins(cx->user, g, &g->regions[a], &g->regions[b]);
}

static uint32_t
fuse_max_u32(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

/* Lists the nodes of both regions in handle order, each once. */
static uint32_t
merge_node_lists(const dop_region *a, const dop_region *b, dop_node_id *out)
{
    uint32_t n = 0, i = 0, k = 0;
    while (i < a->n_nodes || k < b->n_nodes) {
        bool left = k == b->n_nodes || (i < a->n_nodes && a->nodes[i] <= b->nodes[k]);
        dop_node_id id = left ? a->nodes[i] : b->nodes[k];
        i += i < a->n_nodes && a->nodes[i] == id;
        k += k < b->n_nodes && b->nodes[k] == id;
        out[n++] = id;
    }
    return n;
}

/* Code is generated in handle order, which is topological, so a value is live from its own handle to its last reader's.  Values
 * of a statistic or of a weight vector are loads, and live only while they are used. */
dop_status
dop_fuse_registers(const dop_graph *g, const dop_region *a, const dop_region *b, dop_template tpl, dop_diag *diag,
                   uint32_t *out_registers)
{
    uint32_t most = 0, held = 0, capacity = a->n_nodes + b->n_nodes;
    dop_region both = {.nodes = malloc(capacity * sizeof *both.nodes)};
    uint32_t *last = malloc(capacity * sizeof *last); /* position of the last reader */
    uint32_t *ends = calloc(capacity, sizeof *ends);  /* number of values whose last reader is at this position */
    dop_status st = DOP_OK;
    if (!(both.nodes && last && ends))
        DOP_TRY(DOP_NO_MEMORY(diag));
    both.n_nodes = merge_node_lists(a, b, both.nodes);
error:
    for (uint32_t i = 0; i < both.n_nodes; i++) {
        last[i] = i;
        for (uint32_t k = 0; k < dop_node_at(g, both.nodes[i])->n_srcs; k++) {
            uint32_t at = dop_region_find(&both, dop_node_base(g, dop_node_at(g, both.nodes[i])->src[k], NULL));
            if (at < i)
                last[at] = i;
        }
    }
    for (uint32_t i = 0; i < both.n_nodes; i++)
        ends[last[i]] += last[i] > i;
    for (uint32_t i = 0; i < both.n_nodes; i++) {
        held -= ends[i];
        most =
            fuse_max_u32(most, held + dop_node_at(g, both.nodes[i])->n_srcs); /* the node's operands, loaded or live */
        held += last[i] > i;
    }
    free(both.nodes);
    free(last);
    free(ends);
    *out_registers = ADDRESSES + dop_template_of(tpl)->held + WIDTH * most;
    return st;
}

typedef struct reading {
    const dop_graph *g;
    const dop_region *reg;
    uint64_t bytes;
} reading;

static void
add_read_bytes(void *user, dop_node_id base)
{
    reading *c = user;
    if (dop_node_is_input(c->g, base))
        return;
    /* Gathers, and the last row of a sequence, read only the rows that they return. */
    for (uint32_t i = 0; i < c->reg->n_nodes; i++)
        for (uint32_t k = 0; k < dop_node_at(c->g, c->reg->nodes[i])->n_srcs; k++)
            if (dop_node_map(c->g, c->reg->nodes[i], k, DOP_AXIS_row).chosen &&
                dop_node_base(c->g, dop_node_at(c->g, c->reg->nodes[i])->src[k], NULL) == base) {
                c->bytes += dop_node_bytes(c->g, c->reg->nodes[i]);
                return;
            }
    c->bytes += dop_node_bytes(c->g, base);
}

dop_fuse_times
dop_fuse_times_of(const dop_graph *g, const dop_target *t, const dop_region *region, uint32_t n_readers)
{
    reading in = {g, region, 0};
    uint64_t out = 0;
    dop_region_reads(region, add_read_bytes, &in);
    for (uint32_t i = 0; i < region->n_outs; i++)
        out += dop_node_bytes(g, region->outs[i]);
    return (dop_fuse_times){.again_us = (double)(n_readers * in.bytes) * 1e6 / t->bandwidth,
                            .stored_us = (double)(in.bytes + out + n_readers * out) * 1e6 / t->bandwidth};
}
