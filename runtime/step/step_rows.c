/* Steps of rows that the caller chooses, and later commits or rolls back (step_ahead.c). */
#include "runtime/step/step_rows.h"
#include "plan/plan_names.h"
#include "runtime/model/model_used.h"
#include "runtime/model/ordering.h"
#include "runtime/model/ordering_rows.h"
#include "runtime/parts/lead/ranks.h"
#include "runtime/step/features.h"
#include "runtime/step/sequence.h"
#include "runtime/step/sequence_mask.h"
#include "runtime/step/sequence_pages.h"
#include "runtime/step/step.h"
#include "runtime/step/step_ahead.h"

#include <stdlib.h>
#include <string.h>

/* Returns the smallest schedule for n rows of one sequence. Schedules for rows of several sequences also qualify. */
static uint32_t
smallest_of_one(const dop_model *m, bool inner, uint32_t n)
{
    uint32_t best = dop_model_schedule_for(m, inner ? DOP_SCHED_SCORE : DOP_SCHED_PREFILL, n);
    uint32_t rows = inner ? dop_model_schedule_for(m, DOP_SCHED_ROWS, n) : UINT32_MAX;
    if (best == UINT32_MAX ||
        (rows != UINT32_MAX && m->plan.schedules[rows].max_rows < m->plan.schedules[best].max_rows))
        best = rows;
    return best;
}

static uint32_t
count_most_rows(const dop_model *m, uint32_t kind)
{
    uint32_t n;
    const uint32_t *of = dop_used_of(&m->used, kind, DOP_ORDER_BARRIERS, &n);
    return n > 0 ? m->plan.schedules[of[n - 1]].max_rows : 1; /* decode runs one row of every kind */
}

uint32_t
dop_model_max_rows(const dop_model *model, bool inner_rows_want)
{
    uint32_t most = count_most_rows(model, inner_rows_want ? DOP_SCHED_SCORE : DOP_SCHED_PREFILL);
    uint32_t rows = inner_rows_want ? count_most_rows(model, DOP_SCHED_ROWS) : 1;
    return rows > most ? rows : most;
}

uint32_t
dop_model_max_rows_of_several(const dop_model *model)
{
    return count_most_rows(model, DOP_SCHED_ROWS);
}

static bool
is_alive(const dop_model *m, const dop_sequence *s)
{
    for (uint32_t i = 0; i < m->plan.model->n_sequences && s; i++)
        if (m->sequences[i] == s)
            return true;
    return false;
}

/* Resolves DOP_WANTS_DRAW: the device draws for the last row of a sequence if it can; otherwise the host gets the
 * logits. */
static void
choose_draws(dop_model *m, uint32_t n)
{
    dop_open_step *o = &m->step;
    for (uint32_t k = 0; k < o->n_sequences; k++)
        o->of[k].sequence->drawn = false;
    for (uint32_t i = 0; i < n; i++) {
        dop_sequence *s = o->of[o->slot[i]].sequence;
        if (o->wants[i] & DOP_WANTS_DRAW) {
            const bool last = o->number[i] + 1 == o->of[o->slot[i]].n, host = (o->wants[i] & DOP_WANTS_LOGITS);
            const uint32_t wants = last && !host ? dop_sequence_wants(s) : (uint32_t)DOP_WANTS_LOGITS;
            o->wants[i] &= (uint8_t)~DOP_WANTS_DRAW;
            o->wants[i] |= wants == DOP_WANTS_LOGITS ? DOP_WANTS_LOGITS : DOP_WANTS_PICK;
            /* otherwise the device takes the largest logit */
            s->drawn = wants == DOP_WANTS_DRAW && s->sampler.params.temperature > 1e-6f;
        }
        if (s->masked && m->ranks && (o->wants[i] & DOP_WANTS_PICK))
            o->wants[i] |= DOP_WANTS_LOGITS;
    }
}

