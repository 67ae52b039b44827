/* Multi-sequence tests: set-up, and tgNbBdP, which verifies replayed drafts of all sequences in shared steps. */
#include "base/os/clock.h"
#include "runtime/model/model.h"
#include "runtime/step/heads.h"
#include "runtime/step/speculator.h"
#include "runtime/step/step_ahead.h"
#include "tools/bench/bench.h"

#include <stdlib.h>
#include <string.h>

dop_status
dop_bench_fork(const dop_bench_plan *plan, const dop_bench_test *test, uint32_t first, dop_diag *diag,
               dop_step_row *rows, uint32_t *out_n)
{
    const dop_bench_plan *p = plan;
    const dop_bench_test *t = test;
    dop_sequence *s = p->sequence;
    dop_status st = dop_sequence_rewind(s, t->depth, diag);
    uint32_t n = 0;
    for (; n < t->batch && st == DOP_OK; n++) {
        rows[n] = (dop_step_row){s, first, DOP_WANTS_PICK};
        if (n > 0)
            st = dop_sequence_fork(s, diag, &rows[n].sequence);
        if (st == DOP_OK && n > 0 && p->n_uses > 1 && t->depth == 0)
            st = dop_sequence_set_adapters(rows[n].sequence, &p->uses[n % p->n_uses], 1, diag);
        if (st == DOP_OK)
            dop_sequence_expect(rows[n].sequence, t->n_gen);
    }
    *out_n = n;
    return st;
}

enum {
    MOST_EACH = 7,
    MOST_AGAIN = 4
}; /* max. drafts per sequence and step; max. pending tokens of a drafting sequence */

typedef struct writer {
    dop_sequence *s;
    uint32_t n; /* known tokens of its text, including the first one */
    uint32_t drafts[MOST_EACH], n_drafts, row;
    dop_bench_chance chance;
} writer;

typedef struct batch {
    dop_model *model;
    const dop_bench_test *test;
    dop_bench_replay *replay;
    uint32_t *text; /* owned, [writers, n_gen + 1] */
    writer all[DOP_STEP_MAX_SEQUENCES];
    uint32_t n, n_left; /* number of writers; number of writers whose texts are incomplete */
    dop_draft_policy policy;
    bool plain, own; /* warm-up without drafts; also run the plan's draft layer, for realistic step times */
    double draft_ms;
} batch;

static uint32_t *
get_writer_text(const batch *b, uint32_t i)
{
    return b->text + (size_t)i * (b->test->n_gen + 1);
}

/* Returns the number of a writer's known tokens that no step has processed yet. */
static uint32_t
count_unfed_tokens(const batch *b, const writer *w)
{
    return b->test->depth + w->n - w->s->n_tokens;
}

/* Runs the plan's draft layer for its time only. Its drafts are not used. */
static dop_status
run_draft_layer(batch *b, uint32_t each, dop_diag *diag)
{
    uint32_t ids[DOP_STEP_MAX_SEQUENCES][MOST_EACH], n = 0, steps = 0;
    dop_draft_ask asks[DOP_STEP_MAX_SEQUENCES];
    for (uint32_t i = 0; i < b->n; i++) {
        writer *w = &b->all[i];
        if (w->n_drafts == 0)
            continue;
        memcpy(w->s->tokens + w->s->n_tokens, get_writer_text(b, i) + w->n - count_unfed_tokens(b, w),
               count_unfed_tokens(b, w) * sizeof *b->text);
        asks[n] = (dop_draft_ask){.sequence = w->s, .known = b->test->depth + w->n, .most = each, .ids = ids[n]};
        n++;
    }
    DOP_RETURN_IF_ERROR(dop_step_drain(b->model, diag));
    DOP_RETURN_IF_ERROR(dop_heads_draft(b->model, asks, n, diag));
    for (uint32_t i = 0; i < n; i++)
        steps = asks[i].n > steps ? asks[i].n : steps;
    return DOP_OK;
}

/* Proposes drafts for every writer, as many as the policy expects to pay off. */
static dop_status
draft_for_writers(batch *b, dop_diag *diag)
{
    bool pays;
    b->draft_ms = 0;
    for (uint32_t i = 0; i < b->n; i++) {
        b->all[i].n_drafts = 0;
        if (b->own)
            dop_head_rest(b->all[i].s, &b->policy);
    }
    if (b->plain || b->policy.wait > 0) {
        b->policy.wait -= b->plain ? 0 : 1;
        return DOP_OK;
    }
    const uint32_t room = dop_model_max_rows_of_several(b->model) / b->n_left - 1,
                   most = room < MOST_EACH ? room : MOST_EACH,
                   each = dop_draft_policy_share(&b->policy, b->n_left, most, &pays);
    const double start = dop_now_ms();
    bool some = false;
    for (uint32_t i = 0; i < b->n; i++) {
        writer *w = &b->all[i];
        const uint32_t left = b->test->n_gen + 1 - w->n; /* the last token needs no draft */
        if (left < 2 || count_unfed_tokens(b, w) > MOST_AGAIN)
            continue;
        w->n_drafts = dop_bench_propose(b->replay, &w->chance, b->test->depth + w->n, each < left - 1 ? each : left - 1,
                                        w->drafts);
        some = some || w->n_drafts > 0;
    }
    const dop_status st = b->own && some ? run_draft_layer(b, each, diag) : DOP_OK;
    b->draft_ms = (dop_now_ms() - start) / each;
    return st;
}

