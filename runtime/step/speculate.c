#include "runtime/step/speculate.h"
#include "runtime/model/model_used.h"
#include "runtime/model/ordering_rows.h"
#include "runtime/step/heads.h"
#include "runtime/step/sequence.h"
#include "runtime/step/sequence_states.h"
#include "runtime/step/speculator.h"
#include "runtime/step/step.h"
#include "runtime/step/step_ahead.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A pick is ambiguous if the margin between the two best logits is smaller than this multiple of the largest difference
 * seen between schedules. Differences of single ids are a few times smaller than the maximum over a vocabulary. */
static const double doubt = 1.25;
/* Until FIRST_COMPARED rows are compared, picks with a margin below at_first standard deviations are also ambiguous. In
 * addition, one round in COMPARED_OF is verified even if no pick is ambiguous. With activations rounded to 8 bits, two
 * schedules agree to the last bits in some steps, and differ by a tenth of the deviation in others. */
enum { FIRST_COMPARED = 3, COMPARED_OF = 64 };
static const double at_first = 0.25;

void
dop_speculation_policy(const dop_model *model, dop_draft_policy *out)
{
    const dop_model *m = model;
    uint32_t rows[DOP_DRAFT_SIZES], n = 0, n_of;
    const uint32_t *of = dop_used_of(&m->used, DOP_SCHED_ROWS, DOP_ORDER_BARRIERS, &n_of);
    for (uint32_t i = 0; i < n_of && n < DOP_DRAFT_SIZES; i++)
        if (m->plan.schedules[of[i]].max_rows > 1)
            rows[n++] = m->plan.schedules[of[i]].max_rows;
    dop_draft_policy_init(out, rows, n);
    dop_draft_policy_follow(out, &m->drift.policy);
}

static dop_status
check_how(const dop_sequence *s, const dop_speculation *how, dop_diag *diag)
{
    const dop_model *m = s->model;
    if (how->draft == s || (how->draft && how->draft->model == m))
        return DOP_FAIL(diag, DOP_E_INPUT, "drafts come from a sequence of another model");
    if (how->draft && how->draft->model->plan.model->vocab != m->plan.model->vocab)
        return DOP_FAIL_IN(diag, DOP_E_INPUT, how->draft->model->plan.path,
                           "the draft model has a vocabulary of %u tokens and the model one of %u: they must have the "
                           "same tokenizer",
                           how->draft->model->plan.model->vocab, m->plan.model->vocab);
    if (how->own && !dop_model_drafts(m))
        return DOP_FAIL_IN(diag, DOP_E_INPUT, m->plan.path, "the plan has no layer that drafts");
    if (dop_model_schedule_for(m, DOP_SCHED_ROWS, 2) == UINT32_MAX)
        return DOP_FAIL_IN(diag, DOP_E_INPUT, m->plan.path,
                           "the plan has no schedule for a few rows with logits of each, which drafts need: compile it "
                           "with `rows` 2,4,8");
    return DOP_OK;
}

dop_status
dop_sequence_set_speculation(dop_sequence *sequence, const dop_speculation *how, dop_diag *diag)
{
    dop_diag_clear(diag);
    dop_sequence *s = sequence;
    uint32_t vocab = s->model->plan.model->vocab;
    dop_status st = how ? check_how(s, how, diag) : DOP_OK;
    if (st != DOP_OK)
        return st;
    dop_speculator_end(s);
    s->undrafted = !how;
    if (!how || !how->own)
        dop_head_destroy(s);
    if (!how)
        return DOP_OK;
    if (how->own && (st = dop_head_create(s, diag)) != DOP_OK)
        return st;
    dop_speculator *p = calloc(1, sizeof *p);
    if (!p)
        return DOP_NO_MEMORY(diag);
    *p = (dop_speculator){.how = *how, .ahead = UINT32_MAX, .now_ms = dop_now_ms};
    dop_speculation_policy(s->model, &p->policy);
    uint32_t most = dop_model_max_rows_of_several(s->model) - 1;
    p->most = how->most && how->most < most ? how->most : most;
    p->most = p->most < DOP_MAX_DRAFTS ? p->most : DOP_MAX_DRAFTS;
    p->row = calloc(vocab, sizeof *p->row);
    st = p->row ? DOP_OK : DOP_NO_MEMORY(diag);
    if (st == DOP_OK && how->ngram)
        st = dop_ngrams_init(&p->ngrams, how->ngram, s->model->plan.model->ctx, diag);
    if (st != DOP_OK) {
        dop_speculator_destroy(p);
        return st;
    }
    s->speculator = p;
    return DOP_OK;
}

