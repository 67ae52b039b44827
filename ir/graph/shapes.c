/* Shape rules: one per op or group of similar ops.  Rules of experts and states are in files of their own.  Symbolic axes come
 * before constant ones.  Ops that name axes of language models accept append state, and otherwise values with a symbolic
 * dimension on axis 0 only.  All other ops accept any shape. */
#include "ir/graph/access.h"
#include "ir/graph/dims.h"
#include "ir/graph/ops.h"
#include "ir/graph/shape_rules.h"

#include <math.h>
#include <string.h>

static bool
dim_is_one(dop_dim d)
{
    return d.mul == 1 && d.sym == DOP_SYM_1;
}

/* Fails unless source i is a vector as long as the last axis of source 0. */
static dop_status
need_vector(const dop_rule *c, uint32_t i)
{
    if (c->src[i]->shape.rank != 1 || !dop_dim_equal(dop_last_dim(c->src[i]), dop_last_dim(c->src[0])))
        return dop_rule_mismatch(c, 0, i);
    return DOP_OK;
}

/* Broadcasts as numpy does: aligned at the last axis, lengths must be equal or 1. */
static dop_status
rule_broadcast(const dop_rule *c, dop_shape *out)
{
    const dop_shape *a = &c->src[0]->shape, *b = &c->src[1]->shape;
    const dop_shape *hi = a->rank >= b->rank ? a : b, *lo = hi == a ? b : a;
    uint32_t skip = hi->rank - lo->rank;
    *out = *hi;
    for (uint32_t i = 0; i < lo->rank; i++) {
        dop_dim x = hi->dim[skip + i], y = lo->dim[i];
        if (dop_dim_equal(x, y) || dim_is_one(y))
            continue;
        if (!dim_is_one(x))
            return dop_rule_mismatch(c, 0, 1);
        out->dim[skip + i] = y;
    }
    return DOP_OK;
}

/* xielu: the result has the shape of source 0; the other sources are one value each. */
static dop_status
rule_xielu(const dop_rule *c, dop_want *out)
{
    out->shape = c->src[0]->shape;
    for (uint32_t i = 1; i < 4; i++)
        if (c->src[i]->shape.rank != 1 || !dim_is_one(dop_last_dim(c->src[i])))
            return dop_rule_mismatch(c, 0, i);
    return DOP_OK;
}

static dop_status
rule_leaf(const dop_rule *c, dop_want *out)
{
    if (c->want->type == DOP_TYPE_none || (unsigned)c->want->type >= DOP_TYPE_COUNT)
        return DOP_RULE_BAD(c, "has no type");
    dop_type_kind kind = dop_type_of(c->want->type)->kind;
    if ((c->op == DOP_OP_input || c->op == DOP_OP_received) && kind == DOP_KIND_QUANT)
        return DOP_RULE_BAD(c, "cannot have the block type %s", dop_type_of(c->want->type)->name);
    if (c->op == DOP_OP_state && kind != DOP_KIND_FLOAT && !dop_shape_blocks(&c->want->shape, c->want->type))
        return DOP_RULE_BAD(c, "must have a float type, not %s", dop_type_of(c->want->type)->name);
    *out = *c->want;
    const dop_shape *s = &out->shape;
    if (c->op != DOP_OP_state)
        return DOP_OK;
    char text[DOP_SHAPE_TEXT];
    bool sequences = s->rank >= 2 && s->rank <= DOP_MAX_RANK && s->dim[0].sym == DOP_SYM_Q && s->dim[0].mul == 1;
    if (dop_rule_attr_i(c, DOP_A_kind) == DOP_STATE_append && !(sequences && s->rank >= 3 && dop_shape_appends(s)))
        return DOP_RULE_BAD(c, "of kind append is [Q,S,...] or a ring [Q,<rows>R,...], not %s",
                            dop_shape_text(c->g, s, text));
    if (dop_rule_attr_i(c, DOP_A_kind) == DOP_STATE_replace && !(sequences && !dop_shape_appends(s)))
        return DOP_RULE_BAD(c, "of kind replace is [Q,...], not %s", dop_shape_text(c->g, s, text));
    return DOP_OK;
}

