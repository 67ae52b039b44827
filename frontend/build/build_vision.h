/* Builds the graphs of a model's vision part: the tower, and the features made of its rows. */
#ifndef DOPPLER_FRONTEND_BUILD_BUILD_VISION_H
#define DOPPLER_FRONTEND_BUILD_BUILD_VISION_H

#include "base/step_record.h"
#include "frontend/facts/vision.h"
#include "ir/graph/graph.h"

typedef struct dop_vision_options {
    uint32_t max_t;    /* most rows of a step */
    dop_type act_type; /* f16 or f32: storage of activations between regions */
    bool together; /* one graph of features has those of all outputs of the tower, received as "rows" and "deep<n>" */
    /* [m->weights.n] storage type of each weight in the plan; NULL: the stored ones. */
    const dop_type *types;
    /* An encoder of audio: the decoder that attends to its rows; sequences, and storage of keys and of values in its states. */
    const dop_arch *decoder;
    uint32_t max_q;
    dop_type kv_type, v_type;
} dop_vision_options;

/* Builds the graph of the vision tower: an output row for each row of patches, tile after tile.
 * Inputs: "positions" u32 [T] (position of the row in its tile) and "lasts" u32 [T] (position of the tile's last row).
 * Received:
 *   "patches" f32 [T, row_values]      zeros for a class token, which is the last row of its tile
 *   "in_window", "window_lasts" u32 [T]   where layers have windows (dop_image_row)
 *   "places" u32 [T]                   where positions have a table: the patch's number in reading order, or the last row
 *   "corners" u32 [T, 4], "shares" f32 [T, 4]   where positions are interpolated between four rows (dop_image_corners)
 *   "resampling" f32 [T, n_places]     where the table of positions is resized: the weights of its rows (dop_image_resampling)
 *   "axes" u32 [T, 2]                  where columns and rows have a table: the patch's column, and n_places / 2 + its row
 *   "turns" u32 [T]                    with rotations: row of the patch * DOP_STEP_EDGE + column, for the weight "v.turns"
 *                                      (dop_vision_turns)
 * The origin of a weight leaf is the weight's number in m->weights.
 * Outputs: f32 [T, hidden] for the features, then one for each layer of facts->deep. */
dop_status dop_build_vision(const dop_vision_model *m, const dop_vision_options *opt, dop_arena *arena, dop_diag *diag,
                            dop_graph *out_graph);
/* Builds the graph that makes features of the rows of an output of the tower.  output: 0, or 1 + n for layer deep[n].  Leaf: received
 * "rows" f32 [T, merge * merge * hidden], the tower's output as it lies in memory, without class tokens.  Output: f32 [T, features]. */
dop_status dop_build_features(const dop_vision_model *m, uint32_t output, const dop_vision_options *opt,
                              dop_arena *arena, dop_diag *diag, dop_graph *out_graph);

/* Builds the graph of an encoder of audio: from the frames of chunks of audio, each of 2 * n_places frames, to a row for two frames.
 * max_t is a multiple of n_places.
 * Inputs: "positions" u32 [T] (position of the row in its chunk) and "sequences" u32 [T] (the sequence that the chunk belongs to).
 * Received: "mel" f32 [2T, bins], and "lasts" u32 [T], the position of the chunk's last row.
 * States: "L<i>.cross_k" and "L<i>.cross_v" of the decoder's layers, which the graph fills.
 * Outputs: f32 [T, hidden], the rows, then the states. */
dop_status dop_build_audio(const dop_vision_model *m, const dop_vision_options *opt, dop_arena *arena, dop_diag *diag,
                           dop_graph *out_graph);

/* Computes the rotary table of the tower, table [2 * DOP_STEP_EDGE, head_dim]: a row for each column of patches, then one for
 * each row of patches, with cosines, then sines of their angles.  A patch turns by the sum of both angles. */
void dop_vision_turns(const dop_vision *v, float *out_table);

#endif
