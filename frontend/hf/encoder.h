/* Encoders: fields of config.json, and the modules of sentence-transformers (modules.json): pooling and dense
 * layers. */
#ifndef DOPPLER_FRONTEND_HF_ENCODER_H
#define DOPPLER_FRONTEND_HF_ENCODER_H

#include "frontend/hf/hf.h"

/* dop_hf_both_ways() reads whether attention is bidirectional; dop_hf_window_of_both() computes the window on each side.
 * dop_hf_encoder() reads further facts before the layers are read separately; dop_hf_settle_encoder() reads the rest afterwards,
 * such as sentence-transformers' modules. */
dop_status dop_hf_both_ways(dop_hf *hf, dop_attention *t);
dop_status dop_hf_window_of_both(dop_hf *hf, uint32_t *io_window);
dop_status dop_hf_encoder(dop_hf *hf);
dop_status dop_hf_settle_encoder(dop_hf *hf);
/* Returns the tensor name of a dense layer after the final norm, or of its bias or norm; NULL: another role. */
const char *dop_hf_dense_name(const dop_hf *hf, dop_role role, uint32_t *out_dense);

#endif
