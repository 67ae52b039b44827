/* Structured output: grammars over the bytes of a text, and masks of the tokens that may come next.
 *
 * A grammar is compiled once into a pushdown automaton over bytes (automaton.h). A *matcher* follows one text
 * through it. The tokens that a state allows are found by walking the vocabulary as a byte trie. The result is
 * cached with the grammar, so most tokens cost one look-up and a pass over a bit mask.
 *
 * Threads: any number of threads may use a vocabulary or a grammar; a matcher may be used by one thread at a time. */
#ifndef DOPPLER_TEXT_GRAMMAR_GRAMMAR_H
#define DOPPLER_TEXT_GRAMMAR_GRAMMAR_H

#include "base/budget.h"
#include "text/tokenizer/tokenizer.h"

struct json_t;

typedef struct dop_vocab dop_vocab;
typedef struct dop_grammar dop_grammar;
typedef struct dop_matcher dop_matcher;

/* Creates the vocabulary for grammars: the tokens below n_vocab that have a text, and the end-of-generation tokens.
 * The tokenizer must outlive it. */
dop_status dop_vocab_create(const dop_tokenizer *tok, uint32_t n_vocab, const uint32_t *end_ids, size_t n_end_ids,
                            dop_diag *diag, dop_vocab **out_vocab);
uint32_t dop_vocab_size(const dop_vocab *vocab); /* n_vocab */
/* Returns the memory in bytes of all grammars of a vocabulary together, which is limited to about 128 MiB. */
size_t dop_vocab_held(const dop_vocab *vocab);
void dop_vocab_destroy(dop_vocab *vocab); /* Accepts NULL. Its grammars must have been released. */

/* Compiles a grammar from GBNF text with llama.cpp's syntax. path: used in messages. Syntax errors fail with
 * DOP_E_INPUT and line and column. budget: limits time and memory of compilation; NULL: unlimited. Fails with
 * DOP_E_LIMIT if the grammar exceeds the budget or the vocabulary's memory pool. */
dop_status dop_grammar_from_gbnf(const dop_vocab *vocab, const char *path, const char *text, size_t n,
                                 dop_budget *budget, dop_diag *diag, dop_grammar **out_grammar);
enum {
    /* Standard semantics: members without a keyword are allowed, and keywords do not imply types. Without this flag,
     * such members are allowed only with `additionalProperties` or similar, and a schema without `type` allows the
     * types that its keywords apply to. */
    DOP_SCHEMA_OPEN = 1,
    /* Allows no white space between JSON tokens. Without this flag a limited amount is allowed. */
    DOP_SCHEMA_COMPACT = 2
};
/* Compiles a grammar from a JSON schema (draft 2020-12); NULL: any JSON object. The text must begin with `before`
 * and end with `after` (NULL: ""), outside the JSON. If a keyword cannot be enforced exactly, the grammar allows a
 * superset (dop_grammar_unenforced). budget: as for dop_grammar_from_gbnf(). Fails with DOP_E_INPUT if the schema is
 * invalid, refers to other documents, or allows nothing. */
dop_status dop_grammar_from_schema(const dop_vocab *vocab, const struct json_t *schema, const char *before,
                                   const char *after, unsigned flags, dop_budget *budget, dop_diag *diag,
                                   dop_grammar **out_grammar);
/* Returns the keywords that the grammar does not enforce, in order of first use, separated by ", ". Returns "" if
 * all are enforced. */
const char *dop_grammar_unenforced(const dop_grammar *grammar);
/* Compiles a grammar from a JSON tree of parts. A part is one of:
 *   "TEXT"               literal text; the text of a special token is generated as that token
 *   {"seq": [part...]}   parts one after another
 *   {"any": [part...]}   alternatives
 *   {"schema": S}        a JSON value (S null: any object)
 *   {"compact": P}       a part whose JSON has no white space
 *   {"until": T}         any text up to and including the first T
 *   {"string": Q}        a string in quotation marks Q, with escapes if Q is one character
 *   {"id": n}            n letters and digits
 *   {"list": [{"part": P, "required": bool}...], "between": T}   parts in order, separated by T */
dop_status dop_grammar_from_parts(const dop_vocab *vocab, const struct json_t *parts, dop_budget *budget,
                                  dop_diag *diag, dop_grammar **out_grammar);
/* Adds a reference, which must be released, too. The last release destroys the grammar. */
dop_grammar *dop_grammar_share(dop_grammar *grammar);
void dop_grammar_release(dop_grammar *grammar); /* accepts NULL */

/* Creates a matcher at the start of a text. The matcher holds a reference to the grammar. */
dop_status dop_matcher_create(dop_grammar *grammar, dop_diag *diag, dop_matcher **out_matcher);
void dop_matcher_destroy(dop_matcher *matcher); /* accepts NULL */
/* Continues computing the mask of allowed next tokens, for about `steps` steps of a few nanoseconds. *out_ready: the
 * mask is complete. Fails with DOP_E_LIMIT if the grammar needs too many steps or too much memory at this point, or
 * is too ambiguous. Afterwards the matcher can only be destroyed; other matchers of the grammar remain usable. */
dop_status dop_matcher_prepare(dop_matcher *matcher, uint64_t steps, dop_diag *diag, bool *out_ready);
/* Returns the mask of allowed next tokens: one bit per token, [(n_vocab + 31) / 32] words, lowest bit first. Valid
 * until the next call with this matcher. Returns NULL after a failure, with the errors of dop_matcher_prepare(). */
const uint32_t *dop_matcher_mask(dop_matcher *matcher, dop_diag *diag);
/* Sets the logits of tokens that are not allowed next to -infinity. n_vocab: at most the vocabulary's. */
dop_status dop_matcher_apply(dop_matcher *matcher, float *logits, uint32_t n_vocab, dop_diag *diag);
/* Advances by a generated token. Fails with DOP_E_INPUT if the token is not allowed. */
dop_status dop_matcher_accept(dop_matcher *matcher, uint32_t id, dop_diag *diag);
/* True if the text may end here. */
bool dop_matcher_may_end(const dop_matcher *matcher);
/* True if the text may end here and nothing may follow. */
bool dop_matcher_must_end(const dop_matcher *matcher);

/* Accumulated cost of a grammar's masks. */
typedef struct dop_grammar_costs {
    uint64_t masks_made, masks_found; /* number of masks computed by a walk, and found in the cache */
    uint64_t bytes;                   /* memory of automaton, sets and masks */
    uint64_t steps;                   /* steps of all walks */
    double walk_ms;                   /* total time of all walks in milliseconds */
} dop_grammar_costs;
dop_grammar_costs dop_grammar_cost(dop_grammar *grammar);

#endif
