/* The order of the filters, their limits, and the distribution that comes out. */
#include "runtime/sample/sampling.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { VOCAB = 1000 };

/* Logits with a clear order: 500, 501, 499, ... are the largest. */
static void
fill_logits(float *logits)
{
    for (int i = 0; i < VOCAB; i++)
        logits[i] = -0.05f * fabsf((float)i - 500.1f);
}

static void
make(dop_sampler *s, dop_sampling p)
{
    cr_assert_eq(dop_sampler_init(s, VOCAB, NULL), DOP_OK);
    s->params = p;
}

/* Draws n times; counts[id]. */
static void
draw(dop_sampling p, const float *logits, size_t n, unsigned *counts)
{
    dop_sampler s;
    make(&s, p);
    memset(counts, 0, VOCAB * sizeof *counts);
    for (size_t i = 0; i < n; i++) {
        uint32_t id = dop_sampler_pick(&s, logits, NULL, i, NULL); /* without a penalty, a history is its length */
        cr_assert_lt(id, VOCAB);
        counts[id]++;
    }
    dop_sampler_finish(&s);
}

static unsigned
n_drawn(const unsigned *counts)
{
    unsigned n = 0;
    for (int i = 0; i < VOCAB; i++)
        n += counts[i] > 0;
    return n;
}

/* The first of the largest logits. */
static uint32_t
largest_of(const float *logits, uint32_t n)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < n; i++)
        best = logits[i] > logits[best] ? i : best;
    return best;
}

static double
noise_of(uint32_t interval)
{
    return -log(-log((interval + 0.5) / 8388608));
}

/* The hashes of seed, position and id, with the published code of lowbias32, as a device makes them (golden.sequences compares):
 * of two ids with the same logit the one with more noise is drawn, by the difference. */
Test(sampling, reference_numbers_of_the_noise)
{
    enum { ALL = 128256 };
    static const struct {
        uint64_t seed;
        uint32_t position, ids[2], intervals[2];
    } cases[] = {{0x0u, 0, {0, 1}, {0, 2914980}},
                 {0x1u, 0, {0, 2}, {38938, 7074008}},
                 {0x7u, 11, {128255, 1}, {6375256, 2984063}},
                 {0x9e3779b97f4a7c15u, 4095, {31, 499}, {4066013, 6941050}}};
    float *logits = malloc(ALL * sizeof *logits), margin;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const double apart = noise_of(cases[i].intervals[0]) - noise_of(cases[i].intervals[1]);
        dop_sampler s;
        cr_assert_eq(dop_sampler_init(&s, ALL, NULL), DOP_OK);
        s.params = (dop_sampling){.temperature = 1, .top_p = 1, .repeat_penalty = 1, .seed = cases[i].seed};
        for (uint32_t k = 0; k < ALL; k++)
            logits[k] = k == cases[i].ids[0] || k == cases[i].ids[1] ? 0 : -1e9f;
        cr_assert_eq(dop_sampler_pick(&s, logits, NULL, cases[i].position + 1, &margin), cases[i].ids[apart < 0]);
        cr_assert_float_eq((double)margin, fabs(apart), 1e-5, "case %zu: %g, not %g", i, (double)margin, fabs(apart));
        dop_sampler_finish(&s);
    }
    free(logits);
}

Test(sampling, greedy)
{
    float logits[VOCAB];
    dop_sampler s;
    fill_logits(logits);
    make(&s, (dop_sampling){.repeat_penalty = 1});
    cr_assert_eq(dop_sampler_pick(&s, logits, NULL, 0, NULL), 500);
    logits[7] = logits[500];
    cr_assert_eq(dop_sampler_pick(&s, logits, NULL, 0, NULL), 7, "the first of equals");
    logits[7] = NAN;
    cr_assert_eq(dop_sampler_pick(&s, logits, NULL, 0, NULL), 500);
    logits[9] = INFINITY;
    cr_assert_eq(dop_sampler_pick(&s, logits, NULL, 0, NULL), 9);
    for (int i = 0; i < VOCAB; i++)
        logits[i] = NAN;
    cr_assert_eq(dop_sampler_pick(&s, logits, NULL, 0, NULL), 0);
    s.params.temperature = 1;
    cr_assert_eq(dop_sampler_pick(&s, logits, NULL, 0, NULL), 0);
    dop_sampler_finish(&s);
    cr_assert(dop_sampling_is_greedy(&(dop_sampling){.repeat_penalty = 1}));
    cr_assert(dop_sampling_is_greedy(&(dop_sampling){.temperature = -1, .top_p = 1, .repeat_penalty = 2}));
    cr_assert(!dop_sampling_is_greedy(&(dop_sampling){.repeat_penalty = 2, .repeat_last_n = 3}));
    cr_assert(!dop_sampling_is_greedy(&(dop_sampling){.temperature = 0.1f, .top_p = 1, .repeat_penalty = 1}));
}

