/* Draft length policy of speculative decoding: decides when to run a round and with how many drafts. It maximizes
 * tokens per time, from measured step times and the acceptance rate. Pure arithmetic: the caller measures.
 *
 * A round of n drafts runs unfed + n rows in the smallest schedule that holds them. Let c be the chance that a draft is
 * right when all before it are. Then a round makes 1 + c + c^2 + ... + c^n tokens on average. It pays if that is 5%
 * more than single steps make in its time. Among draft counts that promise nearly as much as the best one, the policy
 * picks the largest: right drafts come in runs, and only longer rounds can show it. The gain of earlier rounds
 * (`credit`) must cover the loss if all drafts of such a round are wrong.
 *
 * When no round pays, rounds continue as long as they lose no more than earlier rounds gained: a series of wrong drafts
 * is often chance. After that, the smallest round that could pay is tried now and then, because texts change. Trials
 * lose at most about 2% of the time, and their interval doubles after each one that changed nothing.
 *
 * A measured time is the mean of the last few samples without the smallest and the largest, so that no single one
 * decides. */
#ifndef DOPPLER_RUNTIME_MODEL_DRAFT_POLICY_H
#define DOPPLER_RUNTIME_MODEL_DRAFT_POLICY_H

#include "base/base.h"

enum { DOP_DRAFT_SIZES = 16, DOP_DRAFT_TIMES = 5 };

typedef struct dop_draft_time {
    double ms;                    /* milliseconds; 0: not measured yet */
    double last[DOP_DRAFT_TIMES]; /* ring of the last samples, in milliseconds */
    uint32_t n;                   /* number of samples so far */
} dop_draft_time;

typedef struct dop_draft_policy {
    /* Exponentially weighted counts: accepted drafts and judged drafts; rounds that ended with an ambiguous pick, and
     * all rounds. */
    double right, judged;
    double doubts, rounds;
    dop_draft_time token; /* time per token without drafts */
    dop_draft_time draft; /* time to make one draft */
    struct {
        uint32_t rows; /* maximum rows of the schedule */
        uint32_t uses;
        dop_draft_time time;  /* time of a round */
    } sizes[DOP_DRAFT_SIZES]; /* in ascending order of rows */
    uint32_t n_sizes;
    double credit;           /* net gain of past rounds over single steps, in tokens; never negative */
    uint32_t wait, back_off; /* tokens without drafts before the next round; the interval that the last trial set */
    uint32_t plain;          /* tokens without drafts that `token` does not include yet */
    double plain_ms;         /* total time of the `plain` tokens */
} dop_draft_policy;

typedef struct dop_draft_round {
    uint32_t rows; /* rows of the step: unfed tokens plus drafts */
    uint32_t drafts, accepted;
    bool judged; /* false: one of the first ambiguous picks ended the round; it only measures logit differences */
    bool doubt;  /* a single step must repeat the last pick */
    double step_ms, draft_ms; /* time of the step including judging its rows; time to make all drafts */
} dop_draft_round;

/* Initializes a policy. rows: sizes of the schedules that return logits of several rows, ascending. */
void dop_draft_policy_init(dop_draft_policy *policy, const uint32_t *rows, uint32_t n_rows);
/* Starts an initialized policy from `last`: copies its measured times, and its acceptance rate as a first guess. */
void dop_draft_policy_follow(dop_draft_policy *policy, const dop_draft_policy *last);
/* Returns the number of drafts for the next round, 1 .. most (most >= 1). *out_pays: false if the round is only a
 * trial. */
uint32_t dop_draft_policy_length(const dop_draft_policy *policy, uint32_t unfed, uint32_t most, bool *out_pays);
/* Counts a token that came from a step without drafts, and its time. */
void dop_draft_policy_token(dop_draft_policy *policy, double ms);
/* Counts a round that has ended, and sets `wait`. */
void dop_draft_policy_round(dop_draft_policy *policy, const dop_draft_round *round);

/* Variants for steps that several sequences share. share: returns the number of drafts per sequence, 1 .. most. shared:
 * counts a finished step in which all sequences had drafts, or none had; `ended` sequences had a rejected draft.
 * round->draft_ms is the time of one step that drafts for all. `wait` counts such steps. */
uint32_t dop_draft_policy_share(const dop_draft_policy *policy, uint32_t sequences, uint32_t most, bool *out_pays);
void dop_draft_policy_shared(dop_draft_policy *policy, const dop_draft_round *round, uint32_t sequences,
                             uint32_t ended);

#endif