static uint32_t
fill_step_rows(batch *b, dop_step_row *rows)
{
    const uint32_t most = dop_model_max_rows_of_several(b->model);
    uint32_t n = 0, waiting = 0;
    for (uint32_t i = 0; i < b->n; i++)
        waiting += b->all[i].n <= b->test->n_gen ? count_unfed_tokens(b, &b->all[i]) : 0;
    for (uint32_t i = 0; i < b->n; i++) {
        writer *w = &b->all[i];
        if (w->n > b->test->n_gen)
            continue;
        const uint32_t *text = get_writer_text(b, i), own = count_unfed_tokens(b, w);
        for (uint32_t k = w->n - own; k < w->n; k++)
            rows[n++] = (dop_step_row){w->s, text[k], k + 1 == w->n ? DOP_WANTS_PICK : 0};
        w->row = n - 1;
        waiting -= own;
        if (n + w->n_drafts + waiting > most)
            w->n_drafts = 0;
        for (uint32_t k = 0; k < w->n_drafts; k++)
            rows[n++] = (dop_step_row){w->s, w->drafts[k], DOP_WANTS_PICK};
    }
    return n;
}

/* Appends the accepted tokens of a step to the writers' texts. */
static void
take_batch_picks(batch *b, dop_draft_round *round, uint32_t *out_ended)
{
    for (uint32_t i = 0; i < b->n; i++) {
        writer *w = &b->all[i];
        if (w->n > b->test->n_gen)
            continue;
        const uint32_t fed = count_unfed_tokens(b, w);
        uint32_t taken = 0;
        for (bool right = true; right; taken++) {
            const uint32_t id = dop_step_pick(b->model, w->row + taken);
            get_writer_text(b, i)[w->n++] = id;
            right = taken < w->n_drafts && id == w->drafts[taken];
        }
        round->drafts += w->n_drafts;
        round->accepted += taken - 1;
        *out_ended += taken <= w->n_drafts;
        b->n_left -= w->n > b->test->n_gen;
        if (w->n_drafts > 0)
            dop_step_keep(b->model, w->s, fed + taken - 1);
    }
}

static dop_status
run_step(batch *b, dop_diag *diag)
{
    dop_step_row rows[DOP_STEP_MAX_ROWS];
    dop_draft_round round = {.judged = true};
    dop_speculation_counts *c = &b->replay->counts;
    const uint32_t writers = b->n_left;
    uint32_t ended = 0;
    dop_status st = draft_for_writers(b, diag);
    if (st != DOP_OK)
        return st;
    round.rows = fill_step_rows(b, rows);
    const double start = dop_now_ms();
    if ((st = dop_step_run(b->model, rows, round.rows, diag)) != DOP_OK)
        return st;
    round.step_ms = dop_now_ms() - start;
    round.draft_ms = b->draft_ms;
    take_batch_picks(b, &round, &ended);
    dop_step_commit(b->model);
    dop_draft_policy_shared(&b->policy, &round, writers, ended);
    c->steps += round.drafts > 0;
    c->drafted += round.drafts;
    c->accepted += round.accepted;
    return DOP_OK;
}

/* Keeps the first writer's text as the next run's drafts. All writers produce the same text. */
static dop_status
keep_batch_text(batch *b, dop_diag *diag)
{
    dop_bench_replay *r = b->replay;
    const size_t depth = b->test->depth, n = depth + b->test->n_gen + 1;
    uint32_t *copy = realloc(r->ids, n * sizeof *copy);
    if (!copy)
        return DOP_NO_MEMORY(diag);
    r->ids = copy;
    r->n = n;
    memset(copy, 0, depth * sizeof *copy);
    memcpy(copy + depth, get_writer_text(b, 0), (n - depth) * sizeof *copy);
    return DOP_OK;
}

dop_status
dop_bench_batch_drafts(dop_bench_plan *plan, const dop_bench_test *test, const uint32_t *ids, double limit_ms,
                       dop_diag *diag, double *out_ms)
{
    batch *b = calloc(1, sizeof *b);
    dop_step_row rows[DOP_STEP_MAX_SEQUENCES];
    uint32_t n = 0;
    if (b)
        b->text = calloc((size_t)test->batch * (test->n_gen + 1), sizeof *b->text);
    dop_status st = b && b->text ? dop_bench_fork(plan, test, ids[0], diag, rows, &n) : DOP_NO_MEMORY(diag);
    if (st != DOP_OK)
        goto error;
    b->model = plan->model;
    b->test = test;
    b->replay = &plan->replay;
    b->n = b->n_left = n;
    b->plain = limit_ms > 0; /* the warm-up run produces the text to replay */
    b->own = !b->plain && dop_model_drafts(b->model);
    b->replay->percent = test->drafts - 1;
    b->replay->counts = (dop_speculation_counts){0};
    dop_speculation_policy(b->model, &b->policy);
    for (uint32_t i = 0; i < n; i++) {
        b->all[i] = (writer){.s = rows[i].sequence, .n = 1, .chance = {.x = 1 + i}};
        get_writer_text(b, i)[0] = ids[0];
        if (b->own && st == DOP_OK)
            st = dop_head_create(rows[i].sequence, diag);
    }
    const double start = dop_now_ms();
    while (st == DOP_OK && b->n_left > 0)
        st = run_step(b, diag);
    *out_ms = dop_now_ms() - start;
    if (st == DOP_OK)
        st = keep_batch_text(b, diag);
    if (st == DOP_OK && !b->plain)
        b->model->drift.policy = b->policy;
    dop_head_destroy(plan->sequence);
error:
    for (uint32_t i = 1; i < n; i++)
        dop_sequence_destroy(rows[i].sequence);
    const bool again = st == DOP_OK && b->plain; /* repeat with drafts: the draft policy learns from this test */
    if (b)
        free(b->text);
    free(b);
    return again ? dop_bench_batch_drafts(plan, test, ids, 0, diag, out_ms) : st;
}
