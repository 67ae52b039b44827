/* Products computed directly from the accesses of their sources (access.h): slow, but the definition for faster
 * forms. */
#ifndef DOPPLER_IR_INTERP_INTERP_ACCESS_H
#define DOPPLER_IR_INTERP_INTERP_ACCESS_H

#include "ir/interp/interp_ops.h"

/* Sums the product of sources 0 and 1 over all reduction indices, each read as its access says, and adds source 2 if present.
 * Computes any product whose sources have no data-dependent index. */
void dop_interp_by_access(const dop_interp_node *n);
void dop_interp_dot_at(const dop_interp_node *n);
void dop_interp_unfold(const dop_interp_node *n);

#endif
