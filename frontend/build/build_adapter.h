/* Room for adapters that come at run time.  The matrices A of all adapters lie below each other in one matrix, those of B beside each other in another, so that a product gains two products of low rank.  Between the two each row's values are multiplied by the factors of its sequence: 0 for the ranks of adapters that it does not use.  In steps of few rows the second product reads only the ranks of the row's own adapters. */
#ifndef DOPPLER_FRONTEND_BUILD_BUILD_ADAPTER_H
#define DOPPLER_FRONTEND_BUILD_BUILD_ADAPTER_H

#include "frontend/build/builder.h"

/* build_adapter.c.  adapter_factors: adds what all products with room for adapters read.  adapted: y, the product of x with the weight w,
 * plus what adapters make of x.  controlled: the residual stream x behind layer i, plus what adapters that are control vectors add. */
void dop_build_adapter_factors(builder *b);
dop_node_id dop_build_controlled(builder *b, uint32_t i, dop_node_id x);

#endif