static dop_status
rule_reshape(const dop_rule *c, dop_want *out)
{
    char a[DOP_SHAPE_TEXT], b[DOP_SHAPE_TEXT];
    const dop_shape *s = &c->src[0]->shape, *w = &c->want->shape;
    dop_status st = dop_rule_check_shape(c, w);
    if (st != DOP_OK)
        return st;
    uint32_t sa[DOP_N_SYMS], sw[DOP_N_SYMS];
    uint64_t pa = dop_shape_product(s, sa), pw = dop_shape_product(w, sw);
    if (pa != pw || memcmp(sa + 1, sw + 1, sizeof sa - sizeof sa[0]) != 0)
        return DOP_RULE_BAD(c, "cannot view %%%s %s as %s", c->src[0]->name, dop_shape_text(c->g, s, a),
                            dop_shape_text(c->g, w, b));
    out->shape = *w;
    if (dop_type_of(out->type)->kind == DOP_KIND_QUANT && !dop_dim_equal(w->dim[w->rank - 1], dop_last_dim(c->src[0])))
        return DOP_RULE_BAD(c, "cannot change the last axis of %%%s, whose type %s comes in blocks along it",
                            c->src[0]->name, dop_type_of(out->type)->name);
    return DOP_OK;
}

static dop_status
rule_slice(const dop_rule *c, dop_want *out)
{
    char a[DOP_SHAPE_TEXT], b[DOP_SHAPE_TEXT];
    const dop_shape *s = &c->src[0]->shape, *w = &c->want->shape;
    dop_status st = dop_rule_check_shape(c, w);
    if (st != DOP_OK)
        return st;
    bool fits = w->rank == s->rank && dop_last_dim(c->src[0]).sym == DOP_SYM_1 && w->dim[w->rank - 1].sym == DOP_SYM_1;
    for (uint32_t i = 0; fits && i + 1 < s->rank; i++)
        fits = dop_dim_equal(s->dim[i], w->dim[i]);
    int64_t start = dop_rule_attr_i(c, DOP_A_start);
    if (!fits || start < 0 || start > (int64_t)UINT32_MAX ||
        start + (int64_t)w->dim[w->rank - 1].mul > (int64_t)dop_last_dim(c->src[0]).mul)
        return DOP_RULE_BAD(c, "cannot take %s at %lld of %%%s %s", dop_shape_text(c->g, w, b), (long long)start,
                            c->src[0]->name, dop_shape_text(c->g, s, a));
    if (start % dop_type_of(out->type)->block != 0)
        return DOP_RULE_BAD(c, "start %lld is not a multiple of the %u values in a block of %s", (long long)start,
                            dop_type_of(out->type)->block, dop_type_of(out->type)->name);
    out->shape = *w;
    return DOP_OK;
}

static dop_status
rule_concat(const dop_rule *c, dop_want *out)
{
    const dop_shape *a = &c->src[0]->shape, *b = &c->src[1]->shape;
    const uint32_t last = a->rank - 1;
    if (a->rank != b->rank || last == 0 || (uint64_t)a->dim[last].mul + b->dim[last].mul > UINT32_MAX)
        return dop_rule_mismatch(c, 0, 1);
    for (uint32_t i = 0; i < last; i++)
        if (!dop_dim_equal(a->dim[i], b->dim[i]))
            return dop_rule_mismatch(c, 0, 1);
    out->shape = *a;
    out->shape.dim[last].mul += b->dim[last].mul;
    return DOP_OK;
}

