/* config.json to facts.  Old files (torch_dtype, rope_theta, rope_scaling) and new ones (dtype, rope_parameters, layer_types) state the same; a field that neither has takes the value of the family's configuration class. */
#ifndef DOPPLER_FRONTEND_HF_CONFIG_H
#define DOPPLER_FRONTEND_HF_CONFIG_H

#include "frontend/hf/hf.h"

/* Reads sizes, layers, multipliers, biases: everything of dop_arch except the rotary embeddings and the ids. */
dop_status dop_hf_config(dop_hf *hf);

#endif
