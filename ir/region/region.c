#include "ir/region/region.h"
#include "ir/graph/access.h"
#include "ir/graph/unit.h"

#include <stdlib.h>
#include <string.h>

uint64_t
dop_region_digest(const dop_region *r)
{
    uint64_t h = 0xcbf29ce484222325u ^ (uint64_t)r->tpl;
    for (uint32_t i = 0; i < r->n_nodes + r->n_outs; i++)
        h = (h ^ (i < r->n_nodes ? r->nodes[i] : r->outs[i - r->n_nodes] + (1ull << 32))) * 0x100000001b3u;
    return h;
}

/* --- the walk: nodes are addressed by their position in the region's list, and sources are looked up only once ---------- */

typedef struct walk {
    const dop_graph *g;
    const dop_region *r;
    dop_analysis *a;
    int32_t *src;   /* [n_nodes][DOP_MAX_SRCS] position of the source's base node; -1: outside the region */
    uint32_t *set;  /* [n_nodes] union-find over sibling products: position of the parent, or the node's own */
    uint32_t *part; /* [n_nodes] number of the set's segment, at the representative of each set */
    bool *behind;   /* [n_nodes] the node is computed from a product */
    bool *mark;     /* [n_nodes] scratch */
    bool *out;      /* [n_nodes] the node is an output of the region */
    bool *chooses;  /* [n_nodes] the node belongs to the choice of experts, which runs before the products */
    bool *feeds;    /* [n_nodes] dop_product_facts.feeds */
} walk;

static int32_t
find_in_region(const dop_region *r, dop_node_id id)
{
    uint32_t at = dop_region_find(r, id);
    return at < r->n_nodes ? (int32_t)at : -1;
}

static int32_t
walk_source(const walk *w, uint32_t i, uint32_t k)
{
    return w->src[(size_t)i * DOP_MAX_SRCS + k];
}

static const dop_node *
walk_node(const walk *w, uint32_t i)
{
    return dop_node_at(w->g, w->r->nodes[i]);
}

static dop_root
walk_root(const walk *w, uint32_t i)
{
    return dop_node_root(w->g, w->r->nodes[i]);
}

/* True if the node is a product of a segment: not the per-head product, and not `beside`. */
static bool
is_segment_product(const walk *w, uint32_t i)
{
    return walk_root(w, i) == DOP_ROOT_product && w->r->nodes[i] != w->a->tail.id &&
           w->r->nodes[i] != w->a->product.beside;
}

/* True if some node of the region is computed from both a and b. */
static bool
find_common_reader(walk *w, dop_node_id a, dop_node_id b)
{
    bool both = false;
    for (uint32_t i = 0; i < w->r->n_nodes && !both; i++) {
        w->mark[i] = w->r->nodes[i] == a;
        w->behind[i] = w->r->nodes[i] == b;
        for (uint32_t k = 0; k < walk_node(w, i)->n_srcs; k++) {
            const int32_t s = walk_source(w, i, k);
            w->mark[i] = w->mark[i] || (s >= 0 && w->mark[s]);
            w->behind[i] = w->behind[i] || (s >= 0 && w->behind[s]);
        }
        both = w->mark[i] && w->behind[i];
    }
    return both;
}

/* Finds dop_product_facts.beside: a product with another activation than the region's first product (or first expert product), if
 * some node is computed from both products. */
static void
find_beside(walk *w)
{
    dop_node_id first = 0;
    for (uint32_t i = 0; i < w->r->n_nodes; i++)
        if (is_segment_product(w, i) &&
            (!first || (dop_node_has_experts(w->g, w->r->nodes[i]) && !dop_node_has_experts(w->g, first))))
            first = w->r->nodes[i];
    for (uint32_t i = 0; i < w->r->n_nodes; i++)
        if (is_segment_product(w, i) &&
            dop_node_base(w->g, walk_node(w, i)->src[0], NULL) !=
                dop_node_base(w->g, dop_node_at(w->g, first)->src[0], NULL) &&
            find_common_reader(w, first, w->r->nodes[i]))
            w->a->product.beside = w->r->nodes[i];
}

/* Finds the sources inside the region.  A source that follows its reader is an error that the verifier reports; here it counts as
 * outside.  So do values of products that another segment waits for. */
