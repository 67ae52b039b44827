/* Drafters, as llama.cpp converts them (architectures "eagle3" and "gemma4-assistant"). */
#ifndef DOPPLER_FRONTEND_GGUF_EAGLE_H
#define DOPPLER_FRONTEND_GGUF_EAGLE_H

#include "frontend/gguf/gguf_import.h"

/* eagle.c, drafters.  eagle_vocab: reads the number of the model's tokens.  eagle: makes the model of one layer that was read the drafter that it
 * is.  eagle_list: makes w, its list of tokens. */
dop_status dop_gi_eagle_vocab(dop_gi *gi);
dop_status dop_gi_eagle(dop_gi *gi);
dop_status dop_gi_reader(dop_gi *gi); /* makes the model that was read the drafter that it is (dop_sharer) */
dop_status dop_gi_eagle_list(const dop_gi *gi, const char *name, dop_weight *w);

#endif
