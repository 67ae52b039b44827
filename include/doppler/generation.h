/* libdoppler: generation, the loop that writes a text.
 *
 * A *generation* is one text that a sequence writes: how its tokens are picked, what restricts them, and what ends it.  Each call
 * of dop_generation_next takes one more token, whoever picks it, and gives what it adds to the text:
 *
 *     dop_generation_create(sequence, &options, &diag, &generation);
 *     dop_generation_read(generation, ids, n_ids, &diag);
 *     do
 *         if (dop_generation_next(generation, &diag, &token) == DOP_OK)
 *             fwrite(token.text, 1, token.len, stdout);
 *     while (diag.code == DOP_OK && token.end == DOP_END_NOT_YET);
 *
 * Picks are those of dop_sequence_next: by the device where it can, several steps ahead, or with drafts
 * (dop_sequence_set_speculation).  A generation belongs to the thread that drives its model. */
#ifndef DOPPLER_INCLUDE_DOPPLER_GENERATION_H
#define DOPPLER_INCLUDE_DOPPLER_GENERATION_H

#include <doppler/constraint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct dop_generation dop_generation;

/* What ended a text.  Where several apply to a token, the first one of this list is given. */
typedef enum dop_end {
    DOP_END_NOT_YET,
    DOP_END_ID,         /* an id that ends generation (dop_facts.end_ids); it has no text */
    DOP_END_STOP_TEXT,  /* a stop text, of which nothing is given out */
    DOP_END_CONSTRAINT, /* the matcher allows nothing more */
    DOP_END_LENGTH      /* max_tokens, or the context is full */
} dop_end;

/* Zeros are the defaults.  Strings and lists are copied; text and matcher are not owned and must outlive the generation. */
typedef struct dop_generation_options {
    const dop_text *text; /* turns ids into text; NULL: there are only ids, and no stop texts */
    /* How tokens are picked; penalty_from is not used: penalties count from the end of the prompt.  NULL: greedy. */
    const dop_sampling *sampling;
    dop_constraint_matcher *matcher; /* at the beginning of a text, which it restricts; NULL: every token is allowed */
    const char *const *stops;        /* [n_stops]: texts that end the generation */
    size_t n_stops;
    uint32_t max_tokens; /* 0: until the context is full */
    uint32_t n_top;      /* with sampling->logprobs: likeliest ids that are given with each token */
    bool ignore_end;     /* ids that end generation are tokens like others */
    bool keep_special;   /* special tokens have text */
} dop_generation_options;

typedef struct dop_generation_token {
    uint32_t id;
    dop_end end;
    const char
        *text; /* what the token adds to the text, len bytes, without characters and stop texts that are incomplete */
    size_t len;
    const dop_logprob
        *logprobs; /* [1 + n_top]: the token itself, then the n_top likeliest ids; NULL without sampling->logprobs */
} dop_generation_token;

/* Creates a generation.  options: NULL for the defaults.  The sequence keeps its sampler where it has one (dop_sequence_set_sampler) and
 * the options have no matcher.  DOP_E_USAGE: a matcher together with log-probabilities, a sampling by numbers that are not finite, or
 * more likeliest ids than the vocabulary has.  The caller destroys the generation, before the sequence. */
dop_status dop_generation_create(dop_sequence *sequence, const dop_generation_options *options, dop_diag *diag,
                                 dop_generation **out_generation);
void dop_generation_destroy(dop_generation *generation); /* accepts NULL */
/* Reads n tokens of a prompt after what the sequence has already.  An empty sequence takes what is cached of them
 * (dop_sequence_reuse). */
dop_status dop_generation_read(dop_generation *generation, const uint32_t *ids, size_t n, dop_diag *diag);
/* The first half of dop_generation_read, for callers that feed the n tokens themselves.  Without either, a text follows what the sequence
 * has. */
dop_status dop_generation_begin(dop_generation *generation, size_t n, dop_diag *diag);
/* Takes the next token; what *out_token points at is valid until the next call.  DOP_E_INPUT: as
 * from dop_sequence_next, or the matcher and the vocabulary have no token in common; DOP_E_USAGE: the text has ended. */
dop_status dop_generation_next(dop_generation *generation, dop_diag *diag, dop_generation_token *out_token);
/* Ends a text that has not ended: *out_token has the text that was held back because a stop text or a character might have followed. */
dop_status dop_generation_stop(dop_generation *generation, dop_diag *diag, dop_generation_token *out_token);
/* The whole text so far, 0-terminated and *out_len bytes long, valid until the next call with this generation. */
const char *dop_generation_text(const dop_generation *generation, size_t *out_len);

#ifdef __cplusplus
}
#endif

#endif
