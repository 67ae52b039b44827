/* One rule per op, under the op's name.  Only axis 0 may be symbolic (T, S or Q), and axis 1 of append state (S, or a ring). */
#include "ir/shapes.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Most values of one tensor: far above any real one, low enough that byte counts never overflow. */
#define MAX_VALUES ((uint64_t)1 << 40)
enum { MAX_SPAN = 1 << 16 };

typedef struct rule_ctx {
    const dop_graph *g;
    const dop_op_info *info;
    dop_op op;
    const char *name;
    const dop_node *src[DOP_MAX_SRCS];
    const dop_attr *attrs;
    const dop_want *want; /* never NULL */
    dop_diag *diag;
} rule_ctx;

#define BAD(c, ...) bad((c), __LINE__, __VA_ARGS__)

static dop_status bad(const rule_ctx *c, int line, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

static dop_status
bad(const rule_ctx *c, int line, const char *fmt, ...)
{
    char text[600];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return dop_fail(c->diag, __FILE__, line, DOP_E_INTERNAL, NULL, 0, 0, "%%%s: %s %s", c->name, c->info->name, text);
}

static bool
dim_equal(dop_dim a, dop_dim b)
{
    return a.mul == b.mul && a.sym == b.sym;
}

static bool
dim_is_one(dop_dim d)
{
    return d.mul == 1 && d.sym == DOP_SYM_1;
}

static dop_dim
last_dim(const dop_node *n)
{
    return n->shape.dim[n->shape.rank - 1];
}

static int64_t
attr_i(const rule_ctx *c, dop_attr_id a)
{
    for (uint8_t k = 0; k < c->info->n_attrs; k++)
        if (c->info->attrs[k] == a)
            return c->attrs[k].i;
    return 0;
}

static dop_status
check_shape(const rule_ctx *c, const dop_shape *s)
{
    if (s->rank < 1 || s->rank > DOP_MAX_RANK)
        return BAD(c, "has rank %u; 1 to %d are possible", s->rank, DOP_MAX_RANK);
    uint64_t cols = 1, values;
    for (uint32_t i = 0; i < s->rank; i++) {
        dop_dim d = s->dim[i];
        if (d.mul == 0 || (unsigned)d.sym >= DOP_N_SYMS || (i == 0 && d.sym == DOP_SYM_R))
            return BAD(c, "axis %u is empty", i);
        if (i == 0)
            continue;
        if (i == 1 && s->dim[0].sym == DOP_SYM_Q && (d.sym == DOP_SYM_R || (d.sym == DOP_SYM_S && d.mul == 1)))
            continue;
        if (d.sym != DOP_SYM_1)
            return BAD(c, "axis %u depends on T, S or Q; only axis 0 may", i);
        if (!dop_mul_u64(cols, d.mul, &cols) || cols > UINT32_MAX)
            return BAD(c, "a row has more than 2^32-1 values");
    }
    uint64_t rows = dop_dim_value(c->g, s->dim[0], c->g->max_t),
             positions = dop_shape_appends(s) ? dop_dim_value(c->g, s->dim[1], 1) : 1;
    if (!dop_mul_u64(rows, positions, &rows) || !dop_mul_u64(cols, rows, &values) || values > MAX_VALUES ||
        rows > UINT32_MAX)
        return BAD(c, "is too large");
    return DOP_OK;
}

static dop_status
need_rank(const rule_ctx *c, uint32_t i, uint32_t rank)
{
    char text[DOP_SHAPE_TEXT];
    if (c->src[i]->shape.rank != rank)
        return BAD(c, "needs rank %u for source %u, %%%s is %s", rank, i, c->src[i]->name,
                   dop_shape_text(&c->src[i]->shape, text));
    return DOP_OK;
}

/* Sources that index rows: [n] u32 with n the first axis of `rows`. */
static dop_status
need_ids(const rule_ctx *c, uint32_t i, const dop_node *rows)
{
    char a[DOP_SHAPE_TEXT], b[DOP_SHAPE_TEXT];
    const dop_node *ids = c->src[i];
    if (ids->type != DOP_TYPE_u32 || ids->shape.rank != 1)
        return BAD(c, "needs u32 ids of rank 1 for source %u, %%%s is %s%s", i, ids->name, dop_type_of(ids->type)->name,
                   dop_shape_text(&ids->shape, a));
    if (rows && !dim_equal(ids->shape.dim[0], rows->shape.dim[0]))
        return BAD(c, "%%%s %s and %%%s %s differ on axis 0", ids->name, dop_shape_text(&ids->shape, a), rows->name,
                   dop_shape_text(&rows->shape, b));
    return DOP_OK;
}

/* The sequence of each of these rows, or one for all rows. */
static dop_status
need_sequences(const rule_ctx *c, uint32_t i, const dop_node *rows)
{
    const dop_shape *s = &c->src[i]->shape;
    bool one = s->rank == 1 && s->dim[0].sym == DOP_SYM_1 && s->dim[0].mul == 1;
    return need_ids(c, i, one ? NULL : rows);
}

static dop_status
mismatch(const rule_ctx *c, uint32_t i, uint32_t j)
{
    char a[DOP_SHAPE_TEXT], b[DOP_SHAPE_TEXT];
    return BAD(c, "%%%s %s and %%%s %s do not fit", c->src[i]->name, dop_shape_text(&c->src[i]->shape, a),
               c->src[j]->name, dop_shape_text(&c->src[j]->shape, b));
}

/* A vector as long as the last axis of source 0. */
static dop_status
need_vector(const rule_ctx *c, uint32_t i)
{
    if (c->src[i]->shape.rank != 1 || !dim_equal(last_dim(c->src[i]), last_dim(c->src[0])))
        return mismatch(c, 0, i);
    return DOP_OK;
}

/* Numpy: last axes align; equal, or one of them is 1. */
static dop_status
rule_broadcast(const rule_ctx *c, dop_shape *out)
{
    const dop_shape *a = &c->src[0]->shape, *b = &c->src[1]->shape;
    const dop_shape *hi = a->rank >= b->rank ? a : b, *lo = hi == a ? b : a;
    uint32_t skip = hi->rank - lo->rank;
    *out = *hi;
    for (uint32_t i = 0; i < lo->rank; i++) {
        dop_dim x = hi->dim[skip + i], y = lo->dim[i];
        if (dim_equal(x, y) || dim_is_one(y))
            continue;
        if (!dim_is_one(x))
            return mismatch(c, 0, 1);
        out->dim[skip + i] = y;
    }
    return DOP_OK;
}

/* Shaped as its first source; the others are one value each. */
static dop_status
rule_xielu(const rule_ctx *c, dop_want *out)
{
    out->shape = c->src[0]->shape;
    for (uint32_t i = 1; i < 4; i++)
        if (c->src[i]->shape.rank != 1 || !dim_is_one(last_dim(c->src[i])))
            return mismatch(c, 0, i);
    return DOP_OK;
}

static dop_status
rule_leaf(const rule_ctx *c, dop_want *out)
{
    if (c->want->type == DOP_TYPE_none || (unsigned)c->want->type >= DOP_TYPE_COUNT)
        return BAD(c, "has no type");
    dop_type_kind kind = dop_type_of(c->want->type)->kind;
    if ((c->op == DOP_OP_input || c->op == DOP_OP_received) && kind == DOP_KIND_QUANT)
        return BAD(c, "cannot have the block type %s", dop_type_of(c->want->type)->name);
    if (c->op == DOP_OP_state && kind != DOP_KIND_FLOAT && !dop_shape_blocks(&c->want->shape, c->want->type))
        return BAD(c, "must have a float type, not %s", dop_type_of(c->want->type)->name);
    *out = *c->want;
    const dop_shape *s = &out->shape;
    if (c->op != DOP_OP_state)
        return DOP_OK;
    char text[DOP_SHAPE_TEXT];
    bool sequences = s->rank >= 2 && s->rank <= DOP_MAX_RANK && s->dim[0].sym == DOP_SYM_Q && s->dim[0].mul == 1;
    if (attr_i(c, DOP_A_kind) == DOP_STATE_append && !(sequences && s->rank >= 3 && dop_shape_appends(s)))
        return BAD(c, "of kind append is [Q,S,...] or a ring [Q,<rows>R,...], not %s", dop_shape_text(s, text));
    if (attr_i(c, DOP_A_kind) == DOP_STATE_replace && !(sequences && !dop_shape_appends(s)))
        return BAD(c, "of kind replace is [Q,...], not %s", dop_shape_text(s, text));
    return DOP_OK;
}

static dop_status
rule_reshape(const rule_ctx *c, dop_want *out)
{
    char a[DOP_SHAPE_TEXT], b[DOP_SHAPE_TEXT];
    const dop_shape *s = &c->src[0]->shape, *w = &c->want->shape;
    dop_status st = check_shape(c, w);
    if (st != DOP_OK)
        return st;
    uint32_t sa[DOP_N_SYMS], sw[DOP_N_SYMS];
    uint64_t pa = dop_shape_product(s, sa), pw = dop_shape_product(w, sw);
    if (pa != pw || memcmp(sa + 1, sw + 1, sizeof sa - sizeof sa[0]) != 0)
        return BAD(c, "cannot view %%%s %s as %s", c->src[0]->name, dop_shape_text(s, a), dop_shape_text(w, b));
    out->shape = *w;
    if (dop_type_of(out->type)->kind == DOP_KIND_QUANT && !dim_equal(w->dim[w->rank - 1], last_dim(c->src[0])))
        return BAD(c, "cannot change the last axis of %%%s, whose type %s comes in blocks along it", c->src[0]->name,
                   dop_type_of(out->type)->name);
    return DOP_OK;
}

static dop_status
rule_slice(const rule_ctx *c, dop_want *out)
{
    char a[DOP_SHAPE_TEXT], b[DOP_SHAPE_TEXT];
    const dop_shape *s = &c->src[0]->shape, *w = &c->want->shape;
    dop_status st = check_shape(c, w);
    if (st != DOP_OK)
        return st;
    bool fits = w->rank == s->rank && last_dim(c->src[0]).sym == DOP_SYM_1 && w->dim[w->rank - 1].sym == DOP_SYM_1;
    for (uint32_t i = 0; fits && i + 1 < s->rank; i++)
        fits = dim_equal(s->dim[i], w->dim[i]);
    int64_t start = attr_i(c, DOP_A_start);
    if (!fits || start < 0 || start > (int64_t)UINT32_MAX ||
        start + (int64_t)w->dim[w->rank - 1].mul > (int64_t)last_dim(c->src[0]).mul)
        return BAD(c, "cannot take %s at %lld of %%%s %s", dop_shape_text(w, b), (long long)start, c->src[0]->name,
                   dop_shape_text(s, a));
    if (start % dop_type_of(out->type)->block != 0)
        return BAD(c, "start %lld is not a multiple of the %u values in a block of %s", (long long)start,
                   dop_type_of(out->type)->block, dop_type_of(out->type)->name);
    out->shape = *w;
    return DOP_OK;
}

static dop_status
rule_concat(const rule_ctx *c, dop_want *out)
{
    const dop_shape *a = &c->src[0]->shape, *b = &c->src[1]->shape;
    const uint32_t last = a->rank - 1;
    if (a->rank != b->rank || last == 0 || (uint64_t)a->dim[last].mul + b->dim[last].mul > UINT32_MAX)
        return mismatch(c, 0, 1);
    for (uint32_t i = 0; i < last; i++)
        if (!dim_equal(a->dim[i], b->dim[i]))
            return mismatch(c, 0, 1);
    out->shape = *a;
    out->shape.dim[last].mul += b->dim[last].mul;
    return DOP_OK;
}

static dop_status
rule_rope(const rule_ctx *c, dop_want *out)
{
    const long long dims = attr_i(c, DOP_A_dims), low = attr_i(c, DOP_A_low);
    dop_status st = need_rank(c, 0, 3);
    if (st != DOP_OK || (st = need_ids(c, 1, c->src[0])) != DOP_OK || (st = need_rank(c, 2, 2)) != DOP_OK)
        return st;
    const dop_dim head = last_dim(c->src[0]), cols = last_dim(c->src[2]), rows = c->src[2]->shape.dim[0];
    if (dims < 2 || dims % 2 || dims > head.mul)
        return BAD(c, "dims=%lld must be even and at most the %u values of a head", dims, head.mul);
    if (cols.mul != dims)
        return BAD(c, "the table %%%s has rows of %u, not dims=%lld", c->src[2]->name, cols.mul, dims);
    if (low < 0 || (low > 0 && (rows.sym != DOP_SYM_1 || rows.mul <= low)))
        return BAD(c, "the table %%%s has no rows behind the first low=%lld", c->src[2]->name, low);
    out->shape = c->src[0]->shape;
    return DOP_OK;
}

static dop_status
rule_last_axis(const rule_ctx *c, dop_want *out)
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
            return BAD(c, "needs rank 2 or more");
        out->shape.rank--;
        out->shape.dim[out->shape.rank] = (dop_dim){0, DOP_SYM_1};
        out->type = DOP_TYPE_u32;
        break;
    default:
        break;
    }
    if (st == DOP_OK && last_dim(c->src[0]).sym != DOP_SYM_1)
        return BAD(c, "works along the last axis, which must be constant");
    return st;
}

