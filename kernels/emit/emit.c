#include "kernels/emit/emit.h"

#include "ir/graph/access.h"
#include "ir/graph/cache_row.h"
#include "ir/graph/dims.h"
#include "ir/graph/ops.h"
#include "ir/region/region.h"
#include "kernels/emit/weight_types.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

const char *
dop_emit_sequence(dop_emit *e, dop_node_id sequences, const char *row)
{
    bool one = dop_node_at(e->g, sequences)->shape.dim[0].sym != DOP_SYM_T; /* one sequence number for all rows */
    return e->g->max_q == 1 ? "0u" : dop_emit_value(e, sequences, (dop_index){one ? "0u" : row, "0u"}, 1);
}

/* Returns the index into a source that is narrower than the result: one value per head, or a vector repeated for each
 * head. */
static dop_index
broadcast_index(dop_emit *e, dop_node_id node, dop_node_id src, dop_index ix, uint32_t *width)
{
    const dop_graph *g = e->g;
    uint32_t n = dop_node_cols(g, node), s = dop_node_cols(g, src);
    const dop_shape *shape = &dop_node_at(g, src)->shape;
    if (s == n)
        return ix;
    if (s == 1) {
        *width = 1;
        return (dop_index){ix.t, "0u"};
    }
    if (shape->rank > 1 && shape->dim[shape->rank - 1].mul == 1 && shape->dim[shape->rank - 1].sym == DOP_SYM_1) {
        *width = 1;
        return (dop_index){ix.t, dop_emit_str(e, "(%s / %uu)", ix.c, n / s)};
    }
    return (dop_index){ix.t, dop_emit_str(e, "(%s %% %uu)", ix.c, s)};
}

static const char *
format_constant(dop_emit *e, double v)
{
    char text[64];
    snprintf(text, sizeof text, "%.9g", v);
    return dop_emit_str(e, v < 0 ? "(%s%s)" : "%s%s", text, strpbrk(text, ".e") ? "" : ".0");
}

/* Expands the op's expression: $0..$9 are sources, $name an attribute. */
static const char *
expand_expression(dop_emit *e, dop_node_id node, const char *const *srcs)
{
    const dop_op_info *info = dop_op_of(dop_node_at(e->g, node)->op);
    dop_buf b = {0};
    for (const char *p = info->expr; *p; p++) {
        if (*p != '$') {
            dop_buf_append(&b, p, 1);
        } else if (isdigit((unsigned char)p[1])) {
            dop_buf_puts(&b, srcs[p[1] - '0']);
            p++;
        } else {
            size_t len = 0;
            while (isalpha((unsigned char)p[1 + len]))
                len++;
            for (uint32_t i = 0; i < info->n_attrs; i++)
                if (strlen(dop_attr_name(info->attrs[i])) == len &&
                    strncmp(dop_attr_name(info->attrs[i]), p + 1, len) == 0)
                    dop_buf_puts(&b, format_constant(e, dop_node_f(e->g, node, info->attrs[i])));
            p += len;
        }
    }
    const char *s = b.failed ? NULL : dop_arena_strdup(e->g->arena, b.data);
    dop_buf_finish(&b);
    return s ? s : dop_emit_fail(e, DOP_E_NOMEM, "out of memory", node);
}

static const char *
emit_elementwise_value(dop_emit *e, dop_node_id node, dop_index ix, uint32_t width)
{
    const dop_node *n = dop_node_at(e->g, node);
    const char *srcs[DOP_MAX_SRCS];
    for (uint32_t i = 0; i < n->n_srcs; i++) {
        uint32_t w = width;
        dop_index at = broadcast_index(e, node, n->src[i], ix, &w);
        srcs[i] = dop_emit_value(e, n->src[i], at, w);
        /* Scalar operand of a vector expression: GLSL functions need equal types. */
        if (w != width)
            srcs[i] = dop_emit_str(e, "vec4(%s)", srcs[i]);
    }
    return dop_emit_temp(e, width, expand_expression(e, node, srcs));
}

/* The table rows of a rotary pair's angle: the angle is the sum of those in n rows. */
typedef struct angle {
    dop_node_id table[4];
    const char *row[4];
    uint32_t n;
} angle;

static angle
find_angle(dop_emit *e, dop_node_id node, const char *t)
{
    const dop_node *n = dop_node_at(e->g, node);
    const uint32_t low = (uint32_t)dop_node_i(e->g, node, DOP_A_low);
    const char *pos = dop_emit_value(e, n->src[1], (dop_index){t, "0u"}, 1);
    angle a = {0};
    if (n->n_srcs > 3)
        pos = dop_emit_str(e, "(%s + %s)", pos, dop_emit_value(e, n->src[3], (dop_index){t, "0u"}, 1));
    a.table[0] = a.table[1] = n->src[2];
    a.row[0] = low ? dop_emit_str(e, "(%s %% %uu)", pos, low) : pos;
    a.row[1] = low ? dop_emit_str(e, "(%s / %uu + %uu)", pos, low, low) : NULL;
    a.n = low ? 2 : 1;
    if (n->n_srcs > 5) {
        const char *at = dop_emit_value(e, n->src[4], (dop_index){t, "0u"}, 1);
        const uint32_t edge = dop_node_at(e->g, n->src[5])->shape.dim[0].mul / 2;
        a.table[a.n] = a.table[a.n + 1] = n->src[5];
        a.row[a.n++] = dop_emit_str(e, "(%s %% %uu)", at, edge);
        a.row[a.n++] = dop_emit_str(e, "(%s / %uu + %uu)", at, edge, edge);
    }
    return a;
}

