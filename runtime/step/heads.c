/* The layer of a plan that drafts: rows of its states, and drafts. */
#include "runtime/model/part.h"
#include "runtime/step/speculator.h"

#include <stdlib.h>
#include <string.h>

bool
dop_model_drafts(const dop_model *model)
{
    return !model->ranks && dop_plan_program_of(&model->plan, DOP_SCHED_DRAFT) &&
           dop_model_schedule_for(model, DOP_SCHED_DRAFT, 1) != UINT32_MAX &&
           dop_model_schedule_for(model, DOP_SCHED_ROWS, 2) != UINT32_MAX;
}

dop_status
dop_head_create(dop_sequence *sequence, dop_diag *diag)
{
    dop_sequence *s = sequence;
    if (s->head)
        return DOP_OK;
    dop_head *h = calloc(1, sizeof *h);
    if (h)
        h->rows = calloc((size_t)DOP_DRAFT_EACH * s->model->plan.model->hidden, sizeof *h->rows);
    if (!h || !h->rows) {
        free(h);
        return DOP_FAIL(diag, DOP_E_NOMEM, "out of memory");
    }
    s->head = h;
    return DOP_OK;
}

void
dop_head_destroy(dop_sequence *sequence)
{
    if (sequence->head)
        free(sequence->head->rows);
    free(sequence->head);
    sequence->head = NULL;
}

bool
dop_drafts_follow(const dop_sequence *sequence)
{
    enum { LONG = 32, BEFORE = 4 }; /* tokens without drafts: a time worth it, and rows that the next drafts need */
    const dop_speculator *p = sequence->speculator;
    return sequence->head && !(p && p->policy.back_off >= LONG && p->policy.wait >= BEFORE);
}

/* The hidden states that a schedule sends, or that a schedule of `draft` receives; NULL: there are none. */
static float *
states_of(const dop_model *m, uint32_t schedule, bool sent)
{
    dop_part_value values[DOP_PART_MAX_VALUES];
    const uint32_t n = sent ? dop_part_outputs(m, schedule, values) : dop_part_inputs(m, schedule, values);
    return n > 0 ? (float *)(void *)values[0].bytes : NULL;
}

static uint32_t
largest(const dop_model *m)
{
    uint32_t n;
    const uint32_t *of = dop_used_of(&m->used, DOP_SCHED_DRAFT, DOP_ORDER_BARRIERS, &n);
    return n > 0 ? m->plan.schedules[of[n - 1]].max_rows : 0;
}

/* Rows of one sequence in a step of the layer: n of them from position pos on, with their hidden states. */
typedef struct part {
    dop_sequence *sequence;
    const float *hidden; /* [n, hidden] */
    uint32_t pos, n;
} part;

/* Runs a step of the layer. */
static dop_status
run(dop_model *m, const part *parts, uint32_t n_parts, dop_form form, dop_diag *diag, uint32_t *out_schedule)
{
    const uint32_t vocab = m->plan.model->vocab;
    const size_t hidden = m->plan.model->hidden;
    uint32_t n = 0, row = 0;
    uint64_t ticket;
    for (uint32_t k = 0; k < n_parts; k++)
        n += parts[k].n;
    const uint32_t schedule = dop_model_schedule_for(m, DOP_SCHED_DRAFT, n);
    if (schedule == UINT32_MAX)
        return DOP_FAIL(diag, DOP_E_INTERNAL, "a step of %u rows of the layer that drafts", n);
    *out_schedule = schedule;
    float *in = states_of(m, schedule, false);
    volatile dop_step *step = dop_replay_step(&m->replay);
    step->flags = 0;
    for (uint32_t k = 0; k < n_parts; k++) {
        const part *x = &parts[k];
        memmove(in + row * hidden, x->hidden, x->n * hidden * sizeof *in);
        for (uint32_t i = 0; i < x->n; i++, row++) {
            const uint32_t token = x->sequence->tokens[x->pos + i + 1];
            const dop_row of = {
                .token = token < vocab ? token : vocab + row, .position = x->pos + i, .sequence = x->sequence->place};
            dop_replay_write_row(&m->replay, row, &of);
        }
    }
    step->n_rows = m->replay.n_rows = n;
    dop_status st = dop_model_need(m, schedule, diag);
    if (st == DOP_OK)
        st = dop_model_make_code(m, schedule, form, diag);
    if (st == DOP_OK)
        st = dop_replay_submit(&m->replay, schedule, form, 1, diag, &ticket);
    return st == DOP_OK ? dop_replay_wait(&m->replay, ticket, diag) : st;
}

