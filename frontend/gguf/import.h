/* Imports GGUF files: finds the family, reads facts, and turns tensors into canonical weights. */
#ifndef DOPPLER_FRONTEND_GGUF_IMPORT_H
#define DOPPLER_FRONTEND_GGUF_IMPORT_H

#include "frontend/gguf/gguf_import.h"

dop_status dop_import_gguf(const char *path, dop_diag *diag, dop_checkpoint *m);
/* Adds all required weights to the model. */
dop_status dop_gi_weights(dop_gi *gi);

#endif
