#include "passes/fusion/fuse.h"

#include "ir/graph/access.h"
#include "ir/graph/dims.h"
#include "ir/graph/ops.h"
#include "ir/graph/unit.h"

#include <stdlib.h>

static bool
have_equal_unit(dop_unit a, dop_unit b)
{
    return a.len == b.len && a.units == b.units;
}

/* True if node n reads values that region p computes; returns the source number of read number `nth`. */
static bool
find_nth_read(const dop_flow *f, dop_node_id n, dop_region_id p, uint32_t nth, uint32_t *out_src)
{
    const dop_graph *g = f->g;
    const dop_node *x = dop_node_at(g, n);
    for (uint32_t i = 0; i < x->n_srcs; i++) {
        dop_node_id b = dop_node_base(g, x->src[i], NULL);
        if (f->owner[b] != p || !dop_region_has(&g->regions[p], b) || nth-- > 0)
            continue;
        *out_src = i;
        return true;
    }
    return false;
}

/* --- access against tile --------------------------------------------------------------------------------------------- */

/* A candidate fusion: the tile of the producer that a consumer may join.  The fused workgroup computes the producer's values, and
 * those that the consumer computes from them. */
typedef struct tile {
    const dop_graph *g;
    const dop_flow *f;
    const dop_region *r;
    const dop_template_info *has;
    const bool *made; /* [n_nodes of the consumer][DOP_MAX_SRCS] the fused workgroup computes this source */
    uint32_t rows_of; /* maximum columns of values whose rows the consumer's nodes may read from memory; 0: none */
} tile;

/* True if two values have the same rows. */
static bool
have_equal_rows(const dop_graph *g, dop_node_id a, dop_node_id b)
{
    const dop_shape *x = &dop_node_at(g, a)->shape, *y = &dop_node_at(g, b)->shape;
    const uint32_t n = dop_shape_row_axes(x);
    if (dop_shape_is_rows(x) &&
        dop_shape_is_rows(y)) /* values without a row dimension have one row; state values have the state's */
        return dop_node_row_multiple(g, a) == dop_node_row_multiple(g, b);
    bool same = n == dop_shape_row_axes(y);
    for (uint32_t i = 0; i < n && same; i++)
        same = x->dim[i].mul == y->dim[i].mul && x->dim[i].sym == y->dim[i].sym;
    return same;
}

/* True if source and node have the same index space, so that equal indices refer to the same element. */
static bool
have_equal_space(const dop_graph *g, dop_node_id node, dop_node_id src)
{
    dop_node_id value = dop_node_base(g, src, NULL), space = dop_node_space(g, node);
    return dop_node_cols(g, src) == dop_node_cols(g, value) && dop_node_cols(g, space) == dop_node_cols(g, value) &&
           have_equal_rows(g, space, value);
}

/* Compares columns with the tile.  Values from other regions are compared too: a sum or rotation needs all its operands in one
 * workgroup, whether computed or loaded. */
static dop_reason
compare_columns_to_tile(const tile *t, dop_node_id n, const dop_axis_map *m)
{
    if (m->reach == DOP_REACH_SPAN) /* partial results of this workgroup's own values */
        return t->has->tile[DOP_AXIS_col] >= DOP_TILE_span && (t->has->joins & DOP_JOIN_PARTIAL) &&
                       t->r->info->product.n_mats <= t->has->partials
                   ? DOP_REASON_none
                   : DOP_REASON_reduction_barrier;
    if (dop_axis_map_in_tile(m, DOP_AXIS_col, (dop_tile_span)t->has->tile[DOP_AXIS_col]))
        return DOP_REASON_none;
    return dop_axis_map_is_whole(m) && dop_node_extent(t->g, n) != DOP_EXTENT_head ? DOP_REASON_reduction_barrier
                                                                                   : DOP_REASON_tile_mismatch;
}

static bool
is_region_product(const dop_region *r, dop_node_id id)
{
    return dop_ids_find(r->info->product.mats, r->info->product.n_mats, id) < r->info->product.n_mats;
}

/* A sum over slots joins the only product that it reads.  The product then sums over the slots itself, and results of single
 * slots are not stored. */
static dop_reason
check_slot_sum(const tile *t, dop_node_id n, uint32_t k)
{
    const dop_graph *g = t->g;
    const dop_node_id src = dop_node_at(g, n)->src[k];
    if (t->has->tile[DOP_AXIS_head] != DOP_TILE_whole)
        return DOP_REASON_cross_workgroup;
    if (!is_region_product(t->r, src) || t->r->info->product.n_mats > t->has->partials)
        return DOP_REASON_template_limit;
    return dop_flow_n_readers(t->f, src) == 1 && !t->f->output[src] ? DOP_REASON_none : DOP_REASON_multiple_readers;
}

/* True if the node reads several rows or heads of a source for each of its own. */
static bool
reads_windows(const dop_graph *g, dop_node_id n, uint32_t k)
{
    const dop_axis_map row = dop_node_map(g, n, k, DOP_AXIS_row), head = dop_node_map(g, n, k, DOP_AXIS_head);
    return row.kind == DOP_ACCESS_window || head.kind == DOP_ACCESS_window;
}

