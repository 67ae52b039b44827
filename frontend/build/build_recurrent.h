/* Mixers with a state of fixed size: short convolution, state space, delta rule. */
#ifndef DOPPLER_FRONTEND_BUILD_BUILD_RECURRENT_H
#define DOPPLER_FRONTEND_BUILD_BUILD_RECURRENT_H

#include "frontend/build/builder.h"

/* Returns the result of a mixer with a state of fixed size. */
dop_node_id dop_build_recurrent(builder *b, const dop_recurrent *s, dop_node_id in);

#endif