Test(sampling, frequencies_follow_the_softmax)
{
    float logits[VOCAB];
    unsigned counts[VOCAB];
    enum { N = 20000 };
    const double temperature = 0.8;
    fill_logits(logits);
    draw((dop_sampling){.temperature = (float)temperature, .top_p = 1, .repeat_penalty = 1, .seed = 3}, logits, N,
         counts);
    double total = 0;
    for (int i = 0; i < VOCAB; i++)
        total += exp((double)logits[i] / temperature);
    double chi2 = 0, cells = 0;
    for (int i = 0; i < VOCAB; i++) {
        double want = exp((double)logits[i] / temperature) / total * N;
        if (want < 20)
            continue;
        chi2 += ((double)counts[i] - want) * ((double)counts[i] - want) / want;
        cells++;
    }
    cr_assert_gt(cells, 50);
    cr_assert_lt(chi2, cells + 6 * sqrt(2 * cells), "chi square %g over %g cells", chi2, cells);
}

Test(sampling, top_k_keeps_exactly_k)
{
    float logits[VOCAB];
    unsigned counts[VOCAB];
    fill_logits(logits);
    for (uint32_t k = 1; k < 12; k++) {
        draw((dop_sampling){.temperature = 5, .top_p = 1, .top_k = k, .repeat_penalty = 1}, logits, 4000, counts);
        cr_assert_eq(n_drawn(counts), k);
        /* 500, 501, 499, 502, 498, ... */
        for (uint32_t i = 0; i < k; i++)
            cr_assert_gt(counts[i % 2 ? 500 + (i + 1) / 2 : 500 - i / 2], 0, "k %u, rank %u", k, i);
    }
    /* Equal logits: the lower ids stay. */
    for (int i = 0; i < VOCAB; i++)
        logits[i] = 1;
    draw((dop_sampling){.temperature = 1, .top_p = 1, .top_k = 3, .repeat_penalty = 1}, logits, 1000, counts);
    cr_assert_eq(n_drawn(counts), 3);
    cr_assert(counts[0] && counts[1] && counts[2]);
}

/* How many tokens the smallest set of probability p has, by definition. */
static unsigned
nucleus(const float *logits, double p, double temperature)
{
    double total = 0, sum = 0;
    for (int i = 0; i < VOCAB; i++)
        total += exp((double)logits[i] / temperature);
    for (unsigned k = 0; k < VOCAB; k++) {
        unsigned id = k % 2 ? 500 + (k + 1) / 2 : 500 - k / 2;
        sum += exp((double)logits[id] / temperature);
        if (sum >= p * total)
            return k + 1;
    }
    return VOCAB;
}

Test(sampling, top_p_keeps_the_smallest_set_before_the_temperature)
{
    float logits[VOCAB];
    unsigned counts[VOCAB];
    fill_logits(logits);
    const float ps[] = {0.01f, 0.1f, 0.5f, 0.9f};
    for (size_t i = 0; i < sizeof ps / sizeof ps[0]; i++) {
        draw((dop_sampling){.temperature = 50, .top_p = ps[i], .repeat_penalty = 1}, logits, 5000, counts);
        cr_assert_eq(n_drawn(counts), nucleus(logits, (double)ps[i], 1), "p %g: %u", (double)ps[i], n_drawn(counts));
    }
    /* With top-k in front, probabilities are those among the k. */
    draw((dop_sampling){.temperature = 50, .top_k = 4, .top_p = 0.5f, .repeat_penalty = 1}, logits, 5000, counts);
    cr_assert_eq(n_drawn(counts), 2);
    /* 1 means all, and 0 the likeliest one: whatever the temperature, with and without top-k. */
    draw((dop_sampling){.temperature = 1000, .top_p = 0, .repeat_penalty = 1}, logits, 500, counts);
    cr_assert_eq(counts[500], 500);
    draw((dop_sampling){.temperature = 1000, .top_p = 0, .top_k = 7, .repeat_penalty = 1}, logits, 500, counts);
    cr_assert_eq(counts[500], 500);
    dop_sampler s; /* with a penalty, which is no matter of the largest logit alone */
    make(&s, (dop_sampling){.temperature = 1000, .top_p = 0, .repeat_penalty = 1.01f, .repeat_last_n = 1});
    for (uint32_t i = 0; i < 100; i++)
        cr_assert_eq(dop_sampler_pick(&s, logits, &i, 1, NULL), 500);
    dop_sampler_finish(&s);
    draw((dop_sampling){.temperature = 1000, .top_p = 1, .repeat_penalty = 1}, logits, 20000, counts);
    cr_assert_eq(n_drawn(counts), VOCAB);
}

