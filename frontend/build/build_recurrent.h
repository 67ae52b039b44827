/* Mixers whose memory has the same size for any number of positions: short convolutions, state spaces, delta rules. */
#ifndef DOPPLER_FRONTEND_BUILD_BUILD_RECURRENT_H
#define DOPPLER_FRONTEND_BUILD_BUILD_RECURRENT_H

#include "frontend/build/builder.h"

/* build_recurrent.c: the result of a mixer that keeps a state of fixed size. */
dop_node_id dop_build_recurrent(builder *b, const dop_recurrent *s, dop_node_id in);

#endif
