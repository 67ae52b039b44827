#include "runtime/sampling.h"

#include "runtime/plan.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

dop_sampling
dop_plan_sampling(const dop_plan *plan)
{
    const dop_plan_model *m = plan->model;
    return (dop_sampling){
        .temperature = m->temperature,
        .top_k = m->top_k,
        .top_p = m->top_p,
        .min_p = m->min_p,
        .repeat_penalty = 1,
        .repeat_last_n = 64,
    };
}

bool
dop_sampling_is_greedy(const dop_sampling *params)
{
    bool penalty = params->repeat_penalty != 1.0f && params->repeat_last_n > 0;
    return params->temperature <= 0.0f && !penalty;
}

static uint64_t
rotl(uint64_t x, int k)
{
    return (x << k) | (x >> (64 - k));
}

void
dop_rng_seed(dop_rng *rng, uint64_t seed)
{
    for (int i = 0; i < 4; i++) {
        seed += 0x9e3779b97f4a7c15u;
        uint64_t z = seed;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
        rng->s[i] = z ^ (z >> 31);
    }
}

uint64_t
dop_rng_next(dop_rng *rng)
{
    uint64_t *s = rng->s, result = rotl(s[1] * 5, 7) * 9, t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotl(s[3], 45);
    return result;
}

double
dop_rng_unit(dop_rng *rng)
{
    return (double)(dop_rng_next(rng) >> 11) * 0x1p-53;
}

dop_status
dop_sampler_init(dop_sampler *sampler, uint32_t vocab, dop_diag *diag)
{
    memset(sampler, 0, sizeof *sampler);
    sampler->vocab = vocab;
    sampler->candidates = calloc(vocab, sizeof *sampler->candidates);
    sampler->logits = calloc(vocab, sizeof *sampler->logits);
    sampler->stamp = calloc(vocab, sizeof *sampler->stamp);
    if (!sampler->candidates || !sampler->logits || !sampler->stamp) {
        dop_sampler_finish(sampler);
        return DOP_FAIL(diag, DOP_E_NOMEM, "out of memory");
    }
    dop_sampler_set(sampler, &(dop_sampling){.repeat_penalty = 1.0f});
    return DOP_OK;
}

void
dop_sampler_finish(dop_sampler *sampler)
{
    free(sampler->candidates);
    free(sampler->logits);
    free(sampler->stamp);
    memset(sampler, 0, sizeof *sampler);
}

void
dop_sampler_set(dop_sampler *sampler, const dop_sampling *params)
{
    sampler->params = *params;
    dop_rng_seed(&sampler->rng, params->seed);
}

uint32_t
dop_argmax(const float *logits, uint32_t n)
{
    uint32_t best = 0;
    float best_value = -INFINITY;
    for (uint32_t i = 0; i < n; i++)
        if (logits[i] > best_value) {
            best = i;
            best_value = logits[i];
        }
    return best;
}

/* Larger logits first, lower ids first among equals: one order, whatever the sort does. */
static int
compare(const void *a, const void *b)
{
    const dop_candidate *x = a, *y = b;
    if (x->logit != y->logit)
        return x->logit > y->logit ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

static void
penalize(dop_sampler *s, const uint32_t *history, size_t n_history)
{
    float by = s->params.repeat_penalty;
    if (by == 1.0f)
        return;
    s->n_picks++;
    size_t n = s->params.repeat_last_n < n_history ? s->params.repeat_last_n : n_history;
    for (size_t i = n_history - n; i < n_history; i++) {
        uint32_t id = history[i];
        if (id >= s->vocab || s->stamp[id] == s->n_picks)
            continue;
        s->stamp[id] = s->n_picks;
        s->logits[id] = s->logits[id] > 0 ? s->logits[id] / by : s->logits[id] * by;
    }
}

/* Moves the k largest (in the order of compare) to a heap whose root is the smallest of them. */
static void
sift_down(dop_candidate *heap, uint32_t n, uint32_t i)
{
    for (;;) {
        uint32_t worst = i, l = 2 * i + 1, r = l + 1;
        if (l < n && compare(&heap[l], &heap[worst]) > 0)
            worst = l;
        if (r < n && compare(&heap[r], &heap[worst]) > 0)
            worst = r;
        if (worst == i)
            return;
        dop_candidate t = heap[i];
        heap[i] = heap[worst];
        heap[worst] = t;
        i = worst;
    }
}

static uint32_t
select_top_k(dop_sampler *s, uint32_t k)
{
    dop_candidate *heap = s->candidates;
    for (uint32_t i = 0; i < k; i++)
        heap[i] = (dop_candidate){s->logits[i], i};
    for (uint32_t i = k / 2; i-- > 0;)
        sift_down(heap, k, i);
    for (uint32_t i = k; i < s->vocab; i++) {
        dop_candidate c = {s->logits[i], i};
        if (compare(&c, &heap[0]) < 0) {
            heap[0] = c;
            sift_down(heap, k, 0);
        }
    }
    qsort(heap, k, sizeof *heap, compare);
    return k;
}

/* Candidates within `depth` of the largest logit, sorted.  Most of a vocabulary never matters for top-p, and sorting it
 * would cost more than the rest of the step. */
static uint32_t
select_near(dop_sampler *s, float largest, float depth, bool sort)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->vocab; i++)
        if (s->logits[i] >= largest - depth)
            s->candidates[n++] = (dop_candidate){s->logits[i], i};
    if (sort)
        qsort(s->candidates, n, sizeof *s->candidates, compare);
    return n;
}

/* How many of the n sorted candidates make up probability p of `total` (both relative to the largest); 0 when even all
 * of them do not. */
