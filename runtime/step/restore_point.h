/* Checkpoints on the device: copies of what brings a sequence back to a position, in slots (dop_slots).
 *
 * Caches that keep every position need none: a sequence that is rewound still has their rows, and pages are found by their keys.
 * What belongs to one position (rings of windows, what steps replace) is in a checkpoint, with the rows of a last page that
 * is not full.  Checkpoints are made at the ends of chunks and turns and where prompts have parted; the one that was used
 * least recently makes room for the next, unless somebody holds it. */
#ifndef DOPPLER_RUNTIME_STEP_RESTORE_POINT_H
#define DOPPLER_RUNTIME_STEP_RESTORE_POINT_H

#include "runtime/model/model.h"

#include <doppler/doppler.h>

/* After loading, in all parts: finds whether sequences have states of one position, and makes the slots that the options ask for. */
dop_status dop_restore_points_open(dop_model *model, const dop_open_options *options, dop_diag *diag);
void dop_restore_points_finish(dop_model *model);

/* Makes a checkpoint of the states of the first n_fed tokens, with nothing in flight.  *out_checkpoint is NULL where there is no slot
 * for it. */
dop_status dop_restore_point_make(dop_sequence *sequence, dop_diag *diag, dop_restore_point **out_checkpoint);
/* The longest checkpoint that is a beginning of these keys: of at most `most` of them, and at most a page past the first `rows`. */
dop_restore_point *dop_restore_point_find(dop_model *model, uint64_t seed, const uint32_t *keys, uint32_t most,
                                          uint32_t rows);
/* Takes the states to a checkpoint.  The sequence has the rows of caches up to there, or (tail) up to the beginning of its last page. */
dop_status dop_restore_point_take(dop_sequence *sequence, dop_restore_point *checkpoint, bool tail, dop_diag *diag);

/* Ends of chunks, and where prompts part: a checkpoint, if one is of use and nothing is in flight.  At the ends of chunks
 * the last two stay, because formats write the end of a prompt anew, and some that are spread over the prompt. */
dop_status dop_sequence_mark(dop_sequence *sequence, dop_diag *diag);
dop_status dop_sequence_mark_chunk(dop_sequence *sequence, dop_diag *diag);

#endif