/* Groups the rows of a new step by sequence, and chooses where to pick. */
static dop_status
open_step(dop_model *m, const dop_step_row *rows, uint32_t n, dop_diag *diag)
{
    dop_open_step *o = &m->step;
    if (n == 0)
        return DOP_FAIL(diag, DOP_E_INPUT, "a step without rows");
    if (n > DOP_STEP_MAX_ROWS)
        return DOP_FAIL(diag, DOP_E_INPUT, "a step of %u rows: %d is the most", n, DOP_STEP_MAX_ROWS);
    o->n_sequences = 0;
    o->run = (dop_issue){.schedule = UINT32_MAX};
    for (uint32_t i = 0; i < n; i++) {
        uint32_t k = 0;
        if (!is_alive(m, rows[i].sequence))
            return DOP_FAIL(diag, DOP_E_INPUT, "row %u is of no sequence of this model", i);
        if (rows[i].token >= m->plan.model->vocab && !dop_features_has(m, rows[i].token))
            return DOP_FAIL(diag, DOP_E_INPUT, "token id %u is outside the vocabulary of %u", rows[i].token,
                            m->plan.model->vocab);
        while (k < o->n_sequences && o->of[k].sequence != rows[i].sequence)
            k++;
        if (k == o->n_sequences) {
            o->of[o->n_sequences++] =
                (dop_sequence_rows){.sequence = rows[i].sequence, .pos = rows[i].sequence->n_tokens};
        }
        o->slot[i] = k;
        o->number[i] = o->of[k].n++;
        o->wants[i] = (uint8_t)rows[i].wants;
        o->logits[i] = NULL;
        o->picks[i] = UINT32_MAX;
    }
    choose_draws(m, n);
    return DOP_OK;
}

/* Writes the sampling parameters of drawn rows to the device. Nothing may be in flight. */
static void
write_ways(dop_model *m)
{
    const dop_open_step *o = &m->step;
    uint8_t *step = dop_memory_host(&m->memory, m->plan.step_slot);
    for (uint32_t k = 0; k < o->n_sequences; k++) {
        const dop_sequence *s = o->of[k].sequence;
        const dop_row_way way = dop_sequence_way(s);
        if (s->drawn)
            memcpy(step + dop_plan_way_offset(&m->plan, s->place), &way, sizeof way);
    }
}

/* True if a row of sequence k that is not its last requests a result. */
static bool
inner_wants(const dop_open_step *o, uint32_t n, uint32_t k)
{
    for (uint32_t i = 0; i < n; i++)
        if (o->slot[i] == k && o->number[i] + 1 < o->of[k].n && o->wants[i])
            return true;
    return false;
}

static dop_status
too_many(uint32_t n, const char *what, uint32_t most, dop_diag *diag)
{
    return DOP_FAIL(diag, DOP_E_INPUT, "a step of %u rows%s: this plan's schedules take at most %u", n, what, most);
}

/* True if all rows request at most picks, and the schedule makes them. */
static bool
picks_suffice(const dop_model *m, uint32_t n, uint32_t schedule)
{
    for (uint32_t i = 0; i < n; i++)
        if (m->step.wants[i] & DOP_WANTS_LOGITS)
            return false;
    return m->plan.schedules[schedule].greedy == DOP_PICKS_EACH && (m->step.n_sequences > 1 || !m->plan.replaces);
}

/* Chooses the schedule that holds all rows. UINT32_MAX: each sequence needs its own replay
 * (choose_sequence_schedule). */