/* Returns the cosine or sine of a rotary pair's angle, with cosines in column k and sines in column s of the tables. Sums of
 * angles use the addition theorems. */
static const char *
emit_angle(dop_emit *e, const angle *a, const char *k, const char *s, bool sine, uint32_t width)
{
    if (a->n == 1)
        return dop_emit_value(e, a->table[0], (dop_index){a->row[0], sine ? s : k}, width);
    const char *c0 = NULL, *s0 = NULL;
    for (uint32_t i = 0; i < a->n; i++) {
        const char *c1 = dop_emit_value(e, a->table[i], (dop_index){a->row[i], k}, width),
                   *s1 = dop_emit_value(e, a->table[i], (dop_index){a->row[i], s}, width);
        const bool last = i + 1 == a->n;
        const char *c2 = i > 0 && !(last && sine)
                             ? dop_emit_temp(e, width, dop_emit_str(e, "%s * %s - %s * %s", c0, c1, s0, s1))
                             : c1;
        s0 = i > 0 && !(last && !sine) ? dop_emit_temp(e, width, dop_emit_str(e, "%s * %s + %s * %s", s0, c1, c0, s1))
                                       : s1;
        c0 = c2;
    }
    return sine ? s0 : c0;
}

/* Rotates x by the angle of its rotary pair; ops.def and ir/interp/interp.c have the formula. */
static const char *
emit_rope(dop_emit *e, dop_node_id node, dop_index ix, uint32_t width)
{
    const dop_graph *g = e->g;
    const dop_node *n = dop_node_at(g, node);
    uint32_t head = n->shape.dim[2].mul, dims = (uint32_t)dop_node_i(g, node, DOP_A_dims), half = dims / 2;
    bool inter = dop_node_i(g, node, DOP_A_interleaved) != 0;
    const char *T = width == 4 ? "vec4" : "float", *out = dop_emit_str(e, "v%u", e->n_temps++);
    const char *i = dop_emit_str(e, "i%u", e->n_temps++);
    const angle a = find_angle(e, node, ix.t);
    const char *x = dop_emit_value(e, n->src[0], ix, width);
    dop_emit_index(e, "uint %s = %s %% %uu;", i, ix.c, head);
    dop_emit_line(e, "%s %s = %s;", T, out, x);
    if (dims < head)
        dop_emit_line(e, "if (%s < %uu) {", i, dims);
    else
        dop_emit_line(e, "{");
    const char *indent = e->indent;
    uint32_t n_memo = e->n_memo; /* values computed inside the block are not visible after it */
    e->indent = dop_emit_str(e, "%s    ", indent);
    const char *cs, *sn, *y;
    if (inter && width == 4) {
        /* interleaved pairs (x0 x1)(x2 x3) are rotated by two angles */
        const char *k0 = dop_emit_str(e, "(%s / 2u)", i), *k1 = dop_emit_str(e, "(%s / 2u + 1u)", i);
        const char *h0 = dop_emit_str(e, "(%s / 2u + %uu)", i, half),
                   *h1 = dop_emit_str(e, "(%s / 2u + %uu)", i, half + 1);
        const char *c0 = emit_angle(e, &a, k0, h0, false, 1), *c1 = emit_angle(e, &a, k1, h1, false, 1);
        const char *s0 = emit_angle(e, &a, k0, h0, true, 1), *s1 = emit_angle(e, &a, k1, h1, true, 1);
        dop_emit_line(e, "%s = %s * vec4(%s, %s, %s, %s) + vec4(-%s.y, %s.x, -%s.w, %s.z) * vec4(%s, %s, %s, %s);", out,
                      x, c0, c0, c1, c1, x, x, x, x, s0, s0, s1, s1);
    } else {
        const char *k = inter ? dop_emit_str(e, "(%s / 2u)", i) : dop_emit_str(e, "(%s %% %uu)", i, half);
        const char *h = dop_emit_str(e, "(%s + %uu)", k, half);
        cs = emit_angle(e, &a, k, h, false, width);
        sn = emit_angle(e, &a, k, h, true, width);
        const char *first = inter ? dop_emit_str(e, "%s %% 2u == 0u", i) : dop_emit_str(e, "%s < %uu", i, half);
        const char *d = dop_emit_str(e, "c%u", e->n_temps++);
        uint32_t step = inter ? 1 : half;
        dop_emit_index(e, "uint %s = %s ? %s + %uu : %s - %uu;", d, first, ix.c, step, ix.c, step);
        y = dop_emit_value(e, n->src[0], (dop_index){ix.t, d}, width);
        dop_emit_line(e, "%s = %s * %s + (%s ? -%s : %s) * %s;", out, x, cs, first, y, y, sn);
    }
    e->n_memo = n_memo;
    e->indent = indent;
    dop_emit_line(e, "}");
    return out;
}

