#include "runtime/sample/sampling.h"

#include "plan/plan.h"

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

enum { BLOCK = 64, LANES = 16 };

static bool
has_penalty(const dop_sampling *p)
{
    return p->presence_penalty != 0 || p->frequency_penalty != 0;
}

bool
dop_sampling_changes(const dop_sampling *params)
{
    return (params->repeat_penalty != 1.0f && params->repeat_last_n > 0) || has_penalty(params) || params->n_biases > 0;
}

bool
dop_sampling_is_greedy(const dop_sampling *params)
{
    return (params->temperature <= 0.0f || params->top_p <= 0.0f) && !params->logprobs && !dop_sampling_changes(params);
}

bool
dop_sampling_can_pick(const dop_sampling *params)
{
    const dop_sampling *s = params;
    for (size_t i = 0; i < s->n_biases; i++)
        if (isnan(s->biases[i].by))
            return false;
    return isfinite(s->temperature) && isfinite(s->top_p) && isfinite(s->min_p) && isfinite(s->presence_penalty) &&
           isfinite(s->frequency_penalty) &&
           (s->repeat_last_n == 0 || (isfinite(s->repeat_penalty) && s->repeat_penalty > 0));
}

float
dop_sampling_floor(const dop_sampling *params)
{
    return params->min_p <= 0.0f ? -1e30f : params->min_p < 1.0f ? logf(params->min_p) : 0.0f;
}

dop_status
dop_sampler_init(dop_sampler *sampler, uint32_t vocab, dop_diag *diag)
{
    memset(sampler, 0, sizeof *sampler);
    sampler->vocab = vocab;
    sampler->candidates = calloc(vocab, sizeof *sampler->candidates);
    sampler->logits = calloc(vocab, sizeof *sampler->logits);
    sampler->stamp = calloc(vocab, sizeof *sampler->stamp);
    sampler->blocks = calloc(vocab / BLOCK + 1, sizeof *sampler->blocks);
    sampler->heap = calloc(vocab, sizeof *sampler->heap);
    if (!sampler->candidates || !sampler->logits || !sampler->stamp || !sampler->blocks || !sampler->heap) {
        dop_sampler_finish(sampler);
        return DOP_NO_MEMORY(diag);
    }
    sampler->params = (dop_sampling){.top_p = 1.0f, .repeat_penalty = 1.0f};
    return DOP_OK;
}

void
dop_sampler_finish(dop_sampler *sampler)
{
    free(sampler->candidates);
    free(sampler->logits);
    free(sampler->stamp);
    free(sampler->blocks);
    free(sampler->heap);
    memset(sampler, 0, sizeof *sampler);
}

/* Returns the largest of up to BLOCK logits. *io_bad becomes NaN if one is not finite. Written in lanes so that
 * compilers vectorize it. */
static float
block_largest(const float *logits, uint32_t n, float *io_bad)
{
    float m[LANES], bad[LANES] = {0}, best = -INFINITY;
    for (uint32_t j = 0; j < LANES; j++)
        m[j] = -INFINITY;
    for (uint32_t i = 0; i + LANES <= n; i += LANES)
        for (uint32_t j = 0; j < LANES; j++) {
            float x = logits[i + j];
            m[j] = x > m[j] ? x : m[j];
            bad[j] += x - x;
        }
    for (uint32_t j = 0; j < LANES; j++) {
        best = m[j] > best ? m[j] : best;
        *io_bad += bad[j];
    }
    for (uint32_t i = n - n % LANES; i < n; i++) {
        best = logits[i] > best ? logits[i] : best;
        *io_bad += logits[i] - logits[i];
    }
    return best;
}

/* Returns the sum of exp(logits - largest), each with a relative error of 1e-6: 2^t p(f), where p is the Taylor
 * polynomial of 2^f on [0, 1). */
static double
sum_of_exps(const float *logits, uint32_t n, float largest)
{
    double sum = 0;
    for (uint32_t i = 0; i < n; i += LANES) {
        float part[LANES];
        for (uint32_t j = 0; j < LANES; j++)
            part[j] = i + j < n ? logits[i + j] : -INFINITY;
        for (uint32_t j = 0; j < LANES; j++) {
            float y = (part[j] - largest) * 1.44269504f, t, f;
            y = y > -126.0f ? y : -126.0f;
            t = (float)(int32_t)y;
            t = t > y ? t - 1 : t;
            f = y - t;
            int32_t bits = ((int32_t)t + 127) * (1 << 23);
            float p =
                1.0f + f * (0.69314718f +
                            f * (0.24022651f +
                                 f * (0.05550411f +
                                      f * (0.00961813f + f * (0.00133336f + f * (0.00015403f + f * 0.00001525f))))));
            memcpy(&t, &bits, sizeof t);
            part[j] = p * t;
        }
        for (uint32_t j = 0; j < LANES; j++)
            sum += (double)part[j];
    }
    return sum;
}

