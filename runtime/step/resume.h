/* Prefix reuse: starts a sequence with the longest prefix of a prompt whose states still exist. Sources are the
 * sequence itself, other sequences, the page pool, checkpoints and the store. */
#ifndef DOPPLER_RUNTIME_STEP_RESUME_H
#define DOPPLER_RUNTIME_STEP_RESUME_H

#include "runtime/model/model.h"

/* Sets the sequence to the longest prefix of the prompt whose states exist. Runs no step. */
dop_status dop_sequence_resume(dop_sequence *sequence, const dop_prompt *prompt, dop_diag *diag, dop_resumed *out);
/* Returns the number of prompt keys that the sequence itself covers after a rewind. */
uint32_t dop_sequence_reach(dop_sequence *sequence, uint64_t seed, const uint32_t *keys, size_t most);

#endif
