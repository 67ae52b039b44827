/* Speed of plans: prompt processing (ppN) and generation (tgN) at given depths, measured as llama-bench does.
 *
 * ppN feeds N tokens and ends when the token after them is known.  tgN takes N single greedy steps, each fed with the
 * token that the step before it picked, starting from a random one; it ends when the host has the last pick.  @dD: the
 * cache holds D tokens when the test starts.  tgNbB: B sequences at once, one row of each in every step, and the tokens of
 * all of them counted; tgNbBdP: with drafts in the steps that they share.
 * tgNdP: with drafts, which are the text of the last run, changed so that P percent of all drafts
 * are accepted; the share that really was accepted is part of the result (the plan needs schedules for a few rows: dopplerc --rows).
 * tgNs: sampled in a usual way instead of greedy.  Several plans are measured in turn, round by round, so that whatever the
 * machine does meanwhile hits all of them. */
#ifndef DOPPLER_TOOLS_BENCH_BENCH_H
#define DOPPLER_TOOLS_BENCH_BENCH_H

#include "runtime/model/info.h"

typedef struct dop_bench_options {
    const uint32_t *prompts, *gens, *depths; /* lists; a 0 in the first two is left out */
    const uint32_t *batches;                 /* sequences at once, for the tests of gens; none: 1 */
    const uint32_t *drafts; /* further tests of gens and batches, with this percentage of drafts accepted */
    size_t n_prompts, n_gens, n_depths, n_batches, n_drafts;
    const char *const
        *loras; /* adapters, each FILE or FILE:SCALE; of several sequences at depth 0 each uses the next one */
    size_t n_loras;
    bool sampled;      /* further tests of gens, with sampled tokens */
    uint32_t rounds;   /* rounds that count, at least 1; one more before them does not count */
    double floor_gbps; /* read bandwidth of the device in 1e9 bytes per second; 0: dop_bench_known_floor's */
    bool progress;     /* one line per round on standard error */
    dop_open_options open;
    double start_ms; /* when the process started, dop_now_ms */
} dop_bench_options;

typedef struct dop_bench_test {
    uint32_t n_prompt, n_gen; /* tokens of ppN or tgN; the other one is 0 */
    uint32_t batch;           /* sequences at once */
    uint32_t drafts;          /* 1 + percent of drafts to be accepted; 0: no drafts */
    bool sampled;             /* tokens are sampled instead of greedy */
    uint32_t depth;           /* tokens in the cache when the test starts */
    char name[48];            /* "pp512", "tg128@d8192", "tg128b4" */
} dop_bench_test;

typedef struct dop_bench_row {
    double *ms;                         /* owned: time of each round */
    double mean, stddev, median;        /* tokens per second; stddev of the sample, 0 for one round */
    double ratio, ratio_min, ratio_max; /* speed against the first plan's: of the medians; least, most of the rounds */
    double gbps;                        /* tgN: weights read per second, 1e9 bytes; 0 for ppN */
    double floor_share;                 /* gbps as a share of the device's read bandwidth, 0 .. 1; 0: unknown */
    dop_speculation_counts drafts;      /* drafts of all rounds */
} dop_bench_row;

/* Which drafts of a sequence were made right, in a run. */
typedef struct dop_bench_chance {
    uint32_t x; /* state of a generator */
    uint64_t drafted,
        right; /* tokens proposed; proposed tokens that are right, as all before them in their round are */
} dop_bench_chance;

/* Drafts of tgNdP: the text of the last run, changed so that a wanted share is accepted. */
typedef struct dop_bench_replay {
    uint32_t *ids; /* owned: tokens of the last run */
    size_t n;
    uint32_t percent;
    dop_bench_chance chance;
    dop_speculation_counts counts; /* drafts of the last run */
} dop_bench_replay;

