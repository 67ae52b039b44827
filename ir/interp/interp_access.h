/* Products straight from the accesses of their sources (access.h): the definition that faster forms are compared with. */
#ifndef DOPPLER_IR_INTERP_INTERP_ACCESS_H
#define DOPPLER_IR_INTERP_INTERP_ACCESS_H

#include "ir/interp/interp_ops.h"

/* interp_access.c: the sum over all reduction indices of the product of sources 0 and 1, each read as its access says, plus source 2
 * where there is one.  It computes any product whose sources have no index that a value chooses. */
void dop_interp_by_access(const dop_interp_node *n);
void dop_interp_dot_at(const dop_interp_node *n);
void dop_interp_unfold(const dop_interp_node *n);

#endif
