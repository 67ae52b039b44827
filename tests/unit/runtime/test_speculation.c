/* Speculation on a hand-made plan, whose logits are known: what is picked with drafts is what would be picked without.  Needs
 * runtime/device/device.h's Vulkan device.  Real models: tests/golden/sequences.sh. */
#include "runtime/step/speculator.h"
#include "tests/unit/plan_builder.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static dop_diag diag;

static void
ok(dop_status st)
{
    cr_assert_eq(st, DOP_OK, "%s", diag.message);
}

/* A clock that stands still leaves these times: steps of several rows cost 1.2 of one row.  Real ones would say what else the
 * machine does. */
static double
stands_still(void)
{
    return 0;
}

static void
start(dop_sequence *s, const dop_speculation *how)
{
    ok(dop_sequence_set_speculation(s, how, &diag));
    dop_speculator *p = s->speculator;
    p->now_ms = stands_still;
    p->policy.token.ms = 1;
    p->policy.wait = 0;
    for (uint32_t i = 0; i < p->policy.n_sizes; i++)
        p->policy.sizes[i].time.ms = 1.2;
}

/* The toy with room for two sequences and rows of both.  blur: its weights are other ones to that share.  nudge: tokens one by
 * one come from a persistent schedule whose odd logits are larger by so much; 0: there is none. */
static dop_model *
open_toy_of(uint32_t vocab, float blur, float nudge)
{
    char path[] = "/tmp/doppler-test-XXXXXX";
    int fd = mkstemp(path);
    plan_builder b;
    dop_buf file;
    dop_model *m = NULL;
    dop_open_options o = {.ordering = nudge != 0 ? DOP_ORDERING_PERSISTENT : DOP_ORDERING_BARRIERS};
    memset(&diag, 0, sizeof diag);
    pb_toy_of(&b, 2);
    PB_AT(&b, MODEL, dop_plan_model, 0)->vocab = vocab;
    float *w = (float *)(void *)b.sections[DOP_SEC_WEIGHTS].data;
    for (uint32_t i = 0; i < 64 * 64; i++)
        w[i] = (1 - blur) * w[i] + blur * toy_weight(i % 64, i / 64);
    if (nudge != 0)
        pb_toy_persistent(&b, UINT32_MAX, nudge);
    pb_build(&b, &file);
    cr_assert(fd >= 0 && write(fd, file.data, file.size) == (ssize_t)file.size);
    close(fd);
    cr_assert_eq(dop_model_open(path, &o, &diag, &m), DOP_OK, "%s", diag.message);
    unlink(path);
    dop_buf_finish(&file);
    plan_builder_finish(&b);
    return m;
}

static dop_model *
open_toy(float blur, float nudge)
{
    return open_toy_of(TOY_VOCAB, blur, nudge);
}

/* Drafts of which a share is right, and which now and then are fewer. */
typedef struct guesser {
    uint32_t x, percent, calls;
} guesser;

static uint32_t
draw_of(uint32_t *x, uint32_t n)
{
    *x = *x * 1664525u + 1013904223u;
    return (*x >> 8) % n;
}

static dop_status
guess(void *user, const uint32_t *tokens, size_t n_tokens, uint32_t most, dop_diag *d, uint32_t *out_ids,
      uint32_t *out_n)
{
    guesser *g = user;
    uint32_t ids[TOY_CTX + 8];
    (void)d;
    g->calls++;
    memcpy(ids, tokens, n_tokens * sizeof *ids);
    *out_n = draw_of(&g->x, 5) == 0 ? draw_of(&g->x, most + 1) : most;
    for (uint32_t i = 0; i < *out_n; i++) {
        uint32_t right = toy_argmax(ids, n_tokens + i);
        out_ids[i] = draw_of(&g->x, 100) < g->percent ? right : (right + 1 + draw_of(&g->x, 62)) % 64;
        ids[n_tokens + i] = right;
    }
    return DOP_OK;
}

/* What the sequence holds must be what it was given and what it said. */
typedef struct kept {
    dop_sequence *s;
    uint32_t ids[TOY_CTX + 1], n;
} kept;

static void
check_tokens(const kept *k)
{
    size_t n;
    const uint32_t *ids = dop_sequence_tokens(k->s, &n);
    cr_assert_eq(n, k->n);
    cr_assert_arr_eq(ids, k->ids, n * sizeof *ids);
}

