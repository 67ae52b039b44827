/* Where the axes of a nest run, how operands get there, and how sums meet: a kernel's schedule as data. */
#ifndef DOPPLER_KERNELS_NEST_PLACEMENT_H
#define DOPPLER_KERNELS_NEST_PLACEMENT_H

#include "base/base.h"

/* From the outside to the inside. */
typedef enum dop_level {
    DOP_LEVEL_grid,  /* workgroups */
    DOP_LEVEL_piece, /* turns of a loop around what is staged at a time */
    DOP_LEVEL_group, /* teams of lanes in a workgroup */
    DOP_LEVEL_loop,  /* turns of the innermost loop that is not unrolled */
    DOP_LEVEL_lane,  /* lanes that share what they compute */
    DOP_LEVEL_reg,   /* side by side in registers */
    DOP_LEVELS
} dop_level;

typedef enum dop_place_axis { DOP_PLACE_t, DOP_PLACE_n, DOP_PLACE_k, DOP_PLACE_AXES } dop_place_axis;

/* How an operand reaches those that multiply it. */
typedef enum dop_path {
    DOP_PATH_direct, /* memory to registers, where it is used */
    DOP_PATH_pieces, /* to shared memory, a piece of k at a time */
    DOP_PATH_whole,  /* to shared memory, before everything else */
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
    uint32_t ahead;   /* turns of the innermost loop between a load and its use */
    uint32_t unit;    /* values of a load */
    const char *form; /* of the values in shared memory */
} dop_movement;

typedef struct dop_placement {
    uint32_t at[DOP_PLACE_AXES][DOP_LEVELS]; /* how many of an axis; 0 is 1 */
    dop_movement x, w;                       /* activations, weights */
    dop_meeting sum;                         /* of k */
    uint32_t subgroup;
} dop_placement;

/* One line for each axis and operand. */
void dop_placement_dump(const dop_placement *p, dop_buf *out);
uint32_t dop_placement_size(const dop_placement *p, dop_place_axis axis, dop_level level);

#endif
