/* Vision part of a GGUF model (mmproj): a separate file of pseudo-architecture "clip". */
#ifndef DOPPLER_FRONTEND_GGUF_MMPROJ_H
#define DOPPLER_FRONTEND_GGUF_MMPROJ_H

#include "frontend/facts/arch.h"

/* Adds the vision part in a GGUF file (mmproj) to a model read from another file, which has the vocabulary. */
dop_status dop_import_mmproj(const char *path, dop_diag *diag, dop_checkpoint *m);

#endif