typedef struct dop_bench_plan {
    const char *path;
    dop_model *model;       /* owned */
    dop_sequence *sequence; /* the model's */
    dop_adapter_use uses[DOP_ADAPTERS_AT_ONCE];
    size_t n_uses; /* adapters that sequences use in turn */
    dop_model_info info;
    uint64_t weights_bytes;   /* size of the weights on the device */
    uint64_t bytes_per_token; /* bytes of weights that one decode step reads */
    double floor_gbps;        /* read bandwidth of the device, 1e9 bytes per second; 0: unknown */
    double first_token_ms;    /* time of first_token_prompt tokens and the token after them, right after opening */
    double start_to_first_token_ms; /* from the process's start to the first token; 0 except for the first plan */
    uint32_t first_token_prompt;
    dop_bench_replay replay;
} dop_bench_plan;

typedef struct dop_bench {
    dop_bench_plan *plans; /* owned, like the next two */
    dop_bench_test *tests;
    dop_bench_row *rows; /* [plan][test] */
    size_t n_plans, n_tests;
    uint32_t rounds;
} dop_bench;

/* Opens the plans and measures.  Fails before measuring when a test does not fit a plan's context. */
dop_status dop_bench_run(const char *const *paths, size_t n_paths, const dop_bench_options *options, dop_diag *diag,
                         dop_bench *out_bench);
void dop_bench_finish(dop_bench *bench); /* accepts a zeroed one */

/* bench_drafts.c: runs the steps of a tgN on a sequence that was rewound.  limit_ms: starts no more steps after this time; 0:
 * runs all. */
dop_status dop_bench_generate(dop_sequence *sequence, const dop_bench_test *test, const uint32_t *ids, double limit_ms,
                              dop_diag *diag, double *out_ms);
/* bench_batch.c: makes the sequences of a test of several, which begin as the plan's does, each with its first row.  The first one is the plan's;
 * destroy the *out_n - 1 others, also after a failure. */
dop_status dop_bench_fork(const dop_bench_plan *plan, const dop_bench_test *test, uint32_t first, dop_diag *diag,
                          dop_step_row *rows, uint32_t *out_n);
/* One run of a test of several sequences with replayed drafts. */
dop_status dop_bench_batch_drafts(dop_bench_plan *plan, const dop_bench_test *test, const uint32_t *ids,
                                  double limit_ms, dop_diag *diag, double *out_ms);
/* Proposes up to `most` drafts from the text of the last run, of which the token `at` is the next one, so that the wanted share of all
 * that `chance` has proposed is accepted; returns how many. */
uint32_t dop_bench_propose(const dop_bench_replay *replay, dop_bench_chance *chance, size_t at, uint32_t most,
                           uint32_t *out_ids);
/* One run of a test with replayed drafts, and one of a test with sampled tokens; both begin with rewinding. */
dop_status dop_bench_drafts(dop_sequence *sequence, const dop_bench_test *test, const uint32_t *ids, double limit_ms,
                            dop_bench_replay *replayed, dop_diag *diag, double *out_ms);
dop_status dop_bench_sampled(dop_sequence *sequence, const dop_bench_test *test, const uint32_t *ids, double limit_ms,
                             dop_diag *diag, double *out_ms);

/* bench_print.c */
void dop_bench_markdown(const dop_bench *bench, dop_buf *out);
void dop_bench_csv(const dop_bench *bench, dop_buf *out);
void dop_bench_json(const dop_bench *bench, dop_buf *out);

/* bench_stats.c: statistics of n values, n >= 1; the median of an even number of values is the mean of the two in the middle. */
typedef struct dop_stats {
    double mean, stddev, median, min, max;
} dop_stats;

dop_status dop_stats_of(const double *values, size_t n, dop_diag *diag, dop_stats *out_stats);

/* Weights that one replay of a schedule reads, in bytes: the floor of its time on a device. */
uint64_t dop_bench_weights_read(const dop_plan *plan, uint32_t schedule);
/* Read bandwidth measured for a device of this name, 1e9 bytes per second; 0: unknown. */
double dop_bench_known_floor(const char *device_name);

#endif
