/* libdoppler: structured output.
 *
 * A *shape* is a constraint on text: a grammar, or a JSON schema.  It is compiled once for the vocabulary of a model.  Any number
 * of threads may share one, and token masks computed for one text are reused for others.  A *matcher* follows one text as it is
 * generated, and belongs to one thread at a time.  Pass it to a generation (doppler/generation.h), or set it as the sampler of a
 * sequence:
 *
 *     dop_constraint_matcher_create(shape, &sampling, &diag, &matcher);
 *      dop_sequence_set_sampler(sequence, dop_constraint_matcher_pick, matcher);
 *
 * Then dop_sequence_next and dop_step_sample pick only tokens that the shape allows next.  Ids that end generation are allowed
 * where the text may end, and are the only ones allowed where nothing can follow. */
#ifndef DOPPLER_INCLUDE_DOPPLER_CONSTRAINT_H
#define DOPPLER_INCLUDE_DOPPLER_CONSTRAINT_H

#include <doppler/text.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct dop_constraint dop_constraint;
typedef struct dop_constraint_matcher dop_constraint_matcher;

/* Compiles a grammar in GBNF (llama.cpp, grammars/README.md), without token references.  DOP_E_INPUT: a syntax error, with line
 * and column.  text must outlive the shape.  The caller destroys the shape. */
dop_status dop_constraint_from_grammar(const dop_text *text, const char *grammar, size_t len, dop_diag *diag,
                                       dop_constraint **out_shape);
/* Compiles a JSON schema (json-schema.org, draft 2020-12) in UTF-8; len 0: any JSON object.  Object members must appear in the
 * order of `properties`.  Keywords that cannot be enforced exactly allow a superset; dop_constraint_unenforced lists them.
 * DOP_E_INPUT: the schema is invalid, refers to other schemas, or allows nothing. */
dop_status dop_constraint_from_schema(const dop_text *text, const char *schema, size_t len, dop_diag *diag,
                                      dop_constraint **out_shape);
/* Returns the schema keywords that the shape does not enforce exactly, separated by ", "; "" if none.  Valid as long as the
 * shape. */
const char *dop_constraint_unenforced(const dop_constraint *shape);
void dop_constraint_destroy(dop_constraint *shape); /* accepts NULL; matchers of the shape stay valid */

/* Creates a matcher at the beginning of a text.  sampling: picks among the allowed tokens; NULL: greedy.  DOP_E_USAGE: sampling
 * parameters are not finite.  Destroy it after its sequence is destroyed or has another sampler. */
dop_status dop_constraint_matcher_create(dop_constraint *shape, const dop_sampling *sampling, dop_diag *diag,
                                         dop_constraint_matcher **out_matcher);
void dop_constraint_matcher_destroy(dop_constraint_matcher *matcher); /* accepts NULL */
/* Sampler function for dop_sequence_set_sampler; user is the matcher, which advances by the picked token.  DOP_E_INPUT: no token
 * of the vocabulary can continue the text. */
dop_status dop_constraint_matcher_pick(void *user, const float *logits, uint32_t vocab, const uint32_t *tokens,
                                       size_t n_tokens, dop_diag *diag, uint32_t *out_id);
/* Returns the mask of allowed next tokens, for dop_sequence_set_mask and custom samplers: one bit per id, [(vocab + 31) / 32]
 * words, least significant bit first.  Valid until the next call with this matcher.  Returns NULL after a failure. */
const uint32_t *dop_constraint_matcher_mask(dop_constraint_matcher *matcher, dop_diag *diag);
/* Advances by a token that the caller picked.  DOP_E_INPUT, with nothing changed: the mask does not allow it. */
dop_status dop_constraint_matcher_accept(dop_constraint_matcher *matcher, uint32_t id, dop_diag *diag);
/* may_end: true if the text may end here.  must_end: true if nothing can follow. */
bool dop_constraint_matcher_may_end(const dop_constraint_matcher *matcher);
bool dop_constraint_matcher_must_end(const dop_constraint_matcher *matcher);

#ifdef __cplusplus
}
#endif

#endif
