/* Parts for drafting layers: logits over part of the vocabulary; for EAGLE-3 drafters (dop_eagle) also the collection
 * of the model's residual streams, their embedding and their head. */
#ifndef DOPPLER_FRONTEND_BUILD_BUILD_DRAFT_H
#define DOPPLER_FRONTEND_BUILD_BUILD_DRAFT_H

#include "frontend/build/builder.h"

/* For EAGLE drafters; other models are unchanged. dop_build_tap() keeps x, the residual stream before layer i, if the drafter
 * reads it. dop_build_joined() computes the hidden states sent to the drafter from the kept streams; returns x without a drafter.
 * dop_build_draft_embed() returns the embedding that the layer reads. dop_build_draft_logits() returns the logits of the
 * normalized states x; *out_list: the token ids of the logits, 0: the whole vocabulary. */
void dop_build_tap(builder *b, uint32_t i, dop_node_id x);
dop_node_id dop_build_joined(builder *b, dop_node_id x);
dop_node_id dop_build_draft_embed(builder *b);
dop_node_id dop_build_draft_logits(builder *b, dop_node_id x, dop_node_id *out_list);
/* Returns x times output matrix w. A graph that drafts uses only the first draft_ids rows of w. */
dop_node_id dop_build_output(builder *b, dop_node_id x, dop_node_id w);

#endif