/* argmax_part [T,V] -> [T,parts,2], argmax_merge [T,parts,2] -> [T] u32 */
static dop_status
rule_argmax_step(const rule_ctx *c, dop_want *out)
{
    const dop_shape *s = &c->src[0]->shape;
    bool part = c->op == DOP_OP_argmax_part;
    dop_status st = need_rank(c, 0, part ? 2 : 3);
    if (st != DOP_OK)
        return st;
    if (part) {
        out->shape = (dop_shape){3, {s->dim[0], dop_dim_n((uint32_t)attr_i(c, DOP_A_parts)), dop_dim_n(2)}};
        return DOP_OK;
    }
    if (s->dim[2].mul != 2)
        return BAD(c, "%%%s is not the result of argmax_part", c->src[0]->name);
    out->shape = (dop_shape){1, {s->dim[0]}};
    out->type = DOP_TYPE_u32;
    return DOP_OK;
}

/* Ids of rank 1 or 2. */
static dop_status
need_columns(const rule_ctx *c, uint32_t i)
{
    char text[DOP_SHAPE_TEXT];
    const dop_node *ids = c->src[i];
    if (ids->type == DOP_TYPE_u32 && ids->shape.rank == 2 && last_dim(ids).sym == DOP_SYM_1)
        return DOP_OK;
    if (ids->shape.rank <= 1 || ids->type != DOP_TYPE_u32)
        return need_ids(c, i, NULL);
    return BAD(c, "needs u32 ids [T] or [T,k] for source %u, %%%s is %s", i, ids->name,
               dop_shape_text(&ids->shape, text));
}

