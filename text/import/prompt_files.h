/* Prompts of sentence-transformers models (config_sentence_transformers.json). */
#ifndef DOPPLER_TEXT_IMPORT_PROMPT_FILES_H
#define DOPPLER_TEXT_IMPORT_PROMPT_FILES_H

#include <jansson.h>

#include <doppler/status.h>

/* Reads the prompts from a directory's config_sentence_transformers.json, in the form of a plan's card
 * (plan/prompts.h). The caller releases *out_prompts with json_decref(). NULL if there are none. */
dop_status dop_prompts_of_dir(const char *dir, dop_diag *diag, struct json_t **out_prompts);

#endif
