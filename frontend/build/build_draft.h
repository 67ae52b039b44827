/* What only layers that draft have: an output over a part of the vocabulary; and of drafters that read several residual streams of the model (dop_eagle, EAGLE-3) what steps send them, and their embedding and head. */
#ifndef DOPPLER_FRONTEND_BUILD_BUILD_DRAFT_H
#define DOPPLER_FRONTEND_BUILD_BUILD_DRAFT_H

#include "frontend/build/builder.h"

/* build_draft.c, for drafters (dop_eagle); for other layers that draft these change nothing.  tap: keeps x, the residual stream before layer i,
 * where the drafter reads it.  joined: the hidden states that the step sends to the drafter, of the streams that were kept; x without
 * drafter.  draft_embed: the embedding that the layer reads.  draft_logits: from x, the normed states; *out_list: the ids that they are
 * for, 0: the whole vocabulary. */
void dop_build_tap(builder *b, uint32_t i, dop_node_id x);
dop_node_id dop_build_joined(builder *b, dop_node_id x);
dop_node_id dop_build_draft_embed(builder *b);
dop_node_id dop_build_draft_logits(builder *b, dop_node_id x, dop_node_id *out_list);
/* build_draft.c: x times the output matrix w, of a graph that drafts its first rows, as many as tokens can be drafts. */
dop_node_id dop_build_output(builder *b, dop_node_id x, dop_node_id w);

#endif
