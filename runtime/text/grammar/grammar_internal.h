/* The part of the matcher that makers of grammars need. */
#ifndef DOPPLER_RUNTIME_TEXT_GRAMMAR_GRAMMAR_INTERNAL_H
#define DOPPLER_RUNTIME_TEXT_GRAMMAR_GRAMMAR_INTERNAL_H

#include "runtime/text/grammar/automaton.h"
#include "runtime/text/grammar/grammar.h"

/* Checks the automaton and takes ownership of it, even when it fails. */
dop_status dop_grammar_make(const dop_vocab *vocab, dop_auto *automaton, dop_diag *diag, dop_grammar **out_grammar);
/* Adds a rule for the JSON values of a schema (NULL: any object) to an automaton that has other rules.  Errors as of
 * dop_grammar_from_schema; the automaton's budget is charged, and it notes what it does not enforce. */
struct json_t;
dop_status dop_schema_add(dop_auto *automaton, const struct json_t *schema, dop_diag *diag, uint32_t *out_rule);

/* Adds a rule for the JSON values of a schema (NULL: any object) to an automaton that has other rules. */
dop_status dop_schema_add(dop_auto *automaton, const struct json_t *schema, dop_diag *diag, uint32_t *out_rule);

#endif