static void
find_sources(walk *w)
{
    const bool products = w->r->tpl == DOP_TPL_gemv || w->r->tpl == DOP_TPL_matmul;
    for (uint32_t i = 0; i < w->r->n_nodes; i++) {
        w->behind[i] = walk_root(w, i) == DOP_ROOT_product;
        for (uint32_t k = 0; k < walk_node(w, i)->n_srcs; k++) {
            int32_t at = find_in_region(w->r, dop_node_base(w->g, walk_node(w, i)->src[k], NULL));
            const bool inside = at >= 0 && at < (int32_t)i, made = inside && w->behind[at];
            const bool waits = products && made && dop_node_reads_rows(w->g, w->r->nodes[i], k);
            w->src[(size_t)i * DOP_MAX_SRCS + k] = inside && !waits ? at : -1;
            w->behind[i] = w->behind[i] || (made && !waits);
        }
    }
    memset(w->behind, 0, w->r->n_nodes * sizeof *w->behind);
    for (uint32_t i = 0; i < w->r->n_outs; i++) {
        int32_t at = find_in_region(w->r, w->r->outs[i]);
        if (at >= 0)
            w->out[at] = true;
    }
}

/* Finds the per-head product (dop_tail_facts): its source is computed by another product or by an attention of the region. */
static void
find_head_product(walk *w)
{
    for (uint32_t i = 0; i < w->r->n_nodes && !w->a->tail.id; i++) {
        const bool product = walk_root(w, i) == DOP_ROOT_product;
        const int32_t of = walk_source(w, i, 0);
        if (product && of >= 0 && w->behind[of]) {
            w->a->tail.id = w->r->nodes[i];
            w->a->tail.of = w->r->nodes[of];
        }
        w->behind[i] = product || walk_root(w, i) == DOP_ROOT_attention;
        for (uint32_t k = 0; k < walk_node(w, i)->n_srcs; k++)
            w->behind[i] = w->behind[i] || (walk_source(w, i, k) >= 0 && w->behind[walk_source(w, i, k)]);
    }
    memset(w->behind, 0, w->r->n_nodes * sizeof *w->behind);
}

/* Marks all nodes that the marked nodes are computed from. */
static void
mark_sources(walk *w)
{
    for (uint32_t i = w->r->n_nodes; i-- > 0;)
        for (uint32_t k = 0; w->mark[i] && k < walk_node(w, i)->n_srcs; k++)
            if (walk_source(w, i, k) >= 0)
                w->mark[walk_source(w, i, k)] = true;
}

static uint32_t
list_marked(const walk *w, dop_node_id *out)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < w->r->n_nodes; i++)
        if (w->mark[i])
            out[n++] = w->r->nodes[i];
    return n;
}

/* Lists the nodes of the region that `id` is computed from, `id` included. */
static uint32_t
list_cone(walk *w, dop_node_id id, dop_node_id *out)
{
    int32_t at = find_in_region(w->r, dop_node_base(w->g, id, NULL));
    if (at < 0)
        return 0;
    memset(w->mark, 0, w->r->n_nodes * sizeof *w->mark);
    w->mark[at] = true;
    mark_sources(w);
    return list_marked(w, out);
}

static int
compare_read_ids(const void *a, const void *b)
{
    dop_node_id x = *(const dop_node_id *)a, y = *(const dop_node_id *)b;
    return x < y ? -1 : x > y;
}

/* Lists the values that the region reads from memory in `ids`, which has space for one id per source of every node. */
static void
find_reads(walk *w, dop_node_id *ids)
{
    uint32_t n = 0, kept = 0;
    for (uint32_t i = 0; i < w->r->n_nodes; i++)
        for (uint32_t k = 0; k < walk_node(w, i)->n_srcs; k++) {
            dop_node_id b = dop_node_base(w->g, walk_node(w, i)->src[k], NULL);
            if (find_in_region(w->r, b) < 0)
                ids[n++] = b;
        }
    qsort(ids, n, sizeof *ids, compare_read_ids);
    for (uint32_t i = 0; i < n; i++)
        if (kept == 0 || ids[kept - 1] != ids[i])
            ids[kept++] = ids[i];
    w->a->n_reads = kept;
    w->a->reads = ids;
}

/* --- width ----------------------------------------------------------------------------------------------------------- */

typedef enum width { NARROW, WIDE, IF_SOURCES_ARE } width;

/* Returns the width that follows from the value's own shape.  IF_SOURCES_ARE: wide if its sources are. */
static width
find_own_width(const dop_graph *g, dop_node_id base, uint32_t start)
{
    const dop_node *n = dop_node_at(g, base);
    uint32_t cols = dop_node_cols(g, base), last = n->shape.dim[n->shape.rank - 1].mul;
    if (n->op == DOP_OP_input || cols == 1 || (n->shape.rank > 1 && last == 1))
        return WIDE;
    return cols % 4 != 0 || last % 4 != 0 || start % 4 != 0 ? NARROW : IF_SOURCES_ARE;
}