dop_status
dop_sequence_draft_by_default(dop_sequence *sequence, dop_diag *diag)
{
    const dop_model *m = sequence->model;
    const dop_speculation own = {.own = true};
    if (sequence->speculator || sequence->undrafted || !dop_model_drafts(m))
        return DOP_OK;
    return dop_sequence_set_speculation(sequence, &own, diag);
}

dop_speculation_counts
dop_sequence_speculation_counts(const dop_sequence *sequence)
{
    return sequence->speculator ? sequence->speculator->counts : (dop_speculation_counts){0};
}

/* --- one round ------------------------------------------------------------------------------------------------------- */

/* Returns the draft count that pays most, within the plan's schedules, the context, and the number of tokens still
 * requested. */
static uint32_t
choose_draft_length(const dop_sequence *s, uint32_t unfed)
{
    const dop_speculator *p = s->speculator;
    uint32_t most = dop_model_max_rows_of_several(s->model) - unfed, room = s->model->plan.model->ctx - s->n_tokens;
    const uint32_t copies = s->model->plan.model->state_copies;
    bool pays;
    if (s->model->plan.replaces && copies > unfed + 1) /* allow one version of the states per row */
        most = most < copies - 1 - unfed ? most : copies - 1 - unfed;
    most = most < p->most ? most : p->most;
    most = most < room ? most : room;
    most = s->wanted == UINT32_MAX || most < s->wanted ? most : s->wanted - 1; /* the last token needs no draft */
    return most > 0 ? dop_draft_policy_length(&p->policy, unfed, most, &pays) : 0;
}

/* Judgement of one row: its pick, and whether it confirms the draft. */
typedef struct verdict {
    bool accepted;
    bool given; /* a token was picked; false: the pick is ambiguous, or the logits are not finite */
    uint32_t id;
} verdict;

/* Rows of a round whose picks are judged. */
typedef struct judged {
    const float *logits; /* [rows of the step, vocab] */
    uint32_t first;      /* row of the first pick */
    uint32_t schedule;
    bool by_device; /* the step record has the picks; the host has no logits */
} judged;

static double
find_deviation(const float *x, uint32_t n)
{
    double sum = 0, squares = 0;
    for (uint32_t i = 0; i < n; i++) {
        sum += (double)x[i];
        squares += (double)x[i] * (double)x[i];
    }
    return sqrt(fmax(squares / n - sum / n * (sum / n), 0));
}

/* True if the first row of this round is verified with a single-token step, even if its pick is not ambiguous. */
static bool
compares_round(const dop_speculator *p)
{
    return p->counts.steps % COMPARED_OF == COMPARED_OF - 1;
}

/* True if a single-token step would certainly make the same pick. margin: difference between the two best logits of the
 * row. */
static bool
is_certain(dop_sequence *s, const float *row, float margin)
{
    dop_drift *d = &s->model->drift;
    double least = doubt * d->apart;
    if (d->n_compared < FIRST_COMPARED) {
        /* computed once, because it takes longer than the pick */
        d->spread = d->spread > 0 ? d->spread : find_deviation(row, s->model->plan.model->vocab);
        least = fmax(least, at_first * d->spread);
    }
    return !compares_round(s->speculator) && (double)margin > least;
}

/* True if the device picks from the rows of a round. False if the host needs logits: to verify a row, or to measure the
 * standard deviation. */
static bool
device_judges(const dop_sequence *s, uint32_t schedule)
{
    const dop_model *m = s->model;
    return dop_sequence_wants(s) == DOP_WANTS_PICK && !m->ranks && m->drift.spread > 0 &&
           !compares_round(s->speculator) && m->plan.schedules[schedule].greedy == DOP_PICKS_EACH;
}