/* Emits concat: computes both sources at clamped columns, so that loads need no conditions, and selects one. */
static const char *
emit_concat(dop_emit *e, dop_node_id node, dop_index ix, uint32_t width)
{
    const dop_graph *g = e->g;
    const dop_node *n = dop_node_at(g, node);
    const char *values[2], *col[2] = {dop_emit_str(e, "c%u", e->n_temps++), dop_emit_str(e, "c%u", e->n_temps++)};
    const char *i = dop_emit_str(e, "i%u", e->n_temps++);
    uint32_t last = n->shape.rank - 1, all = n->shape.dim[last].mul,
             first = dop_node_at(g, n->src[0])->shape.dim[last].mul;
    dop_emit_index(e, "uint %s = %s %% %uu;", i, ix.c, all);
    dop_emit_index(e, "uint %s = %s / %uu * %uu + min(%s, %uu);", col[0], ix.c, all, first, i, first - width);
    dop_emit_index(e, "uint %s = %s / %uu * %uu + max(%s, %uu) - %uu;", col[1], ix.c, all, all - first, i, first,
                   first);
    for (uint32_t k = 0; k < 2; k++)
        values[k] = dop_emit_value(e, n->src[k], (dop_index){ix.t, col[k]}, width);
    return dop_emit_temp(e, width, dop_emit_str(e, "%s < %uu ? %s : %s", i, first, values[0], values[1]));
}

/* Returns column `col` of table row `id`. Ids are clamped, because the device may compute them from logits that are not
 * finite. If the table is one part of a larger one, rows outside of the part give zeros. */
static const char *
load_table_row(dop_emit *e, dop_node_id node, const char *id, const char *col, uint32_t width)
{
    const dop_graph *g = e->g;
    const dop_node_id table = dop_node_at(g, node)->src[0];
    const uint32_t rows = (uint32_t)dop_dim_value(g, dop_node_at(g, table)->shape.dim[0], g->max_t);
    const uint32_t first = (uint32_t)dop_node_i(g, node, DOP_A_first), of = (uint32_t)dop_node_i(g, node, DOP_A_of);
    if (of == 0)
        return dop_emit_value(e, table, (dop_index){dop_emit_str(e, "min(%s, %uu)", id, rows - 1), col}, width);
    const char *row = dop_emit_str(e, "i%u", e->n_temps++);
    dop_emit_index(e, "uint %s = min(%s, %uu) - %uu;", row, id, of - 1, first); /* wraps around for rows before it */
    const char *v = dop_emit_value(e, table, (dop_index){dop_emit_str(e, "min(%s, %uu)", row, rows - 1), col}, width);
    return dop_emit_temp(e, width,
                         dop_emit_str(e, "%s < %uu ? %s : %s", row, rows, v, width == 4 ? "vec4(0.0)" : "0.0"));
}

/* Emits a gather with several ids per row of the step. */
static const char *
gather_each(dop_emit *e, dop_node_id node, dop_index ix, uint32_t width)
{
    const dop_node *n = dop_node_at(e->g, node);
    const uint32_t cols = dop_node_cols(e->g, n->src[0]);
    const char *slot = dop_emit_str(e, "(%s / %uu)", ix.c, cols), *c = dop_emit_str(e, "(%s %% %uu)", ix.c, cols);
    const char *id = dop_emit_value(e, n->src[1], (dop_index){ix.t, slot}, 1);
    /* Loads of this weight depend on the id, so they must not be hoisted before it. */
    dop_buf *constants = e->constants;
    if (e->early)
        e->constants = e->early;
    const char *v = load_table_row(e, node, id, c, width);
    e->constants = constants;
    return v;
}

static const char *
emit_weighted_sum(dop_emit *e, dop_node_id node, dop_index ix, uint32_t width)
{
    const dop_node *n = dop_node_at(e->g, node);
    const uint32_t cols = dop_node_cols(e->g, node), slots = dop_node_cols(e->g, n->src[1]);
    const char *sum = dop_emit_str(e, "v%u", e->n_temps++);
    dop_emit_line(e, width == 4 ? "vec4 %s = vec4(0.0);" : "float %s = 0.0;", sum);
    for (uint32_t j = 0; j < slots; j++) {
        const char *w = dop_emit_value(e, n->src[1], (dop_index){ix.t, dop_emit_str(e, "%uu", j)}, 1);
        const char *at = j ? dop_emit_str(e, "(%s + %uu)", ix.c, j * cols) : ix.c;
        dop_emit_line(e, "%s += %s * %s;", sum, w, dop_emit_value(e, n->src[0], (dop_index){ix.t, at}, width));
    }
    return sum;
}

/* --- low-rank products ------------------------------------------------------------------------------------------------ */

/* AT_ONCE: columns of a segment with loads in flight together (eight registers per value of the result). WIDEST: columns per
 * load. */
enum { AT_ONCE = 16, WIDEST = 8 };

/* Second half of a low-rank product: a row reads only the column segments of its own adapters (gathered matrix-vector
 * products of batched LoRA, https://arxiv.org/abs/2311.03285). Most rows have one adapter, whose columns are loaded at once.
 * A loop processes further adapters. */
