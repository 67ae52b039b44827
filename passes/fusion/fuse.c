#include "passes/fusion/fuse.h"
#include "ir/graph/dims.h"
#include "ir/graph/ops.h"
#include "ir/graph/unit.h"

#include "ir/graph/access.h"

#include <stdlib.h>

static bool
same_unit(dop_unit a, dop_unit b)
{
    return a.len == b.len && a.units == b.units;
}

/* Does node n read a value that region p makes?  Gives the nth. */
static bool
reads_of(const dop_flow *f, dop_node_id n, dop_region_id p, uint32_t nth, uint32_t *out_src)
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

/* The tile that a consumer may join, and which of the consumer's sources one workgroup would then make: what the producer makes
 * and what the consumer computes from it. */
typedef struct tile {
    const dop_graph *g;
    const dop_flow *f;
    const dop_region *r;
    const dop_template_info *has;
    const bool *made; /* [n_nodes of the consumer][DOP_MAX_SRCS] */
    uint32_t rows_of; /* columns of values of which the consumer's nodes may read whole rows from memory */
} tile;

/* Do two values have the same rows? */
static bool
same_rows(const dop_graph *g, dop_node_id a, dop_node_id b)
{
    const dop_shape *x = &dop_node_at(g, a)->shape, *y = &dop_node_at(g, b)->shape;
    const uint32_t n = dop_shape_row_axes(x);
    if (dop_shape_is_rows(x) && dop_shape_is_rows(y)) /* what is not of the step's rows has one, or those of a state */
        return dop_node_row_multiple(g, a) == dop_node_row_multiple(g, b);
    bool same = n == dop_shape_row_axes(y);
    for (uint32_t i = 0; i < n && same; i++)
        same = x->dim[i].mul == y->dim[i].mul && x->dim[i].sym == y->dim[i].sym;
    return same;
}

/* Do the source and the node have the same index space, so that equal indices mean the same element? */
static bool
same_space(const dop_graph *g, dop_node_id node, dop_node_id src)
{
    dop_node_id value = dop_node_base(g, src, NULL), space = dop_node_space(g, node);
    return dop_node_cols(g, src) == dop_node_cols(g, value) && dop_node_cols(g, space) == dop_node_cols(g, value) &&
           same_rows(g, space, value);
}

/* Columns are compared for values from outside too, because a sum or a rotation needs all its operands in one workgroup, whether they
 * are computed or loaded. */
static dop_reason
columns_missing(const tile *t, dop_node_id n, const dop_axis_map *m)
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
is_product(const dop_region *r, dop_node_id id)
{
    return dop_ids_find(r->info->product.mats, r->info->product.n_mats, id) < r->info->product.n_mats;
}

/* A sum over slots joins the one product that it reads.  The product then sums over the slots too, and the result of a single
 * slot exists nowhere. */
static dop_reason
sum_over_slots(const tile *t, dop_node_id n, uint32_t k)
{
    const dop_graph *g = t->g;
    const dop_node_id src = dop_node_at(g, n)->src[k];
    if (t->has->tile[DOP_AXIS_head] != DOP_TILE_whole)
        return DOP_REASON_cross_workgroup;
    if (!is_product(t->r, src) || t->r->info->product.n_mats > t->has->partials)
        return DOP_REASON_template_limit;
    return dop_flow_n_readers(t->f, src) == 1 && !t->f->output[src] ? DOP_REASON_none : DOP_REASON_multiple_readers;
}

/* Does the node read several rows or heads of a source for each of its own? */
static bool
reads_windows(const dop_graph *g, dop_node_id n, uint32_t k)
{
    const dop_axis_map row = dop_node_map(g, n, k, DOP_AXIS_row), head = dop_node_map(g, n, k, DOP_AXIS_head);
    return row.kind == DOP_ACCESS_window || head.kind == DOP_ACCESS_window;
}

