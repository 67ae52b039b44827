/* Languages supported by Whisper. */
#ifndef DOPPLER_BASE_ENCODING_LANGUAGES_H
#define DOPPLER_BASE_ENCODING_LANGUAGES_H

#include <stdint.h>

typedef struct dop_language {
    const char *code, *name; /* "en", "english" */
} dop_language;

enum { DOP_N_LANGUAGES = 100 };
/* Returns a language by its number below DOP_N_LANGUAGES, in the order of the models' language tokens. */
const dop_language *dop_language_at(uint32_t number);
/* Returns the number of a language, by code or name in any case, an alias ("castilian", "jv"), or a code with region ("pt-BR",
 * "zh_TW"); DOP_N_LANGUAGES: unknown. */
uint32_t dop_language_find(const char *name);

#endif
