/* Rotary embeddings in config.json: rope_theta and rope_scaling (old), or rope_parameters (new, possibly per layer
 * type). */
#ifndef DOPPLER_FRONTEND_HF_ROPE_H
#define DOPPLER_FRONTEND_HF_ROPE_H

#include "frontend/hf/hf.h"

/* Reads the rotary embeddings and assigns them to layers. sliding[n_layers]: true if the layer has type
 * sliding_attention. */
dop_status dop_hf_ropes(dop_hf *hf, const bool *sliding);

#endif
