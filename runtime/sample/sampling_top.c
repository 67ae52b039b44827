/* Softmax probabilities of logits, for display. */
#include "runtime/sample/sampling.h"

#include <math.h>

/* Returns the logarithm of the softmax denominator of n logits. */
static double
find_logit_log_sum(const float *logits, uint32_t n)
{
    double most = -HUGE_VAL, sum = 0;
    for (uint32_t i = 0; i < n; i++)
        most = (double)logits[i] > most ? (double)logits[i] : most;
    for (uint32_t i = 0; i < n; i++)
        sum += exp((double)logits[i] - most);
    return most + log(sum);
}

void
dop_logits_logprobs(const float *logits, uint32_t vocab, uint32_t id, uint32_t n_top, dop_logprob *out_id,
                    dop_logprob *out_top)
{
    const double sum = find_logit_log_sum(logits, vocab);
    uint32_t found = 0;
    *out_id = (dop_logprob){id, (float)((double)logits[id] - sum)};
    for (uint32_t i = 0; i < vocab && n_top > 0; i++) {
        if (found == n_top && logits[i] <= logits[out_top[found - 1].id])
            continue;
        uint32_t at = found < n_top ? found++ : found - 1;
        for (; at > 0 && logits[out_top[at - 1].id] < logits[i]; at--)
            out_top[at].id = out_top[at - 1].id;
        out_top[at].id = i;
    }
    for (uint32_t i = 0; i < found; i++)
        out_top[i].logprob = (float)((double)logits[out_top[i].id] - sum);
}
