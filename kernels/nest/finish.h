/* Completion of a tree of statements. */
#ifndef DOPPLER_KERNELS_NEST_FINISH_H
#define DOPPLER_KERNELS_NEST_FINISH_H

#include "kernels/nest/nest.h"

/* Runs the passes over the finished tree: prefetch, barrier insertion, verification. */
dop_status dop_nest_finish(dop_nest *n);

#endif
