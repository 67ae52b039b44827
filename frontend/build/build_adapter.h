/* Adapters added at run time. An adapted product gains two low-rank products: the A matrices of all adapters form one
 * matrix (concatenated rows), and so do the B matrices (concatenated columns). Between the two, a row's values are
 * multiplied by its sequence's factors: 0 for ranks of unused adapters. In steps of few rows the second product reads
 * only the ranks of the row's own adapters. */
#ifndef DOPPLER_FRONTEND_BUILD_BUILD_ADAPTER_H
#define DOPPLER_FRONTEND_BUILD_BUILD_ADAPTER_H

#include "frontend/build/builder.h"

/* dop_build_adapter_factors() adds the inputs that all adapted products read. dop_build_adapted() returns y, the product of x and
 * weight w, plus the adapters' low-rank products of x. dop_build_controlled() returns the residual stream x after layer i plus
 * control vectors. */
void dop_build_adapter_factors(builder *b);
dop_node_id dop_build_controlled(builder *b, uint32_t i, dop_node_id x);

#endif
