/* Metadata keys that begin with the file's architecture, such as "llama.block_count". */
#ifndef DOPPLER_FRONTEND_GGUF_KEYS_H
#define DOPPLER_FRONTEND_GGUF_KEYS_H

#include "frontend/gguf/gguf_import.h"

/* Finds a key of the architecture, such as "block_count"; NULL: absent. out_full: the full key, "llama.block_count". */
const dop_gguf_kv *dop_gi_find(const dop_gi *gi, const char *key, char *out_full, size_t size);
/* Reads an integer fact with default `otherwise`; 0: the key is required. If the value is an array with an entry per layer, reads
 * the one of `layer`. */
dop_status dop_gi_size(const dop_gi *gi, const dop_fact_key *fact, uint32_t layer, uint32_t otherwise, uint32_t *out);
/* Reads a numeric fact with default `otherwise`, which may lie outside of the fact's range. */
dop_status dop_gi_number(const dop_gi *gi, const dop_fact_key *fact, double otherwise, double *out);
/* Reads a boolean fact with default `otherwise`. */
dop_status dop_gi_flag(const dop_gi *gi, const dop_fact_key *fact, bool otherwise, bool *out);

#endif
