/* Sharing: joins independent regions into one dispatch.  Its grid is the concatenation of their grids or, for meet-products, the same
 * grid with results combined element by element.
 *
 * merge-siblings: products that read the same activation although their row counts differ (q, k, v; gate and up; a router next to
 * a shared expert), and other roots with equal sources (a recurrence's values and its state).  Runs first, so that an element-wise
 * consumer of two of them (act(gate) * up) finds both in one region.
 * share-row: products with different sources that are computed from one row (a residual normalized by several norms: a router and a
 * feed-forward part, a feed-forward part and attention).  A workgroup computes only the source that its own product reads.  Runs after
 * fuse-epilogue and meet-products, when the epilogues are final, and before fuse-rows, which fuses the producers of the row into the
 * joined dispatch.
 * merge-rows: row programs over vectors of one length (rotation of q, rotation and cache write of k); the grid is divided by unit.
 * Runs after fuse-rows, on the programs that are left.
 * meet-products: a product with a row of its own (a shared expert's, attention's output) and the product whose epilogue reads it (the
 * chosen experts' sum, another mixer's output, a feed-forward part parallel to attention).  Rows of both products have the same
 * length, so that a workgroup computes the same columns of both.  Runs after fuse-epilogue, which has made the node that reads both
 * an epilogue of one of them. */
#include "ir/graph/access.h"
#include "ir/graph/ops.h"
#include "passes/fusion/fuse.h"

#include <string.h>

enum {
    NEAR = 16, /* search distance in regions: searching further would only lengthen lifetimes */
    DEPTH = 32 /* values of a row that kernels process at a time; large enough for all weight types */
};

/* --- what two regions share -------------------------------------------------------------------------------------------- */

/* True if both regions read the same sources. */
static bool
are_siblings(const dop_graph *g, const dop_region *a, const dop_region *b)
{
    const dop_analysis *x = a->info, *y = b->info;
    const dop_node *p = dop_node_at(g, x->root), *q = dop_node_at(g, y->root);
    if (a->tpl != b->tpl)
        return false;
    if (x->product.n_mats)
        return x->product.act == y->product.act && x->experts.ids == y->experts.ids &&
               x->experts.blocks == y->experts.blocks && x->experts.slots == y->experts.slots;
    return dop_template_of(a->tpl)->siblings && p->n_srcs == q->n_srcs &&
           memcmp(p->src, q->src, p->n_srcs * sizeof *p->src) == 0;
}

enum { MOST_ROWS = 8 };

/* Source rows from which the activations of products are computed by element-wise ops. */
typedef struct rows {
    uint32_t n;
    dop_node_id ids[MOST_ROWS];
    bool other; /* there are too many rows, or an op is not element-wise */
} rows;

static void
add_source_row(const dop_graph *g, dop_node_id value, rows *out)
{
    if (!dop_node_per_token(g, value) || dop_node_cols(g, value) == 1)
        return; /* a weight or a statistic, not a row */
    for (uint32_t i = 0; i < out->n; i++)
        if (out->ids[i] == value)
            return;
    if (out->n < MOST_ROWS)
        out->ids[out->n++] = value;
    else
        out->other = true;
}

static rows
find_source_rows(const dop_graph *g, const dop_region *r)
{
    const dop_product_facts *a = &r->info->product;
    rows out = {0};
    for (uint32_t i = 0; i < a->n_activations; i++) {
        const dop_node_id act = dop_node_base(g, a->activations[i], NULL);
        if (!dop_region_has(r, act))
            add_source_row(g, act, &out);
    }
    for (uint32_t i = 0; i < r->n_nodes; i++)
        for (uint32_t k = 0; a->feeds[i] && k < dop_node_at(g, r->nodes[i])->n_srcs; k++) {
            const dop_node_id b = dop_node_base(g, dop_node_at(g, r->nodes[i])->src[k], NULL);
            const dop_axis_map col = dop_node_map(g, r->nodes[i], k, DOP_AXIS_col);
            out.other = out.other || !dop_axis_map_is_own(&col, DOP_AXIS_col);
            if (!dop_region_has(r, b))
                add_source_row(g, b, &out);
        }
    return out;
}

