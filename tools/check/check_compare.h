/* Comparison of a case's outputs with the reference. */
#ifndef DOPPLER_TOOLS_CHECK_CHECK_COMPARE_H
#define DOPPLER_TOOLS_CHECK_CHECK_COMPARE_H

#include "ir/graph/graph.h"

/* Returns the error bound of a kernel for the region. rounding: how it rounds the factors of its products
 * (DOP_ROUNDING_*). */
double dop_check_bound(uint32_t rounding, const dop_graph *g, const dop_region *r);

#endif
