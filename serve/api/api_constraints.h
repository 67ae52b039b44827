/* Constraints that requests place on answers, and a cache of recent grammars. Clients often send the same
 * schema again, and a cached grammar keeps the token masks it has computed. */
#ifndef DOPPLER_SERVE_API_API_CONSTRAINTS_H
#define DOPPLER_SERVE_API_API_CONSTRAINTS_H

#include "serve/api/api_internal.h"
#include "text/grammar/grammar.h"

dop_status dop_constraints_create(const struct dop_vocab *vocab, dop_diag *diag, dop_constraints **out_shapes);
void dop_constraints_destroy(dop_constraints *shapes); /* accepts NULL */
dop_status dop_constraints_find_gbnf(dop_constraints *shapes, const char *gbnf, size_t n, dop_budget *budget,
                                     dop_diag *diag, struct dop_grammar **out_grammar);
dop_status dop_constraints_find_parts(dop_constraints *shapes, const json_t *parts, dop_budget *budget, dop_diag *diag,
                                      struct dop_grammar **out_grammar);
/* Handles schema keywords that the grammar does not enforce: lists them in a response header, or refuses the request
 * if it demands `strict`. The call keeps the schema for dop_call_note_validity. */
void dop_constraints_note_unenforced(dop_reader *r, const struct dop_grammar *grammar, json_t *schema, dop_call *call);
/* Adds "schema_valid" to a finished choice whose schema was not enforced exactly: whether its text is valid. */
void dop_call_note_validity(const dop_call *call, uint32_t index, json_t *choice);

#endif
