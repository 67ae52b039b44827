/* Verifies a nest: names are in scope where they are used, barriers are in uniform control flow, and statements are
 * complete. */
#ifndef DOPPLER_KERNELS_NEST_VERIFY_H
#define DOPPLER_KERNELS_NEST_VERIFY_H

#include "kernels/nest/nest.h"

void dop_nest_verify(dop_nest *n);

#endif
