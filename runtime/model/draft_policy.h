/* How many drafts the next round of a speculation has, and when there is one: whatever makes most tokens in a given time, by the
 * times that steps took and by the share of drafts that were right.  Pure arithmetic: the caller measures.
 *
 * A round of n drafts runs unfed + n rows in the smallest schedule that holds them.  With c the chance that a draft is right
 * when all before it are, it makes 1 + c + c^2 + ... + c^n tokens.  It pays if that is 5% more than single steps make in
 * its time.  Of numbers of drafts that promise nearly as much as the best one, the largest is taken: right drafts come in runs,
 * so that more drafts make more tokens than the chance of fewer promises, and only rounds with them can show it.  What rounds
 * have gained before must pay for it if all drafts of such a round are wrong.
 *
 * Where no round pays, rounds go on as long as they lose no more than those before them gained: a series of wrong drafts is
 * often chance.  Then the smallest round that could pay is tried now and then, because texts change.  Such trials lose no more
 * than about 2% of the time, and come half as often after each one that did not change anything.
 *
 * A time is the mean of the last few measurements without the least and the largest of them, so that no single one decides. */
#ifndef DOPPLER_RUNTIME_MODEL_DRAFT_POLICY_H
#define DOPPLER_RUNTIME_MODEL_DRAFT_POLICY_H

#include "base/base.h"

enum { DOP_DRAFT_SIZES = 16, DOP_DRAFT_TIMES = 5 };

typedef struct dop_draft_time {
    double ms;                    /* 0: not known */
    double last[DOP_DRAFT_TIMES]; /* the last measurements, in milliseconds */
    uint32_t n;                   /* measurements so far */
} dop_draft_time;

typedef struct dop_draft_policy {
    /* Recent success, older rounds weighted less: drafts that were right, of those judged; rounds that ended with a pick in
     * doubt, of all. */
    double right, judged;
    double doubts, rounds;
    dop_draft_time token; /* of a token without drafts */
    dop_draft_time draft; /* of making one draft */
    struct {
        uint32_t rows; /* most rows of the schedule */
        uint32_t uses;
        dop_draft_time time;  /* of a round */
    } sizes[DOP_DRAFT_SIZES]; /* ascending */
    uint32_t n_sizes;
    double credit; /* tokens that rounds made beyond those of single steps in their time, as far as not lost again */
    uint32_t wait, back_off; /* tokens without drafts before the next round; the last value that a trial gave it */
    uint32_t plain;          /* tokens without drafts that `token` does not contain yet */
    double plain_ms;         /* time of the tokens that `plain` counts */
} dop_draft_policy;

typedef struct dop_draft_round {
    uint32_t rows; /* of the step: tokens that were not fed yet, and drafts */
    uint32_t drafts, accepted;
    bool judged; /* false: the round ended in one of the first doubts, which only measure how far logits are apart */
    bool doubt;  /* the last pick must be made again by a single step */
    double step_ms, draft_ms; /* times: of the step and of judging its rows; of making all drafts */
} dop_draft_round;

/* rows: sizes of the schedules that return logits of several rows, ascending. */
void dop_draft_policy_init(dop_draft_policy *policy, const uint32_t *rows, uint32_t n_rows);
/* Of an initialized policy: takes the times that the last text's policy has measured, and its share of right drafts as a first guess. */
void dop_draft_policy_follow(dop_draft_policy *policy, const dop_draft_policy *last);
/* The number of drafts for a round now, 1 .. most (most >= 1); *out_pays: whether it is more than a trial. */
uint32_t dop_draft_policy_length(const dop_draft_policy *policy, uint32_t unfed, uint32_t most, bool *out_pays);
/* Counts a token that came from a step without drafts, and its time. */
void dop_draft_policy_token(dop_draft_policy *policy, double ms);
/* Counts a round that has ended, and sets `wait`. */
void dop_draft_policy_round(dop_draft_policy *policy, const dop_draft_round *round);

/* Steps that several sequences share.  share: the number of drafts for each of them, 1 .. most.  shared: counts a step of theirs that has
 * ended, with the drafts of all or with none, of which `ended` sequences had one that was not accepted; round->draft_ms is the time of one
 * step that drafts for all.  `wait` counts such steps. */
uint32_t dop_draft_policy_share(const dop_draft_policy *policy, uint32_t sequences, uint32_t most, bool *out_pays);
void dop_draft_policy_shared(dop_draft_policy *policy, const dop_draft_round *round, uint32_t sequences,
                             uint32_t ended);

#endif
