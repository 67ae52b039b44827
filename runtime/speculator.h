/* Speculation: several tokens of a sequence in one step, some of which are drafts (doppler.h: dop_speculation).
 *
 * A round runs the last token of the sequence and the drafts behind it as rows of one step.  The logits of each row say what
 * comes next; as long as that is the next draft, the row of that draft was right too.  So a round gives one token more than
 * drafts were accepted.  Tokens that a round has given stand behind those of the sequence, which takes one in each call of
 * dop_sequence_next. */
#ifndef DOPPLER_RUNTIME_SPECULATOR_H
#define DOPPLER_RUNTIME_SPECULATOR_H

#include "runtime/model.h"

enum { DOP_MAX_DRAFTS = 31 };

/* Where the last n-gram of each hash ends. */
typedef struct dop_ngrams {
    uint32_t n;         /* tokens of one; 0: there is no index */
    uint32_t mask;      /* of hashes */
    uint32_t *ends;     /* owned, [mask + 1]: tokens up to the end of it; 0: none */
    uint32_t n_indexed; /* n-grams that end before this token are in it */
} dop_ngrams;

struct dop_speculator {
    dop_speculation how;
    uint32_t most;  /* drafts in a round */
    uint32_t known; /* tokens[n_tokens .. known) were given by a round and not taken yet; not above n_tokens: none */
    uint32_t fed;   /* while there are such: the states are of so many tokens */

    /* How well it goes: accepted and judged drafts, older ones count less.  wait: tokens without drafts before the next
     * round; back_off: the last such number. */
    double accepted, judged;
    uint32_t wait, back_off;
    uint32_t ahead; /* steps of the device that may be under way for the next call; UINT32_MAX: any number */

    /* Greedy picks: where two logits are nearer to each other than schedules may be apart, the pick is made again by the
     * schedule that makes single tokens. */
    bool again;
    double apart;    /* largest difference of logits seen between them; negative: not measured */
    float *row;      /* owned, [vocab]: logits of the row whose pick is made again */
    uint32_t row_at; /* position of it */

    dop_ngrams ngrams;
    uint32_t drafts[DOP_MAX_DRAFTS], n_drafts;
    /* What drafts were drawn from, where they were drawn: shares[i * vocab ..], n_shares[i].  NULL: they are taken as they
     * are. */
    dop_weighed *shares, *target; /* owned, [most][vocab] and [vocab] */
    uint32_t n_shares[DOP_MAX_DRAFTS];
    double *dense;     /* owned, [vocab]: zeros */
    dop_sampler draws; /* of the draft model */
    dop_speculation_counts counts;
};

/* speculator.c; those of a speculator accept NULL: there is no speculation. */
dop_status dop_ngrams_init(dop_ngrams *ngrams, uint32_t n, uint32_t ctx, dop_diag *diag);
/* Where the tokens that end a text of n stood before: the number of tokens up to there; 0: nowhere. */
uint32_t dop_ngrams_find(dop_ngrams *ngrams, const uint32_t *tokens, uint32_t n);
void dop_speculator_destroy(dop_speculator *speculator);
/* Forgets tokens that were not taken.  Where steps replace states, the states may be those of more tokens than the sequence
 * has until dop_sequence_go_back. */
void dop_speculator_forget(dop_speculator *speculator);
/* Steps of the device that may be under way, of so many that are wanted; and one less of them. */
uint32_t dop_speculator_limit(const dop_speculator *speculator, uint32_t wanted);
void dop_speculator_took(dop_speculator *speculator);

/* drafts.c: fills drafts with at most `most` of what may come after the sequence's tokens. */
dop_status dop_drafts_make(dop_sequence *sequence, uint32_t most, dop_diag *diag);
/* Is something to be expected of dop_drafts_make?  Asks without much work. */
bool dop_drafts_likely(dop_sequence *sequence);

#endif
