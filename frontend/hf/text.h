/* Text facts of a Hugging Face directory: end ids, sampling defaults, tokenizer, chat template. */
#ifndef DOPPLER_FRONTEND_HF_TEXT_H
#define DOPPLER_FRONTEND_HF_TEXT_H

#include "frontend/hf/hf.h"

/* Reads end ids, sampling defaults, tokenizer and chat template. */
dop_status dop_hf_text(dop_hf *hf);

#endif
