/* Draft layer of a plan (multi-token prediction); see speculator.h. */
#include "runtime/step/heads.h"
#include "plan/plan_names.h"
#include "runtime/model/model_load.h"
#include "runtime/model/model_used.h"
#include "runtime/model/part.h"
#include "runtime/step/sequence_pages.h"
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

/* True if the layer reads only the model's states. Then only the last row of a sequence is run, at a fixed position. */
static bool
draft_row_stays(const dop_model *m)
{
    return dop_plan_program_of(&m->plan, DOP_SCHED_DRAFT)->stays;
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
        return DOP_NO_MEMORY(diag);
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

/* in tokens without drafts: shortest pause that is worthwhile; rows to queue before the next drafts */
enum { LONG = 32, BEFORE = 4 };

static bool
is_far(const dop_draft_policy *p)
{
    return p->back_off >= LONG && p->wait >= BEFORE;
}

void
dop_head_rest(dop_sequence *sequence, const dop_draft_policy *policy)
{
    if (sequence->head)
        sequence->head->rests = is_far(policy);
}

bool
dop_drafts_follow(const dop_sequence *sequence)
{
    const dop_speculator *p = sequence->speculator;
    return sequence->head && !sequence->head->rests && !(p && is_far(&p->policy));
}

uint32_t
dop_drafts_unfollowed(const dop_sequence *sequence, uint32_t wait)
{
    return sequence->head && wait > BEFORE ? wait - BEFORE : wait;
}

/* Returns the hidden states that a schedule outputs, or the input of a `draft` schedule; NULL: none. */
static float *
find_hidden_states(const dop_model *m, uint32_t schedule, bool sent)
{
    dop_part_value values[DOP_PART_MAX_VALUES];
    const uint32_t n = sent ? dop_part_outputs(m, schedule, values) : dop_part_inputs(m, schedule, values);
    return n > 0 ? (float *)(void *)values[0].bytes : NULL;
}

static uint32_t
find_most_draft_rows(const dop_model *m)
{
    uint32_t n;
    const uint32_t *of = dop_used_of(&m->used, DOP_SCHED_DRAFT, DOP_ORDER_BARRIERS, &n);
    return n > 0 ? m->plan.schedules[of[n - 1]].max_rows : 0;
}

/* Rows of one sequence in a step of the layer: n rows from position pos on, with their hidden states. */
typedef struct part {
    dop_sequence *sequence;
    const float *hidden; /* [n, hidden] */
    uint32_t pos, n;
} part;

/* Writes row i of a part as row `row` of a step. */
static void
write_draft_row(dop_model *m, const part *x, uint32_t i, uint32_t row, uint32_t flags, float *hidden)
{
    const uint32_t vocab = m->plan.model->vocab, width = m->plan.model->hidden;
    const uint32_t token = x->sequence->tokens[x->pos + i + 1];
    memmove(hidden + (size_t)row * width, x->hidden + (size_t)i * width, width * sizeof *hidden);
    const dop_row of = {.token = token < vocab ? token : vocab + row,
                        .position = x->pos + i,
                        .sequence = x->sequence->place,
                        .flags = flags};
    dop_replay_write_row(&m->replay, row, &of);
}

/* Writes a step of the layer with the rows of all parts, and chooses its schedule. continued: the last row of each part
 * comes first, and their picks make the next step. */
static dop_status
write_draft_step(dop_model *m, const part *parts, uint32_t n_parts, bool continued, dop_diag *diag,
                 uint32_t *out_schedule)
{
    uint32_t n = 0, row = 0;
    for (uint32_t k = 0; k < n_parts; k++)
        n += parts[k].n;
    const uint32_t schedule = *out_schedule = dop_model_schedule_for(m, DOP_SCHED_DRAFT, n);
    if (schedule == UINT32_MAX)
        return DOP_FAIL(diag, DOP_E_INTERNAL, "a step of %u rows of the layer that drafts", n);
    float *in = find_hidden_states(m, schedule, false);
    volatile dop_step *step = dop_replay_step(&m->replay);
    step->flags = 0;
    for (uint32_t k = 0; k < n_parts && continued; k++)
        write_draft_row(m, &parts[k], parts[k].n - 1, row++, DOP_ROW_CONTINUED, in);
    for (uint32_t k = 0; k < n_parts; k++)
        for (uint32_t i = 0; i < parts[k].n - (continued ? 1 : 0); i++)
            write_draft_row(m, &parts[k], i, row++, 0, in);
    step->n_rows = m->replay.n_rows = n;
    return DOP_OK;
}

/* Makes a schedule ready for submission. */
static dop_status
make_draft_ready(dop_model *m, uint32_t schedule, dop_form form, dop_diag *diag)
{
    DOP_RETURN_IF_ERROR(dop_model_need(m, schedule, diag));
    return dop_model_make_code(m, schedule, form, diag);
}

/* Counts the numbered picks of a single-row schedule as submitted and read. */
static void
count_picks(dop_model *m, uint32_t schedule, dop_form form, uint32_t times)
{
    dop_step_count_picks(m, schedule, form, times);
    m->flight.picks_taken = m->flight.picks_asked;
}

/* Runs a step of the layer. */
static dop_status
run_draft_step(dop_model *m, const part *parts, uint32_t n_parts, dop_form form, dop_diag *diag, uint32_t *out_schedule)
{
    uint64_t ticket;
    DOP_RETURN_IF_ERROR(write_draft_step(m, parts, n_parts, false, diag, out_schedule));
    DOP_RETURN_IF_ERROR(make_draft_ready(m, *out_schedule, form, diag));
    DOP_RETURN_IF_ERROR(dop_replay_submit(&m->replay, *out_schedule, form, 1, diag, &ticket));
    count_picks(m, *out_schedule, form, 1);
    return dop_replay_wait(&m->replay, ticket, diag);
}

/* Runs rows of the layer up to position `end`, with the hidden states in `rows`, to update the layer's states only. */
static dop_status
fill_draft_states(dop_sequence *s, const float *rows, uint32_t end, dop_diag *diag)
{
    dop_head *h = s->head;
    const uint32_t most = find_most_draft_rows(s->model);
    dop_status st = DOP_OK;
    if (draft_row_stays(s->model))
        h->n_done = end;
    while (h->n_done < end && st == DOP_OK) {
        const uint32_t n = end - h->n_done < most ? end - h->n_done : most;
        const part x = {s, rows, h->n_done, n};
        uint32_t schedule;
        st = run_draft_step(s->model, &x, 1, DOP_FORM_BODY, diag, &schedule);
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
    const float *rows = find_hidden_states(s->model, schedule, true);
    dop_status st = DOP_OK;
    if (!rows)
        return DOP_OK;
    rows += first * hidden;
    const bool follows = pos >= h->n_done && pos <= h->n_done + h->n_rows;
    h->n_rows = follows ? pos - h->n_done : 0; /* rows from pos on are replaced */
    if (!follows)
        h->n_done = pos;
    if (h->n_rows + n > DOP_DRAFT_EACH) { /* run all but the last row, whose next token may not be known */
        st = fill_draft_states(s, h->rows, pos, diag);
        if (st == DOP_OK)
            st = fill_draft_states(s, rows, pos + n - 1, diag);
        h->n_rows = 0;
        rows += (n - 1) * hidden;
        n = 1;
    }
    if (st == DOP_OK)
        memcpy(h->rows + h->n_rows * hidden, rows, n * hidden * sizeof *rows);
    h->n_rows += st == DOP_OK ? n : 0;
    return st;
}

/* Prepares a request: *out_part gets its rows for the layer. Returns false if it gets no drafts now. most: maximum
 * draft count of all requests. */
static bool
begin_draft_ask(dop_draft_ask *ask, uint32_t most, part *out_part)
{
    dop_sequence *s = ask->sequence;
    dop_head *h = s->head;
    dop_diag full = {0};
    ask->n = 0;
    if (!h || ask->most == 0 || ask->known < 2 + h->n_done || h->n_done + h->n_rows + 1 < ask->known)
        return false;
    h->n_rows = ask->known - 1 - h->n_done; /* leave out rows of rejected drafts */
    if (dop_sequence_reserve(s, ask->known - 1, ask->known - 1 + most, &full) != DOP_OK)
        return false;
    const uint32_t first = draft_row_stays(s->model) ? h->n_rows - 1 : 0;
    *out_part = (part){s, h->rows + (size_t)first * s->model->plan.model->hidden, h->n_done + first, h->n_rows - first};
    return true;
}

/* Returns the maximum rows of a layer step that gives the logits of each row. */
static uint32_t
most_each(const dop_model *m)
{
    uint32_t n, most = 0;
    const uint32_t *of = dop_used_of(&m->used, DOP_SCHED_DRAFT, DOP_ORDER_BARRIERS, &n);
    for (uint32_t i = 0; i < n; i++)
        most = m->plan.schedules[of[i]].max_rows <= DOP_DRAFT_EACH ? m->plan.schedules[of[i]].max_rows : most;
    return most;
}

/* If the rows of all parts exceed one step, runs all but the last row of each part separately. */
static dop_status
shorten_draft_parts(const dop_model *m, part *parts, uint32_t n, dop_diag *diag)
{
    const size_t hidden = m->plan.model->hidden;
    const uint32_t most = most_each(m);
    uint32_t rows = 0;
    for (uint32_t k = 0; k < n; k++)
        rows += parts[k].n;
    for (uint32_t k = 0; k < n && rows > most; k++) {
        part *x = &parts[k];
        DOP_RETURN_IF_ERROR(fill_draft_states(x->sequence, x->hidden, x->pos + x->n - 1, diag));
        x->hidden += (x->n - 1) * hidden;
        x->pos += x->n - 1;
        x->n = 1;
    }
    return DOP_OK;
}

/* Location of a chain's picks among the ids of the step record. */
typedef struct place {
    bool numbered; /* the first step's picks are numbered */
    bool all;      /* the later steps' picks are numbered */
    bool stays;    /* unnumbered picks are indexed by step, not by position */
    uint32_t next; /* number of the first numbered pick */
} place;

/* Returns the index of the pick in step i of the chain for its row k. pos: the row's position in the first step. */
static uint32_t
find_pick_place(const place *x, uint32_t i, uint32_t k, uint32_t pos)
{
    if (i == 0 ? x->numbered : x->all)
        return (x->next + i - (x->numbered ? 0 : 1)) % DOP_STEP_RING;
    return (x->stays ? i : pos + i) % DOP_STEP_TURNS * DOP_STEP_MAX_SEQUENCES + k;
}

/* Copies the picks of a chain of n steps into the drafts. */
static void
take_chain(dop_model *m, const place *at, const part *parts, dop_draft_ask **of, uint32_t n_of, uint32_t n)
{
    const volatile dop_step *step = dop_replay_step(&m->replay);
    for (uint32_t k = 0; k < n_of; k++) {
        dop_draft_ask *ask = of[k];
        const uint32_t pos = parts[k].pos + parts[k].n - 1;
        for (uint32_t i = 0; i < n && i < ask->most; i++) {
            const uint32_t id = step->ids[find_pick_place(at, i, k, pos)];
            if (id >= m->plan.model->vocab) /* the logits are not finite */
                break;
            ask->ids[ask->n++] = ask->sequence->tokens[ask->known + i] = id;
        }
    }
}

/* Runs a step of the layer for all parts and n - 1 more steps on its picks, in one submission. */
static dop_status
run_chain(dop_model *m, const part *parts, dop_draft_ask **of, uint32_t n_of, uint32_t n, dop_diag *diag)
{
    dop_chain chain = {.next = dop_model_schedule_for(m, DOP_SCHED_DRAFT, n_of), .rows = n_of, .n = n};
    uint64_t ticket;
    dop_status st = DOP_OK;
    DOP_TRY(write_draft_step(m, parts, n_of, true, diag, &chain.first));
    if (chain.next == UINT32_MAX)
        DOP_TRY(DOP_FAIL(diag, DOP_E_INTERNAL, "a step of %u rows of the layer that drafts", n_of));
    DOP_TRY(make_draft_ready(m, chain.first, DOP_FORM_FULL, diag));
    DOP_TRY(make_draft_ready(m, chain.next, DOP_FORM_FULL, diag));
error:
    if (st != DOP_OK)
        return st;
    const dop_plan_schedule *s = m->plan.schedules;
    const place at = {s[chain.first].greedy == DOP_PICKS_NEXT, s[chain.next].greedy == DOP_PICKS_NEXT,
                      draft_row_stays(m), m->flight.picks_asked};
    const uint32_t pos = parts[0].pos + parts[0].n - 1;
    for (uint32_t i = 1; i < n && !at.numbered && at.all; i++)
        if (find_pick_place(&at, i, 0, pos) == find_pick_place(&at, 0, 0, pos))
            chain.n = n = i; /* a later pick would overwrite the first one */
    if ((st = dop_replay_submit_chain(&m->replay, &chain, diag, &ticket)) != DOP_OK)
        return st;
    count_picks(m, chain.first, DOP_FORM_FULL, 1);
    count_picks(m, chain.next, DOP_FORM_FULL, n - 1);
    if ((st = dop_replay_wait(&m->replay, ticket, diag)) == DOP_OK)
        take_chain(m, &at, parts, of, n_of, n);
    return st;
}

dop_status
dop_heads_draft(dop_model *model, dop_draft_ask *asks, uint32_t n, dop_diag *diag)
{
    dop_model *m = model;
    part parts[DOP_DRAFT_EACH];
    dop_draft_ask *of[DOP_DRAFT_EACH];
    const uint32_t most = most_each(m);
    uint32_t n_of = 0, longest = 0;
    for (uint32_t i = 0; i < n; i++)
        longest = asks[i].most > longest ? asks[i].most : longest;
    for (uint32_t i = 0; i < n; i++)
        if (n_of < most && begin_draft_ask(&asks[i], longest, &parts[n_of]))
            of[n_of++] = &asks[i];
    for (uint32_t i = 0; i < m->plan.model->n_sequences; i++)
        /* The layer's logits overwrite theirs. */
        if (m->sequences[i])
            m->sequences[i]->logits = m->sequences[i]->picked_from = NULL;
    DOP_RETURN_IF_ERROR(shorten_draft_parts(m, parts, n_of, diag));
    if (n_of > 0)
        DOP_RETURN_IF_ERROR(run_chain(m, parts, of, n_of, longest, diag));
    for (uint32_t i = 0; i < n; i++) {
        dop_head *h = asks[i].sequence->head;
        if (asks[i].n > 0) {
            h->n_done = asks[i].known - 1;
            h->n_rows = 0;
        }
    }
    return DOP_OK;
}

dop_status
dop_head_draft(dop_sequence *sequence, uint32_t most, dop_diag *diag, uint32_t *ids, uint32_t *out_n)
{
    dop_draft_ask ask = {.sequence = sequence, .known = sequence->n_tokens, .most = most, .ids = ids};
    dop_status st = dop_heads_draft(sequence->model, &ask, 1, diag);
    *out_n = ask.n;
    return st;
}