static bool
is_wide_at(const dop_graph *g, dop_node_id id, const dop_region *r, const bool *wide)
{
    uint32_t start = 0;
    dop_node_id base = dop_node_base(g, id, &start);
    const dop_shape *seen = &dop_node_at(g, id)->shape;
    if (seen->rank > 2 && seen->dim[seen->rank - 1].mul ==
                              1) /* one value per head is broadcast, so the width of its base does not matter */
        return true;
    width own = find_own_width(g, base, start);
    if (own != IF_SOURCES_ARE)
        return own == WIDE;
    int32_t at = find_in_region(r, base);
    return at < 0 || wide[at];
}

bool
dop_region_wide(const dop_graph *g, const dop_region *r, dop_node_id id)
{
    return is_wide_at(g, id, r, r->info->wide);
}

static void
find_widths(walk *w, bool *wide)
{
    for (uint32_t i = 0; i < w->r->n_nodes; i++) {
        const dop_node *n = walk_node(w, i);
        wide[i] = n->op != DOP_OP_rope || dop_node_i(w->g, w->r->nodes[i], DOP_A_dims) % 8 == 0;
        if (walk_root(w, i) == DOP_ROOT_product || walk_root(w, i) == DOP_ROOT_attention ||
            walk_root(w, i) == DOP_ROOT_scan)
            continue; /* computed by the template */
        for (uint32_t k = 0; k < n->n_srcs; k++) {
            const dop_axis_map col = dop_node_map(w->g, w->r->nodes[i], k, DOP_AXIS_col);
            wide[i] = wide[i] && (dop_axis_map_is_absent(&col) || is_wide_at(w->g, n->src[k], w->r, wide));
        }
    }
    w->a->wide = wide;
}

/* --- products ------------------------------------------------------------------------------------------------------- */

static uint32_t
find_set(walk *w, uint32_t i)
{
    while (w->set[i] != i)
        i = w->set[i] = w->set[w->set[i]];
    return i;
}

/* Joins the sets of two products.  The smaller position represents the joined set. */
static void
join_product_sets(walk *w, uint32_t a, uint32_t b)
{
    a = find_set(w, a);
    b = find_set(w, b);
    w->set[a > b ? a : b] = a > b ? b : a;
}

/* Joins the sets of all products that a node is computed from. */
static void
join_product_readers(walk *w)
{
    for (uint32_t i = 0; i < w->r->n_nodes; i++) {
        w->set[i] = i;
        w->behind[i] = is_segment_product(w, i);
        for (uint32_t k = 0; walk_root(w, i) != DOP_ROOT_product && k < walk_node(w, i)->n_srcs; k++) {
            int32_t s = walk_source(w, i, k);
            if (s < 0 || !w->behind[s])
                continue;
            join_product_sets(w, i, (uint32_t)s);
            w->behind[i] = true;
        }
    }
}

/* Returns the index of the activation that product `id` reads, and adds it if it is new; DOP_MAX_ACTS: too many activations. */
static uint32_t
number_activation(walk *w, dop_node_id id)
{
    dop_product_facts *a = &w->a->product;
    const dop_node_id act = dop_node_at(w->g, id)->src[0];
    for (uint32_t i = 0; i < a->n_activations; i++)
        if (dop_node_base(w->g, a->activations[i], NULL) == dop_node_base(w->g, act, NULL))
            return i;
    if (a->n_activations == DOP_MAX_ACTS)
        return DOP_MAX_ACTS;
    a->activations[a->n_activations++] = act;
    return a->n_activations - 1;
}

/* Adds a node computed from products to their segment.  Called twice per node: to size the segment's lists, then to fill them. */
static void
add_to_part(walk *w, uint32_t i, bool fill)
{
    dop_segment *p = &w->a->product.parts[w->part[find_set(w, i)]];
    dop_node_id id = w->r->nodes[i];
    if (is_segment_product(w, i)) {
        const bool alike = dop_product_cols(w->g, id) == p->rows &&
                           dop_product_depth(w->g, id) == w->a->product.depth && number_activation(w, id) == p->act;
        p->rows = alike && p->act < DOP_MAX_ACTS ? p->rows : 0;
        if (fill)
            p->mats[p->n_mats] = id;
        p->n_mats++;
    }
    if (dop_node_is(w->g, id, DOP_PARTIAL) && (!p->argmax || p->argmax == id)) {
        p->argmax = id;
    } else if (w->out[i]) {
        if (fill)
            p->outs[p->n_outs] = id;
        p->n_outs++;
    }
}