/* Does each element of the node read a whole row of a short value, or of a leaf, from memory?  dop_fuse_check_waits() says whether the region
 * may wait for what it makes itself. */
static bool
reads_from_memory(const tile *t, dop_node_id n, uint32_t k)
{
    const dop_node_id src = dop_node_at(t->g, n)->src[k];
    const bool leaf = dop_node_is(t->g, src, DOP_LEAF) && dop_node_is_element(t->g, n);
    return (leaf || dop_node_reads_rows(t->g, n, k)) && dop_node_cols(t->g, src) <= t->rows_of;
}

/* The rule of docs/design.md: does the tile hold what node n reads of its source number k? */
static dop_reason
compare_access(const tile *t, dop_node_id n, uint32_t k, bool made)
{
    const dop_graph *g = t->g;
    const dop_axis_map col = dop_node_map(g, n, k, DOP_AXIS_col), row = dop_node_map(g, n, k, DOP_AXIS_row),
                       part = dop_node_map(g, n, k, DOP_AXIS_part), pos = dop_node_map(g, n, k, DOP_AXIS_pos);
    if (reads_from_memory(t, n, k))
        return DOP_REASON_none;
    const dop_reason why = columns_missing(t, n, &col);
    if (why != DOP_REASON_none)
        return why;
    if (!dop_axis_map_in_tile(&part, DOP_AXIS_part, (dop_tile_span)t->has->tile[DOP_AXIS_part]))
        return made ? DOP_REASON_cross_workgroup : DOP_REASON_tile_mismatch;
    if (!made)
        return DOP_REASON_none; /* loaded from memory */
    if (reads_windows(g, n, k)) /* rows that other workgroups make */
        return DOP_REASON_cross_workgroup;
    const bool one_row = g->max_t == 1 && dop_node_per_token(g, n) && !row.chosen; /* which is its own */
    if (!one_row && !dop_axis_map_in_tile(&row, DOP_AXIS_row, (dop_tile_span)t->has->tile[DOP_AXIS_row]))
        return DOP_REASON_cross_workgroup; /* rows that other workgroups make */
    if (!dop_axis_map_in_tile(&pos, DOP_AXIS_pos, DOP_TILE_one) ||
        (dop_node_is(g, n, DOP_EFFECT) && dop_node_space(g, n) != dop_node_at(g, n)->src[k]))
        return DOP_REASON_state_order;
    if (col.reach == DOP_REACH_SPAN)
        return DOP_REASON_none;
    if (dop_node_sums_heads(g, n, k))
        return sum_over_slots(t, n, k);
    if (t->has->tile[DOP_AXIS_col] == DOP_TILE_whole) { /* the unit is compared for the node as a whole */
        dop_node_id src = dop_node_at(g, n)->src[k];
        return dop_node_cols(g, src) == dop_node_cols(g, dop_node_base(g, src, NULL)) ? DOP_REASON_none
                                                                                      : DOP_REASON_tile_mismatch;
    }
    return same_space(g, n, dop_node_at(g, n)->src[k]) ? DOP_REASON_none : DOP_REASON_tile_mismatch;
}

/* In a row program every node walks over the same unit.  Arithmetic on statistics and on weight vectors is excepted, because it
 * is the same for every value.  A grid that is not divided among products has one width, which all nodes must have. */
static dop_reason
compare_units(const tile *t, dop_node_id n)
{
    const dop_graph *g = t->g;
    dop_unit unit = t->r->info->unit, u = dop_node_unit(g, n);
    if (t->has->tile[DOP_AXIS_col] != DOP_TILE_whole && !t->r->info->product.n_mats)
        return dop_node_cols(g, dop_node_space(g, n)) == dop_node_cols(g, t->r->info->root) ? DOP_REASON_none
                                                                                            : DOP_REASON_tile_mismatch;
    if (t->has->tile[DOP_AXIS_col] != DOP_TILE_whole || t->has->lengths || dop_node_at(g, n)->shape.rank == 1 ||
        same_unit(u, unit))
        return DOP_REASON_none;
    if (dop_node_is(g, n, DOP_EFFECT) && t->r->info->scan.root && dop_node_space(g, n) == t->r->info->scan.made[1])
        return DOP_REASON_none; /* whichever workgroup has a value writes it to the state's own memory */
    if (dop_node_is_element(g, n) && u.len == 1 && u.units == 1)
        return DOP_REASON_none;
    return dop_node_extent(g, n) == DOP_EXTENT_row && unit.units > 1 ? DOP_REASON_reduction_barrier
                                                                     : DOP_REASON_tile_mismatch;
}

