/* Speculation: several tokens of a sequence in one step, some of which are drafts (doppler.h: dop_speculation).
 *
 * A round runs the last token of the sequence and the drafts after it as rows of one step.  The logits of each row say what
 * comes next; as long as that is the next draft, the row of that draft was right too.  So a round makes one token more than
 * drafts were accepted.  They are stored after the tokens of the sequence, which takes one in each call of
 * dop_sequence_next. */
#ifndef DOPPLER_RUNTIME_STEP_SPECULATOR_H
#define DOPPLER_RUNTIME_STEP_SPECULATOR_H

#include "runtime/model/draft_policy.h"
#include "runtime/model/model.h"

enum { DOP_MAX_DRAFTS = 31 };

/* Where the last n-gram of each hash ends. */
typedef struct dop_ngrams {
    uint32_t n;         /* length of an n-gram; 0: there is no index */
    uint32_t mask;      /* of hashes */
    uint32_t *ends;     /* owned, [mask + 1]: number of tokens up to its end; 0: none */
    uint32_t n_indexed; /* n-grams that end before this token are indexed */
} dop_ngrams;

struct dop_speculator {
    dop_speculation how;
    uint32_t most;  /* drafts in a round */
    uint32_t known; /* tokens[n_tokens .. known) were made by a round and not taken yet; <= n_tokens: none */
    uint32_t fed;   /* tokens that the states cover, while known > n_tokens */

    dop_draft_policy policy;
    double (*now_ms)(void); /* dop_now_ms, unless a test says otherwise */
    uint32_t ahead;         /* most in-flight steps until the next round; UINT32_MAX: any number */

    /* Where another pick is nearer than the logits of two schedules may differ (dop_model.apart), the pick is made again by the
     * schedule for single tokens. */
    bool again;
    float *row;      /* owned, [vocab]: logits of the row whose pick is made again */
    uint32_t row_at; /* position of the row whose pick is made again */

    dop_ngrams ngrams;
    uint32_t drafts[DOP_MAX_DRAFTS], n_drafts;
    dop_speculation_counts counts;
};

/* speculator.c; functions of a speculator accept NULL, which means no speculation. */
dop_status dop_ngrams_init(dop_ngrams *ngrams, uint32_t n, uint32_t ctx, dop_diag *diag);
/* Finds the previous occurrence of the n-gram that ends a text of n tokens: the number of tokens up to its end; 0: none. */
uint32_t dop_ngrams_find(dop_ngrams *ngrams, const uint32_t *tokens, uint32_t n);
void dop_speculator_destroy(dop_speculator *speculator);
/* Ends the speculation of a sequence; what it has measured is the model's. */
void dop_speculator_end(dop_sequence *sequence);
/* Forgets tokens that were not taken.  Where steps replace states, the states may cover more tokens than the sequence
 * has until dop_sequence_go_back is called. */
void dop_speculator_forget(dop_speculator *speculator);
/* The number of wanted steps that may be in flight, and a call for each token that reduces the number by one. */
uint32_t dop_speculator_limit(const dop_speculator *speculator, uint32_t wanted);
void dop_speculator_took(dop_speculator *speculator);

/* speculate.c: a policy for the plan's sizes of steps of several rows. */
void dop_speculation_policy(const dop_model *model, dop_draft_policy *out);
/* drafts.c: fills drafts with at most `most` tokens that may follow the sequence's. */
dop_status dop_drafts_make(dop_sequence *sequence, uint32_t most, dop_diag *diag);
/* Is dop_drafts_make likely to find drafts?  A cheap test. */
bool dop_drafts_likely(dop_sequence *sequence);

/* heads.c: the layer of a plan that drafts (the program `draft` of plan_format.h), for one sequence.
 *
 * Row p of the layer reads the hidden state that a step of the model has sent for position p, and the token at p + 1.  Hidden states are
 * kept until their rows are run, several at a time.  The layer's caches lie in the pages of the sequence, so that forks, rewinds,
 * checkpoints and sessions have them; where rows are missing or of other tokens, drafts are right less often, and nothing else. */
typedef struct dop_head {
    uint32_t n_done; /* the layer's caches have rows of the positions before this one */
    uint32_t n_rows; /* hidden states that are kept, of the positions from n_done on */
    bool rests;      /* steps of several sequences: there will be no drafts for long */
    float *rows;     /* owned, [DOP_DRAFT_EACH, hidden] */
} dop_head;

/* Says when the next drafts are of a sequence whose steps are those of several (dop_step_run); until shortly before that, steps run ahead
 * as without a layer. */
void dop_head_rest(dop_sequence *sequence, const dop_draft_policy *policy);

/* Must the layer see the hidden states of the sequence's next step?  Not while drafts have not paid for long. */
bool dop_drafts_follow(const dop_sequence *sequence);
/* How many tokens from the next one on come before steps whose states it must see, or before a round: `wait` of them are left until that. */
uint32_t dop_drafts_unfollowed(const dop_sequence *sequence, uint32_t wait);
/* Gives the sequence a head, unless it has one. */
dop_status dop_head_create(dop_sequence *sequence, dop_diag *diag);
void dop_head_destroy(dop_sequence *sequence);
/* Keeps the hidden states of n rows of a step, from row `first` on, which are those of the sequence's positions from pos on; call it when
 * the step has ended, before another one runs.  Runs rows of the layer where there are many. */
dop_status dop_head_keep(dop_sequence *sequence, uint32_t schedule, uint32_t first, uint32_t pos, uint32_t n,
                         dop_diag *diag);
/* What is asked of the layer for one sequence. */
typedef struct dop_draft_ask {
    dop_sequence *sequence;
    uint32_t known; /* number of tokens[] of the sequence that are known, which may be more than it has */
    uint32_t most;
    uint32_t *ids; /* [most]: the drafts */
    uint32_t n;    /* number of drafts; 0: a hidden state is missing, or there are no pages */
} dop_draft_ask;
/* Drafts for several sequences of a model together.  Nothing may be in flight, and logits of earlier steps become invalid. */
dop_status dop_heads_draft(dop_model *model, dop_draft_ask *asks, uint32_t n, dop_diag *diag);
/* Writes up to `most` drafts of the tokens that follow to ids; *out_n 0: a hidden state is missing.  Nothing may be in flight, and logits
 * of earlier steps become invalid. */
dop_status dop_head_draft(dop_sequence *sequence, uint32_t most, dop_diag *diag, uint32_t *ids, uint32_t *out_n);

#endif
