/* Prompt states in host memory and files (runtime/cache/store.h): saves them at the end of a turn, and resumes prompts
 * from them. */
#ifndef DOPPLER_RUNTIME_STEP_STORED_H
#define DOPPLER_RUNTIME_STEP_STORED_H

#include "runtime/cache/store.h"
#include "runtime/step/restore_point.h"

/* Returns the identity that snapshots of this model's states must match. */
dop_snapshot_plan dop_stored_plan(const dop_model *model);
/* Opens the store that the options request, after loading. */
dop_status dop_stored_open(dop_model *model, const dop_open_options *options, dop_diag *diag);

/* Reads states into memory of their size, rows first. */
dop_status dop_stored_read(dop_model *model, const dop_states *states, uint8_t *out, dop_diag *diag);
/* Size of states in snapshot format, and writing them to the device from that format. */
uint64_t dop_stored_size(dop_model *model, const dop_states *states);
dop_status dop_stored_write(dop_model *model, const dop_states *states, const uint8_t *bytes, dop_diag *diag);

/* Stores the states of the sequence and of its checkpoints that are not stored yet. Nothing may be in flight. */
dop_status dop_stored_keep(dop_sequence *sequence, dop_diag *diag);

/* Stored states from which a prompt can resume. */
typedef struct dop_stored_load {
    uint32_t n;               /* number of tokens; 0: nothing found */
    uint32_t rows;            /* how many of the n tokens have their rows on the device already, in whole blocks */
    uint32_t known;           /* tokens whose blocks are stored, with or without states of a single position */
    dop_snapshot **snapshots; /* owned, [n_images]: blocks from `rows` on, then the checkpoint */
    uint32_t n_images;
} dop_stored_load;
/* Finds the longest stored prefix of the first `most` keys that is longer than `least`. The first `rows` keys have
 * their rows on the device. */
dop_status dop_stored_find(dop_model *model, uint64_t seed, const uint32_t *keys, uint32_t most, uint32_t rows,
                           uint32_t least, dop_diag *diag, dop_stored_load *out);
/* Loads the states into the sequence, which must have the first load->rows rows already. Fails with DOP_E_FULL if there
 * are too few pages. */
dop_status dop_stored_take(dop_sequence *sequence, const dop_stored_load *load, dop_diag *diag);
/* Returns statistics of the prompt files. Callable from any thread. */
dop_files_counts dop_stored_count_files(const dop_model *model);
void dop_stored_load_finish(dop_stored_load *load); /* accepts a zeroed one */

#endif
