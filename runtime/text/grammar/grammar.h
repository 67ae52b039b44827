/* Structured output: grammars over the bytes of a text, and which tokens of a vocabulary they allow next.
 *
 * A grammar is compiled once, to a pushdown automaton over bytes (automaton.h).  A *matcher* follows one text through
 * it.  Which tokens a state allows is found by walking the vocabulary as a tree of bytes, and kept for as long as the
 * grammar lives, so that most tokens cost one look-up and a pass over a bit mask.
 *
 * Threads: a vocabulary and a grammar may be used by any number of threads, a matcher by one at a time. */
#ifndef DOPPLER_RUNTIME_TEXT_GRAMMAR_GRAMMAR_H
#define DOPPLER_RUNTIME_TEXT_GRAMMAR_GRAMMAR_H

#include "base/budget.h"
#include "runtime/text/tokenizer.h"

struct json_t;

typedef struct dop_vocab dop_vocab;
typedef struct dop_grammar dop_grammar;
typedef struct dop_matcher dop_matcher;

/* Makes the vocabulary that grammars are applied to: the tokens below n_vocab that stand for text, and the end-of-generation tokens.
 * The tokenizer must outlive it. */
dop_status dop_vocab_create(const dop_tokenizer *tok, uint32_t n_vocab, const uint32_t *end_ids, size_t n_end_ids,
                            dop_diag *diag, dop_vocab **out_vocab);
uint32_t dop_vocab_size(const dop_vocab *vocab); /* n_vocab */
/* Bytes that all grammars of a vocabulary hold together, which are bounded by some 128 MiB. */
size_t dop_vocab_held(const dop_vocab *vocab);
void dop_vocab_destroy(dop_vocab *vocab); /* accepts NULL; after its grammars */

/* Compiles a grammar from a GBNF text, as llama.cpp reads it; path is for messages.  Mistakes give DOP_E_INPUT with line and column.
 * budget: for the work and the memory of compiling; NULL: unlimited.  DOP_E_LIMIT: the grammar is too large for the budget or for the
 * vocabulary's pool. */
dop_status dop_grammar_from_gbnf(const dop_vocab *vocab, const char *path, const char *text, size_t n,
                                 dop_budget *budget, dop_diag *diag, dop_grammar **out_grammar);
enum {
    /* Schemas mean what the standard says: members that no keyword names are allowed, and keywords say nothing about types.  Without
     * the flag, unnamed members are written only where `additionalProperties` or the like is there, and a schema without `type` means
     * the types that its keywords are about. */
    DOP_SCHEMA_OPEN = 1,
    /* No white space between the tokens of JSON.  Without the flag some is allowed. */
    DOP_SCHEMA_COMPACT = 2
};
/* Compiles a grammar from a JSON schema (draft 2020-12); NULL: any JSON object.  The text begins with `before` and ends with `after`
 * (NULL: ""), which are not part of the JSON.  Where a keyword cannot be enforced exactly, the grammar allows a superset
 * (dop_grammar_unenforced).  budget: as for dop_grammar_from_gbnf.  DOP_E_INPUT: the schema is wrong, refers to other documents, or
 * allows nothing. */
dop_status dop_grammar_from_schema(const dop_vocab *vocab, const struct json_t *schema, const char *before,
                                   const char *after, unsigned flags, dop_budget *budget, dop_diag *diag,
                                   dop_grammar **out_grammar);
/* Names of keywords that the grammar does not enforce, because it allows a superset, in the order of their first use, with ", "
 * between them; "": all are enforced. */
const char *dop_grammar_unenforced(const dop_grammar *grammar);
/* Compiles a grammar from a tree of parts in JSON.  A part is a text; {"seq": [part...]}, parts one after another; {"any": [part...]},
 * one of several; {"schema": S}, a JSON value (S null: any object); {"compact": P}, a part in which JSON has no white space;
 * {"until": T}, any text and then T, which it does not have before; {"string": Q}, a string between quotation marks Q, with escapes
 * where Q is one character; {"id": n}, n letters and digits; {"list": [{"part": P, "required": bool}...], "between": T}.  A text that
 * is a special token of the vocabulary is written as that token. */
dop_status dop_grammar_from_parts(const dop_vocab *vocab, const struct json_t *parts, dop_budget *budget,
                                  dop_diag *diag, dop_grammar **out_grammar);
/* Adds an owner, who must release it too; the last one destroys it. */
dop_grammar *dop_grammar_share(dop_grammar *grammar);
void dop_grammar_release(dop_grammar *grammar); /* accepts NULL */

/* Creates a matcher at the beginning of a text; it shares the grammar. */
dop_status dop_matcher_create(dop_grammar *grammar, dop_diag *diag, dop_matcher **out_matcher);
void dop_matcher_destroy(dop_matcher *matcher); /* accepts NULL */
/* Works on the mask of the tokens that may come next, for about this many steps, each some nanoseconds; *out_ready: the mask is
 * complete.  DOP_E_LIMIT: at this place in the text the grammar takes too many steps or too much memory, or is too ambiguous; the
 * matcher can only be destroyed then, while other matchers of the grammar may still work. */
dop_status dop_matcher_prepare(dop_matcher *matcher, uint64_t steps, dop_diag *diag, bool *out_ready);
/* Which tokens may come next: one bit per token, [(n_vocab + 31) / 32], the lowest bit first.  Valid until the next call with
 * this matcher.  NULL after a failure, with the errors of dop_matcher_prepare. */
const uint32_t *dop_matcher_mask(dop_matcher *matcher, dop_diag *diag);
/* Sets the logits of tokens that may not come next to -infinity. */
dop_status dop_matcher_apply(dop_matcher *matcher, float *logits, uint32_t n_vocab, dop_diag *diag);
/* Advances by a token that was written.  DOP_E_INPUT: it may not come next. */
dop_status dop_matcher_accept(dop_matcher *matcher, uint32_t id, dop_diag *diag);
/* Tells whether the text may end here. */
bool dop_matcher_may_end(const dop_matcher *matcher);
/* Tells whether the text may end here and nothing can follow. */
bool dop_matcher_must_end(const dop_matcher *matcher);

/* What the masks of a grammar have cost so far. */
typedef struct dop_grammar_costs {
    uint64_t masks_made, masks_found; /* masks that were computed by a walk, and masks that were looked up */
    uint64_t bytes;                   /* memory of automaton, states and masks */
    uint64_t steps;                   /* steps of all walks together */
    double walk_ms;                   /* time of all walks together, milliseconds */
} dop_grammar_costs;
dop_grammar_costs dop_grammar_cost(dop_grammar *grammar);

#endif
