/* libdoppler: generation, the loop that generates a text.
 *
 * A *generation* is one text that a sequence generates, with its sampling, constraint and stop conditions.  Each call of
 * dop_generation_next adds one token and returns the text that it adds:
 *
 *     dop_generation_create(sequence, &options, &diag, &generation);
 *     dop_generation_read(generation, ids, n_ids, &diag);
 *     do
 *         if (dop_generation_next(generation, &diag, &token) == DOP_OK)
 *             fwrite(token.text, 1, token.len, stdout);
 *     while (diag.code == DOP_OK && token.end == DOP_END_NOT_YET);
 *
 * Tokens are picked as by dop_sequence_next: on the device where possible, with steps running ahead, or with drafts
 * (dop_sequence_set_speculation).  A generation belongs to the thread that uses its model. */
#ifndef DOPPLER_INCLUDE_DOPPLER_GENERATION_H
#define DOPPLER_INCLUDE_DOPPLER_GENERATION_H

#include <doppler/constraint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct dop_generation dop_generation;

/* Reason why a text ended.  If several apply to a token, the first of this list is reported. */
typedef enum dop_end {
    DOP_END_NOT_YET,
    DOP_END_ID,         /* an id that ends generation (dop_facts.end_ids); it has no text */
    DOP_END_STOP_TEXT,  /* a stop text; none of it is returned */
    DOP_END_CONSTRAINT, /* the matcher allows no further token */
    DOP_END_LENGTH      /* max_tokens was reached, or the context is full */
} dop_end;

/* Options of a generation.  Zeros are the defaults.  Strings and lists are copied; text and matcher are not owned and must outlive the
 * generation. */
typedef struct dop_generation_options {
    const dop_text *text; /* converts ids to text; NULL: only ids are returned, and stop texts are not supported */
    /* Sampling parameters; NULL: greedy.  penalty_from is ignored: penalties count from the end of the prompt. */
    const dop_sampling *sampling;
    dop_constraint_matcher *matcher; /* matcher at the beginning of a text, which it constrains; NULL: no constraint */
    const char *const *stops;        /* [n_stops] texts that end the generation */
    size_t n_stops;
    uint32_t max_tokens; /* maximum number of tokens; 0: until the context is full */
    uint32_t n_top;      /* with sampling->logprobs: number of likeliest ids returned with each token */
    bool ignore_end;     /* treat ids that end generation as ordinary tokens */
    bool keep_special;   /* include the text of special tokens */
} dop_generation_options;

typedef struct dop_generation_token {
    uint32_t id;
    dop_end end;
    /* Text that the token adds, len bytes.  Incomplete characters and possible beginnings of stop texts are held back. */
    const char *text;
    size_t len;
    /* [1 + n_top] the token itself, then the n_top likeliest ids; NULL without sampling->logprobs. */
    const dop_logprob *logprobs;
} dop_generation_token;

/* Creates a generation.  options: NULL for the defaults.  Without a matcher, a custom sampler of the sequence stays in use
 * (dop_sequence_set_sampler).  DOP_E_USAGE: matcher combined with log-probabilities, sampling parameters that are not finite, or n_top
 * above the vocabulary size; DOP_E_INPUT: the matcher is for a smaller vocabulary than the model's.  Destroy the generation before the
 * sequence. */
dop_status dop_generation_create(dop_sequence *sequence, const dop_generation_options *options, dop_diag *diag,
                                 dop_generation **out_generation);
void dop_generation_destroy(dop_generation *generation); /* accepts NULL */
/* Appends n prompt tokens to the sequence and computes their states.  An empty sequence first reuses the cached prefix
 * (dop_sequence_reuse). */
dop_status dop_generation_read(dop_generation *generation, const uint32_t *ids, size_t n, dop_diag *diag);
/* Prepares a prompt of n tokens that the caller feeds itself; replaces dop_generation_read.  Without either call, the text continues
 * the sequence as it is. */
dop_status dop_generation_begin(dop_generation *generation, size_t n, dop_diag *diag);
/* Generates the next token; the memory that *out_token points to is valid until the next call.  DOP_E_INPUT: as dop_sequence_next, or
 * the matcher allows no token of the vocabulary; DOP_E_USAGE: the text has ended. */
dop_status dop_generation_next(dop_generation *generation, dop_diag *diag, dop_generation_token *out_token);
/* Ends the text early.  *out_token returns text that was held back as a possible stop text or incomplete character. */
dop_status dop_generation_stop(dop_generation *generation, dop_diag *diag, dop_generation_token *out_token);
/* Returns the whole text so far, 0-terminated and *out_len bytes long, valid until the next call with this generation. */
const char *dop_generation_text(const dop_generation *generation, size_t *out_len);

#ifdef __cplusplus
}
#endif

#endif