typedef struct two_best {
    uint32_t id;        /* lowest id of the largest logit; 0: none */
    float best, second; /* second: equal to best if it occurs twice */
    bool bad;           /* some logit is not finite */
} two_best;

static float
largest_but(const float *logits, uint32_t n, uint32_t but)
{
    float best = -INFINITY;
    for (uint32_t i = 0; i < n; i++)
        best = i != but && logits[i] > best ? logits[i] : best;
    return best;
}

/* Finds the two largest logits. out_blocks: the largest logit of each block; NULL: not requested. */
static two_best
find_best(const float *logits, uint32_t n, float *out_blocks)
{
    two_best r = {.best = -INFINITY, .second = -INFINITY};
    uint32_t at = 0;
    float bad = 0;
    for (uint32_t i = 0; i < n; i += BLOCK) {
        float m = block_largest(logits + i, n - i < BLOCK ? n - i : BLOCK, &bad);
        if (out_blocks)
            out_blocks[i / BLOCK] = m;
        if (m > r.best) {
            r.second = r.best;
            r.best = m;
            at = i;
        } else if (m > r.second) {
            r.second = m;
        }
    }
    uint32_t size = n - at < BLOCK ? n - at : BLOCK, k = 0;
    while (k < size && logits[at + k] != r.best)
        k++;
    r.id = k < size ? at + k : 0;
    float other = largest_but(logits + at, size, k);
    r.second = other > r.second ? other : r.second;
    r.bad = isnan(bad);
    return r;
}

