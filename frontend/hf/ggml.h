/* GGML files of speech models (whisper.cpp). Presents their sizes as the config.json of the model's Hugging Face
 * directory, and their tensors under the names used there. */
#ifndef DOPPLER_FRONTEND_HF_GGML_H
#define DOPPLER_FRONTEND_HF_GGML_H

#include "frontend/facts/arch.h"

/* Imports a speech model from a GGML file (whisper.cpp). */
dop_status dop_import_ggml(const char *path, dop_diag *diag, dop_checkpoint *m);

#endif
