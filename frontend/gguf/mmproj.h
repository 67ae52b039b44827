/* The vision part (mmproj) of a GGUF model: a file of its own, of the pseudo-architecture "clip". */
#ifndef DOPPLER_FRONTEND_GGUF_MMPROJ_H
#define DOPPLER_FRONTEND_GGUF_MMPROJ_H

#include "frontend/facts/arch.h"

/* Adds the vision part in a GGUF file (mmproj) to a model that was read from another one, which has the vocabulary. */
dop_status dop_import_mmproj(const char *path, dop_diag *diag, dop_checkpoint *m);

#endif
