/* Mixtures of experts in config.json, by the fields that the family's row names. */
#ifndef DOPPLER_FRONTEND_HF_EXPERTS_H
#define DOPPLER_FRONTEND_HF_EXPERTS_H

#include "frontend/hf/hf.h"

/* Reads which layers have experts, and how many, into their feed-forward parts. */
dop_status dop_hf_experts(dop_hf *hf);

#endif
