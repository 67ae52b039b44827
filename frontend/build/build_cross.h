/* Cross-attention in a decoder's graph: layers attend to encoder rows, whose keys and values are states. */
#ifndef DOPPLER_FRONTEND_BUILD_BUILD_CROSS_H
#define DOPPLER_FRONTEND_BUILD_BUILD_CROSS_H

#include "frontend/build/builder.h"

/* Builds the cross-attention branch of a layer. x: the residual stream. */
dop_node_id dop_build_cross(builder *b, const dop_layer *l, dop_node_id x);

#endif