/* Fills the lists of the segments, which are stored one after the other in `mats` and `outs`. */
static void
list_parts(walk *w, dop_segment *parts, dop_node_id *mats, dop_node_id *outs)
{
    dop_product_facts *a = &w->a->product;
    a->parts = parts;
    a->most_mats = 1;
    for (uint32_t i = 0; i < w->r->n_nodes; i++)
        if (is_segment_product(w, i) && find_set(w, i) == i) {
            w->part[i] = a->n_parts;
            parts[a->n_parts++] = (dop_segment){.rows = dop_product_cols(w->g, w->r->nodes[i]),
                                                .act = number_activation(w, w->r->nodes[i])};
        }
    for (uint32_t i = 0; i < w->r->n_nodes; i++)
        if (w->behind[i])
            add_to_part(w, i, false);
    for (uint32_t i = 0; i < a->n_parts; i++) {
        dop_segment *p = &parts[i];
        p->mats = mats;
        p->outs = outs;
        mats += p->n_mats;
        outs += p->n_outs;
        a->most_mats = p->n_mats > a->most_mats ? p->n_mats : a->most_mats;
        p->n_mats = p->n_outs = 0;
    }
    for (uint32_t i = 0; i < w->r->n_nodes; i++)
        if (w->behind[i])
            add_to_part(w, i, true);
}

/* True if the node must be computed for the whole row before the products start.  This holds for stored values, for statistics
 * and merges that the activation depends on, and for statistics that cannot be accumulated along with the products. */
static bool
needs_staging(const walk *w, uint32_t i, bool feeds)
{
    dop_node_id id = w->r->nodes[i];
    bool stat = dop_node_is(w->g, id, DOP_STATISTIC);
    return w->out[i] || (feeds && (stat || dop_node_merges(w->g, id))) ||
           (stat &&
            (!dop_node_is(w->g, id, DOP_ALONGSIDE) || !is_wide_at(w->g, walk_node(w, i)->src[0], w->r, w->a->wide)));
}

/* True if the node, which depends on a choice of experts, still has one value per chosen expert.  A bias or sum that the choice
 * selects does not. */
static bool
is_choice_row(const walk *w, uint32_t i)
{
    const uint32_t cols = dop_node_cols(w->g, w->r->nodes[i]);
    bool sums = false;
    for (uint32_t k = 0; k < walk_node(w, i)->n_srcs; k++)
        sums = sums || dop_node_sums_heads(w->g, w->r->nodes[i], k);
    return !w->behind[i] && !sums && !dop_node_gathers(w->g, w->r->nodes[i]) &&
           (cols == 1 || cols == w->a->experts.slots);
}

/* Collects the nodes that a choice of experts depends on and those that depend on it, up to the products. */
static void
describe_experts(walk *w, dop_node_id *ids)
{
    dop_analysis *a = w->a;
    const uint32_t n = w->r->n_nodes;
    const dop_node *first = dop_node_at(w->g, a->product.mats[0]);
    a->experts.slots = dop_product_slots(w->g, a->product.mats[0]);
    if (!dop_node_has_experts(w->g, a->product.mats[0]))
        return;
    a->experts.ids = first->n_srcs > 2 ? first->src[2] : 0;
    a->experts.blocks = first->n_srcs > 3 ? first->src[3] : 0;
    memset(w->mark, 0, n * sizeof *w->mark);
    for (uint32_t i = 0; i < n; i++) {
        w->mark[i] = walk_root(w, i) == DOP_ROOT_choice;
        for (uint32_t k = 0; k < walk_node(w, i)->n_srcs; k++) {
            const int32_t s = walk_source(w, i, k);
            w->mark[i] = w->mark[i] || (s >= 0 && w->mark[s] && is_choice_row(w, i));
            if (s >= 0 && is_segment_product(w, (uint32_t)s) && dop_node_sums_heads(w->g, w->r->nodes[i], k))
                a->experts.sum = w->r->nodes[i];
        }
    }
    mark_sources(w);
    memcpy(w->chooses, w->mark, n * sizeof *w->mark);
    a->experts.choice = (dop_program){.unit = {first->shape.dim[1].mul, 1}, .nodes = ids};
    a->experts.choice.n_nodes = list_marked(w, a->experts.choice.nodes);
}

