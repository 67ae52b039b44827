/* Fields of config.json that have two names. */
#ifndef DOPPLER_FRONTEND_HF_KEYS_H
#define DOPPLER_FRONTEND_HF_KEYS_H

#include "frontend/hf/hf.h"

/* Resolves a key "one|other": `other` where config.json has that field, else `one`, which is copied to `first`. */
const char *dop_hf_key(const dop_hf *hf, const char *keys, char *first, size_t size);

#endif
