/* Outputs of a case against the reference. */
#ifndef DOPPLER_TOOLS_CHECK_CHECK_COMPARE_H
#define DOPPLER_TOOLS_CHECK_CHECK_COMPARE_H

#include "ir/graph/graph.h"

/* The bound of a result's error, for a kernel of the region; rounding: how the kernel rounds the factors of its products
 * (DOP_ROUNDING_*). */
double dop_check_bound(uint32_t rounding, const dop_graph *g, const dop_region *r);

#endif
