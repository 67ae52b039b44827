/* Schedule numbers of a target (ir/schedule_numbers.def) as a struct: kernels and passes choose variants and tiles
 * by them. */
#ifndef DOPPLER_IR_SCHEDULE_NUMBERS_H
#define DOPPLER_IR_SCHEDULE_NUMBERS_H

#include <stdint.h>

/* The products that a tile shape on matrix units is for.  Shapes from SOONER on are used only if their last wave of tiles ends
 * sooner than that of the first suitable shape before SOONER.
 *   ANY            any weights
 *   QUANT          quantized weights not loaded in units: more tokens per tile reduce how often weights are decoded
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

/* Tile shape of products on matrix units: bm tokens by bn rows of weights, with bk values of the depth staged at a time.  A
 * subgroup computes wm tokens by wn rows. */
typedef struct dop_coop_shape {
    uint32_t bm, bn, bk, wm, wn;
    uint32_t
        busy; /* minimum occupancy: percent of the multiprocessors that must have a tile; large tiles make up for idle ones */
    /* Throughput of the shape in percent of a 128 x 128 tile, for one matrix and for each of two sibling products.  Larger tiles
     * read fewer bytes per product. */
    uint32_t one, two;
    uint32_t kind; /* dop_shape_kind */
} dop_coop_shape;

/* A type of weights that may be register-direct. one, two: throughput of such tiles in percent of a 128 x 128 tile, for one
 * matrix and for each of two sibling products; 0: not register-direct.  They replace `one` and `two` of dop_coop_shape, which do
 * not depend on the type. */
typedef struct dop_direct_type {
    uint32_t one, two;
    uint32_t type; /* dop_type */
} dop_direct_type;

/* A type of weights that matrix-unit tiles load in whole units if every invocation gets equally many.  It also selects the
 * permitted tile shapes (dop_shape_kind). one, for one matrix: 1 allows SOONER_UNITS, 2 also forbids QUANT. two, for two sibling
 * products: 1 allows UNITS, and forbids QUANT and SOONER_PAIR. */
typedef struct dop_unit_type {
    uint32_t one, two;
    uint32_t type; /* dop_type */
} dop_unit_type;

/* Small-batch cases that a tile is for (kernels/product/gen_matmul_few.c). */
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

/* Shape of a small-batch tile on matrix units.  rows: rows of weights per workgroup, of all matrices of a segment; bk: depth
 * staged in a pass; wg: invocations; tn, tm: rows of a matrix and tokens per subgroup; ahead: depth tiles in flight. */
typedef struct dop_few_shape {
    uint32_t rows, bk, wg, tn, tm, ahead;
    uint32_t list; /* dop_few_list */
} dop_few_shape;

/* How attention on matrix units divides a workgroup: one subgroup per pair of a query row group and a cache position group, and
 * the number of positions processed per iteration. */
typedef struct dop_attention_groups {
    uint32_t row_groups, position_groups, positions;
} dop_attention_groups;

/* Workgroup shape of attention on matrix units for heads of up to `most_dim` values: for steps with many and with few query rows. */
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
