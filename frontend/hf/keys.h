/* Fields of config.json with alternative names. */
#ifndef DOPPLER_FRONTEND_HF_KEYS_H
#define DOPPLER_FRONTEND_HF_KEYS_H

#include "frontend/hf/hf.h"

/* Resolves a key "one|other": returns `other` if config.json has that field, otherwise `one`, copied to `first`. */
const char *dop_hf_key(const dop_hf *hf, const char *keys, char *first, size_t size);

#endif
