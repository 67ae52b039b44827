/* Activation functions: one op each, except compositions such as quick GELU. */
#ifndef DOPPLER_FRONTEND_BUILD_BUILD_ACTIVATION_H
#define DOPPLER_FRONTEND_BUILD_BUILD_ACTIVATION_H

#include "frontend/build/builder.h"

/* Returns the activation function of x. */
dop_node_id dop_build_activation(builder *b, dop_act_kind kind, const char *name, dop_node_id x);
/* Returns act(gate) * up, or act(up) if gate is 0. */
dop_node_id dop_build_gated(builder *b, const dop_ffn *f, const char *name, dop_node_id gate, dop_node_id up);

#endif
