/* Generates the GLSL of a region's kernel: header, functions by storage type, arguments, and the body. The text contains no
 * names from the graph, so that equal kernels of different layers have equal texts and are compiled once. */
#ifndef DOPPLER_KERNELS_GEN_GENERATE_H
#define DOPPLER_KERNELS_GEN_GENERATE_H

#include "kernels/descriptor.h"

/* True if the kernel prefetches the first words of its weights. */
bool dop_gen_ahead(const dop_gen *gen);
/* Returns the expression of the word to prefetch (dop_ahead of common.glsl): the first word of a unit of `bytes` bytes. */
const char *dop_gen_first_word(dop_gen *gen, const char *matrix, const char *unit, uint32_t bytes);
/* Returns the field of the step record that counts persistent runs of schedules with max_t rows. */
const char *dop_kernel_runs(dop_emit *e, uint32_t max_t);

#endif
