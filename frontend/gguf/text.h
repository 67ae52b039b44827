/* Text facts of GGUF files: end ids, chat template, name and vocabulary. */
#ifndef DOPPLER_FRONTEND_GGUF_TEXT_H
#define DOPPLER_FRONTEND_GGUF_TEXT_H

#include "frontend/gguf/gguf_import.h"

/* Reads end ids, chat template, name and vocabulary. */
dop_status dop_gi_text(dop_gi *gi);

#endif
