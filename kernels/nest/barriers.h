/* Finds where barriers are needed, from what statements do to shared memory: between writes of some invocations and reads of others, or the other way round.  Each element of shared memory is written by one invocation, so two writes need no barrier between them. */
#ifndef DOPPLER_KERNELS_NEST_BARRIERS_H
#define DOPPLER_KERNELS_NEST_BARRIERS_H

#include "kernels/nest/nest.h"

void dop_nest_meet(dop_nest *n); /* barriers.c */

#endif