static dop_status
choose_step_schedule(dop_model *m, const dop_step_row *rows, uint32_t n, dop_diag *diag, uint32_t *out_together)
{
    dop_open_step *o = &m->step;
    const uint32_t most = dop_model_max_rows_of_several(m);
    *out_together = UINT32_MAX;
    /* reset at the beginning of a text, as in dop_sequence_feed */
    for (uint32_t k = 0; k < o->n_sequences; k++)
        m->orders.keeps = m->orders.keeps && o->of[k].pos > 0;
    o->run.continued = dop_step_may_continue(m, rows, n);
    if (n == 1 && o->run.continued && m->plan.schedules[m->info.decode].greedy == DOP_PICKS_NEXT) {
        const uint32_t pos = rows[0].sequence->n_tokens;
        dop_status st = dop_model_probe_at(m, pos, diag);
        *out_together = dop_step_decode_at(m, pos, 1);
        return st;
    }
    if (o->n_sequences > 1 && most > 1) {
        *out_together = dop_model_schedule_for(m, DOP_SCHED_ROWS, n);
        return *out_together != UINT32_MAX ? DOP_OK : too_many(n, " of several sequences", most, diag);
    }
    for (uint32_t k = 0; k < o->n_sequences; k++) {
        const bool inner = inner_wants(o, n, k);
        if (o->of[k].n > dop_model_max_rows(m, inner))
            return too_many(o->of[k].n, inner ? " that want logits" : "", dop_model_max_rows(m, inner), diag);
    }
    return DOP_OK;
}

/* Returns the schedule for the rows of sequence k alone. */
static uint32_t
choose_sequence_schedule(const dop_model *m, uint32_t n, uint32_t k)
{
    const dop_open_step *o = &m->step;
    const bool inner = inner_wants(o, n, k);
    /* Picks of several rows of one sequence do not need logits on the host. */
    const uint32_t rows = o->n_sequences == 1 && inner ? dop_model_schedule_for(m, DOP_SCHED_ROWS, n) : UINT32_MAX;
    if (rows != UINT32_MAX && picks_suffice(m, n, rows))
        return rows;
    return o->of[k].n == 1 ? dop_step_decode_at(m, o->of[k].pos, 1) : smallest_of_one(m, inner, o->of[k].n);
}

dop_status
dop_step_prepare_model(dop_model *model, dop_diag *diag)
{
    dop_model *m = model;
    dop_open_step *o = &m->step;
    m->pictures.taken = dop_model_features_depth(m) > 0;
    if (m->plan.model->n_sequences == 1 || dop_model_max_rows_of_several(m) > 1)
        return DOP_OK; /* a single replay: logits can be read in place */
    o->cap_kept = (size_t)m->plan.model->n_sequences + dop_model_max_rows(m, true);
    o->kept = malloc(o->cap_kept * m->plan.model->vocab * sizeof *o->kept);
    return o->kept ? DOP_OK : DOP_NO_MEMORY(diag);
}

/* Checks that the copies of logits fit if several replays are needed. */
static dop_status
check_room_for_logits(const dop_model *m, uint32_t n, uint32_t together, dop_diag *diag)
{
    const dop_open_step *o = &m->step;
    size_t need = 0;
    for (uint32_t i = 0; i < n; i++)
        need += o->wants[i] != 0;
    if (o->n_sequences == 1 || together != UINT32_MAX || need <= o->cap_kept)
        return DOP_OK;
    return DOP_FAIL(
        diag, DOP_E_INPUT,
        "%zu rows of several sequences want logits or picks: this plan, which has no schedule for such steps, "
        "keeps at most %zu",
        need, o->cap_kept);
}

/* Rows of sequences [first, end) of m->step, run in one replay. */
typedef struct group {
    uint32_t first, end, n; /* n: rows of the whole step */
    uint32_t wants, last;   /* DOP_WANTS_* of all rows combined, and of the last row */
} group;

static bool
has_row(const dop_open_step *o, const group *x, uint32_t i)
{
    return o->slot[i] >= x->first && o->slot[i] < x->end;
}

static group
make_row_group(const dop_open_step *o, uint32_t first, uint32_t end, uint32_t n)
{
    group x = {.first = first, .end = end, .n = n};
    for (uint32_t i = 0; i < n; i++)
        if (has_row(o, &x, i))
            x.wants |= x.last = o->wants[i];
    return x;
}

