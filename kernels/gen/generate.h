/* A region's kernel as GLSL text: header, functions by storage type, arguments, the filled template.  The text names nothing from the graph, so that equal kernels of different layers have equal texts and are compiled once. */
#ifndef DOPPLER_KERNELS_GEN_GENERATE_H
#define DOPPLER_KERNELS_GEN_GENERATE_H

#include "kernels/descriptor.h"

/* Does the kernel prefetch the first words of its weights? */
bool dop_gen_ahead(const dop_gen *gen);
/* The expression of the prefetched word, for dop_ahead of common.glsl: the first word of a unit of `bytes` bytes. */
const char *dop_gen_first_word(dop_gen *gen, const char *matrix, const char *unit, uint32_t bytes);
/* The field of the step record that counts persistent runs of schedules with max_t rows. */
const char *dop_kernel_runs(dop_emit *e, uint32_t max_t);

#endif
