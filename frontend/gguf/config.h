/* GGUF metadata to facts.  Keys: the GGUF specification (ggml repository, docs/gguf.md); what a missing key means, and what is not stated at all (layer patterns and rotary bases of Gemma, query scales of its largest sizes), follows llama.cpp, which is what writes and reads these files (load_arch_hparams in src/models/). */
#ifndef DOPPLER_FRONTEND_GGUF_CONFIG_H
#define DOPPLER_FRONTEND_GGUF_CONFIG_H

#include "frontend/gguf/gguf_import.h"

/* Reads facts, ids, tokenizer and chat template from the metadata. */
dop_status dop_gi_config(dop_gi *gi);

#endif
