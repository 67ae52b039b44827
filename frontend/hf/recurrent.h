/* Recurrent mixers of config.json: sizes, multipliers, and which layers have them.  Field names and defaults are those of transformers' configuration_mamba2.py, configuration_falcon_h1.py, configuration_lfm2.py and configuration_qwen3_5.py. */
#ifndef DOPPLER_FRONTEND_HF_RECURRENT_H
#define DOPPLER_FRONTEND_HF_RECURRENT_H

#include "frontend/hf/hf.h"

/* recurrent.c.  dop_hf_read_recurrent() reads the family's recurrent mixer into hf->layer.mixers[1].  dop_hf_adjust_ffn() corrects
 * the width of LFM2's feed-forward parts.  dop_hf_recurs() tells whether layers of a type in layer_types are recurrent.
 * dop_hf_settle_mixers() gives each layer its mixers, when everything else of the layers is known. */
dop_status dop_hf_read_recurrent(dop_hf *hf);
dop_status dop_hf_adjust_ffn(dop_hf *hf);
bool dop_hf_adjusts_ffn(const dop_hf *hf); /* the file states the width of a feed-forward part without gate */
bool dop_hf_recurs(const dop_hf *hf, const char *layer_type);
dop_status dop_hf_settle_mixers(dop_hf *hf);
/* Clears rotates[n_layers] where the family's field for it says that attention has no rotary embedding. */
dop_status dop_hf_positions(const dop_hf *hf, bool *rotates);
/* Do layers of this family have a mixer or a feed-forward part alone, and is no layer of this model a mixture of experts? */
bool dop_hf_lacks_experts(const dop_hf *hf);
/* Do layers of this family have a mixer or a feed-forward part alone, and does config.json list them?  *out_n is the list's
 * length. */
bool dop_hf_counts_blocks(const dop_hf *hf, uint32_t *out_n);

#endif
