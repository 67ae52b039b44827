#include "runtime/program/client/cli_logprobs.h"

#include <stdlib.h>
#include <string.h>

dop_status
dop_logprobs_init(dop_logprobs *logprobs, const dop_sampling *sampling, uint32_t vocab, uint32_t n, dop_diag *diag)
{
    dop_logprobs *l = logprobs;
    memset(l, 0, sizeof *l);
    l->n = n < vocab ? n : vocab;
    l->best = calloc((size_t)l->n + 1, sizeof *l->best);
    l->list = json_array();
    if (!l->best || !l->list)
        return DOP_FAIL(diag, DOP_E_NOMEM, "out of memory");
    dop_status st = dop_sampler_init(&l->sampler, vocab, diag);
    if (st == DOP_OK)
        l->sampler.params = *sampling;
    return st;
}

void
dop_logprobs_finish(dop_logprobs *logprobs)
{
    dop_sampler_finish(&logprobs->sampler);
    free(logprobs->best);
    json_decref(logprobs->list);
    memset(logprobs, 0, sizeof *logprobs);
}

static json_t *
entry(uint32_t id, const float *logits, double sum)
{
    return json_pack("{s:i, s:f}", "id", (int)id, "logprob", (double)logits[id] - sum);
}

dop_status
dop_logprobs_pick(void *user, const float *logits, uint32_t vocab, const uint32_t *tokens, size_t n_tokens,
                  dop_diag *diag, uint32_t *out_id)
{
    dop_logprobs *l = user;
    *out_id = dop_sampler_pick(&l->sampler, logits, tokens, n_tokens, NULL);
    double sum = dop_logits_log_sum(logits, vocab);
    dop_logits_top(logits, vocab, l->n, l->best);
    json_t *pick = entry(*out_id, logits, sum), *top = json_array();
    bool good = pick && top;
    for (uint32_t i = 0; i < l->n && good; i++)
        good = json_array_append_new(top, entry(l->best[i], logits, sum)) == 0;
    good = good && json_object_set(pick, "top", top) == 0 && json_array_append(l->list, pick) == 0;
    json_decref(top);
    json_decref(pick);
    return good ? DOP_OK : DOP_FAIL(diag, DOP_E_NOMEM, "out of memory");
}
