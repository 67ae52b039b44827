/* Prompts: what the files of sentence-transformers (config_sentence_transformers.json) put in front of a text whose vector is wanted,
 * by name; and the prompt that rerankers among text models expect for a query and a document.  A plan has them in its card, as "prompts",
 * with "defaultPrompt" where the files name one, and as "pairPrompt". */
#ifndef DOPPLER_PLAN_PROMPTS_H
#define DOPPLER_PLAN_PROMPTS_H

#include "plan/plan.h"

#include <jansson.h>

/* Prompts of a plan, to release with json_decref; NULL: it has none. */
json_t *dop_prompts_of(const dop_plan *plan);
/* The prompt of that name, or the default one where name is NULL: *out_prompt, "" where there is no default.  It is the prompts' own.
 * DOP_E_INPUT: none of that name; the message has the names that there are. */
dop_status dop_prompts_find(const json_t *prompts, const char *name, dop_diag *diag, const char **out_prompt);
/* The prompt of a search's query, or of the documents among which it searches, as sentence-transformers' encode_query and
 * encode_document choose it: by the names that these have, and else the default. */
const char *dop_prompts_for(const json_t *prompts, bool query);
/* Appends the prompt for a pair of texts, in which {query} and {document} stand for them; false: there is none, or no memory (then
 * out->failed). */
bool dop_prompts_pair(const json_t *prompts, const char *query, size_t n_query, const char *document, size_t n_document,
                      dop_buf *out);

#endif
