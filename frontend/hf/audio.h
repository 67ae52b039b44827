/* Encoder of a speech model (Whisper) in a Hugging Face directory: facts in config.json, tensors of model.encoder, and
 * token ids excluded from transcriptions. */
#ifndef DOPPLER_FRONTEND_HF_AUDIO_H
#define DOPPLER_FRONTEND_HF_AUDIO_H

#include "frontend/hf/hf.h"

/* Reads the number of encoder rows that decoder layers attend to. */
dop_status dop_hf_cross(dop_hf *hf);

#endif
