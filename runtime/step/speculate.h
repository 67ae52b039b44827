/* Functions of speculate.c. */
#ifndef DOPPLER_RUNTIME_STEP_SPECULATE_H
#define DOPPLER_RUNTIME_STEP_SPECULATE_H

#include <doppler/doppler.h>

/* Speculates by the plan's own layer that drafts, where it has one and nothing else was said about drafts. */
dop_status dop_sequence_draft_by_default(dop_sequence *sequence, dop_diag *diag);

#endif
