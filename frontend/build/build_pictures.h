/* Pictures in a text model's graph: rows that are vision features, bidirectional attention within a picture, and
 * multimodal RoPE. */
#ifndef DOPPLER_FRONTEND_BUILD_BUILD_PICTURES_H
#define DOPPLER_FRONTEND_BUILD_BUILD_PICTURES_H

#include "frontend/build/builder.h"

/* dop_build_picture_inputs() adds the inputs about picture rows. dop_build_features_of() adds the features to picture rows of x,
 * the token embeddings. dop_build_inputs_of() does the same for per-layer inputs x, where picture rows use those of a padding
 * token. dop_build_deep() adds the vision part's features for this layer to the residual stream x after it. */
void dop_build_picture_inputs(builder *b);
dop_node_id dop_build_features_of(builder *b, dop_node_id x);
dop_node_id dop_build_inputs_of(builder *b, dop_node_id x);
dop_node_id dop_build_deep(builder *b, uint32_t layer, dop_node_id x);

#endif
