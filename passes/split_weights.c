/* split-weights: splits a weight that exceeds the device's maximum allocation into several leaves of fewer rows, named
 * "NAME[FIRST:END]".  A product becomes one product per piece that it reads, and their columns are concatenated.  For experts
 * every matrix is split, so that the choice of experts does not change.  A gather becomes the sum of gathers from all pieces, of
 * which only one is not zero.  Runs before weights are expanded and products take their final forms, so that later passes need no
 * special cases. */
#include "passes/rewrite.h"

enum { MOST = 64 }; /* maximum pieces of a weight: each is a term of the expression that computes one value */

/* Returns the matrix that the node reads if it must be split; otherwise 0.  *out_rows: rows of the matrix; *out_read: number of
 * leading rows that the node reads; *out_each: rows of a piece. */
static dop_node_id
find_split_weight(const dop_rewrite *rw, const dop_node *o, uint32_t *out_rows, uint32_t *out_read, uint32_t *out_each)
{
    const dop_graph *g = rw->from;
    const bool product = o->op == DOP_OP_matmul || o->op == DOP_OP_matmul_at;
    if (!product && o->op != DOP_OP_gather)
        return 0;
    const dop_node_id id = o->src[product];
    const dop_node *w = dop_node_at(g, id);
    if (w->op != DOP_OP_weight || w->shape.rank < 2 || w->shape.rank > (product ? 3 : 2))
        return 0;
    *out_rows = w->shape.dim[w->shape.rank - 2].mul;
    *out_read = product ? o->shape.dim[o->shape.rank - 1].mul : *out_rows;
    *out_each = rw->cx->piece_rows(rw->cx->user, g, id);
    return *out_each > 0 && dop_div_up_u32(*out_rows, *out_each) <= MOST ? id : 0;
}

/* Returns piece `number` of a weight, rows first .. end - 1.  Reuses the leaf if another reader has created it. */
static dop_status
add_weight_piece(dop_rewrite *rw, dop_node_id whole, uint32_t number, uint32_t first, uint32_t end, dop_node_id *out_id)
{
    const dop_node *w = dop_node_at(rw->from, whole);
    dop_node_id **made = rw->user;
    if (!made[whole] && !(made[whole] = dop_arena_alloc(rw->cx->arena, MOST * sizeof **made)))
        return DOP_NO_MEMORY(rw->cx->diag);
    if ((*out_id = made[whole][number]) != 0)
        return DOP_OK;
    const char *name = dop_arena_printf(rw->cx->arena, "%s[%u:%u]", w->attr[0].s, first, end);
    const char *suffix = dop_arena_printf(rw->cx->arena, "rows%u", first);
    if (!name || !suffix)
        return DOP_NO_MEMORY(rw->cx->diag);
    dop_attr attr = {.s = name};
    dop_want want = {w->type, w->shape};
    want.shape.dim[want.shape.rank - 2].mul = end - first;
    dop_status st = dop_rewrite_add(rw, whole, suffix, DOP_OP_weight, NULL, 0, &attr, &want, out_id);
    if (st != DOP_OK)
        return st;
    dop_origin *from = &dop_node_at(&rw->to, *out_id)->origin;
    from->first = first;
    from->rows = end - first;
    made[whole][number] = *out_id;
    return DOP_OK;
}

/* Adds the node's counterpart for one piece, which reads rows first .. end - 1 of the `rows` rows of the whole weight. */
static dop_status
add_piece_reader(dop_rewrite *rw, dop_node_id old, dop_node_id piece, uint32_t first, uint32_t end, uint32_t rows,
                 dop_node_id *out_id)
{
    const dop_node *o = dop_node_at(rw->from, old);
    const bool gathers = o->op == DOP_OP_gather;
    const char *suffix = dop_arena_printf(rw->cx->arena, "of%u", first);
    if (!suffix)
        return DOP_NO_MEMORY(rw->cx->diag);
    dop_node_id srcs[DOP_MAX_SRCS];
    for (uint32_t i = 0; i < o->n_srcs; i++)
        srcs[i] = rw->map[o->src[i]];
    srcs[!gathers] = piece;
    const dop_attr of[] = {{.i = first}, {.i = rows}}; /* values of gather's attributes `first` and `of` */
    dop_want want = {o->type, o->shape};
    if (!gathers)
        want.shape.dim[want.shape.rank - 1].mul = end - first;
    return dop_rewrite_add(rw, old, suffix, o->op, srcs, o->n_srcs, gathers ? of : NULL, &want, out_id);
}

static dop_status
split_weight_reader(dop_rewrite *rw, dop_node_id old, dop_node_id *out_id)
{
    const dop_node *o = dop_node_at(rw->from, old);
    const bool gathers = o->op == DOP_OP_gather;
    uint32_t rows, read, each;
    const dop_node_id whole = find_split_weight(rw, o, &rows, &read, &each);
    if (!whole)
        return DOP_OK;
    dop_node_id so_far = 0;
    rw->changed = true;
    for (uint32_t first = 0; first < read; first += each) {
        const uint32_t end = rows - first > each ? first + each : rows, to = end < read ? end : read;
        dop_node_id piece, both[2] = {so_far, 0};
        dop_status st = add_weight_piece(rw, whole, first / each, first, end, &piece);
        if (st == DOP_OK)
            st = add_piece_reader(rw, old, piece, first, to, rows, &both[1]);
        if (st == DOP_OK && so_far) {
            dop_want want = {o->type, o->shape};
            const char *suffix = to < read ? dop_arena_printf(rw->cx->arena, "to%u", to) : NULL;
            if (to < read && !suffix)
                return DOP_NO_MEMORY(rw->cx->diag);
            if (!gathers)
                want.shape.dim[want.shape.rank - 1].mul = to;
            st = dop_rewrite_add(rw, old, suffix, gathers ? DOP_OP_add : DOP_OP_concat, both, 2, NULL, &want, &both[1]);
        }
        if (st != DOP_OK)
            return st;
        so_far = both[1];
    }
    *out_id = so_far;
    return DOP_OK;
}

dop_status
dop_pass_split_weights(dop_pass_ctx *cx, dop_graph *g, bool *changed)
{
    if (!cx->piece_rows)
        return DOP_OK;
    dop_node_id **made =
        dop_arena_alloc(cx->arena, g->n_nodes * sizeof *made); /* [weight][piece] leaf; 0: not created yet */
    if (!made)
        return DOP_NO_MEMORY(cx->diag);
    return dop_rewrite_graph(cx, g, split_weight_reader, made, changed);
}
