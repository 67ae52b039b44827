/* One compilation: makes schedules and kernels from a model and options. plan_write.h writes the file. */
#ifndef DOPPLER_COMPILER_LIBRARY_MAKE_H
#define DOPPLER_COMPILER_LIBRARY_MAKE_H

#include "compiler/schedule/compilation.h"

/* Compiles the model at a path. *out_compilation must be finished only after success. */
dop_status dop_compilation_make(const char *model_path, const dop_compilation_options *options, dop_diag *diag,
                                dop_compilation *out_compilation);
void dop_compilation_finish(dop_compilation *c); /* accepts a zeroed or half-built compilation */
/* Adds the weights that any compilation of the model needs to list[0], so that one plan serves all targets. Fails if
 * two targets need different types or shapes of a weight. */
dop_status dop_compilations_share(dop_compilation *list, uint32_t n, dop_diag *diag);

#endif
