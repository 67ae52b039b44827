/* Steps: which schedule runs one, the step record, submission, and what becomes of a step that was run. */
#include "runtime/model.h"

#include <string.h>

/* What one replay costs beside its tokens, in tokens: only the order of magnitude matters. */
enum { REPLAY_COST = 32 };

static uint32_t
schedule_cap(const dop_model *m, uint32_t schedule)
{
    uint32_t cap = m->plan.schedules[schedule].max_rows;
    return m->max_chunk && m->max_chunk < cap ? m->max_chunk : cap;
}

/* Whether a schedule is for feeding or scoring as `kind`: decode stands in for one token of every kind. */
static bool
takes(const dop_model *m, uint32_t schedule, uint32_t kind, size_t n)
{
    const dop_plan_schedule *row = &m->plan.schedules[schedule];
    if (schedule == m->decode[DOP_ORDER_BARRIERS])
        return n <= 1;
    return row->profile == m->info.profile && row->kind == kind && row->ordering == DOP_ORDER_BARRIERS;
}

/* Fewest padded tokens: either the smallest schedule that takes all n, or the largest one that n fills and then the
 * rest.  Decode is the schedule for one token of every kind. */
void
dop_step_choose(const dop_model *model, uint32_t kind, size_t n, uint32_t *out_schedule, uint32_t *out_take)
{
    const dop_plan *plan = &model->plan;
    uint32_t fits = UINT32_MAX, filled = model->decode[DOP_ORDER_BARRIERS];
    for (uint32_t i = 0; i < plan->n_schedules; i++) {
        const dop_plan_schedule *s = &plan->schedules[i];
        if (!takes(model, i, kind, n))
            continue;
        uint32_t cap = schedule_cap(model, i);
        /* Among equals after the limit on chunks, the smaller schedule does less work. */
        if (cap >= n && (fits == UINT32_MAX || s->max_rows < plan->schedules[fits].max_rows))
            fits = i;
        if (cap <= n && (cap > schedule_cap(model, filled) || (cap == schedule_cap(model, filled) && cap > 1 &&
                                                               s->max_rows < plan->schedules[filled].max_rows)))
            filled = i;
    }
    bool split = fits == UINT32_MAX;
    if (!split && schedule_cap(model, filled) < n) {
        size_t take = schedule_cap(model, filled);
        uint32_t rest = UINT32_MAX; /* the smallest schedule for what is left */
        for (uint32_t i = 0; i < plan->n_schedules; i++)
            if (plan->schedules[i].profile == model->info.profile && plan->schedules[i].kind == kind &&
                schedule_cap(model, i) >= n - take && plan->schedules[i].max_rows < rest)
                rest = plan->schedules[i].max_rows;
        if (n - take == 1)
            rest = 1;
        split = rest != UINT32_MAX &&
                plan->schedules[filled].max_rows + rest + REPLAY_COST < plan->schedules[fits].max_rows;
    }
    *out_schedule = split ? filled : fits;
    uint32_t cap = schedule_cap(model, *out_schedule);
    *out_take = n < cap ? (uint32_t)n : cap;
}

/* In a step that stalls, late kernels may see the position after it; the last one of the context has none after it that
 * would be theirs to write. */
uint32_t
dop_step_decode_at(const dop_model *model, uint32_t pos, uint32_t n)
{
    return model->plan.model->ctx - pos > n ? model->info.decode : model->decode[DOP_ORDER_BARRIERS];
}

void
dop_step_write(volatile dop_step *step, const uint32_t *ids, uint32_t n, uint32_t pos)
{
    step->n_rows = n;
    step->flags = 0;
    for (uint32_t i = 0; i < n; i++) {
        step->rows[i].token = ids[i];
        step->rows[i].position = pos + i;
        step->rows[i].sequence = 0;
        step->rows[i].flags = 0;
    }
}

dop_status
dop_step_submit(dop_model *model, uint32_t schedule, dop_form form, uint32_t times, dop_diag *diag,
                uint64_t *out_ticket)
{
    dop_model *m = model;
    const dop_plan_schedule *sched = &m->plan.schedules[schedule];
    dop_status st = dop_model_need(m, schedule, diag);
    if (st == DOP_OK)
        st = dop_replay_submit(&m->replay, schedule, form, times, diag, out_ticket);
    /* A schedule without a split picks even when only its body is wanted. */
    if (st == DOP_OK && sched->greedy && (form != DOP_FORM_BODY || sched->n_body == sched->n_dispatches))
        m->picks_asked += times;
    return st;
}

