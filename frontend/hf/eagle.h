/* Drafters. dop_sharer: Gemma 4's assistant, whose text_config is that of a Gemma 4 with few layers. dop_eagle:
 * EAGLE-3's original layout (config.json of a one-layer Llama, with more fields), and the layout of "speculators", with
 * the layer's fields in transformer_layer_config. */
#ifndef DOPPLER_FRONTEND_HF_EAGLE_H
#define DOPPLER_FRONTEND_HF_EAGLE_H

#include "frontend/hf/hf.h"

/* Turn an imported model into a drafter of kind dop_sharer (dop_hf_reader) or dop_eagle (dop_hf_eagle). dop_hf_eagle_tensors()
 * finds the optional tensors of the drafter and the name prefixes inside and outside of its layer. dop_hf_eagle_list() reads the
 * weight w, the list of draft token ids. Defined in eagle.c. */
dop_status dop_hf_reader(dop_hf *hf);
dop_status dop_hf_eagle(dop_hf *hf);
void dop_hf_eagle_tensors(dop_hf *hf, const dop_st_set *set, const char **out_root, const char **out_inside);
dop_status dop_hf_eagle_list(dop_hf *hf, const dop_st_set *set, const char *name, dop_weight *w);

#endif
