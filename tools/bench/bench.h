/* Benchmarks of plans: prompt processing (ppN) and token generation (tgN) at given depths, measured as llama-bench
 * does.
 *
 * - ppN feeds N tokens and ends when the next token is known.
 * - tgN runs N single greedy steps and starts with a random token. It ends when the host has the last pick.
 * - @dD: the cache holds D tokens when the test starts.
 * - tgNbB: B sequences at once, one row each per step; the tokens of all sequences count.
 * - tgNdP: with drafts, P percent of which are accepted. Drafts are the text of the previous run with errors added. The
 *   result reports the acceptance rate reached. The plan needs schedules for a few rows (dopplerc --rows).
 * - tgNbBdP: the drafts of all sequences are verified in shared steps.
 * - tgNs: sampled with usual parameters instead of greedy.
 *
 * Several plans take turns in every round, so that disturbances of the machine affect all of them. */
#ifndef DOPPLER_TOOLS_BENCH_BENCH_H
#define DOPPLER_TOOLS_BENCH_BENCH_H

#include "runtime/model/info.h"

typedef struct dop_bench_options {
    const uint32_t *prompts, *gens, *depths; /* lists; a 0 in prompts or gens is skipped */
    const uint32_t *batches;                 /* numbers of sequences at once for the gens tests; empty list: 1 */
    const uint32_t *drafts; /* draft acceptance rates in percent; each adds tests of gens and batches */
    size_t n_prompts, n_gens, n_depths, n_batches, n_drafts;
    const char *const *loras; /* adapters, as FILE or FILE:SCALE; sequences at depth 0 use them in turn */
    size_t n_loras;
    bool sampled;      /* adds tests of gens with sampled tokens */
    uint32_t rounds;   /* rounds that are measured, >= 1, after one warm-up round */
    double floor_gbps; /* device read bandwidth in 1e9 bytes/s; 0: dop_bench_known_floor's */
    bool progress;     /* print one line per round on standard error */
    dop_open_options open;
    double start_ms; /* start time of the process, by dop_now_ms */
} dop_bench_options;

typedef struct dop_bench_test {
    uint32_t n_prompt, n_gen; /* tokens of ppN or tgN; the other field is 0 */
    uint32_t batch;           /* number of sequences at once */
    uint32_t drafts;          /* 1 + draft acceptance rate in percent; 0: no drafts */
    bool sampled;             /* true: sampling instead of greedy decoding */
    uint32_t depth;           /* tokens in the cache when the test starts */
    char name[48];            /* "pp512", "tg128@d8192", "tg128b4" */
} dop_bench_test;

typedef struct dop_bench_row {
    double *ms;                         /* owned, [rounds]: time of each round in ms */
    double mean, stddev, median;        /* tokens per second; stddev of the sample, 0 for one round */
    double ratio, ratio_min, ratio_max; /* speed relative to plan 0: of medians; lowest, highest round */
    double gbps;                        /* tgN: weights read per second in 1e9 bytes; 0 for ppN */
    double floor_share;                 /* gbps divided by the device's read bandwidth, 0 to 1; 0: unknown */
    dop_speculation_counts drafts;      /* counts of drafts in all rounds */
} dop_bench_row;

/* Random choice of the drafts that a replay proposes correctly. */
typedef struct dop_bench_chance {
    uint32_t x;              /* state of the random generator */
    uint64_t drafted, right; /* tokens proposed; tokens that were right, as were all before them in their round */
} dop_bench_chance;

/* Source of drafts for tgNdP: the text of the previous run, with errors that set the acceptance rate. */
typedef struct dop_bench_replay {
    uint32_t *ids; /* owned: tokens of the previous run */
    size_t n;
    uint32_t percent;
    dop_bench_chance chance;
    dop_speculation_counts counts; /* draft counts of the previous run */
} dop_bench_replay;

