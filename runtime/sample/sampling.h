/* Picking the next token from logits on the host, with the parameters of dop_sampling (doppler/doppler.h). */
#ifndef DOPPLER_RUNTIME_SAMPLE_SAMPLING_H
#define DOPPLER_RUNTIME_SAMPLE_SAMPLING_H

#include "base/base.h"

#include <doppler/doppler.h>

/* Returns a model's recommended parameters, as its plan states them. */
struct dop_plan;
dop_sampling dop_plan_sampling(const struct dop_plan *plan);

/* True if penalties or biases change the logits before the pick. */
bool dop_sampling_changes(const dop_sampling *params);
/* True if the pick is the plain argmax of the logits and no log-probabilities are requested, so the device can pick
 * alone. */
bool dop_sampling_is_greedy(const dop_sampling *params);

/* True if the parameters are valid: finite numbers, and repeat_penalty above 0 if it is used. A bias may be
 * infinite. */
bool dop_sampling_can_pick(const dop_sampling *params);
#define DOP_SAMPLING_ODD \
    "sampling: its numbers are finite, and repeat_penalty is above 0" /* error message for invalid parameters */
/* Returns the min_p threshold relative to the largest logit / temperature, 0 or less; -1e30: min_p is off. */
float dop_sampling_floor(const dop_sampling *params);

/* Returns the index of the largest of n logits, the lowest if several are equal; UINT32_MAX: some logit is not
 * finite. */
uint32_t dop_logits_largest(const float *logits, uint32_t n);

typedef struct dop_candidate {
    float logit;
    uint32_t id;
} dop_candidate;

typedef struct dop_sampler {
    dop_sampling params;
    uint32_t vocab;
    dop_candidate *candidates; /* owned, [vocab] */
    float *logits;             /* owned, [vocab]: logits with biases and penalties */
    bool bad;                  /* a logit of the last pick was not finite */
    const float *from;         /* logits of this pick: `logits` or the caller's */
    uint32_t *stamp;           /* owned, [vocab]: value of n_stamps when a token was last penalized */
    float *blocks, *heap;      /* owned: largest logit of each block; [vocab] scratch for top-k */
    uint32_t n_stamps;
} dop_sampler;

dop_status dop_sampler_init(dop_sampler *sampler, uint32_t vocab, dop_diag *diag);
void dop_sampler_finish(dop_sampler *sampler); /* accepts a zeroed one */
/* Picks the token after the n_history tokens so far, whose ids are below vocab. logits: f32 [vocab]; a NaN counts as
 * -infinity. Does not allocate. *out_margin, unless NULL: how much the token's logit exceeds the value at which another
 * token would have been picked with the same noise; infinite if no other is allowed.
 *
 * A draw uses the Gumbel-max trick: it adds Gumbel noise to every logit / temperature and takes the largest sum, which
 * samples from their softmax (Gumbel 1954; Maddison et al. 2014, https://arxiv.org/abs/1411.0030). The noise is one of
 * 2^23 values, hashed from the seed, the position n_history - 1 and the id. kernels/glsl/argmax.glsl uses the same
 * noise. So draws need no state, and a token does not depend on the device or the order of draws. */
uint32_t dop_sampler_pick(dop_sampler *sampler, const float *logits, const uint32_t *history, size_t n_history,
                          float *out_margin);

#endif
