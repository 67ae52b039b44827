/* The interpreter's ops of group norm. */
#ifndef DOPPLER_IR_INTERP_INTERP_MOMENTS_H
#define DOPPLER_IR_INTERP_INTERP_MOMENTS_H

#include "ir/interp/interp_ops.h"

void dop_interp_moments(const dop_interp_node *n);
void dop_interp_moments_norm(const dop_interp_node *n);

#endif
