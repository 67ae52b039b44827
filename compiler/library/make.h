/* One compilation: a model and options in, schedules and kernels out; plan_write.h makes the file. */
#ifndef DOPPLER_COMPILER_LIBRARY_MAKE_H
#define DOPPLER_COMPILER_LIBRARY_MAKE_H

#include "compiler/schedule/compilation.h"

/* Compiles the model at a path.  *out_compilation must be finished only where this succeeds. */
dop_status dop_compilation_make(const char *model_path, const dop_compilation_options *options, dop_diag *diag,
                                dop_compilation *out_compilation);
void dop_compilation_finish(dop_compilation *c); /* accepts a zeroed or half-built one */
/* Makes list[0] have the weights that all compilations of a model need, which are packed alike for every target, so that one plan
 * can hold them.  Errors: two targets need one weight in different types or shapes. */
dop_status dop_compilations_share(dop_compilation *list, uint32_t n, dop_diag *diag);

#endif
