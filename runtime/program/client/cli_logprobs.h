/* --logprobs: a sampler that records the probabilities it picked from. */
#ifndef DOPPLER_RUNTIME_PROGRAM_CLIENT_CLI_LOGPROBS_H
#define DOPPLER_RUNTIME_PROGRAM_CLIENT_CLI_LOGPROBS_H

#include "runtime/sample/sampling.h"

#include <jansson.h>

typedef struct dop_logprobs {
    dop_sampler sampler;
    uint32_t n;     /* alternatives of each pick */
    uint32_t *best; /* owned, [n] */
    /* Owned: of each pick {"id", "logprob", "top": [{"id", "logprob"}, ...]}, the likeliest first.  Natural logarithms of the
     * model's own probabilities, before any sampling parameter. */
    json_t *list;
} dop_logprobs;

dop_status dop_logprobs_init(dop_logprobs *logprobs, const dop_sampling *sampling, uint32_t vocab, uint32_t n,
                             dop_diag *diag);
void dop_logprobs_finish(dop_logprobs *logprobs); /* accepts a zeroed one */
dop_sampler_fn dop_logprobs_pick;                 /* user: dop_logprobs */

#endif
