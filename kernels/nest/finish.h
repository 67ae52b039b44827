/* What makes a tree of statements complete. */
#ifndef DOPPLER_KERNELS_NEST_FINISH_H
#define DOPPLER_KERNELS_NEST_FINISH_H

#include "kernels/nest/nest.h"

/* Finds where loads are issued ahead, where barriers are needed, and whether every statement is well formed. */
dop_status dop_nest_finish(dop_nest *n);

#endif
