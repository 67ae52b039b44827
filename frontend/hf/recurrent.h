/* Recurrent mixers in config.json: sizes, multipliers and layers. Field names and defaults as in transformers'
 * configuration_mamba2.py, configuration_falcon_h1.py, configuration_lfm2.py and configuration_qwen3_5.py. */
#ifndef DOPPLER_FRONTEND_HF_RECURRENT_H
#define DOPPLER_FRONTEND_HF_RECURRENT_H

#include "frontend/hf/hf.h"

/* dop_hf_read_recurrent() reads the family's recurrent mixer into hf->layer.mixers[1]. dop_hf_adjust_ffn() adjusts LFM2's
 * feed-forward width. dop_hf_recurs() returns true if layers of a type in layer_types are recurrent. dop_hf_settle_mixers()
 * assigns mixers to layers, after all other layer facts were read. */
dop_status dop_hf_read_recurrent(dop_hf *hf);
dop_status dop_hf_adjust_ffn(dop_hf *hf);
bool dop_hf_adjusts_ffn(const dop_hf *hf); /* true if the stated width is that of an ungated feed-forward part */
bool dop_hf_recurs(const dop_hf *hf, const char *layer_type);
dop_status dop_hf_settle_mixers(dop_hf *hf);
/* Clears rotates[n_layers] if the family's field says that attention has no RoPE. */
dop_status dop_hf_positions(const dop_hf *hf, bool *rotates);
/* True if the family's layers are either a mixer or a feed-forward part, and no layer of this model has experts. */
bool dop_hf_lacks_experts(const dop_hf *hf);
/* True if the family's layers are either a mixer or a feed-forward part, and config.json lists them. *out_n: length of the
 * list. */
bool dop_hf_counts_blocks(const dop_hf *hf, uint32_t *out_n);

#endif