/* Lists the values that other segments wait for. */
static void
find_awaited(walk *w, dop_node_id *ids)
{
    dop_product_facts *a = &w->a->product;
    a->awaited = ids;
    for (uint32_t at = 0; at < w->r->n_nodes; at++) {
        bool awaited = false;
        for (uint32_t i = at + 1; w->behind[at] && i < w->r->n_nodes && !awaited; i++)
            for (uint32_t k = 0; k < walk_node(w, i)->n_srcs; k++)
                awaited = awaited || (walk_source(w, i, k) < 0 && dop_node_reads_rows(w->g, w->r->nodes[i], k) &&
                                      dop_node_base(w->g, walk_node(w, i)->src[k], NULL) == w->r->nodes[at]);
        if (awaited)
            a->awaited[a->n_awaited++] = w->r->nodes[at];
    }
}

static void
describe_products(walk *w, dop_node_id *ids, dop_segment *parts)
{
    dop_product_facts *a = &w->a->product;
    const dop_region *r = w->r;
    uint32_t n = r->n_nodes;
    dop_node_id *mats = ids + n, *outs = ids + 2 * n;
    a->mats = ids;
    a->stats = ids + 3 * n;
    a->prog.nodes = ids + 4 * n;
    a->feeds = w->feeds;
    find_beside(w);
    for (uint32_t i = 0; i < n; i++)
        if (is_segment_product(w, i))
            a->mats[a->n_mats++] = r->nodes[i];
    if (a->n_mats == 0)
        return;
    a->act = dop_node_at(w->g, a->mats[0])->src[0];
    a->depth = dop_product_depth(w->g, a->mats[0]);
    a->prog.unit = (dop_unit){a->depth, 1};
    join_product_readers(w);
    list_parts(w, parts, mats, outs);
    find_awaited(w, ids + 7 * n);
    describe_experts(w, ids + 6 * n);
    memset(w->mark, 0, n * sizeof *w->mark);
    for (uint32_t i = 0; i < a->n_activations; i++) {
        const int32_t act = find_in_region(r, dop_node_base(w->g, a->activations[i], NULL));
        if (act >= 0)
            w->mark[act] = true;
    }
    mark_sources(w);
    memcpy(w->feeds, w->mark, n * sizeof *w->mark);
    for (uint32_t i = 0; i < n; i++) {
        if (w->behind[i] || w->chooses[i] || w->r->nodes[i] == w->a->tail.id)
            continue;
        a->staged = a->staged || needs_staging(w, i, w->mark[i]);
        if (dop_node_is(w->g, r->nodes[i], DOP_STATISTIC))
            a->stats[a->n_stats++] = r->nodes[i];
    }
    for (uint32_t i = 0; i < n; i++)
        if (!w->behind[i] && !w->chooses[i] && w->r->nodes[i] != w->a->tail.id &&
            (w->out[i] || dop_node_is(w->g, r->nodes[i], DOP_STATISTIC)))
            w->mark[i] = true;
    mark_sources(w);
    a->prog.n_nodes = list_marked(w, a->prog.nodes);
    uint32_t *part_of = ids + 5 * n;
    for (uint32_t i = 0; i < n; i++)
        part_of[i] = w->behind[i] ? w->part[find_set(w, i)] : a->n_parts;
    a->part_of = part_of;
}

/* --- row programs ---------------------------------------------------------------------------------------------------- */

static bool
fits_program_unit(dop_unit u, dop_unit program)
{
    return (u.len == program.len && u.units == program.units) || (u.len == 1 && u.units == 1);
}

/* Divides the nodes of a row region into row programs.  Nodes of one unit share a program, and arithmetic on a statistic (unit 1
 * x 1) belongs to the first program.  Each program has its own part of the grid.  The loop is quadratic, but units are few. */
static void
describe_rows(walk *w, dop_node_id *ids, dop_program *programs)
{
    dop_analysis *a = w->a;
    const dop_region *r = w->r;
    uint32_t used = 0;
    memset(w->mark, 0, r->n_nodes * sizeof *w->mark);
    a->row.programs = programs;
    for (uint32_t i = 0; i < r->n_nodes; i++) {
        if (w->mark[i] || walk_node(w, i)->shape.rank == 1)
            continue;
        dop_program *p = &programs[a->row.n_programs++];
        *p = (dop_program){.unit = dop_node_unit(w->g, r->nodes[i]), .nodes = ids + used};
        for (uint32_t k = i; k < r->n_nodes; k++) {
            if (w->mark[k] || walk_node(w, k)->shape.rank == 1 ||
                !fits_program_unit(dop_node_unit(w->g, r->nodes[k]), p->unit))
                continue;
            w->mark[k] = true;
            p->nodes[p->n_nodes++] = r->nodes[k];
        }
        used += p->n_nodes;
    }
}