static dop_status
rule_rope(const dop_rule *c, dop_want *out)
{
    const long long dims = dop_rule_attr_i(c, DOP_A_dims), low = dop_rule_attr_i(c, DOP_A_low);
    dop_status st = dop_rule_need_rank(c, 0, 3);
    if (st != DOP_OK || (st = dop_rule_need_ids(c, 1, c->src[0])) != DOP_OK ||
        (st = dop_rule_need_rank(c, 2, 2)) != DOP_OK)
        return st;
    const dop_dim head = dop_last_dim(c->src[0]), cols = dop_last_dim(c->src[2]), rows = c->src[2]->shape.dim[0];
    if (dims < 2 || dims % 2 || dims > head.mul)
        return DOP_RULE_BAD(c, "dims=%lld must be even and at most the %u values of a head", dims, head.mul);
    if (cols.mul != dims)
        return DOP_RULE_BAD(c, "the table %%%s has rows of %u, not dims=%lld", c->src[2]->name, cols.mul, dims);
    if (low < 0 || (low > 0 && (rows.sym != DOP_SYM_1 || rows.mul <= low)))
        return DOP_RULE_BAD(c, "the table %%%s has no rows behind the first low=%lld", c->src[2]->name, low);
    if (c->n_srcs == 5)
        return DOP_RULE_BAD(c, "has turns %%%s and no table for them", c->src[4]->name);
    for (uint32_t i = 3; i < c->n_srcs && i < 5; i++)
        if ((st = dop_rule_need_ids(c, i, c->src[0])) != DOP_OK)
            return st;
    if (c->n_srcs > 5) {
        const dop_dim edges = c->src[5]->shape.dim[0];
        if ((st = dop_rule_need_rank(c, 5, 2)) != DOP_OK)
            return st;
        if (dop_last_dim(c->src[5]).mul != dims || edges.sym != DOP_SYM_1 || edges.mul % 2 != 0)
            return DOP_RULE_BAD(c, "the table %%%s has no even number of rows of dims=%lld", c->src[5]->name, dims);
    }
    out->shape = c->src[0]->shape;
    return DOP_OK;
}

static dop_status
rule_last_axis(const dop_rule *c, dop_want *out)
{
    dop_status st = DOP_OK;
    out->shape = c->src[0]->shape;
    switch (c->op) {
    case DOP_OP_row_rms:
    case DOP_OP_row_mean:
    case DOP_OP_row_istd:
        out->shape.dim[out->shape.rank - 1] = dop_dim_n(1);
        break;
    case DOP_OP_layernorm:
        st = c->src[2] ? need_vector(c, 2) : DOP_OK;
        if (st != DOP_OK)
            break;
        /* fallthrough */
    case DOP_OP_rmsnorm:
        st = need_vector(c, 1);
        break;
    case DOP_OP_argmax:
        if (out->shape.rank < 2)
            return DOP_RULE_BAD(c, "needs rank 2 or more");
        if (c->src[1])
            st = need_vector(c, 1);
        out->shape.rank--;
        out->shape.dim[out->shape.rank] = (dop_dim){0, DOP_SYM_1};
        out->type = DOP_TYPE_u32;
        break;
    default:
        break;
    }
    if (st == DOP_OK && dop_last_dim(c->src[0]).sym != DOP_SYM_1)
        return DOP_RULE_BAD(c, "works along the last axis, which must be constant");
    return st;
}

/* argmax_part [T,V] -> [T,parts,2], argmax_merge [T,parts,2] -> [T] u32 */
static dop_status
rule_argmax_step(const dop_rule *c, dop_want *out)
{
    const dop_shape *s = &c->src[0]->shape;
    bool part = c->op == DOP_OP_argmax_part;
    dop_status st = dop_rule_need_rank(c, 0, part ? 2 : 3);
    if (st != DOP_OK)
        return st;
    if (part) {
        out->shape = (dop_shape){3, {s->dim[0], dop_dim_n((uint32_t)dop_rule_attr_i(c, DOP_A_parts)), dop_dim_n(2)}};
        return DOP_OK;
    }
    if (s->dim[2].mul != 2)
        return DOP_RULE_BAD(c, "%%%s is not the result of argmax_part", c->src[0]->name);
    if (c->src[1])
        st = dop_rule_need_rank(c, 1, 1);
    out->shape = (dop_shape){1, {s->dim[0]}};
    out->type = DOP_TYPE_u32;
    return st;
}