static dop_status
run_and_wait(dop_model *m, const uint32_t *ids, uint32_t n, uint32_t pos, dop_form form, uint32_t schedule,
             dop_diag *diag)
{
    uint64_t ticket;
    dop_step_write(dop_replay_step(&m->replay), ids, n, pos);
    dop_status st = dop_step_submit(m, schedule, form, 1, diag, &ticket);
    return st == DOP_OK ? dop_replay_wait(&m->replay, ticket, diag) : st;
}

dop_status
dop_step_finish(dop_model *model, const uint32_t *ids, uint32_t n, uint32_t pos, dop_form form, uint32_t *io_schedule,
                dop_diag *diag)
{
    dop_model *m = model;
    dop_status st = run_and_wait(m, ids, n, pos, form, *io_schedule, diag);
    bool waits = m->plan.schedules[*io_schedule].ordering != DOP_ORDER_BARRIERS;
    if (st == DOP_OK && waits && dop_model_stalled(m, m->picks_asked) &&
        (st = dop_model_fall_back(m, diag)) == DOP_OK) {
        *io_schedule = m->info.decode;
        st = run_and_wait(m, ids, n, pos, form, *io_schedule, diag);
    }
    m->picks_taken = m->picks_asked;
    return st;
}

/* The last token may be missing from the states then.  A stall has spoilt only positions that were not fed for certain. */
dop_status
dop_step_drain(dop_model *model, dop_diag *diag)
{
    dop_model *m = model;
    dop_status st = DOP_OK;
    if (m->n_ahead > 0)
        st = dop_replay_wait(&m->replay, m->ahead[m->n_ahead - 1].ticket, diag);
    m->n_ahead = 0;
    m->picks_taken = m->picks_asked;
    m->running = false;
    return st == DOP_OK && dop_model_stalled(m, m->picks_asked) ? dop_model_fall_back(m, diag) : st;
}

dop_status
dop_step_none_open(const dop_model *model, dop_diag *diag)
{
    return model->step.sequence ? DOP_FAIL(diag, DOP_E_USAGE, "a step is neither committed nor rolled back") : DOP_OK;
}

dop_status
dop_step_not_finite(const dop_model *model, uint32_t pos, dop_diag *diag)
{
    return DOP_FAIL_IN(
        diag, DOP_E_INPUT, model->plan.path,
        "the logits after position %u are not finite (infinite, or not a number): a weight is, or values "
        "grow past what they are stored as; compile with --act f32 --kv f32, or look at the weights",
        pos);
}

/* --- steps of the caller's rows ------------------------------------------------------------------------------------ */

/* The smallest schedule that holds n rows; UINT32_MAX: none does. */
static uint32_t
smallest(const dop_model *m, uint32_t kind, uint32_t n)
{
    uint32_t best = UINT32_MAX;
    for (uint32_t i = 0; i < m->plan.n_schedules; i++)
        if (takes(m, i, kind, n) && m->used.schedules[i] && m->plan.schedules[i].max_rows >= n &&
            (best == UINT32_MAX || m->plan.schedules[i].max_rows < m->plan.schedules[best].max_rows))
            best = i;
    return best;
}

uint32_t
dop_model_max_rows(const dop_model *model, bool inner_rows_want)
{
    uint32_t most = 1, kind = inner_rows_want ? DOP_SCHED_SCORE : DOP_SCHED_PREFILL;
    for (uint32_t i = 0; i < model->plan.n_schedules; i++) {
        const dop_plan_schedule *s = &model->plan.schedules[i];
        if (takes(model, i, kind, s->max_rows) && model->used.schedules[i] && s->max_rows > most)
            most = s->max_rows;
    }
    return most;
}

static dop_status
check_rows(const dop_model *m, const dop_step_row *rows, uint32_t n, dop_diag *diag)
{
    if (n == 0)
        return DOP_FAIL(diag, DOP_E_INPUT, "a step without rows");
    for (uint32_t i = 0; i < n; i++) {
        if (!rows[i].sequence || rows[i].sequence->model != m)
            return DOP_FAIL(diag, DOP_E_INPUT, "row %u is of no sequence of this model", i);
        if (rows[i].sequence != rows[0].sequence)
            return DOP_FAIL(diag, DOP_E_INPUT,
                            "the plan takes rows of one sequence in a step, and row %u is of another", i);
    }
    return DOP_OK;
}

