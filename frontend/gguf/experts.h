/* Mixtures of experts in GGUF files: keys "expert_*", and tensors if keys are missing. */
#ifndef DOPPLER_FRONTEND_GGUF_EXPERTS_H
#define DOPPLER_FRONTEND_GGUF_EXPERTS_H

#include "frontend/gguf/gguf_import.h"

/* Reads into each layer's feed-forward part whether it has experts, and how many. */
dop_status dop_gi_experts(dop_gi *gi);

#endif
