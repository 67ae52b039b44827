/* Drafters as converted by llama.cpp (architectures "eagle3" and "gemma4-assistant"). */
#ifndef DOPPLER_FRONTEND_GGUF_EAGLE_H
#define DOPPLER_FRONTEND_GGUF_EAGLE_H

#include "frontend/gguf/gguf_import.h"

/* dop_gi_eagle_vocab() reads the number of the model's tokens. dop_gi_eagle() turns an imported one-layer model into an EAGLE
 * drafter. dop_gi_eagle_list() reads the weight w, its list of draft token ids. Defined in eagle.c. */
dop_status dop_gi_eagle_vocab(dop_gi *gi);
dop_status dop_gi_eagle(dop_gi *gi);
dop_status dop_gi_reader(dop_gi *gi); /* makes an imported model a drafter of kind dop_sharer */
dop_status dop_gi_eagle_list(const dop_gi *gi, const char *name, dop_weight *w);

#endif