static void
check_next(kept *k)
{
    uint32_t want = toy_argmax(k->ids, k->n);
    ok(dop_sequence_next(k->s, &diag, &k->ids[k->n]));
    cr_assert_eq(k->ids[k->n], want, "token %u: %u instead of %u", k->n, k->ids[k->n], want);
    k->n++;
    check_tokens(k);
}

static void
refill(kept *k, uint32_t *x)
{
    uint32_t n = 1 + draw_of(x, 5);
    for (uint32_t i = 0; i < n; i++)
        k->ids[k->n + i] = draw_of(x, TOY_VOCAB);
    ok(dop_sequence_feed(k->s, k->ids + k->n, n, &diag));
    k->n += n;
}

/* Greedy, while other things happen to the sequence between two tokens. */
Test(speculation, greedy_beside_everything_else)
{
    dop_model *m = open_toy(0, 0);
    guesser g = {.x = 7, .percent = 60};
    uint32_t x = 3;
    kept k = {.n = 0};
    ok(dop_sequence_create(m, &diag, &k.s));
    start(k.s, &(dop_speculation){.fn = guess, .user = &g});
    refill(&k, &x);
    for (uint32_t round = 0; round < 600; round++) {
        kept f = k;
        if (k.n + 12 > TOY_CTX) {
            k.n = 2 + draw_of(&x, 20);
            ok(dop_sequence_rewind(k.s, k.n, &diag));
        }
        switch (draw_of(&x, 24)) {
        case 0:
            refill(&k, &x);
            break;
        case 1:
            k.n -= k.n > 3 ? draw_of(&x, 3) : 0;
            ok(dop_sequence_rewind(k.s, k.n, &diag));
            break;
        case 2:
            if (k.n > 6) {
                ok(dop_sequence_cut(k.s, 2, 3, &diag));
                k.n -= 3;
                memmove(k.ids + 2, k.ids + 5, (k.n - 2) * sizeof *k.ids);
            }
            break;
        case 3:
            f.n = k.n;
            memcpy(f.ids, k.ids, sizeof f.ids);
            ok(dop_sequence_fork(k.s, &diag, &f.s));
            check_next(&f);
            dop_sequence_destroy(f.s);
            break;
        case 4: {
            dop_step_row row = {k.s, draw_of(&x, TOY_VOCAB), DOP_WANTS_PICK};
            ok(dop_step_run(m, &row, 1, &diag));
            k.ids[k.n] = row.token;
            cr_assert_eq(dop_step_pick(m, 0), toy_argmax(k.ids, k.n + 1));
            if (round % 2)
                dop_step_rollback(m);
            else
                dop_step_commit(m), k.n++;
            break;
        }
        default:
            dop_sequence_expect(k.s, draw_of(&x, 3) ? UINT32_MAX : 1 + draw_of(&x, 4));
        }
        check_next(&k);
    }
    dop_speculation_counts c = dop_sequence_speculation_counts(k.s);
    cr_assert_gt(c.accepted, 100);
    cr_assert_lt(c.accepted, c.drafted);
    dop_model_close(m);
}

/* Tokens of n_total from one prompt, in runs of what the context holds. */
static dop_speculation_counts
run_greedy(dop_model *m, const dop_speculation *how, uint32_t n_total)
{
    kept k = {.n = 3, .ids = {5, 11, 40}};
    ok(dop_sequence_create(m, &diag, &k.s));
    start(k.s, how);
    for (uint32_t i = 0; i < n_total; i++) {
        if (i % 100 == 0) {
            k.n = 3;
            k.ids[0] = i / 100 % 64;
            ok(dop_sequence_rewind(k.s, 0, &diag));
            ok(dop_sequence_feed(k.s, k.ids, 3, &diag));
        }
        check_next(&k);
    }
    dop_speculation_counts c = dop_sequence_speculation_counts(k.s);
    dop_sequence_destroy(k.s);
    return c;
}