/* Judges row i. A draft is accepted if the pick is the same token. The noise of a draw depends only on the seed, the
 * position and the id. A draft model with the same seed therefore draws the same token where the distributions agree
 * (Daliri et al. 2024, https://arxiv.org/abs/2408.07978), and the text does not depend on the drafts. */
static dop_status
judge_row(dop_sequence *s, const judged *rows, uint32_t i, dop_diag *diag, verdict *out)
{
    const float *row = rows->logits + (size_t)(rows->first + i) * s->model->plan.model->vocab;
    dop_speculator *p = s->speculator;
    const uint32_t vocab = s->model->plan.model->vocab;
    dop_status st = DOP_OK;
    float margin;
    *out = (verdict){.accepted = false};
    if (rows->by_device) {
        const volatile dop_step *step = dop_replay_step(&s->model->replay);
        const uint32_t bits = step->margins[rows->first + i];
        out->id = step->ids[rows->first + i];
        if (out->id >= vocab)
            return DOP_OK;
        memcpy(&margin, &bits, sizeof margin);
        out->given = is_certain(s, NULL, margin);
        if (!out->given)
            st = dop_replay_fetch_logits(&s->model->replay, rows->schedule, rows->first + i, diag);
    } else if (s->pick) {
        if (dop_logits_largest(row, vocab) == UINT32_MAX)
            return DOP_OK;
        st = dop_sequence_own_pick(s, row, s->n_tokens + i, diag, &out->id);
        out->given = true;
    } else {
        out->id = dop_sampler_pick(&s->sampler, row, s->tokens, s->n_tokens + i, &margin);
        if (s->sampler.bad)
            return DOP_OK;
        out->given = is_certain(s, row, margin);
    }
    if (!out->given && st == DOP_OK) {
        p->again = true;
        memcpy(p->row, row, vocab * sizeof *row);
        p->row_at = s->n_tokens - 1 + i;
    }
    out->accepted = st == DOP_OK && out->given && i < p->n_drafts && out->id == p->drafts[i];
    return st;
}

/* Sets the states to those after the first `right` of n rows. If replaced states have no version in between, they
 * return to those before the step. */
static void
keep_states(dop_sequence *s, uint32_t schedule, uint32_t first, uint32_t n, uint32_t right)
{
    const uint32_t versions = dop_step_versions(s->model, schedule, n), kept = versions == n ? right : 0;
    s->n_fed = first + right;
    if (right == n || !s->model->plan.replaces)
        return;
    dop_step_move_states(s->model, s->place, (int32_t)kept - (int32_t)versions);
    s->n_fed = first + kept;
    dop_sequence_kept(s, kept > 0 ? first + kept - 1 : UINT32_MAX, kept > 0 ? kept - 1 : 0);
}

/* Chooses the schedules of a round of n rows: with barriers, and in the best ordering, which may run a probe. */
static dop_status
choose_round_schedule(dop_model *m, uint32_t n, dop_diag *diag, uint32_t *out_barriers, uint32_t *out_best)
{
    *out_barriers = dop_model_schedule_for(m, DOP_SCHED_ROWS, n);
    if (*out_barriers == UINT32_MAX)
        return DOP_FAIL(diag, DOP_E_INTERNAL, "a round of %u rows", n);
    return dop_model_order_rows(m, *out_barriers, diag, out_best);
}

/* Runs a round: the unfed tokens together with the drafts, which it then judges. Sets tokens[n_tokens .. known) and all
 * of *round except the times. *out_choosing_ms: time to choose the ordering, including a probe. */
