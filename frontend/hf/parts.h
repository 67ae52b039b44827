/* Models of several parts (text, pictures, sound), of which the text part is described by text_config. */
#ifndef DOPPLER_FRONTEND_HF_PARTS_H
#define DOPPLER_FRONTEND_HF_PARTS_H

#include "frontend/hf/hf.h"

/* Is `arch` a model of several parts whose text part is a model by itself, named by text_config.model_type?  Text alone is then
 * computed as by that model.  Families with a text part of their own list `arch` in their row. */
bool dop_hf_any_text_part(const char *arch);
dop_hf_sizes dop_hf_part_sizes(const dop_hf *hf);

#endif
