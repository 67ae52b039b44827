#include "ir/graph/access.h"
#include "ir/graph/dims.h"

/* Returns the number of window taps along an axis.  A convolution has it in the shape of its weights (source 1); unfold has an
 * attribute. */
static uint32_t
count_taps(const dop_graph *g, dop_node_id id, dop_axis axis)
{
    dop_place p[DOP_MAX_RANK];
    if (dop_node_at(g, id)->n_srcs == 1)
        return (uint32_t)dop_node_i(g, id, DOP_A_taps);
    const dop_shape *s = &dop_node_at(g, dop_node_at(g, id)->src[1])->shape;
    dop_node_places(g, id, 1, p);
    for (uint32_t i = 0; i < s->rank; i++)
        if (p[i].tap && p[i].axis == axis)
            return s->dim[i].mul;
    return 1;
}

/* Returns the size of a head group: output indices on the axis that share one index of source k. */
static uint32_t
find_group_size(const dop_graph *g, dop_node_id id, uint32_t k, dop_axis axis)
{
    const dop_node *n = dop_node_at(g, id);
    dop_place p[DOP_MAX_RANK], o[DOP_MAX_RANK];
    const dop_shape *s = &dop_node_at(g, n->src[k])->shape;
    dop_node_places(g, id, k, p);
    dop_node_places(g, id, n->n_srcs, o);
    for (uint32_t i = 0; i < s->rank; i++)
        for (uint32_t x = 0; x < n->shape.rank; x++)
            if (p[i].named && o[x].named && p[i].axis == axis && o[x].axis == axis && s->dim[i].mul > 0 &&
                n->shape.dim[x].mul >= s->dim[i].mul)
                return n->shape.dim[x].mul / s->dim[i].mul;
    return 1;
}

dop_axis_map
dop_node_map(const dop_graph *g, dop_node_id id, uint32_t k, dop_axis axis)
{
    const dop_access *a = dop_node_access(g, id, k);
    dop_axis_map m = {.kind = (dop_access_kind)a->axis[axis], .of = axis, .mul = 1, .div = 1, .step = 1, .reach = 1};
    switch (m.kind) {
    case DOP_ACCESS_none:
        m.mul = 0;
        break;
    case DOP_ACCESS_same:
        break;
    case DOP_ACCESS_few:
        m.reach = DOP_REACH_FEW;
        break;
    case DOP_ACCESS_group:
        m.div = find_group_size(g, id, k, axis);
        break;
    case DOP_ACCESS_span:
        m.mul = 0;
        m.reach = DOP_REACH_SPAN;
        break;
    case DOP_ACCESS_all:
        m.mul = 0;
        m.reach = DOP_REACH_ALL;
        break;
    case DOP_ACCESS_col:
        m.of = DOP_AXIS_col;
        break;
    case DOP_ACCESS_at:
        m.mul = 0;
        m.chosen = true;
        break;
    case DOP_ACCESS_window:
        m.mul = (uint32_t)dop_node_i(g, id, DOP_A_stride);
        m.step = (uint32_t)dop_node_i(g, id, DOP_A_dilation);
        m.pad = (uint32_t)dop_node_i(g, id, DOP_A_pad);
        m.reach = count_taps(g, id, axis);
        break;
    }
    return m;
}

bool
dop_node_has_windows(const dop_graph *g, dop_node_id id)
{
    for (uint32_t k = 0; k < dop_node_at(g, id)->n_srcs; k++)
        for (int x = 0; x < DOP_AXES; x++)
            if (dop_node_access(g, id, k)->axis[x] == DOP_ACCESS_window)
                return true;
    return false;
}

/* Names the axes of a shape by its rank: [row], [col], [row,col], [head,col], [row,head,col].  a: the access of a source, in
 * which the op may name heads but no columns; NULL for the shape of an output. */
static void
name_places_by_rank(const dop_shape *s, const dop_access *a, dop_place out[DOP_MAX_RANK])
{
    const dop_axis last = a && a->axis[DOP_AXIS_col] == DOP_ACCESS_none && a->axis[DOP_AXIS_head] != DOP_ACCESS_none
                              ? DOP_AXIS_head
                              : DOP_AXIS_col;
    const bool rows = s->dim[0].sym != DOP_SYM_1 || (a && a->axis[DOP_AXIS_row] != DOP_ACCESS_none);
    for (uint32_t i = 0; i < s->rank; i++)
        out[i] = (dop_place){i + 1 == s->rank ? last : i == 0 ? DOP_AXIS_row : DOP_AXIS_head, s->rank <= 3, false};
    if (s->rank == 2 && a && a->axis[DOP_AXIS_row] == DOP_ACCESS_none && a->axis[DOP_AXIS_head] != DOP_ACCESS_none)
        out[0].axis = DOP_AXIS_head;
    if (s->rank == 1 && (rows || last == DOP_AXIS_head))
        out[0].axis = rows ? DOP_AXIS_row : DOP_AXIS_head;
}

