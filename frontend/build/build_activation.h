/* Activation functions: most are one op, quick GELU is several. */
#ifndef DOPPLER_FRONTEND_BUILD_BUILD_ACTIVATION_H
#define DOPPLER_FRONTEND_BUILD_BUILD_ACTIVATION_H

#include "frontend/build/builder.h"

/* build_activation.c: the activation function of x. */
dop_node_id dop_build_activation(builder *b, dop_act_kind kind, const char *name, dop_node_id x);
/* build_activation.c: act(gate) * up, or act(up) where there is no gate (0). */
dop_node_id dop_build_gated(builder *b, const dop_ffn *f, const char *name, dop_node_id gate, dop_node_id up);

#endif
