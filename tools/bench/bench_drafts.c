/* tgN tests: greedy, with replayed drafts, and with sampled tokens. */
#include "base/spans.h"
#include "runtime/model/model.h"
#include "runtime/step/heads.h"
#include "tools/bench/bench.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Usual sampling parameters, used by tgNs. */
static const dop_sampling usual = {
    .temperature = 0.8f, .top_k = 40, .top_p = 0.95f, .repeat_penalty = 1, .repeat_last_n = 64, .seed = 1};

/* Solves c + c^2 + ... + c^n = n * share for c. Each of n drafts is right with probability c if all before it are;
 * `share` is the accepted fraction. */
static double
solve_draft_chance(double share, uint32_t n)
{
    double low = 0, high = 1;
    for (int i = 0; i < 40; i++) {
        double c = (low + high) / 2, reached = 1, sum = 0;
        for (uint32_t k = 0; k < n; k++)
            sum += reached *= c;
        *(sum < n * share ? &low : &high) = c;
    }
    return high;
}

/* Corrects a deviation from the target acceptance rate over the next rounds. */
uint32_t
dop_bench_propose(const dop_bench_replay *replay, dop_bench_chance *chance, size_t at, uint32_t most, uint32_t *out_ids)
{
    const dop_bench_replay *r = replay;
    dop_bench_chance *c = chance;
    const double left = (double)(r->n > at ? r->n - at : 0), n = left < most ? left : most;
    const double share = r->percent * 0.01, missing = share * (double)c->drafted - (double)c->right;
    const double each = n > 0 ? solve_draft_chance(fmin(fmax(share + missing / (4 * n), 0), 1), (uint32_t)n) : 0;
    bool all = r->percent > 0;
    uint32_t k = 0;
    for (; k < (uint32_t)n; k++) {
        uint32_t right = r->ids[at + k];
        c->x = c->x * 1664525u + 1013904223u;
        all = all && (double)(c->x >> 8) < each * (1 << 24);
        c->right += all;
        out_ids[k] = all ? right : right ? right - 1 : 1;
    }
    c->drafted += k;
    return k;
}

/* Replays drafts (dop_draft_fn). */
static dop_status
replay_drafts(void *user, const uint32_t *tokens, size_t n_tokens, uint32_t most, dop_diag *diag, uint32_t *out_ids,
              uint32_t *out_n)
{
    dop_bench_replay *r = user;
    (void)tokens;
    (void)diag;
    *out_n = dop_bench_propose(r, &r->chance, n_tokens, most, out_ids);
    return DOP_OK;
}

dop_status
dop_bench_generate(dop_sequence *sequence, const dop_bench_test *test, const uint32_t *ids, double limit_ms,
                   dop_diag *diag, double *out_ms)
{
    dop_sequence *s = sequence;
    double start = dop_now_ms();
    dop_sequence_expect(s, test->n_gen);
    dop_status st = dop_sequence_feed(s, ids, 1, diag);
    for (uint32_t i = 0; i < test->n_gen && st == DOP_OK; i++) {
        uint32_t id;
        st = dop_sequence_next(s, diag, &id);
        if (limit_ms > 0 && dop_now_ms() - start > limit_ms)
            break;
    }
    *out_ms = dop_now_ms() - start;
    return st;
}

static dop_status
keep_replay_text(dop_bench_replay *r, const dop_sequence *s, dop_diag *diag)
{
    size_t n;
    const uint32_t *ids = dop_sequence_tokens(s, &n);
    uint32_t *copy = realloc(r->ids, n * sizeof *copy);
    if (!copy)
        return DOP_NO_MEMORY(diag);
    memcpy(copy, ids, n * sizeof *ids);
    r->ids = copy;
    r->n = n;
    return DOP_OK;
}

dop_status
dop_bench_drafts(dop_sequence *sequence, const dop_bench_test *test, const uint32_t *ids, double limit_ms,
                 dop_bench_replay *replayed, dop_diag *diag, double *out_ms)
{
    dop_sequence *s = sequence;
    dop_bench_replay *r = replayed;
    /* A plan's own draft layer runs too, for realistic round times. */
    dop_speculation how = {.fn = replay_drafts, .user = r, .own = dop_model_drafts(s->model)};
    bool plain = limit_ms > 0; /* the warm-up run produces the first text */
    r->percent = test->drafts - 1;
    r->chance = (dop_bench_chance){.x = 1};
    dop_status st = dop_sequence_rewind(s, test->depth, diag);
    if (st == DOP_OK && !plain)
        st = dop_sequence_set_speculation(s, &how, diag);
    if (st == DOP_OK)
        st = dop_bench_generate(s, test, ids, 0, diag, out_ms);
    if (st == DOP_OK)
        st = keep_replay_text(r, s, diag);
    r->counts = dop_sequence_speculation_counts(s);
    (void)dop_sequence_set_speculation(s, NULL, NULL);
    if (st == DOP_OK && plain) /* repeat with drafts: the draft policy learns from this test */
        st = dop_bench_drafts(s, test, ids, 0, r, diag, out_ms);
    return st;
}

dop_status
dop_bench_sampled(dop_sequence *sequence, const dop_bench_test *test, const uint32_t *ids, double limit_ms,
                  dop_diag *diag, double *out_ms)
{
    const dop_sampling greedy = {.repeat_penalty = 1};
    dop_status st = dop_sequence_rewind(sequence, test->depth, diag);
    dop_sequence_set_sampling(sequence, &usual);
    if (st == DOP_OK)
        st = dop_bench_generate(sequence, test, ids, limit_ms, diag, out_ms);
    dop_sequence_set_sampling(sequence, &greedy);
    return st;
}
