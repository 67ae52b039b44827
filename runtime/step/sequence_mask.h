/* Masks of allowed token ids: one bit per id of the vocabulary, with a device copy after the step record. */
#ifndef DOPPLER_RUNTIME_STEP_SEQUENCE_MASK_H
#define DOPPLER_RUNTIME_STEP_SEQUENCE_MASK_H

#include <doppler/doppler.h>

/* Returns the logits, or with a mask a copy in which disallowed ids are -infinity. Valid until the next call. */
const float *dop_sequence_masked(dop_sequence *sequence, const float *logits);
/* Returns the allowed id with the largest logit, the lowest id if several are equal; UINT32_MAX: some logit is not
 * finite. */
uint32_t dop_sequence_largest(const dop_sequence *sequence, const float *logits);

#endif