/* Runs rows of the layer up to position `end`, with the hidden states from `rows` on, for their states alone. */
static dop_status
fill(dop_sequence *s, const float *rows, uint32_t end, dop_diag *diag)
{
    dop_head *h = s->head;
    const uint32_t most = largest(s->model);
    dop_status st = DOP_OK;
    while (h->n_done < end && st == DOP_OK) {
        const uint32_t n = end - h->n_done < most ? end - h->n_done : most;
        const part x = {s, rows, h->n_done, n};
        uint32_t schedule;
        st = run(s->model, &x, 1, DOP_FORM_BODY, diag, &schedule);
        rows += (size_t)n * s->model->plan.model->hidden;
        h->n_done += st == DOP_OK ? n : 0;
    }
    return st;
}

dop_status
dop_head_keep(dop_sequence *sequence, uint32_t schedule, uint32_t first, uint32_t pos, uint32_t n, dop_diag *diag)
{
    dop_sequence *s = sequence;
    dop_head *h = s->head;
    if (!h || n == 0)
        return DOP_OK;
    const size_t hidden = s->model->plan.model->hidden;
    const float *rows = states_of(s->model, schedule, true);
    dop_status st = DOP_OK;
    if (!rows)
        return DOP_OK;
    rows += first * hidden;
    const bool follows = pos >= h->n_done && pos <= h->n_done + h->n_rows;
    h->n_rows = follows ? pos - h->n_done : 0; /* rows from pos on are new */
    if (!follows)
        h->n_done = pos;
    if (h->n_rows + n > DOP_DRAFT_EACH) { /* all but the last row, whose next token may not be known */
        st = fill(s, h->rows, pos, diag);
        if (st == DOP_OK)
            st = fill(s, rows, pos + n - 1, diag);
        h->n_rows = 0;
        rows += (n - 1) * hidden;
        n = 1;
    }
    if (st == DOP_OK)
        memcpy(h->rows + h->n_rows * hidden, rows, n * hidden * sizeof *rows);
    h->n_rows += st == DOP_OK ? n : 0;
    return st;
}

/* The likeliest token, or the one that the sequence's sampling would draw, from logits of the layer for the place behind n tokens. */
static uint32_t
pick(dop_sequence *s, const float *logits, uint32_t n)
{
    const bool own = s->pick || s->masked || dop_sampling_is_greedy(&s->sampler.params);
    return own ? dop_logits_largest(logits, s->model->plan.model->vocab)
               : dop_sampler_pick(&s->sampler, logits, s->tokens, n, NULL);
}

/* Makes an ask ready: its rows for the layer in *out_part; false: there are no drafts for it now. */
static bool
begin(dop_draft_ask *ask, part *out_part)
{
    dop_sequence *s = ask->sequence;
    dop_head *h = s->head;
    dop_diag full = {0};
    ask->n = 0;
    if (!h || ask->most == 0 || ask->known < 2 || h->n_rows == 0 || h->n_done + h->n_rows + 1 != ask->known ||
        dop_sequence_reserve(s, ask->known - 1, ask->known - 1 + ask->most, &full) != DOP_OK)
        return false;
    *out_part = (part){s, h->rows, h->n_done, h->n_rows};
    return true;
}

