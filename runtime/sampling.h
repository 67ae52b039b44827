/* Picking the next token from logits on the host, with the parameters of dop_sampling (doppler/doppler.h). */
#ifndef DOPPLER_RUNTIME_SAMPLING_H
#define DOPPLER_RUNTIME_SAMPLING_H

#include "runtime/base.h"

#include <doppler/doppler.h>

/* A model's own parameters, as its plan states them. */
struct dop_plan;
dop_sampling dop_plan_sampling(const struct dop_plan *plan);

/* Whether the pick is the plain arg-max of the logits, which the device makes by itself. */
bool dop_sampling_is_greedy(const dop_sampling *params);

/* The largest of n logits, the lowest index among equals; UINT32_MAX: one of them is not finite. */
uint32_t dop_logits_largest(const float *logits, uint32_t n);

/* The same, and by how much it exceeds the second largest; false: a logit is not finite. */
bool dop_logits_two_best(const float *logits, uint32_t n, uint32_t *out_best, float *out_margin);

/* The logarithm of the denominator of a softmax over n logits. */
double dop_logits_log_sum(const float *logits, uint32_t n);

/* The ids of the `most` largest of n logits, which are at least as many, in out_ids: the largest first, of equals the lower id. */
void dop_logits_top(const float *logits, uint32_t n, uint32_t most, uint32_t *out_ids);

/* xoshiro256** 1.0 (Blackman and Vigna, public domain description), seeded with splitmix64. */
typedef struct dop_rng {
    uint64_t s[4];
} dop_rng;

void dop_rng_seed(dop_rng *rng, uint64_t seed);
uint64_t dop_rng_next(dop_rng *rng);
double dop_rng_unit(dop_rng *rng); /* uniform in [0, 1), 53 bits */

typedef struct dop_candidate {
    float logit;
    uint32_t id;
} dop_candidate;

typedef struct dop_sampler {
    dop_sampling params;
    dop_rng rng;
    uint32_t vocab;
    dop_candidate *candidates; /* owned, vocab */
    float *logits;             /* owned, vocab: after the penalty */
    bool bad;                  /* a logit of the last pick was not finite */
    const float *from;         /* the logits of this pick: `logits` or the caller's */
    uint32_t *stamp;           /* owned, vocab: pick in which a token was penalized */
    float *blocks, *heap;      /* owned: largest logits of blocks, and [vocab] scratch of top-k */
    uint32_t n_picks;
} dop_sampler;

dop_status dop_sampler_init(dop_sampler *sampler, uint32_t vocab, dop_diag *diag);
void dop_sampler_finish(dop_sampler *sampler); /* accepts a zeroed one */
/* Takes new parameters and starts the random numbers again. */
void dop_sampler_set(dop_sampler *sampler, const dop_sampling *params);
/* logits: f32 [vocab]; history: the tokens so far, ids below vocab.  No allocation.  A NaN counts as -infinity. */
uint32_t dop_sampler_pick(dop_sampler *sampler, const float *logits, const uint32_t *history, size_t n_history);

/* A token and its probability. */
typedef struct dop_weighed {
    uint32_t id;
    float share;
} dop_weighed;

/* The tokens that dop_sampler_pick would draw from, with probabilities, in out_list [vocab]; returns their number, at least 1. */
uint32_t dop_sampler_weigh(dop_sampler *sampler, const float *logits, const uint32_t *history, size_t n_history,
                           dop_weighed *out_list);
/* Draws from a list of n whose shares sum up to total. */
uint32_t dop_weighed_draw(const dop_weighed *list, uint32_t n, double total, dop_rng *rng);

/* The first of the largest logits; 0 when all are NaN. */
uint32_t dop_argmax(const float *logits, uint32_t n);

#endif