Test(speculation, follows_what_is_accepted)
{
    dop_model *m = open_toy(0, 0);
    guesser wrong = {.x = 1, .percent = 0}, right = {.x = 1, .percent = 100};
    dop_speculation_counts c = run_greedy(m, &(dop_speculation){.fn = guess, .user = &wrong}, 400);
    cr_assert_eq(c.accepted, 0);
    cr_assert_leq(c.steps, 12, "%llu steps with drafts for 400 tokens", (unsigned long long)c.steps);
    c = run_greedy(m, &(dop_speculation){.fn = guess, .user = &right}, 400);
    cr_assert_geq(c.accepted, 240, "%llu accepted", (unsigned long long)c.accepted);
    c = run_greedy(m, &(dop_speculation){.fn = guess, .user = &right, .most = 1}, 400);
    cr_assert_eq(c.drafted, c.steps);
    dop_model_close(m);
}

/* Steps of one token come from another schedule, which would pick otherwise here and there: it decides. */
Test(speculation, near_ties)
{
    dop_model *m = open_toy(0, 0.02f), *plain = open_toy(0, 0.02f);
    guesser g = {.x = 9, .percent = 80};
    dop_sequence *s, *p;
    uint32_t other = 0;
    ok(dop_sequence_create(m, &diag, &s));
    ok(dop_sequence_create(plain, &diag, &p));
    start(s, &(dop_speculation){.fn = guess, .user = &g});
    for (uint32_t i = 0; i < 10; i++) {
        uint32_t ids[TOY_CTX] = {i, 7}, got;
        ok(dop_sequence_rewind(s, 0, &diag));
        ok(dop_sequence_rewind(p, 0, &diag));
        ok(dop_sequence_feed(s, ids, 2, &diag));
        ok(dop_sequence_feed(p, ids, 2, &diag));
        for (uint32_t n = 2; n < 60; n++) {
            ok(dop_sequence_next(p, &diag, &ids[n]));
            ok(dop_sequence_next(s, &diag, &got));
            cr_assert_eq(got, ids[n], "text %u, token %u", i, n);
            other += got != toy_argmax(ids, n);
        }
    }
    dop_speculation_counts c = dop_sequence_speculation_counts(s);
    cr_assert_gt(other, 3); /* or nothing was shown */
    cr_assert_gt(c.again, 10);
    cr_assert_gt(c.accepted, 100);
    dop_model_close(m);
    dop_model_close(plain);
}

/* Sampled with drafts of both kinds, by steps of several rows whose logits differ a little from those of one: the same tokens. */
static void
check_sampled(const char *what, const dop_speculation *drafts, uint64_t least)
{
    dop_model *m = open_toy(0, 0.002f), *plain = open_toy(0, 0.002f);
    dop_sequence *s, *p;
    dop_sampling how = {.temperature = 0.1f, .top_p = 1, .top_k = 5, .repeat_penalty = 1.1f, .repeat_last_n = 8};
    ok(dop_sequence_create(m, &diag, &s));
    ok(dop_sequence_create(plain, &diag, &p));
    start(s, drafts);
    for (how.seed = 0; how.seed < 6; how.seed++) {
        uint32_t ids[TOY_CTX] = {4, 9}, got;
        dop_sequence_set_sampling(s, &how);
        dop_sequence_set_sampling(p, &how);
        ok(dop_sequence_rewind(s, 0, &diag));
        ok(dop_sequence_rewind(p, 0, &diag));
        ok(dop_sequence_feed(s, ids, 2, &diag));
        ok(dop_sequence_feed(p, ids, 2, &diag));
        for (uint32_t n = 2; n < 60; n++) {
            ok(dop_sequence_next(p, &diag, &ids[n]));
            ok(dop_sequence_next(s, &diag, &got));
            cr_assert_eq(got, ids[n], "%s, seed %u, token %u", what, (uint32_t)how.seed, n);
        }
    }
    dop_speculation_counts c = dop_sequence_speculation_counts(s);
    cr_assert_gt(c.accepted, least, "%s: %u", what, (uint32_t)c.accepted);
    cr_assert_gt(c.again, 0, "%s", what);
    dop_model_close(m);
    dop_model_close(plain);
}

Test(speculation, sampled_as_without)
{
    guesser g = {.x = 5, .percent = 100};
    dop_model *small = open_toy(0.12f, 0);
    dop_sequence *d;
    ok(dop_sequence_create(small, &diag, &d));
    check_sampled("the caller's", &(dop_speculation){.fn = guess, .user = &g, .ngram = 2}, 60);
    check_sampled("a draft model's", &(dop_speculation){.draft = d}, 60);
    dop_model_close(small);
}

