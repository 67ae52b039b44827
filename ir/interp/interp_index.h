/* The interpreter's ops of sparse attention: scores of cached keys, and the choice of positions. */
#ifndef DOPPLER_IR_INTERP_INTERP_INDEX_H
#define DOPPLER_IR_INTERP_INTERP_INDEX_H

#include "ir/interp/interp_ops.h"

dop_status dop_interp_index_scores(const dop_interp_node *n);
dop_status dop_interp_top_positions(const dop_interp_node *n);

#endif
