/* Steps of the caller's rows, which are committed or rolled back (step.c). */
#include "runtime/model.h"

/* The smallest schedule that holds n rows; UINT32_MAX: none does. */
static uint32_t
smallest(const dop_model *m, uint32_t kind, uint32_t n)
{
    uint32_t best = UINT32_MAX;
    for (uint32_t i = 0; i < m->plan.n_schedules; i++)
        if (dop_step_takes(m, i, kind, n) && m->used.schedules[i] && m->plan.schedules[i].max_rows >= n &&
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
        if (dop_step_takes(model, i, kind, s->max_rows) && model->used.schedules[i] && s->max_rows > most)
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
    o->sequence = s;
    if ((st = check_finite(m, pos, diag)) != DOP_OK)
        dop_step_rollback(m);
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