/* moments [R,C] -> [parts,groups,3], moments_norm [parts,groups,3], [C], [C] -> [1,2C] */
static dop_status
rule_moments(const dop_rule *c, dop_want *out)
{
    const bool first = c->op == DOP_OP_moments;
    const dop_shape *s = &c->src[0]->shape;
    dop_status st = dop_rule_need_rank(c, 0, first ? 2 : 3);
    if (st != DOP_OK)
        return st;
    const uint32_t cols = first ? s->dim[1].mul : c->src[1]->shape.dim[0].mul;
    const int64_t parts = first ? dop_rule_attr_i(c, DOP_A_parts) : s->dim[0].mul,
                  groups = first ? dop_rule_attr_i(c, DOP_A_groups) : s->dim[1].mul;
    if (parts < 1 || groups < 1 || cols % groups || (first && s->dim[1].sym != DOP_SYM_1))
        return DOP_RULE_BAD(c, "has %u columns, which are no %lld groups", cols, (long long)groups);
    if (first) {
        out->shape = (dop_shape){3, {dop_dim_n((uint32_t)parts), dop_dim_n((uint32_t)groups), dop_dim_n(3)}};
        return DOP_OK;
    }
    for (uint32_t i = 1; i < 3; i++)
        if (c->src[i]->shape.rank != 1 || c->src[i]->shape.dim[0].mul != cols)
            return DOP_RULE_BAD(c, "needs a value for each of %u columns", cols);
    if (s->dim[2].mul != 3 || s->dim[0].sym != DOP_SYM_1)
        return DOP_RULE_BAD(c, "%%%s is not the result of moments", c->src[0]->name);
    out->shape = (dop_shape){2, {dop_dim_n(1), dop_dim_n(2 * cols)}};
    return DOP_OK;
}

/* Fails unless source i holds ids of rank 1 or 2. */
static dop_status
need_column_ids(const dop_rule *c, uint32_t i)
{
    char text[DOP_SHAPE_TEXT];
    const dop_node *ids = c->src[i];
    if (ids->type == DOP_TYPE_u32 && ids->shape.rank == 2 && dop_last_dim(ids).sym == DOP_SYM_1)
        return DOP_OK;
    if (ids->shape.rank <= 1 || ids->type != DOP_TYPE_u32)
        return dop_rule_need_ids(c, i, NULL);
    return DOP_RULE_BAD(c, "needs u32 ids [T] or [T,k] for source %u, %%%s is %s", i, ids->name,
                        dop_shape_text(c->g, &ids->shape, text));
}

/* Sets the shape of a gather: the axes of the ids, then those of a row of the table. */
static dop_status
set_gather_shape(const dop_rule *c, dop_want *out)
{
    const dop_shape *table = &c->src[0]->shape, *ids = &c->src[1]->shape;
    if (ids->rank + table->rank - 1 > DOP_MAX_RANK)
        return dop_rule_mismatch(c, 0, 1);
    out->shape = *ids;
    for (uint32_t i = 1; i < table->rank; i++)
        out->shape.dim[out->shape.rank++] = table->dim[i];
    return DOP_OK;
}

/* Returns the columns of a matmul: the rows of its matrix, or only the first ones if the stated shape has fewer. */
static dop_dim
count_product_columns(const dop_rule *c)
{
    const dop_dim rows = c->src[1]->shape.dim[0];
    const dop_shape *stated = &c->want->shape;
    const bool fewer = stated->rank == 2 && !rows.sym && !stated->dim[1].sym && stated->dim[1].mul < rows.mul;
    return fewer && stated->dim[1].mul > 0 ? stated->dim[1] : rows;
}

static dop_status
rule_rows(const dop_rule *c, dop_want *out)
{
    dop_status st;
    const dop_node *x = c->src[0];
    if (c->op != DOP_OP_matmul && x->shape.rank < 2)
        return DOP_RULE_BAD(c, "needs rank 2 or more");
    switch (c->op) {
    case DOP_OP_gather:
        if (dop_shape_appends(&x->shape))
            return DOP_RULE_BAD(c, "needs a table of rows, not the append state %%%s", x->name);
        if ((dop_rule_attr_i(c, DOP_A_first) || dop_rule_attr_i(c, DOP_A_of)) &&
            (x->shape.dim[0].sym ||
             dop_rule_attr_i(c, DOP_A_first) + x->shape.dim[0].mul > dop_rule_attr_i(c, DOP_A_of)))
            return DOP_RULE_BAD(c, "reads more rows than the table has");
        return (st = need_column_ids(c, 1)) == DOP_OK ? set_gather_shape(c, out) : st;
    case DOP_OP_last_row:
        out->shape = x->shape;
        out->shape.dim[0] = dop_dim_n(1);
        return DOP_OK;
    default: /* matmul */
        if ((st = dop_rule_need_rank(c, 0, 2)) != DOP_OK || (st = dop_rule_need_rank(c, 1, 2)) != DOP_OK)
            return st;
        if (!dop_dim_equal(dop_last_dim(x), dop_last_dim(c->src[1])))
            return dop_rule_mismatch(c, 0, 1);
        out->shape = (dop_shape){2, {x->shape.dim[0], count_product_columns(c)}};
        return DOP_OK;
    }
}

