/* Masks of allowed ids: a bit for each id of the vocabulary, with a copy on the device behind the step record. */
#ifndef DOPPLER_RUNTIME_STEP_SEQUENCE_MASK_H
#define DOPPLER_RUNTIME_STEP_SEQUENCE_MASK_H

#include <doppler/doppler.h>

/* The logits or, with a mask, a copy in which those of other ids are -infinity, valid until the next call. */
const float *dop_sequence_masked(dop_sequence *sequence, const float *logits);
/* The largest logit that the mask allows, the lowest id among equals; UINT32_MAX: one of all logits is not finite. */
uint32_t dop_sequence_largest(const dop_sequence *sequence, const float *logits);

#endif
