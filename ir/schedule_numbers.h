/* Numbers by which kernels and passes choose a schedule on a target (ir/schedule_numbers.def), as a struct. */
#ifndef DOPPLER_IR_SCHEDULE_NUMBERS_H
#define DOPPLER_IR_SCHEDULE_NUMBERS_H

#include <stdint.h>

/* What a tile on matrix units is for: any weights; quantized ones only, which are decoded less often with more tokens per tile, unless they are
 * loaded in units; two matrices in units; and those used only where waves of such tiles end sooner than those of the
 * first other shape that suits: for one matrix of floats or in units, for two matrices that are not in units, and for one or two
 * matrices that go to registers past shared memory. */
typedef enum dop_shape_kind {
    DOP_SHAPE_ANY,
    DOP_SHAPE_QUANT,
    DOP_SHAPE_UNITS,
    DOP_SHAPE_SOONER,
    DOP_SHAPE_SOONER_UNITS,
    DOP_SHAPE_SOONER_PAIR,
    DOP_SHAPE_DIRECT,
    DOP_SHAPE_DIRECT_PAIR
} dop_shape_kind;

/* A tile on matrix units: tokens, rows, depth, and the part of it that a subgroup owns. */
typedef struct dop_coop_shape {
    uint32_t bm, bn, bk, wm, wn;
    uint32_t busy; /* percent of the multiprocessors that must have a tile; large tiles make up for idle ones */
    /* Percent of the values that 128 x 128 makes in the same time, of one matrix and of each of two: larger tiles read fewer
     * bytes for each product. */
    uint32_t one, two;
    uint32_t kind; /* dop_shape_kind */
} dop_coop_shape;

/* A type of weights that may go to registers past shared memory, and the two percentages of such tiles, for which the others' take
 * longer as well: those of shapes are for floats. */
typedef struct dop_direct_type {
    uint32_t one, two;
    uint32_t type; /* dop_type */
} dop_direct_type;

/* A type of weights that are loaded in units: for one matrix 2, or 1 only in tiles whose waves end sooner; for each of two 1. */
typedef struct dop_unit_type {
    uint32_t one, two;
    uint32_t type; /* dop_type */
} dop_unit_type;

/* Which steps of a few tokens a tile is for (kernels/gen_matmul_few.c). */
typedef enum dop_few_list {
    DOP_FEW_FLOATS,
    DOP_FEW_FLOATS_SOME,
    DOP_FEW_SOME_WIDE,
    DOP_FEW_BLOCKS_SOME,
    DOP_FEW_FLOATS_WIDE,
    DOP_FEW_FLOATS_MANY,
    DOP_FEW_BLOCKS,
    DOP_FEW_BLOCKS_WIDE,
    DOP_FEW_ONE_WIDE,
    DOP_FEW_BLOCKS_MANY,
    DOP_N_FEW_LISTS
} dop_few_list;

/* Rows of weights (of all matrices of a part) per workgroup, depth, invocations, rows of a matrix and tokens per subgroup,
 * tiles in flight. */
typedef struct dop_few_shape {
    uint32_t rows, bk, wg, tn, tm, ahead;
    uint32_t list; /* dop_few_list */
} dop_few_shape;

/* Groups of rows by groups of positions, a subgroup each, and positions at a time. */
typedef struct dop_attention_groups {
    uint32_t row_groups, position_groups, positions;
} dop_attention_groups;

/* For heads of up to so many values, where there are many rows of queries and where there are few. */
typedef struct dop_attention_shape {
    uint32_t most_dim;
    dop_attention_groups many, few;
} dop_attention_shape;

typedef struct dop_schedule_numbers {
#define NUMBER(name, least, what) uint32_t name;
#define TABLE(name, row, most, tiles, words, what) \
    row name[most];                                \
    uint32_t n_##name;
#include "ir/schedule_numbers.def"
#undef NUMBER
#undef TABLE
} dop_schedule_numbers;

#endif
