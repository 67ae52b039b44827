/* The languages of Whisper. */
#ifndef DOPPLER_BASE_ENCODING_LANGUAGES_H
#define DOPPLER_BASE_ENCODING_LANGUAGES_H

#include <stdint.h>

typedef struct dop_language {
    const char *code, *name; /* "en", "english" */
} dop_language;

/* In the order of the models' tokens. */
extern const dop_language dop_languages[];
extern const uint32_t dop_n_languages;

#endif
