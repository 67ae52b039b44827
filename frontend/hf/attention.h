/* Forms of attention of single families, in config.json: latent attention (DeepSeek-V3), chunked attention (Llama 4), and Gemma 4's shared keys and values and per-layer inputs (transformers, models/deepseek_v3, models/llama4 and models/gemma4). */
#ifndef DOPPLER_FRONTEND_HF_ATTENTION_H
#define DOPPLER_FRONTEND_HF_ATTENTION_H

#include "frontend/hf/hf.h"

/* Latent attention: reads its sizes (dop_hf_latent), before what differs between layers is read, and afterwards the factor that its
 * rotary embedding puts on the scores (dop_hf_latent_rope). */
dop_status dop_hf_latent(dop_hf *hf, dop_attention *t);
dop_status dop_hf_latent_rope(dop_hf *hf);
/* Sparse attention: reads the index that chooses positions, and which layers have one. */
dop_status dop_hf_index(dop_hf *hf);
/* Gemma 4: reads per-layer inputs, and which layers use the keys and values of another layer, which decides the width of their
 * feed-forward parts.  sliding[n_layers]: the layer is of type sliding_attention. */
dop_status dop_hf_layer_inputs(dop_hf *hf, const bool *sliding);
/* Llama 4: sets which layers see chunks, and what differs between layers with and without rotary embedding. */
dop_status dop_hf_chunks(dop_hf *hf, const bool *rotates, const bool *chunked);
/* Falcon: reads the number of KV heads. */
dop_status dop_hf_multi_query(dop_hf *hf, dop_attention *t);
/* DiffLlama: sets differential attention in each layer; dop_hf_lambda_init() is the part of its factor that is not learned. */
void dop_hf_differential(dop_hf *hf);
double dop_hf_lambda_init(int32_t layer);
/* Gemma 3n: reads its streams, and what differs between its layers. */
dop_status dop_hf_altup(dop_hf *hf);
/* Reads MiniCPM's multipliers. */
dop_status dop_hf_mup(dop_hf *hf);
/* MiMo: what sliding layers have of their own, and heads of values. */
dop_status dop_hf_swa_heads(dop_hf *hf, const bool *sliding);
/* Reads lists with a value for each layer: its number of heads, and the base of its rotary embedding, of which 0 means none. */
dop_status dop_hf_layer_heads(dop_hf *hf, bool *rotates);

#endif
