/* Parts for encoder graphs: inputs about whole texts, token types, and dense layers after the final norm. */
#ifndef DOPPLER_FRONTEND_BUILD_BUILD_ENCODE_H
#define DOPPLER_FRONTEND_BUILD_BUILD_ENCODE_H

#include "frontend/build/builder.h"

/* dop_build_encode_inputs() adds the inputs of the program `encode`. dop_build_types() adds the embeddings of token types to x.
 * dop_build_dense() applies the encoder's dense layers to x, the hidden states after the final norm. */
void dop_build_encode_inputs(builder *b);
dop_node_id dop_build_types(builder *b, dop_node_id x);
dop_node_id dop_build_dense(builder *b, dop_node_id x);

#endif