/* The shape of the ids, then that of a row of the table. */
static dop_status
gathered(const rule_ctx *c, dop_want *out)
{
    const dop_shape *table = &c->src[0]->shape, *ids = &c->src[1]->shape;
    if (ids->rank + table->rank - 1 > DOP_MAX_RANK)
        return mismatch(c, 0, 1);
    out->shape = *ids;
    for (uint32_t i = 1; i < table->rank; i++)
        out->shape.dim[out->shape.rank++] = table->dim[i];
    return DOP_OK;
}

/* Ids [T,k] for the rows of source 0. */
static dop_status
need_choice(const rule_ctx *c, uint32_t i)
{
    dop_status st = need_rank(c, i, 2);
    if (st != DOP_OK)
        return st;
    if (c->src[i]->type != DOP_TYPE_u32)
        return BAD(c, "needs u32 ids for source %u, %%%s is %s", i, c->src[i]->name,
                   dop_type_of(c->src[i]->type)->name);
    return dim_equal(c->src[0]->shape.dim[0], c->src[i]->shape.dim[0]) ? DOP_OK : mismatch(c, 0, i);
}

static dop_status
rule_top_k(const rule_ctx *c, dop_want *out)
{
    dop_status st = need_rank(c, 0, 2);
    if (st != DOP_OK)
        return st;
    uint64_t n = last_dim(c->src[0]).mul, k = (uint64_t)attr_i(c, DOP_A_k), groups = (uint64_t)attr_i(c, DOP_A_groups);
    uint64_t best = (uint64_t)attr_i(c, DOP_A_group_best), keep = (uint64_t)attr_i(c, DOP_A_group_keep);
    if (n % groups || best > n / groups || keep > groups)
        return BAD(c, "cannot keep %llu of %llu groups of %llu columns by their best %llu", (unsigned long long)keep,
                   (unsigned long long)groups, (unsigned long long)n, (unsigned long long)best);
    if (k > n / groups * keep)
        return BAD(c, "cannot take %llu of %llu columns", (unsigned long long)k,
                   (unsigned long long)(n / groups * keep));
    out->shape = (dop_shape){2, {c->src[0]->shape.dim[0], dop_dim_n((uint32_t)k)}};
    out->type = DOP_TYPE_u32;
    return DOP_OK;
}

