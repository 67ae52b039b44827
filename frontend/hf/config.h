/* Converts config.json to facts. Supports old fields (torch_dtype, rope_theta, rope_scaling) and new ones (dtype,
 * rope_parameters, layer_types). Missing fields get the defaults of the family's configuration class. */
#ifndef DOPPLER_FRONTEND_HF_CONFIG_H
#define DOPPLER_FRONTEND_HF_CONFIG_H

#include "frontend/hf/hf.h"

/* Reads all facts of dop_arch except rotary embeddings and token ids. */
dop_status dop_hf_config(dop_hf *hf);

#endif
