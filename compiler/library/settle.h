/* Settles the options of a compilation before anything is built: defaults, and contradictions of options, kernel path, target and
 * model. */
#ifndef DOPPLER_COMPILER_LIBRARY_SETTLE_H
#define DOPPLER_COMPILER_LIBRARY_SETTLE_H

#include "compiler/schedule/compilation.h"

/* Settles cache length (c->ctx), chunk sizes (c->options.chunks, ascending, each once) and sizes of steps of rows.  path: of the model,
 * for messages. */
dop_status dop_settle_sizes(dop_compilation *c, const dop_target *device, const char *path, dop_diag *diag);
/* Settles the kernel path, then the target, which no later step changes, then the storage types of caches and activations. */
dop_status dop_settle_path(dop_compilation *c, const dop_target *device, dop_diag *diag);

#endif
