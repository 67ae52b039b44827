/* Picking the next token from logits on the host, with the parameters of dop_sampling (doppler/doppler.h). */
#ifndef DOPPLER_RUNTIME_SAMPLE_SAMPLING_H
#define DOPPLER_RUNTIME_SAMPLE_SAMPLING_H

#include "base/base.h"

#include <doppler/doppler.h>

/* A model's own parameters, as its plan states them. */
struct dop_plan;
dop_sampling dop_plan_sampling(const struct dop_plan *plan);

/* Whether picks are from other logits than the model's: penalties or biases change them. */
bool dop_sampling_changes(const dop_sampling *params);
/* Whether the pick is the plain arg-max of the logits, and nobody else needs these, so that the device makes it by itself. */
bool dop_sampling_is_greedy(const dop_sampling *params);

/* Are its numbers such that a token can be picked by them: finite, and repeat_penalty above 0 where it counts?  A bias may be infinite. */
bool dop_sampling_can_pick(const dop_sampling *params);
#define DOP_SAMPLING_ODD \
    "sampling: its numbers are finite, and repeat_penalty is above 0" /* the message where they are not */
/* How far below the largest logit divided by the temperature those may be that min_p keeps, 0 or less; -1e30: it keeps all. */
float dop_sampling_floor(const dop_sampling *params);

/* The largest of n logits, the lowest index among equals; UINT32_MAX: one of them is not finite. */
uint32_t dop_logits_largest(const float *logits, uint32_t n);

typedef struct dop_candidate {
    float logit;
    uint32_t id;
} dop_candidate;

typedef struct dop_sampler {
    dop_sampling params;
    uint32_t vocab;
    dop_candidate *candidates; /* owned, vocab */
    float *logits;             /* owned, vocab: with biases and penalties */
    bool bad;                  /* a logit of the last pick was not finite */
    const float *from;         /* the logits of this pick: `logits` or the caller's */
    uint32_t *stamp;           /* owned, vocab: the last penalty of a token, by n_stamps then */
    float *blocks, *heap;      /* owned: largest logits of blocks, and [vocab] scratch of top-k */
    uint32_t n_stamps;
} dop_sampler;

dop_status dop_sampler_init(dop_sampler *sampler, uint32_t vocab, dop_diag *diag);
void dop_sampler_finish(dop_sampler *sampler); /* accepts a zeroed one */
/* Picks the token after the n_history tokens so far, whose ids are below vocab.  logits: f32 [vocab]; a NaN counts as -infinity.
 * No allocation.  *out_margin, unless NULL: by how much the logits of this token exceed those with which another one would have
 * been picked, with the same noise; infinite where no other may be picked.
 *
 * A draw adds noise of the Gumbel distribution, one of 2^23 values that are hashed from the seed, the position n_history - 1 and the
 * id, to every logit divided by the temperature and takes the largest sum, which is a draw from their softmax (Gumbel 1954; Maddison
 * et al. 2014, https://arxiv.org/abs/1411.0030).  kernels/glsl/argmax.glsl draws with the same noise.  So nothing has to be kept
 * between two draws, and a token is the same whoever draws it, in whatever order. */
uint32_t dop_sampler_pick(dop_sampler *sampler, const float *logits, const uint32_t *history, size_t n_history,
                          float *out_margin);

#endif
