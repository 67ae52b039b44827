/* Attention variants of single model families in GGUF files: latent (DeepSeek-V3), chunked (Llama 4), and Gemma 4's
 * shared keys and values and per-layer inputs (llama.cpp, src/models/deepseek2.cpp, llama4.cpp and gemma4.cpp). */
#ifndef DOPPLER_FRONTEND_GGUF_ATTENTION_H
#define DOPPLER_FRONTEND_GGUF_ATTENTION_H

#include "frontend/gguf/gguf_import.h"

/* dop_gi_latent() reads all facts of latent attention except n_heads. dop_gi_latent_rope() runs once RoPE is known and multiplies
 * the scale of scores by YaRN's factor. */
dop_status dop_gi_latent(const dop_gi *gi, uint32_t layer, dop_attention *t);
dop_status dop_gi_latent_rope(dop_gi *gi);
dop_status dop_gi_index(dop_gi *gi); /* reads the facts of the sparse attention index */
/* dop_gi_altup() reads Gemma 3n's streams. dop_gi_chunks() reads Llama 4's chunked layers, and its layers with query temperature
 * instead of RoPE. */
dop_status dop_gi_altup(dop_gi *gi);
dop_status dop_gi_chunks(dop_gi *gi);
/* Gemma 4: reads per-layer inputs and the layers that reuse another layer's keys and values. */
dop_status dop_gi_layer_inputs(dop_gi *gi);
/* Reads whether the model has RoPE at all. */
dop_status dop_gi_rotates(const dop_gi *gi, bool *out);

#endif
