/* Shape rules of ops that choose experts and of products with the matrices of experts. */
#include "ir/graph/dims.h"
#include "ir/graph/shape_rules.h"

/* Maximum number of rows in one block of group_rows. */
enum { MAX_SPAN = 1 << 16 };

/* Fails unless source i holds ids [T,k] for the rows of source 0. */
static dop_status
need_choice(const dop_rule *c, uint32_t i)
{
    dop_status st = dop_rule_need_rank(c, i, 2);
    if (st != DOP_OK)
        return st;
    if (c->src[i]->type != DOP_TYPE_u32)
        return DOP_RULE_BAD(c, "needs u32 ids for source %u, %%%s is %s", i, c->src[i]->name,
                            dop_type_of(c->src[i]->type)->name);
    return dop_dim_equal(c->src[0]->shape.dim[0], c->src[i]->shape.dim[0]) ? DOP_OK : dop_rule_mismatch(c, 0, i);
}

dop_status
dop_rule_top_k(const dop_rule *c, dop_want *out)
{
    dop_status st = dop_rule_need_rank(c, 0, 2);
    if (st != DOP_OK)
        return st;
    uint64_t n = dop_last_dim(c->src[0]).mul, k = (uint64_t)dop_rule_attr_i(c, DOP_A_k),
             groups = (uint64_t)dop_rule_attr_i(c, DOP_A_groups);
    uint64_t best = (uint64_t)dop_rule_attr_i(c, DOP_A_group_best),
             keep = (uint64_t)dop_rule_attr_i(c, DOP_A_group_keep);
    if (n % groups || best > n / groups || keep > groups)
        return DOP_RULE_BAD(c, "cannot keep %llu of %llu groups of %llu columns by their best %llu",
                            (unsigned long long)keep, (unsigned long long)groups, (unsigned long long)n,
                            (unsigned long long)best);
    if (k > n / groups * keep)
        return DOP_RULE_BAD(c, "cannot take %llu of %llu columns", (unsigned long long)k,
                            (unsigned long long)(n / groups * keep));
    out->shape = (dop_shape){2, {c->src[0]->shape.dim[0], dop_dim_n((uint32_t)k)}};
    out->type = DOP_TYPE_u32;
    return DOP_OK;
}

/* Computes the number of blocks that any ids of the longest step need: all are full except the last block of each expert. */
dop_status
dop_rule_group_rows(const dop_rule *c, dop_want *out)
{
    dop_status st = need_choice(c, 0);
    if (st != DOP_OK)
        return st;
    uint64_t pairs = dop_dim_value(c->g, c->src[0]->shape.dim[0], c->g->max_t) * dop_last_dim(c->src[0]).mul;
    uint64_t experts = (uint64_t)dop_rule_attr_i(c, DOP_A_experts), span = (uint64_t)dop_rule_attr_i(c, DOP_A_span);
    uint64_t used = experts < pairs ? experts : pairs, blocks = (pairs + used * (span - 1)) / span;
    if (blocks > UINT32_MAX || span > MAX_SPAN)
        return DOP_RULE_BAD(c, "cannot make %llu blocks of %llu", (unsigned long long)blocks, (unsigned long long)span);
    out->shape = (dop_shape){2, {dop_dim_n((uint32_t)blocks), dop_dim_n((uint32_t)span + 1)}};
    out->type = DOP_TYPE_u32;
    return DOP_OK;
}

/* Fails unless source 3 is group_rows of the product's own ids and number of experts. */
static dop_status
need_blocks(const dop_rule *c)
{
    const dop_node *b = c->src[3], *w = c->src[1];
    if (b->op != DOP_OP_group_rows || dop_node_at(c->g, b->src[0]) != c->src[2])
        return DOP_RULE_BAD(c, "needs the blocks of %%%s for source 3, not %%%s", c->src[2]->name, b->name);
    return b->attr[0].i == w->shape.dim[0].mul ? DOP_OK : dop_rule_mismatch(c, 1, 3);
}

