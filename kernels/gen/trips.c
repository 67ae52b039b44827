/* Loop trip counts: upper bounds on the total iterations of all loops of one invocation, for `trips` of the descriptors.
 *
 * Mesa's llvmpipe has one counter for all loops of an invocation. After 65535 iterations all loops end, even if they are not
 * finished. The final iteration, which only tests the condition, counts as well, so a loop of n iterations counts n + 1.
 * Loops with the hint `unroll` count nothing if the driver knows the number of iterations, which it does not if the index is
 * multiplied or divided. Short loops without the hint are counted as if they were not unrolled. Loops of a single generator
 * are counted in its file. */
#include "kernels/gen/trips.h"
#include "kernels/gen/gen.h"

uint64_t
dop_turns(uint64_t n, uint64_t of)
{
    return (n + of - 1) / of + 1;
}

uint32_t
dop_halvings(uint32_t n)
{
    uint32_t count = 1;
    for (; n > 1; n /= 2)
        count++;
    return count;
}

/* Returns the maximum number of passes of a row program: one per statistic, and one for the values computed from them. */
static uint64_t
walks_of(const dop_graph *g, const dop_program *p)
{
    uint64_t n = 1;
    for (uint32_t i = 0; i < p->n_nodes; i++) {
        const dop_op op = dop_node_at(g, p->nodes[i])->op;
        const bool norm = op == DOP_OP_rmsnorm || op == DOP_OP_layernorm;
        n += norm || op == DOP_OP_softmax ? 2 : dop_node_is(g, p->nodes[i], DOP_STATISTIC);
    }
    return n;
}

/* Returns the iterations of a row program over `len` values with `lanes` lanes, four values at a time where possible. */
uint64_t
dop_trips_program(const dop_site *s, const dop_program *p, uint32_t len, uint32_t lanes)
{
    const dop_region *r = s->r;
    bool wide = len % 4 == 0;
    for (uint32_t i = 0; i < p->n_nodes && wide; i++) {
        const dop_node *n = dop_node_at(s->g, p->nodes[i]);
        const bool sums = dop_node_is(s->g, p->nodes[i], DOP_STATISTIC);
        wide = dop_region_wide(s->g, r, sums ? n->src[0] : p->nodes[i]);
    }
    const uint32_t sum = lanes == s->t->subgroup ? 0 : dop_halvings(lanes);
    return walks_of(s->g, p) * (dop_turns(len, (uint64_t)lanes * (wide ? 4 : 1)) + sum);
}

/* Returns the iterations of an expert choice (gen_choice.c): over rows of scores, and comparisons of all pairs of columns. */
static uint64_t
of_choice(const dop_site *s, const dop_program *p, uint32_t wg)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < p->n_nodes; i++) {
        const dop_node *node = dop_node_at(s->g, p->nodes[i]);
        uint64_t cols = dop_node_cols(s->g, p->nodes[i]);
        for (uint32_t k = 0; k < node->n_srcs; k++) {
            const uint64_t c = dop_node_cols(s->g, node->src[k]);
            cols = c > cols ? c : cols;
        }
        const uint64_t share = dop_turns(cols, wg);
        n += 4 * (share + dop_halvings(wg));
        if (node->op == DOP_OP_near_softmax)
            n += cols * (dop_node_cols(s->g, p->nodes[i]) + 2);
        if (node->op == DOP_OP_top_k)
            n += share * (cols + 2);
        if (node->op == DOP_OP_top_k && dop_node_i(s->g, p->nodes[i], DOP_A_groups) > 1) {
            const uint64_t groups = (uint64_t)dop_node_i(s->g, p->nodes[i], DOP_A_groups);
            const uint64_t best = (uint64_t)dop_node_i(s->g, p->nodes[i], DOP_A_group_best);
            n += dop_turns(groups, wg) * (best + 1) * (cols / groups + 3) + share * (groups + 2);
        }
    }
    return n;
}

/* Returns the iterations of the prologue of products: the expert choice, and the row program for each of `rows` rows. */
uint64_t
dop_trips_prologue(const dop_site *s, const dop_tile *tile, uint32_t rows)
{
    const dop_analysis *a = s->r->info;
    const uint64_t sums = a->experts.sum ? a->experts.slots : 1;
    return of_choice(s, &a->experts.choice, tile->wg) +
           (rows + 1) * sums *
               (dop_trips_program(s, &a->product.prog, a->product.depth, tile->wg) + dop_turns(a->product.depth, 32));
}