/* Sets the first row of each sequence: dop_step_issue writes the sequences one after another. */
static void
number_rows(dop_open_step *o, group x)
{
    for (uint32_t k = x.first, row = 0; k < x.end; row += o->of[k++].n)
        o->first[k] = row;
}

/* Submits the rows, grouped by sequence. If the device continues by itself, also submits the following step before
 * waiting for this one. */
static dop_status
submit_group(dop_model *m, group x, uint32_t schedule, dop_diag *diag)
{
    dop_open_step *o = &m->step;
    const dop_plan_schedule *s = &m->plan.schedules[schedule];
    number_rows(o, x);
    o->by_device = s->greedy == DOP_PICKS_NEXT ? x.last == DOP_WANTS_PICK : picks_suffice(m, x.n, schedule);
    o->run.continued = o->run.continued && o->by_device && x.end - x.first == o->n_sequences;
    o->run.schedule = schedule;
    /* Persistent schedules have no form without logits. */
    o->run.form = x.wants && o->by_device                        ? DOP_FORM_FULL
                  : x.wants || s->ordering != DOP_ORDER_BARRIERS ? DOP_FORM_READ
                                                                 : DOP_FORM_BODY;
    DOP_RETURN_IF_ERROR(dop_step_issue(m, o->of + x.first, x.end - x.first, &o->run, diag));
    o->continues = o->run.continued;
    if (!m->plan.replaces)
        dop_step_continue_rows(m, x.n);
    return DOP_OK;
}

/* Returns the device's pick for row r of the step. */
static uint32_t
pick_at(const dop_model *m, const dop_sequence *s, uint32_t r)
{
    const dop_issue *run = &m->step.run;
    const volatile uint32_t *ids = dop_replay_step(&m->replay)->ids;
    if (m->plan.schedules[run->schedule].greedy == DOP_PICKS_NEXT)
        return ids[(run->pick_end - 1) % DOP_STEP_RING];
    return ids[run->continued ? s->n_tokens % DOP_STEP_TURNS * DOP_STEP_MAX_SEQUENCES + r : r];
}

/* Collects the picks and logits of the rows after all parts have run them. io_kept: buffer for logits if there are
 * several replays. */
static void
find_row_results(dop_model *m, group x, float **io_kept)
{
    dop_open_step *o = &m->step;
    const dop_plan_schedule *s = &m->plan.schedules[o->run.schedule];
    const float *logits = dop_model_logits(m, o->run.schedule);
    const bool each = s->greedy == DOP_PICKS_EACH && o->n_sequences > 1 && !m->ranks, one = dop_plan_logit_rows(s) == 1;
    const size_t vocab = m->plan.model->vocab;
    for (uint32_t i = 0; i < x.n; i++) {
        const uint32_t r = o->first[o->slot[i]] + o->number[i];
        if (!has_row(o, &x, i) || !o->wants[i])
            continue;
        if (o->by_device || (each && !(o->wants[i] & DOP_WANTS_LOGITS))) {
            o->picks[i] = pick_at(m, o->of[o->slot[i]].sequence, r);
            continue;
        }
        o->logits[i] = logits + (one ? 0 : r * vocab);
        if (x.end - x.first == o->n_sequences)
            continue;
        o->logits[i] = memcpy(*io_kept, o->logits[i], vocab * sizeof **io_kept);
        *io_kept += vocab;
    }
    dop_step_drop_rest(m);
}

/* Finishes a submitted replay, including one that was already in flight. */
static dop_status
collect_group(dop_model *m, group x, float **io_kept, dop_diag *diag)
{
    dop_open_step *o = &m->step;
    const uint32_t schedule = o->run.schedule;
    dop_status st = dop_step_collect(m, o->of + x.first, x.end - x.first, &o->run, diag);
    if (o->run.schedule != schedule) { /* it stalled and was repeated */
        o->continues = false;
        number_rows(o, x);
    }
    if (st == DOP_OK)
        find_row_results(m, x, io_kept);
    return st;
}