/* True if each element of the node reads a whole row of a short value, or of a leaf, from memory.  dop_fuse_check_waits() decides
 * whether the region may wait for values of its own. */
static bool
reads_from_memory(const tile *t, dop_node_id n, uint32_t k)
{
    const dop_node_id src = dop_node_at(t->g, n)->src[k];
    const bool leaf = dop_node_is(t->g, src, DOP_LEAF) && dop_node_is_element(t->g, n);
    return (leaf || dop_node_reads_rows(t->g, n, k)) && dop_node_cols(t->g, src) <= t->rows_of;
}

/* The fusion rule of docs/design.md: returns none if the tile holds what node n reads of its source number k. */
static dop_reason
compare_access(const tile *t, dop_node_id n, uint32_t k, bool made)
{
    const dop_graph *g = t->g;
    const dop_axis_map col = dop_node_map(g, n, k, DOP_AXIS_col), row = dop_node_map(g, n, k, DOP_AXIS_row),
                       part = dop_node_map(g, n, k, DOP_AXIS_part), pos = dop_node_map(g, n, k, DOP_AXIS_pos);
    if (reads_from_memory(t, n, k))
        return DOP_REASON_none;
    const dop_reason why = compare_columns_to_tile(t, n, &col);
    if (why != DOP_REASON_none)
        return why;
    if (!dop_axis_map_in_tile(&part, DOP_AXIS_part, (dop_tile_span)t->has->tile[DOP_AXIS_part]))
        return made ? DOP_REASON_cross_workgroup : DOP_REASON_tile_mismatch;
    if (!made)
        return DOP_REASON_none; /* loaded from memory */
    if (reads_windows(g, n, k)) /* reads rows of other workgroups */
        return DOP_REASON_cross_workgroup;
    const bool one_row = g->max_t == 1 && dop_node_per_token(g, n) && !row.chosen; /* the node reads its own row */
    if (!one_row && !dop_axis_map_in_tile(&row, DOP_AXIS_row, (dop_tile_span)t->has->tile[DOP_AXIS_row]))
        return DOP_REASON_cross_workgroup; /* reads rows of other workgroups */
    if (!dop_axis_map_in_tile(&pos, DOP_AXIS_pos, DOP_TILE_one) ||
        (dop_node_is(g, n, DOP_EFFECT) && dop_node_space(g, n) != dop_node_at(g, n)->src[k]))
        return DOP_REASON_state_order;
    if (col.reach == DOP_REACH_SPAN)
        return DOP_REASON_none;
    if (dop_node_sums_heads(g, n, k))
        return check_slot_sum(t, n, k);
    if (t->has->tile[DOP_AXIS_col] == DOP_TILE_whole) { /* compare_units() compares the units of the whole node */
        dop_node_id src = dop_node_at(g, n)->src[k];
        return dop_node_cols(g, src) == dop_node_cols(g, dop_node_base(g, src, NULL)) ? DOP_REASON_none
                                                                                      : DOP_REASON_tile_mismatch;
    }
    return have_equal_space(g, n, dop_node_at(g, n)->src[k]) ? DOP_REASON_none : DOP_REASON_tile_mismatch;
}

/* Compares units.  In a row program every node iterates over the same unit.  Arithmetic on statistics and weight vectors is
 * exempt, because it is the same for every value.  A grid that is not divided among products has one width for all nodes. */
static dop_reason
compare_units(const tile *t, dop_node_id n)
{
    const dop_graph *g = t->g;
    dop_unit unit = t->r->info->unit, u = dop_node_unit(g, n);
    if (t->has->tile[DOP_AXIS_col] != DOP_TILE_whole && !t->r->info->product.n_mats)
        return dop_node_cols(g, dop_node_space(g, n)) == dop_node_cols(g, t->r->info->root) ? DOP_REASON_none
                                                                                            : DOP_REASON_tile_mismatch;
    if (t->has->tile[DOP_AXIS_col] != DOP_TILE_whole || t->has->lengths || dop_node_at(g, n)->shape.rank == 1 ||
        have_equal_unit(u, unit))
        return DOP_REASON_none;
    if (dop_node_is(g, n, DOP_EFFECT) && t->r->info->scan.root && dop_node_space(g, n) == t->r->info->scan.made[1])
        return DOP_REASON_none; /* each workgroup writes its values to the state's memory, so units may differ */
    if (dop_node_is_element(g, n) && u.len == 1 && u.units == 1)
        return DOP_REASON_none;
    return dop_node_extent(g, n) == DOP_EXTENT_row && unit.units > 1 ? DOP_REASON_reduction_barrier
                                                                     : DOP_REASON_tile_mismatch;
}

/* Finds the sources of consumer c's nodes that the fused workgroup computes: values of p, and values that c computes from them.
 * Returns NULL if out of memory. */