/* matmul_at without ids: x [T,k,K], w [k,N,K]. */
static dop_status
rule_matmul_by_slot(const dop_rule *c, dop_want *out)
{
    const dop_shape *x = &c->src[0]->shape, *w = &c->src[1]->shape;
    dop_status st = dop_rule_need_rank(c, 0, 3);
    if (st != DOP_OK)
        return st;
    if (!dop_dim_equal(x->dim[1], w->dim[0]) || !dop_dim_equal(x->dim[2], w->dim[2]))
        return dop_rule_mismatch(c, 0, 1);
    out->shape = (dop_shape){3, {x->dim[0], x->dim[1], w->dim[1]}};
    return DOP_OK;
}

dop_status
dop_rule_experts(const dop_rule *c, dop_want *out)
{
    dop_status st;
    const dop_node *x = c->src[0], *y = c->src[1];
    switch (c->op) {
    case DOP_OP_pick:
    case DOP_OP_near_softmax:
        if ((st = dop_rule_need_rank(c, 0, 2)) != DOP_OK || (st = need_choice(c, 1)) != DOP_OK)
            return st;
        out->shape = y->shape;
        return DOP_OK;
    case DOP_OP_weighted_sum:
        if ((st = dop_rule_need_rank(c, 0, 3)) != DOP_OK || (st = dop_rule_need_rank(c, 1, 2)) != DOP_OK)
            return st;
        if (!dop_dim_equal(x->shape.dim[0], y->shape.dim[0]) || !dop_dim_equal(x->shape.dim[1], y->shape.dim[1]))
            return dop_rule_mismatch(c, 0, 1);
        out->shape = (dop_shape){2, {x->shape.dim[0], dop_last_dim(x)}};
        return DOP_OK;
    default: /* matmul_at */
        if ((st = dop_rule_need_rank(c, 1, 3)) != DOP_OK)
            return st;
        if (!c->src[2])
            return rule_matmul_by_slot(c, out);
        if ((st = need_choice(c, 2)) != DOP_OK)
            return st;
        if (x->shape.rank != 2 && (st = dop_rule_need_rank(c, 0, 3)) != DOP_OK)
            return st;
        if (!dop_dim_equal(dop_last_dim(x), dop_last_dim(y)))
            return dop_rule_mismatch(c, 0, 1);
        if (x->shape.rank == 3 && !dop_dim_equal(x->shape.dim[1], c->src[2]->shape.dim[1]))
            return dop_rule_mismatch(c, 0, 2);
        if (c->src[3] && (st = need_blocks(c)) != DOP_OK)
            return st;
        out->shape = (dop_shape){3, {x->shape.dim[0], c->src[2]->shape.dim[1], y->shape.dim[1]}};
        return DOP_OK;
    }
}

/* x [T,K], w [N,K], at [T,k], where K is a multiple of span, and used <= span. */
dop_status
dop_rule_dot_at(const dop_rule *c, dop_want *out)
{
    const dop_shape *x = &c->src[0]->shape, *w = &c->src[1]->shape, *at = &c->src[2]->shape;
    const uint64_t span = (uint64_t)dop_rule_attr_i(c, DOP_A_span), used = (uint64_t)dop_rule_attr_i(c, DOP_A_used);
    dop_status st = DOP_OK;
    for (uint32_t i = 0; i < 3 && st == DOP_OK; i++)
        st = dop_rule_need_rank(c, i, 2);
    if (st != DOP_OK)
        return st;
    if (!dop_dim_equal(x->dim[1], w->dim[1]))
        return dop_rule_mismatch(c, 0, 1);
    if (!dop_dim_equal(x->dim[0], at->dim[0]))
        return dop_rule_mismatch(c, 0, 2);
    if (x->dim[1].mul < span)
        return DOP_RULE_BAD(c, "has segments of %llu columns and %u columns", (unsigned long long)span, x->dim[1].mul);
    if (used > span)
        return DOP_RULE_BAD(c, "reads %llu columns of segments of %llu", (unsigned long long)used,
                            (unsigned long long)span);
    out->shape = (dop_shape){2, {x->dim[0], w->dim[0]}};
    return DOP_OK;
}
