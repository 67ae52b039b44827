/* Speculative decoding of a sequence (speculate.c). */
#ifndef DOPPLER_RUNTIME_STEP_SPECULATE_H
#define DOPPLER_RUNTIME_STEP_SPECULATE_H

#include <doppler/doppler.h>

/* Turns on speculation with the plan's draft layer if the plan has one and the caller has not configured
 * speculation. */
dop_status dop_sequence_draft_by_default(dop_sequence *sequence, dop_diag *diag);

#endif
