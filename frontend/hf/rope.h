/* Rotary embeddings of config.json: rope_theta + rope_scaling (old), rope_parameters (new, also one per layer type). */
#ifndef DOPPLER_FRONTEND_HF_ROPE_H
#define DOPPLER_FRONTEND_HF_ROPE_H

#include "frontend/hf/hf.h"

/* Reads the rotary embeddings, and which layer uses which.  sliding[n_layers]: the layer is of type sliding_attention. */
dop_status dop_hf_ropes(dop_hf *hf, const bool *sliding);

#endif
