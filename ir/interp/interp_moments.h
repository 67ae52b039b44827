/* The interpreter's moments of groups of columns, and the factors of group norms. */
#ifndef DOPPLER_IR_INTERP_INTERP_MOMENTS_H
#define DOPPLER_IR_INTERP_INTERP_MOMENTS_H

#include "ir/interp/interp_ops.h"

/* interp_moments.c: group norms. */
void dop_interp_moments(const dop_interp_node *n);
void dop_interp_moments_norm(const dop_interp_node *n);

#endif