typedef struct low_rank {
    const dop_node *n;
    dop_index ix;
    uint32_t width;
    uint32_t span, used;      /* columns of a segment, and number of them that are read */
    uint32_t segments, slots; /* segments of the matrix, and segment numbers per row */
    uint32_t first, step;     /* columns of the first segment loaded at once (0: none), and columns per load */
    uint32_t name;            /* suffix of this expression's variables */
    const char *sum;
} low_rank;

static low_rank
low_rank_of(dop_emit *e, dop_node_id node, dop_index ix, uint32_t width)
{
    const dop_node *n = dop_node_at(e->g, node);
    const uint32_t used = (uint32_t)dop_node_i(e->g, node, DOP_A_used);
    low_rank l = {.n = n, .ix = ix, .width = width, .span = (uint32_t)dop_node_i(e->g, node, DOP_A_span)};
    l.used = used ? used : l.span;
    l.segments = dop_node_cols(e->g, n->src[0]) / l.span;
    l.slots = dop_node_cols(e->g, n->src[2]);
    l.name = e->n_temps++;
    l.sum = dop_emit_str(e, "v%u", e->n_temps++);
    if (dop_node_at(e->g, n->src[1])->type != DOP_TYPE_f16)
        return l;
    const uint32_t first = l.used < AT_ONCE ? l.used : AT_ONCE;
    for (uint32_t step = WIDEST; step > 1 && !l.first; step /= 2)
        if (first % step == 0 && l.span % step == 0 && dop_row_values(e->g, n->src[1]) % step == 0) {
            l.first = first;
            l.step = step;
        }
    return l;
}

static const char *
low_rank_sum(dop_emit *e, const low_rank *l, uint32_t i)
{
    return l->width == 4 ? dop_emit_str(e, "%s.%c", l->sum, "xyzw"[i]) : l->sum;
}

static const char *
low_rank_row(dop_emit *e, const low_rank *l, uint32_t i)
{
    return i ? dop_emit_str(e, "(%s + %uu)", l->ix.c, i) : l->ix.c;
}

/* Emits the first column of the segment with this number, which is clamped to the existing segments. */
static void
find_columns(dop_emit *e, const low_rank *l, const char *columns, const char *number)
{
    dop_emit_index(e, "uint %s = (clamp(uint(%s), 1u, %uu) - 1u) * %uu;", columns, number, l->segments, l->span);
}

/* Returns the multiplied row if other workgroups of the dispatch compute it; otherwise 0. */
static dop_node_id
awaited_row(const dop_emit *e, const low_rank *l)
{
    const dop_node_id x = dop_node_base(e->g, l->n->src[0], NULL);
    return dop_region_awaits(e->r, x) ? x : 0;
}

/* Returns `width` values of the multiplied row from `column` on. */
static const char *
row_value(dop_emit *e, const low_rank *l, const char *column, uint32_t width)
{
    uint32_t start = 0;
    dop_node_base(e->g, l->n->src[0], &start);
    const dop_node_id x = awaited_row(e, l);
    return x ? dop_emit_awaited(e, x, (dop_index){l->ix.t, column}, width, start)
             : dop_emit_value(e, l->n->src[0], (dop_index){l->ix.t, column}, width);
}

/* Emits code that adds the products of the first columns of the row's first segment, with all loads in flight at once. */
static void
add_at_once(dop_emit *e, const low_rank *l, const char *number)
{
    const dop_node_id w = l->n->src[1];
    const char *from = dop_emit_str(e, "from%u", l->name), *matrix = dop_emit_matrix_arg(e, w), *x[AT_ONCE];
    const uint32_t pieces = l->first / l->step, wide = l->step < 4 ? 1 : 4;
    find_columns(e, l, from, number);
    for (uint32_t i = 0; i < l->width * pieces; i++) {
        const dop_index at = {low_rank_row(e, l, i / pieces), from};
        dop_emit_index(e, "%s w%u_%u = dop_ldw%u(%s, %s / %uu);",
                       l->step == 8   ? "uvec4"
                       : l->step == 4 ? "uvec2"
                                      : "uint",
                       l->name, i, l->step / 2, matrix,
                       dop_emit_flat(e, w, at, dop_row_values(e->g, w), i % pieces * l->step), l->step);
    }
    if (awaited_row(e, l))
        dop_emit_await(e, awaited_row(e, l));
    for (uint32_t k = 0; k < l->first; k += wide)
        x[k / wide] = row_value(e, l, k ? dop_emit_str(e, "(%s + %uu)", from, k) : from, wide);
    for (uint32_t i = 0; i < l->width * pieces; i++) {
        const char *to = low_rank_sum(e, l, i / pieces), *h = dop_emit_str(e, "w%u_%u", l->name, i);
        const char *const *y = x + i % pieces * l->step / wide;
        if (l->step == 8)
            dop_emit_line(e, "%s += dot(dop_f16x4(%s.xy), %s) + dot(dop_f16x4(%s.zw), %s);", to, h, y[0], h, y[1]);
        else if (l->step == 4)
            dop_emit_line(e, "%s += dot(dop_f16x4(%s), %s);", to, h, y[0]);
        else
            dop_emit_line(e, "%s += dot(unpackHalf2x16(%s), vec2(%s, %s));", to, h, y[0], y[1]);
    }
    dop_emit_line(e, "if (!(%s >= 1.0)) %s = %s;", number, l->sum, l->width == 4 ? "vec4(0.0)" : "0.0");
}