/* Blocks that any ids of the longest step need: all are full except the last block of each expert. */
static dop_status
rule_group_rows(const rule_ctx *c, dop_want *out)
{
    dop_status st = need_choice(c, 0);
    if (st != DOP_OK)
        return st;
    uint64_t pairs = dop_dim_value(c->g, c->src[0]->shape.dim[0], c->g->max_t) * last_dim(c->src[0]).mul;
    uint64_t experts = (uint64_t)attr_i(c, DOP_A_experts), span = (uint64_t)attr_i(c, DOP_A_span);
    uint64_t used = experts < pairs ? experts : pairs, blocks = (pairs + used * (span - 1)) / span;
    if (blocks > UINT32_MAX || span > MAX_SPAN)
        return BAD(c, "cannot make %llu blocks of %llu", (unsigned long long)blocks, (unsigned long long)span);
    out->shape = (dop_shape){2, {dop_dim_n((uint32_t)blocks), dop_dim_n((uint32_t)span + 1)}};
    out->type = DOP_TYPE_u32;
    return DOP_OK;
}

/* Blocks of the ids, and the experts that they are of. */
static dop_status
need_blocks(const rule_ctx *c)
{
    const dop_node *b = c->src[3], *w = c->src[1];
    if (b->op != DOP_OP_group_rows || dop_node_at(c->g, b->src[0]) != c->src[2])
        return BAD(c, "needs the blocks of %%%s for source 3, not %%%s", c->src[2]->name, b->name);
    return b->attr[0].i == w->shape.dim[0].mul ? DOP_OK : mismatch(c, 1, 3);
}

