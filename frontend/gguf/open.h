/* Opens, searches and closes a GGUF model of one or several files. */
#ifndef DOPPLER_FRONTEND_GGUF_OPEN_H
#define DOPPLER_FRONTEND_GGUF_OPEN_H

#include "frontend/gguf/gguf_import.h"

/* Opens gi->path and the other parts of a split model. */
dop_status dop_gi_open(dop_gi *gi);
/* Moves the mapped files to the model's weights and frees the rest; may be called after a failed dop_gi_open(). */
void dop_gi_close(dop_gi *gi);
/* Finds a tensor by name, and the part that contains it; NULL: not found. */
const dop_gguf_tensor *dop_gi_tensor(const dop_gi *gi, const char *name, const dop_gguf **out_part);
/* Like dop_gi_tensor(), but also marks the tensor as used. */
const dop_gguf_tensor *dop_gi_take(const dop_gi *gi, const char *name, const dop_gguf **out_part);

#endif