/* Returns the iterations of products by cooperative lanes, whose workgroups loop over sets of weight rows. */
uint64_t
dop_trips_gemv(const dop_site *s, const dop_tile *tile)
{
    const dop_analysis *a = s->r->info;
    const uint64_t loops = tile->loops ? tile->loops : 1, sums = a->experts.sum ? a->experts.slots : 1;
    const uint32_t lanes = tile->lanes ? tile->lanes : 1, rows = tile->rows ? tile->rows : 1;
    const uint32_t least = s->g->max_t > 1 ? (s->g->max_t < 8 ? s->g->max_t : 8) : 1;
    const uint64_t team = (uint64_t)a->product.most_mats * rows * least * (dop_halvings(lanes) + 2);
    return dop_trips_prologue(s, tile, least) + loops * (sums * dop_turns(a->product.depth, 8ull * lanes) * 6 + team) +
           dop_turns(a->tail.id ? 1u << 14 : 0, tile->wg) * 8 + 64;
}

/* Returns the iterations of tiled products that are staged in shared memory. */
uint64_t
dop_trips_tiles(const dop_site *s, const dop_tile *tile)
{
    const dop_product_facts *a = &s->r->info->product;
    const uint64_t fours = (uint64_t)tile->bk / 4;
    const uint64_t load =
        dop_turns(tile->bm * fours, tile->wg) * 6 + a->most_mats * dop_turns(tile->bn * fours, tile->wg) * 6;
    const uint64_t step = load + tile->bk + a->n_stats * (uint64_t)tile->tm * (fours + 1);
    return dop_turns(a->depth, tile->bk) * step + (uint64_t)tile->tm * (tile->tn + 1u) * a->n_parts + 64;
}

uint64_t
dop_trips_row(const dop_site *s, const dop_tile *tile)
{
    const dop_analysis *a = s->r->info;
    uint64_t n = 64;
    for (uint32_t i = 0; i < a->row.n_programs; i++)
        n += dop_trips_program(s, &a->row.programs[i], a->row.programs[i].unit.len, tile->wg);
    return n;
}

uint64_t
dop_trips_choice(const dop_site *s, const dop_tile *tile)
{
    const dop_program p = {.nodes = s->r->nodes, .n_nodes = s->r->n_nodes};
    return of_choice(s, &p, tile->wg) + s->r->n_outs * dop_turns(dop_node_cols(s->g, s->r->outs[0]), tile->wg) + 64;
}

uint64_t
dop_trips_argmax(const dop_site *s, const dop_tile *tile)
{
    const dop_node *n = dop_node_at(s->g, s->r->outs[s->r->n_outs - 1]);
    uint64_t cols = dop_node_cols(s->g, n->src[0]);
    if (n->op == DOP_OP_argmax_merge)
        cols += dop_node_cols(s->g, dop_node_at(s->g, n->src[0])->src[0]);
    const uint64_t walks = s->t->cpu ? 1 : 72; /* sampling bisects the keys, twice */
    return walks * (dop_turns(cols, tile->wg) + 2 * dop_halvings(tile->wg)) + 64;
}

/* Returns the iterations of group_rows. Each invocation counts one slice of the ids (gen_group.c). */
uint64_t
dop_trips_group(const dop_site *s, const dop_tile *tile)
{
    const dop_node_id id = s->r->info->root;
    const dop_shape *out = &dop_node_at(s->g, id)->shape;
    const uint64_t experts = (uint64_t)dop_node_i(s->g, id, DOP_A_experts), blocks = out->dim[0].mul,
                   span = out->dim[1].mul;
    const uint64_t pairs = (uint64_t)s->g->max_t * dop_node_cols(s->g, dop_node_at(s->g, id)->src[0]);
    uint64_t slices = s->t->shared_bytes / 8 / experts;
    slices = slices > 64 ? 64 : slices ? slices : 1;
    slices = slices < tile->wg ? slices : tile->wg;
    return dop_turns(pairs, 4 * slices) * 20 + dop_turns(experts, tile->wg) * (slices + 4) + experts + blocks +
           2 * dop_turns((experts + blocks) * span, tile->wg) + dop_turns(slices * experts, tile->wg);
}

uint64_t
dop_trips_dequant(const dop_site *s, const dop_tile *tile)
{
    const dop_node *w = dop_node_at(s->g, dop_node_at(s->g, s->r->nodes[0])->src[0]);
    const uint64_t values = (uint64_t)w->shape.dim[0].mul * dop_node_cols(s->g, s->r->nodes[0]);
    return dop_turns(values, (uint64_t)tile->bk * tile->loops * tile->wg) + 8;
}

bool
dop_trips_too_many(const dop_site *s, const dop_descriptor *d, const dop_tile *tile)
{
    return s->t->loop_trips && d->trips && d->trips(s, tile) > s->t->loop_trips;
}
