/* What only graphs of encoders have: inputs about whole texts, types of rows, and dense layers behind the last norm. */
#ifndef DOPPLER_FRONTEND_BUILD_BUILD_ENCODE_H
#define DOPPLER_FRONTEND_BUILD_BUILD_ENCODE_H

#include "frontend/build/builder.h"

/* build_encode.c.  encode_inputs: adds the inputs that only the program `encode` has.  types: x plus the embeddings of the rows' types.
 * dense: x, the hidden states after the last norm, through the encoder's dense layers. */
void dop_build_encode_inputs(builder *b);
dop_node_id dop_build_types(builder *b, dop_node_id x);
dop_node_id dop_build_dense(builder *b, dop_node_id x);

#endif
