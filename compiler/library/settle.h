/* Resolves the options of a compilation before anything is built: sets defaults, and reports conflicts between options,
 * kernel path, target and model. */
#ifndef DOPPLER_COMPILER_LIBRARY_SETTLE_H
#define DOPPLER_COMPILER_LIBRARY_SETTLE_H

#include "compiler/schedule/compilation.h"

/* Sets the context length (c->ctx), the chunk sizes (c->options.chunks, ascending and distinct), and the sizes of steps
 * that mix sequences. path: the model's path, for messages. */
dop_status dop_settle_sizes(dop_compilation *c, const dop_target *device, const char *path, dop_diag *diag);
/* Sets the kernel path, then the final target, then the storage types of caches and activations. */
dop_status dop_settle_path(dop_compilation *c, const dop_target *device, dop_diag *diag);

#endif
