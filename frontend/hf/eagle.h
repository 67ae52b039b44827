/* Drafters.  dop_sharer: Gemma 4's assistant, whose text_config is that of a Gemma 4 of a few layers.  dop_eagle: the original layout of EAGLE-3, whose config.json is that of a Llama of one layer with more fields, and that of "speculators", which has the layer's fields in transformer_layer_config. */
#ifndef DOPPLER_FRONTEND_HF_EAGLE_H
#define DOPPLER_FRONTEND_HF_EAGLE_H

#include "frontend/hf/hf.h"

/* eagle.c.  reader: makes the model that was read the drafter that it is (dop_sharer).  eagle: makes the model of one layer that was read the
 * drafter that it is (dop_eagle).  eagle_tensors: finds which of the tensors it has that a drafter may do without, and what names of tensors
 * outside of its layer and in it begin with.  eagle_list: makes w, its list of tokens. */
dop_status dop_hf_reader(dop_hf *hf);
dop_status dop_hf_eagle(dop_hf *hf);
void dop_hf_eagle_tensors(dop_hf *hf, const dop_st_set *set, const char **out_root, const char **out_inside);
dop_status dop_hf_eagle_list(dop_hf *hf, const dop_st_set *set, const char *name, dop_weight *w);

#endif
