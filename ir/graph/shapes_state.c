/* Shape rules of ops that read or write states: caches (append), and state that a step rewrites (replace). */
#include "ir/graph/dims.h"
#include "ir/graph/ops.h"
#include "ir/graph/shape_rules.h"

/* True if the axes of x from a on equal those of y from b on. */
static bool
has_equal_tail(const dop_node *x, uint32_t a, const dop_node *y, uint32_t b)
{
    if (x->shape.rank - a != y->shape.rank - b)
        return false;
    for (uint32_t i = 0; a + i < x->shape.rank; i++)
        if (!dop_dim_equal(x->shape.dim[a + i], y->shape.dim[b + i]))
            return false;
    return true;
}

dop_status
dop_rule_state_write(const dop_rule *c, dop_want *out)
{
    const dop_node *state = c->src[0], *x = c->src[1];
    bool appends = dop_shape_appends(&state->shape), whole = !appends && dop_shape_equal(&state->shape, &x->shape);
    /* stores the last rows of each sequence, not only the last one */
    bool tail = !appends && !whole && state->shape.rank == x->shape.rank + 1;
    uint32_t ids = appends ? 2 : whole ? 0 : 1; /* number of sources that index rows */
    out->shape = state->shape;
    out->type = state->type;
    if (state->shape.dim[0].sym != DOP_SYM_Q)
        return DOP_RULE_BAD(c, "needs state for source 0, %%%s is none", state->name);
    if (c->n_srcs != 2 + ids)
        return DOP_RULE_BAD(c, "of %s takes %u sources, not %u",
                            appends ? "append state"
                            : whole ? "replace state as a whole"
                                    : "replace state by rows",
                            2 + ids, c->n_srcs);
    if (whole)
        return DOP_OK;
    for (uint32_t i = 2; i < c->n_srcs; i++)
        DOP_RETURN_IF_ERROR(i + 1 == c->n_srcs ? dop_rule_need_sequences(c, i, x) : dop_rule_need_ids(c, i, x));
    if (!has_equal_tail(state, appends || tail ? 2 : 1, x, 1))
        return dop_rule_mismatch(c, 0, 1);
    return DOP_OK;
}

/* A pair of axes that must be equal: axis x of source a and axis y of source b. */
typedef struct equal_axes {
    uint8_t a, x, b, y;
} equal_axes;

/* Checks the sources of a recurrence: their ranks (0: a list of sequences), that source `state` is replace state, and equal axes. */
static dop_status
need_axes(const dop_rule *c, const uint8_t *ranks, uint32_t state, const equal_axes *axes, uint32_t n)
{
    for (uint32_t i = 0; i < c->n_srcs; i++)
        DOP_RETURN_IF_ERROR(ranks[i] ? dop_rule_need_rank(c, i, ranks[i]) : dop_rule_need_sequences(c, i, c->src[0]));
    if (c->src[state]->shape.dim[0].sym != DOP_SYM_Q || dop_shape_appends(&c->src[state]->shape))
        return DOP_RULE_BAD(c, "needs replace state for source %u, %%%s is none", state, c->src[state]->name);
    for (uint32_t i = 0; i < n; i++)
        if (axes[i].b < c->n_srcs &&
            !dop_dim_equal(c->src[axes[i].a]->shape.dim[axes[i].x], c->src[axes[i].b]->shape.dim[axes[i].y]))
            return dop_rule_mismatch(c, axes[i].a, axes[i].b);
    return DOP_OK;
}

dop_status
dop_rule_short_conv(const dop_rule *c, dop_want *out)
{
    static const uint8_t ranks[] = {2, 3, 2, 0, 1};
    static const equal_axes axes[] = {{0, 1, 1, 2}, {0, 1, 2, 1}, {0, 1, 4, 0}};
    dop_status st = need_axes(c, ranks, 1, axes, 3);
    if (st != DOP_OK)
        return st;
    if (c->src[1]->shape.dim[1].mul + 1 != c->src[2]->shape.dim[0].mul || c->src[2]->shape.dim[0].sym != DOP_SYM_1)
        return dop_rule_mismatch(c, 1, 2);
    out->shape = c->src[0]->shape;
    return DOP_OK;
}

