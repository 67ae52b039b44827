/* The encoder of a model of speech (Whisper) in a Hugging Face directory: facts of config.json, tensors of model.encoder, and the tokens that transcriptions must not have. */
#ifndef DOPPLER_FRONTEND_HF_AUDIO_H
#define DOPPLER_FRONTEND_HF_AUDIO_H

#include "frontend/hf/hf.h"

/* Reads to how many rows of an encoder the layers of a decoder attend. */
dop_status dop_hf_cross(dop_hf *hf);

#endif