/* Sorts by descending logit, then ascending id, so that the order does not depend on the sort. */
static int
compare_candidates(const void *a, const void *b)
{
    const dop_candidate *x = a, *y = b;
    if (x->logit != y->logit)
        return x->logit > y->logit ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

static void
add_biases(dop_sampler *s)
{
    for (size_t i = 0; i < s->params.n_biases; i++)
        if (s->params.biases[i].id < s->vocab)
            s->logits[s->params.biases[i].id] += s->params.biases[i].by;
}

/* Applies presence and frequency penalty. */
static void
subtract_penalties(dop_sampler *s, const uint32_t *history, size_t n_history)
{
    const dop_sampling *p = &s->params;
    if (!has_penalty(p))
        return;
    s->n_stamps++;
    for (size_t i = p->penalty_from; i < n_history; i++) {
        const uint32_t id = history[i];
        if (id >= s->vocab) /* a row of features */
            continue;
        s->logits[id] -= p->frequency_penalty + (s->stamp[id] == s->n_stamps ? 0 : p->presence_penalty);
        s->stamp[id] = s->n_stamps;
    }
}

static void
penalize_repeats(dop_sampler *s, const uint32_t *history, size_t n_history)
{
    float by = s->params.repeat_penalty;
    if (by == 1.0f)
        return;
    s->n_stamps++;
    size_t n = s->params.repeat_last_n < n_history ? s->params.repeat_last_n : n_history;
    for (size_t i = n_history - n; i < n_history; i++) {
        uint32_t id = history[i];
        if (id >= s->vocab || s->stamp[id] == s->n_stamps)
            continue;
        s->stamp[id] = s->n_stamps;
        s->logits[id] = s->logits[id] > 0 ? s->logits[id] / by : s->logits[id] * by;
    }
}

/* Restores the min-heap property below i. */
static void
sift_down(float *heap, uint32_t n, uint32_t i)
{
    for (;;) {
        uint32_t least = i, l = 2 * i + 1, r = l + 1;
        if (l < n && heap[l] < heap[least])
            least = l;
        if (r < n && heap[r] < heap[least])
            least = r;
        if (least == i)
            return;
        float t = heap[i];
        heap[i] = heap[least];
        heap[least] = t;
        i = least;
    }
}

/* Returns the k-th largest of n values; k <= n. heap: scratch for k values. */
static float
kth_largest(const float *values, uint32_t n, uint32_t k, float *heap)
{
    memcpy(heap, values, k * sizeof *heap);
    for (uint32_t i = k / 2; i-- > 0;)
        sift_down(heap, k, i);
    for (uint32_t i = k; i < n; i++)
        if (values[i] > heap[0]) {
            heap[0] = values[i];
            sift_down(heap, k, 0);
        }
    return heap[0];
}

/* Gathers the candidates with logits of at least `least`, in order of their ids. Skips blocks whose largest logit is
 * smaller. */
static uint32_t
gather_candidates(dop_sampler *s, float least)
{
    uint32_t n = 0;
    for (uint32_t b = 0; b * BLOCK < s->vocab; b++) {
        uint32_t end = (b + 1) * BLOCK < s->vocab ? (b + 1) * BLOCK : s->vocab;
        if (s->blocks[b] < least)
            continue;
        for (uint32_t i = b * BLOCK; i < end; i++)
            if (s->from[i] >= least)
                s->candidates[n++] = (dop_candidate){s->from[i], i};
    }
    return n;
}

/* Selects the k largest candidates, sorted by compare_candidates. */
static uint32_t
select_top_k(dop_sampler *s, uint32_t k)
{
    uint32_t n_blocks = (s->vocab + BLOCK - 1) / BLOCK;
    /* Lower bound: each of the k best blocks has a logit of at least this. */
    float least =
        k <= n_blocks ? kth_largest(s->blocks, n_blocks, k, s->heap) : kth_largest(s->from, s->vocab, k, s->heap);
    uint32_t n = gather_candidates(s, least);
    if (n > 4 * k) {
        for (uint32_t i = 0; i < n; i++)
            s->logits[i] = s->candidates[i].logit;
        least = kth_largest(s->logits, n, k, s->heap);
        uint32_t kept = 0;
        for (uint32_t i = 0; i < n; i++)
            if (s->candidates[i].logit >= least)
                s->candidates[kept++] = s->candidates[i];
        n = kept;
    }
    qsort(s->candidates, n, sizeof *s->candidates, compare_candidates);
    return k < n ? k : n;
}

/* Selects the candidates within `depth` of the largest logit, optionally sorted. */
static uint32_t
select_near(dop_sampler *s, float largest, float depth, bool sort)
{
    uint32_t n = gather_candidates(s, largest - depth);
    if (sort)
        qsort(s->candidates, n, sizeof *s->candidates, compare_candidates);
    return n;
}

/* Returns how many of the n sorted candidates make up probability p of `total` (both relative to the largest); 0 if
 * even all do not. */
static uint32_t
count_top_p(const dop_candidate *c, uint32_t n, double p, double total)
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
    double total = sum_of_exps(s->from, s->vocab, largest);
    for (size_t i = 0; i < sizeof depths / sizeof depths[0]; i++) {
        uint32_t n = select_near(s, largest, depths[i], true);
        n = count_top_p(s->candidates, n, p, total);
        if (n > 0)
            return n;
    }
    uint32_t n = select_near(s, largest, INFINITY, true), kept = count_top_p(s->candidates, n, p, total);
    return kept ? kept : n;
}

/* Fills candidates[0 .. n) with the tokens that may be drawn. Returns n >= 1. */
static uint32_t
select_candidates(dop_sampler *s, float largest)
{
    const dop_sampling *p = &s->params;
    bool use_p = p->top_p > 0.0f && p->top_p < 1.0f;
    const uint32_t k = p->top_p <= 0.0f ? 1 : p->top_k; /* top_p <= 0 keeps only the likeliest token */
    uint32_t n;
    if (k > 0 && k < s->vocab) {
        n = select_top_k(s, k);
        if (use_p) {
            double total = 0;
            for (uint32_t i = 0; i < n; i++)
                total += exp((double)s->candidates[i].logit - (double)largest);
            uint32_t kept = count_top_p(s->candidates, n, (double)p->top_p, total);
            n = kept ? kept : n;
        }
    } else if (use_p) {
        n = select_top_p(s, largest, (double)p->top_p);
    } else {
        n = select_near(s, largest, p->min_p > 0.0f ? 1e-3f - dop_sampling_floor(p) : INFINITY, false);
    }
    if (p->min_p > 0.0f) {
        double floor_logit = (double)largest + (double)dop_sampling_floor(p);
        uint32_t kept = 0;
        for (uint32_t i = 0; i < n; i++)
            if ((double)s->candidates[i].logit >= floor_logit || s->candidates[i].logit == largest)
                s->candidates[kept++] = s->candidates[i];
        n = kept;
    }
    return n;
}

