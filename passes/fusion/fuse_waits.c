/* Waits within a dispatch of products.  The second half of a low-rank product reads whole rows of the first half, which is small.
 * It is fused into the epilogue of the product next to it.  The workgroups of that product wait for those of the first half,
 * which come first in the same dispatch.  Otherwise it would need a dispatch of its own, after a barrier. */
#include "ir/graph/access.h"
#include "ir/graph/ops.h"
#include "passes/fusion/fuse.h"

#include <stdlib.h>

enum { MOST_PARTS = 32, DEPTH = 4 /* maximum number of element-wise regions between a product and its reader */ };

/* True if epilogues may read whole rows.  Products of one row take no longer than the first half of a low-rank product, so
 * waiting would gain nothing. */
static bool
may_read_rows(const dop_pass_ctx *cx, const dop_graph *g)
{
    return cx->target->merges && cx->target->persistent > 0 && !cx->target->cpu && g->max_t > 1;
}

/* True if the region has a product large enough, in columns and depth, to hide the computation of the first half.  For smaller
 * ones a row program or a dispatch of its own is faster. */
static bool
hides_wait(const dop_pass_ctx *cx, const dop_region *p)
{
    uint32_t most = 0;
    for (uint32_t i = 0; i < p->info->product.n_parts; i++)
        most = p->info->product.parts[i].rows > most ? p->info->product.parts[i].rows : most;
    return most >= cx->target->schedule.wait_least && p->info->product.depth >= cx->target->schedule.wait_least;
}

uint32_t
dop_fuse_wait_columns(const dop_pass_ctx *cx, const dop_graph *g, const dop_region *p)
{
    return dop_template_of(p->tpl)->waits && may_read_rows(cx, g) && p->info->product.n_mats &&
                   p->info->product.n_parts <= MOST_PARTS && !p->info->tail.id && !p->info->product.beside
               ? cx->target->schedule.wait_columns
               : 0;
}

/* Segments and nodes that wait, for one consumer. */
typedef struct waits {
    uint32_t awaited, waiting; /* bits of segments that others wait for, and of segments that wait */
    uint32_t *parts;           /* [n_nodes] bits of the segments that the node's element is computed from */
    bool *node;                /* [n_nodes] true if the node reads awaited rows, directly or through other nodes */
    bool *read;                /* [n_nodes] true if another node reads it */
    bool alone;                /* some value is computed from awaited rows only */
} waits;

static uint32_t
find_segment_bit(const dop_region *p, dop_node_id id)
{
    const uint32_t part = dop_region_part(p, id);
    return part < p->info->product.n_parts ? 1u << part : 0;
}

static void
find_waits(const dop_graph *g, const dop_region *p, const dop_region *c, const bool *made, waits *w)
{
    for (uint32_t i = 0; i < c->n_nodes; i++)
        for (uint32_t k = 0; k < dop_node_at(g, c->nodes[i])->n_srcs; k++) {
            const dop_node_id b = dop_node_base(g, dop_node_at(g, c->nodes[i])->src[k], NULL);
            const uint32_t at = dop_region_find(c, b), bits = at < i ? w->parts[at] : find_segment_bit(p, b);
            if (at < i)
                w->read[at] = true;
            if (!made[(size_t)i * DOP_MAX_SRCS + k])
                continue;
            if (dop_node_reads_rows(g, c->nodes[i], k)) {
                w->awaited |= bits;
                w->alone = w->alone || !bits || (at < i && w->node[at]);
                w->node[i] = true;
                continue;
            }
            w->parts[i] |= bits;
            w->node[i] = w->node[i] || (at < i && w->node[at]);
        }
    for (uint32_t i = 0; i < c->n_nodes; i++) {
        w->waiting |= w->node[i] ? w->parts[i] : 0;
        w->alone = w->alone || (w->node[i] && !w->parts[i] && !w->read[i]);
    }
}

/* Merges segments whose results are combined: all of them wait, or are awaited, if one is. */
static void
merge_waiting_segments(const dop_graph *g, const dop_region *p, const dop_region *c, waits *w)
{
    for (uint32_t i = 0; i < p->info->product.n_parts; i++) {
        w->awaited |= dop_region_part_is_awaited(p, i) ? 1u << i : 0;
        w->waiting |= dop_region_part_waits(g, p, i) ? 1u << i : 0;
    }
    for (uint32_t turn = 0; turn < c->n_nodes; turn++)
        for (uint32_t i = 0; i < c->n_nodes; i++) {
            w->awaited |= w->parts[i] & w->awaited ? w->parts[i] : 0;
            w->waiting |= w->parts[i] & w->waiting ? w->parts[i] : 0;
        }
}