static bool *
find_made(const dop_flow *f, dop_region_id p, const dop_region *c)
{
    const dop_graph *g = f->g;
    bool *made = calloc((size_t)c->n_nodes * (DOP_MAX_SRCS + 1) + 1, sizeof *made);
    if (!made)
        return NULL;
    bool *node = made + (size_t)c->n_nodes * DOP_MAX_SRCS;
    for (uint32_t i = 0; i < c->n_nodes; i++) {
        const dop_node *n = dop_node_at(g, c->nodes[i]);
        for (uint32_t k = 0; k < n->n_srcs; k++) {
            dop_node_id b = dop_node_base(g, n->src[k], NULL);
            uint32_t at = dop_region_find(c, b);
            bool here = at < i ? node[at] : f->owner[b] == p && dop_region_has(&g->regions[p], b);
            made[(size_t)i * DOP_MAX_SRCS + k] = here;
            node[i] = node[i] || here;
        }
    }
    return made;
}

/* True if the consumer, whose kind cannot join here, reduces over values of several workgroups of the producer.  Then no other
 * kernel of it could join either. */
static bool
reduces_across_workgroups(const tile *t, const dop_region *c)
{
    static const dop_axis axes[] = {DOP_AXIS_row, DOP_AXIS_part, DOP_AXIS_col};
    for (uint32_t i = 0; i < c->n_nodes; i++)
        for (uint32_t k = 0; k < dop_node_at(t->g, c->nodes[i])->n_srcs; k++)
            for (size_t x = 0; x < sizeof axes / sizeof *axes; x++) {
                const dop_axis_map m = dop_node_map(t->g, c->nodes[i], k, axes[x]);
                if (t->made[(size_t)i * DOP_MAX_SRCS + k] && dop_axis_map_is_whole(&m) &&
                    !dop_axis_map_in_tile(&m, axes[x], (dop_tile_span)t->has->tile[axes[x]]))
                    return true;
            }
    return false;
}

static dop_reason
compare_region(const tile *t, const dop_region *c)
{
    for (uint32_t i = 0; i < c->n_nodes; i++) {
        dop_reason why = DOP_REASON_none;
        for (uint32_t k = 0; k < dop_node_at(t->g, c->nodes[i])->n_srcs && why == DOP_REASON_none; k++)
            why = compare_access(t, c->nodes[i], k, t->made[(size_t)i * DOP_MAX_SRCS + k]);
        if (why == DOP_REASON_none)
            why = compare_units(t, c->nodes[i]);
        if (why != DOP_REASON_none)
            return why;
    }
    return DOP_REASON_none;
}

/* --- consumers ------------------------------------------------------------------------------------------------------- */

/* Returns the DOP_JOIN_* kind as which the consumer may join another region (templates.def); 0: it may not. */
static uint8_t
find_join_kind(const dop_graph *g, const dop_region *c)
{
    const uint8_t kind = dop_template_of(c->tpl)->kind;
    if (kind == DOP_JOIN_HEADS && c->info->experts.ids) /* expert matrices, which a value chooses */
        return 0;
    return kind == DOP_JOIN_PARTIAL && !dop_node_is(g, c->info->root, DOP_PARTIAL) ? 0 : kind;
}

/* Returns the number of sibling products that the consumer would combine: all products of the segments that it reads. */
static uint32_t
count_sibling_products(const dop_flow *f, dop_region_id producer, const dop_region *c)
{
    const dop_graph *g = f->g;
    const dop_region *p = &g->regions[producer];
    uint32_t n = 0;
    for (uint32_t i = 0; i < p->info->product.n_parts; i++) {
        bool read = false;
        for (uint32_t k = 0; k < c->info->n_reads && !read; k++)
            read = dop_region_part(p, c->info->reads[k]) == i;
        n += read ? p->info->product.parts[i].n_mats : 0;
    }
    return n;
}

/* Checks the merge of partial results.  The workgroup that finishes a KV head last does it, if workgroups can signal each other. */
static dop_reason
check_parts_merge(const dop_pass_ctx *cx, const dop_graph *g, const dop_region *p, const dop_region *c)
{
    const dop_node *merge = dop_node_at(g, c->nodes[0]), *root = dop_node_at(g, p->info->root);
    if (c->n_nodes != 1 || !dop_node_merges(g, c->nodes[0]))
        return DOP_REASON_template_limit;
    if (dop_node_base(g, merge->src[0], NULL) != p->info->root || !cx->target->merges)
        return DOP_REASON_cross_workgroup;
    uint32_t heads = dop_cache_heads(g, root->src[1]);
    return heads > dop_template_of(p->tpl)->merges ? DOP_REASON_capacity : DOP_REASON_none;
}

static bool
reads_node(const dop_region *c, dop_node_id id)
{
    for (uint32_t i = 0; i < c->info->n_reads; i++)
        if (c->info->reads[i] == id)
            return true;
    return false;
}

/* Checks a per-head product, which the workgroup that completes the head computes.  In attention it is the workgroup that has all
 * of the cache or merges the splits; otherwise the one that finishes last, if workgroups can signal each other. */
