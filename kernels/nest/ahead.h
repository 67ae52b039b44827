/* Prefetch (double buffering in registers): a loop whose iterations load what they use becomes one whose iterations load what the next iteration uses. */
#ifndef DOPPLER_KERNELS_NEST_AHEAD_H
#define DOPPLER_KERNELS_NEST_AHEAD_H

#include "kernels/nest/nest.h"

/* --- what dop_nest_finish() does, in this order --- */
void dop_nest_pipeline(dop_nest *n); /* ahead.c */

#endif
