/* Pictures in a text model's graph: rows of a step that are features of the vision part, rows of a picture that see one another, and multimodal rotary embedding. */
#ifndef DOPPLER_FRONTEND_BUILD_BUILD_PICTURES_H
#define DOPPLER_FRONTEND_BUILD_BUILD_PICTURES_H

#include "frontend/build/builder.h"

/* build_pictures.c.  picture_inputs: adds what is received for rows that are features.  features_of: x, embedded tokens, plus features
 * in rows that are those.  inputs_of: x, per-layer inputs of tokens, plus those of a token that rows of pictures have.  deep: the
 * residual stream x after a layer plus what the vision part has for this layer. */
void dop_build_picture_inputs(builder *b);
dop_node_id dop_build_features_of(builder *b, dop_node_id x);
dop_node_id dop_build_inputs_of(builder *b, dop_node_id x);
dop_node_id dop_build_deep(builder *b, uint32_t layer, dop_node_id x);

#endif
