/* Converts GGUF metadata to facts. Keys: the GGUF specification (ggml repository, docs/gguf.md). Defaults of missing
 * keys and unstated facts (Gemma's layer patterns, RoPE bases and query scales) follow llama.cpp, which writes and
 * reads these files (load_arch_hparams in src/models/). */
#ifndef DOPPLER_FRONTEND_GGUF_CONFIG_H
#define DOPPLER_FRONTEND_GGUF_CONFIG_H

#include "frontend/gguf/gguf_import.h"

/* Reads facts, token ids, tokenizer and chat template from the metadata. */
dop_status dop_gi_config(dop_gi *gi);

#endif
