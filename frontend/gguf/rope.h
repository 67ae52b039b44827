/* Rotary embeddings in GGUF files: keys "rope.*", and tensors of frequency divisors. */
#ifndef DOPPLER_FRONTEND_GGUF_ROPE_H
#define DOPPLER_FRONTEND_GGUF_ROPE_H

#include "frontend/gguf/gguf_import.h"

/* Reads the rotary embeddings and assigns them to layers. The layers and their sliding windows must be known. */
dop_status dop_gi_ropes(dop_gi *gi);

#endif