/* --- attention ------------------------------------------------------------------------------------------------------- */

/* True if the node is a statistic over a whole row, not over each head of it. */
static bool
is_whole_row_statistic(const dop_graph *g, dop_node_id id)
{
    return dop_node_is(g, id, DOP_STATISTIC) && dop_node_at(g, dop_node_at(g, id)->src[0])->shape.rank < 3;
}

static void
describe_whole_rows(walk *w, dop_node_id *ids, dop_program *programs)
{
    dop_analysis *a = w->a;
    const dop_region *r = w->r;
    a->attn.whole = programs;
    for (uint32_t i = 0; i < r->n_nodes; i++) {
        const dop_unit unit = dop_node_unit(w->g, r->nodes[i]);
        bool known = !is_whole_row_statistic(w->g, r->nodes[i]);
        for (uint32_t k = 0; k < a->attn.n_whole; k++)
            known = known || programs[k].unit.len == unit.len;
        if (known)
            continue;
        for (uint32_t k = 0; k < r->n_nodes; k++)
            w->mark[k] = is_whole_row_statistic(w->g, r->nodes[k]) && dop_node_unit(w->g, r->nodes[k]).len == unit.len;
        mark_sources(w);
        programs[a->attn.n_whole] = (dop_program){.unit = unit, .nodes = ids};
        programs[a->attn.n_whole].n_nodes = list_marked(w, ids);
        ids += programs[a->attn.n_whole++].n_nodes;
    }
}

/* Returns the row program over heads that computes `id`, without the statistics of whole rows, which run before it. */
static dop_program
list_head_program(walk *w, dop_node_id id, dop_unit unit, dop_node_id *ids)
{
    dop_program p = {.unit = unit, .nodes = ids};
    const uint32_t n = list_cone(w, id, ids);
    for (uint32_t i = 0; i < n; i++)
        if (!is_whole_row_statistic(w->g, ids[i]))
            ids[p.n_nodes++] = ids[i];
    return p;
}

/* True if a row program must compute the queries head by head.  This holds for statistics of a head.  It also holds for rotations
 * of values that the region computes, because a rotation reads each value twice; concat computes values where they are read. */
static bool
needs_query_program(const walk *w, const dop_program *p)
{
    for (uint32_t i = 0; i < p->n_nodes; i++) {
        const int32_t at = find_in_region(w->r, p->nodes[i]);
        if (dop_node_is(w->g, p->nodes[i], DOP_STATISTIC) ||
            (dop_node_extent(w->g, p->nodes[i]) == DOP_EXTENT_few && !dop_node_is_element(w->g, p->nodes[i]) &&
             walk_source(w, (uint32_t)at, 0) >= 0))
            return true;
    }
    return false;
}

static void
describe_attention(walk *w, dop_node_id *ids, dop_program *programs)
{
    dop_analysis *a = w->a;
    const dop_region *r = w->r;
    uint32_t n = r->n_nodes;
    for (uint32_t i = 0; i < n; i++) {
        if (walk_root(w, i) == DOP_ROOT_attention)
            a->attn.root = r->nodes[i];
        if (dop_node_merges(w->g, r->nodes[i]))
            a->attn.merged = r->nodes[i];
    }
    if (!a->attn.root)
        return;
    const dop_node *at = dop_node_at(w->g, a->attn.root);
    const dop_shape *q = &dop_node_at(w->g, at->src[0])->shape, *k = &dop_node_at(w->g, at->src[1])->shape;
    a->attn.query = list_head_program(w, at->src[0], (dop_unit){q->dim[2].mul, q->dim[1].mul}, ids);
    a->attn.query_runs = needs_query_program(w, &a->attn.query);
    for (uint32_t s = 1; s <= DOP_MAX_WRITES; s++) {
        dop_node_id id = dop_node_base(w->g, at->src[s], NULL);
        if (!dop_node_is(w->g, id, DOP_EFFECT) || find_in_region(r, id) < 0)
            continue;
        a->attn.writes[a->attn.n_writes].prog =
            list_head_program(w, id, (dop_unit){q->dim[2].mul, k->dim[1].mul}, ids + s * n);
        a->attn.writes[a->attn.n_writes].again = a->attn.n_writes && a->attn.writes[0].id == id;
        a->attn.writes[a->attn.n_writes].id = id;
        a->attn.writes[a->attn.n_writes++].which = s - 1;
    }
    describe_whole_rows(w, ids + 4 * n, programs);
    a->attn.after = ids + 3 * n;
    for (uint32_t i = 0; i < n; i++) {
        w->behind[i] = r->nodes[i] == a->attn.root;
        for (uint32_t s = 0; s < walk_node(w, i)->n_srcs; s++)
            w->behind[i] = w->behind[i] || (walk_source(w, i, s) >= 0 && w->behind[walk_source(w, i, s)]);
        if (w->behind[i] && w->out[i] && r->nodes[i] != a->attn.merged && r->nodes[i] != a->tail.id)
            a->attn.after[a->attn.n_after++] = r->nodes[i];
    }
}

