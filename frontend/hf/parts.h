/* Multimodal models (text, pictures, sound), whose text part is described by text_config. */
#ifndef DOPPLER_FRONTEND_HF_PARTS_H
#define DOPPLER_FRONTEND_HF_PARTS_H

#include "frontend/hf/hf.h"

/* True if `arch` is a multimodal model whose text part is a model of its own (text_config.model_type). Text input is then
 * computed as by that model. Families with a text part of their own list `arch` in their row. */
bool dop_hf_any_text_part(const char *arch);
dop_hf_sizes dop_hf_part_sizes(const dop_hf *hf);

#endif