static dop_status
run_group(dop_model *m, group x, uint32_t schedule, float **io_kept, dop_diag *diag)
{
    uint32_t best = schedule;
    dop_status st = x.wants && (m->step.n_sequences > 1 || picks_suffice(m, x.n, schedule))
                        ? dop_model_order_rows(m, schedule, diag, &best)
                        : DOP_OK;
    m->orders.last_rows = best != schedule ? best : UINT32_MAX;
    if (st == DOP_OK)
        st = submit_group(m, x, best, diag);
    if (st == DOP_E_FULL && best != schedule) { /* the persistent schedule may write one more position */
        dop_diag_clear(diag);
        st = submit_group(m, x, schedule, diag);
    }
    return st == DOP_OK ? collect_group(m, x, io_kept, diag) : st;
}

/* Checks that requested results are finite. */
static dop_status
check_finite_results(const dop_model *m, uint32_t n, dop_diag *diag)
{
    const dop_open_step *o = &m->step;
    for (uint32_t i = 0; i < n; i++) {
        const dop_sequence *s = o->of[o->slot[i]].sequence;
        bool finite = true;
        if (o->wants[i] & DOP_WANTS_UNCHECKED)
            continue;
        if (o->logits[i])
            finite = dop_logits_largest(o->logits[i], m->plan.model->vocab) != UINT32_MAX;
        else if (o->wants[i])
            finite = o->picks[i] < m->plan.model->vocab;
        if (!finite)
            return dop_step_not_finite(m, s->n_tokens + o->number[i], diag);
    }
    return DOP_OK;
}

/* Prepares the sequences of a step: feeds missing tokens, reserves pages for the new rows and appends their tokens.
 * together: result of choose_step_schedule. */
static dop_status
prepare_step_rows(dop_model *m, const dop_step_row *rows, uint32_t n, uint32_t together, dop_diag *diag)
{
    dop_open_step *o = &m->step;
    dop_status st = dop_step_drain(m, diag);
    for (uint32_t k = 0; k < o->n_sequences && st == DOP_OK; k++)
        st = dop_sequence_check_room(o->of[k].sequence, o->of[k].n, diag);
    for (uint32_t k = 0; k < o->n_sequences && st == DOP_OK; k++) {
        dop_sequence *s = o->of[k].sequence;
        st = dop_sequence_catch_up(s, diag);
        uint32_t end = s->n_tokens + o->of[k].n;
        if (together != UINT32_MAX)
            end = dop_sequence_end(s, together, end);
        if (st == DOP_OK)
            st = dop_sequence_reserve(s, s->n_tokens, end, diag);
    }
    for (uint32_t k = 0; k < o->n_sequences && st == DOP_E_FULL; k++)
        dop_sequence_trim(o->of[k].sequence);
    for (uint32_t i = 0; i < n && st == DOP_OK; i++) {
        dop_sequence *s = rows[i].sequence;
        s->tokens[s->n_tokens + o->number[i]] = rows[i].token;
        s->logits = NULL;
    }
    return st;
}

/* Runs a step that is not in flight: feeds the missing tokens, then the rows. */
static dop_status
run_rows(dop_model *m, const dop_step_row *rows, uint32_t n, dop_diag *diag)
{
    dop_open_step *o = &m->step;
    float *kept = o->kept;
    uint32_t together;
    dop_status st = dop_step_drain(m, diag);
    o->continues = false;
    if (st == DOP_OK)
        write_ways(m);
    if (st != DOP_OK || (st = choose_step_schedule(m, rows, n, diag, &together)) != DOP_OK ||
        (st = check_room_for_logits(m, n, together, diag)) != DOP_OK ||
        (st = prepare_step_rows(m, rows, n, together, diag)) != DOP_OK)
        return st;
    if (together != UINT32_MAX)
        return run_group(m, make_row_group(o, 0, o->n_sequences, n), together, &kept, diag);
    for (uint32_t k = 0; k < o->n_sequences && st == DOP_OK; k++)
        st = run_group(m, make_row_group(o, k, k + 1, n), choose_sequence_schedule(m, n, k), &kept, diag);
    return st;
}

