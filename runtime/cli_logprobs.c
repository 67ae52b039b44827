#include "runtime/cli_logprobs.h"

#include <math.h>
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
        dop_sampler_set(&l->sampler, sampling);
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

/* Of a softmax: the logarithm of its denominator. */
static double
log_of_sum(const float *logits, uint32_t n)
{
    double most = -HUGE_VAL, sum = 0;
    for (uint32_t i = 0; i < n; i++)
        most = (double)logits[i] > most ? (double)logits[i] : most;
    for (uint32_t i = 0; i < n; i++)
        sum += exp((double)logits[i] - most);
    return most + log(sum);
}

/* The l->n likeliest, sorted; of equals the lower id first. */
static void
find_best(dop_logprobs *l, const float *logits, uint32_t vocab)
{
    uint32_t n = 0;
    for (uint32_t id = 0; id < vocab; id++) {
        if (n == l->n && (n == 0 || logits[id] <= logits[l->best[n - 1]]))
            continue;
        uint32_t at = n < l->n ? n++ : n - 1;
        for (; at > 0 && logits[l->best[at - 1]] < logits[id]; at--)
            l->best[at] = l->best[at - 1];
        l->best[at] = id;
    }
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
    *out_id = dop_sampler_pick(&l->sampler, logits, tokens, n_tokens);
    double sum = log_of_sum(logits, vocab);
    find_best(l, logits, vocab);
    json_t *pick = entry(*out_id, logits, sum), *top = json_array();
    bool good = pick && top;
    for (uint32_t i = 0; i < l->n && good; i++)
        good = json_array_append_new(top, entry(l->best[i], logits, sum)) == 0;
    good = good && json_object_set(pick, "top", top) == 0 && json_array_append(l->list, pick) == 0;
    json_decref(top);
    json_decref(pick);
    return good ? DOP_OK : DOP_FAIL(diag, DOP_E_NOMEM, "out of memory");
}
