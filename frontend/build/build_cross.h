/* Cross-attention in a decoder's graph: each layer attends to rows of an encoder, whose keys and values are states. */
#ifndef DOPPLER_FRONTEND_BUILD_BUILD_CROSS_H
#define DOPPLER_FRONTEND_BUILD_BUILD_CROSS_H

#include "frontend/build/builder.h"

/* build_cross.c: the branch of a layer that attends to an encoder's rows; x: the residual stream. */
dop_node_id dop_build_cross(builder *b, const dop_layer *l, dop_node_id x);

#endif