/* --- recurrences ----------------------------------------------------------------------------------------------------- */

static void
describe_scan(walk *w, dop_node_id *ids)
{
    dop_analysis *a = w->a;
    const dop_region *r = w->r;
    uint32_t n = r->n_nodes;
    for (uint32_t i = 0; i < n; i++)
        if (walk_root(w, i) == DOP_ROOT_scan) {
            a->scan.root = r->nodes[i];
            a->scan.made[!dop_node_per_token(w->g, a->scan.root)] = a->scan.root;
        }
    if (!a->scan.root)
        return;
    const dop_node *scan = dop_node_at(w->g, a->scan.root);
    const dop_shape *q = &dop_node_at(w->g, scan->src[0])->shape, *v = &dop_node_at(w->g, scan->src[2])->shape;
    for (uint32_t s = 0; s < 2; s++) {
        a->scan.heads[s] = (dop_program){.unit = {q->dim[2].mul, q->dim[1].mul}, .nodes = ids + s * n};
        a->scan.heads[s].n_nodes = list_cone(w, scan->src[s], a->scan.heads[s].nodes);
    }
    a->has_unit = true;
    a->unit = (dop_unit){v->dim[2].mul, v->dim[1].mul};
    a->scan.behind = (dop_program){.unit = a->unit, .nodes = ids + 2 * n};
    for (uint32_t i = 0; i < n; i++) {
        bool saves = dop_node_is(w->g, r->nodes[i], DOP_EFFECT);
        w->behind[i] = r->nodes[i] == a->scan.made[0];
        for (uint32_t s = 0; s < walk_node(w, i)->n_srcs; s++)
            w->behind[i] = w->behind[i] || (walk_source(w, i, s) >= 0 && w->behind[walk_source(w, i, s)]);
        if (saves && dop_node_base(w->g, walk_node(w, i)->src[1], NULL) == a->scan.made[1] && a->scan.made[1])
            a->scan.saved = r->nodes[i];
        else if (w->behind[i])
            a->scan.behind.nodes[a->scan.behind.n_nodes++] = r->nodes[i];
    }
}

/* --- entry points ------------------------------------------------------------------------------------------------------ */

static void
find_root(walk *w)
{
    dop_analysis *a = w->a;
    dop_extent most = DOP_EXTENT_none;
    a->root = w->r->n_nodes ? w->r->nodes[0] : 0;
    for (uint32_t i = 0; i < w->r->n_nodes; i++) {
        dop_node_id id = w->r->nodes[i];
        dop_extent x = dop_node_extent(w->g, id);
        if (x > most) {
            most = x;
            a->root = id;
        }
        bool walks = x == DOP_EXTENT_row || x == DOP_EXTENT_head || x == DOP_EXTENT_few;
        if (!a->has_unit && walks && walk_root(w, i) != DOP_ROOT_element) {
            a->has_unit = true;
            a->unit = dop_node_unit(w->g, id);
        }
    }
}

/* Number of id lists in an analysis, n_nodes ids each, without the reads; describe_products() needs the most. */
enum { LISTS = 8 };