/* matmul_at without ids: x [T,k,K], w [k,N,K]. */
static dop_status
matrix_by_slot(const rule_ctx *c, dop_want *out)
{
    const dop_shape *x = &c->src[0]->shape, *w = &c->src[1]->shape;
    dop_status st = need_rank(c, 0, 3);
    if (st != DOP_OK)
        return st;
    if (!dim_equal(x->dim[1], w->dim[0]) || !dim_equal(x->dim[2], w->dim[2]))
        return mismatch(c, 0, 1);
    out->shape = (dop_shape){3, {x->dim[0], x->dim[1], w->dim[1]}};
    return DOP_OK;
}

static dop_status
rule_experts(const rule_ctx *c, dop_want *out)
{
    dop_status st;
    const dop_node *x = c->src[0], *y = c->src[1];
    switch (c->op) {
    case DOP_OP_pick:
        if ((st = need_rank(c, 0, 2)) != DOP_OK || (st = need_choice(c, 1)) != DOP_OK)
            return st;
        out->shape = y->shape;
        return DOP_OK;
    case DOP_OP_weighted_sum:
        if ((st = need_rank(c, 0, 3)) != DOP_OK || (st = need_rank(c, 1, 2)) != DOP_OK)
            return st;
        if (!dim_equal(x->shape.dim[0], y->shape.dim[0]) || !dim_equal(x->shape.dim[1], y->shape.dim[1]))
            return mismatch(c, 0, 1);
        out->shape = (dop_shape){2, {x->shape.dim[0], last_dim(x)}};
        return DOP_OK;
    default: /* matmul_at */
        if ((st = need_rank(c, 1, 3)) != DOP_OK)
            return st;
        if (!c->src[2])
            return matrix_by_slot(c, out);
        if ((st = need_choice(c, 2)) != DOP_OK)
            return st;
        if (x->shape.rank != 2 && (st = need_rank(c, 0, 3)) != DOP_OK)
            return st;
        if (!dim_equal(last_dim(x), last_dim(y)))
            return mismatch(c, 0, 1);
        if (x->shape.rank == 3 && !dim_equal(x->shape.dim[1], c->src[2]->shape.dim[1]))
            return mismatch(c, 0, 2);
        if (c->src[3] && (st = need_blocks(c)) != DOP_OK)
            return st;
        out->shape = (dop_shape){3, {x->shape.dim[0], c->src[2]->shape.dim[1], y->shape.dim[1]}};
        return DOP_OK;
    }
}

static dop_status
rule_rows(const rule_ctx *c, dop_want *out)
{
    dop_status st;
    const dop_node *x = c->src[0];
    if (c->op != DOP_OP_matmul && x->shape.rank < 2)
        return BAD(c, "needs rank 2 or more");
    switch (c->op) {
    case DOP_OP_gather:
        if (dop_shape_appends(&x->shape))
            return BAD(c, "needs a table of rows, not the append state %%%s", x->name);
        if ((attr_i(c, DOP_A_first) || attr_i(c, DOP_A_of)) &&
            (x->shape.dim[0].sym || attr_i(c, DOP_A_first) + x->shape.dim[0].mul > attr_i(c, DOP_A_of)))
            return BAD(c, "reads more rows than the table has");
        return (st = need_columns(c, 1)) == DOP_OK ? gathered(c, out) : st;
    case DOP_OP_last_row:
        out->shape = x->shape;
        out->shape.dim[0] = dop_dim_n(1);
        return DOP_OK;
    default: /* matmul */
        if ((st = need_rank(c, 0, 2)) != DOP_OK || (st = need_rank(c, 1, 2)) != DOP_OK)
            return st;
        if (!dim_equal(last_dim(x), last_dim(c->src[1])))
            return mismatch(c, 0, 1);
        out->shape = (dop_shape){2, {x->shape.dim[0], c->src[1]->shape.dim[0]}};
        return DOP_OK;
    }
}