/* x [Y,X,C], w [N,KY,KX,C], bias [N]: the output's lengths follow from the windows. */
static dop_status
rule_conv(const dop_rule *c, dop_want *out)
{
    const dop_node *x = c->src[0], *w = c->src[1], *b = c->src[2];
    const uint64_t stride = (uint64_t)dop_rule_attr_i(c, DOP_A_stride),
                   dilation = (uint64_t)dop_rule_attr_i(c, DOP_A_dilation),
                   pad = (uint64_t)dop_rule_attr_i(c, DOP_A_pad);
    dop_status st = dop_rule_need_rank(c, 0, 3);
    if (st != DOP_OK || (st = dop_rule_need_rank(c, 1, 4)) != DOP_OK)
        return st;
    if (!dop_dim_equal(dop_last_dim(x), dop_last_dim(w)) || w->shape.dim[0].sym != DOP_SYM_1)
        return dop_rule_mismatch(c, 0, 1);
    if (b && (b->shape.rank != 1 || !dop_dim_equal(b->shape.dim[0], w->shape.dim[0])))
        return dop_rule_mismatch(c, 1, 2);
    out->shape = (dop_shape){3, {x->shape.dim[0], x->shape.dim[1], w->shape.dim[0]}};
    for (uint32_t i = 0; i < 2; i++) {
        const dop_dim in = x->shape.dim[i];
        const uint64_t taps = w->shape.dim[1 + i].mul, length = dop_window_length(in.mul, taps, stride, dilation, pad);
        if (in.sym != DOP_SYM_1 && (stride != 1 || 2 * pad != dilation * (taps - 1)))
            return DOP_RULE_BAD(c,
                                "axis %u of %%%s is a dimension, whose length only stride=1 and as much padding as "
                                "windows reach keep",
                                i, x->name);
        if (in.sym == DOP_SYM_1 && (length == 0 || length > UINT32_MAX))
            return DOP_RULE_BAD(c, "no window of %llu taps fits axis %u of %%%s", (unsigned long long)taps, i, x->name);
        out->shape.dim[i].mul = in.sym == DOP_SYM_1 ? (uint32_t)length : in.mul;
    }
    return DOP_OK;
}

