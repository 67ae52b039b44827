/* Probabilities of a softmax over logits, for whoever shows them. */
#include "runtime/sample/sampling.h"

#include <math.h>

double
dop_logits_log_sum(const float *logits, uint32_t n)
{
    double most = -HUGE_VAL, sum = 0;
    for (uint32_t i = 0; i < n; i++)
        most = (double)logits[i] > most ? (double)logits[i] : most;
    for (uint32_t i = 0; i < n; i++)
        sum += exp((double)logits[i] - most);
    return most + log(sum);
}

void
dop_logits_top(const float *logits, uint32_t n, uint32_t most, uint32_t *out_ids)
{
    uint32_t found = 0;
    for (uint32_t id = 0; id < n; id++) {
        if (found == most && (most == 0 || logits[id] <= logits[out_ids[found - 1]]))
            continue;
        uint32_t at = found < most ? found++ : found - 1;
        for (; at > 0 && logits[out_ids[at - 1]] < logits[id]; at--)
            out_ids[at] = out_ids[at - 1];
        out_ids[at] = id;
    }
}
