/* Mixtures of experts in config.json; the family's row names the fields. */
#ifndef DOPPLER_FRONTEND_HF_EXPERTS_H
#define DOPPLER_FRONTEND_HF_EXPERTS_H

#include "frontend/hf/hf.h"

/* Reads into each layer's feed-forward part whether it has experts, and how many. */
dop_status dop_hf_experts(dop_hf *hf);

#endif
