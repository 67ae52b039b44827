/* In-flight steps that the device continues by itself; see step_ahead.h.
 *
 * If the rows of dop_step_run are the picks of the last committed step, it submits the following step before it waits
 * for its own. With replaced states it does so only at the commit, because only one step can be undone. The next call
 * finds its rows in flight if the caller continues with the picks. Sequences that the call leaves out are dropped from
 * the in-flight step as if they had never been in it. Any other call drops the whole in-flight step. */
#include "runtime/step/step_ahead.h"
#include "runtime/model/model_load.h"
#include "runtime/model/ordering.h"
#include "runtime/step/sequence_pages.h"
#include "runtime/step/speculator.h"
#include "runtime/step/step.h"

#include <string.h>

/* Minimum number of positions that the sliding windows can lose: two steps, plus one that a stalled step may write. */
enum { LEAST_REWIND = 4 };

bool
dop_step_runs(const dop_model *model, const dop_sequence *sequence)
{
    for (uint32_t i = 0; i < model->flight.n_rows; i++)
        if (model->flight.rows[i].sequence == sequence)
            return true;
    return false;
}

bool
dop_step_rows_run(const dop_model *model)
{
    return model->flight.by_rows && model->flight.n > 0;
}

/* Afterwards the last token may be missing from the states. A stall can have damaged only positions that do not count
 * as fed. */
dop_status
dop_step_drain(dop_model *model, dop_diag *diag)
{
    dop_model *m = model;
    dop_status st = DOP_OK;
    const uint32_t steps = m->flight.n;
    if (steps > 0)
        st = dop_replay_wait(&m->replay, m->flight.steps[steps - 1].ticket, diag);
    m->flight.picks_taken = m->flight.picks_asked;
    const bool rows_stalled = m->flight.by_rows && steps > 0 && (dop_replay_step(&m->replay)->flags & DOP_STEP_STALLED);
    /* The picks of started steps have not been received yet. */
    if (st == DOP_OK && !dop_step_started(m) && (rows_stalled || dop_model_stalled(m, m->flight.picks_asked)))
        return dop_model_fall_back(m, diag);
    m->flight.n = 0;
    m->flight.continues = false;
    for (uint32_t i = 0; i < m->flight.n_rows && st == DOP_OK; i++) {
        dop_sequence *s = m->flight.rows[i].sequence;
        if (m->flight.by_rows && m->step.n_rows == 0)
            dop_sequence_trim(s);
        /* The first in-flight step has fed the last token; a second one wrote to the copy that is not current. */
        if (!m->flight.by_rows && steps > 0 && m->plan.replaces) {
            dop_step_move_states(m, s->place, 1);
            s->n_fed = s->n_tokens;
        }
    }
    m->flight.n_dropped += m->flight.by_rows ? (uint64_t)steps * m->flight.n_rows : 0;
    m->flight.n_rows = 0;
    m->flight.by_rows = false;
    return st;
}

dop_row_way
dop_sequence_way(const dop_sequence *sequence)
{
    const dop_sampling *p = &sequence->sampler.params;
    return (dop_row_way){
        .by = p->temperature > 1e-6f ? 1 / p->temperature : 1,
        .least = dop_sampling_floor(p),
        .top_p = p->top_p > 0 && p->top_p < 1 ? p->top_p : 1,
        .top_k = p->top_p <= 0                                   ? 1
                 : p->top_k < sequence->model->plan.model->vocab ? p->top_k
                                                                 : 0,
        .seed = {(uint32_t)p->seed, (uint32_t)(p->seed >> 32)},
    };
}

/* True if another step may follow the step that writes the sequence's position n_tokens. */
static bool
may_continue(const dop_sequence *s)
{
    const dop_plan_model *p = s->model->plan.model;
    return s->wanted > 1 && s->n_tokens + 2 < p->ctx && !s->masked && !s->speculator && !dop_drafts_follow(s);
}

bool
dop_step_may_continue(const dop_model *model, const dop_step_row *rows, uint32_t n_rows)
{
    const dop_model *m = model;
    const dop_open_step *o = &m->step;
    const uint32_t rewind = m->plan.model->rewind;
    if (m->ranks || m->steps_ahead < 2 || n_rows != o->n_sequences || m->flight.n_commits == 0 ||
        (rewind != DOP_PLAN_NO_RINGS && rewind < LEAST_REWIND))
        return false;
    for (uint32_t i = 0; i < n_rows; i++) {
        const dop_sequence *s = rows[i].sequence;
        if ((o->wants[i] & ~(uint32_t)DOP_WANTS_UNCHECKED) != DOP_WANTS_PICK || s->row_commit != m->flight.n_commits ||
            s->n_fed != s->n_tokens || s->row_pick != rows[i].token || !may_continue(s))
            return false;
    }
    return true;
}