dop_status
dop_fuse_check_waits(const dop_pass_ctx *cx, const dop_flow *f, dop_region_id producer, const dop_region *c,
                     const bool *made, dop_reason *out_reason)
{
    const dop_graph *g = f->g;
    const dop_region *p = &g->regions[producer];
    waits w = {.parts = calloc(c->n_nodes, sizeof *w.parts)};
    w.node = calloc(c->n_nodes, 2 * sizeof *w.node);
    w.read = w.node ? w.node + c->n_nodes : NULL;
    dop_status st = DOP_OK;
    if (!(w.parts && w.node))
        DOP_TRY(DOP_NO_MEMORY(cx->diag));
    find_waits(g, p, c, made, &w);
    merge_waiting_segments(g, p, c, &w);
    if (w.alone || (w.awaited & w.waiting) || (w.awaited && !hides_wait(cx, p)))
        *out_reason = DOP_REASON_reduction_barrier;
error:
    free(w.parts);
    free(w.node);
    return st;
}

/* True if some node of c reads whole rows of the value. */
static bool
reads_value_rows(const dop_graph *g, const dop_region *c, dop_node_id value)
{
    bool reads = false;
    for (uint32_t i = 0; i < c->n_nodes; i++)
        for (uint32_t k = 0; k < dop_node_at(g, c->nodes[i])->n_srcs; k++)
            reads = reads || (dop_node_base(g, dop_node_at(g, c->nodes[i])->src[k], NULL) == value &&
                              dop_node_reads_rows(g, c->nodes[i], k));
    return reads;
}

bool
dop_fuse_makes_rows(const dop_pass_ctx *cx, const dop_flow *f, dop_region_id producer, const dop_region *c)
{
    const dop_region *p = &f->g->regions[producer];
    bool again = false, computes = false;
    for (uint32_t i = 0; i < p->n_nodes; i++)
        for (uint32_t k = 0; k < dop_node_at(f->g, p->nodes[i])->n_srcs; k++)
            computes = computes || f->owner[dop_node_base(f->g, dop_node_at(f->g, p->nodes[i])->src[k], NULL)] != 0;
    for (uint32_t i = 0; i < p->n_outs && computes; i++)
        again = again || (f->owner[p->outs[i]] == producer && reads_value_rows(f->g, c, p->outs[i]));
    return again && may_read_rows(cx, f->g) && cx->target->schedule.wait_columns > 0;
}

/* Returns the region of products, with epilogues that may read rows, from which the value is computed element by element; 0:
 * none.  later: search only through regions that are left for the epilogue; NULL: through any. */
static dop_region_id
find_product_before(const dop_pass_ctx *cx, const dop_flow *f, const bool *later, dop_node_id id, uint32_t depth)
{
    const dop_graph *g = f->g;
    const dop_region_id r = f->owner[id];
    dop_region_id found = r && dop_fuse_wait_columns(cx, g, &g->regions[r]) > 0 ? r : 0;
    const bool through = r && depth > 0 && dop_fuse_is_element(&g->regions[r]) && (!later || later[r]);
    for (uint32_t i = 0; through && !found && i < g->regions[r].n_nodes; i++) {
        const dop_node_id n = g->regions[r].nodes[i];
        for (uint32_t k = 0; k < dop_node_at(g, n)->n_srcs && !found; k++) {
            const dop_node_id b = dop_node_base(g, dop_node_at(g, n)->src[k], NULL);
            const dop_axis_map col = dop_node_map(g, n, k, DOP_AXIS_col);
            if (f->owner[b] != r && dop_axis_map_is_own(&col, DOP_AXIS_col) &&
                dop_node_cols(g, b) == dop_node_cols(g, n))
                found = find_product_before(cx, f, later, b, depth - 1);
        }
    }
    return found;
}

bool
dop_fuse_may_wait(const dop_pass_ctx *cx, const dop_flow *f, const bool *later, dop_region_id r)
{
    const dop_graph *g = f->g;
    const dop_region *reg = &g->regions[r];
    dop_region_id product = 0, rows = 0;
    bool reads = false;
    if (!may_read_rows(cx, g) || !dop_fuse_is_element(reg))
        return false;
    for (uint32_t i = 0; i < reg->n_nodes; i++)
        for (uint32_t k = 0; k < dop_node_at(g, reg->nodes[i])->n_srcs; k++) {
            const dop_node_id src = dop_node_at(g, reg->nodes[i])->src[k], b = dop_node_base(g, src, NULL);
            const dop_axis_map col = dop_node_map(g, reg->nodes[i], k, DOP_AXIS_col);
            if (dop_node_reads_rows(g, reg->nodes[i], k)) {
                reads = reads || dop_node_cols(g, src) <= cx->target->schedule.wait_columns;
                if (!dop_region_has(reg, b) && !rows)
                    rows = find_product_before(cx, f, NULL, b, DEPTH);
            } else if (dop_axis_map_is_own(&col, DOP_AXIS_col) && !dop_region_has(reg, b) && !product &&
                       dop_node_cols(g, b) == dop_node_cols(g, reg->nodes[i]) && dop_flow_n_readers(f, b) == 1) {
                product = find_product_before(cx, f, later, b, DEPTH);
            }
        }
    return reads && product && (rows != product || hides_wait(cx, &g->regions[product]));
}
