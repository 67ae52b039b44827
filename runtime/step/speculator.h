/* Speculative decoding: several tokens of a sequence in one step, some of which are drafts (doppler.h:
 * dop_speculation).
 *
 * A round runs the last token of the sequence and the drafts after it as rows of one step. The logits of each row give
 * the next token. If it equals the next draft, that draft's row is valid, too. A round thus makes one token more than
 * it accepts drafts. The new tokens are stored after the tokens of the sequence, and each call of dop_sequence_next
 * returns one. */
#ifndef DOPPLER_RUNTIME_STEP_SPECULATOR_H
#define DOPPLER_RUNTIME_STEP_SPECULATOR_H

#include "runtime/model/draft_policy.h"
#include "runtime/model/model.h"

enum { DOP_MAX_DRAFTS = 31 };

/* Hash index of the last occurrence of each n-gram. */
typedef struct dop_ngrams {
    uint32_t n;         /* n-gram length; 0: there is no index */
    uint32_t mask;      /* hash mask */
    uint32_t *ends;     /* owned, [mask + 1]: number of tokens up to the end of the n-gram; 0: none */
    uint32_t n_indexed; /* n-grams that end before this position are indexed */
} dop_ngrams;

struct dop_speculator {
    dop_speculation how;
    uint32_t most; /* maximum drafts in a round */
    /* tokens[n_tokens .. known) come from a round and are not returned yet; none if known <= n_tokens */
    uint32_t known;
    uint32_t fed; /* number of tokens that the states cover, valid while known > n_tokens */

    dop_draft_policy policy;
    double (*now_ms)(void); /* clock in milliseconds: dop_now_ms, unless a test replaces it */
    uint32_t ahead;         /* maximum in-flight steps until the next round; UINT32_MAX: no limit */

    /* The last pick is ambiguous: the margin is smaller than the logits of two schedules may differ (dop_drift.apart).
     * The schedule for single tokens must repeat it. */
    bool again;
    float *row;      /* owned, [vocab]: logits of the ambiguous row */
    uint32_t row_at; /* position of the ambiguous row */

    dop_ngrams ngrams;
    uint32_t drafts[DOP_MAX_DRAFTS], n_drafts;
    dop_speculation_counts counts;
};

/* Functions of a speculator accept NULL, which means no speculation. */
dop_status dop_ngrams_init(dop_ngrams *ngrams, uint32_t n, uint32_t ctx, dop_diag *diag);
/* Finds the previous occurrence of the n-gram that ends a text of n tokens. Returns the number of tokens up to its end;
 * 0: none. */
uint32_t dop_ngrams_find(dop_ngrams *ngrams, const uint32_t *tokens, uint32_t n);
void dop_speculator_destroy(dop_speculator *speculator);
/* Ends the speculation of a sequence, and saves its measurements in the model. */
void dop_speculator_end(dop_sequence *sequence);
/* Discards tokens that were not returned yet. Replaced states may then cover more tokens than the sequence has, until
 * dop_sequence_go_back is called. */
void dop_speculator_forget(dop_speculator *speculator);
/* limit: returns how many of the wanted steps may be in flight. took: must be called for each returned token; lowers
 * that limit by one. */
uint32_t dop_speculator_limit(const dop_speculator *speculator, uint32_t wanted);
void dop_speculator_took(dop_speculator *speculator);

/* speculate.c: initializes a policy for the plan's sizes of multi-row steps. */
void dop_speculation_policy(const dop_model *model, dop_draft_policy *out);
/* drafts.c: fills `drafts` with at most `most` tokens that may follow the sequence's. */
dop_status dop_drafts_make(dop_sequence *sequence, uint32_t most, dop_diag *diag);
/* True if dop_drafts_make is likely to find drafts. A cheap test. */
bool dop_drafts_likely(dop_sequence *sequence);

/* heads.c: draft layer of a plan for one sequence (the program `draft` of plan_format.h).
 *
 * Row p of the layer reads the model's hidden state at position p and the token at p + 1. Hidden states are queued
 * until several rows can run at once. The layer's caches lie in the pages of the sequence, so forks, rewinds,
 * checkpoints and sessions include them. Missing or stale rows only lower the acceptance rate. */
typedef struct dop_head {
    uint32_t n_done; /* the layer's caches have the rows before this position */
    uint32_t n_rows; /* number of queued hidden states, for the positions from n_done on */
    bool rests;      /* pauses in multi-sequence steps: no drafts are due for a while */
    float *rows;     /* owned, [DOP_DRAFT_EACH, hidden]: the queued hidden states */
} dop_head;

/* Sets whether the layer pauses, for a sequence in multi-sequence steps (dop_step_run). While it does, steps run ahead
 * as without a draft layer. */
void dop_head_rest(dop_sequence *sequence, const dop_draft_policy *policy);

/* True if the layer needs the hidden states of the sequence's next step. False while drafts have not paid for long. */
bool dop_drafts_follow(const dop_sequence *sequence);
/* Returns how many of the next `wait` tokens may be made before the layer needs hidden states again, or a round is
 * due. */
uint32_t dop_drafts_unfollowed(const dop_sequence *sequence, uint32_t wait);
/* Creates the sequence's head unless it has one. */
dop_status dop_head_create(dop_sequence *sequence, dop_diag *diag);
void dop_head_destroy(dop_sequence *sequence);
/* Queues the hidden states of n rows of a step, from row `first` on, for the sequence's positions from pos on. Call it
 * after the step has ended and before another runs. Runs rows of the layer when the queue is full. */
dop_status dop_head_keep(dop_sequence *sequence, uint32_t schedule, uint32_t first, uint32_t pos, uint32_t n,
                         dop_diag *diag);
/* Request for drafts for one sequence. */
typedef struct dop_draft_ask {
    dop_sequence *sequence;
    uint32_t known; /* number of known tokens in the sequence's tokens[]; may exceed n_tokens */
    uint32_t most;
    uint32_t *ids; /* [most] output: the drafts */
    uint32_t n;    /* output: number of drafts; 0: a hidden state is missing, or pages are */
} dop_draft_ask;
/* Drafts for several sequences of a model in one submission. Nothing may be in flight. Logits of earlier steps become
 * invalid. */
dop_status dop_heads_draft(dop_model *model, dop_draft_ask *asks, uint32_t n, dop_diag *diag);
/* Drafts up to `most` tokens into ids. *out_n is 0 if a hidden state is missing. Nothing may be in flight. Logits of
 * earlier steps become invalid. */
dop_status dop_head_draft(dop_sequence *sequence, uint32_t most, dop_diag *diag, uint32_t *ids, uint32_t *out_n);

#endif