bool
dop_step_has_pages(const dop_model *model, uint32_t schedule, uint32_t n_rows, uint32_t times)
{
    uint32_t missing = 0;
    for (uint32_t r = 0; r < n_rows; r++) {
        const dop_sequence *s = model->flight.rows[r].sequence;
        const uint32_t next = model->flight.rows[r].pos;
        missing += dop_pages_missing(&model->pages, s->place, next, dop_sequence_end(s, schedule, next + times));
    }
    return missing <= dop_pages_available(&model->pages);
}

void
dop_step_pop_ahead(dop_model *model)
{
    dop_in_flight *f = &model->flight;
    f->n--;
    memmove(&f->steps[0], &f->steps[1], f->n * sizeof f->steps[0]);
}

dop_status
dop_step_continue(dop_model *model, uint32_t n_rows, uint32_t times, uint32_t *io_schedule, dop_diag *diag)
{
    dop_in_flight *f = &model->flight;
    dop_issue run = {.schedule = *io_schedule, .form = DOP_FORM_FULL, .times = times, .own = f->continues};
    dop_status st = dop_step_issue(model, f->rows, n_rows, &run, diag);
    *io_schedule = run.schedule;
    if (st != DOP_OK)
        return st;
    for (uint32_t r = 0; r < n_rows; r++) {
        f->rows[r].pos += f->rows[r].n + times - 1;
        f->rows[r].n = 1;
    }
    f->n_rows = n_rows;
    f->continues = true;
    f->steps[f->n].ticket = run.ticket;
    f->steps[f->n++].end = run.pick_end;
    return DOP_OK;
}

void
dop_step_continue_rows(dop_model *model, uint32_t n_rows)
{
    dop_model *m = model;
    const dop_open_step *o = &m->step;
    if (!o->continues || n_rows == 0)
        return;
    const dop_sequence *first = o->of[0].sequence;
    uint32_t schedule = o->run.schedule;
    if (m->plan.schedules[schedule].kind == DOP_SCHED_DECODE) {
        schedule = dop_step_decode_at(m, first->n_tokens + 1, 1);
        if (dop_model_probes_next(m, first->n_tokens + 1)) /* a probe needs an empty queue */
            return;
    }
    for (uint32_t i = 0; i < n_rows; i++)
        if (!may_continue(o->of[o->slot[i]].sequence))
            return;
    for (uint32_t k = 0; k < o->n_sequences; k++) {
        dop_sequence *s = o->of[k].sequence;
        m->flight.rows[o->first[k]] = (dop_sequence_rows){.sequence = s, .pos = s->n_tokens + 1, .n = 1};
        m->flight.picks[o->first[k]].flags = dop_sequence_row_flags(s);
        m->flight.picks[o->first[k]].way = dop_sequence_way(s);
    }
    m->flight.continues = dop_model_has(m, schedule) && dop_step_has_pages(m, schedule, n_rows, 1);
    if (!m->flight.continues || dop_step_continue(m, n_rows, 1, &schedule, NULL) != DOP_OK) {
        m->flight.continues = false;
        return;
    }
    m->flight.schedule = schedule;
    m->flight.by_rows = true;
}

/* Returns the index of the sequence in flight.rows[], trying `likely` first; flight.n_rows if it has no row. */
static uint32_t
runner_of(const dop_model *m, const dop_sequence *s, uint32_t likely)
{
    uint32_t r = 0;
    if (likely < m->flight.n_rows && m->flight.rows[likely].sequence == s)
        return likely;
    while (r < m->flight.n_rows && m->flight.rows[r].sequence != s)
        r++;
    return r;
}

bool
dop_step_is_ahead(const dop_model *model, const dop_step_row *rows, uint32_t n_rows)
{
    const dop_model *m = model;
    const dop_open_step *o = &m->step;
    if (!dop_step_rows_run(m) || n_rows != o->n_sequences)
        return false;
    for (uint32_t i = 0; i < n_rows; i++) {
        const dop_sequence *s = rows[i].sequence;
        const uint32_t r = runner_of(m, s, i);
        if (r == m->flight.n_rows || m->flight.rows[r].pos - m->flight.n != s->n_tokens || s->n_fed != s->n_tokens ||
            s->row_commit != m->flight.n_commits || s->row_pick != rows[i].token || s->masked)
            return false;
        if ((o->wants[i] & ~(uint32_t)DOP_WANTS_UNCHECKED) != DOP_WANTS_PICK ||
            m->flight.picks[r].flags != dop_sequence_row_flags(s))
            return false;
        const dop_row_way way = dop_sequence_way(s);
        if (s->drawn && memcmp(&way, &m->flight.picks[r].way, sizeof way) != 0)
            return false;
    }
    return true;
}

