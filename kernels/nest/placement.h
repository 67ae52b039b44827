/* A placement, the schedule of a kernel as data: the level of parallelism or loop for each axis of a nest, how operands get
 * to registers, and how lanes reduce their sums. */
#ifndef DOPPLER_KERNELS_NEST_PLACEMENT_H
#define DOPPLER_KERNELS_NEST_PLACEMENT_H

#include "base/base.h"

/* Levels at which an axis may run, from the outermost to the innermost. */
typedef enum dop_level {
    DOP_LEVEL_grid,  /* workgroups */
    DOP_LEVEL_piece, /* iterations of the loop over staged pieces */
    DOP_LEVEL_group, /* groups of cooperative lanes in a workgroup */
    DOP_LEVEL_loop,  /* iterations of the innermost loop that is not unrolled */
    DOP_LEVEL_lane,  /* cooperative lanes, which divide the axis among them */
    DOP_LEVEL_reg,   /* register blocking: unrolled values in registers */
    DOP_LEVEL_unit,  /* cooperative matrix fragments */
    DOP_LEVELS
} dop_level;

/* Axes. Products: t = rows of the step, n = weight rows, k = depth. Attention: t = query rows, s = positions, d = values of a
 * head. */
typedef enum dop_place_axis {
    DOP_PLACE_t,
    DOP_PLACE_n,
    DOP_PLACE_k,
    DOP_PLACE_AXES,
    DOP_PLACE_s = DOP_PLACE_n,
    DOP_PLACE_d = DOP_PLACE_k
} dop_place_axis;

/* Path of an operand (activations or weights) to the registers of the invocations that multiply it. */
typedef enum dop_path {
    DOP_PATH_direct, /* register-direct: from global memory to registers at the use */
    DOP_PATH_pieces, /* staged in shared memory, one piece of k at a time */
    DOP_PATH_whole,  /* staged in shared memory as a whole, before everything else */
} dop_path;

/* How the lanes that share a sum reduce their partial sums. */
typedef enum dop_meeting {
    DOP_MEET_none,
    DOP_MEET_lanes, /* within a subgroup, or a part of it */
    DOP_MEET_each,  /* each sum separately through shared memory */
    DOP_MEET_shared /* within subgroups, then through shared memory */
} dop_meeting;

typedef struct dop_movement {
    dop_path path;
    uint32_t ahead;   /* prefetch distance: iterations of the innermost loop between a load and its use */
    uint32_t unit;    /* values per load */
    const char *form; /* storage format in shared memory, for dumps */
} dop_movement;

typedef struct dop_nest_placement {
    uint32_t at[DOP_PLACE_AXES][DOP_LEVELS]; /* extent of an axis at a level; 0 means 1 */
    dop_movement x, w;                       /* activations and weights; in attention, queries and cache rows */
    dop_meeting sum;                         /* reduction of sums by the lanes that share axis k */
    uint32_t subgroup;
    const char *axes, *operands[2]; /* axis and operand names for dumps; NULL: those of products */
    const char *step;               /* call that synchronizes invocations that run in lockstep; NULL: a barrier */
} dop_nest_placement;

/* Appends one line for each axis and operand. */
void dop_placement_dump(const dop_nest_placement *p, dop_buf *out);
uint32_t dop_placement_size(const dop_nest_placement *p, dop_place_axis axis, dop_level level);

#endif