/* Emits code that adds the products of `step` columns of a segment from column `r` on. */
static void
add_rank_columns(dop_emit *e, const low_rank *l, const char *r, uint32_t step)
{
    const char *x = row_value(e, l, r, step);
    for (uint32_t i = 0; i < l->width; i++) {
        const char *w = dop_emit_value(e, l->n->src[1], (dop_index){low_rank_row(e, l, i), r}, step);
        dop_emit_line(e, step == 4 ? "%s += dot(%s, %s);" : "%s += %s * %s;", low_rank_sum(e, l, i), x, w);
    }
}

/* Emits the loop that adds the segments from slot `j` on; `number` is the first segment's number. */
static void
add_other_segments(dop_emit *e, const low_rank *l, uint32_t j, const char *number)
{
    const uint32_t name = l->name, step = l->used % 4 || l->span % 4 ? 1 : 4;
    const char *outer = e->indent, *r = dop_emit_str(e, "k%u", name), *from = dop_emit_str(e, "columns%u", name);
    const uint32_t n_memo = e->n_memo; /* values computed inside the loop are not visible after it */
    dop_emit_line(e, "float of%u = %s;", name, number);
    dop_emit_line(e, "[[dont_unroll]] for (uint j%u = %uu; j%u < %uu && of%u >= 1.0;) {", name, j, name, l->slots,
                  name);
    e->indent = dop_emit_str(e, "%s    ", outer);
    find_columns(e, l, from, dop_emit_str(e, "of%u", name));
    const char *begin =
        l->first && j == 0 ? dop_emit_str(e, "%s + (j%u == 0u ? %uu : 0u)", from, name, l->first) : from;
    dop_emit_line(e, "[[dont_unroll]] for (uint %s = %s; %s < %s + %uu; %s += %uu) {", r, begin, r, from, l->used, r,
                  step);
    e->indent = dop_emit_str(e, "%s        ", outer);
    add_rank_columns(e, l, r, step);
    e->n_memo = n_memo;
    e->indent = dop_emit_str(e, "%s    ", outer);
    dop_emit_line(e, "}");
    dop_emit_line(e, "if (++j%u < %uu) {", name, l->slots);
    e->indent = dop_emit_str(e, "%s        ", outer);
    const char *next = dop_emit_value(e, l->n->src[2], (dop_index){l->ix.t, dop_emit_str(e, "j%u", name)}, 1);
    dop_emit_line(e, "of%u = %s;", name, next);
    e->indent = outer;
    dop_emit_line(e, "    }");
    dop_emit_line(e, "}");
    e->n_memo = n_memo;
}

static const char *
emit_dot_at(dop_emit *e, dop_node_id node, dop_index ix, uint32_t width)
{
    low_rank l = low_rank_of(e, node, ix, width);
    dop_buf *constants = e->constants, *early = e->early;
    const bool several = l.slots % 4 == 0 && dop_emit_wide(e, l.n->src[2]);
    if (early)
        e->constants = early; /* weight addresses depend on loaded segment numbers */
    const char *numbers = dop_emit_value(e, l.n->src[2], (dop_index){ix.t, "0u"}, several ? 4 : 1);
    const char *number = several ? dop_emit_str(e, "%s.x", numbers) : numbers;
    uint32_t j = 0;
    dop_emit_line(e, width == 4 ? "vec4 %s = vec4(0.0);" : "float %s = 0.0;", l.sum);
    if (l.first)
        add_at_once(e, &l, number);
    else if (awaited_row(e, &l))
        dop_emit_await(e, awaited_row(e, &l));
    if (l.first == l.used && l.slots > 1) {
        number =
            several ? dop_emit_str(e, "%s.y", numbers) : dop_emit_value(e, l.n->src[2], (dop_index){ix.t, "1u"}, 1);
        j = 1;
    }
    e->constants = e->early = NULL; /* loads depend on the loop's variables */
    if (l.first < l.used || l.slots > 1)
        add_other_segments(e, &l, j, number);
    e->constants = constants;
    e->early = early;
    return l.sum;
}

/* Emits the value of an unsplit norm or softmax from its row's statistics. Any index of the row may be requested: a rotation
 * also reads the norm of its partner. */
static const char *
emit_norm(dop_emit *e, const dop_bind *b, dop_index ix, uint32_t width)
{
    const dop_node_id node = b->node;
    const dop_node *n = dop_node_at(e->g, node);
    const char *x = dop_emit_value(e, n->src[0], ix, width);
    if (n->op == DOP_OP_softmax)
        return dop_emit_temp(e, width, dop_emit_str(e, "exp(%s - %s) * %s", x, b->shift, b->scale));
    uint32_t w_width = width;
    const dop_index wi = {"0u", broadcast_index(e, node, n->src[1], ix, &w_width).c};
    const char *w = dop_emit_value(e, n->src[1], wi, w_width);
    if (n->op == DOP_OP_rmsnorm)
        return dop_emit_temp(
            e, width, dop_emit_str(e, "%s * %s * (%s + %.9g)", x, b->scale, w, dop_node_f(e->g, node, DOP_A_add)));
    const char *bias = n->n_srcs > 2 ? dop_emit_value(e, n->src[2], wi, w_width) : "0.0";
    return dop_emit_temp(e, width, dop_emit_str(e, "(%s - %s) * %s * %s + %s", x, b->shift, b->scale, w, bias));
}

