/* Encoders and rerankers in GGUF files: attention in both directions, pooling, and the products that give vectors or scores of classes (llama.cpp: llm_graph_context::build_pooling in src/llama-graph.cpp, conversion/bert.py). */
#ifndef DOPPLER_FRONTEND_GGUF_ENCODER_H
#define DOPPLER_FRONTEND_GGUF_ENCODER_H

#include "frontend/gguf/gguf_import.h"

/* encoder.c: reads whether the model is an encoder, its pooling and products, before the layers are read (dop_gi_encoder); exchanges
 * the rows of two classes in the product that gives them, where dop_gi.swaps (dop_gi_swap_classes). */
dop_status dop_gi_encoder(dop_gi *gi);
dop_status dop_gi_swap_classes(const dop_gi *gi, const dop_weight_need *need, dop_weight *w);

#endif
