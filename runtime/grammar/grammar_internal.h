/* The part of the matcher that makers of grammars need. */
#ifndef DOPPLER_RUNTIME_GRAMMAR_GRAMMAR_INTERNAL_H
#define DOPPLER_RUNTIME_GRAMMAR_GRAMMAR_INTERNAL_H

#include "runtime/grammar/automaton.h"
#include "runtime/grammar/grammar.h"

/* Checks the automaton and takes ownership of it, even when it fails. */
dop_status dop_grammar_make(const dop_vocab *vocab, dop_auto *automaton, dop_diag *diag, dop_grammar **out_grammar);
/* Takes ownership of the text; before anybody shares the grammar. */
void dop_grammar_set_unenforced(dop_grammar *grammar, char *keywords);

#endif
