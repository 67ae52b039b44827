/* Prefix reuse: a sequence begins with as much of a prompt as anything holds -- itself, another sequence, pages and a checkpoint. */
#ifndef DOPPLER_RUNTIME_STEP_RESUME_H
#define DOPPLER_RUNTIME_STEP_RESUME_H

#include "runtime/model/model.h"

/* Makes the sequence the beginning of the prompt that any state covers; runs no step. */
dop_status dop_sequence_resume(dop_sequence *sequence, const dop_prompt *prompt, dop_diag *diag, dop_resumed *out);
/* How many tokens of a prompt, by its keys, the sequence itself covers when it is rewound. */
uint32_t dop_sequence_reach(dop_sequence *sequence, uint64_t seed, const uint32_t *keys, size_t most);

#endif
