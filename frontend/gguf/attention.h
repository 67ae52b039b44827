/* Forms of attention of single families, in GGUF files: latent attention (DeepSeek-V3), chunked attention (Llama 4), and Gemma 4's shared keys and values and per-layer inputs (llama.cpp, src/models/deepseek2.cpp, llama4.cpp and gemma4.cpp). */
#ifndef DOPPLER_FRONTEND_GGUF_ATTENTION_H
#define DOPPLER_FRONTEND_GGUF_ATTENTION_H

#include "frontend/gguf/gguf_import.h"

/* attention.c: reads everything about latent attention but n_heads (dop_gi_latent), and, once the rotary embedding is known,
 * multiplies the scale of the scores by YaRN's factor (dop_gi_latent_rope). */
dop_status dop_gi_latent(const dop_gi *gi, uint32_t layer, dop_attention *t);
dop_status dop_gi_latent_rope(dop_gi *gi);
dop_status dop_gi_index(dop_gi *gi); /* attention.c: the index of sparse attention */
/* attention.c: Gemma 3n's streams (dop_gi_altup); Llama 4's chunked layers, and its layers that temper queries instead of rotating
 * them (dop_gi_chunks). */
dop_status dop_gi_altup(dop_gi *gi);
dop_status dop_gi_chunks(dop_gi *gi);
/* Gemma 4: reads per-layer inputs, and which layers use the keys and values of another layer. */
dop_status dop_gi_layer_inputs(dop_gi *gi);
/* Whether the model has a rotary embedding at all. */
dop_status dop_gi_rotates(const dop_gi *gi, bool *out);

#endif
