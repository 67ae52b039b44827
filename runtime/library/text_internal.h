/* Internals of texts and matchers, for other parts of the library. */
#ifndef DOPPLER_RUNTIME_LIBRARY_TEXT_INTERNAL_H
#define DOPPLER_RUNTIME_LIBRARY_TEXT_INTERNAL_H

#include "plan/plan.h"
#include "text/tokenizer/tokenizer.h"

#include <doppler/constraint.h>

/* Creates a text from a tokenizer, without a plan. Takes ownership of the tokenizer, also on failure. */
dop_status dop_text_of_tokenizer(dop_tokenizer *tok, dop_diag *diag, dop_text **out_text);
const dop_plan *dop_text_plan(const dop_text *text);
const dop_tokenizer *dop_text_tokenizer(const dop_text *text);
/* constraint.c: returns the grammar matcher inside a dop_constraint_matcher, which keeps ownership. */
struct dop_matcher *dop_constraint_matcher_inside(dop_constraint_matcher *matcher);
/* constraint.c: returns the vocabulary size that the matcher is for. */
uint32_t dop_constraint_matcher_vocab(const dop_constraint_matcher *matcher);

#endif