/* Logits that somebody is going to look at. */
static dop_status
check_finite(const dop_model *m, uint32_t pos, dop_diag *diag)
{
    const dop_open_step *o = &m->step;
    for (uint32_t i = 0; i < o->n_rows; i++) {
        const float *row = o->wants[i] ? dop_step_logits(m, i) : NULL;
        if (row && dop_logits_largest(row, m->plan.model->vocab) == UINT32_MAX)
            return dop_step_not_finite(m, pos + i, diag);
    }
    if (o->wants[o->n_rows - 1] && !o->logits && o->pick >= m->plan.model->vocab)
        return dop_step_not_finite(m, pos + o->n_rows - 1, diag);
    return DOP_OK;
}

dop_status
dop_step_run(dop_model *model, const dop_step_row *rows, uint32_t n_rows, dop_diag *diag)
{
    dop_model *m = model;
    dop_status st = check_rows(m, rows, n_rows, diag);
    if (st != DOP_OK || (st = dop_step_none_open(m, diag)) != DOP_OK)
        return st;
    dop_sequence *s = rows[0].sequence;
    bool inner = false;
    for (uint32_t i = 0; i + 1 < n_rows; i++)
        inner = inner || rows[i].wants;
    if (n_rows > dop_model_max_rows(m, inner))
        return DOP_FAIL(diag, DOP_E_INPUT, "a step of %u rows%s: this plan's schedules take at most %u", n_rows,
                        inner ? " that want logits" : "", dop_model_max_rows(m, inner));
    if ((st = dop_sequence_make_room(s, NULL, 0, diag)) != DOP_OK || (st = dop_sequence_catch_up(s, diag)) != DOP_OK ||
        (st = dop_sequence_check_room(s, n_rows, diag)) != DOP_OK)
        return st;
    dop_open_step *o = &m->step;
    uint32_t pos = s->n_tokens, *ids = s->tokens + pos;
    for (uint32_t i = 0; i < n_rows; i++) {
        ids[i] = rows[i].token;
        o->wants[i] = (uint8_t)rows[i].wants;
        if (ids[i] >= m->plan.model->vocab)
            return DOP_FAIL(diag, DOP_E_INPUT, "token id %u is outside the vocabulary of %u", ids[i],
                            m->plan.model->vocab);
    }
    uint32_t schedule =
        n_rows == 1 ? dop_step_decode_at(m, pos, 1) : smallest(m, inner ? DOP_SCHED_SCORE : DOP_SCHED_PREFILL, n_rows);
    uint32_t last = o->wants[n_rows - 1];
    bool by_device = last == DOP_WANTS_PICK && !inner && m->plan.schedules[schedule].greedy;
    /* Persistent schedules have no form without logits. */
    dop_form form = by_device ? DOP_FORM_FULL : inner || last || n_rows == 1 ? DOP_FORM_READ : DOP_FORM_BODY;
    s->logits = NULL;
    if ((st = dop_step_finish(m, ids, n_rows, pos, form, &schedule, diag)) != DOP_OK)
        return st;
    o->n_rows = n_rows;
    o->all_rows = inner;
    o->logits = form == DOP_FORM_READ ? dop_replay_logits(&m->replay, schedule) : NULL;
    o->pick = by_device ? dop_replay_step(&m->replay)->ids[(m->picks_asked - 1) % DOP_STEP_RING] : UINT32_MAX;
    if ((st = check_finite(m, pos, diag)) == DOP_OK)
        o->sequence = s;
    else
        o->n_rows = 0;
    return st;
}

const float *
dop_step_logits(const dop_model *model, uint32_t row)
{
    const dop_open_step *o = &model->step;
    if (row >= o->n_rows || !o->wants[row] || !o->logits)
        return NULL;
    return o->all_rows ? o->logits + (size_t)row * model->plan.model->vocab : o->logits;
}

uint32_t
dop_step_pick(const dop_model *model, uint32_t row)
{
    const dop_open_step *o = &model->step;
    if (row >= o->n_rows || !(o->wants[row] & DOP_WANTS_PICK))
        return UINT32_MAX;
    const float *logits = dop_step_logits(model, row);
    return logits ? dop_logits_largest(logits, model->plan.model->vocab) : o->pick;
}

void
dop_step_commit(dop_model *model)
{
    dop_open_step *o = &model->step;
    if (!o->sequence)
        return;
    o->sequence->n_tokens += o->n_rows;
    o->sequence->n_fed = o->sequence->n_tokens;
    o->sequence = NULL;
    o->n_rows = 0;
}

/* The rows' positions are written again by whatever comes next. */
void
dop_step_rollback(dop_model *model)
{
    model->step.sequence = NULL;
    model->step.n_rows = 0;
}
