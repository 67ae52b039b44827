/* Access maps: how ops read their sources, in the form that fusion analyses.  Along one axis, an output element reads the indices
 *
 *     (mul * o + step * r - pad) / div,   r = 0 .. reach - 1
 *
 * or an index that another value gives.  o is the output's own index on the axis `of`, and r is the reduction index.  Indices
 * outside of the axis are skipped.  The access kinds of ops.def (same, few, group, window, ...) are special cases. */
#ifndef DOPPLER_IR_GRAPH_ACCESS_H
#define DOPPLER_IR_GRAPH_ACCESS_H

#include "ir/graph/graph.h"

/* Values of dop_axis_map.reach when the number of indices is not constant: a few near o, a span that the kernel chooses, or the
 * whole axis. */
enum { DOP_REACH_FEW = INT32_MAX - 2, DOP_REACH_SPAN, DOP_REACH_ALL };

/* How a node reads one source along one axis. */
typedef struct dop_axis_map {
    dop_access_kind kind;         /* access kind in ops.def that the map was made from */
    dop_axis of;                  /* axis of the output that o indexes; used if mul > 0 */
    uint32_t mul, div, step, pad; /* constants of the formula at the top of this file */
    uint32_t reach;               /* number of indices that one output element reads, or DOP_REACH_* */
    bool chosen;                  /* the index comes from another value or from the step record */
} dop_axis_map;

/* Returns how node `id` reads its source number k along an axis.  An axis that the op does not name maps to index 0 (broadcast). */
dop_axis_map dop_node_map(const dop_graph *g, dop_node_id id, uint32_t k, dop_axis axis);

/* True if an output element reads only its own index, on the same axis. */
static inline bool
dop_axis_map_is_own(const dop_axis_map *m, dop_axis axis)
{
    return !m->chosen && m->reach == 1 && (m->mul == 0 || (m->mul == 1 && m->div == 1 && m->pad == 0 && m->of == axis));
}

/* True if the op does not name the axis. */
static inline bool
dop_axis_map_is_absent(const dop_axis_map *m)
{
    return !m->chosen && m->reach == 1 && m->mul == 0;
}

/* True if every output element reads the whole axis. */
static inline bool
dop_axis_map_is_whole(const dop_axis_map *m)
{
    return !m->chosen && m->reach == DOP_REACH_ALL;
}

/* True if a workgroup that computes `tile` of an axis holds everything that its elements read along this axis.  This test decides
 * fusion.  An element's own index is always in the tile.  Any index is in it if the workgroup computes the whole axis.  An index
 * that a value chooses never counts as in the tile. */
static inline bool
dop_axis_map_in_tile(const dop_axis_map *m, dop_axis axis, dop_tile_span tile)
{
    return dop_axis_map_is_own(m, axis) || (tile == DOP_TILE_whole && !m->chosen);
}

/* True if node `id` is element-wise but reads whole rows of its source number k. */
bool dop_node_reads_rows(const dop_graph *g, dop_node_id id, uint32_t k);
/* True if the node reads some source through windows (a convolution or unfold). */
bool dop_node_has_windows(const dop_graph *g, dop_node_id id);

/* Names one axis of a source's or output's shape by its role in the op (row, head, column ...). */
typedef struct dop_place {
    dop_axis axis;
    bool named; /* false: ops.def gives this axis no role (for example, axes of replace state) */
    bool tap;   /* axis of window taps: its index is the tap number r of windows along `axis` */
} dop_place;
/* Names the axes of a source (k < n_srcs) or of the output's index space (k = n_srcs). */
void dop_node_places(const dop_graph *g, dop_node_id id, uint32_t k, dop_place out[DOP_MAX_RANK]);

/* Returns the output length on a windowed axis with `in` source values; 0 if not even one window fits. */
uint64_t dop_window_length(uint64_t in, uint64_t taps, uint64_t stride, uint64_t dilation, uint64_t pad);

/* Attributes of op unfold with defaults filled in, and the size of its output. */
typedef struct dop_unfold {
    uint64_t width, height; /* size in positions of one source picture; height is 1 for one-dimensional input */
    uint64_t taps, taps_y;
    uint64_t stride, dilation, pad, more, up;
    uint64_t wide, tall; /* size in positions of one output picture; 0: no window fits */
    bool flat;           /* one-dimensional input: windows move along the line only */
} dop_unfold;
dop_unfold dop_unfold_from(uint64_t width, uint64_t height, uint64_t taps, uint64_t taps_y, uint64_t stride,
                           uint64_t dilation, uint64_t pad, uint64_t more, uint64_t up);
dop_unfold dop_unfold_of(const dop_graph *g, dop_node_id id);

/* True if the op's accesses agree with the shapes.  Otherwise *out_src is the source that does not fit, and *out_axis its axis. */
bool dop_node_access_fits(const dop_graph *g, dop_node_id id, uint32_t *out_src, uint32_t *out_axis);

/* Returns how much of its sources an element reads: the op's access, refined by shape.  All columns of one head of [T,H,D] count
 * as a head. */
dop_extent dop_node_extent(const dop_graph *g, dop_node_id id);

#endif