static uint32_t
prefix_of(const dop_candidate *c, uint32_t n, double p, double total)
{
    double sum = 0, largest = (double)c[0].logit;
    for (uint32_t i = 0; i < n; i++) {
        sum += exp((double)c[i].logit - largest);
        if (sum >= p * total)
            return i + 1;
    }
    return 0;
}

static uint32_t
select_top_p(dop_sampler *s, float largest, double p)
{
    static const float depths[] = {8.0f, 16.0f, 32.0f};
    double total = 0;
    for (uint32_t i = 0; i < s->vocab; i++)
        total += exp((double)s->logits[i] - (double)largest);
    for (size_t i = 0; i < sizeof depths / sizeof depths[0]; i++) {
        uint32_t n = select_near(s, largest, depths[i], true);
        n = prefix_of(s->candidates, n, p, total);
        if (n > 0)
            return n;
    }
    uint32_t n = select_near(s, largest, INFINITY, true), kept = prefix_of(s->candidates, n, p, total);
    return kept ? kept : n;
}

/* Fills candidates[0 .. n) with what may be drawn and returns n >= 1. */
static uint32_t
select_candidates(dop_sampler *s, float largest)
{
    const dop_sampling *p = &s->params;
    bool use_p = p->top_p > 0.0f && p->top_p < 1.0f;
    uint32_t n;
    if (p->top_k > 0 && p->top_k < s->vocab) {
        n = select_top_k(s, p->top_k);
        if (use_p) {
            double total = 0;
            for (uint32_t i = 0; i < n; i++)
                total += exp((double)s->candidates[i].logit - (double)largest);
            uint32_t kept = prefix_of(s->candidates, n, (double)p->top_p, total);
            n = kept ? kept : n;
        }
    } else if (use_p) {
        n = select_top_p(s, largest, (double)p->top_p);
    } else {
        n = select_near(s, largest, INFINITY, false);
    }
    if (p->min_p > 0.0f) {
        double floor_logit = (double)largest + log((double)p->min_p);
        uint32_t kept = 0;
        for (uint32_t i = 0; i < n; i++)
            if ((double)s->candidates[i].logit >= floor_logit || s->candidates[i].logit == largest)
                s->candidates[kept++] = s->candidates[i];
        n = kept;
    }
    return n;
}

bool
dop_logits_two_best(const float *logits, uint32_t n, uint32_t *out_best, float *out_margin)
{
    float best = -INFINITY, second = -INFINITY;
    *out_best = dop_logits_largest(logits, n);
    if (*out_best == UINT32_MAX)
        return false;
    for (uint32_t i = 0; i < n; i++) {
        if (logits[i] <= second)
            continue;
        second = logits[i] > best ? best : logits[i];
        best = logits[i] > best ? logits[i] : best;
    }
    *out_margin = best - second;
    return true;
}

uint32_t
dop_logits_largest(const float *logits, uint32_t n)
{
    const uint32_t exponent = 0x7f800000u;
    uint32_t bad = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &logits[i], sizeof bits);
        bad |= (bits & exponent) == exponent;
    }
    return bad ? UINT32_MAX : dop_argmax(logits, n);
}

/* The logits after the penalty; *out_best: the id of the largest. */
static float
take_logits(dop_sampler *s, const float *logits, const uint32_t *history, size_t n_history, uint32_t *out_best)
{
    for (uint32_t i = 0; i < s->vocab; i++)
        s->logits[i] = isnan(logits[i]) ? -INFINITY : logits[i];
    penalize(s, history, n_history);
    *out_best = dop_argmax(s->logits, s->vocab);
    return s->logits[*out_best];
}

uint32_t
dop_sampler_pick(dop_sampler *sampler, const float *logits, const uint32_t *history, size_t n_history)
{
    dop_sampler *s = sampler;
    uint32_t best;
    float largest = take_logits(s, logits, history, n_history, &best);
    if (s->params.temperature <= 1e-6f || !isfinite(largest))
        return best;
    uint32_t n = select_candidates(s, largest);
    double inverse = 1.0 / (double)s->params.temperature, sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += exp(((double)s->candidates[i].logit - (double)largest) * inverse);
    double u = dop_rng_unit(&s->rng) * sum;
    for (uint32_t i = 0; i < n; i++) {
        u -= exp(((double)s->candidates[i].logit - (double)largest) * inverse);
        if (u < 0)
            return s->candidates[i].id;
    }
    return best; /* only rounding leads here */
}

uint32_t
dop_sampler_weigh(dop_sampler *sampler, const float *logits, const uint32_t *history, size_t n_history,
                  dop_weighed *out_list)
{
    dop_sampler *s = sampler;
    uint32_t best, n = 1;
    float largest = take_logits(s, logits, history, n_history, &best);
    double sum = 0;
    out_list[0] = (dop_weighed){best, 1};
    if (s->params.temperature <= 1e-6f || !isfinite(largest))
        return 1;
    n = select_candidates(s, largest);
    for (uint32_t i = 0; i < n; i++) {
        double x = ((double)s->candidates[i].logit - (double)largest) / (double)s->params.temperature;
        out_list[i] = (dop_weighed){s->candidates[i].id, (float)exp(x)};
        sum += (double)out_list[i].share;
    }
    for (uint32_t i = 0; i < n; i++)
        out_list[i].share = (float)((double)out_list[i].share / sum);
    return n;
}

uint32_t
dop_weighed_draw(const dop_weighed *list, uint32_t n, double total, dop_rng *rng)
{
    double u = dop_rng_unit(rng) * total;
    uint32_t last = list[0].id;
    for (uint32_t i = 0; i < n; i++) {
        if (list[i].share <= 0)
            continue;
        last = list[i].id;
        u -= (double)list[i].share;
        if (u < 0)
            return last;
    }
    return last; /* only rounding leads here */
}