static dop_reason
check_head_product(const dop_pass_ctx *cx, const dop_flow *f, dop_region_id producer, dop_region_id consumer)
{
    const dop_graph *g = f->g;
    const dop_region *p = &g->regions[producer], *c = &g->regions[consumer];
    const dop_template_info *has = dop_template_of(p->tpl);
    const dop_node *product = dop_node_at(g, c->nodes[0]), *x = dop_node_at(g, product->src[0]);
    uint32_t start;
    const dop_node_id made = dop_node_base(g, product->src[0], &start), matrix = product->src[1];
    if (c->n_nodes != 1 || p->info->tail.id || x->shape.rank != 3 || x->shape.dim[2].mul % 4 || start ||
        dop_node_cols(g, made) != dop_node_cols(g, product->src[0]))
        return DOP_REASON_template_limit;
    if (dop_flow_n_readers(f, made) != 1 || f->output[made])
        return DOP_REASON_multiple_readers;
    const uint32_t heads = x->shape.dim[1].mul;
    if (p->info->attn.root && made != p->info->attn.merged && made != p->info->attn.root)
        return DOP_REASON_template_limit;
    if (!p->info->attn.root && !cx->target->merges)
        return DOP_REASON_cross_workgroup;
    if (!p->info->attn.root && heads > has->merges)
        return DOP_REASON_capacity;
    if ((!has->tail || dop_node_bytes(g, matrix) / heads > cx->target->schedule.tail_bytes) &&
        !dop_fuse_asked(cx, g, producer, consumer))
        return DOP_REASON_cost;
    return DOP_REASON_none;
}

static dop_status
check_consumer(dop_pass_ctx *cx, const dop_flow *f, dop_region_id producer, dop_region_id consumer, dop_reason *out)
{
    const dop_graph *g = f->g;
    const dop_region *p = &g->regions[producer], *c = &g->regions[consumer];
    tile t = {g, f, p, dop_template_of(p->tpl), NULL, dop_fuse_wait_columns(cx, g, p)};
    *out = DOP_REASON_template_limit;
    if (!(t.has->joins & find_join_kind(g, c))) {
        if (dop_node_extent(g, c->info->root) == DOP_EXTENT_all ||
            (find_join_kind(g, c) == DOP_JOIN_PARTIAL && p->info->product.n_mats))
            *out = DOP_REASON_reduction_barrier;
        if (*out == DOP_REASON_reduction_barrier)
            return DOP_OK;
        bool *made = find_made(f, producer, c);
        if (!made)
            return DOP_NO_MEMORY(cx->diag);
        t.made = made;
        if (reduces_across_workgroups(&t, c))
            *out = DOP_REASON_reduction_barrier;
        free(made);
        return DOP_OK;
    }
    if (t.has->tile[DOP_AXIS_col] == DOP_TILE_whole && !p->info->has_unit)
        return DOP_OK;
    if (p->info->tail.id && reads_node(c, p->info->tail.id)) /* per-head products have no epilogue */
        return DOP_OK;
    if (find_join_kind(g, c) == DOP_JOIN_HEADS) {
        *out = check_head_product(cx, f, producer, consumer);
        return DOP_OK;
    }
    if (dop_node_is(g, p->info->root, DOP_PARTIAL)) {
        *out = check_parts_merge(cx, g, p, c);
        return DOP_OK;
    }
    if (dop_node_is(g, p->info->root, DOP_EFFECT)) { /* a region around a state write cannot run code after it */
        *out = DOP_REASON_state_order;
        return DOP_OK;
    }
    dop_status st = DOP_OK;
    bool *made = find_made(f, producer, c);
    if (!made)
        return DOP_NO_MEMORY(cx->diag);
    t.made = made;
    *out = compare_region(&t, c);
    if (*out == DOP_REASON_none && t.rows_of)
        st = dop_fuse_check_waits(cx, f, producer, c, made, out);
    free(made);
    if (st != DOP_OK)
        return st;
    if (*out == DOP_REASON_none && t.has->meets && count_sibling_products(f, producer, c) > t.has->meets)
        *out = DOP_REASON_capacity;
    return DOP_OK;
}

dop_status
dop_fuse_may_epilogue(dop_pass_ctx *cx, const dop_flow *f, dop_region_id producer, dop_region_id consumer,
                      dop_reason *out_reason)
{
    const dop_graph *g = f->g;
    const dop_region *p = &g->regions[producer], *c = &g->regions[consumer];
    *out_reason = DOP_REASON_disabled;
    if (dop_fuse_disabled(cx, g, producer, consumer))
        return DOP_OK;
    dop_status st = check_consumer(cx, f, producer, consumer, out_reason);
    if (st != DOP_OK)
        return st;
    /* Row programs are exempt: they keep values in shared memory or recompute them. */
    if (*out_reason == DOP_REASON_none && dop_template_of(p->tpl)->tile[DOP_AXIS_col] != DOP_TILE_whole) {
        uint32_t registers;
        st = dop_fuse_registers(g, p, c, p->tpl, cx->diag, &registers);
        if (st != DOP_OK)
            return st;
        if (registers > cx->target->registers && !dop_fuse_asked(cx, g, producer, consumer))
            *out_reason = DOP_REASON_registers;
    }
    if (*out_reason == DOP_REASON_none && dop_flow_path_around(f, producer, consumer))
        *out_reason = DOP_REASON_cycle;
    return DOP_OK;
}

