/* Builds the graphs of a model's vision part: the tower, and the features made of its rows. */
#ifndef DOPPLER_FRONTEND_BUILD_BUILD_VISION_H
#define DOPPLER_FRONTEND_BUILD_BUILD_VISION_H

#include "base/step_record.h"
#include "frontend/facts/vision.h"
#include "ir/graph/graph.h"

typedef struct dop_vision_options {
    uint32_t max_t;    /* maximum rows per step */
    dop_type act_type; /* storage type of activations between regions: f16 or f32 */
    bool together;     /* one graph computes the features of all tower outputs, received as "rows" and "deep<n>" */
    /* [m->weights.n] storage type of each weight in the plan; NULL: as stored. */
    const dop_type *types;
    /* Audio encoder: facts of the decoder; number of sequences, and storage types of keys and values, of its
     * cross-attention states. */
    const dop_arch *decoder;
    uint32_t max_q;
    dop_type kv_type, v_type;
} dop_vision_options;

/* Builds the graph of the vision tower: one output row per patch row, tile by tile. Inputs: "positions" u32 [T] (position of the row in
 * its tile) and "lasts" u32 [T] (position of the tile's last row). Received:
 *   "patches" f32 [T, row_values]    patch values; zeros for a class token, the last row of its tile
 *   "in_window", "window_lasts" u32 [T]    with windowed layers (dop_image_row)
 *   "places" u32 [T]    with a position table: the patch's number in reading order, or the last row
 *   "corners" u32 [T, 4], "shares" f32 [T, 4]    with interpolated positions: four rows and their weights (dop_image_corners)
 *   "resampling" f32 [T, n_places]    with a resized position table: the weights of its rows (dop_image_resampling)
 *   "axes" u32 [T, 2]    with tables for columns and rows: the patch's column, and n_places / 2 + its row
 *   "turns" u32 [T]    with RoPE: patch row * DOP_STEP_EDGE + column, for weight "v.turns" (dop_vision_turns)
 * The origin of a weight leaf is the weight's index in m->weights. Outputs: f32 [T, hidden] for the features, then one per layer of
 * facts->deep. */
dop_status dop_build_vision(const dop_vision_model *m, const dop_vision_options *opt, dop_arena *arena, dop_diag *diag,
                            dop_graph *out_graph);
/* Builds the graph that computes features from a tower output. output: 0, or 1 + n for layer deep[n]. Received: "rows" f32 [T,
 * merge * merge * hidden], the tower's output as stored, without class tokens. Output: f32 [T, features]. */
dop_status dop_build_features(const dop_vision_model *m, uint32_t output, const dop_vision_options *opt,
                              dop_arena *arena, dop_diag *diag, dop_graph *out_graph);

/* Builds the graph of an audio encoder: converts chunks of 2 * n_places frames to n_places rows each. max_t is a multiple of
 * n_places. Inputs: "positions" u32 [T] (position of the row in its chunk) and "sequences" u32 [T] (sequence of the chunk).
 * Received: "mel" f32 [2T, bins], and "lasts" u32 [T], the position of the chunk's last row. States: "L<i>.cross_k" and
 * "L<i>.cross_v" of the decoder's layers, which the graph writes. Outputs: f32 [T, hidden], the rows; then the states. */
dop_status dop_build_audio(const dop_vision_model *m, const dop_vision_options *opt, dop_arena *arena, dop_diag *diag,
                           dop_graph *out_graph);

/* Computes the tower's rotary table [2 * DOP_STEP_EDGE, head_dim]: a row per patch column, then a row per patch row, with
 * cosines, then sines. A patch rotates by the sum of both angles. */
void dop_vision_turns(const dop_vision *v, float *out_table);

#endif
