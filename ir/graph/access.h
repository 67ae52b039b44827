/* Access maps, the form in which fusion sees how ops read their sources: along an axis one output element reads the indices
 *
 *     (mul * o + step * r - pad) / div,   r = 0 .. reach - 1
 *
 * with o the output's own index on the axis `of`, r an index that the op reduces over, and nothing outside the axis; or the index
 * that another value gives.  The kinds of ops.def (same, few, group, window, ...) are cases of it. */
#ifndef DOPPLER_IR_GRAPH_ACCESS_H
#define DOPPLER_IR_GRAPH_ACCESS_H

#include "ir/graph/graph.h"

/* Values of dop_axis_map.reach where the number of indices is no constant: a few near o, a span that the kernel chooses, the whole
 * axis. */
enum { DOP_REACH_FEW = INT32_MAX - 2, DOP_REACH_SPAN, DOP_REACH_ALL };

typedef struct dop_axis_map {
    dop_access_kind kind;         /* the name that ops.def has for this case */
    dop_axis of;                  /* the axis of the output that o runs along, where mul > 0 */
    uint32_t mul, div, step, pad; /* of the formula at the head of this file */
    uint32_t reach;               /* number of indices that one output element reads, or DOP_REACH_* */
    bool chosen;                  /* another value, or the step record, gives the index */
} dop_axis_map;

/* How node `id` reads its source number k along an axis.  An axis that its op does not name is index 0 of a broadcast. */
dop_axis_map dop_node_map(const dop_graph *g, dop_node_id id, uint32_t k, dop_axis axis);

/* Does an output element read nothing but its own index, on the same axis? */
static inline bool
dop_axis_map_is_own(const dop_axis_map *m, dop_axis axis)
{
    return !m->chosen && m->reach == 1 && (m->mul == 0 || (m->mul == 1 && m->div == 1 && m->pad == 0 && m->of == axis));
}

/* Is the axis one that the op does not name? */
static inline bool
dop_axis_map_is_absent(const dop_axis_map *m)
{
    return !m->chosen && m->reach == 1 && m->mul == 0;
}

/* Does an output element read every index of the axis, whatever o is? */
static inline bool
dop_axis_map_is_whole(const dop_axis_map *m)
{
    return !m->chosen && m->reach == DOP_REACH_ALL;
}

/* Does a workgroup that makes `tile` of an axis have what each of its elements reads along the axis?  This is the comparison that
 * decides fusion: an element's own index is always in the tile, any index is where the workgroup makes the whole axis, and an index
 * that a value chooses never is. */
static inline bool
dop_axis_map_in_tile(const dop_axis_map *m, dop_axis axis, dop_tile_span tile)
{
    return dop_axis_map_is_own(m, axis) || (tile == DOP_TILE_whole && !m->chosen);
}

/* Does node `id`, which is computed element by element, read whole rows of its source number k? */
bool dop_node_reads_rows(const dop_graph *g, dop_node_id id, uint32_t k);
/* Does some source of the node come through windows of more than one index? */
bool dop_node_has_windows(const dop_graph *g, dop_node_id id);

/* The axis of the op (row, head, column ...) that a place of a source's shape is. */
typedef struct dop_place {
    dop_axis axis;
    bool named; /* false: an axis of states and the like that ops.def does not describe by place */
    bool tap;   /* its index is r of the windows along `axis` */
} dop_place;
/* Names the axes of a source (k < n_srcs) or of the output's index space (k = n_srcs). */
void dop_node_places(const dop_graph *g, dop_node_id id, uint32_t k, dop_place out[DOP_MAX_RANK]);

/* Length of an op's output on a windowed axis whose source has `in` values, for these attributes; 0: not even one window fits. */
uint64_t dop_window_length(uint64_t in, uint64_t taps, uint64_t stride, uint64_t dilation, uint64_t pad);

/* Where op unfold finds the values of a row of windows: attributes with their defaults filled in. */
typedef struct dop_unfold {
    uint64_t width, height; /* places of a picture of the source; height 1 where there is one line */
    uint64_t taps, taps_y;
    uint64_t stride, dilation, pad, more, up;
    uint64_t wide, tall; /* places of a picture of the result; 0: no window fits */
    bool flat;           /* there is one line, and windows move only along it */
} dop_unfold;
dop_unfold dop_unfold_from(uint64_t width, uint64_t height, uint64_t taps, uint64_t taps_y, uint64_t stride,
                           uint64_t dilation, uint64_t pad, uint64_t more, uint64_t up);
dop_unfold dop_unfold_of(const dop_graph *g, dop_node_id id);

/* Do the op's accesses agree with the shapes?  false: the access of source *out_src on the source's axis number *out_axis does
 * not. */
bool dop_node_access_fits(const dop_graph *g, dop_node_id id, uint32_t *out_src, uint32_t *out_axis);

/* From the op's access, refined by shape: all columns of one head of [T,H,D] are a head. */
dop_extent dop_node_extent(const dop_graph *g, dop_node_id id);

#endif