dop_status
dop_step_run(dop_model *model, const dop_step_row *rows, uint32_t n_rows, dop_diag *diag)
{
    dop_diag_clear(diag);
    DOP_DRIVE(model, diag);
    dop_model *m = model;
    dop_status st = dop_step_none_open(m, diag);
    if (st != DOP_OK)
        return st;
    st = open_step(m, rows, n_rows, diag);
    if (st == DOP_OK && dop_step_is_ahead(m, rows, n_rows)) {
        dop_step_take_ahead(m, n_rows);
        st = collect_group(m, make_row_group(&m->step, 0, m->step.n_sequences, n_rows), NULL, diag);
    } else if (st == DOP_OK) {
        st = run_rows(m, rows, n_rows, diag);
    }
    if (st == DOP_OK)
        st = check_finite_results(m, n_rows, diag);
    if (st == DOP_OK)
        m->step.n_rows = n_rows;
    else
        dop_step_rollback(m);
    return st;
}

/* --- steps in flight ------------------------------------------------------------------------------------------------- */

uint32_t
dop_step_groups(const dop_model *model, uint32_t n_rows)
{
    const uint32_t most = model->ranks ? model->ranks->wire->n : 1;
    if (model->ranks == NULL || dop_model_max_rows_of_several(model) == 1)
        return 1;
    return n_rows < most ? n_rows : most < DOP_RANKS_AHEAD ? most : DOP_RANKS_AHEAD;
}

/* Checks the sequences of m->step: nothing needs feeding first, and no other step has them. */
static dop_status
check_start(const dop_model *m, dop_diag *diag)
{
    const dop_open_step *o = &m->step;
    for (uint32_t k = 0; k < o->n_sequences; k++) {
        const dop_sequence *s = o->of[k].sequence;
        if (s->n_fed != s->n_tokens)
            return DOP_FAIL(diag, DOP_E_USAGE,
                            "a sequence of a step that is started has %u tokens and %u in its states", s->n_tokens,
                            s->n_fed);
        DOP_RETURN_IF_ERROR(dop_step_none_has(m, s, diag));
    }
    return DOP_OK;
}

/* Chooses a schedule with barriers, because the result of a persistent dispatch must be checked before anything else
 * runs. */
static dop_status
choose_start(const dop_model *m, uint32_t n, dop_diag *diag, uint32_t *out_schedule)
{
    const dop_open_step *o = &m->step;
    uint32_t most = dop_model_max_rows_of_several(m);
    *out_schedule = dop_model_schedule_for(m, DOP_SCHED_ROWS, n);
    if (o->n_sequences == 1 && n == 1) {
        *out_schedule = m->orders.decode[DOP_ORDER_BARRIERS];
    } else if (o->n_sequences == 1 && !inner_wants(o, n, 0)) {
        *out_schedule = dop_model_schedule_for(m, DOP_SCHED_PREFILL, n);
        most = dop_model_max_rows(m, false);
    }
    return *out_schedule != UINT32_MAX ? DOP_OK : too_many(n, " of several sequences", most, diag);
}