typedef struct dop_bench_plan {
    const char *path;
    dop_model *model;       /* owned */
    dop_sequence *sequence; /* owned by the model */
    dop_adapter_use uses[DOP_ADAPTERS_AT_ONCE];
    size_t n_uses; /* number of adapters, which sequences use in turn */
    dop_model_info info;
    uint64_t weights_bytes;   /* size of the weights on the device in bytes */
    uint64_t bytes_per_token; /* weight bytes that one decode step reads */
    double floor_gbps;        /* device read bandwidth in 1e9 bytes/s; 0: unknown */
    double first_token_ms; /* time from a prompt of first_token_prompt tokens to its first token, right after opening */
    double start_to_first_token_ms; /* time from process start to the first token; 0 except for the first plan */
    uint32_t first_token_prompt;
    dop_bench_replay replay;
} dop_bench_plan;

typedef struct dop_bench {
    dop_bench_plan *plans; /* owned, as are tests and rows */
    dop_bench_test *tests;
    dop_bench_row *rows; /* [plan][test] */
    size_t n_plans, n_tests;
    uint32_t rounds;
} dop_bench;

/* Opens the plans and runs all tests. Fails before the first test if a test does not fit a plan's context. */
dop_status dop_bench_run(const char *const *paths, size_t n_paths, const dop_bench_options *options, dop_diag *diag,
                         dop_bench *out_bench);
void dop_bench_finish(dop_bench *bench); /* accepts a zeroed struct */

/* bench_drafts.c: runs the steps of a tgN test on a rewound sequence. Starts no step later than limit_ms (0: no
 * limit). */
dop_status dop_bench_generate(dop_sequence *sequence, const dop_bench_test *test, const uint32_t *ids, double limit_ms,
                              dop_diag *diag, double *out_ms);
/* bench_batch.c: creates the sequences of a multi-sequence test and their first rows, all with the plan's prefix.
 * Row 0 is the plan's own sequence. The caller destroys the other *out_n - 1, also after a failure. */
dop_status dop_bench_fork(const dop_bench_plan *plan, const dop_bench_test *test, uint32_t first, dop_diag *diag,
                          dop_step_row *rows, uint32_t *out_n);
/* Runs a multi-sequence test once with replayed drafts. */
dop_status dop_bench_batch_drafts(dop_bench_plan *plan, const dop_bench_test *test, const uint32_t *ids,
                                  double limit_ms, dop_diag *diag, double *out_ms);
/* Proposes up to `most` drafts from the previous run's text, starting at token index `at`. Corrupts some so that the
 * acceptance rate over all proposals of `chance` meets its target. Returns the number of drafts. */
uint32_t dop_bench_propose(const dop_bench_replay *replay, dop_bench_chance *chance, size_t at, uint32_t most,
                           uint32_t *out_ids);
/* Run one test with replayed drafts, or with sampled tokens. Both rewind the sequence first. */
dop_status dop_bench_drafts(dop_sequence *sequence, const dop_bench_test *test, const uint32_t *ids, double limit_ms,
                            dop_bench_replay *replayed, dop_diag *diag, double *out_ms);
dop_status dop_bench_sampled(dop_sequence *sequence, const dop_bench_test *test, const uint32_t *ids, double limit_ms,
                             dop_diag *diag, double *out_ms);

/* bench_print.c: the results as a Markdown table, CSV or JSON. */
void dop_bench_markdown(const dop_bench *bench, dop_buf *out);
void dop_bench_csv(const dop_bench *bench, dop_buf *out);
void dop_bench_json(const dop_bench *bench, dop_buf *out);

/* bench_stats.c: statistics of n >= 1 values. The median of an even number of values is the mean of the middle two. */
typedef struct dop_stats {
    double mean, stddev, median, min, max;
} dop_stats;

dop_status dop_stats_of(const double *values, size_t n, dop_diag *diag, dop_stats *out_stats);

/* Returns the weight bytes that one replay of a schedule reads. Divided by the bandwidth, it is the lower bound of
 * its time. */
uint64_t dop_bench_weights_read(const dop_plan *plan, uint32_t schedule);
/* Returns the measured read bandwidth of the device in 1e9 bytes/s, looked up by name; 0: unknown. */
double dop_bench_known_floor(const char *device_name);

#endif
