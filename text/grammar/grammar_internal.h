/* Functions with which the compilers of GBNF, schemas and parts make grammars. */
#ifndef DOPPLER_TEXT_GRAMMAR_GRAMMAR_INTERNAL_H
#define DOPPLER_TEXT_GRAMMAR_GRAMMAR_INTERNAL_H

#include "text/grammar/automaton.h"
#include "text/grammar/grammar.h"

/* Makes a grammar of an automaton, which is checked first; takes ownership of the automaton, even on failure. */
dop_status dop_grammar_make(const dop_vocab *vocab, dop_auto *automaton, dop_diag *diag, dop_grammar **out_grammar);
/* Adds a rule for the JSON values of a schema (NULL: any object) to an automaton that has other rules.  flags: DOP_SCHEMA_* bits.
 * Errors are those of dop_grammar_from_schema.  Charges the automaton's budget, and adds the keywords that are not enforced to its
 * `unenforced`. */
struct json_t;
dop_status dop_schema_add(dop_auto *automaton, const struct json_t *schema, unsigned flags, dop_diag *diag,
                          uint32_t *out_rule);

#endif
