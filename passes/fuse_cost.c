/* What a fusion needs beside legality: registers, arguments, and that no kernel path switched it off. */
#include "passes/fuse.h"

enum {
    WIDTH = 4, /* elements that an invocation holds of each value: loads are 16 bytes wide */
    ADDRESSES = 8
};

bool
dop_fuse_disabled(const dop_pass_ctx *cx, const dop_graph *g, dop_region_id a, dop_region_id b)
{
    return cx->keep_apart && cx->keep_apart(cx->user, g, &g->regions[a], &g->regions[b]);
}

/* What the template itself keeps beside the values of its expressions: sums, a staged block of weights. */
static uint32_t
held_by(dop_template tpl)
{
    switch (tpl) {
    case DOP_TPL_gemv:
    case DOP_TPL_attention:
        return 16;
    case DOP_TPL_matmul:
        return 24;
    default:
        return 0;
    }
}

static dop_node_id
last_use(const dop_graph *g, const dop_region *a, const dop_region *b, dop_node_id id)
{
    dop_node_id last = id;
    for (int side = 0; side < 2; side++) {
        const dop_region *r = side ? b : a;
        for (uint32_t i = 0; i < r->n_nodes; i++) {
            const dop_node *n = dop_node_at(g, r->nodes[i]);
            for (uint32_t k = 0; k < n->n_srcs; k++)
                if (dop_node_base(g, n->src[k], NULL) == id && r->nodes[i] > last)
                    last = r->nodes[i];
        }
    }
    return last;
}

/* Handles are in topological order and code is generated in that order, so a value is held from its own handle to its
 * last reader's.  Values of a statistic or of a weight vector are loads: they are held only while they are used. */
uint32_t
dop_fuse_registers(const dop_graph *g, const dop_region *a, const dop_region *b, dop_template tpl)
{
    uint32_t most = 0;
    for (int side = 0; side < 2; side++) {
        const dop_region *at = side ? b : a;
        for (uint32_t i = 0; i < at->n_nodes; i++) {
            dop_node_id now = at->nodes[i];
            uint32_t held = dop_node_at(g, now)->n_srcs; /* operands, loaded or held */
            for (int from = 0; from < 2; from++) {
                const dop_region *r = from ? b : a;
                for (uint32_t k = 0; k < r->n_nodes; k++)
                    held += r->nodes[k] < now && (!from || !dop_region_has(a, r->nodes[k])) &&
                            last_use(g, a, b, r->nodes[k]) > now;
            }
            most = held > most ? held : most;
        }
    }
    return ADDRESSES + held_by(tpl) + WIDTH * most;
}

enum { MAX_BUFFERS = 64 };

typedef struct buffers {
    const dop_graph *g;
    const dop_region *other;
    dop_node_id seen[MAX_BUFFERS];
    uint32_t n;
} buffers;

/* A cache and what is written to it are one buffer, the inputs are all of the step record. */
static void
add_buffer(buffers *b, dop_node_id id)
{
    while (dop_node_at(b->g, id)->op == DOP_OP_state_write)
        id = dop_node_base(b->g, dop_node_at(b->g, id)->src[0], NULL);
    if (dop_node_at(b->g, id)->op == DOP_OP_input)
        id = 0;
    for (uint32_t i = 0; i < b->n; i++)
        if (b->seen[i] == id)
            return;
    if (b->n < MAX_BUFFERS)
        b->seen[b->n++] = id;
}

static void
add_read(void *user, dop_node_id base)
{
    buffers *b = user;
    if (!dop_region_has(b->other, base))
        add_buffer(b, base);
}

static bool
is_stored(const dop_flow *f, dop_region_id a, dop_region_id b, dop_node_id id)
{
    for (uint32_t i = 0; i < f->g->n_outs; i++)
        if (dop_node_base(f->g, f->g->outs[i], NULL) == id)
            return true;
    for (uint32_t k = f->first_reader[id]; k < f->first_reader[id + 1]; k++)
        if (f->readers[k] != a && f->readers[k] != b)
            return true;
    return false;
}

/* Arguments that are numbers instead of buffers: the depth of a product of several tokens, an attention window. */
static uint32_t
numbers_of(const dop_graph *g, const dop_region *r)
{
    uint32_t n = r->tpl == DOP_TPL_matmul ? 2 : 0;
    for (uint32_t i = 0; i < r->n_nodes; i++) {
        dop_op op = dop_node_at(g, r->nodes[i])->op;
        if (op == DOP_OP_attention || op == DOP_OP_attn_split || op == DOP_OP_attn_combine)
            return n + 1;
    }
    return n;
}

bool
dop_fuse_too_many_buffers(const dop_pass_ctx *cx, const dop_flow *f, dop_region_id a, dop_region_id b, bool prologue)
{
    const dop_graph *g = f->g;
    const dop_region *ra = &g->regions[a], *rb = &g->regions[b];
    const uint32_t push = cx->target->push_bytes < 128 ? cx->target->push_bytes : 128;
    buffers set = {.g = g, .other = rb};
    dop_region_reads(g, ra, add_read, &set);
    set.other = ra;
    dop_region_reads(g, rb, add_read, &set);
    for (int side = prologue ? 1 : 0; side < 2; side++) {
        const dop_region *r = side ? rb : ra;
        for (uint32_t i = 0; i < r->n_nodes; i++)
            if (is_stored(f, a, b, r->nodes[i]))
                add_buffer(&set, r->nodes[i]);
    }
    return set.n + numbers_of(g, ra) + numbers_of(g, rb) > push / 8 - 1;
}