/* Which sources of consumer c's nodes the joined workgroup makes: those that p makes, and what c computes from them. */
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

/* Does the consumer, of a kind that joins nothing here, sum up or choose from what several workgroups of the producer make?
 * Then no other kernel of it could join either. */
static bool
needs_all(const tile *t, const dop_region *c)
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

/* As what the consumer may join another region (templates.def); 0: as nothing. */
static uint8_t
joins_as(const dop_graph *g, const dop_region *c)
{
    const uint8_t kind = dop_template_of(c->tpl)->kind;
    if (kind == DOP_JOIN_HEADS && c->info->experts.ids) /* matrices that are chosen */
        return 0;
    return kind == DOP_JOIN_PARTIAL && !dop_node_is(g, c->info->root, DOP_PARTIAL) ? 0 : kind;
}

/* Products that would meet in the consumer: those of every part that it reads. */
static uint32_t
count_meeting(const dop_flow *f, dop_region_id producer, const dop_region *c)
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

/* The merge of partial results: the last workgroup of a KV head to finish does it, where workgroups may signal each other. */
static dop_reason
join_parts(const dop_pass_ctx *cx, const dop_graph *g, const dop_region *p, const dop_region *c)
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

/* A product of each head with its own matrix, computed by the workgroup that completes the head: a workgroup of attention that
 * has all of its cache or merges its splits, else the last one to make values of it, where workgroups may signal each other. */
