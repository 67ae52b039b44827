/* States of prompts in host memory and files (runtime/cache/store.h): what a sequence leaves there at the end of a turn, and how a
 * prompt goes on from it. */
#ifndef DOPPLER_RUNTIME_STEP_STORED_H
#define DOPPLER_RUNTIME_STEP_STORED_H

#include "runtime/cache/store.h"
#include "runtime/step/restore_point.h"

/* What snapshots of this model's states must fit. */
dop_snapshot_plan dop_stored_plan(const dop_model *model);
/* After loading: opens the store that the options ask for. */
dop_status dop_stored_open(dop_model *model, const dop_open_options *options, dop_diag *diag);

/* Reads states to memory of their size, rows first. */
dop_status dop_stored_read(dop_model *model, const dop_states *states, uint8_t *out, dop_diag *diag);
/* Size of states as snapshots have them, and writing those. */
uint64_t dop_stored_size(dop_model *model, const dop_states *states);
dop_status dop_stored_write(dop_model *model, const dop_states *states, const uint8_t *bytes, dop_diag *diag);

/* Stores the states of the sequence and of its checkpoints that are not stored yet, with nothing in flight. */
dop_status dop_stored_keep(dop_sequence *sequence, dop_diag *diag);

/* What a prompt may go on from. */
typedef struct dop_stored_load {
    uint32_t n;               /* tokens; 0: nothing */
    uint32_t rows;            /* of these the first are on the device already, whole blocks */
    uint32_t known;           /* tokens of which blocks are known, with or without states that belong to one position */
    dop_snapshot **snapshots; /* owned, [n_images]: blocks from `rows` on, then the point */
    uint32_t n_images;
} dop_stored_load;
/* Finds the most tokens, more than `least`, of the first `most` keys; the first `rows` of them have rows on the device. */
dop_status dop_stored_find(dop_model *model, uint64_t seed, const uint32_t *keys, uint32_t most, uint32_t rows,
                           uint32_t least, dop_diag *diag, dop_stored_load *out);
/* Takes the sequence there.  It has the rows on the device already.  DOP_E_FULL: there are not enough pages. */
dop_status dop_stored_take(dop_sequence *sequence, const dop_stored_load *load, dop_diag *diag);
/* Counts of the files of prompts, which any thread may ask for. */
dop_files_counts dop_stored_count_files(const dop_model *model);
void dop_stored_load_finish(dop_stored_load *load); /* accepts a zeroed one */

#endif
