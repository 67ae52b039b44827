/* Prompts of sentence-transformers: config_sentence_transformers.json. */
#ifndef DOPPLER_TEXT_IMPORT_PROMPT_FILES_H
#define DOPPLER_TEXT_IMPORT_PROMPT_FILES_H

#include <jansson.h>

#include <doppler/status.h>

/* The prompts in a directory's config_sentence_transformers.json, in the form of a plan's card (plan/prompts.h); to
 * release with json_decref.  NULL: there are none. */
dop_status dop_prompts_of_dir(const char *dir, dop_diag *diag, struct json_t **out_prompts);

#endif
