/* Picks the tokens of a transcription: suppressed tokens, timestamp rules, then the likeliest token or a random sample.
 * Reference: openai/whisper, decoding.py. */
#include "runtime/library/speech.h"

#include <math.h>
#include <string.h>

enum { FIRST_TIMES = 50 }; /* the first segment of a chunk begins within its first second */

static void
rule_out(float *scores, uint32_t from, uint32_t end)
{
    for (uint32_t i = from; i < end; i++)
        scores[i] = -INFINITY;
}

/* Applies the timestamp rules. Timestamps come in pairs, the end of a segment and the start of the next, except before
 * the end of the text. They never decrease. */
static void
rule_times(const dop_speech_picker *p, float *scores, const uint32_t *picked, size_t n)
{
    const dop_speech_tokens *t = &p->speech->tokens;
    const uint32_t first = t->first_time, vocab = p->speech->vocab;
    const bool last = n > 0 && picked[n - 1] >= first, before = n < 2 || picked[n - 2] >= first;
    uint32_t time = UINT32_MAX;
    if (last && before)
        rule_out(scores, first, vocab);
    else if (last)
        rule_out(scores, 0, t->eot < first ? t->eot : first);
    for (size_t i = n; i-- > 0 && time == UINT32_MAX;)
        time = picked[i] >= first ? picked[i] : UINT32_MAX;
    if (time != UINT32_MAX) /* a segment must not end at its start */
        rule_out(scores, first, last && !before ? time : time + 1 < vocab ? time + 1 : vocab);
    if (n > 0)
        return;
    rule_out(scores, 0, first);
    if (first + FIRST_TIMES + 1 < vocab)
        rule_out(scores, first + FIRST_TIMES + 1, vocab);
}

/* Returns the log-sum-exp of scores [from, end), without terms below e^-30 of the largest; 10^5 of those are
 * negligible. *out_most: the largest score. */
static double
find_score_log_sum(const float *scores, uint32_t from, uint32_t end, double *out_most)
{
    float most = -INFINITY;
    double sum = 0;
    for (uint32_t i = from; i < end; i++)
        most = scores[i] > most ? scores[i] : most;
    *out_most = (double)most;
    if (isinf(most))
        return (double)most;
    for (uint32_t i = from; i < end; i++)
        if (scores[i] - most > -30)
            sum += (double)expf(scores[i] - most);
    return (double)most + log(sum);
}

/* Returns a number in [0, 1) from a SplitMix64 generator. */
static double
next_random(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (double)((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

static uint32_t
choose_speech_token(dop_speech_picker *p, uint32_t vocab)
{
    const float *scores = p->scores;
    double most;
    uint32_t best = 0;
    for (uint32_t i = 1; i < vocab; i++)
        best = scores[i] > scores[best] ? i : best;
    if (p->temperature <= 0)
        return best;
    most = (double)scores[best];
    double sum = 0;
    for (uint32_t i = 0; i < vocab; i++)
        sum += exp(((double)scores[i] - most) / p->temperature);
    double left = next_random(&p->random) * sum;
    for (uint32_t i = 0; i < vocab; i++) {
        left -= exp(((double)scores[i] - most) / p->temperature);
        if (left < 0)
            return i;
    }
    return best;
}

double
dop_speech_probability(const dop_speech *speech, const float *logits, uint32_t id)
{
    double most;
    return id < speech->vocab ? exp((double)logits[id] - find_score_log_sum(logits, 0, speech->vocab, &most)) : 0;
}

uint32_t
dop_speech_likeliest_language(const dop_speech *speech, const float *logits)
{
    const dop_speech *s = speech;
    uint32_t best = UINT32_MAX;
    for (uint32_t i = 0; i < DOP_N_LANGUAGES; i++) {
        const uint32_t id = s->language_ids[i];
        if (id != UINT32_MAX && (best == UINT32_MAX || logits[id] > logits[best]))
            best = id;
    }
    return best;
}

/* Sets the scores of forbidden next tokens to -infinity. Returns the log-sum-exp of the rest. */
static double
rule_out_tokens(dop_speech_picker *p, const uint32_t *picked, size_t n)
{
    const dop_speech *s = p->speech;
    const uint32_t first = s->tokens.first_time, vocab = s->vocab;
    double most, text;
    rule_out(p->scores, s->tokens.end_time, vocab);
    for (size_t i = 0; i < s->n_suppressed; i++)
        p->scores[s->suppressed[i]] = -INFINITY;
    for (size_t i = 0; i < s->n_at_first && n == 0; i++)
        p->scores[s->at_first[i]] = -INFINITY;
    if (p->no_timestamps) {
        rule_out(p->scores, first, vocab);
        return find_score_log_sum(p->scores, 0, first, &most);
    }
    rule_times(p, p->scores, picked, n);
    /* If timestamps together are likelier than any single text token, force a timestamp. */
    const double texts = find_score_log_sum(p->scores, 0, first, &text),
                 times = find_score_log_sum(p->scores, first, vocab, &most);
    if (times > text) {
        rule_out(p->scores, 0, first);
        return times;
    }
    return isinf(texts) || isinf(times) ? fmax(texts, times) : fmax(texts, times) + log1p(exp(-fabs(texts - times)));
}

dop_status
dop_speech_pick(dop_speech_picker *picker, const float *logits, const uint32_t *tokens, size_t n_tokens, dop_diag *diag,
                uint32_t *out_id)
{
    dop_speech_picker *p = picker;
    const uint32_t vocab = p->speech->vocab;
    float sum = 0;
    for (uint32_t i = 0; i < vocab; i++)
        sum += logits[i] * 0; /* not 0 if a logit is not finite */
    if (!(sum >= 0))
        return DOP_FAIL(diag, DOP_E_INPUT, "the logits are not finite");
    memcpy(p->scores, logits, vocab * sizeof *logits);
    const double left = rule_out_tokens(p, tokens, n_tokens);
    if (isinf(left)) { /* every token is forbidden: end the text */
        *out_id = p->speech->tokens.eot;
        return DOP_OK;
    }
    *out_id = choose_speech_token(p, vocab);
    p->sum_logprobs += (double)p->scores[*out_id] - left;
    return DOP_OK;
}
