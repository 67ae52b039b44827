/* Products computed directly from the accesses of their sources (access.h): slow, but the definition for faster
 * forms. */
#include "ir/interp/interp_access.h"
#include "ir/graph/access.h"
#include "ir/interp/interp_ops.h"

#include <string.h>

/* One axis of a source: its role, its map, and its memory stride and length in values. */
typedef struct axis_of {
    dop_place place;
    dop_axis_map map;
    uint64_t stride, length;
} axis_of;

typedef struct operand {
    const float *f;
    uint32_t rank;
    axis_of axes[DOP_MAX_RANK];
} operand;

static operand
find_operand(const dop_interp_node *n, uint32_t k)
{
    const dop_tensor *v = n->src[k];
    operand x = {.f = v->f, .rank = v->shape.rank};
    dop_place p[DOP_MAX_RANK];
    uint64_t stride = 1;
    dop_node_places(n->g, n->id, k, p);
    for (uint32_t i = x.rank; i-- > 0;) {
        x.axes[i] = (axis_of){p[i], dop_node_map(n->g, n->id, k, p[i].axis), stride, v->shape.dim[i].mul};
        stride *= x.axes[i].length;
    }
    return x;
}

/* Sets the number of reduction indices along each axis: window taps, or the whole axis. */
static void
count_reductions(const operand *x, uint64_t counts[DOP_AXES])
{
    for (uint32_t i = 0; i < x->rank; i++) {
        const axis_of *a = &x->axes[i];
        if (a->place.tap || dop_axis_map_is_whole(&a->map))
            counts[a->place.axis] = a->length;
    }
}

/* Returns the value at output index o and reduction index r; 0 outside of the source. */
static double
read_operand(const operand *x, const uint64_t o[DOP_AXES], const uint64_t r[DOP_AXES])
{
    uint64_t at = 0;
    for (uint32_t i = 0; i < x->rank; i++) {
        const axis_of *a = &x->axes[i];
        const uint64_t own = a->map.mul ? a->map.mul * o[a->map.of] : 0, red = r[a->place.axis];
        uint64_t index = a->place.tap ? red : own + (a->map.reach > 1 ? a->map.step * red : 0);
        if (!a->place.tap && index < a->map.pad)
            return 0;
        index = a->place.tap ? index : (index - a->map.pad) / a->map.div;
        if (index >= a->length)
            return 0;
        at += index * a->stride;
    }
    return (double)x->f[at];
}

/* Advances to the next index, with each component below its count; false after the last one. */
static bool
advance_index(uint64_t r[DOP_AXES], const uint64_t counts[DOP_AXES])
{
    for (uint32_t i = DOP_AXES; i-- > 0; r[i] = 0)
        if (++r[i] < counts[i])
            return true;
    return false;
}

void
dop_interp_by_access(const dop_interp_node *n)
{
    const dop_node *node = &n->g->nodes[n->id];
    const operand a = find_operand(n, 0), b = find_operand(n, 1);
    dop_place p[DOP_MAX_RANK];
    uint64_t counts[DOP_AXES];
    for (uint32_t i = 0; i < DOP_AXES; i++)
        counts[i] = 1;
    count_reductions(&a, counts);
    count_reductions(&b, counts);
    dop_node_places(n->g, n->id, node->n_srcs, p);
    for (uint64_t e = 0; e < n->out.count; e++) {
        uint64_t o[DOP_AXES] = {0}, r[DOP_AXES] = {0}, left = e;
        const uint64_t col = e % n->out.shape.dim[n->out.shape.rank - 1].mul;
        double sum = node->n_srcs > 2 ? (double)n->src[2]->f[col] : 0;
        for (uint32_t i = n->out.shape.rank; i-- > 0; left /= n->out.shape.dim[i].mul)
            o[p[i].axis] = left % n->out.shape.dim[i].mul;
        do {
            sum += read_operand(&a, o, r) * read_operand(&b, o, r);
        } while (advance_index(r, counts));
        n->out.f[e] = (float)sum;
    }
}

void
dop_interp_unfold(const dop_interp_node *n)
{
    const dop_unfold u = dop_unfold_of(n->g, n->id);
    const dop_tensor *x = n->src[0];
    const uint64_t cols = x->shape.dim[1].mul, rows = x->count / cols, values = cols * u.taps * u.taps_y;
    for (uint64_t e = 0; e < n->out.count; e++) {
        const uint64_t t = e / values, tap = e % values / cols, at = t % (u.wide * u.tall);
        /* Unsigned wrap-around makes positions before the picture too large for the bounds checks. */
        const uint64_t down = at / u.wide * u.stride + tap / u.taps * u.dilation - (u.flat ? 0 : u.pad),
                       along = at % u.wide * u.stride + tap % u.taps * u.dilation - u.pad;
        const uint64_t row = (t / (u.wide * u.tall) * u.height + down / u.up) * u.width + along / u.up;
        const bool inside = down < u.height * u.up && along < u.width * u.up && row < rows;
        n->out.f[e] = inside ? x->f[row * cols + e % cols] : 0;
    }
}

void
dop_interp_dot_at(const dop_interp_node *n)
{
    const uint64_t cols = last_axis(&n->out), depth = last_axis(n->src[0]), k = last_axis(n->src[2]);
    const uint64_t span = (uint64_t)dop_node_i(n->g, n->id, DOP_A_span), most = depth / span,
                   used = (uint64_t)dop_node_i(n->g, n->id, DOP_A_used);
    for (uint64_t i = 0; i < n->out.count; i++) {
        const float *x = n->src[0]->f + i / cols * depth, *w = n->src[1]->f + i % cols * depth;
        const float *at = n->src[2]->f + i / cols * k;
        double sum = 0;
        for (uint64_t j = 0; j < k && at[j] >= 1; j++) {
            const uint64_t first = ((at[j] < (float)most ? (uint64_t)at[j] : most) - 1) * span;
            sum += dot(x + first, w + first, used ? used : span);
        }
        n->out.f[i] = (float)sum;
    }
}