static dop_reason
join_heads(const dop_pass_ctx *cx, const dop_flow *f, dop_region_id producer, dop_region_id consumer)
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
    if (!(t.has->joins & joins_as(g, c))) {
        if (dop_node_extent(g, c->info->root) == DOP_EXTENT_all ||
            (joins_as(g, c) == DOP_JOIN_PARTIAL && p->info->product.n_mats))
            *out = DOP_REASON_reduction_barrier;
        if (*out == DOP_REASON_reduction_barrier)
            return DOP_OK;
        bool *made = find_made(f, producer, c);
        if (!made)
            return DOP_NO_MEMORY(cx->diag);
        t.made = made;
        if (needs_all(&t, c))
            *out = DOP_REASON_reduction_barrier;
        free(made);
        return DOP_OK;
    }
    if (t.has->tile[DOP_AXIS_col] == DOP_TILE_whole && !p->info->has_unit)
        return DOP_OK;
    if (p->info->tail.id && reads_node(c, p->info->tail.id)) /* the tail has no epilogue */
        return DOP_OK;
    if (joins_as(g, c) == DOP_JOIN_HEADS) {
        *out = join_heads(cx, f, producer, consumer);
        return DOP_OK;
    }
    if (dop_node_is(g, p->info->root, DOP_PARTIAL)) {
        *out = join_parts(cx, g, p, c);
        return DOP_OK;
    }
    if (dop_node_is(g, p->info->root, DOP_EFFECT)) { /* a region around a write has no place for code after it */
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
    if (*out == DOP_REASON_none && t.has->meets && count_meeting(f, producer, c) > t.has->meets)
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
    /* A row program holds its values in shared memory or computes them again. */
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
any_node(const dop_graph *g, const dop_region *r, bool (*is)(const dop_graph *, dop_node_id))
{
    for (uint32_t i = 0; i < r->n_nodes; i++)
        if (is(g, r->nodes[i]))
            return true;
    return false;
}

/* Is there a hole for elements at source k of node n of region c?  A producer that merges splits needs a hole for a staged row:
 * tiles have none, and no kernel merges them again for every element. */
static dop_reason
compare_hole(const dop_pass_ctx *cx, const dop_graph *g, const dop_region *c, dop_node_id n, uint32_t k, bool merges)
{
    const dop_template_info *t = dop_template_of(c->tpl);
    if (reads_windows(g, n, k)) /* every tap would compute it again */
        return DOP_REASON_cost;
    if (dop_node_has_holes(g, n) && (!(t->hole[k] & DOP_HOLE_ELEMENTS) || dop_node_merges(g, n)))
        return DOP_REASON_template_limit; /* what is merged was stored by several workgroups */
    if (merges && c->info->product.n_mats && (!(t->hole[0] & DOP_HOLE_ROWS) || n == c->info->product.beside))
        return DOP_REASON_template_limit;
    if (merges && is_product(c, n) && !dop_fuse_fits_shared(cx->target, dop_node_cols(g, dop_node_at(g, n)->src[k])))
        return DOP_REASON_shared_memory;
    return DOP_REASON_none;
}

/* Does the node, which is computed element by element, read a row of a matrix for each column? */
static bool
reads_matrix(const dop_graph *g, dop_node_id n)
{
    bool reads = false;
    for (uint32_t k = 0; k < dop_node_at(g, n)->n_srcs && dop_node_is_element(g, n); k++)
        reads = reads || dop_node_map(g, n, k, DOP_AXIS_row).kind == DOP_ACCESS_col;
    return reads;
}

/* Would workgroups of the consumer read whole matrices of the producer again, or one workgroup all of them?  Products compute the row
 * that they stage in every workgroup. */
static bool
reads_again(const dop_graph *g, const dop_region *p, const dop_region *c)
{
    const bool alone = g->max_t == 1 && c->info->has_unit && c->info->unit.units == 1;
    return (c->info->product.n_mats > 0 || (alone && !dop_fuse_is_element(c))) && any_node(g, p, reads_matrix);
}

/* Does the node join what parts of another dispatch have found, without rows of its own? */
static bool
joins_parts(const dop_graph *g, dop_node_id n)
{
    const dop_axis_map part = dop_node_map(g, n, 0, DOP_AXIS_part);
    return dop_node_is_element(g, n) && dop_node_rows(g, n, g->max_t) == 1 && dop_axis_map_is_whole(&part);
}

/* Would every row of the consumer join the same parts again? */
static bool
joins_again(const dop_graph *g, const dop_region *p, const dop_region *c)
{
    return dop_node_rows(g, c->outs[0], g->max_t) > 1 && any_node(g, p, joins_parts);
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
    if ((reads_again(g, p, c) || joins_again(g, p, c) || dop_fuse_makes_rows(cx, f, producer, c)) &&
        !dop_fuse_asked(cx, g, producer, consumer))
        return DOP_REASON_cost;
    bool merges = any_node(g, p, dop_node_merges);
    for (uint32_t i = 0; i < c->n_nodes; i++) {
        uint32_t src;
        for (uint32_t k = 0; reads_of(f, c->nodes[i], producer, k, &src); k++) {
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

/* --- producers of rows and heads ------------------------------------------------------------------------------------- */

/* A row program that may enter the load phase of a consumer. */
typedef struct stage {
    const dop_pass_ctx *cx;
    const dop_flow *f;
    const dop_graph *g;
    const dop_region *p, *c;
    dop_region_id consumer;
    const dop_template_info *has; /* of the consumer */
    dop_unit unit;                /* of the producer */
} stage;

/* Whole rows are computed once and lie in shared memory, those of products having the length of their sums.  A statistic that is
 * wanted only after the sums is a scalar beside them. */
static dop_reason
check_rows(const stage *s)
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
                return DOP_REASON_tile_mismatch; /* not one row */
    bool scalar = p->n_outs == 1;
    for (uint32_t i = 0; i < p->n_outs; i++) {
        if (dop_node_is(g, p->outs[i], DOP_EFFECT))
            return DOP_REASON_state_order;
        if (c->info->product.beside &&
            dop_node_base(g, dop_node_at(g, c->info->product.beside)->src[0], NULL) == p->outs[i])
            return DOP_REASON_template_limit; /* only one row is made */
        /* The load phase makes the rows that the root reads, no others: not all of them for the last one. */
        if ((t->lengths || g->max_t > 1) && dop_node_row_multiple(g, p->outs[i]) != dop_node_row_multiple(g, made))
            return DOP_REASON_tile_mismatch;
        scalar = scalar && dop_node_is(g, p->outs[i], DOP_ALONGSIDE) && !dop_region_feeds(g, c, p->outs[i]);
    }
    if (!(t->hole[0] & DOP_HOLE_ROWS)) {
        if (!scalar)
            return DOP_REASON_tile_mismatch;
        if (s->f->output[p->outs[0]] || dop_flow_n_readers(s->f, p->outs[0]) != 1)
            return DOP_REASON_multiple_readers; /* nothing would store it */
        return t->statistics && c->info->product.n_stats + 1 > t->statistics ? DOP_REASON_capacity : DOP_REASON_none;
    }
    if (!scalar && !t->lengths && !dop_fuse_fits_shared(s->cx->target, s->unit.len))
        return DOP_REASON_shared_memory;
    return DOP_REASON_none;
}

/* Is the region arithmetic on statistics of whole rows, all heads of them? */
static bool
norms_rows(const dop_graph *g, const dop_region *p)
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

/* Is the node one of those that the region computes head by head, before the attention? */
static bool
makes_heads(const dop_region *c, dop_node_id id)
{
    bool made = is_member(&c->info->attn.query, id);
    for (uint32_t i = 0; i < c->info->attn.n_writes; i++)
        made = made || is_member(&c->info->attn.writes[i].prog, id);
    return made;
}

/* Is node n a part of what the region of attention c writes into a cache of one KV head, whose row is at least so long?  Then
 * its program walks over shorter rows too, and sums them up. */
static bool
of_longer_row(const dop_graph *g, const dop_region *c, dop_node_id n, uint32_t len)
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

/* Is the row shorter than a head, and are its statistics, if any, summed up beside what reads them? */
static bool
is_short(const stage *s, uint32_t head)
{
    bool is = s->unit.len < head && s->unit.units == 1;
    for (uint32_t i = 0; i < s->p->n_nodes; i++)
        is = is &&
             (!dop_node_is(s->g, s->p->nodes[i], DOP_STATISTIC) || dop_node_is(s->g, s->p->nodes[i], DOP_ALONGSIDE));
    return is;
}

/* Heads enter through the holes of the root, which computes them for itself; with one row of the step also what the root's
 * heads and cache rows are made of.  Nothing else of the region may read them, because an epilogue runs after the values of the
 * load phase are gone. */
static dop_reason
check_heads(const stage *s)
{
    const dop_graph *g = s->g;
    const dop_region *p = s->p, *c = s->c;
    const bool all_rows = s->has->tile[DOP_AXIS_row] == DOP_TILE_whole;
    if (!all_rows && g->max_t != 1)
        return DOP_REASON_state_order; /* other workgroups read the rows of this step */
    const dop_unit head = all_rows ? c->info->scan.heads[0].unit : c->info->attn.query.unit;
    const bool shorter = !all_rows && is_short(s, head.len);
    /* Each workgroup sums up the longer row for itself; its heads compute their values from the row and the sum. */
    const bool rows = !all_rows && !shorter && norms_rows(g, p);
    if (!rows && !shorter && (all_rows ? !same_unit(s->unit, head) : s->unit.len != head.len))
        return DOP_REASON_tile_mismatch;
    for (uint32_t i = 0; i < p->n_outs; i++) {
        bool used = false, elsewhere = (dop_node_is(g, p->outs[i], DOP_EFFECT) && (shorter || all_rows)) ||
                                       (s->f->output[p->outs[i]] && (rows || all_rows));
        for (uint32_t k = 0; k < c->n_nodes; k++)
            for (uint32_t n = 0; n < dop_node_at(g, c->nodes[k])->n_srcs; n++) {
                if (dop_node_base(g, dop_node_at(g, c->nodes[k])->src[n], NULL) != p->outs[i])
                    continue;
                const bool hole = dop_node_has_holes(g, c->nodes[k]) && (s->has->hole[n] & DOP_HOLE_HEADS);
                const bool enters = shorter ? of_longer_row(g, c, c->nodes[k], s->unit.len)
                                            : hole || (rows && makes_heads(c, c->nodes[k]));
                used = used || enters;
                elsewhere = elsewhere || !enters;
            }
        if (!used || elsewhere || dop_flow_n_readers(s->f, p->outs[i]) != 1)
            return DOP_REASON_multiple_readers;
    }
    return DOP_REASON_none;
}

/* Would p's output still have to be stored after p has joined c? */
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

/* Every workgroup of one token's experts repeats the choice from the scores in shared memory; one of them stores it.  What is
 * gathered by the choice (the biases of other products) is no row of it, and has no place there to be stored. */
static dop_reason
check_choice(const stage *s)
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
    for (uint32_t i = 0; i < p->n_nodes; i++) /* a row and what it was made of */
        values += 2 * (uint64_t)dop_node_cols(g, p->nodes[i]);
    return values * 4 > s->cx->target->shared_bytes / 8 ? DOP_REASON_shared_memory : DOP_REASON_none;
}

/* What enters a load phase as a program of its own, by the holes for it and the producers that fill them; and what each form asks
 * for besides a hole. */
static const struct {
    uint8_t holes, kind; /* DOP_HOLE_*, DOP_JOIN_* */
    dop_reason (*check)(const stage *s);
} forms[] = {
    {DOP_HOLE_ROWS | DOP_HOLE_SCALAR, DOP_JOIN_ROW, check_rows},
    {DOP_HOLE_HEADS, DOP_JOIN_ROW, check_heads},
    {DOP_HOLE_CHOICE, DOP_JOIN_CHOICE, check_choice},
};

static uint8_t
all_holes(const dop_template_info *t)
{
    uint8_t any = 0;
    for (uint32_t k = 0; k < DOP_MAX_SRCS; k++)
        any |= t->hole[k];
    return any;
}

/* Load phases can compute statistics and rotations.  An op that sums over the row and also gives a value for each column (an
 * unsplit norm, softmax) walks over the row twice, which only row programs do. */
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
        (kind == DOP_JOIN_ROW && !s.has->lengths && any_node(g, p, walks_twice)))
        return DOP_OK;
    if ((reads_again(g, p, c) || joins_again(g, p, c)) && !dop_fuse_asked(cx, g, producer, consumer)) {
        *out_reason = DOP_REASON_cost;
        return DOP_OK;
    }
    *out_reason = DOP_REASON_tile_mismatch;
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        if (forms[i].kind == kind && (forms[i].holes & all_holes(s.has)))
            *out_reason = forms[i].check(&s);
    if (*out_reason == DOP_REASON_none && dop_flow_path_around(f, producer, consumer))
        *out_reason = DOP_REASON_cycle;
    return DOP_OK;
}

bool
dop_fuse_stages(const dop_region *c)
{
    return (all_holes(dop_template_of(c->tpl)) & ~DOP_HOLE_ELEMENTS) != 0;
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
            if (!dop_region_has(p, b) || dop_region_has(c, b)) /* what c makes itself is no edge between the two */
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
