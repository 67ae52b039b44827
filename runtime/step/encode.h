/* The program `encode`: rows of texts to vectors or scores; and embeddings from the hidden states of a sequence's tokens. */
#ifndef DOPPLER_RUNTIME_STEP_ENCODE_H
#define DOPPLER_RUNTIME_STEP_ENCODE_H

#include <doppler/doppler.h>

/* encode.c: scales a vector to Euclidean length 1 if told; DOP_E_INPUT: it is not finite. */
dop_status dop_vector_normalize(const dop_model *model, float *v, uint32_t n, bool scale, dop_diag *diag);

#endif
