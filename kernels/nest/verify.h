/* The verifier: names are used where they are known, all invocations come to barriers, and every statement has what it needs. */
#ifndef DOPPLER_KERNELS_NEST_VERIFY_H
#define DOPPLER_KERNELS_NEST_VERIFY_H

#include "kernels/nest/nest.h"

void dop_nest_verify(dop_nest *n); /* verify.c */

#endif
