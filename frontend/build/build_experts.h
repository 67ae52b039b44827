/* Mixtures of experts: routing, the products of the chosen experts, and the shared expert. */
#ifndef DOPPLER_FRONTEND_BUILD_BUILD_EXPERTS_H
#define DOPPLER_FRONTEND_BUILD_BUILD_EXPERTS_H

#include "frontend/build/builder.h"

/* build_experts.c: the sum of the chosen experts' results, each times its weight, and of the shared expert's result.  in: what experts
 * read; by: what the router reads. */
dop_node_id dop_build_experts(builder *b, const dop_ffn *f, dop_node_id in, dop_node_id by);

#endif
