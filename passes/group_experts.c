/* group-experts: grouped products of a mixture of experts.  Without grouping, matmul_at reads a matrix for each pair of a row and
 * its chosen expert.  If many rows share experts, this pass adds a node that sorts the pairs by expert (group_rows), and the
 * products follow its order.  The target defines the minimum number of pairs and the size of a block.  Runs when products have
 * their final sources. */
#include "passes/rewrite.h"

/* The group_rows node of a list of ids. */
typedef struct made {
    dop_node_id blocks; /* group_rows node; 0: none yet */
    uint32_t experts;
} made;

/* Adds blocks to a matmul_at. rw->user: [n_nodes] the group_rows node of each list of ids.  A product with another number of
 * matrices keeps its form. */
static dop_status
group_matmul_at(dop_rewrite *rw, dop_node_id old, dop_node_id *out_id)
{
    const dop_graph *g = rw->from;
    const dop_node *o = dop_node_at(g, old);
    made *all = rw->user;
    dop_node_id srcs[4];
    if (o->op != DOP_OP_matmul_at || o->n_srcs != 3)
        return DOP_OK;
    uint64_t pairs = dop_node_rows(g, o->src[2], g->max_t) * dop_node_cols(g, o->src[2]);
    uint32_t experts = dop_node_at(g, o->src[1])->shape.dim[0].mul;
    uint32_t span = pairs > UINT32_MAX ? 0 : dop_expert_span(rw->cx->target, (uint32_t)pairs, experts);
    made *m = &all[o->src[2]];
    if (g->max_t == 1 || span == 0 || (m->blocks && m->experts != experts))
        return DOP_OK;
    dop_attr attrs[2] = {{.i = experts}, {.i = span}};
    dop_status st = m->blocks ? DOP_OK
                              : dop_rewrite_add(rw, o->src[2], "blocks", DOP_OP_group_rows, &rw->map[o->src[2]], 1,
                                                attrs, NULL, &m->blocks);
    m->experts = experts;
    if (st != DOP_OK)
        return st;
    for (uint32_t i = 0; i < 3; i++)
        srcs[i] = rw->map[o->src[i]];
    srcs[3] = m->blocks;
    dop_want want = {o->type, o->shape};
    rw->changed = true;
    return dop_rewrite_add(rw, old, NULL, DOP_OP_matmul_at, srcs, 4, NULL, &want, out_id);
}

dop_status
dop_pass_group_experts(dop_pass_ctx *cx, dop_graph *g, bool *changed)
{
    made *all = dop_arena_alloc(cx->arena, g->n_nodes * sizeof *all);
    if (!all)
        return DOP_NO_MEMORY(cx->diag);
    return dop_rewrite_graph(cx, g, group_matmul_at, all, changed);
}
