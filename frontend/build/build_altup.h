/* Alternating updates (AltUp, https://arxiv.org/abs/2301.13310) and LAuReL (https://arxiv.org/abs/2411.07501), as Gemma 3n has them: transformers, modeling_gemma3n.py, Gemma3nTextAltUp and Gemma3nTextLaurelBlock. */
#ifndef DOPPLER_FRONTEND_BUILD_BUILD_ALTUP_H
#define DOPPLER_FRONTEND_BUILD_BUILD_ALTUP_H

#include "frontend/build/builder.h"

/* build_altup.c, alternating updates.  streams: makes the streams before the first layer from the embedding x.  one_stream: the stream
 * that the head reads.  predictions: replaces each stream by the layer's prediction of it.  corrections: corrects each stream by the
 * difference between x, which the layer has computed, and the prediction of the active stream. */
void dop_build_streams(builder *b, dop_node_id x, dop_node_id *out_streams);
dop_node_id dop_build_one_stream(builder *b, const dop_node_id *streams);
void dop_build_predictions(builder *b, dop_node_id *streams);
void dop_build_corrections(builder *b, dop_node_id *streams, dop_node_id x);
/* build_altup.c: a residual block of low rank beside attention (LAuReL); in: the normed stream. */
dop_node_id dop_build_laurel(builder *b, dop_node_id in);

#endif
