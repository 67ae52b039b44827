/* Converts tensors of a Hugging Face directory to canonical weights: names from the family's table, fused tensors as
 * row ranges, Conv1D tensors by strides, experts as one tensor or one each. Matrices are not copied; some vectors
 * are. */
#ifndef DOPPLER_FRONTEND_HF_WEIGHTS_H
#define DOPPLER_FRONTEND_HF_WEIGHTS_H

#include "frontend/hf/hf.h"

/* Maps the tensors and adds all required weights to model->weights. */
dop_status dop_hf_weights(dop_hf *hf);

#endif