/* --- producers of elements ------------------------------------------------------------------------------------------- */

bool
dop_fuse_fits_shared(const dop_target *t, uint32_t len)
{
    return (uint64_t)len * 4 <= (uint64_t)t->shared_bytes / 4 * 3;
}

static bool
has_node_that(const dop_graph *g, const dop_region *r, bool (*is)(const dop_graph *, dop_node_id))
{
    for (uint32_t i = 0; i < r->n_nodes; i++)
        if (is(g, r->nodes[i]))
            return true;
    return false;
}

/* Returns none if source k of node n of region c has a hole for elements.  A producer that merges splits needs a hole for a
 * staged row: tiles have none, and no kernel repeats the merge for every element. */
static dop_reason
compare_hole(const dop_pass_ctx *cx, const dop_graph *g, const dop_region *c, dop_node_id n, uint32_t k, bool merges)
{
    const dop_template_info *t = dop_template_of(c->tpl);
    if (reads_windows(g, n, k)) /* every window tap would recompute it */
        return DOP_REASON_cost;
    if (dop_node_has_holes(g, n) && (!(t->hole[k] & DOP_HOLE_ELEMENTS) || dop_node_merges(g, n)))
        return DOP_REASON_template_limit; /* merged values were stored by several workgroups */
    if (merges && c->info->product.n_mats && (!(t->hole[0] & DOP_HOLE_ROWS) || n == c->info->product.beside))
        return DOP_REASON_template_limit;
    if (merges && is_region_product(c, n) &&
        !dop_fuse_fits_shared(cx->target, dop_node_cols(g, dop_node_at(g, n)->src[k])))
        return DOP_REASON_shared_memory;
    return DOP_REASON_none;
}

/* True if the element-wise node reads a row of a matrix for each column. */
static bool
reads_matrix_rows(const dop_graph *g, dop_node_id n)
{
    bool reads = false;
    for (uint32_t k = 0; k < dop_node_at(g, n)->n_srcs && dop_node_is_element(g, n); k++)
        reads = reads || dop_node_map(g, n, k, DOP_AXIS_row).kind == DOP_ACCESS_col;
    return reads;
}

/* True if the workgroups of the consumer would each read whole matrices of the producer, or one workgroup all of them.  Products
 * compute their staged row in every workgroup. */
static bool
repeats_matrix_reads(const dop_graph *g, const dop_region *p, const dop_region *c)
{
    const bool alone = g->max_t == 1 && c->info->has_unit && c->info->unit.units == 1;
    return (c->info->product.n_mats > 0 || (alone && !dop_fuse_is_element(c))) &&
           has_node_that(g, p, reads_matrix_rows);
}

/* True if the node merges partial results of another dispatch into a single row. */
static bool
merges_to_one_row(const dop_graph *g, dop_node_id n)
{
    const dop_axis_map part = dop_node_map(g, n, 0, DOP_AXIS_part);
    return dop_node_is_element(g, n) && dop_node_rows(g, n, g->max_t) == 1 && dop_axis_map_is_whole(&part);
}

/* True if every row of the consumer would repeat such a merge. */
static bool
repeats_merge(const dop_graph *g, const dop_region *p, const dop_region *c)
{
    return dop_node_rows(g, c->outs[0], g->max_t) > 1 && has_node_that(g, p, merges_to_one_row);
}

static dop_reason
check_prologue(const dop_pass_ctx *cx, const dop_flow *f, dop_region_id producer, dop_region_id consumer)
{
    const dop_graph *g = f->g;
    const dop_region *p = &g->regions[producer], *c = &g->regions[consumer];
    if (!dop_fuse_is_element(p))
        return DOP_REASON_template_limit;
    for (uint32_t i = 0; i < p->n_nodes; i++)
        if (dop_node_is(g, p->nodes[i], DOP_EFFECT))
            return DOP_REASON_state_order;
    if ((repeats_matrix_reads(g, p, c) || repeats_merge(g, p, c) || dop_fuse_makes_rows(cx, f, producer, c)) &&
        !dop_fuse_asked(cx, g, producer, consumer))
        return DOP_REASON_cost;
    bool merges = has_node_that(g, p, dop_node_merges);
    for (uint32_t i = 0; i < c->n_nodes; i++) {
        uint32_t src;
        for (uint32_t k = 0; find_nth_read(f, c->nodes[i], producer, k, &src); k++) {
            dop_reason why = compare_hole(cx, g, c, c->nodes[i], src, merges);
            if (why != DOP_REASON_none)
                return why;
        }
    }
    return DOP_REASON_none;
}

