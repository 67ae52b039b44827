/* Alternating updates (AltUp, https://arxiv.org/abs/2301.13310) and LAuReL (https://arxiv.org/abs/2411.07501) of Gemma
 * 3n: transformers, modeling_gemma3n.py, Gemma3nTextAltUp and Gemma3nTextLaurelBlock. */
#ifndef DOPPLER_FRONTEND_BUILD_BUILD_ALTUP_H
#define DOPPLER_FRONTEND_BUILD_BUILD_ALTUP_H

#include "frontend/build/builder.h"

/* dop_build_streams() makes the initial streams from the embedding x; dop_build_one_stream() merges them for the head.
 * dop_build_predictions() replaces each stream by the layer's prediction. dop_build_corrections() corrects each stream by the
 * difference between the layer's result x and the prediction of the active stream. */
void dop_build_streams(builder *b, dop_node_id x, dop_node_id *out_streams);
dop_node_id dop_build_one_stream(builder *b, const dop_node_id *streams);
void dop_build_predictions(builder *b, dop_node_id *streams);
void dop_build_corrections(builder *b, dop_node_id *streams, dop_node_id x);
/* Builds a low-rank residual block parallel to attention (LAuReL). in: the normalized stream. */
dop_node_id dop_build_laurel(builder *b, dop_node_id in);

#endif