static bool
have_equal_source_rows(const dop_graph *g, const dop_region *a, const dop_region *b)
{
    const rows x = find_source_rows(g, a), y = find_source_rows(g, b);
    bool same = x.n > 0 && x.n == y.n && !x.other && !y.other;
    for (uint32_t i = 0; i < x.n && same; i++) {
        bool found = false;
        for (uint32_t k = 0; k < y.n; k++)
            found = found || x.ids[i] == y.ids[k];
        same = found;
    }
    return same;
}

/* True if both regions are products of whole rows of one length, and need nothing computed before them. */
static bool
are_of_one_row(const dop_graph *g, const dop_region *a, const dop_region *b)
{
    const dop_product_facts *x = &a->info->product, *y = &b->info->product;
    if (a->tpl != b->tpl || dop_template_of(a->tpl)->activations < 2 || x->depth != y->depth || x->staged ||
        y->staged || x->beside || y->beside || a->info->tail.id || b->info->tail.id ||
        dop_node_has_experts(g, x->mats[0]) || dop_node_has_experts(g, y->mats[0]) ||
        dop_node_row_multiple(g, x->mats[0]) != dop_node_row_multiple(g, y->mats[0]))
        return false;
    for (uint32_t i = 0; i < x->n_parts + y->n_parts; i++)
        if ((i < x->n_parts ? x->parts[i] : y->parts[i - x->n_parts]).argmax)
            return false;
    return have_equal_source_rows(g, a, b);
}

static dop_reason
check_activations(const dop_pass_ctx *cx, const dop_graph *g, const dop_region *a, const dop_region *b)
{
    (void)g;
    const uint32_t activations = a->info->product.n_activations + b->info->product.n_activations;
    if (activations > dop_template_of(a->tpl)->activations)
        return DOP_REASON_capacity;
    /* The few workgroups of a CPU compute products of all segments, so all rows must fit. */
    return cx->target->cpu && !dop_fuse_fits_shared(cx->target, activations * a->info->product.depth)
               ? DOP_REASON_shared_memory
               : DOP_REASON_none;
}

static bool
are_row_programs(const dop_graph *g, const dop_region *a, const dop_region *b)
{
    return dop_template_of(a->tpl)->kind == DOP_JOIN_ROW && b->tpl == a->tpl && a->info->has_unit &&
           b->info->has_unit && a->info->unit.len == b->info->unit.len &&
           dop_node_row_multiple(g, a->nodes[0]) == dop_node_row_multiple(g, b->nodes[0]);
}

/* Rejects a mix of quantized and other weights if small-batch products use packed integers, since no fast kernel computes both. */
static dop_reason
check_weight_types(const dop_pass_ctx *cx, const dop_graph *g, const dop_region *a, const dop_region *b)
{
    const dop_region *const both[] = {a, b};
    bool quant = false, other = false;
    for (uint32_t i = 0; i < 2; i++)
        for (uint32_t k = 0; k < both[i]->info->product.n_mats; k++) {
            const dop_node_id w = dop_node_at(g, both[i]->info->product.mats[k])->src[1];
            const bool is = dop_type_of(dop_node_at(g, w)->type)->kind == DOP_KIND_QUANT;
            quant = quant || is;
            other = other || !is;
        }
    return quant && other && dop_few_in_integers(cx->target, g->max_t) ? DOP_REASON_weight_kinds : DOP_REASON_none;
}

/* --- concatenated grids -------------------------------------------------------------------------------------------------- */

typedef struct way {
    const char *pass;
    uint32_t reach; /* number of regions after the first that are searched */
    bool products;  /* only regions with products */
    bool (*alike)(const dop_graph *g, const dop_region *a, const dop_region *b);
    dop_reason (*fits)(const dop_pass_ctx *cx, const dop_graph *g, const dop_region *a,
                       const dop_region *b); /* NULL: every pair fits */
} way;