/* x [R,C], whose rows are the positions of pictures, one picture after the other -> [R', taps of a window * C]. */
static dop_status
rule_unfold(const dop_rule *c, dop_want *out)
{
    enum { MOST = 1 << 15 }; /* bound of each attribute: a product of two fits 32 bits */
    static const dop_attr_id ids[] = {DOP_A_width,    DOP_A_height, DOP_A_taps, DOP_A_taps_y, DOP_A_stride,
                                      DOP_A_dilation, DOP_A_pad,    DOP_A_more, DOP_A_up};
    uint64_t a[9];
    dop_status st = dop_rule_need_rank(c, 0, 2);
    for (uint32_t i = 0; i < 9 && st == DOP_OK; i++) {
        a[i] = (uint64_t)dop_rule_attr_i(c, ids[i]);
        if (a[i] > MOST)
            st = DOP_RULE_BAD(c, "attribute %s=%llu is larger than %d", dop_attr_name(ids[i]), (unsigned long long)a[i],
                              MOST);
    }
    if (st != DOP_OK)
        return st;
    const dop_unfold u = dop_unfold_from(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8]);
    const dop_dim in = c->src[0]->shape.dim[0], cols = dop_last_dim(c->src[0]);
    if (u.flat && u.taps_y > 1)
        return DOP_RULE_BAD(c, "has windows of %llu lines, and pictures have no height", (unsigned long long)u.taps_y);
    if (u.wide == 0 || u.tall == 0)
        return DOP_RULE_BAD(c, "no window of %llu x %llu taps fits a picture of %llu x %llu",
                            (unsigned long long)u.taps_y, (unsigned long long)u.taps, (unsigned long long)u.height,
                            (unsigned long long)u.width);
    const uint64_t from = u.width * u.height, to = u.wide * u.tall, values = u.taps * u.taps_y * cols.mul;
    if (to > UINT32_MAX || in.mul * to % from || in.mul * to / from > UINT32_MAX || values > UINT32_MAX ||
        cols.sym != DOP_SYM_1 || (in.sym != DOP_SYM_1 && in.sym != DOP_SYM_T) || (in.sym == DOP_SYM_1 && in.mul % from))
        return DOP_RULE_BAD(c, "pictures of %llu places become pictures of %llu, and %%%s has no such rows",
                            (unsigned long long)from, (unsigned long long)to, c->src[0]->name);
    out->shape = (dop_shape){2, {{(uint32_t)(in.mul * to / from), in.sym}, dop_dim_n((uint32_t)values)}};
    return DOP_OK;
}

static dop_status
check_attr(const dop_rule *c, dop_attr_id a, dop_attr v)
{
    const char *name = dop_attr_name(a);
    switch (dop_attr_kind_of(a)) {
    case DOP_ATTR_F: {
        bool negative_ok = a == DOP_A_by || a == DOP_A_add || a == DOP_A_scale;
        if (!isfinite(v.f))
            return DOP_RULE_BAD(c, "attribute %s is not finite", name);
        if ((!negative_ok && v.f < 0) || (c->op == DOP_OP_softcap && v.f <= 0))
            return DOP_RULE_BAD(c, "attribute %s must be positive", name);
        return DOP_OK;
    }
    case DOP_ATTR_I:
    case DOP_ATTR_O: {
        int64_t lo = a == DOP_A_splits || a == DOP_A_parts || a == DOP_A_stride || a == DOP_A_dilation ||
                             a == DOP_A_width || a == DOP_A_taps || c->op == DOP_OP_top_k ||
                             c->op == DOP_OP_group_rows || c->op == DOP_OP_top_positions
                         ? 1
                         : 0,
                hi = a == DOP_A_interleaved ? 1 : UINT32_MAX;
        if (v.i < lo || v.i > hi)
            return DOP_RULE_BAD(c, "attribute %s=%lld is not in %lld to %lld", name, (long long)v.i, (long long)lo,
                                (long long)hi);
        return DOP_OK;
    }
    case DOP_ATTR_W:
    case DOP_ATTR_D:
        return dop_attr_word(a, v.i) ? DOP_OK : DOP_RULE_BAD(c, "attribute %s=%lld has no word", name, (long long)v.i);
    default:
        if (!v.s || !v.s[0] || strlen(v.s) > 1000)
            return DOP_RULE_BAD(c, "attribute %s is empty or longer than 1000 bytes", name);
        return DOP_OK;
    }
}

/* True if the values of the op may have any axes: it reads only its own index, or all of an axis that it shares with its sources.
 * Other ops give meaning to axes. */
static bool
accepts_any_shape(const dop_op_info *info)
{
    bool any = info->root == DOP_ROOT_none || info->root == DOP_ROOT_element || info->root == DOP_ROOT_row;
    for (uint32_t k = 0; k < info->src_max; k++) {
        const dop_access *a = &info->access[k];
        if (a->axis[DOP_AXIS_row] == DOP_ACCESS_window) /* windows of a picture; the op's own rule checks more */
            return true;
        any = any && a->axis[DOP_AXIS_pos] == DOP_ACCESS_none && a->axis[DOP_AXIS_part] == DOP_ACCESS_none &&
              a->axis[DOP_AXIS_row] <= DOP_ACCESS_same && a->axis[DOP_AXIS_head] <= DOP_ACCESS_same &&
              (a->axis[DOP_AXIS_col] <= DOP_ACCESS_same || a->axis[DOP_AXIS_col] == DOP_ACCESS_all);
    }
    return any;
}

