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
/* The number of a language by its code or name in any case, by another name of it ("castilian", "jv"), or by a code with a region
 * ("pt-BR", "zh_TW"); DOP_N_LANGUAGES: there is none. */
uint32_t dop_language_find(const char *name);

#endif
