/* Mixtures of experts in GGUF files: keys "expert_*", and tensors where the keys are silent. */
#ifndef DOPPLER_FRONTEND_GGUF_EXPERTS_H
#define DOPPLER_FRONTEND_GGUF_EXPERTS_H

#include "frontend/gguf/gguf_import.h"

/* Reads which layers have experts, and how many, into their feed-forward parts. */
dop_status dop_gi_experts(dop_gi *gi);

#endif
