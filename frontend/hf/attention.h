/* Attention variants of single model families in config.json: latent (DeepSeek-V3), chunked (Llama 4), and Gemma 4's
 * shared keys and values and per-layer inputs (transformers, models/deepseek_v3, models/llama4 and models/gemma4). */
#ifndef DOPPLER_FRONTEND_HF_ATTENTION_H
#define DOPPLER_FRONTEND_HF_ATTENTION_H

#include "frontend/hf/hf.h"

/* Latent attention. dop_hf_latent() reads its sizes, before the layers are read separately. dop_hf_latent_rope() runs afterwards
 * and applies the RoPE scaling's factor on scores. */
dop_status dop_hf_latent(dop_hf *hf, dop_attention *t);
dop_status dop_hf_latent_rope(dop_hf *hf);
/* Sparse attention: reads the index's facts, and which layers have an index. */
dop_status dop_hf_index(dop_hf *hf);
/* Gemma 4: reads per-layer inputs and the layers that reuse another layer's keys and values, which also decides their
 * feed-forward width. sliding[n_layers]: true if the layer has type sliding_attention. */
dop_status dop_hf_layer_inputs(dop_hf *hf, const bool *sliding);
/* Llama 4: sets the layers with chunked attention, and the differences between layers with and without RoPE. */
dop_status dop_hf_chunks(dop_hf *hf, const bool *rotates, const bool *chunked);
/* Falcon: reads the number of KV heads. */
dop_status dop_hf_multi_query(dop_hf *hf, dop_attention *t);
/* DiffLlama: enables differential attention in each layer. dop_hf_lambda_init() returns the fixed part of the layer's
 * factor. */
void dop_hf_differential(dop_hf *hf);
double dop_hf_lambda_init(int32_t layer);
/* Gemma 3n: reads the facts of its streams, and the differences between layers. */
dop_status dop_hf_altup(dop_hf *hf);
/* Reads MiniCPM's multipliers. */
dop_status dop_hf_mup(dop_hf *hf);
/* MiMo: reads the separate facts of sliding layers, and the length of value heads. */
dop_status dop_hf_swa_heads(dop_hf *hf, const bool *sliding);
/* Reads per-layer lists: number of heads, and RoPE base (0: no RoPE). */
dop_status dop_hf_layer_heads(dop_hf *hf, bool *rotates);

#endif
