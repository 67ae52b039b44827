/* GGML files of models of speech (whisper.cpp): their sizes as the config.json that Hugging Face's directory of the model would have, and their tensors under the names there. */
#ifndef DOPPLER_FRONTEND_HF_GGML_H
#define DOPPLER_FRONTEND_HF_GGML_H

#include "frontend/facts/arch.h"

/* A model of speech in a GGML file (whisper.cpp). */
dop_status dop_import_ggml(const char *path, dop_diag *diag, dop_checkpoint *m);

#endif