enum { TRIALS = 3000, BEST = 4 };
static const dop_sampling drawn = {.temperature = 1.5f, .top_p = 1, .top_k = BEST, .repeat_penalty = 1, .seed = 77};

/* The first of the largest logits. */
static uint32_t
largest_of(const float *logits, uint32_t n)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < n; i++)
        best = logits[i] > logits[best] ? i : best;
    return best;
}

/* The exact distribution of the token after n: its ids in order. */
static void
distribution(const uint32_t *ids, size_t n, uint32_t out_ids[BEST], double out_shares[BEST])
{
    float logits[TOY_VOCAB];
    double sum = 0;
    toy_logits(ids, n, logits);
    for (uint32_t k = 0; k < BEST; k++) {
        out_ids[k] = largest_of(logits, TOY_VOCAB);
        out_shares[k] = exp((double)logits[out_ids[k]] / (double)drawn.temperature);
        sum += out_shares[k];
        logits[out_ids[k]] = -INFINITY;
    }
    for (uint32_t k = 0; k < BEST; k++)
        out_shares[k] /= sum;
}

static double
chi_square(const uint32_t *counts, const double *shares, uint32_t n, uint32_t *out_cells)
{
    double sum = 0;
    *out_cells = 0;
    for (uint32_t i = 0; i < n; i++) {
        double want = shares[i] * TRIALS;
        if (shares[i] <= 0)
            cr_assert_eq(counts[i], 0, "an id that cannot be drawn");
        if (want < 5)
            continue;
        sum += ((double)counts[i] - want) * ((double)counts[i] - want) / want;
        ++*out_cells;
    }
    return sum;
}

/* Drafts of a model that says something else: the tokens have the distribution that they have without drafts. */
Test(speculation, drawn_drafts)
{
    dop_model *m = open_toy(0, 0), *small = open_toy(0.12f, 0);
    dop_sequence *s, *d;
    uint32_t prompt[3] = {12, 3, 50};
    static uint32_t pairs[TOY_VOCAB * TOY_VOCAB], thirds[TOY_VOCAB];
    static double want_pairs[TOY_VOCAB * TOY_VOCAB], want_thirds[TOY_VOCAB];
    ok(dop_sequence_create(m, &diag, &s));
    ok(dop_sequence_create(small, &diag, &d));
    start(s, &(dop_speculation){.draft = d});
    for (uint32_t i = 0; i < TRIALS; i++) {
        uint32_t ids[3];
        dop_sampling how = drawn;
        how.seed += i;
        dop_sequence_set_sampling(s, &how);
        ok(dop_sequence_rewind(s, 0, &diag));
        ok(dop_sequence_feed(s, prompt, 3, &diag));
        for (uint32_t n = 0; n < 3; n++)
            ok(dop_sequence_next(s, &diag, &ids[n]));
        pairs[ids[0] * TOY_VOCAB + ids[1]]++;
        thirds[ids[2]]++;
    }
    uint32_t a[BEST], b[BEST], c[BEST], cells, ids[6] = {12, 3, 50};
    double pa[BEST], pb[BEST], pc[BEST];
    distribution(ids, 3, a, pa);
    for (uint32_t i = 0; i < BEST; i++) {
        ids[3] = a[i];
        distribution(ids, 4, b, pb);
        for (uint32_t j = 0; j < BEST; j++) {
            want_pairs[a[i] * TOY_VOCAB + b[j]] += pa[i] * pb[j];
            ids[4] = b[j];
            distribution(ids, 5, c, pc);
            for (uint32_t k = 0; k < BEST; k++)
                want_thirds[c[k]] += pa[i] * pb[j] * pc[k];
        }
    }
    double x = chi_square(pairs, want_pairs, TOY_VOCAB * TOY_VOCAB, &cells);
    cr_assert_lt(x, cells + 4 * sqrt(2.0 * cells), "pairs: chi-square %.1f of %u cells", x, cells);
    x = chi_square(thirds, want_thirds, TOY_VOCAB, &cells);
    cr_assert_lt(x, cells + 4 * sqrt(2.0 * cells), "third tokens: chi-square %.1f of %u cells", x, cells);
    dop_speculation_counts n = dop_sequence_speculation_counts(s);
    cr_assert_gt(n.accepted, TRIALS / 4, "%llu of %llu accepted", (unsigned long long)n.accepted,
                 (unsigned long long)n.drafted);
    cr_assert_lt(n.accepted, n.drafted * 9 / 10);
    dop_model_close(m);
    dop_model_close(small);
}