Test(sampling, min_p)
{
    float logits[VOCAB];
    unsigned counts[VOCAB];
    fill_logits(logits);
    draw((dop_sampling){.temperature = 100, .top_p = 1, .min_p = 0.5f, .repeat_penalty = 1}, logits, 4000, counts);
    for (int i = 0; i < VOCAB; i++)
        cr_assert_eq(counts[i] > 0, exp((double)(logits[i] - logits[500])) >= 0.5, "token %d", i);
    draw((dop_sampling){.temperature = 100, .top_p = 1, .min_p = 1, .repeat_penalty = 1}, logits, 100, counts);
    cr_assert_eq(counts[500], 100);
    draw((dop_sampling){.temperature = 100, .top_p = 1, .min_p = 5, .repeat_penalty = 1}, logits, 100, counts);
    cr_assert_eq(counts[500], 100);                                   /* the likeliest is always kept */
    cr_assert_eq(dop_sampling_floor(&(dop_sampling){.min_p = 5}), 0); /* for the device, too */
}

Test(sampling, numbers_that_nothing_can_be_picked_by)
{
    const dop_bias banned = {5, -INFINITY}, odd = {5, NAN};
    const dop_sampling good[] = {{0}, {.temperature = 1, .top_p = 1}, {.biases = &banned, .n_biases = 1}},
                       bad[] = {{.temperature = NAN},
                                {.top_p = INFINITY},
                                {.min_p = NAN},
                                {.presence_penalty = INFINITY},
                                {.frequency_penalty = NAN},
                                {.repeat_last_n = 1},
                                {.repeat_penalty = NAN, .repeat_last_n = 1},
                                {.biases = &odd, .n_biases = 1}};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        cr_assert(dop_sampling_can_pick(&good[i]), "%zu", i);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        cr_assert_not(dop_sampling_can_pick(&bad[i]), "%zu", i);
}

Test(sampling, repetition_penalty)
{
    float logits[VOCAB];
    for (int i = 0; i < VOCAB; i++)
        logits[i] = (float)-i;
    logits[1] = 4;
    logits[2] = 3;
    dop_sampler s;
    make(&s, (dop_sampling){.repeat_penalty = 2, .repeat_last_n = 2});
    const uint32_t history[] = {1, 1, 5};
    cr_assert_eq(dop_sampler_pick(&s, logits, history, 1, NULL), 2, "4 / 2 is less than 3");
    cr_assert_eq(dop_sampler_pick(&s, logits, history, 2, NULL), 2, "twice in the history is penalized once");
    cr_assert_eq(dop_sampler_pick(&s, logits, history + 2, 1, NULL), 1);
    const uint32_t old[] = {1, 5, 5};
    cr_assert_eq(dop_sampler_pick(&s, logits, old, 3, NULL), 1, "outside of the last two");
    for (int i = 0; i < VOCAB; i++)
        logits[i] = -10;
    logits[1] = -4;
    logits[2] = -6;
    cr_assert_eq(dop_sampler_pick(&s, logits, history, 1, NULL), 2, "-4 * 2 is less than -6");
    const uint32_t foreign[] = {VOCAB, UINT32_MAX};
    cr_assert_eq(dop_sampler_pick(&s, logits, foreign, 2, NULL), 1);
    dop_sampler_finish(&s);
}