dop_status
dop_fuse_may_prologue(const dop_pass_ctx *cx, const dop_flow *f, dop_region_id producer, dop_region_id consumer,
                      dop_reason *out_reason)
{
    const dop_graph *g = f->g;
    const dop_region *p = &g->regions[producer], *c = &g->regions[consumer];
    *out_reason = DOP_REASON_disabled;
    if (dop_fuse_disabled(cx, g, producer, consumer))
        return DOP_OK;
    *out_reason = check_prologue(cx, f, producer, consumer);
    if (*out_reason == DOP_REASON_none) {
        uint32_t registers;
        dop_status st = dop_fuse_registers(g, p, c, c->tpl, cx->diag, &registers);
        if (st != DOP_OK)
            return st;
        if (registers > cx->target->registers && !dop_fuse_asked(cx, g, producer, consumer))
            *out_reason = DOP_REASON_registers;
    }
    return DOP_OK;
}

/* --- producers of rows and heads: prologues ------------------------------------------------------------------------------ */

/* A row program that may run in the prologue of a consumer. */
typedef struct stage {
    const dop_pass_ctx *cx;
    const dop_flow *f;
    const dop_graph *g;
    const dop_region *p, *c;
    dop_region_id consumer;
    const dop_template_info *has; /* template of the consumer */
    dop_unit unit;                /* unit of the producer */
} stage;

/* Checks a producer of whole rows.  Rows are computed once and staged in shared memory; rows of products have the length of
 * their sums.  A statistic that is needed only after the sums is a scalar next to them. */
static dop_reason
check_row_stage(const stage *s)
{
    const dop_graph *g = s->g;
    const dop_region *p = s->p, *c = s->c;
    const dop_template_info *t = s->has;
    if (s->unit.units != 1 || (!t->lengths && (!c->info->product.n_mats || s->unit.len != c->info->product.depth)))
        return DOP_REASON_tile_mismatch;
    const dop_node_id made = t->lengths ? c->outs[0] : c->info->product.mats[0];
    for (uint32_t i = 0; i < c->n_nodes; i++)
        for (uint32_t k = 0; k < dop_node_at(g, c->nodes[i])->n_srcs; k++)
            if (reads_windows(g, c->nodes[i], k))
                return DOP_REASON_tile_mismatch; /* reads several rows */
    bool scalar = p->n_outs == 1;
    for (uint32_t i = 0; i < p->n_outs; i++) {
        if (dop_node_is(g, p->outs[i], DOP_EFFECT))
            return DOP_REASON_state_order;
        if (c->info->product.beside &&
            dop_node_base(g, dop_node_at(g, c->info->product.beside)->src[0], NULL) == p->outs[i])
            return DOP_REASON_template_limit; /* only one row can be staged */
        /* The prologue computes exactly the rows that the root reads.  It cannot compute all rows if the root reads only the last
         * one. */
        if ((t->lengths || g->max_t > 1) && dop_node_row_multiple(g, p->outs[i]) != dop_node_row_multiple(g, made))
            return DOP_REASON_tile_mismatch;
        scalar = scalar && dop_node_is(g, p->outs[i], DOP_ALONGSIDE) && !dop_region_feeds(g, c, p->outs[i]);
    }
    if (!(t->hole[0] & DOP_HOLE_ROWS)) {
        if (!scalar)
            return DOP_REASON_tile_mismatch;
        if (s->f->output[p->outs[0]] || dop_flow_n_readers(s->f, p->outs[0]) != 1)
            return DOP_REASON_multiple_readers; /* the region would not store it */
        return t->statistics && c->info->product.n_stats + 1 > t->statistics ? DOP_REASON_capacity : DOP_REASON_none;
    }
    if (!scalar && !t->lengths && !dop_fuse_fits_shared(s->cx->target, s->unit.len))
        return DOP_REASON_shared_memory;
    return DOP_REASON_none;
}

/* True if the region is arithmetic on statistics of whole rows, across all heads. */
static bool
is_row_arithmetic(const dop_graph *g, const dop_region *p)
{
    for (uint32_t i = 0; i < p->n_nodes; i++) {
        const dop_node *n = dop_node_at(g, p->nodes[i]);
        if (dop_node_is(g, p->nodes[i], DOP_EFFECT) ||
            (!dop_node_is_element(g, p->nodes[i]) && !dop_node_is(g, p->nodes[i], DOP_STATISTIC)) ||
            (dop_node_is(g, p->nodes[i], DOP_STATISTIC) && dop_node_at(g, n->src[0])->shape.rank > 2))
            return false;
    }
    return p->info->unit.units == 1;
}

static bool
is_member(const dop_program *p, dop_node_id id)
{
    for (uint32_t i = 0; i < p->n_nodes; i++)
        if (p->nodes[i] == id)
            return true;
    return false;
}