void
dop_node_places(const dop_graph *g, dop_node_id id, uint32_t k, dop_place out[DOP_MAX_RANK])
{
    const dop_node *n = dop_node_at(g, id);
    const bool source = k < n->n_srcs;
    const dop_access *a = source ? dop_node_access(g, id, k) : NULL;
    const dop_shape *s = &dop_node_at(g, source ? n->src[k] : dop_node_space(g, id))->shape;
    const bool partial = dop_node_is(g, id, DOP_PARTIAL) || dop_node_merges(g, id), state = s->dim[0].sym == DOP_SYM_Q;
    name_places_by_rank(s, a, out);
    if (source && a->taps && s->rank == (uint32_t)a->taps + 2) {
        out[0] = (dop_place){DOP_AXIS_row, true, false};
        for (uint32_t i = 0; i < a->taps; i++)
            out[1 + i] = (dop_place){i ? DOP_AXIS_head : DOP_AXIS_row, true, true};
        out[s->rank - 1] = (dop_place){DOP_AXIS_col, true, false};
    } else if (source && a->axis[DOP_AXIS_expert] != DOP_ACCESS_none && s->rank == 3) {
        out[0].axis = DOP_AXIS_expert;
        out[1].axis = DOP_AXIS_row;
    } else if (dop_shape_appends(s)) {
        for (uint32_t i = 0; i < s->rank; i++)
            out[i] = (dop_place){i == 1 ? DOP_AXIS_pos : i + 1 == s->rank ? DOP_AXIS_col : DOP_AXIS_head, i > 0, false};
    }
    for (uint32_t i = 0; i < s->rank;
         i++) /* partial results (heads with splits) and replace states have unnamed axes */
        out[i].named = out[i].named && !(partial && i > 0) && !(state && !dop_shape_appends(s));
}

uint64_t
dop_window_length(uint64_t in, uint64_t taps, uint64_t stride, uint64_t dilation, uint64_t pad)
{
    const uint64_t padded = in + 2 * pad, reach = dilation * (taps - 1) + 1;
    return padded < reach ? 0 : (padded - reach) / stride + 1;
}

dop_unfold
dop_unfold_from(uint64_t width, uint64_t height, uint64_t taps, uint64_t taps_y, uint64_t stride, uint64_t dilation,
                uint64_t pad, uint64_t more, uint64_t up)
{
    dop_unfold u = {.width = width,
                    .height = height ? height : 1,
                    .taps = taps,
                    .taps_y = taps_y ? taps_y : 1,
                    .stride = stride,
                    .dilation = dilation,
                    .pad = pad,
                    .more = more,
                    .up = up ? up : 1,
                    .tall = 1,
                    .flat = height == 0};
    const uint64_t reach_x = dilation * (taps - 1) + 1, reach_y = dilation * (u.taps_y - 1) + 1;
    const uint64_t x = u.width * u.up + 2 * pad + more, y = u.height * u.up + 2 * pad + more;
    u.wide = x < reach_x ? 0 : (x - reach_x) / stride + 1;
    if (!u.flat)
        u.tall = y < reach_y ? 0 : (y - reach_y) / stride + 1;
    return u;
}

dop_unfold
dop_unfold_of(const dop_graph *g, dop_node_id id)
{
    uint64_t a[9];
    static const dop_attr_id ids[] = {DOP_A_width,    DOP_A_height, DOP_A_taps, DOP_A_taps_y, DOP_A_stride,
                                      DOP_A_dilation, DOP_A_pad,    DOP_A_more, DOP_A_up};
    for (uint32_t i = 0; i < 9; i++)
        a[i] = (uint64_t)dop_node_i(g, id, ids[i]);
    return dop_unfold_from(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8]);
}

/* True if an axis of length d, read through map m, fits an output axis of length o.  matrix: the source has two axes. */
static bool
lengths_fit(const dop_axis_map *m, bool matrix, dop_dim d, dop_dim o)
{
    const bool equal = d.mul == o.mul && d.sym == o.sym, one = d.mul == 1 && d.sym == DOP_SYM_1;
    switch (m->kind) {
    case DOP_ACCESS_same:
        return equal || one;
    case DOP_ACCESS_col: /* if a matrix has more rows, only the first are read */
        return equal || (matrix && !d.sym && !o.sym && d.mul > o.mul);
    case DOP_ACCESS_group:
        return d.sym == o.sym && (uint64_t)d.mul * m->div == o.mul;
    case DOP_ACCESS_window:
        if (d.sym != DOP_SYM_1 || o.sym != DOP_SYM_1)
            return equal && m->mul == 1 && 2 * (uint64_t)m->pad == (uint64_t)m->step * (m->reach - 1);
        return dop_window_length(d.mul, m->reach, m->mul, m->step, m->pad) == o.mul;
    default:
        return true;
    }
}

