/* Checkpoints on the device: copies of the states that bring a sequence back to a position, in slots (dop_slots).
 *
 * Caches that keep every position need none: a rewound sequence still has their rows, and pages are found by their
 * keys. A checkpoint holds the states of a single position (sliding windows, replaced states) and the rows of a partly
 * filled last page. Checkpoints are made at the ends of chunks and turns, and where prompts diverge. The least recently
 * used one without handles is evicted first. */
#ifndef DOPPLER_RUNTIME_STEP_RESTORE_POINT_H
#define DOPPLER_RUNTIME_STEP_RESTORE_POINT_H

#include "runtime/model/model.h"

#include <doppler/doppler.h>

/* Detects whether sequences have states of a single position, and makes the slots that the options request. Runs after
 * loading, in all parts. */
dop_status dop_restore_points_open(dop_model *model, const dop_open_options *options, dop_diag *diag);
void dop_restore_points_finish(dop_model *model);

/* Makes a checkpoint of the states of the first n_fed tokens. Nothing may be in flight. *out_checkpoint is NULL if
 * there is no slot for it. */
dop_status dop_restore_point_make(dop_sequence *sequence, dop_diag *diag, dop_restore_point **out_checkpoint);
/* Returns the longest checkpoint whose keys are a prefix of these: at most `most` keys, and at most a page past the
 * first `rows`. */
dop_restore_point *dop_restore_point_find(dop_model *model, uint64_t seed, const uint32_t *keys, uint32_t most,
                                          uint32_t rows);
/* Restores the states from a checkpoint. The sequence must have the cache rows up to its position; with `tail`, only up
 * to the start of its last page. */
dop_status dop_restore_point_take(dop_sequence *sequence, dop_restore_point *checkpoint, bool tail, dop_diag *diag);

/* Make a checkpoint if it is useful and nothing is in flight. dop_sequence_mark is for positions where prompts diverge,
 * dop_sequence_mark_chunk for ends of chunks. The last two chunk checkpoints and some spread over the prompt are kept,
 * because chat formats may rewrite the end of a prompt. */
dop_status dop_sequence_mark(dop_sequence *sequence, dop_diag *diag);
dop_status dop_sequence_mark_chunk(dop_sequence *sequence, dop_diag *diag);

#endif
