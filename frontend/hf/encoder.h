/* Encoders: their fields of config.json, and the modules of sentence-transformers (modules.json): pooling of rows to a vector, and dense layers. */
#ifndef DOPPLER_FRONTEND_HF_ENCODER_H
#define DOPPLER_FRONTEND_HF_ENCODER_H

#include "frontend/hf/hf.h"

/* encoder.c.  dop_hf_both_ways() reads whether rows also see later rows, and dop_hf_window_of_both() the window on each side.
 * dop_hf_encoder() reads an encoder's other facts, before what differs between layers is read, and dop_hf_settle_encoder() the rest
 * afterwards, such as sentence-transformers' modules. */
dop_status dop_hf_both_ways(dop_hf *hf, dop_attention *t);
dop_status dop_hf_window_of_both(dop_hf *hf, uint32_t *io_window);
dop_status dop_hf_encoder(dop_hf *hf);
dop_status dop_hf_settle_encoder(dop_hf *hf);
/* The tensor name of a product after the last norm, or of its bias or norm; NULL: the role is none of the three. */
const char *dop_hf_dense_name(const dop_hf *hf, dop_role role, uint32_t *out_dense);

#endif
