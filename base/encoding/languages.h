/* The languages of Whisper. */
#ifndef DOPPLER_BASE_ENCODING_LANGUAGES_H
#define DOPPLER_BASE_ENCODING_LANGUAGES_H

#include <stdint.h>

typedef struct dop_language {
    const char *code, *name; /* "en", "english" */
} dop_language;

enum { DOP_N_LANGUAGES = 100 };
/* A language by its number below DOP_N_LANGUAGES, in the order of the models' tokens. */
const dop_language *dop_language_at(uint32_t number);

#endif
