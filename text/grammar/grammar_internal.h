/* Functions for the compilers of GBNF, schemas and parts. */
#ifndef DOPPLER_TEXT_GRAMMAR_GRAMMAR_INTERNAL_H
#define DOPPLER_TEXT_GRAMMAR_GRAMMAR_INTERNAL_H

#include "text/grammar/automaton.h"
#include "text/grammar/grammar.h"

/* Checks an automaton and creates a grammar from it. Takes ownership of the automaton, even on failure. */
dop_status dop_grammar_make(const dop_vocab *vocab, dop_auto *automaton, dop_diag *diag, dop_grammar **out_grammar);
/* Adds a rule for the JSON values of a schema (NULL: any object) to an automaton, which may have other rules. flags:
 * DOP_SCHEMA_* bits. Fails like dop_grammar_from_schema(). Charges the automaton's budget, and adds keywords that
 * are not enforced to its `unenforced`. */
struct json_t;
dop_status dop_schema_add(dop_auto *automaton, const struct json_t *schema, unsigned flags, dop_diag *diag,
                          uint32_t *out_rule);

#endif