Test(speculation, refused)
{
    dop_model *m = open_toy(0, 0), *fewer = open_toy_of(TOY_VOCAB / 2, 0, 0);
    dop_sequence *s, *other;
    ok(dop_sequence_create(m, &diag, &s));
    ok(dop_sequence_create(fewer, &diag, &other));
    cr_assert_eq(dop_sequence_set_speculation(s, &(dop_speculation){.draft = other}, &diag), DOP_E_INPUT);
    cr_assert(strstr(diag.message, "must have the same tokenizer"));
    memset(&diag, 0, sizeof diag);
    ok(dop_sequence_create(m, &diag, &other));
    cr_assert_eq(dop_sequence_set_speculation(s, &(dop_speculation){.draft = other}, &diag), DOP_E_INPUT);
    cr_assert(strstr(diag.message, "of another model"));
    const uint32_t rows = DOP_SCHED_ROWS * DOP_N_ORDERS + DOP_ORDER_BARRIERS;
    m->used.first[rows + 1] = m->used.first[rows]; /* none for rows */
    memset(&diag, 0, sizeof diag);
    cr_assert_eq(dop_sequence_set_speculation(s, &(dop_speculation){.ngram = 2}, &diag), DOP_E_INPUT);
    cr_assert(strstr(diag.message, "`rows` 2,4,8"), "%s", diag.message);
    dop_model_close(m);
    dop_model_close(fewer);
}

/* A world in which the next draft is right with a given chance, and steps take these times. */
typedef struct world {
    double chance, doubt, token_ms, step_ms[3], draft_ms; /* steps of 2, 4 and 8 rows */
    double pause_ms;                                      /* before the first token after a round */
    double runs[3]; /* chances in rounds of these sizes, where right drafts come in runs; 0: that of all */
} world;

typedef struct outcome {
    double ms;
    uint32_t rounds, drafts, accepted;
} outcome;

static outcome
live(const world *w, uint32_t n_tokens)
{
    static const uint32_t rows[] = {2, 4, 8};
    dop_draft_policy p;
    outcome o = {0};
    uint32_t x = 11;
    double pause = w->pause_ms;
    bool pays;
    dop_draft_policy_init(&p, rows, 3);
    for (uint32_t n = 0; n < n_tokens; n++) {
        if (p.wait > 0) {
            p.wait--;
            dop_draft_policy_token(&p, w->token_ms + pause);
            o.ms += w->token_ms + pause;
            pause = 0;
            continue;
        }
        dop_draft_round r = {.drafts = dop_draft_policy_length(&p, 1, 7, &pays), .judged = true};
        r.rows = 1 + r.drafts;
        r.step_ms = w->step_ms[r.rows <= 2 ? 0 : r.rows <= 4 ? 1 : 2];
        r.draft_ms = w->draft_ms * r.drafts;
        r.doubt = draw_of(&x, 1000) < w->doubt * 1000;
        while (!r.doubt && r.accepted < r.drafts && draw_of(&x, 1000) < w->chance * 1000)
            r.accepted++;
        dop_draft_policy_round(&p, &r);
        pause = w->pause_ms;
        o.ms += r.step_ms + r.draft_ms + (r.doubt ? w->token_ms : 0);
        o.rounds++;
        o.drafts += r.drafts;
        o.accepted += r.accepted;
        n += r.accepted;
    }
    return o;
}

