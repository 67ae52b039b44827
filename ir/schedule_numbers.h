/* Numbers by which kernels and passes choose a schedule on a target (ir/schedule_numbers.def), as a struct. */
#ifndef DOPPLER_IR_SCHEDULE_NUMBERS_H
#define DOPPLER_IR_SCHEDULE_NUMBERS_H

#include <stdint.h>

/* Which products a shape of tile on matrix units is for.  From SOONER on, a shape is used only where its waves of tiles end sooner
 * than the waves of the first suitable shape before SOONER.
 *   ANY            any weights
 *   QUANT          quantized weights that are not loaded in units: more tokens per tile decode them less often
 *   UNITS          two sibling products whose weights are loaded in units
 *   SOONER         one matrix of floats
 *   SOONER_UNITS   one matrix that is loaded in units
 *   SOONER_PAIR    two sibling products whose weights are not loaded in units
 *   DIRECT         one matrix, register-direct
 *   DIRECT_PAIR    two sibling products, register-direct */
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

/* The shape of a tile of products on matrix units: bm tokens by bn rows of weights, staged bk values of the depth at a time; a
 * subgroup owns wm tokens by wn rows. */
typedef struct dop_coop_shape {
    uint32_t bm, bn, bk, wm, wn;
    uint32_t busy; /* percent of the multiprocessors that must have a tile; large tiles make up for idle ones */
    /* Throughput of the shape in percent of a tile of 128 x 128, for one matrix and for each of two sibling products: larger tiles
     * read fewer bytes for each product. */
    uint32_t one, two;
    uint32_t kind; /* dop_shape_kind */
} dop_coop_shape;

/* A type of weights that may be register-direct, with the throughput of register-direct tiles of the type in percent of a tile of
 * 128 x 128, for one matrix and for each of two sibling products; 0: not register-direct.  (For these tiles it replaces `one` and
 * `two` of dop_coop_shape, which do not depend on the type.) */
typedef struct dop_direct_type {
    uint32_t one, two;
    uint32_t type; /* dop_type */
} dop_direct_type;

/* A type of weights that tiles on matrix units load in whole units wherever each invocation gets equally many, and which shapes of
 * tiles products of the type may have (dop_shape_kind).  one, for one matrix: 1 allows SOONER_UNITS, 2 also forbids QUANT.  two,
 * for two sibling products: 1 allows UNITS, and forbids QUANT and SOONER_PAIR. */
typedef struct dop_unit_type {
    uint32_t one, two;
    uint32_t type; /* dop_type */
} dop_unit_type;

/* Which steps of a few tokens a tile is for (kernels/product/gen_matmul_few.c). */
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

/* The shape of a small-batch tile on matrix units: rows of weights (of all matrices of a part) per workgroup, depth staged in a
 * pass (bk), invocations (wg), rows of a matrix (tn) and tokens (tm) per subgroup, tiles of depth in flight (ahead). */
typedef struct dop_few_shape {
    uint32_t rows, bk, wg, tn, tm, ahead;
    uint32_t list; /* dop_few_list */
} dop_few_shape;

/* How attention on matrix units divides a workgroup: a subgroup for each pair of a group of query rows and a group of cache
 * positions, and the positions that are walked over at a time. */
typedef struct dop_attention_groups {
    uint32_t row_groups, position_groups, positions;
} dop_attention_groups;

/* The shape of a workgroup of attention on matrix units for heads of up to `most_dim` values: where a step has many rows of
 * queries, and where it has few. */
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
