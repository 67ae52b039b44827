/* libdoppler: structured output.
 *
 * A *shape* is a set of texts: those that a grammar allows, or JSON that is valid for a schema.  It is compiled once for the
 * vocabulary of a model.  Any number of threads may share one, and what is computed for one text is reused for others.
 * A *matcher* follows one text as it is written, and belongs to one thread at a time.  A generation (doppler/generation.h) takes
 * one, or else the caller of dop_sequence_next:
 *
 *     dop_constraint_matcher_create(shape, &sampling, &diag, &matcher);
 *     dop_sequence_set_sampler(sequence, dop_constraint_matcher_pick, matcher);
 *
 * From then on every token that dop_sequence_next or dop_step_sample picks is one that the shape allows next.  Ids that end
 * generation are allowed where the text may end, and are the only ones allowed where nothing can follow. */
#ifndef DOPPLER_INCLUDE_DOPPLER_CONSTRAINT_H
#define DOPPLER_INCLUDE_DOPPLER_CONSTRAINT_H

#include <doppler/text.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct dop_constraint dop_constraint;
typedef struct dop_constraint_matcher dop_constraint_matcher;

/* Compiles a grammar in GBNF, the format of llama.cpp (its grammars/README.md), without token references.  A mistake in it
 * gives DOP_E_INPUT with its line and column.  text must outlive the shape, which the caller destroys. */
dop_status dop_constraint_from_grammar(const dop_text *text, const char *grammar, size_t len, dop_diag *diag,
                                       dop_constraint **out_shape);
/* Compiles a JSON schema (json-schema.org, draft 2020-12), in UTF-8; len 0: any JSON object.  Members come in the order of
 * `properties`.  What cannot be enforced exactly leaves a superset, and is named by dop_constraint_unenforced.  DOP_E_INPUT: the
 * schema is wrong, refers to other schemas, or allows nothing. */
dop_status dop_constraint_from_schema(const dop_text *text, const char *schema, size_t len, dop_diag *diag,
                                      dop_constraint **out_shape);
/* Names of keywords of the schema that the shape does not enforce exactly, with ", " between them; "" for none.  Valid as long as
 * the shape. */
const char *dop_constraint_unenforced(const dop_constraint *shape);
void dop_constraint_destroy(dop_constraint *shape); /* accepts NULL; its matchers may live on */

/* Creates a matcher at the beginning of a text.  sampling: how to pick among the allowed tokens; NULL: the most likely one.
 * DOP_E_USAGE: by numbers that are not finite.  The caller destroys it, after the sequence was given another sampler or was destroyed. */
dop_status dop_constraint_matcher_create(dop_constraint *shape, const dop_sampling *sampling, dop_diag *diag,
                                         dop_constraint_matcher **out_matcher);
void dop_constraint_matcher_destroy(dop_constraint_matcher *matcher); /* accepts NULL */
/* A sampler for dop_sequence_set_sampler (dop_sampler_fn); user is the matcher, which advances by the token it picks.
 * DOP_E_INPUT: no token of the vocabulary continues with what the shape wants next. */
dop_status dop_constraint_matcher_pick(void *user, const float *logits, uint32_t vocab, const uint32_t *tokens,
                                       size_t n_tokens, dop_diag *diag, uint32_t *out_id);
/* Which tokens may come next, for dop_sequence_set_mask and the caller's own samplers: a bit per id, [(vocab + 31) / 32], the
 * lowest bit first.  Valid until the next call with this matcher; NULL after a failure, with the reason in *diag. */
const uint32_t *dop_constraint_matcher_mask(dop_constraint_matcher *matcher, dop_diag *diag);
/* Advances by a token that was taken.  DOP_E_INPUT, with nothing changed: the mask does not allow it. */
dop_status dop_constraint_matcher_accept(dop_constraint_matcher *matcher, uint32_t id, dop_diag *diag);
/* Whether the text may end here, and whether it must because nothing can follow. */
bool dop_constraint_matcher_may_end(const dop_constraint_matcher *matcher);
bool dop_constraint_matcher_must_end(const dop_constraint_matcher *matcher);

#ifdef __cplusplus
}
#endif

#endif