/* Rounds that do not pay cost 3% of 128 tokens at most, and 2% of many; and any round that pays is found. */
Test(speculation, policy_in_several_worlds)
{
    const world steep = {.token_ms = 2, .step_ms = {2.8, 5, 9}}, flat = {.token_ms = 1, .step_ms = {1.1, 1.3, 1.5}};
    world w = steep;
    outcome o = live(&w, 128);
    cr_assert_lt(o.ms, 128 * 2 * 1.03, "%.1f ms", o.ms);
    o = live(&w, 10000);
    cr_assert_lt(o.ms, 10000 * 2 * 1.02, "%.1f ms", o.ms);
    cr_assert_gt(o.rounds, 8);
    w.chance = 0.3; /* accepted now and then, but never worth it */
    o = live(&w, 10000);
    cr_assert_lt(o.ms, 10000 * 2 * 1.03, "%.1f ms", o.ms);
    w.chance = 0.6; /* 1.6 tokens in 1.4 steps, but 2.2 in 2.5 */
    o = live(&w, 10000);
    cr_assert_lt(o.ms, 10000 * 2 / 1.08, "%.1f ms", o.ms);
    cr_assert_lt(o.drafts, o.rounds * 1.2);
    w = flat;
    w.chance = 0.9; /* 5.7 tokens in 1.5 steps */
    o = live(&w, 10000);
    cr_assert_lt(o.ms, 10000 / 3.4, "%.1f ms", o.ms);
    cr_assert_gt(o.drafts, o.rounds * 6.5);
    w.draft_ms = 0.4; /* 2.7 tokens in 2.1 steps with two drafts or three, 5.7 in 4.3 with seven */
    o = live(&w, 10000);
    cr_assert_lt(o.ms, 10000 / 1.15, "%.1f ms", o.ms);
    w = flat;
    w.chance = 0.9;
    w.doubt = 0.9; /* most rounds give nothing but another step to make */
    o = live(&w, 10000);
    cr_assert_lt(o.ms, 10000 * 1.03, "%.1f ms", o.ms);
    /* Rounds of seven drafts make tokens in 1.02 of what the first tokens take, and in 0.94 of what tokens take after that. */
    w = (world){.chance = 0.87, .token_ms = 0.41, .step_ms = {0.62, 1.3, 2.25}, .pause_ms = 0.14};
    o = live(&w, 128);
    cr_assert_lt(o.ms, 128 * 0.41 * 1.05, "%.2f ms", o.ms);
    o = live(&w, 10000);
    cr_assert_lt(o.ms, 10000 * 0.41 * 1.03, "%.1f ms", o.ms);
}

/* A time as a busy machine takes it: off by up to 20%, and one in 32 four times as long. */
static double
noisy(uint32_t *x, double ms)
{
    const double off = 0.8 + draw_of(x, 401) / 1000.0;
    return ms * off * (draw_of(x, 32) == 0 ? 4 : 1);
}

/* One text of 128 tokens with noisy times, whose policy goes on from the last text's.  Returns the time without drafts over that with
 * them; *out_plain: tokens without drafts. */
static double
write_noisy(const world *w, dop_draft_policy *last, uint32_t *x, uint32_t *out_plain)
{
    enum { TOKENS = 128, FIRST_SLOW = 4 };
    static const uint32_t rows[] = {2, 4, 8};
    const double mean = 1 + 3.0 / 32;
    dop_draft_policy p;
    uint32_t in_a_row = 0;
    double ms = 0;
    bool pays;
    dop_draft_policy_init(&p, rows, 3);
    dop_draft_policy_follow(&p, last);
    *out_plain = 0;
    for (uint32_t n = 0; n < TOKENS; n++) {
        if (p.wait > 0) {
            const double took = noisy(x, w->token_ms) + (in_a_row++ < FIRST_SLOW ? w->pause_ms : 0);
            p.wait--;
            dop_draft_policy_token(&p, took);
            ms += took;
            ++*out_plain;
            continue;
        }
        in_a_row = 0;
        dop_draft_round r = {.drafts = dop_draft_policy_length(&p, 1, 7, &pays), .judged = true};
        r.rows = 1 + r.drafts;
        const uint32_t size = r.rows <= 2 ? 0 : r.rows <= 4 ? 1 : 2;
        const double chance = w->runs[size] > 0 ? w->runs[size] : w->chance;
        r.step_ms = noisy(x, w->step_ms[size]);
        r.draft_ms = noisy(x, w->draft_ms * r.drafts);
        while (r.accepted < r.drafts && draw_of(x, 1000) < chance * 1000)
            r.accepted++;
        dop_draft_policy_round(&p, &r);
        ms += r.step_ms + r.draft_ms;
        n += r.accepted;
    }
    *last = p;
    return TOKENS * w->token_ms * mean / ms;
}

/* Noise in times and bad luck do not end what pays: with four in five drafts right of those that can be, and with two in three, hardly a
 * token comes without drafts; with none right, hardly anything is lost. */