/* Loads a tap of short_conv. Taps are [K,C]: a matrix, or a vector of the same K * C values, which quantizers leave alone. */
static const char *
tap_value(dop_emit *e, dop_node_id taps, uint32_t k, uint32_t cols, const char *c, uint32_t width)
{
    bool vector = dop_node_at(e->g, dop_node_base(e->g, taps, NULL))->shape.rank == 1;
    dop_index ix = {vector ? "0u" : dop_emit_str(e, "%uu", k), c};
    if (vector && k > 0)
        ix.c = dop_emit_str(e, "(%s + %uu)", c, k * cols);
    return dop_emit_value(e, taps, ix, width);
}

/* Returns x of the row `ago` rows before ix.t, which has `before` rows of its sequence before it in this step. Older rows
 * come from the state. If the source depends on the row, both are loaded, so that no load waits for a condition. */
static const char *
row_before(dop_emit *e, dop_node_id node, dop_index ix, const char *before, uint32_t ago, uint32_t kept, uint32_t width)
{
    const dop_node *n = dop_node_at(e->g, node);
    uint32_t cols = dop_node_cols(e->g, node);
    const char *seq = dop_emit_sequence(e, n->src[3], ix.t);
    if (ago == 0)
        return dop_emit_value(e, n->src[0], ix, width);
    if (e->g->max_t == 1)
        return dop_emit_value(e, n->src[1], (dop_index){seq, dop_emit_str(e, "(%s + %uu)", ix.c, (kept - ago) * cols)},
                              width);
    const char *row = dop_emit_str(e, "r%u", e->n_temps++), *at = dop_emit_str(e, "c%u", e->n_temps++);
    dop_emit_index(e, "uint %s = max(%s, %uu) - %uu;", row, ix.t, ago, ago);
    dop_emit_index(e, "uint %s = min(%s + %uu, %uu) * %uu + %s;", at, before, kept - ago, kept - 1, cols, ix.c);
    const char *x = dop_emit_value(e, n->src[0], (dop_index){row, ix.c}, width);
    const char *s = dop_emit_value(e, n->src[1], (dop_index){seq, at}, width);
    const char *name = dop_emit_str(e, "v%u", e->n_temps++);
    dop_emit_line(e, "%s %s = %s >= %uu ? %s : %s;", width == 4 ? "vec4" : "float", name, before, ago, x, s);
    return name;
}

static const char *
emit_conv(dop_emit *e, dop_node_id node, dop_index ix, uint32_t width)
{
    const dop_graph *g = e->g;
    const dop_node *n = dop_node_at(g, node);
    uint32_t cols = dop_node_cols(g, node), kept = dop_node_at(g, n->src[1])->shape.dim[1].mul;
    const char *T = width == 4 ? "vec4" : "float", *out = dop_emit_str(e, "v%u", e->n_temps++);
    ix.t = dop_emit_own_row(e, ix.t);
    const char *before = dop_graph_mixes(g) ? dop_emit_neighbours(e, ix.t, kept, false) : ix.t;
    const char *bias = n->n_srcs > 4 ? dop_emit_value(e, n->src[4], (dop_index){"0u", ix.c}, width) : "0.0";
    dop_emit_line(e, "%s %s = %s(%s);", T, out, T, bias);
    for (uint32_t k = 0; k <= kept; k++) {
        const char *tap = tap_value(e, n->src[2], k, cols, ix.c, width);
        dop_emit_line(e, "%s += %s * %s;", out, tap, row_before(e, node, ix, before, kept - k, kept, width));
    }
    return out;
}

/* Emits moments_norm: merges the moments of all parts of a column's group (Chan et al.,
 * https://doi.org/10.1007/978-3-642-51461-6_3). */