/* Presence once for each id, frequency for each occurrence, from penalty_from on; biases before them, the repetition penalty after. */
Test(sampling, penalties_and_biases)
{
    float logits[VOCAB];
    for (int i = 0; i < VOCAB; i++)
        logits[i] = (float)-i;
    logits[1] = 4;
    logits[2] = 3;
    logits[3] = 2;
    dop_sampler s;
    const uint32_t history[] = {2, 1, 1, VOCAB, UINT32_MAX};
    static const dop_bias biases[] = {{3, 1.5f}, {VOCAB, 100}, {UINT32_MAX, 100}, {3, 0.75f}};
    const struct {
        dop_sampling how;
        uint32_t n, id;
        const char *why;
    } cases[] = {
        {{.presence_penalty = 0.75f}, 5, 1, "4 - 0.75, once, is more than 3 - 0.75"},
        {{.presence_penalty = 1.5f, .penalty_from = 1}, 5, 2, "2 is before the text"},
        {{.presence_penalty = 1.5f, .penalty_from = 3}, 5, 1, "so is 1"},
        {{.presence_penalty = 1.5f, .penalty_from = 1}, 1, 1, "and there is none of it yet"},
        {{.presence_penalty = 1.5f, .penalty_from = 99}, 5, 1, "nor here"},
        {{.frequency_penalty = 0.75f, .penalty_from = 1}, 2, 1, "4 - 0.75 is more than 3"},
        {{.frequency_penalty = 0.75f, .penalty_from = 1}, 3, 2, "4 - 1.5 is less"},
        {{.frequency_penalty = 0.75f, .presence_penalty = 0.75f}, 5, 3, "4 - 2.25 and 3 - 1.5 are less than 2"},
        {{.presence_penalty = -2}, 1, 2, "a reward"},
        {{.biases = biases, .n_biases = 1}, 5, 1, "2 + 1.5 is less than 4"},
        {{.biases = biases, .n_biases = 3}, 5, 1, "ids outside the vocabulary"},
        {{.biases = biases, .n_biases = 4}, 5, 3, "2 + 1.5 + 0.75 is more"},
        {{.biases = biases, .n_biases = 4, .repeat_penalty = 2, .repeat_last_n = 1}, 3, 3, "4 / 2 is less than 4.25"},
        {{.presence_penalty = 2, .repeat_penalty = 3, .repeat_last_n = 9, .penalty_from = 1},
         3,
         3,
         "(4 - 2) / 3, 3 / 3"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        make(&s, cases[i].how);
        s.params.repeat_penalty = cases[i].how.repeat_last_n ? cases[i].how.repeat_penalty : 1;
        cr_expect(dop_sampling_changes(&s.params) && !dop_sampling_is_greedy(&s.params), "case %zu", i);
        for (int again = 0; again < 2; again++)
            cr_expect_eq(dop_sampler_pick(&s, logits, history, cases[i].n, NULL), cases[i].id, "case %zu: %s", i,
                         cases[i].why);
        dop_sampler_finish(&s);
    }
    cr_expect(!dop_sampling_changes(&(dop_sampling){.repeat_penalty = 2, .penalty_from = 3, .logprobs = true}));
    cr_expect(!dop_sampling_is_greedy(&(dop_sampling){.repeat_penalty = 1, .logprobs = true}), "the host needs logits");
}

Test(sampling, log_probabilities)
{
    const float logits[] = {logf(1), logf(5), logf(2), logf(5), logf(7)}; /* shares of 20 */
    const struct {
        uint32_t id;
        double share;
    } best[] = {{4, 0.35}, {1, 0.25}, {3, 0.25}, {2, 0.1}, {0, 0.05}};
    dop_logprob one, top[5];
    for (uint32_t n = 0; n <= 5; n++) {
        memset(top, 0xff, sizeof top);
        dop_logits_logprobs(logits, 5, 2, n, &one, top);
        cr_expect_eq(one.id, 2);
        cr_expect_float_eq(one.logprob, (float)log(0.1), 1e-6f);
        for (uint32_t i = 0; i < n; i++) {
            cr_expect_eq(top[i].id, best[i].id, "%u of %u", i, n);
            cr_expect_float_eq(top[i].logprob, (float)log(best[i].share), 1e-6f);
        }
        cr_expect(n == 5 || top[n].id == UINT32_MAX, "no more than %u", n);
    }
}

Test(sampling, same_seed_same_draws)
{
    float logits[VOCAB];
    uint32_t a[100], b[100];
    fill_logits(logits);
    dop_sampler s;
    dop_sampling p = {.temperature = 1,
                      .top_k = 40,
                      .top_p = 0.95f,
                      .min_p = 0.01f,
                      .repeat_penalty = 1.1f,
                      .repeat_last_n = 64,
                      .seed = 42};
    make(&s, p);
    for (uint32_t i = 0; i < 100; i++)
        a[i] = dop_sampler_pick(&s, logits, a, i, NULL);
    for (uint32_t i = 0; i < 100; i++)
        b[i] = dop_sampler_pick(&s, logits, b, i, NULL);
    cr_assert_arr_eq(a, b, sizeof a);
    dop_sampler_finish(&s);
}

static double
uniform(uint32_t *x)
{
    *x = *x * 1664525u + 1013904223u;
    return (*x >> 8) / 16777216.0;
}

/* The fast selection of top-p against a plain sort, on flat and on steep logits. */
Test(sampling, top_p_on_random_logits)
{
    float logits[VOCAB];
    uint32_t x = 9;
    for (int round = 0; round < 30; round++) {
        double spread = pow(2, round % 8 - 1);
        for (int i = 0; i < VOCAB; i++)
            logits[i] = (float)(uniform(&x) * spread * 4);
        double p = 0.05 + 0.94 * uniform(&x), total = 0, sum = 0;
        for (int i = 0; i < VOCAB; i++)
            total += exp((double)logits[i]);
        /* The least likely token that is kept, by taking the largest one again and again. */
        float left[VOCAB], lowest = INFINITY;
        memcpy(left, logits, sizeof left);
        while (sum < p * total) {
            uint32_t best = largest_of(left, VOCAB);
            lowest = left[best];
            sum += exp((double)lowest);
            left[best] = -INFINITY;
        }
        unsigned counts[VOCAB], kept = 0;
        draw((dop_sampling){.temperature = 1000, .top_p = (float)p, .repeat_penalty = 1}, logits, 1500, counts);
        for (int i = 0; i < VOCAB; i++) {
            cr_assert(!counts[i] || logits[i] >= lowest - 1e-4f, "round %d: token %d is outside", round, i);
            kept += logits[i] >= lowest;
        }
        cr_assert_geq(n_drawn(counts), (kept < 300 ? kept : 300) * 8 / 10, "round %d: %u of %u", round, n_drawn(counts),
                      kept);
    }
}

/* What may be drawn against sorting everything; many equal logits, and sizes that fill no block. */
Test(sampling, candidates_as_by_sorting)
{
    static const dop_sampling ways[] = {{.temperature = 0.7f, .top_p = 1, .top_k = 1, .repeat_penalty = 1},
                                        {.temperature = 0.7f, .top_p = 1, .top_k = 13, .repeat_penalty = 1},
                                        {.temperature = 2, .top_k = 400, .top_p = 0.7f, .repeat_penalty = 1},
                                        {.temperature = 1, .top_p = 0.5f, .repeat_penalty = 1},
                                        {.temperature = 1, .top_p = 1, .min_p = 0.2f, .repeat_penalty = 1}};
    static const uint32_t sizes[] = {1, 15, 64, 65, 200, 997};
    uint32_t x = 1;
    for (size_t w = 0; w < sizeof ways / sizeof *ways; w++)
        for (size_t z = 0; z < sizeof sizes / sizeof *sizes; z++) {
            const dop_sampling *p = &ways[w];
            uint32_t n = sizes[z], order[VOCAB] = {0}, kept = n;
            float logits[VOCAB] = {0};
            bool drawn[VOCAB] = {false};
            dop_sampler s;
            for (uint32_t i = 0; i < n; i++) {
                x = x * 1664525u + 1013904223u;
                logits[i] = (float)(x >> 24) / 25.0f - 4;
                uint32_t k = i; /* a stable insertion: equal logits by id */
                for (; k > 0 && logits[order[k - 1]] < logits[i]; k--)
                    order[k] = order[k - 1];
                order[k] = i;
            }
            double largest = (double)logits[order[0]], total = 0, sum = 0;
            kept = p->top_k && p->top_k < n ? p->top_k : n;
            for (uint32_t i = 0; i < kept; i++)
                total += exp((double)logits[order[i]] - largest);
            for (uint32_t i = 0; i < kept && p->top_p > 0; i++)
                if ((sum += exp((double)logits[order[i]] - largest)) >= (double)p->top_p * total)
                    kept = i + 1;
            while (kept > 1 && exp((double)logits[order[kept - 1]] - largest) < (double)p->min_p)
                kept--;
            cr_assert_eq(dop_sampler_init(&s, n, NULL), DOP_OK);
            s.params = *p;
            s.params.temperature = 1e6f; /* all that may be drawn have nearly the same probability */
            for (uint32_t i = 0, found = 0; i < 14 * kept; i++) {
                uint32_t id = dop_sampler_pick(&s, logits, NULL, i, NULL), k = 0;
                while (k < kept && order[k] != id)
                    k++;
                cr_assert_lt(k, kept, "way %zu, %u logits: %u is not among them", w, n, id);
                found += !drawn[id];
                drawn[id] = true;
                cr_assert(i + 1 < 14 * kept || found == kept, "way %zu, %u logits: %u of %u", w, n, found, kept);
            }
            s.params.temperature = 0;
            cr_assert_eq(dop_sampler_pick(&s, logits, NULL, 0, NULL), order[0]);
            dop_sampler_finish(&s);
        }
}