Test(speculation, policy_with_noise)
{
    enum { TEXTS = 200, GIVEN_UP = 32 };
    const world worlds[] = {{.token_ms = 1, .step_ms = {1.12, 1.2, 1.4}, .draft_ms = 0.05, .pause_ms = 0.15},
                            {.token_ms = 2, .step_ms = {2.3, 2.5, 3.1}, .draft_ms = 0.08, .pause_ms = 0.2},
                            {.token_ms = 1, .step_ms = {1.2, 1.25, 1.4}, .draft_ms = 0.06, .pause_ms = 0.15},
                            {.token_ms = 1, .step_ms = {1.02, 1.05, 1.1}, .draft_ms = 0.03, .pause_ms = 0.05}};
    for (size_t i = 0; i < sizeof worlds / sizeof *worlds; i++)
        for (uint32_t percent = 0; percent <= 80; percent += percent ? 14 : 66) { /* 0, 66, 80 */
            dop_draft_policy last = {0};
            world w = worlds[i];
            uint32_t x = 5 + percent, plain, all = 0, given_up = 0;
            double sum = 0;
            w.chance = percent * 0.01;
            for (uint32_t k = 0; k < TEXTS; k++) {
                sum += write_noisy(&w, &last, &x, &plain);
                all += plain;
                given_up += plain >= GIVEN_UP;
            }
            if (percent == 0) {
                cr_expect_gt(sum, 0.97 * TEXTS, "world %zu, none right: %.3f", i, sum / TEXTS);
                continue;
            }
            cr_expect_leq(given_up, TEXTS / 50, "world %zu, %u%%: %u texts given up", i, percent, given_up);
            cr_expect_lt(all, 128 * TEXTS / 25, "world %zu, %u%%: %u tokens without drafts", i, percent, all);
            cr_expect_gt(sum, (percent == 66 ? 1.3 : 1.7) * TEXTS, "world %zu, %u%%: %.3f", i, percent, sum / TEXTS);
        }
}

/* Where a round with one draft never pays, trials have as many drafts as could, so that right ones are noticed after texts without any. */
Test(speculation, policy_after_wrong_drafts)
{
    enum { TEXTS = 40 };
    world w = {.token_ms = 2, .step_ms = {3.3, 3.45, 6.3}, .draft_ms = 0.42, .pause_ms = 0.1};
    dop_draft_policy last = {0};
    uint32_t x = 5, plain, all = 0;
    double lost = 0;
    for (uint32_t k = 0; k < TEXTS; k++)
        lost += write_noisy(&w, &last, &x, &plain);
    cr_expect_gt(lost, 0.97 * TEXTS, "none right: %.3f", lost / TEXTS);
    w.chance = 0.85;
    for (uint32_t k = 0; k < TEXTS; k++) {
        (void)write_noisy(&w, &last, &x, &plain);
        all += plain;
    }
    cr_expect_lt(all, 128 * TEXTS / 8, "%u tokens without drafts", all);
}

/* Single drafts are right too seldom to promise that three pay.  But right ones come in runs, so that three do, which is found out. */
Test(speculation, policy_with_runs)
{
    enum { TEXTS = 100 };
    const world w = {
        .token_ms = 2, .step_ms = {2.5, 2.9, 5.5}, .draft_ms = 0.38, .pause_ms = 0.1, .runs = {0.6, 0.74, 0.85}};
    dop_draft_policy last = {0};
    uint32_t x = 5, plain;
    double sum = 0;
    for (uint32_t k = 0; k < TEXTS; k++)
        sum += write_noisy(&w, &last, &x, &plain);
    cr_expect_gt(sum, 1.2 * TEXTS, "%.3f", sum / TEXTS);
}

/* Sixteen sequences in steps of 16 and 64 rows, as qwen3.5-4b has them on an H100: a draft for each does not pay, three do, also after
 * steps in which few were right. */
