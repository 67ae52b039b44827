/* Prefetch (double buffering in registers): transforms a loop that loads what it uses into one whose iterations load the
 * operands of the next iteration. */
#ifndef DOPPLER_KERNELS_NEST_AHEAD_H
#define DOPPLER_KERNELS_NEST_AHEAD_H

#include "kernels/nest/nest.h"

/* Passes of dop_nest_finish(), in this order. */
void dop_nest_pipeline(dop_nest *n);

#endif