static dop_status
check_src_shapes(const dop_rule *c)
{
    char text[DOP_SHAPE_TEXT];
    for (uint32_t i = 0; i < c->n_srcs; i++)
        if (!accepts_any_shape(c->info) && !dop_shape_is_rows(&c->src[i]->shape))
            return DOP_RULE_BAD(c, "reads rows of one dimension, %%%s is %s", c->src[i]->name,
                                dop_shape_text(c->g, &c->src[i]->shape, text));
    return DOP_OK;
}

/* Checks the types of sources: ids only for ops that read ids, block types only where rows of weights or caches are decoded. */
static dop_status
check_src_types(const dop_rule *c)
{
    if (c->info->traits & DOP_VIEW)
        return DOP_OK;
    for (uint32_t i = 0; i < c->n_srcs; i++) {
        bool ids = (c->op == DOP_OP_rope && (i == 1 || i == 3 || i == 4)) ||
                   ((c->op == DOP_OP_gather || c->op == DOP_OP_pick || c->op == DOP_OP_near_softmax) && i == 1) ||
                   (c->op == DOP_OP_matmul_at && i >= 2) || c->op == DOP_OP_group_rows ||
                   (c->op == DOP_OP_state_write && i >= 2) ||
                   (c->info->root == DOP_ROOT_attention &&
                    (i == 3 || i == 4 || i == dop_rule_lasts(c) || i == dop_rule_chosen(c))) ||
                   (c->info->root == DOP_ROOT_index && i >= 3) || (c->info->root == DOP_ROOT_positions && i == 1) ||
                   (c->op == DOP_OP_short_conv && i == 3) || (c->info->root == DOP_ROOT_scan && i == 5);
        bool blocks = (c->op == DOP_OP_gather && i == 0) || c->op == DOP_OP_cast || c->op == DOP_OP_dequant ||
                      ((c->op == DOP_OP_matmul || c->op == DOP_OP_matmul_at) && i == 1) ||
                      dop_shape_blocks(&c->src[i]->shape, c->src[i]->type);
        dop_type_kind kind = dop_type_of(c->src[i]->type)->kind;
        if (!ids && kind != DOP_KIND_FLOAT && !(blocks && kind == DOP_KIND_QUANT))
            return DOP_RULE_BAD(c, "cannot read type %s of %%%s", dop_type_of(c->src[i]->type)->name, c->src[i]->name);
    }
    return DOP_OK;
}

/* Sets the storage type of the result: the op's own type, unless the caller asks for another float type. */
static dop_status
set_result_type(const dop_rule *c, dop_want *out)
{
    dop_type want = c->want->type;
    if ((c->op == DOP_OP_cast || c->op == DOP_OP_dequant) && want == DOP_TYPE_none)
        return DOP_RULE_BAD(c, "has no type");
    if (want == DOP_TYPE_none || want == out->type)
        return DOP_OK;
    bool free_type = (c->info->traits & DOP_PURE) && out->type != DOP_TYPE_u32;
    if ((unsigned)want >= DOP_TYPE_COUNT || !free_type || dop_type_of(want)->kind != DOP_KIND_FLOAT)
        return DOP_RULE_BAD(c, "cannot give type %s", dop_type_of(want)->name);
    out->type = want;
    return DOP_OK;
}