Test(speculation, policy_of_several_sequences)
{
    enum { SEQUENCES = 16, TEXTS = 40, TOKENS = 192 };
    static const uint32_t rows[] = {4, 16, 64};
    const double plain_ms = 5.3, step_ms = 9.5, draft_ms = 0.45, chance = 0.74;
    dop_draft_policy last = {0};
    uint32_t x = 3;
    double ms = 0, made = 0;
    bool pays;
    for (uint32_t k = 0; k < TEXTS; k++) {
        dop_draft_policy p;
        dop_draft_policy_init(&p, rows, 3);
        dop_draft_policy_follow(&p, &last);
        for (double n = 0; n < TOKENS;) {
            dop_draft_round r = {.rows = SEQUENCES, .judged = true};
            uint32_t ended = 0;
            if (p.wait > 0) {
                p.wait--;
            } else {
                const uint32_t each = dop_draft_policy_share(&p, SEQUENCES, 3, &pays);
                r.drafts = each * SEQUENCES;
                r.rows += r.drafts;
                for (uint32_t i = 0; i < SEQUENCES; i++) {
                    uint32_t right = 0;
                    while (right < each && draw_of(&x, 1000) < chance * 1000)
                        right++;
                    r.accepted += right;
                    ended += right < each;
                }
                r.draft_ms = noisy(&x, draft_ms);
                ms += each * draft_ms;
            }
            r.step_ms = noisy(&x, r.rows <= 16 ? plain_ms : step_ms);
            ms += r.rows <= 16 ? plain_ms : step_ms;
            n += 1 + (double)r.accepted / SEQUENCES;
            dop_draft_policy_shared(&p, &r, SEQUENCES, ended);
        }
        made += TOKENS;
        last = p;
    }
    cr_expect_gt(made * plain_ms / ms, 1.25, "%.3f", made * plain_ms / ms);
}

/* Picks of the host, which wants their logits: the same tokens, and nothing is speculated meanwhile. */
Test(speculation, log_probabilities_of_picks)
{
    dop_model *m = open_toy(0, 0);
    dop_sequence *s;
    uint32_t all[TOY_CTX], n = 10;
    dop_logprob one, top[3];
    for (uint32_t i = 0; i < n; i++)
        all[i] = (i * 7 + 3) % TOY_VOCAB;
    ok(dop_sequence_create(m, &diag, &s));
    ok(dop_sequence_set_speculation(s, &(dop_speculation){.ngram = 2}, &diag));
    dop_sampling how = {.repeat_penalty = 1}, with = {.repeat_penalty = 1, .logprobs = true};
    cr_expect_eq(dop_model_wants(m, &how), DOP_WANTS_PICK);
    cr_expect_eq(dop_model_wants(m, &with), DOP_WANTS_LOGITS);
    cr_assert_eq(dop_sequence_feed(s, all, n, &diag), DOP_OK);
    for (uint32_t i = 0; i < 20; i++, n++) {
        ok(dop_sequence_next(s, &diag, &all[n]));
        cr_assert_eq(all[n], toy_argmax(all, n), "token %u", i);
    }
    cr_expect_eq(dop_sequence_logprobs(s, 0, &diag, &one, top), DOP_E_USAGE, "nobody wanted them");
    dop_sequence_set_sampling(s, &with);
    for (uint32_t i = 0; i < 6; i++, n++) {
        cr_assert_eq(dop_sequence_next(s, &diag, &all[n]), DOP_OK, "%s", diag.message);
        cr_assert_eq(all[n], toy_argmax(all, n), "token %u", i);
        cr_assert_eq(dop_sequence_logprobs(s, 3, &diag, &one, top), DOP_OK, "%s", diag.message);
        cr_expect_eq(one.id, all[n]);
        cr_expect_eq(top[0].id, all[n]);
        cr_expect(top[0].logprob == one.logprob && one.logprob < 0 && top[1].logprob <= top[0].logprob);
    }
    cr_expect_eq(dop_sequence_logprobs(s, TOY_VOCAB + 1, &diag, &one, top), DOP_E_USAGE);
    cr_assert_eq(dop_sequence_feed(s, all, 1, &diag), DOP_OK);
    cr_expect_eq(dop_sequence_logprobs(s, 0, &diag, &one, top), DOP_E_USAGE, "a step was between");
    /* A bias and a penalty, which the host adds: the id with the bias until its penalty is larger. */
    const dop_bias bias = {7, 1e4f};
    with = (dop_sampling){
        .repeat_penalty = 1, .biases = &bias, .n_biases = 1, .frequency_penalty = 5e3f, .penalty_from = n + 1};
    dop_sequence_set_sampling(s, &with);
    all[n++] = all[0];
    for (uint32_t i = 0; i < 3; i++, n++) {
        cr_assert_eq(dop_sequence_next(s, &diag, &all[n]), DOP_OK, "%s", diag.message);
        cr_expect_eq(all[n], i < 2 ? 7 : toy_argmax(all, n), "token %u", i);
    }
    dop_model_close(m);
}
