/* Mixtures of experts: routing, the products of the chosen experts, and the shared expert. */
#ifndef DOPPLER_FRONTEND_BUILD_BUILD_EXPERTS_H
#define DOPPLER_FRONTEND_BUILD_BUILD_EXPERTS_H

#include "frontend/build/builder.h"

/* Returns the weighted sum of the chosen experts' results, plus the shared expert's result. in: the experts' input; by: the
 * router's input. */
dop_node_id dop_build_experts(builder *b, const dop_ffn *f, dop_node_id in, dop_node_id by);

#endif
