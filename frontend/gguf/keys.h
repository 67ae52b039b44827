/* Reading of metadata keys that begin with the file's architecture, such as "llama.block_count". */
#ifndef DOPPLER_FRONTEND_GGUF_KEYS_H
#define DOPPLER_FRONTEND_GGUF_KEYS_H

#include "frontend/gguf/gguf_import.h"

/* The value of a key of the architecture, such as "block_count"; NULL: it is absent.  out_full gets the whole
 * key, "llama.block_count". */
const dop_gguf_kv *dop_gi_find(const dop_gi *gi, const char *key, char *out_full, size_t size);
/* Reads an integer fact, `otherwise` where the key is absent; otherwise 0: the key must be there.  An array has a value for each
 * layer, of which that of `layer` is taken. */
dop_status dop_gi_size(const dop_gi *gi, const dop_fact_key *fact, uint32_t layer, uint32_t otherwise, uint32_t *out);
/* Reads a fact that is a number, `otherwise` where the key is absent, which may lie outside the fact's range. */
dop_status dop_gi_number(const dop_gi *gi, const dop_fact_key *fact, double otherwise, double *out);
/* Reads a fact that is true or false, `otherwise` where the key is absent. */
dop_status dop_gi_flag(const dop_gi *gi, const dop_fact_key *fact, bool otherwise, bool *out);

#endif