static dop_status
apply_rule(const dop_rule *c, dop_want *out)
{
    switch (c->op) {
    case DOP_OP_input:
    case DOP_OP_received:
    case DOP_OP_weight:
    case DOP_OP_state:
        return rule_leaf(c, out);
    case DOP_OP_reshape:
        return rule_reshape(c, out);
    case DOP_OP_slice:
        return rule_slice(c, out);
    case DOP_OP_add:
    case DOP_OP_sub:
    case DOP_OP_mul:
    case DOP_OP_div:
        return rule_broadcast(c, &out->shape);
    case DOP_OP_xielu:
        return rule_xielu(c, out);
    case DOP_OP_concat:
        return rule_concat(c, out);
    case DOP_OP_rope:
        return rule_rope(c, out);
    case DOP_OP_row_rms:
    case DOP_OP_row_mean:
    case DOP_OP_row_istd:
    case DOP_OP_rmsnorm:
    case DOP_OP_layernorm:
    case DOP_OP_softmax:
    case DOP_OP_argmax:
        return rule_last_axis(c, out);
    case DOP_OP_argmax_part:
    case DOP_OP_argmax_merge:
        return rule_argmax_step(c, out);
    case DOP_OP_moments:
    case DOP_OP_moments_norm:
        return rule_moments(c, out);
    case DOP_OP_gather:
    case DOP_OP_last_row:
    case DOP_OP_matmul:
        return rule_rows(c, out);
    case DOP_OP_conv:
        return rule_conv(c, out);
    case DOP_OP_unfold:
        return rule_unfold(c, out);
    case DOP_OP_top_k:
        return dop_rule_top_k(c, out);
    case DOP_OP_group_rows:
        return dop_rule_group_rows(c, out);
    case DOP_OP_pick:
    case DOP_OP_near_softmax:
    case DOP_OP_matmul_at:
    case DOP_OP_weighted_sum:
        return dop_rule_experts(c, out);
    case DOP_OP_dot_at:
        return dop_rule_dot_at(c, out);
    case DOP_OP_state_write:
        return dop_rule_state_write(c, out);
    case DOP_OP_attention:
    case DOP_OP_attn_split:
        return dop_rule_attention(c, out);
    case DOP_OP_attn_combine:
        return dop_rule_attn_combine(c, out);
    case DOP_OP_index_scores:
        return dop_rule_index_scores(c, out);
    case DOP_OP_top_positions:
        return dop_rule_top_positions(c, out);
    case DOP_OP_short_conv:
        return dop_rule_short_conv(c, out);
    case DOP_OP_linear_scan:
    case DOP_OP_linear_scan_state:
        return dop_rule_linear_scan(c, out);
    case DOP_OP_dequant:
        if (c->src[0]->op != DOP_OP_weight || c->src[0]->shape.rank != 2)
            return DOP_RULE_BAD(c, "is not of a weight matrix");
        out->shape = c->src[0]->shape;
        return DOP_OK;
    default: /* one source, same shape */
        out->shape = c->src[0]->shape;
        return DOP_OK;
    }
}

dop_status
dop_shape_infer(const dop_graph *g, dop_op op, const char *name, const dop_node_id *srcs, uint32_t n_srcs,
                const dop_attr *attrs, const dop_want *want, dop_diag *diag, dop_want *out)
{
    static const dop_want none;
    dop_rule c = {.g = g,
                  .info = dop_op_of(op),
                  .op = op,
                  .name = name,
                  .n_srcs = n_srcs,
                  .attrs = attrs,
                  .want = want ? want : &none,
                  .diag = diag};
    dop_status st;
    if (op == DOP_OP_none || (unsigned)op >= DOP_OP_COUNT)
        return DOP_RULE_BAD(&c, "is not an op");
    if (n_srcs < c.info->src_min || n_srcs > c.info->src_max)
        return DOP_RULE_BAD(&c, "takes %u to %u sources, not %u", c.info->src_min, c.info->src_max, n_srcs);
    for (uint32_t i = 0; i < n_srcs; i++)
        c.src[i] = dop_node_at(g, srcs[i]);
    if (c.info->n_attrs && !attrs)
        return DOP_RULE_BAD(&c, "needs its attributes");
    for (uint8_t k = 0; k < c.info->n_attrs; k++)
        if ((st = check_attr(&c, c.info->attrs[k], attrs[k])) != DOP_OK)
            return st;
    if ((st = check_src_types(&c)) != DOP_OK || (st = check_src_shapes(&c)) != DOP_OK)
        return st;
    *out = (dop_want){(c.info->traits & DOP_VIEW) ? c.src[0]->type : DOP_TYPE_f32, {0}};
    if ((st = apply_rule(&c, out)) != DOP_OK || (st = set_result_type(&c, out)) != DOP_OK)
        return st;
    return dop_rule_check_shape(&c, &out->shape);
}
