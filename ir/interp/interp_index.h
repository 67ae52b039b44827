/* Ops of sparse attention: what an index makes of its cached keys, and the choice of positions (index_scores and top_positions of ops.def). */
#ifndef DOPPLER_IR_INTERP_INTERP_INDEX_H
#define DOPPLER_IR_INTERP_INTERP_INDEX_H

#include "ir/interp/interp_ops.h"

/* interp_index.c: the ops that choose the positions which attention sees. */
dop_status dop_interp_index_scores(const dop_interp_node *n);
dop_status dop_interp_top_positions(const dop_interp_node *n);

#endif
