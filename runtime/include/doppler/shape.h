/* libdoppler: output in a given shape.
 *
 * A *shape* is a set of texts: what a grammar allows, or JSON that is valid for a schema.  It is compiled once for the
 * vocabulary of a model; any number of threads may use one, and what is found out about it for one text serves the others.
 * A *shaper* is one text on its way, and belongs to one thread at a time:
 *
 *     dop_shaper_create(shape, &sampling, &diag, &shaper);
 *     dop_sequence_set_sampler(sequence, dop_shaper_pick, shaper);
 *
 * and every token that dop_sequence_next or dop_step_sample picks is one that the shape allows next; one of the ids that end
 * generation where the text may end, and nothing else where nothing can follow. */
#ifndef DOPPLER_RUNTIME_INCLUDE_DOPPLER_SHAPE_H
#define DOPPLER_RUNTIME_INCLUDE_DOPPLER_SHAPE_H

#include <doppler/text.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct dop_shape dop_shape;
typedef struct dop_shaper dop_shaper;

/* Of a grammar in GBNF, the format of llama.cpp (its grammars/README.md), without token references.  What is wrong with it
 * is DOP_E_INPUT with its line and column.  text must outlive the shape, which the caller destroys. */
dop_status dop_shape_from_grammar(const dop_text *text, const char *grammar, size_t len, dop_diag *diag,
                                  dop_shape **out_shape);
/* Of a JSON schema (json-schema.org, draft 2020-12), in UTF-8; len 0: any JSON object.  Members come in the order of
 * `properties`.  A keyword that is not supported is DOP_E_INPUT naming it and where it stands. */
dop_status dop_shape_from_schema(const dop_text *text, const char *schema, size_t len, dop_diag *diag,
                                 dop_shape **out_shape);
void dop_shape_destroy(dop_shape *shape); /* accepts NULL; its shapers may live on */

/* The beginning of a text.  sampling: how to pick among what is allowed; NULL: the likeliest.  The caller destroys it, after
 * the sequence has got another sampler or is gone. */
dop_status dop_shaper_create(dop_shape *shape, const dop_sampling *sampling, dop_diag *diag, dop_shaper **out_shaper);
void dop_shaper_destroy(dop_shaper *shaper); /* accepts NULL */
/* A sampler as dop_sequence_set_sampler takes them (dop_sampler_fn); user is the shaper, which moves on by what it picks.
 * DOP_E_INPUT: no token of the vocabulary goes on with what the shape wants next. */
dop_status dop_shaper_pick(void *user, const float *logits, uint32_t vocab, const uint32_t *tokens, size_t n_tokens,
                           dop_diag *diag, uint32_t *out_id);
/* For dop_sequence_set_mask, and samplers of the caller's own: which tokens may come next, a bit for each, [(vocab + 31) / 32], the lowest bit first.
 * Valid until the next call with this shaper; NULL after a failure, with the reason in *diag. */
const uint32_t *dop_shaper_mask(dop_shaper *shaper, dop_diag *diag);
/* The token was taken; one that the mask does not allow is DOP_E_INPUT, and changes nothing. */
dop_status dop_shaper_accept(dop_shaper *shaper, uint32_t id, dop_diag *diag);
/* May the text end here, and, where may is not enough, must it? */
bool dop_shaper_may_end(const dop_shaper *shaper);
bool dop_shaper_must_end(const dop_shaper *shaper);

#ifdef __cplusplus
}
#endif

#endif