/* True if the region computes the node head by head, before the attention. */
static bool
makes_heads(const dop_region *c, dop_node_id id)
{
    bool made = is_member(&c->info->attn.query, id);
    for (uint32_t i = 0; i < c->info->attn.n_writes; i++)
        made = made || is_member(&c->info->attn.writes[i].prog, id);
    return made;
}

/* True if node n belongs to a cache row that attention region c writes.  The cache must have one KV head and rows of at least
 * `len` values.  The program of that row can also iterate over shorter rows and sum them. */
static bool
is_in_longer_row(const dop_graph *g, const dop_region *c, dop_node_id n, uint32_t len)
{
    for (uint32_t w = 0; w < c->info->attn.n_writes; w++) {
        const dop_program *prog = &c->info->attn.writes[w].prog;
        if (prog->unit.units != 1 || dop_node_cols(g, dop_node_space(g, c->info->attn.writes[w].id)) < len)
            continue;
        if (is_member(prog, n))
            return true;
    }
    return false;
}

/* True if the row is shorter than a head, and its statistics, if any, can be accumulated along with the values that are read. */
static bool
is_short_row(const stage *s, uint32_t head)
{
    bool is = s->unit.len < head && s->unit.units == 1;
    for (uint32_t i = 0; i < s->p->n_nodes; i++)
        is = is &&
             (!dop_node_is(s->g, s->p->nodes[i], DOP_STATISTIC) || dop_node_is(s->g, s->p->nodes[i], DOP_ALONGSIDE));
    return is;
}

/* Checks producers of heads.  Producers of Q, K and V heads are recomputed inside the attention or scan kernel.  In single-row
 * steps, their inputs may be recomputed, too.  No other node of the region may read them, because values of the prologue are gone
 * when the epilogue runs. */
static dop_reason
check_head_stage(const stage *s)
{
    const dop_graph *g = s->g;
    const dop_region *p = s->p, *c = s->c;
    const bool all_rows = s->has->tile[DOP_AXIS_row] == DOP_TILE_whole;
    if (!all_rows && g->max_t != 1)
        return DOP_REASON_state_order; /* other workgroups read the rows of this step */
    const dop_unit head = all_rows ? c->info->scan.heads[0].unit : c->info->attn.query.unit;
    const bool shorter = !all_rows && is_short_row(s, head.len);
    /* Each workgroup sums the longer row itself; its heads compute their values from the row and the sum. */
    const bool rows = !all_rows && !shorter && is_row_arithmetic(g, p);
    if (!rows && !shorter && (all_rows ? !have_equal_unit(s->unit, head) : s->unit.len != head.len))
        return DOP_REASON_tile_mismatch;
    for (uint32_t i = 0; i < p->n_outs; i++) {
        bool used = false, elsewhere = (dop_node_is(g, p->outs[i], DOP_EFFECT) && (shorter || all_rows)) ||
                                       (s->f->output[p->outs[i]] && (rows || all_rows));
        for (uint32_t k = 0; k < c->n_nodes; k++)
            for (uint32_t n = 0; n < dop_node_at(g, c->nodes[k])->n_srcs; n++) {
                if (dop_node_base(g, dop_node_at(g, c->nodes[k])->src[n], NULL) != p->outs[i])
                    continue;
                const bool hole = dop_node_has_holes(g, c->nodes[k]) && (s->has->hole[n] & DOP_HOLE_HEADS);
                const bool enters = shorter ? is_in_longer_row(g, c, c->nodes[k], s->unit.len)
                                            : hole || (rows && makes_heads(c, c->nodes[k]));
                used = used || enters;
                elsewhere = elsewhere || !enters;
            }
        if (!used || elsewhere || dop_flow_n_readers(s->f, p->outs[i]) != 1)
            return DOP_REASON_multiple_readers;
    }
    return DOP_REASON_none;
}

/* True if p's output would still have to be stored after p is fused into c. */
static bool
stays_stored(const dop_flow *f, dop_node_id out, dop_region_id c)
{
    if (f->output[out] || dop_node_is(f->g, out, DOP_EFFECT))
        return true;
    for (uint32_t i = 0; i < f->readers[out].n; i++)
        if (f->readers[out].ids[i] != c)
            return true;
    return false;
}

/* Checks a choice of experts.  Every workgroup of a single token's experts repeats the choice from the scores in shared memory,
 * and one of them stores it.  Values gathered by the choice (biases of other products) are not rows of it and cannot be stored
 * there. */
static dop_reason
check_choice_stage(const stage *s)
{
    const dop_graph *g = s->g;
    const dop_region *p = s->p;
    uint64_t values = 0;
    if (!s->c->info->experts.ids || !dop_region_has(p, dop_node_base(g, s->c->info->experts.ids, NULL)) ||
        g->max_t != 1)
        return DOP_REASON_tile_mismatch;
    for (uint32_t i = 0; i < p->n_outs; i++)
        if (dop_node_gathers(g, p->outs[i]) && stays_stored(s->f, p->outs[i], s->consumer))
            return DOP_REASON_multiple_readers;
    for (uint32_t i = 0; i < p->n_nodes; i++) /* shared memory for the row and its source */
        values += 2 * (uint64_t)dop_node_cols(g, p->nodes[i]);
    return values * 4 > s->cx->target->shared_bytes / 8 ? DOP_REASON_shared_memory : DOP_REASON_none;
}