dop_status
dop_step_start(dop_model *model, const dop_step_row *rows, uint32_t n_rows, dop_diag *diag)
{
    dop_model *m = model;
    dop_ranks *r = m->ranks;
    if (!r || m->step.n_rows || r->n_started == DOP_RANKS_AHEAD)
        return DOP_FAIL(diag, DOP_E_USAGE, "no step can be started now");
    dop_open_step **to = &r->started[(r->first_started + r->n_started) % DOP_RANKS_AHEAD];
    uint32_t schedule = UINT32_MAX;
    dop_status st = open_step(m, rows, n_rows, diag);
    if (st == DOP_OK && (st = choose_start(m, n_rows, diag, &schedule)) == DOP_OK &&
        (st = check_start(m, diag)) == DOP_OK && (st = prepare_step_rows(m, rows, n_rows, UINT32_MAX, diag)) == DOP_OK)
        st = submit_group(m, make_row_group(&m->step, 0, m->step.n_sequences, n_rows), schedule, diag);
    if (st == DOP_OK)
        st = dop_step_pass(m, m->step.run.ticket, diag);
    if (st != DOP_OK) {
        dop_step_rollback(m);
        return st;
    }
    **to = m->step;
    (*to)->n_rows = n_rows;
    m->step.n_sequences = 0;
    r->n_started++;
    return DOP_OK;
}

dop_status
dop_step_end(dop_model *model, dop_diag *diag)
{
    dop_model *m = model;
    dop_ranks *r = m->ranks;
    if (!r || m->step.n_rows || r->n_started == 0)
        return DOP_FAIL(diag, DOP_E_USAGE, "no step is under way");
    m->step = *r->started[r->first_started];
    r->first_started = (r->first_started + 1) % DOP_RANKS_AHEAD;
    r->n_started--;
    dop_open_step *o = &m->step;
    dop_status st = DOP_OK;
    DOP_TRY(dop_step_take(m, diag));
    dop_step_collected(m, o->of, o->n_sequences, &o->run);
    find_row_results(m, make_row_group(o, 0, o->n_sequences, o->n_rows), NULL);
    DOP_TRY(check_finite_results(m, o->n_rows, diag));
error:
    if (st != DOP_OK)
        dop_step_rollback(m);
    return st;
}

const float *
dop_step_logits(const dop_model *model, uint32_t row)
{
    const dop_open_step *o = &model->step;
    return row < o->n_rows ? o->logits[row] : NULL;
}

uint32_t
dop_step_pick(const dop_model *model, uint32_t row)
{
    const dop_open_step *o = &model->step;
    if (row >= o->n_rows || !(o->wants[row] & DOP_WANTS_PICK))
        return UINT32_MAX;
    const float *logits = o->logits[row];
    if (logits && o->number[row] + 1 == o->of[o->slot[row]].n)
        return dop_sequence_largest(o->of[o->slot[row]].sequence, logits);
    return logits ? dop_logits_largest(logits, model->plan.model->vocab) : o->picks[row];
}

dop_status
dop_step_sample(dop_model *model, uint32_t row, dop_diag *diag, uint32_t *out_id)
{
    dop_diag_clear(diag);
    dop_open_step *o = &model->step;
    const bool last = row < o->n_rows && o->number[row] + 1 == o->of[o->slot[row]].n;
    const dop_sequence *of = row < o->n_rows ? o->of[o->slot[row]].sequence : NULL;
    if (of && !of->pick && !dop_sampling_can_pick(&of->sampler.params))
        return DOP_FAIL(diag, DOP_E_USAGE, DOP_SAMPLING_ODD);
    if (last && o->picks[row] != UINT32_MAX && !(o->wants[row] & DOP_WANTS_LOGITS)) {
        *out_id = o->picks[row];
        return DOP_OK;
    }
    if (row >= o->n_rows || !o->logits[row])
        return DOP_FAIL(diag, DOP_E_INPUT, "row %u has no logits to pick from: it is to want them", row);
    dop_sequence *s = o->of[o->slot[row]].sequence;
    size_t n = s->n_tokens + o->number[row] + 1;
    if (s->pick)
        return dop_sequence_own_pick(s, o->logits[row], n, diag, out_id);
    *out_id = dop_sampler_pick(&s->sampler, last ? dop_sequence_masked(s, o->logits[row]) : o->logits[row], s->tokens,
                               n, NULL);
    return DOP_OK;
}
