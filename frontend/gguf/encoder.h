/* Encoders and rerankers in GGUF files: bidirectional attention, pooling, and dense layers that give vectors or class
 * scores (llama.cpp: llm_graph_context::build_pooling in src/llama-graph.cpp, conversion/bert.py). */
#ifndef DOPPLER_FRONTEND_GGUF_ENCODER_H
#define DOPPLER_FRONTEND_GGUF_ENCODER_H

#include "frontend/gguf/gguf_import.h"

/* dop_gi_encoder() reads, before the layers, whether the model is an encoder, and its pooling and dense layers.
 * dop_gi_swap_classes() swaps the rows of the two classes in the classification layer if dop_gi.swaps is set. */
dop_status dop_gi_encoder(dop_gi *gi);
dop_status dop_gi_swap_classes(const dop_gi *gi, const dop_weight_need *need, dop_weight *w);

#endif