/* The forms in which a program can run in a prologue: the holes for it, the kind of producer that fills them, and further
 * conditions. */
static const struct {
    uint8_t holes, kind; /* holes: DOP_HOLE_*, kind: DOP_JOIN_* */
    dop_reason (*check)(const stage *s);
} forms[] = {
    {DOP_HOLE_ROWS | DOP_HOLE_SCALAR, DOP_JOIN_ROW, check_row_stage},
    {DOP_HOLE_HEADS, DOP_JOIN_ROW, check_head_stage},
    {DOP_HOLE_CHOICE, DOP_JOIN_CHOICE, check_choice_stage},
};

static uint8_t
union_of_holes(const dop_template_info *t)
{
    uint8_t any = 0;
    for (uint32_t k = 0; k < DOP_MAX_SRCS; k++)
        any |= t->hole[k];
    return any;
}

/* True if the op iterates over the row twice: it sums over the row and also gives a value for each column (an unsplit norm,
 * softmax).  Only row programs do this; prologues can compute statistics and rotations. */
static bool
walks_twice(const dop_graph *g, dop_node_id id)
{
    dop_extent x = dop_node_extent(g, id);
    return (x == DOP_EXTENT_row || x == DOP_EXTENT_head) && !dop_node_is(g, id, DOP_STATISTIC) &&
           !dop_node_is_element(g, id);
}

dop_status
dop_fuse_may_stage(dop_pass_ctx *cx, const dop_flow *f, dop_region_id producer, dop_region_id consumer,
                   dop_reason *out_reason)
{
    const dop_graph *g = f->g;
    const dop_region *p = &g->regions[producer], *c = &g->regions[consumer];
    const stage s = {cx, f, g, p, c, consumer, dop_template_of(c->tpl), p->info->unit};
    const uint8_t kind = dop_template_of(p->tpl)->kind;
    *out_reason = DOP_REASON_disabled;
    if (dop_fuse_disabled(cx, g, producer, consumer))
        return DOP_OK;
    *out_reason = DOP_REASON_template_limit;
    if (!dop_fuse_is_program(p) || !p->info->has_unit || !dop_fuse_stages(c) ||
        (kind == DOP_JOIN_ROW && !s.has->lengths && has_node_that(g, p, walks_twice)))
        return DOP_OK;
    if ((repeats_matrix_reads(g, p, c) || repeats_merge(g, p, c)) && !dop_fuse_asked(cx, g, producer, consumer)) {
        *out_reason = DOP_REASON_cost;
        return DOP_OK;
    }
    *out_reason = DOP_REASON_tile_mismatch;
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        if (forms[i].kind == kind && (forms[i].holes & union_of_holes(s.has)))
            *out_reason = forms[i].check(&s);
    if (*out_reason == DOP_REASON_none && dop_flow_path_around(f, producer, consumer))
        *out_reason = DOP_REASON_cycle;
    return DOP_OK;
}

bool
dop_fuse_stages(const dop_region *c)
{
    return (union_of_holes(dop_template_of(c->tpl)) & ~DOP_HOLE_ELEMENTS) != 0;
}

bool
dop_fuse_is_program(const dop_region *p)
{
    return (dop_template_of(p->tpl)->kind & (DOP_JOIN_ROW | DOP_JOIN_CHOICE)) != 0;
}

dop_status
dop_fuse_log(dop_pass_ctx *cx, const dop_graph *g, dop_region_id producer, dop_region_id consumer, const char *pass,
             dop_reason reason, uint32_t dispatches)
{
    const dop_region *p = &g->regions[producer], *c = &g->regions[consumer];
    for (uint32_t i = 0; i < c->n_nodes; i++) {
        const dop_node *n = dop_node_at(g, c->nodes[i]);
        if (dop_region_has(p, c->nodes[i]))
            continue;
        for (uint32_t k = 0; k < n->n_srcs; k++) {
            dop_node_id b = dop_node_base(g, n->src[k], NULL);
            if (!dop_region_has(p, b) ||
                dop_region_has(c, b)) /* values that c computes itself are not an edge between the two */
                continue;
            dop_fusion_event e = {b, c->nodes[i], pass, reason, 2 * dop_node_bytes(g, b), dispatches};
            if (dop_node_is(g, c->nodes[i], DOP_EFFECT) || dop_node_is(g, b, DOP_STATISTIC))
                e.bytes = dop_node_bytes(g, b);
            if (dop_node_is(g, b, DOP_EFFECT))
                e.bytes = 2 * dop_node_bytes(g, dop_node_space(g, b));
            dop_status st = dop_fusion_log_add(cx->log, &e, cx->diag);
            if (st != DOP_OK)
                return st;
            dispatches = 0;
        }
    }
    return DOP_OK;
}
