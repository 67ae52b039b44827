/* Prints a nest as GLSL, and as a dump. */
#ifndef DOPPLER_KERNELS_NEST_PRINT_H
#define DOPPLER_KERNELS_NEST_PRINT_H

#include "kernels/nest/nest.h"

void dop_nest_print(const dop_nest *n, dop_buf *out);
void dop_nest_dump(const dop_nest *n, dop_buf *out);

#endif
