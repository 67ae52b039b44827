/* Tensors of a Hugging Face directory to canonical weights: names by the family's table, fused tensors as row ranges, Conv1D tensors by strides, experts as one tensor or a tensor each.  Matrices are not copied; some vectors are. */
#ifndef DOPPLER_FRONTEND_HF_WEIGHTS_H
#define DOPPLER_FRONTEND_HF_WEIGHTS_H

#include "frontend/hf/hf.h"

/* Maps the tensors, and fills model->weights with the weights that the facts call for. */
dop_status dop_hf_weights(dop_hf *hf);

#endif
