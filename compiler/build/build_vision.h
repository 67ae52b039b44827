/* Graphs of a model's vision part. */
#ifndef DOPPLER_COMPILER_BUILD_BUILD_VISION_H
#define DOPPLER_COMPILER_BUILD_BUILD_VISION_H

#include "compiler/model/vision.h"
#include "ir/graph.h"

enum { DOP_VISION_EDGE = 1024 }; /* patches along an edge of a tile: rotations know rows and columns below it */

typedef struct dop_vision_options {
    uint32_t max_t;    /* rows of a step */
    dop_type act_type; /* f16 or f32 */
    bool no_deep;      /* the tower gives no results of layers */
    /* [m->weights.n] with which they are packed; NULL: as they are stored. */
    const dop_type *types;
} dop_vision_options;

/* The tower: rows of patches, tile after tile, to rows of the same number.
 * Leaves: inputs u32 [T] "positions" (of the row in its tile) and "lasts" (that of the tile's last row); received are "patches" f32
 * [T, row_values] (zeros of a class token, which is the last row of its tile), with windows "in_window" and "window_lasts" u32 [T]
 * (dop_image_row), with a table "places" u32 [T] (its row: the patch in reading order, or the last one), with corners "corners"
 * u32 [T, 4] and "shares" f32 [T, 4], with rotations "turns" u32 [T] (row of the patch * DOP_VISION_EDGE + column) beside the weight
 * "v.turns" (dop_vision_turns).
 * The weights of m are those of its checkpoint, or its own: origins are their numbers.
 * Outputs: f32 [T, hidden] for the features, then for each layer of facts->deep. */
dop_status dop_build_vision(const dop_vision_model *m, const dop_vision_options *opt, dop_arena *arena, dop_diag *diag,
                            dop_graph *out_graph);
/* What makes features of the rows of an output of the tower: 0, or 1 + n for layer deep[n].  Leaf: received "rows" f32 [T, merge *
 * merge * hidden], which is the tower's output as it lies in memory (without class tokens).  Output: f32 [T, features]. */
dop_status dop_build_features(const dop_vision_model *m, uint32_t output, const dop_vision_options *opt,
                              dop_arena *arena, dop_diag *diag, dop_graph *out_graph);

/* table [2 * DOP_VISION_EDGE, head_dim]: cosines, then sines, of the angles of a column, then of a row; a patch has the sum. */
void dop_vision_turns(const dop_vision *v, float *out_table);
/* Which rows of a learned square of `edge` rows and columns a patch of a grid is between, and their shares. */
void dop_vision_corners(uint32_t edge, uint32_t y, uint32_t x, uint32_t grid_height, uint32_t grid_width,
                        uint32_t out_rows[4], float out_shares[4]);

#endif