static dop_status
run_draft_round(dop_sequence *s, dop_diag *diag, dop_draft_round *round, double *out_choosing_ms)
{
    dop_speculator *p = s->speculator;
    dop_model *m = s->model;
    uint32_t first = s->n_fed, unfed = s->n_tokens - first, n = unfed + p->n_drafts, accepted = 0, barriers, schedule;
    const double start = p->now_ms();
    dop_status st = choose_round_schedule(m, n, diag, &barriers, &schedule);
    *out_choosing_ms = p->now_ms() - start;
    if (st != DOP_OK)
        return st;
    memcpy(s->tokens + s->n_tokens, p->drafts, p->n_drafts * sizeof *p->drafts);
    const bool by_device = device_judges(s, schedule);
    const dop_form form = by_device ? DOP_FORM_FULL : DOP_FORM_READ;
    st = dop_step_finish(s, n, first, form, &schedule, diag);
    if (st == DOP_E_FULL && schedule != barriers) { /* the persistent schedule may write one more position */
        dop_diag_clear(diag);
        schedule = barriers;
        st = dop_step_finish(s, n, first, form, &schedule, diag);
    }
    if (st != DOP_OK)
        return st;
    const judged rows = {dop_model_logits(m, schedule), unfed - 1, schedule, by_device};
    verdict v = {.accepted = true};
    p->known = s->n_tokens;
    for (uint32_t i = 0; i <= p->n_drafts && v.accepted; i++) {
        st = judge_row(s, &rows, i, diag, &v);
        if (st != DOP_OK || !v.given)
            break;
        accepted += v.accepted;
        s->tokens[p->known++] = v.id;
    }
    p->counts.steps++;
    p->counts.drafted += p->n_drafts;
    p->counts.accepted += accepted;
    round->rows = n;
    round->drafts = p->n_drafts;
    round->accepted = accepted;
    round->doubt = p->again;
    round->judged = !p->again || m->drift.n_compared >= FIRST_COMPARED;
    /* A row without a pick must be run again. */
    keep_states(s, schedule, first, n, unfed + accepted - (v.given && st == DOP_OK ? 0 : 1));
    p->fed = s->n_fed;
    /* other functions must not use tokens that were not returned yet */
    if (!m->plan.replaces && s->n_fed > s->n_tokens)
        s->n_fed = s->n_tokens;
    return st;
}

/* Records how much the logits of the ambiguous row differ from those of a single step. A common offset is subtracted,
 * because it does not change the pick. */
static void
compare_picked_logits(dop_sequence *s)
{
    dop_speculator *p = s->speculator;
    dop_model *m = s->model;
    const float *logits = dop_model_logits(m, dop_step_decode_at(m, p->row_at, 1));
    uint32_t vocab = m->plan.model->vocab;
    double shift = 0, apart = 0;
    for (uint32_t i = 0; i < vocab; i++)
        shift += ((double)logits[i] - (double)p->row[i]) / vocab;
    for (uint32_t i = 0; i < vocab; i++) { /* fmax() in this loop crashes gcc 12 for arm64 at -O3 */
        const double by = fabs((double)logits[i] - (double)p->row[i] - shift);
        apart = by > apart ? by : apart;
    }
    m->drift.apart = fmax(m->drift.apart, apart);
    m->drift.n_compared++;
}

/* Repeats an ambiguous pick with a single-row step, and compares the logits of both steps. */
static dop_status
pick_again(dop_sequence *s, dop_diag *diag, bool *out_taken, uint32_t *out_id)
{
    dop_speculator *p = s->speculator;
    bool same_place = p->row_at + 1 == s->n_tokens;
    p->again = false;
    p->counts.again++;
    dop_status st = dop_sequence_pick_on_host(s, diag, out_id);
    *out_taken = st == DOP_OK;
    if (st != DOP_OK)
        return st;
    s->tokens[s->n_tokens++] = *out_id;
    if (same_place)
        compare_picked_logits(s);
    return DOP_OK;
}

/* --- dop_sequence_next ----------------------------------------------------------------------------------------------- */

/* Returns the next token that a round has made. */
static void
take_known(dop_sequence *s, uint32_t *out_id)
{
    dop_speculator *p = s->speculator;
    *out_id = s->tokens[s->n_tokens++];
    s->n_fed = s->model->plan.replaces || p->fed < s->n_tokens ? p->fed : s->n_tokens;
}

/* True if a round is possible now. If not, the next token comes without drafts, and sets how many steps may run ahead
 * until the next round. */
static bool
is_time(dop_sequence *s)
{
    dop_speculator *p = s->speculator;
    dop_model *m = s->model;
    bool pending = m->flight.continues && !m->flight.by_rows && dop_step_runs(m, s) &&
                   m->flight.picks_asked != m->flight.picks_taken,
         likely = false;
    p->ahead = UINT32_MAX;
    if (p->policy.wait > 0) {
        p->ahead = dop_drafts_unfollowed(s, p->policy.wait--);
        return false;
    }
    likely = s->wanted != 1 && dop_drafts_likely(s);
    if (likely)
        p->ahead = 1;
    return likely && !pending && !s->logits && s->n_tokens < m->plan.model->ctx;
}

