/* The program `encode`, which turns rows of texts into vectors or scores, and embeddings from a sequence's hidden
 * states. */
#ifndef DOPPLER_RUNTIME_STEP_ENCODE_H
#define DOPPLER_RUNTIME_STEP_ENCODE_H

#include <doppler/doppler.h>

/* Scales a vector to Euclidean length 1 if `scale` is set. Fails with DOP_E_INPUT if it is not finite. */
dop_status dop_vector_normalize(const dop_model *model, float *v, uint32_t n, bool scale, dop_diag *diag);

#endif