void
dop_step_take_ahead(dop_model *model, uint32_t n_rows)
{
    dop_model *m = model;
    dop_open_step *o = &m->step;
    for (uint32_t k = 0; k < o->n_sequences; k++) {
        dop_sequence *s = o->of[k].sequence;
        o->first[k] = runner_of(m, s, k);
        s->tokens[s->n_tokens] = s->row_pick;
        s->logits = NULL;
    }
    o->run = (dop_issue){.schedule = m->flight.schedule,
                         .form = DOP_FORM_FULL,
                         .continued = true,
                         .pick_end = m->flight.steps[0].end,
                         .ticket = m->flight.steps[0].ticket};
    o->by_device = true;
    o->continues = n_rows == m->flight.n_rows;
    dop_step_pop_ahead(m);
    m->flight.continues = m->flight.n > 0;
    m->flight.n_taken++;
    m->flight.n_dropped += m->flight.n_rows - n_rows;
    if (!m->plan.replaces)
        dop_step_continue_rows(m, n_rows);
}

void
dop_step_drop_rest(dop_model *model)
{
    dop_model *m = model;
    if (!m->flight.by_rows || m->flight.continues)
        return;
    for (uint32_t r = 0; r < m->flight.n_rows; r++)
        if (!dop_step_has(&m->step, m->flight.rows[r].sequence))
            dop_sequence_trim(m->flight.rows[r].sequence);
    m->flight.n_rows = 0;
    m->flight.by_rows = false;
    m->flight.picks_taken = m->flight.picks_asked;
}

/* --- commit and rollback of an open step
 * ------------------------------------------------------------------------------ */

void
dop_step_commit(dop_model *model)
{
    if (dop_driver_is_forked(&model->loader.driver))
        return;
    dop_open_step *o = &model->step;
    const uint32_t n = o->n_rows;
    if (n > 0)
        model->flight.n_commits++;
    if (model->plan.replaces)
        dop_step_continue_rows(model, n);
    const bool ahead = n > 0 && model->plan.replaces && model->flight.n > 0;
    for (uint32_t i = 0; i < n; i++) {
        dop_sequence *s = o->of[o->slot[i]].sequence;
        if (o->picks[i] == UINT32_MAX || o->of[o->slot[i]].n > 1)
            continue;
        s->row_pick = o->picks[i];
        s->row_commit = model->flight.n_commits;
        if (s->wanted != UINT32_MAX && s->wanted > 0)
            s->wanted--;
    }
    for (uint32_t i = 0; i < o->n_sequences; i++) {
        dop_sequence *s = o->of[i].sequence;
        const uint32_t kept = o->of[i].n - o->of[i].dropped;
        /* An in-flight step overwrites this step's hidden states. */
        if (n > 0 && model->flight.n == 0 &&
            dop_head_keep(s, o->run.schedule, o->first[i], o->of[i].pos, kept, NULL) != DOP_OK)
            dop_head_destroy(s);
        s->drawn = false;
        if (o->of[i].dropped && model->plan.replaces) {
            const bool each = o->of[i].versions == o->of[i].n;
            dop_step_move_states(model, s->place, -(int32_t)(each ? o->of[i].dropped : o->of[i].versions));
            dop_sequence_kept(s, UINT32_MAX, 0);
            if (!each)
                continue;
        }
        if (ahead || kept == 0) /* the in-flight step writes the other copy */
            dop_sequence_kept(s, UINT32_MAX, 0);
        else if (o->of[i].versions == o->of[i].n)
            dop_sequence_kept(s, s->n_tokens + kept - 1, kept - 1);
        else
            dop_sequence_kept(s, s->n_tokens, 0);
        s->n_tokens += kept;
        s->n_fed = s->n_tokens;
    }
    o->n_rows = o->n_sequences = 0;
}

void
dop_step_keep(dop_model *model, const dop_sequence *sequence, uint32_t n)
{
    dop_open_step *o = &model->step;
    for (uint32_t k = 0; k < o->n_sequences; k++)
        if (o->of[k].sequence == sequence && n < o->of[k].n)
            o->of[k].dropped = o->of[k].n - n;
}

/* The rows' positions need no cleanup: later steps write them again, and replaced states have an older copy. */
void
dop_step_rollback(dop_model *model)
{
    if (dop_driver_is_forked(&model->loader.driver))
        return;
    dop_open_step *o = &model->step;
    if (model->flight.by_rows && !model->device.lost) /* drop the in-flight step that continues this one */
        (void)dop_step_drain(model, NULL);
    for (uint32_t i = 0; i < o->n_sequences; i++) {
        if (o->of[i].ran)
            dop_step_move_states(model, o->of[i].sequence->place, -(int32_t)o->of[i].versions);
        if (o->n_rows > 0)
            dop_sequence_trim(o->of[i].sequence);
        o->of[i].sequence->drawn = false;
    }
    o->n_rows = o->n_sequences = 0;
}
