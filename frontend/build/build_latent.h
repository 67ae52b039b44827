/* Latent attention, and the index of sparse attention. */
#ifndef DOPPLER_FRONTEND_BUILD_BUILD_LATENT_H
#define DOPPLER_FRONTEND_BUILD_BUILD_LATENT_H

#include "frontend/build/builder.h"

/* Returns the result of latent attention. in: the layer's normalized input. */
dop_node_id dop_build_latent(builder *b, const dop_attention *t, dop_node_id in);

#endif