dop_status
dop_rule_linear_scan(const dop_rule *c, dop_want *out)
{
    const bool each = c->src[3]->shape.rank == 3; /* every column of a head's state has its own decay */
    const uint8_t ranks[] = {3, 3, 3, each ? 3 : 2, 4, 0, 2};
    static const equal_axes axes[] = {{0, 0, 1, 0}, {0, 1, 1, 1}, {0, 2, 1, 2}, {0, 0, 2, 0},
                                      {2, 0, 3, 0}, {2, 1, 3, 1}, {2, 1, 4, 1}, {2, 2, 4, 2},
                                      {0, 2, 4, 3}, {3, 0, 6, 0}, {3, 1, 6, 1}, {0, 2, 3, 2}};
    dop_status st = need_axes(c, ranks, 4, axes, sizeof axes / sizeof *axes - !each);
    if (st != DOP_OK)
        return st;
    if (c->src[2]->shape.dim[1].mul % c->src[0]->shape.dim[1].mul != 0)
        return dop_rule_mismatch(c, 0, 2);
    out->shape = c->op == DOP_OP_linear_scan ? c->src[2]->shape : c->src[4]->shape;
    return DOP_OK;
}

uint32_t
dop_rule_lasts(const dop_rule *c)
{
    return dop_mask_has_lasts((dop_mask)dop_rule_attr_i(c, DOP_A_mask)) ? c->n_srcs - 1 : DOP_MAX_SRCS;
}

uint32_t
dop_rule_chosen(const dop_rule *c)
{
    return dop_rule_attr_i(c, DOP_A_top) ? c->n_srcs - 1 : DOP_MAX_SRCS;
}

/* Fails unless the last source lists the positions that each row of q attends to, and the other attributes allow such a list. */
static dop_status
need_list(const dop_rule *c, const dop_node *q)
{
    const dop_node *list = c->src[c->n_srcs - 1], *k = c->src[1];
    if (dop_rule_lasts(c) < DOP_MAX_SRCS || k->shape.rank != 4 || k->shape.dim[1].sym == DOP_SYM_R ||
        dop_rule_attr_i(c, DOP_A_window) || dop_rule_attr_i(c, DOP_A_chunk) || dop_rule_attr_i(c, DOP_A_alibi) ||
        (c->op == DOP_OP_attention && dop_rule_attr_i(c, DOP_A_relative)))
        return DOP_RULE_BAD(c,
                            "with top needs a causal mask, caches of all positions, and neither window nor distances");
    if (list->type != DOP_TYPE_u32 || list->shape.rank != 2 || !dop_dim_equal(list->shape.dim[0], q->shape.dim[0]) ||
        (int64_t)list->shape.dim[1].mul != dop_rule_attr_i(c, DOP_A_top))
        return dop_rule_mismatch(c, 0, c->n_srcs - 1);
    return DOP_OK;
}

/* Checks keys and values, which are either caches or values of this step with as many rows as the queries. */
static dop_status
need_keys(const dop_rule *c)
{
    const dop_node *q = c->src[0], *k = c->src[1], *v = c->src[2];
    const bool cached = k->shape.rank == 4;
    dop_status st;
    for (uint32_t i = 0; i < 3; i++) {
        if ((st = dop_rule_need_rank(c, i, i && cached ? 4 : 3)) != DOP_OK)
            return st;
        if (i && cached && !dop_shape_appends(&c->src[i]->shape))
            return DOP_RULE_BAD(c, "needs append state for source %u, %%%s is none", i, c->src[i]->name);
        if (i && !cached && !dop_dim_equal(q->shape.dim[0], c->src[i]->shape.dim[0]))
            return dop_rule_mismatch(c, 0, i);
    }
    for (uint32_t i = 0; i + 1 < k->shape.rank; i++) /* the last axis of values may have another length */
        if (!dop_dim_equal(k->shape.dim[i], v->shape.dim[i]))
            return dop_rule_mismatch(c, 1, 2);
    if (!dop_dim_equal(dop_last_dim(q), dop_last_dim(k)) || q->shape.dim[1].mul % k->shape.dim[k->shape.rank - 2].mul)
        return dop_rule_mismatch(c, 0, 1);
    return DOP_OK;
}