/* Do two values agree from their axes a and b on? */
static bool
same_tail(const dop_node *x, uint32_t a, const dop_node *y, uint32_t b)
{
    if (x->shape.rank - a != y->shape.rank - b)
        return false;
    for (uint32_t i = 0; a + i < x->shape.rank; i++)
        if (!dim_equal(x->shape.dim[a + i], y->shape.dim[b + i]))
            return false;
    return true;
}

static dop_status
rule_state_write(const rule_ctx *c, uint32_t n_srcs, dop_want *out)
{
    dop_status st = DOP_OK;
    const dop_node *state = c->src[0], *x = c->src[1];
    bool appends = dop_shape_appends(&state->shape), whole = !appends && dop_shape_equal(&state->shape, &x->shape);
    bool tail = !appends && !whole && state->shape.rank == x->shape.rank + 1; /* the last rows, not the last one */
    uint32_t ids = appends ? 2 : whole ? 0 : 1;                               /* sources that index rows */
    out->shape = state->shape;
    out->type = state->type;
    if (state->shape.dim[0].sym != DOP_SYM_Q)
        return BAD(c, "needs state for source 0, %%%s is none", state->name);
    if (n_srcs != 2 + ids)
        return BAD(c, "of %s takes %u sources, not %u",
                   appends ? "append state"
                   : whole ? "replace state as a whole"
                           : "replace state by rows",
                   2 + ids, n_srcs);
    if (whole)
        return DOP_OK;
    for (uint32_t i = 2; i < n_srcs && st == DOP_OK; i++)
        st = i + 1 == n_srcs ? need_sequences(c, i, x) : need_ids(c, i, x);
    if (st == DOP_OK && !same_tail(state, appends || tail ? 2 : 1, x, 1))
        return mismatch(c, 0, 1);
    return st;
}

/* Axes that must be equal: of source a its axis x, of source b its axis y; the ranks of all (0: of ids) come first. */
typedef struct equal_axes {
    uint8_t a, x, b, y;
} equal_axes;

static dop_status
need_axes(const rule_ctx *c, uint32_t n_srcs, const uint8_t *ranks, uint32_t state, const equal_axes *axes, uint32_t n)
{
    dop_status st = DOP_OK;
    for (uint32_t i = 0; i < n_srcs && st == DOP_OK; i++)
        st = ranks[i] ? need_rank(c, i, ranks[i]) : need_sequences(c, i, c->src[0]);
    if (st == DOP_OK && (c->src[state]->shape.dim[0].sym != DOP_SYM_Q || dop_shape_appends(&c->src[state]->shape)))
        return BAD(c, "needs replace state for source %u, %%%s is none", state, c->src[state]->name);
    for (uint32_t i = 0; i < n && st == DOP_OK; i++)
        if (axes[i].b < n_srcs &&
            !dim_equal(c->src[axes[i].a]->shape.dim[axes[i].x], c->src[axes[i].b]->shape.dim[axes[i].y]))
            return mismatch(c, axes[i].a, axes[i].b);
    return st;
}

static dop_status
rule_short_conv(const rule_ctx *c, uint32_t n_srcs, dop_want *out)
{
    static const uint8_t ranks[] = {2, 3, 2, 0, 1};
    static const equal_axes axes[] = {{0, 1, 1, 2}, {0, 1, 2, 1}, {0, 1, 4, 0}};
    dop_status st = need_axes(c, n_srcs, ranks, 1, axes, 3);
    if (st != DOP_OK)
        return st;
    if (c->src[1]->shape.dim[1].mul + 1 != c->src[2]->shape.dim[0].mul || c->src[2]->shape.dim[0].sym != DOP_SYM_1)
        return mismatch(c, 1, 2);
    out->shape = c->src[0]->shape;
    return DOP_OK;
}

static dop_status
rule_linear_scan(const rule_ctx *c, uint32_t n_srcs, dop_want *out)
{
    static const uint8_t ranks[] = {3, 3, 3, 2, 4, 0, 2};
    static const equal_axes axes[] = {{0, 0, 1, 0}, {0, 1, 1, 1}, {0, 2, 1, 2}, {0, 0, 2, 0},
                                      {2, 0, 3, 0}, {2, 1, 3, 1}, {2, 1, 4, 1}, {2, 2, 4, 2},
                                      {0, 2, 4, 3}, {3, 0, 6, 0}, {3, 1, 6, 1}};
    dop_status st = need_axes(c, n_srcs, ranks, 4, axes, sizeof axes / sizeof *axes);
    if (st != DOP_OK)
        return st;
    if (c->src[2]->shape.dim[1].mul % c->src[0]->shape.dim[1].mul != 0)
        return mismatch(c, 0, 2);
    out->shape = c->op == DOP_OP_linear_scan ? c->src[2]->shape : c->src[4]->shape;
    return DOP_OK;
}

