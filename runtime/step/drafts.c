/* Drafts: from what followed the same tokens before, from the plan's own layer that drafts, from a smaller model, or from the caller. */
#include "runtime/model/part.h"
#include "runtime/step/speculator.h"

#include <stdlib.h>
#include <string.h>

/* --- of the plan's own layer ------------------------------------------------------------------------------------------ */

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

/* Runs a step of the layer: n rows of the sequence from position pos on, with these hidden states [n, hidden]. */
static dop_status
run(dop_sequence *s, const float *hidden, uint32_t pos, uint32_t n, dop_form form, dop_diag *diag,
    uint32_t *out_schedule)
{
    dop_model *m = s->model;
    const uint32_t schedule = dop_model_schedule_for(m, DOP_SCHED_DRAFT, n), vocab = m->plan.model->vocab;
    uint64_t ticket;
    if (schedule == UINT32_MAX)
        return DOP_FAIL(diag, DOP_E_INTERNAL, "a step of %u rows of the layer that drafts", n);
    *out_schedule = schedule;
    memmove(states_of(m, schedule, false), hidden, n * (size_t)m->plan.model->hidden * sizeof *hidden);
    volatile dop_step *step = dop_replay_step(&m->replay);
    step->flags = 0;
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t token = s->tokens[pos + i + 1];
        dop_replay_write_row(
            &m->replay, i,
            &(dop_row){.token = token < vocab ? token : vocab + i, .position = pos + i, .sequence = s->place});
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
        uint32_t schedule;
        st = run(s, rows, h->n_done, n, DOP_FORM_BODY, diag, &schedule);
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

dop_status
dop_head_draft(dop_sequence *sequence, uint32_t most, dop_diag *diag, uint32_t *ids, uint32_t *out_n)
{
    dop_sequence *s = sequence;
    dop_model *m = s->model;
    dop_head *h = s->head;
    const uint32_t n_tokens = s->n_tokens, vocab = m->plan.model->vocab;
    const size_t hidden = m->plan.model->hidden;
    *out_n = 0;
    if (!h || n_tokens < 2 || h->n_rows == 0 || h->n_done + h->n_rows + 1 != n_tokens || most == 0)
        return DOP_OK;
    dop_status st = dop_sequence_reserve(s, n_tokens - 1, n_tokens - 1 + most, diag);
    for (uint32_t i = 0; i < m->plan.model->n_sequences; i++) /* the layer's logits lie in their place */
        if (m->sequences[i])
            m->sequences[i]->logits = m->sequences[i]->picked_from = NULL;
    const float *from = h->rows;
    uint32_t pos = h->n_done, n = h->n_rows;
    while (st == DOP_OK && *out_n < most) {
        uint32_t schedule;
        if ((st = run(s, from, pos, n, DOP_FORM_READ, diag, &schedule)) != DOP_OK)
            break;
        const uint32_t id = pick(s, dop_model_logits(m, schedule) + (size_t)(n - 1) * vocab, n_tokens + *out_n);
        if (id >= vocab) /* logits that are not finite */
            break;
        ids[*out_n] = s->tokens[n_tokens + *out_n] = id;
        ++*out_n;
        from = states_of(m, schedule, true) + (n - 1) * hidden;
        pos += n;
        n = 1;
    }
    if (st == DOP_OK) {
        h->n_done = n_tokens - 1;
        h->n_rows = 0;
    }
    return st;
}

/* --- of a smaller model ---------------------------------------------------------------------------------------------- */

static dop_status
ask_model(dop_sequence *s, uint32_t most, dop_diag *diag)
{
    dop_speculator *p = s->speculator;
    dop_sequence *d = p->how.draft;
    uint32_t same = 0, ctx = d->model->plan.model->ctx;
    if (s->n_tokens + 1 >= ctx)
        return DOP_OK;
    most = most < ctx - s->n_tokens ? most : ctx - s->n_tokens;
    while (same < d->n_tokens && same < s->n_tokens && d->tokens[same] == s->tokens[same])
        same++;
    dop_sequence_set_sampling(d, &s->sampler.params); /* the seed too: see judge in speculate.c */
    dop_status st = same < d->n_tokens ? dop_sequence_rewind(d, same, diag) : DOP_OK;
    if (st != DOP_OK)
        return st;
    dop_sequence_expect(d, most);
    if (same < s->n_tokens)
        st = dop_sequence_feed(d, s->tokens + same, s->n_tokens - same, diag);
    for (; p->n_drafts < most && st == DOP_OK; p->n_drafts++)
        if ((st = dop_sequence_next_plain(d, diag, &p->drafts[p->n_drafts])) != DOP_OK)
            return st;
    return st;
}

/* --- either ---------------------------------------------------------------------------------------------------------- */

bool
dop_drafts_likely(dop_sequence *sequence)
{
    dop_speculator *p = sequence->speculator;
    return p->how.fn || p->how.draft || p->how.own ||
           (p->ngrams.n && dop_ngrams_find(&p->ngrams, sequence->tokens, sequence->n_tokens));
}

dop_status
dop_drafts_make(dop_sequence *sequence, uint32_t most, dop_diag *diag)
{
    dop_sequence *s = sequence;
    dop_speculator *p = s->speculator;
    uint32_t vocab = s->model->plan.model->vocab, end;
    p->n_drafts = 0;
    if (p->how.fn) {
        dop_status st = p->how.fn(p->how.user, s->tokens, s->n_tokens, most, diag, p->drafts, &p->n_drafts);
        p->n_drafts = st != DOP_OK ? 0 : p->n_drafts < most ? p->n_drafts : most;
        if (st != DOP_OK)
            return st;
    }
    if (p->n_drafts == 0 && p->ngrams.n && (end = dop_ngrams_find(&p->ngrams, s->tokens, s->n_tokens)) > 0)
        for (; p->n_drafts < most;
             end++) /* after the end of the text it continues with the drafts themselves, for texts that repeat */
            p->drafts[p->n_drafts++] = end < s->n_tokens ? s->tokens[end] : p->drafts[end - s->n_tokens];
    for (uint32_t i = 0; i < p->n_drafts; i++) /* nothing generates rows of features */
        if (p->drafts[i] >= s->model->plan.model->vocab)
            p->n_drafts = i;
    if (p->n_drafts == 0 && p->how.own) {
        dop_status st = dop_head_draft(s, most, diag, p->drafts, &p->n_drafts);
        if (st != DOP_OK)
            return st;
    }
    if (p->n_drafts == 0 && p->how.draft) {
        dop_status st = ask_model(s, most, diag);
        if (st != DOP_OK)
            return st;
    }
    for (uint32_t i = 0; i < p->n_drafts; i++)
        if (p->drafts[i] >= vocab)
            p->n_drafts = i;
    return DOP_OK;
}
