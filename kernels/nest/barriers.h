/* Inserts barriers where shared memory accesses of statements require them: between writes of some invocations and reads of
 * others (RAW and WAR). Each element is written by only one invocation, so two writes need no barrier between them. */
#ifndef DOPPLER_KERNELS_NEST_BARRIERS_H
#define DOPPLER_KERNELS_NEST_BARRIERS_H

#include "kernels/nest/nest.h"

void dop_nest_meet(dop_nest *n);

#endif