static const char *
emit_moments_norm(dop_emit *e, dop_node_id node, dop_index ix)
{
    const dop_graph *g = e->g;
    const dop_node *n = dop_node_at(g, node);
    const dop_shape *s = &dop_node_at(g, n->src[0])->shape;
    const uint32_t cols = dop_node_cols(g, node) / 2, groups = s->dim[1].mul, id = e->n_temps++;
    const char *a = dop_emit_arg(e, n->src[0], false), *c = dop_emit_str(e, "c%u", id), *m = dop_emit_str(e, "m%u", id),
               *far = dop_emit_str(e, "d%u", id), *out = dop_emit_str(e, "v%u", id);
    dop_emit_line(e, "uint %s = %s %% %uu;", c, ix.c, cols);
    /* Two loops over the parts, whose loads are independent. */
    const char *walk = dop_emit_str(e, "for (uint p%u = 0u, i%u = %s / %uu * 3u; p%u < %uu; p%u++, i%u += %uu)", id, id,
                                    c, cols / groups, id, s->dim[0].mul, id, id, groups * 3);
    dop_emit_line(e, "vec3 %s = vec3(0.0);", m);
    dop_emit_line(e, "%s", walk);
    dop_emit_line(e, "    %s.xy += dop_ld1_f32(%s, i%u) * vec2(1.0, dop_ld1_f32(%s, i%u + 1u));", m, a, id, a, id);
    dop_emit_line(e, "%s.x = max(%s.x, 1.0);", m, m);
    dop_emit_line(e, "%s.y /= %s.x;", m, m);
    dop_emit_line(e, "%s {", walk);
    dop_emit_line(e, "    float %s = dop_ld1_f32(%s, i%u + 1u) - %s.y;", far, a, id, m);
    dop_emit_line(e, "    %s.z += dop_ld1_f32(%s, i%u + 2u) + dop_ld1_f32(%s, i%u) * %s * %s;", m, a, id, a, id, far,
                  far);
    dop_emit_line(e, "}");
    const char *w = dop_emit_value(e, n->src[1], (dop_index){"0u", c}, 1),
               *b = dop_emit_value(e, n->src[2], (dop_index){"0u", c}, 1);
    dop_emit_line(e, "float %s = %s / sqrt(%s.z / %s.x + %.9g);", out, w, m, m, dop_node_f(g, node, DOP_A_eps));
    dop_emit_line(e, "%s = %s < %uu ? %s : %s - %s.y * %s;", out, ix.c, cols, out, b, m, out);
    return out;
}

dop_window_row
dop_emit_window_row(dop_emit *e, dop_node_id node, const char *t)
{
    const dop_unfold u = dop_unfold_of(e->g, node);
    const uint32_t wide = (uint32_t)u.wide, tall = (uint32_t)u.tall, stride = (uint32_t)u.stride, n = e->n_temps++;
    const dop_node_id source = dop_node_at(e->g, node)->src[0];
    const uint32_t of = dop_node_row_multiple(e->g, source);
    const dop_window_row row = {.x = dop_emit_str(e, "x%u", n),
                                .y = u.flat ? "0u" : dop_emit_str(e, "y%u", n),
                                .first = dop_emit_str(e, "p%u", n),
                                .rows = of ? dop_emit_rows(e, of)
                                           : dop_emit_str(e, "%uu", dop_node_at(e->g, source)->shape.dim[0].mul)};
    dop_emit_index(e, "uint %s = %s %% %uu * %uu;", row.x, t, wide, stride);
    if (!u.flat)
        dop_emit_index(e, "uint %s = %s / %uu %% %uu * %uu;", row.y, t, wide, tall, stride);
    dop_emit_index(e, "uint %s = %s / %uu * %uu;", row.first, t, wide * tall, (uint32_t)(u.width * u.height));
    return row;
}

dop_window_place
dop_emit_window(dop_emit *e, dop_node_id node, const dop_window_row *from, const char *column)
{
    const dop_graph *g = e->g;
    const dop_node_id source = dop_node_at(g, node)->src[0];
    const dop_unfold u = dop_unfold_of(g, node);
    const uint32_t cols = dop_node_cols(g, source), n = e->n_temps++;
    const uint32_t taps = (uint32_t)u.taps, dilation = (uint32_t)u.dilation, pad = (uint32_t)u.pad, up = (uint32_t)u.up;
    const char *along = dop_emit_str(e, "x%u", n), *down = dop_emit_str(e, "y%u", n), *row = dop_emit_str(e, "r%u", n),
               *col = dop_emit_str(e, "c%u", n), *in = dop_emit_str(e, "in%u", n);
    const char *once = up > 1 ? dop_emit_str(e, " / %uu", up) : "";
    dop_emit_index(e, "uint %s = %s %% %uu;", col, column, cols);
    dop_emit_index(e, "uint %s = %s + %s / %uu%s * %uu - %uu;", along, from->x, column, cols,
                   u.flat ? "" : dop_emit_str(e, " %% %uu", taps), dilation, pad);
    dop_emit_index(e, "bool %s = %s < %uu;", in, along, (uint32_t)(u.width * u.up));
    if (u.flat) {
        dop_emit_index(e, "uint %s = %s + %s%s;", row, from->first, along, once);
    } else {
        dop_emit_index(e, "uint %s = %s + %s / %uu * %uu - %uu;", down, from->y, column, cols * taps, dilation, pad);
        dop_emit_index(e, "%s = %s && %s < %uu;", in, in, down, (uint32_t)(u.height * u.up));
        dop_emit_index(e, "uint %s = %s + %s%s * %uu + %s%s;", row, from->first, down, once, (uint32_t)u.width, along,
                       once);
    }
    dop_emit_index(e, "%s = %s && %s < %s;", in, in, row, from->rows);
    dop_emit_index(e, "%s = %s ? %s : 0u;", row, in, row);
    return (dop_window_place){row, col, in};
}