static dop_status
rule_attention(const rule_ctx *c, uint32_t n_srcs, dop_want *out)
{
    dop_status st;
    const dop_node *q = c->src[0], *k = c->src[1], *v = c->src[2];
    for (uint32_t i = 0; i < 3; i++) {
        if ((st = need_rank(c, i, i ? 4 : 3)) != DOP_OK)
            return st;
        if (i && !dop_shape_appends(&c->src[i]->shape))
            return BAD(c, "needs append state for source %u, %%%s is none", i, c->src[i]->name);
    }
    if ((st = need_ids(c, 3, q)) != DOP_OK || (st = need_sequences(c, 4, q)) != DOP_OK)
        return st;
    for (uint32_t i = 0; i < 3; i++) /* values may have another length */
        if (!dim_equal(k->shape.dim[i], v->shape.dim[i]))
            return mismatch(c, 1, 2);
    if (!dim_equal(last_dim(q), last_dim(k)) || q->shape.dim[1].mul % k->shape.dim[2].mul != 0)
        return mismatch(c, 0, 1);
    if (n_srcs == 6 && (c->src[5]->shape.rank != 1 || !dim_equal(c->src[5]->shape.dim[0], q->shape.dim[1])))
        return mismatch(c, 0, 5);
    out->shape = q->shape;
    out->shape.dim[2] = last_dim(v);
    if (c->op == DOP_OP_attn_split) {
        uint64_t rows = (uint64_t)q->shape.dim[1].mul * (uint64_t)attr_i(c, DOP_A_splits);
        if (rows > UINT32_MAX || last_dim(v).mul > UINT32_MAX - 2)
            return BAD(c, "is too large");
        out->shape.dim[1].mul = (uint32_t)rows;
        out->shape.dim[2].mul += 2;
    }
    return DOP_OK;
}

static dop_status
rule_attn_combine(const rule_ctx *c, dop_want *out)
{
    dop_status st = need_rank(c, 0, 3);
    if (st != DOP_OK)
        return st;
    const dop_shape *s = &c->src[0]->shape;
    uint32_t splits = (uint32_t)attr_i(c, DOP_A_splits);
    if (s->dim[1].mul % splits != 0 || s->dim[2].mul < 3)
        return BAD(c, "%%%s is not the result of attn_split with splits=%u", c->src[0]->name, splits);
    out->shape = *s;
    out->shape.dim[1].mul /= splits;
    out->shape.dim[2].mul -= 2;
    return DOP_OK;
}

static dop_status
check_attr(const rule_ctx *c, dop_attr_id a, dop_attr v)
{
    const char *name = dop_attr_name(a);
    switch (dop_attr_kind_of(a)) {
    case DOP_ATTR_F: {
        bool negative_ok = a == DOP_A_by || a == DOP_A_add || a == DOP_A_scale;
        if (!isfinite(v.f))
            return BAD(c, "attribute %s is not finite", name);
        if ((!negative_ok && v.f < 0) || (c->op == DOP_OP_softcap && v.f <= 0))
            return BAD(c, "attribute %s must be positive", name);
        return DOP_OK;
    }
    case DOP_ATTR_I:
    case DOP_ATTR_O: {
        int64_t lo = a == DOP_A_splits || a == DOP_A_parts || c->op == DOP_OP_top_k || c->op == DOP_OP_group_rows ? 1
                                                                                                                  : 0,
                hi = a == DOP_A_interleaved ? 1 : UINT32_MAX;
        if (v.i < lo || v.i > hi)
            return BAD(c, "attribute %s=%lld is not in %lld to %lld", name, (long long)v.i, (long long)lo,
                       (long long)hi);
        return DOP_OK;
    }
    case DOP_ATTR_W:
        return dop_attr_word(a, v.i) ? DOP_OK : BAD(c, "attribute %s=%lld has no word", name, (long long)v.i);
    default:
        if (!v.s || !v.s[0] || strlen(v.s) > 1000)
            return BAD(c, "attribute %s is empty or longer than 1000 bytes", name);
        return DOP_OK;
    }
}

