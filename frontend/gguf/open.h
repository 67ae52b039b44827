/* A GGUF model as one file or several: opening, looking up, closing. */
#ifndef DOPPLER_FRONTEND_GGUF_OPEN_H
#define DOPPLER_FRONTEND_GGUF_OPEN_H

#include "frontend/gguf/gguf_import.h"

/* Opens gi->path and the parts that belong to it. */
dop_status dop_gi_open(dop_gi *gi);
/* Passes the mapped files to the model's weights and closes the rest; also after a failed opening. */
void dop_gi_close(dop_gi *gi);
/* A tensor by its name, and the part that has it; NULL: no part has it. */
const dop_gguf_tensor *dop_gi_tensor(const dop_gi *gi, const char *name, const dop_gguf **out_part);
/* Finds a tensor as dop_gi_tensor() does, and marks it as read. */
const dop_gguf_tensor *dop_gi_take(const dop_gi *gi, const char *name, const dop_gguf **out_part);

#endif