/* Makes drafts and runs a round, if there is room for one. */
static dop_status
try_round(dop_sequence *s, dop_diag *diag)
{
    dop_speculator *p = s->speculator;
    dop_draft_round round = {0};
    const double start = p->now_ms();
    dop_status st = dop_step_drain(s->model, diag);
    if (st == DOP_OK && s->n_fed > s->n_tokens)
        st = dop_sequence_go_back(s, s->n_tokens, diag);
    if (st == DOP_OK)
        st = dop_sequence_keep_rings(s, s->n_fed, diag);
    if (st != DOP_OK)
        return st;
    uint32_t unfed = s->n_tokens - s->n_fed, most = dop_model_max_rows_of_several(s->model);
    if (unfed == 0 || unfed >= most) /* the pick was dropped, or the states start again */
        return DOP_OK;
    p->n_drafts = choose_draft_length(s, unfed);
    const dop_pages *pages = &s->model->pages;
    if (dop_pages_missing(pages, s->place, s->n_fed, s->n_tokens + p->n_drafts) > dop_pages_available(pages))
        return DOP_OK; /* a single-token step may still fit */
    const double ready = p->now_ms();
    if (p->n_drafts > 0)
        st = dop_drafts_make(s, p->n_drafts, diag);
    const double drafted = p->now_ms();
    if (st != DOP_OK || (p->n_drafts == 0 && unfed == 1))
        return st;
    double choosing_ms;
    if ((st = run_draft_round(s, diag, &round, &choosing_ms)) != DOP_OK || p->n_drafts == 0)
        return st;
    round.draft_ms = drafted - ready;
    round.step_ms = p->now_ms() - start - round.draft_ms - choosing_ms;
    dop_draft_policy_round(&p->policy, &round);
    return DOP_OK;
}

/* Tries to get the next token by speculation. *out_taken: true if *out_id is set and appended to the sequence. */
static dop_status
speculate_token(dop_sequence *s, dop_diag *diag, bool *out_taken, uint32_t *out_id)
{
    dop_speculator *p = s->speculator;
    *out_taken = false;
    if (p->known > s->n_tokens) {
        take_known(s, out_id);
        *out_taken = true;
        return DOP_OK;
    }
    if (p->again)
        return pick_again(s, diag, out_taken, out_id);
    if (!is_time(s))
        return DOP_OK;
    dop_status st = try_round(s, diag);
    if (st != DOP_OK)
        return st;
    *out_taken = p->known > s->n_tokens;
    if (*out_taken)
        take_known(s, out_id);
    else if (p->again)
        st = pick_again(s, diag, out_taken, out_id);
    return st; /* no token: if the logits are not finite, the step without drafts reports it */
}

dop_status
dop_sequence_next(dop_sequence *sequence, dop_diag *diag, uint32_t *out_id)
{
    dop_diag_clear(diag);
    DOP_DRIVE(sequence->model, diag);
    const bool logprobs = sequence->sampler.params.logprobs;
    dop_speculator *p = sequence->masked || logprobs ? NULL : sequence->speculator;
    bool taken = false, made = sequence->logits; /* feeding computed the logits */
    double start = p ? p->now_ms() : 0;
    dop_status st = dop_sequence_may_pick(sequence, diag);
    if (st == DOP_OK && logprobs && sequence->n_fed > sequence->n_tokens &&
        (st = dop_step_drain(sequence->model, diag)) == DOP_OK)
        st = dop_sequence_settle(sequence, diag); /* drop drafts from before logprobs were requested */
    if (st == DOP_OK && p)
        st = speculate_token(sequence, diag, &taken, out_id);
    if (st == DOP_OK && !taken) {
        st = dop_sequence_pick(sequence, diag, out_id);
        if (st == DOP_OK && p && !made)
            dop_draft_policy_token(&p->policy, p->now_ms() - start);
    }
    if (st == DOP_OK)
        dop_sequence_picked(sequence);
    return st;
}
