/* A placement, the schedule of a kernel as data: at which levels of parallelism and loops the axes of a nest run, how operands get
 * to registers, and how lanes add up their sums. */
#ifndef DOPPLER_KERNELS_NEST_PLACEMENT_H
#define DOPPLER_KERNELS_NEST_PLACEMENT_H

#include "base/base.h"

/* Levels at which an axis may run, from the outside to the inside. */
typedef enum dop_level {
    DOP_LEVEL_grid,  /* workgroups */
    DOP_LEVEL_piece, /* iterations of the loop over staged pieces */
    DOP_LEVEL_group, /* groups of cooperative lanes in a workgroup */
    DOP_LEVEL_loop,  /* iterations of the innermost loop that is not unrolled */
    DOP_LEVEL_lane,  /* cooperative lanes, which share what they compute */
    DOP_LEVEL_reg,   /* side by side in registers */
    DOP_LEVEL_unit,  /* in a fragment of a matrix unit */
    DOP_LEVELS
} dop_level;

/* Of products: rows of the step, rows of matrices, the depth; of attention: query rows, positions, values of a head. */
typedef enum dop_place_axis {
    DOP_PLACE_t,
    DOP_PLACE_n,
    DOP_PLACE_k,
    DOP_PLACE_AXES,
    DOP_PLACE_s = DOP_PLACE_n,
    DOP_PLACE_d = DOP_PLACE_k
} dop_place_axis;

/* How an operand (activations or weights) reaches the registers of the invocations that multiply it. */
typedef enum dop_path {
    DOP_PATH_direct, /* register-direct: from memory to registers, where the operand is used */
    DOP_PATH_pieces, /* staged in shared memory, a piece of k at a time */
    DOP_PATH_whole,  /* staged in shared memory as a whole, before everything else */
} dop_path;

/* How the lanes that share a sum add up their parts. */
typedef enum dop_meeting {
    DOP_MEET_none,
    DOP_MEET_lanes, /* in a subgroup, or a part of it */
    DOP_MEET_each,  /* each sum by itself in shared memory */
    DOP_MEET_shared /* in subgroups, then in shared memory */
} dop_meeting;

typedef struct dop_movement {
    dop_path path;
    uint32_t ahead;   /* prefetch distance: iterations of the innermost loop between a load and its use */
    uint32_t unit;    /* values that one load brings */
    const char *form; /* how values are stored in shared memory, for dumps */
} dop_movement;

typedef struct dop_nest_placement {
    uint32_t at[DOP_PLACE_AXES][DOP_LEVELS]; /* extent of an axis at a level; 0 is 1 */
    dop_movement x, w;                       /* of the activations, of the weights; of queries, of rows of the cache */
    dop_meeting sum;                         /* how lanes that share axis k add up their sums */
    uint32_t subgroup;
    const char *axes, *operands[2]; /* their names in dumps; NULL: those of products */
    const char *step; /* the call by which invocations that run in step see each other's writes; NULL: a barrier */
} dop_nest_placement;

/* One line for each axis and operand. */
void dop_placement_dump(const dop_nest_placement *p, dop_buf *out);
uint32_t dop_placement_size(const dop_nest_placement *p, dop_place_axis axis, dop_level level);

#endif
