/* Embedding prompts: texts to prepend before embedding, by name, from config_sentence_transformers.json; and the pair prompt of
 * rerankers that are language models.  A plan's card holds them as "prompts", "defaultPrompt" (optional) and "pairPrompt". */
#ifndef DOPPLER_PLAN_PROMPTS_H
#define DOPPLER_PLAN_PROMPTS_H

#include "plan/plan.h"

#include <jansson.h>

/* Returns the prompts of a plan, to release with json_decref; NULL: none. */
json_t *dop_prompts_of(const dop_plan *plan);
/* Finds the prompt called `name`, or the default one if name is NULL.  *out_prompt is owned by prompts; "" if there is no default.
 * DOP_E_INPUT: the name is unknown; the message lists the known ones. */
dop_status dop_prompts_find(const json_t *prompts, const char *name, dop_diag *diag, const char **out_prompt);
/* Returns the prompt of a search query or of a document, chosen by name as encode_query and encode_document of sentence-transformers
 * do; otherwise the default. */
const char *dop_prompts_for(const json_t *prompts, bool query);
/* Appends the pair prompt with {query} and {document} replaced.  False if there is none, or out of memory (out->failed). */
bool dop_prompts_pair(const json_t *prompts, const char *query, size_t n_query, const char *document, size_t n_document,
                      dop_buf *out);

#endif