/* Most rows of a step of the layer that gives the logits of each. */
static uint32_t
most_each(const dop_model *m)
{
    uint32_t n, most = 0;
    const uint32_t *of = dop_used_of(&m->used, DOP_SCHED_DRAFT, DOP_ORDER_BARRIERS, &n);
    for (uint32_t i = 0; i < n; i++)
        most = m->plan.schedules[of[i]].max_rows <= DOP_DRAFT_EACH ? m->plan.schedules[of[i]].max_rows : most;
    return most;
}

/* Where the rows of all parts are too many for one step, runs all but the last row of each alone. */
static dop_status
shorten(const dop_model *m, part *parts, uint32_t n, dop_diag *diag)
{
    const size_t hidden = m->plan.model->hidden;
    const uint32_t most = most_each(m);
    uint32_t rows = 0;
    dop_status st = DOP_OK;
    for (uint32_t k = 0; k < n; k++)
        rows += parts[k].n;
    for (uint32_t k = 0; k < n && rows > most && st == DOP_OK; k++) {
        part *x = &parts[k];
        st = fill(x->sequence, x->hidden, x->pos + x->n - 1, diag);
        x->hidden += (x->n - 1) * hidden;
        x->pos += x->n - 1;
        x->n = 1;
    }
    return st;
}

/* Takes a draft from the logits of each part's last row.  What asks for more stays in parts and of, with the layer's own states. */
static uint32_t
take(dop_model *m, uint32_t schedule, part *parts, dop_draft_ask **of, uint32_t n)
{
    const uint32_t vocab = m->plan.model->vocab;
    const size_t hidden = m->plan.model->hidden;
    const float *logits = dop_replay_logits(&m->replay, schedule), *states = states_of(m, schedule, true);
    uint32_t left = 0, row = 0;
    for (uint32_t k = 0; k < n; k++) {
        dop_draft_ask *ask = of[k];
        dop_sequence *s = ask->sequence;
        const uint32_t at = ask->known + ask->n;
        row += parts[k].n;
        const uint32_t id = pick(s, logits + (size_t)(row - 1) * vocab, at);
        if (id >= vocab) /* logits that are not finite */
            continue;
        ask->ids[ask->n++] = s->tokens[at] = id;
        if (ask->n == ask->most)
            continue;
        parts[left] = (part){s, states + (row - 1) * hidden, parts[k].pos + parts[k].n, 1};
        of[left++] = ask;
    }
    return left;
}

dop_status
dop_heads_draft(dop_model *model, dop_draft_ask *asks, uint32_t n, dop_diag *diag)
{
    dop_model *m = model;
    part parts[DOP_DRAFT_EACH];
    dop_draft_ask *of[DOP_DRAFT_EACH];
    const uint32_t most = most_each(m);
    uint32_t n_of = 0, schedule;
    for (uint32_t i = 0; i < n; i++)
        if (n_of < most && begin(&asks[i], &parts[n_of]))
            of[n_of++] = &asks[i];
    for (uint32_t i = 0; i < m->plan.model->n_sequences; i++) /* the layer's logits lie in their place */
        if (m->sequences[i])
            m->sequences[i]->logits = m->sequences[i]->picked_from = NULL;
    dop_status st = shorten(m, parts, n_of, diag);
    while (n_of > 0 && st == DOP_OK && (st = run(m, parts, n_of, DOP_FORM_READ, diag, &schedule)) == DOP_OK)
        n_of = take(m, schedule, parts, of, n_of);
    for (uint32_t i = 0; i < n && st == DOP_OK; i++) {
        dop_head *h = asks[i].sequence->head;
        if (asks[i].n > 0) {
            h->n_done = asks[i].known - 1;
            h->n_rows = 0;
        }
    }
    return st;
}

dop_status
dop_head_draft(dop_sequence *sequence, uint32_t most, dop_diag *diag, uint32_t *ids, uint32_t *out_n)
{
    dop_draft_ask ask = {.sequence = sequence, .known = sequence->n_tokens, .most = most, .ids = ids};
    dop_status st = dop_heads_draft(sequence->model, &ask, 1, diag);
    *out_n = ask.n;
    return st;
}