/* Returns an empty analysis of the region.  Reuses the memory of the previous analysis if it is large enough. */
static dop_analysis *
make_analysis(dop_graph *g, const dop_region *r)
{
    dop_analysis *a = r->info;
    size_t each = sizeof(dop_segment) > sizeof(dop_program) ? sizeof(dop_segment) : sizeof(dop_program);
    if (a && a->capacity >= r->n_nodes) {
        *a = (dop_analysis){.capacity = a->capacity, .memory = a->memory};
        return a;
    }
    uint32_t capacity = r->n_nodes > 4 ? r->n_nodes + r->n_nodes / 2 : 4;
    if (!a)
        a = dop_arena_alloc(g->arena, sizeof *a);
    void *memory =
        dop_arena_alloc(g->arena, capacity * (each + (LISTS + DOP_MAX_SRCS) * sizeof(dop_node_id) + 2 * sizeof(bool)));
    if (!a || !memory)
        return NULL;
    *a = (dop_analysis){.capacity = capacity, .memory = memory};
    return a;
}

bool
dop_region_awaits(const dop_region *r, dop_node_id value)
{
    const dop_product_facts *p = &r->info->product;
    return dop_ids_find(p->awaited, p->n_awaited, value) < p->n_awaited;
}

bool
dop_region_hands_on(const dop_region *r, dop_node_id value)
{
    return (r->info->tail.id && r->info->tail.of == value) || dop_region_awaits(r, value);
}

uint32_t
dop_region_part(const dop_region *r, dop_node_id id)
{
    uint32_t at = dop_region_find(r, id);
    const dop_product_facts *p = &r->info->product;
    return at < r->n_nodes && p->n_parts ? p->part_of[at] : p->n_parts;
}

bool
dop_region_feeds(const dop_graph *g, const dop_region *r, dop_node_id value)
{
    const dop_product_facts *p = &r->info->product;
    for (uint32_t i = 0; i < p->n_activations; i++)
        if (dop_node_base(g, p->activations[i], NULL) == value)
            return true;
    for (uint32_t i = 0; i < r->n_nodes && p->feeds; i++)
        for (uint32_t k = 0; p->feeds[i] && k < dop_node_at(g, r->nodes[i])->n_srcs; k++)
            if (dop_node_base(g, dop_node_at(g, r->nodes[i])->src[k], NULL) == value)
                return true;
    return false;
}

dop_status
dop_region_describe(dop_graph *g, dop_region *r, dop_diag *diag)
{
    size_t n = r->n_nodes ? r->n_nodes : 1;
    walk w = {.g = g, .r = r, .a = make_analysis(g, r)};
    char *scratch = calloc(n, DOP_MAX_SRCS * sizeof *w.src + 2 * sizeof *w.set + 4 * sizeof(bool));
    if (!w.a || !scratch) {
        free(scratch);
        return DOP_NO_MEMORY(diag);
    }
    w.src = (int32_t *)(void *)scratch;
    w.set = (uint32_t *)(w.src + n * DOP_MAX_SRCS);
    w.part = w.set + n;
    w.behind = (bool *)(w.part + n);
    w.mark = w.behind + n;
    w.out = w.mark + n;
    w.chooses = w.out + n;
    size_t each = sizeof(dop_segment) > sizeof(dop_program) ? sizeof(dop_segment) : sizeof(dop_program);
    dop_node_id *ids = (dop_node_id *)(void *)((char *)w.a->memory + w.a->capacity * each);
    r->info = w.a;
    w.a->digest = dop_region_digest(r);
    find_sources(&w);
    find_head_product(&w);
    find_root(&w);
    find_reads(&w, ids + (size_t)LISTS * w.a->capacity);
    bool *flags = (bool *)(ids + (size_t)(LISTS + DOP_MAX_SRCS) * w.a->capacity);
    memset(flags, 0, 2 * (size_t)w.a->capacity * sizeof *flags); /* may hold flags of a previous analysis */
    find_widths(&w, flags);
    w.feeds = flags + w.a->capacity;
    switch (r->tpl) {
    case DOP_TPL_gemv:
    case DOP_TPL_matmul:
    case DOP_TPL_expert:
    case DOP_TPL_expert_tiles:
        describe_products(&w, ids, w.a->memory);
        break;
    case DOP_TPL_row:
        describe_rows(&w, ids, w.a->memory);
        break;
    case DOP_TPL_attention:
        describe_attention(&w, ids, w.a->memory);
        break;
    case DOP_TPL_scan:
        describe_scan(&w, ids);
        break;
    default:
        break;
    }
    free(scratch);
    return DOP_OK;
}

dop_status
dop_graph_describe(dop_graph *g, dop_diag *diag)
{
    for (dop_region_id r = 1; r < g->n_regions; r++)
        if (!g->regions[r].dead)
            DOP_RETURN_IF_ERROR(dop_region_describe(g, &g->regions[r], diag));
    return DOP_OK;
}