uint32_t
dop_logits_largest(const float *logits, uint32_t n)
{
    two_best r = find_best(logits, n, NULL);
    return r.bad ? UINT32_MAX : r.id;
}

/* Sets s->from to the logits with biases and penalties, or to the caller's logits if there are none. */
static two_best
take_logits(dop_sampler *s, const float *logits, const uint32_t *history, size_t n_history)
{
    two_best r = find_best(logits, s->vocab, s->blocks);
    s->from = logits;
    s->bad = r.bad;
    if (r.bad || dop_sampling_changes(&s->params)) {
        for (uint32_t i = 0; i < s->vocab; i++)
            s->logits[i] = isnan(logits[i]) ? -INFINITY : logits[i];
        add_biases(s);
        subtract_penalties(s, history, n_history);
        penalize_repeats(s, history, n_history);
        r = find_best(s->logits, s->vocab, s->blocks);
        s->from = s->logits;
    }
    return r;
}

/* --- draws ----------------------------------------------------------------------------------------------------------------- */

/* Chris Wellons' lowbias32 (https://nullprogram.com/blog/2018/07/31/, public domain). */
static uint32_t
mix_hash(uint32_t x)
{
    x = (x ^ x >> 16) * 0x7feb352du;
    x = (x ^ x >> 15) * 0x846ca68bu;
    return x ^ x >> 16;
}

static uint32_t
hash_of_position(uint64_t seed, uint32_t position)
{
    return mix_hash((uint32_t)seed + mix_hash((uint32_t)(seed >> 32) + mix_hash(position)));
}

enum { NOISE_BITS = 23 };

/* Returns the index of an id's uniform random number, the middle of one of 2^NOISE_BITS equal intervals of (0, 1). */
static uint32_t
interval_of(uint32_t hashed, uint32_t id)
{
    return mix_hash(mix_hash(id ^ hashed) + hashed) >> (32 - NOISE_BITS);
}

static double
noise_of(uint32_t interval)
{
    return -log(-log(((double)interval + 0.5) / (1 << NOISE_BITS)));
}

/* True if x plus the noise of an interval can exceed `least`. Noise of a uniform number u exceeds g only if 1 - u <
 * exp(-g), and exp(-g) is bounded by the next power of two. Saves two logarithms for most of the vocabulary. */
static bool
may_exceed(double x, uint32_t interval, double least)
{
    const double g = least - x;
    if (!(x > -INFINITY) || g > NOISE_BITS)
        return false;
    const int power = g > 0 ? (int)(g * 1.4426950408889634) : 0; /* exp(-g) <= 2^-power */
    return power <= NOISE_BITS && (1u << NOISE_BITS) - interval <= (1u << (NOISE_BITS - power));
}

/* Draws a token (Gumbel-max): the candidate with the largest logit / temperature plus noise, the lowest id if several
 * are equal. */
static uint32_t
draw_candidate(const dop_sampler *s, uint32_t n, double largest, uint32_t position, double *out_margin)
{
    const uint32_t hashed = hash_of_position(s->params.seed, position);
    const double temperature = (double)s->params.temperature;
    double best = -INFINITY, second = -INFINITY;
    uint32_t id = 0;
    for (uint32_t i = 0; i < n; i++) {
        const dop_candidate *c = &s->candidates[i];
        const double x = ((double)c->logit - largest) / temperature;
        const uint32_t interval = interval_of(hashed, c->id);
        if (!may_exceed(x, interval, second))
            continue;
        const double score = x + noise_of(interval);
        if (score > best || (score == best && c->id < id)) {
            second = best;
            best = score;
            id = c->id;
        } else if (score > second) {
            second = score;
        }
    }
    *out_margin = (best - second) * temperature;
    return id;
}

uint32_t
dop_sampler_pick(dop_sampler *sampler, const float *logits, const uint32_t *history, size_t n_history,
                 float *out_margin)
{
    dop_sampler *s = sampler;
    double margin;
    two_best r = take_logits(s, logits, history, n_history);
    if (s->params.temperature <= 1e-6f || !isfinite(r.best)) {
        margin = (double)r.best - (double)r.second;
    } else {
        uint32_t n = select_candidates(s, r.best);
        r.id = draw_candidate(s, n, (double)r.best, (uint32_t)n_history - 1, &margin);
    }
    if (out_margin)
        *out_margin = (float)margin;
    return r.id;
}