/* Returns the node that stands for the region in the log. */
static dop_node_id
find_logged_node(const dop_region *r)
{
    return dop_fuse_is_program(r) ? r->outs[0] : r->info->root;
}

static dop_status
try_pair(dop_pass_ctx *cx, dop_graph *g, dop_flow *f, const way *w, dop_region_id a, dop_region_id b, bool *changed)
{
    const dop_region *x = &g->regions[a], *y = &g->regions[b];
    dop_reason why = DOP_REASON_none;
    if (dop_flow_reads(f, a, b) || dop_flow_path_between(f, a, b))
        return DOP_OK;
    if (dop_fuse_disabled(cx, g, a, b))
        why = DOP_REASON_disabled;
    else if (w->fits)
        why = w->fits(cx, g, x, y);
    const dop_fusion_event e = {
        .producer = find_logged_node(x),
        .consumer = find_logged_node(y),
        .pass = w->pass,
        .reason = why,
        .bytes = dop_fuse_is_program(x) ? 0 : dop_node_bytes(g, dop_node_at(g, x->info->root)->src[0]),
        .dispatches = why == DOP_REASON_none};
    dop_status st = dop_fusion_log_add(cx->log, &e, cx->diag);
    return st == DOP_OK && why == DOP_REASON_none ? dop_flow_join(f, g, a, b, cx->diag, changed) : st;
}

static dop_status
join_pairs(dop_pass_ctx *cx, dop_graph *g, const way *w, bool *changed)
{
    dop_flow f = {0};
    dop_status st = DOP_OK;
    DOP_TRY(dop_flow_start(g, cx->diag, &f));
    for (dop_region_id a = 1; a < g->n_regions; a++) {
        uint32_t looked = 0;
        for (dop_region_id b = a + 1; b < g->n_regions && looked < w->reach && !g->regions[a].dead; b++) {
            const dop_region *x = &g->regions[a], *y = &g->regions[b];
            looked += !y->dead;
            if (!y->dead && (!w->products || (x->info->product.n_mats && y->info->product.n_mats)) && w->alike(g, x, y))
                DOP_TRY(try_pair(cx, g, &f, w, a, b, changed));
        }
    }
error:
    dop_flow_finish(&f);
    return st;
}

dop_status
dop_pass_merge_siblings(dop_pass_ctx *cx, dop_graph *g, bool *changed)
{
    return join_pairs(cx, g, &(way){"merge-siblings", UINT32_MAX, false, are_siblings, check_weight_types}, changed);
}

dop_status
dop_pass_share_row(dop_pass_ctx *cx, dop_graph *g, bool *changed)
{
    return join_pairs(cx, g, &(way){"share-row", NEAR, true, are_of_one_row, check_activations}, changed);
}

dop_status
dop_pass_merge_rows(dop_pass_ctx *cx, dop_graph *g, bool *changed)
{
    return join_pairs(cx, g, &(way){"merge-rows", NEAR, false, are_row_programs, NULL}, changed);
}

/* --- products whose results are combined ----------------------------------------------------------------------------------- */

static dop_node_id
product_weights(const dop_graph *g, dop_node_id product)
{
    return dop_node_at(g, product)->src[1];
}

/* True if the only product of the region can be the second one: its row is computed four values at a time and has whole steps of
 * DEPTH. */
static bool
can_be_second_product(const dop_graph *g, const dop_region *r)
{
    const dop_product_facts *a = &r->info->product;
    return a->depth % DEPTH == 0 && dop_region_wide(g, r, a->act);
}