/* Types of the sources: ids only where an op reads ids, block types only where rows of weights or caches are decoded. */
static dop_status
check_src_types(const rule_ctx *c, uint32_t n_srcs)
{
    if (c->info->traits & DOP_VIEW)
        return DOP_OK;
    for (uint32_t i = 0; i < n_srcs; i++) {
        bool ids = (c->op == DOP_OP_rope && i == 1) || ((c->op == DOP_OP_gather || c->op == DOP_OP_pick) && i == 1) ||
                   (c->op == DOP_OP_matmul_at && i >= 2) || c->op == DOP_OP_group_rows ||
                   (c->op == DOP_OP_state_write && i >= 2) ||
                   ((c->op == DOP_OP_attention || c->op == DOP_OP_attn_split) && (i == 3 || i == 4)) ||
                   (c->op == DOP_OP_short_conv && i == 3) || (c->info->root == DOP_ROOT_scan && i == 5);
        bool blocks = (c->op == DOP_OP_gather && i == 0) || c->op == DOP_OP_cast || c->op == DOP_OP_dequant ||
                      ((c->op == DOP_OP_matmul || c->op == DOP_OP_matmul_at) && i == 1) ||
                      dop_shape_blocks(&c->src[i]->shape, c->src[i]->type);
        dop_type_kind kind = dop_type_of(c->src[i]->type)->kind;
        if (!ids && kind != DOP_KIND_FLOAT && !(blocks && kind == DOP_KIND_QUANT))
            return BAD(c, "cannot read type %s of %%%s", dop_type_of(c->src[i]->type)->name, c->src[i]->name);
    }
    return DOP_OK;
}

/* Storage type of the result: the op's own, unless the caller asks for another float type. */
static dop_status
settle_type(const rule_ctx *c, dop_want *out)
{
    dop_type want = c->want->type;
    if ((c->op == DOP_OP_cast || c->op == DOP_OP_dequant) && want == DOP_TYPE_none)
        return BAD(c, "has no type");
    if (want == DOP_TYPE_none || want == out->type)
        return DOP_OK;
    bool free_type = (c->info->traits & DOP_PURE) && out->type != DOP_TYPE_u32;
    if ((unsigned)want >= DOP_TYPE_COUNT || !free_type || dop_type_of(want)->kind != DOP_KIND_FLOAT)
        return BAD(c, "cannot give type %s", dop_type_of(want)->name);
    out->type = want;
    return DOP_OK;
}

static dop_status
apply_rule(const rule_ctx *c, uint32_t n_srcs, dop_want *out)
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
    case DOP_OP_gather:
    case DOP_OP_last_row:
    case DOP_OP_matmul:
        return rule_rows(c, out);
    case DOP_OP_top_k:
        return rule_top_k(c, out);
    case DOP_OP_group_rows:
        return rule_group_rows(c, out);
    case DOP_OP_pick:
    case DOP_OP_matmul_at:
    case DOP_OP_weighted_sum:
        return rule_experts(c, out);
    case DOP_OP_state_write:
        return rule_state_write(c, n_srcs, out);
    case DOP_OP_attention:
    case DOP_OP_attn_split:
        return rule_attention(c, n_srcs, out);
    case DOP_OP_attn_combine:
        return rule_attn_combine(c, out);
    case DOP_OP_short_conv:
        return rule_short_conv(c, n_srcs, out);
    case DOP_OP_linear_scan:
    case DOP_OP_linear_scan_state:
        return rule_linear_scan(c, n_srcs, out);
    case DOP_OP_dequant:
        if (c->src[0]->op != DOP_OP_weight || c->src[0]->shape.rank != 2)
            return BAD(c, "is not of a weight matrix");
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
    rule_ctx c = {.g = g,
                  .info = dop_op_of(op),
                  .op = op,
                  .name = name,
                  .attrs = attrs,
                  .want = want ? want : &none,
                  .diag = diag};
    dop_status st;
    if (op == DOP_OP_none || (unsigned)op >= DOP_OP_COUNT)
        return BAD(&c, "is not an op");
    if (n_srcs < c.info->src_min || n_srcs > c.info->src_max)
        return BAD(&c, "takes %u to %u sources, not %u", c.info->src_min, c.info->src_max, n_srcs);
    for (uint32_t i = 0; i < n_srcs; i++)
        c.src[i] = dop_node_at(g, srcs[i]);
    if (c.info->n_attrs && !attrs)
        return BAD(&c, "needs its attributes");
    for (uint8_t k = 0; k < c.info->n_attrs; k++)
        if ((st = check_attr(&c, c.info->attrs[k], attrs[k])) != DOP_OK)
            return st;
    if ((st = check_src_types(&c, n_srcs)) != DOP_OK)
        return st;
    *out = (dop_want){(c.info->traits & DOP_VIEW) ? c.src[0]->type : DOP_TYPE_f32, {0}};
    if ((st = apply_rule(&c, n_srcs, out)) != DOP_OK || (st = settle_type(&c, out)) != DOP_OK)
        return st;
    return check_shape(&c, &out->shape);
}