/* Emits unfold: column ix.c of a window row is a column of another source row, or 0. */
static const char *
emit_unfold(dop_emit *e, dop_node_id node, dop_index ix, uint32_t width)
{
    const dop_window_row row = dop_emit_window_row(e, node, ix.t);
    const dop_window_place at = dop_emit_window(e, node, &row, ix.c);
    const char *v = dop_emit_value(e, dop_node_at(e->g, node)->src[0], (dop_index){at.row, at.col}, width);
    return dop_emit_temp(e, width, dop_emit_str(e, "%s ? %s : %s", at.in, v, width == 4 ? "vec4(0.0)" : "0.0"));
}

static const char *
emit_computed(dop_emit *e, dop_node_id node, dop_index ix, uint32_t width)
{
    const dop_graph *g = e->g;
    const dop_node *n = dop_node_at(g, node);
    switch (n->op) {
    case DOP_OP_rope:
        return emit_rope(e, node, ix, width);
    case DOP_OP_concat:
        return emit_concat(e, node, ix, width);
    case DOP_OP_attn_combine:
        return dop_emit_combine(e, node, ix, width);
    case DOP_OP_pick:
        return dop_emit_value(e, n->src[0], (dop_index){ix.t, dop_emit_value(e, n->src[1], ix, 1)}, width);
    case DOP_OP_weighted_sum:
        return emit_weighted_sum(e, node, ix, width);
    case DOP_OP_dot_at:
        return emit_dot_at(e, node, ix, width);
    case DOP_OP_gather: {
        if (dop_node_at(g, n->src[1])->shape.rank > 1)
            return gather_each(e, node, ix, width);
        if (dop_is_replace_state(g, dop_node_base(g, n->src[0], NULL)))
            return dop_emit_value(e, n->src[0], (dop_index){dop_emit_sequence(e, n->src[1], ix.t), ix.c}, width);
        return load_table_row(e, node, dop_emit_value(e, n->src[1], (dop_index){ix.t, "0u"}, 1), ix.c, width);
    }
    case DOP_OP_last_row: {
        const char *t = g->max_t == 1 ? "0u" : dop_emit_str(e, "(%s - 1u)", dop_emit_n_tokens(e));
        return dop_emit_value(e, n->src[0], (dop_index){t, ix.c}, width);
    }
    case DOP_OP_moments_norm: {
        const char *v[4];
        if (width == 1)
            return emit_moments_norm(e, node, ix);
        for (uint32_t i = 0; i < 4; i++)
            v[i] = emit_moments_norm(e, node, (dop_index){ix.t, dop_emit_str(e, "(%s + %uu)", ix.c, i)});
        return dop_emit_str(e, "vec4(%s, %s, %s, %s)", v[0], v[1], v[2], v[3]);
    }
    case DOP_OP_state_write:
        return dop_emit_value(e, n->src[1], ix, width);
    case DOP_OP_unfold:
        return emit_unfold(e, node, ix, width);
    case DOP_OP_short_conv:
        return emit_conv(e, node, ix, width);
    default:
        if (dop_op_of(n->op)->expr[0])
            return emit_elementwise_value(e, node, ix, width);
        return dop_emit_fail(e, DOP_E_INTERNAL, "the template does not compute it", node);
    }
}

const char *
dop_emit_value(dop_emit *e, dop_node_id node, dop_index ix, uint32_t width)
{
    if (e->status != DOP_OK)
        return "0.0";
    uint32_t start = 0;
    const dop_graph *g = e->g;
    node = dop_node_base(g, node, &start);
    if (start)
        ix.c = dop_emit_str(e, "(%s + %uu)", ix.c, start);
    dop_bind norm = {0};
    for (uint32_t i = e->n_binds; i-- > 0;) {
        const dop_bind *b = &e->binds[i];
        if (b->node != node)
            continue;
        if (b->scale) {
            norm = *b;
            break;
        }
        if (!b->indexed)
            return b->name;
        const char *c = b->base ? dop_emit_str(e, "(%s - %s)", ix.c, b->base) : ix.c;
        if (width == 4)
            return dop_emit_str(e, "vec4(%s[%s], %s[%s + 1u], %s[%s + 2u], %s[%s + 3u])", b->name, c, b->name, c,
                                b->name, c, b->name, c);
        return dop_emit_str(e, "%s[%s]", b->name, c);
    }
    if (!dop_emit_has_rows(g, node) && dop_node_at(g, node)->op != DOP_OP_input)
        ix.t = "0u";
    for (uint32_t i = 0; i < e->n_memo; i++) {
        const dop_memo *m = &e->memo[i];
        if (m->node == node && m->width == width && strcmp(m->t, ix.t) == 0 && strcmp(m->c, ix.c) == 0)
            return m->name;
    }
    const char *name = norm.scale                   ? emit_norm(e, &norm, ix, width)
                       : dop_region_has(e->r, node) ? emit_computed(e, node, ix, width)
                                                    : dop_emit_load(e, node, ix, width, 0);
    if (dop_emit_grow(e, (void **)&e->memo, e->n_memo, &e->cap_memo, sizeof *e->memo))
        e->memo[e->n_memo++] = (dop_memo){node, ix.t, ix.c, width, name};
    return name;
}

bool
dop_emit_wide(const dop_emit *e, dop_node_id node)
{
    return dop_region_wide(e->g, e->r, node);
}