dop_status
dop_rule_attention(const dop_rule *c, dop_want *out)
{
    const dop_node *q = c->src[0], *v = c->src[2];
    const uint32_t lasts = dop_rule_lasts(c);
    const uint32_t relative = c->op == DOP_OP_attention ? (uint32_t)dop_rule_attr_i(c, DOP_A_relative) : 0;
    dop_status st = need_keys(c);
    if (st != DOP_OK || (st = dop_rule_need_ids(c, 3, q)) != DOP_OK ||
        (st = dop_rule_need_sequences(c, 4, q)) != DOP_OK)
        return st;
    const uint32_t chosen = dop_rule_chosen(c), more = lasts < DOP_MAX_SRCS || chosen < DOP_MAX_SRCS ? 1 : 0;
    if (chosen < DOP_MAX_SRCS && (st = need_list(c, q)) != DOP_OK)
        return st;
    if (c->n_srcs != 5 + more && c->n_srcs != 6 + more)
        return DOP_RULE_BAD(c, "with mask=%s does not take %u sources",
                            dop_attr_word(DOP_A_mask, dop_rule_attr_i(c, DOP_A_mask)), c->n_srcs);
    if (lasts < DOP_MAX_SRCS && (st = dop_rule_need_ids(c, lasts, q)) != DOP_OK)
        return st;
    if (dop_rule_attr_i(c, DOP_A_mask) == DOP_MASK_cache &&
        (c->src[1]->shape.dim[1].sym != DOP_SYM_R || dop_rule_attr_i(c, DOP_A_window) ||
         dop_rule_attr_i(c, DOP_A_chunk) || dop_rule_attr_i(c, DOP_A_alibi) || relative))
        return DOP_RULE_BAD(c, "with mask=cache needs a cache of a fixed number of rows, and no window or distances");
    if (c->n_srcs > 5 && lasts != 5 && chosen != 5 &&
        (c->src[5]->shape.rank != (relative ? 2 : 1) || !dop_dim_equal(c->src[5]->shape.dim[0], q->shape.dim[1]) ||
         (relative && c->src[5]->shape.dim[1].mul != 2 * relative + 1)))
        return dop_rule_mismatch(c, 0, 5);
    out->shape = q->shape;
    out->shape.dim[2] = dop_last_dim(v);
    if (c->op == DOP_OP_attn_split) {
        uint64_t rows = (uint64_t)q->shape.dim[1].mul * (uint64_t)dop_rule_attr_i(c, DOP_A_splits);
        if (rows > UINT32_MAX || dop_last_dim(v).mul > UINT32_MAX - 2)
            return DOP_RULE_BAD(c, "is too large");
        out->shape.dim[1].mul = (uint32_t)rows;
        out->shape.dim[2].mul += 2;
    }
    return DOP_OK;
}

dop_status
dop_rule_index_scores(const dop_rule *c, dop_want *out)
{
    const dop_node *q = c->src[0], *k = c->src[1], *w = c->src[2];
    dop_status st = dop_rule_need_rank(c, 0, 3);
    for (uint32_t i = 1; i < 3 && st == DOP_OK; i++)
        st = dop_rule_need_rank(c, i, i == 1 ? 4 : 2);
    if (st != DOP_OK || (st = dop_rule_need_ids(c, 3, q)) != DOP_OK ||
        (st = dop_rule_need_sequences(c, 4, q)) != DOP_OK)
        return st;
    if (!dop_shape_appends(&k->shape) || k->shape.dim[1].sym == DOP_SYM_R)
        return DOP_RULE_BAD(c, "needs append state of all positions for source 1, %%%s is none", k->name);
    if (!dop_dim_equal(dop_last_dim(q), dop_last_dim(k)) || k->shape.dim[2].mul != 1)
        return dop_rule_mismatch(c, 0, 1);
    if (!dop_dim_equal(q->shape.dim[0], w->shape.dim[0]) || !dop_dim_equal(q->shape.dim[1], w->shape.dim[1]))
        return dop_rule_mismatch(c, 0, 2);
    out->shape = (dop_shape){2, {q->shape.dim[0], dop_dim_n(c->g->max_s)}};
    return DOP_OK;
}

dop_status
dop_rule_top_positions(const dop_rule *c, dop_want *out)
{
    const dop_node *scores = c->src[0];
    dop_status st = dop_rule_need_rank(c, 0, 2);
    if (st != DOP_OK || (st = dop_rule_need_ids(c, 1, scores)) != DOP_OK)
        return st;
    const int64_t k = dop_rule_attr_i(c, DOP_A_k);
    if (k > scores->shape.dim[1].mul)
        return DOP_RULE_BAD(c, "cannot choose %lld of %u columns", (long long)k, scores->shape.dim[1].mul);
    out->shape = (dop_shape){2, {scores->shape.dim[0], dop_dim_n((uint32_t)k)}};
    out->type = DOP_TYPE_u32;
    return DOP_OK;
}

dop_status
dop_rule_attn_combine(const dop_rule *c, dop_want *out)
{
    dop_status st = dop_rule_need_rank(c, 0, 3);
    if (st != DOP_OK)
        return st;
    const dop_shape *s = &c->src[0]->shape;
    uint32_t splits = (uint32_t)dop_rule_attr_i(c, DOP_A_splits);
    if (s->dim[1].mul % splits != 0 || s->dim[2].mul < 3)
        return DOP_RULE_BAD(c, "%%%s is not the result of attn_split with splits=%u", c->src[0]->name, splits);
    out->shape = *s;
    out->shape.dim[1].mul /= splits;
    out->shape.dim[2].mul -= 2;
    return DOP_OK;
}