/* True if the shapes fit for an element-wise op: aligned at the last axis, every axis of s is equal to that of o or 1. */
static bool
element_shapes_fit(const dop_shape *s, const dop_shape *o, uint32_t *out_axis)
{
    for (*out_axis = 0; *out_axis < s->rank; ++*out_axis) {
        const dop_dim d = s->dim[*out_axis];
        const uint32_t at = o->rank + *out_axis - s->rank;
        if ((s->rank > o->rank || d.mul != o->dim[at].mul || d.sym != o->dim[at].sym) &&
            !(d.mul == 1 && d.sym == DOP_SYM_1))
            return false;
    }
    return true;
}

bool
dop_node_access_fits(const dop_graph *g, dop_node_id id, uint32_t *out_src, uint32_t *out_axis)
{
    const dop_node *n = dop_node_at(g, id);
    const dop_shape *o = &dop_node_at(g, dop_node_space(g, id))->shape;
    dop_place p[DOP_MAX_RANK], q[DOP_MAX_RANK];
    if (dop_node_is(g, id, DOP_VIEW)) /* the shape rule of the view has checked it */
        return true;
    dop_node_places(g, id, n->n_srcs, q);
    for (uint32_t k = 0; k < n->n_srcs; k++) {
        const dop_shape *s = &dop_node_at(g, n->src[k])->shape;
        const dop_access *a = dop_node_access(g, id, k);
        *out_src = k;
        if (a->axis[DOP_AXIS_row] == DOP_ACCESS_same && a->axis[DOP_AXIS_head] == DOP_ACCESS_same &&
            a->axis[DOP_AXIS_col] == DOP_ACCESS_same && a->axis[DOP_AXIS_part] == DOP_ACCESS_none) {
            if (!element_shapes_fit(s, o, out_axis))
                return false;
            continue;
        }
        dop_node_places(g, id, k, p);
        for (*out_axis = 0; *out_axis < s->rank; ++*out_axis) {
            const dop_place at = p[*out_axis];
            const dop_axis_map m = dop_node_map(g, id, k, at.axis);
            for (uint32_t x = 0; x < o->rank && at.named && !at.tap; x++)
                if (q[x].named && q[x].axis == m.of && !(m.kind == DOP_ACCESS_window && n->n_srcs == 1) &&
                    !lengths_fit(&m, s->rank == 2, s->dim[*out_axis], o->dim[x]))
                    return false;
        }
    }
    return true;
}

static dop_extent
find_source_extent(const dop_graph *g, dop_node_id id, uint32_t k)
{
    const dop_axis_map head = dop_node_map(g, id, k, DOP_AXIS_head), col = dop_node_map(g, id, k, DOP_AXIS_col),
                       part = dop_node_map(g, id, k, DOP_AXIS_part);
    const bool heads = head.mul == 1 && dop_axis_map_is_own(&head, DOP_AXIS_head);
    const dop_shape *s = &dop_node_at(g, dop_node_at(g, id)->src[k])->shape;
    if (dop_axis_map_is_whole(&col) || col.reach == DOP_REACH_SPAN || dop_axis_map_is_whole(&part))
        return heads && s->rank >= dop_shape_row_axes(s) + 2 ? DOP_EXTENT_head : DOP_EXTENT_row;
    return col.reach == DOP_REACH_FEW ? DOP_EXTENT_few : DOP_EXTENT_element;
}

dop_extent
dop_node_extent(const dop_graph *g, dop_node_id id)
{
    const dop_node *n = &g->nodes[id];
    dop_extent most = DOP_EXTENT_none;
    dop_root root = dop_op_of(n->op)->root;
    if (root == DOP_ROOT_product || root == DOP_ROOT_attention || root == DOP_ROOT_scan || root == DOP_ROOT_index ||
        root == DOP_ROOT_positions)
        return DOP_EXTENT_all;
    for (uint32_t k = 0; k < n->n_srcs; k++) {
        dop_extent x = find_source_extent(g, id, k);
        most = x > most ? x : most;
    }
    return most;
}

bool
dop_node_reads_rows(const dop_graph *g, dop_node_id id, uint32_t k)
{
    const dop_axis_map col = dop_node_map(g, id, k, DOP_AXIS_col), row = dop_node_map(g, id, k, DOP_AXIS_row);
    return dop_node_is_element(g, id) && dop_axis_map_is_whole(&col) && dop_axis_map_is_own(&row, DOP_AXIS_row) &&
           dop_node_per_token(g, dop_node_at(g, id)->src[k]);
}
