/* Rotary embeddings of GGUF files: keys "rope.*", and frequency divisors that are tensors. */
#ifndef DOPPLER_FRONTEND_GGUF_ROPE_H
#define DOPPLER_FRONTEND_GGUF_ROPE_H

#include "frontend/gguf/gguf_import.h"

/* Reads the rotary embeddings, and which layer uses which.  The layers, and which of them slide, must be known. */
dop_status dop_gi_ropes(dop_gi *gi);

#endif
