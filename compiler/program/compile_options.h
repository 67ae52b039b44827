/* Settles what options, kernel path, target and model leave open or contradict, before anything is built. */
#ifndef DOPPLER_COMPILER_PROGRAM_COMPILE_OPTIONS_H
#define DOPPLER_COMPILER_PROGRAM_COMPILE_OPTIONS_H

#include "compiler/schedule/compilation.h"

/* Cache length and chunk sizes: c->ctx, c->options.chunks (ascending, each once).  path: of the model, for messages. */
dop_status dop_settle_sizes(dop_compilation *c, const dop_target *device, const char *path, dop_diag *diag);
/* The kernel path, then the target, which no later step changes, and the storage types that follow from options, path and target. */
dop_status dop_settle_path(dop_compilation *c, const dop_target *device, dop_diag *diag);

#endif
