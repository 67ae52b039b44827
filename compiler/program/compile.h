/* One compilation: a model and options in, schedules and kernels out; plan_write.h makes the file. */
#ifndef DOPPLER_COMPILER_PROGRAM_COMPILE_H
#define DOPPLER_COMPILER_PROGRAM_COMPILE_H

#include "compiler/schedule/compilation.h"

dop_status dop_compile(const char *model_path, const dop_compile_options *options, dop_diag *diag,
                       dop_compilation *out_compilation);
void dop_compilation_finish(dop_compilation *c); /* accepts a zeroed or half-built one */
/* For compilations of one model for several targets: the first one's weights become those of all, since weights are packed the
 * same way for every target.  Errors: two targets need different storage types for one weight. */
dop_status dop_compilations_share(dop_compilation *list, uint32_t n, dop_diag *diag);

#endif