/* Returns none if region p, which has one product, may join region c, whose epilogue reads p's value. */
static dop_reason
check_meeting(const dop_pass_ctx *cx, const dop_flow *f, dop_region_id from, dop_region_id to)
{
    const dop_graph *g = f->g;
    const dop_region *p = &g->regions[from], *c = &g->regions[to];
    const dop_product_facts *a = &p->info->product, *b = &c->info->product;
    if (dop_fuse_disabled(cx, g, from, to))
        return DOP_REASON_disabled;
    /* Products are ordered as in the graph, except that those of experts come first. */
    const bool reader_is_second =
        b->n_mats == 1 && a->n_mats == 1 && a->mats[0] < b->mats[0] && !dop_node_has_experts(g, b->mats[0]);
    if (!dop_template_of(c->tpl)->beside || b->n_mats != 1 || b->beside || c->info->tail.id ||
        (dop_node_has_experts(g, b->mats[0]) && !c->info->experts.sum))
        return DOP_REASON_template_limit;
    if (!dop_template_of(p->tpl)->activations || a->n_mats != 1 || a->staged || a->n_stats || p->info->tail.id ||
        a->parts[0].argmax)
        return DOP_REASON_template_limit;
    if (dop_product_cols(g, a->mats[0]) != dop_product_cols(g, b->mats[0]) ||
        !can_be_second_product(g, reader_is_second ? c : p) ||
        dop_node_at(g, product_weights(g, a->mats[0]))->type != dop_node_at(g, product_weights(g, b->mats[0]))->type)
        return DOP_REASON_tile_mismatch;
    if (dop_node_bytes(g, product_weights(g, a->mats[0])) > cx->target->schedule.beside_bytes &&
        !dop_fuse_asked(cx, g, from, to))
        return DOP_REASON_cost;
    for (uint32_t i = 0; i < p->n_outs; i++)
        if (dop_flow_n_readers(f, p->outs[i]) != 1 || f->output[p->outs[i]])
            return DOP_REASON_multiple_readers;
    return DOP_REASON_none;
}

/* True if `value` has as many columns as the region's product, and only the product's epilogue reads it, element by element. */
static bool
is_read_in_epilogue(const dop_graph *g, const dop_region *c, dop_node_id value)
{
    bool behind = c->info->product.n_parts == 1 && dop_node_cols(g, value) == c->info->product.parts[0].rows;
    for (uint32_t i = 0; i < c->n_nodes; i++) {
        const dop_node *n = dop_node_at(g, c->nodes[i]);
        const bool element = dop_node_is_element(g, c->nodes[i]) && dop_region_part(c, c->nodes[i]) == 0;
        for (uint32_t k = 0; k < n->n_srcs; k++)
            if (dop_node_base(g, n->src[k], NULL) == value)
                behind = behind && element && n->src[k] == value;
    }
    return behind;
}

static dop_status
try_meeting_value(dop_pass_ctx *cx, dop_graph *g, dop_flow *f, dop_node_id value, dop_region_id to, bool *changed)
{
    const dop_region_id from = f->owner[value];
    if (!from || from == to || !g->regions[from].info->product.n_mats ||
        !is_read_in_epilogue(g, &g->regions[to], value))
        return DOP_OK;
    dop_reason why = check_meeting(cx, f, from, to);
    if (why == DOP_REASON_none && dop_flow_path_around(f, from, to))
        why = DOP_REASON_cycle;
    dop_status st = dop_fuse_log(cx, g, from, to, "meet-products", why, why == DOP_REASON_none);
    return st == DOP_OK && why == DOP_REASON_none ? dop_flow_join(f, g, to, from, cx->diag, changed) : st;
}

dop_status
dop_pass_meet_products(dop_pass_ctx *cx, dop_graph *g, bool *changed)
{
    dop_flow f = {0};
    dop_status st = dop_flow_start(g, cx->diag, &f);
    for (dop_region_id r = 1; st == DOP_OK && r < g->n_regions; r++) {
        bool joined = false;
        for (uint32_t i = 0; st == DOP_OK && !joined && !g->regions[r].dead && i < g->regions[r].info->n_reads; i++)
            if (dop_template_of(g->regions[r].tpl)->beside)
                st = try_meeting_value(cx, g, &f, g->regions[r].info->reads[i], r, &joined);
        *changed = *changed || joined;
    }
    dop_flow_finish(&f);
    return st;
}
