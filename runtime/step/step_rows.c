/* Steps of rows that the caller gives, and later commits or rolls back (step_ahead.c). */
#include "runtime/parts/lead/ranks.h"

#include <stdlib.h>
#include <string.h>

/* The smallest schedule for n rows of one sequence; schedules for rows of several sequences can take those too. */
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
most_rows(const dop_model *m, uint32_t kind)
{
    uint32_t n;
    const uint32_t *of = dop_used_of(&m->used, kind, DOP_ORDER_BARRIERS, &n);
    return n > 0 ? m->plan.schedules[of[n - 1]].max_rows : 1; /* decode takes one row of every kind */
}

uint32_t
dop_model_max_rows(const dop_model *model, bool inner_rows_want)
{
    uint32_t most = most_rows(model, inner_rows_want ? DOP_SCHED_SCORE : DOP_SCHED_PREFILL);
    uint32_t rows = inner_rows_want ? most_rows(model, DOP_SCHED_ROWS) : 1;
    return rows > most ? rows : most;
}

uint32_t
dop_model_max_rows_of_several(const dop_model *model)
{
    return most_rows(model, DOP_SCHED_ROWS);
}

static bool
is_alive(const dop_model *m, const dop_sequence *s)
{
    for (uint32_t i = 0; i < m->plan.model->n_sequences && s; i++)
        if (m->sequences[i] == s)
            return true;
    return false;
}

/* Sorts the rows by sequence; changes nothing outside the step. */
static dop_status
sort_rows(dop_model *m, const dop_step_row *rows, uint32_t n, dop_diag *diag)
{
    dop_open_step *o = &m->step;
    if (n == 0)
        return DOP_FAIL(diag, DOP_E_INPUT, "a step without rows");
    if (n > DOP_STEP_MAX_ROWS)
        return DOP_FAIL(diag, DOP_E_INPUT, "a step of %u rows: %d is the most", n, DOP_STEP_MAX_ROWS);
    o->n_sequences = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t k = 0;
        if (!is_alive(m, rows[i].sequence))
            return DOP_FAIL(diag, DOP_E_INPUT, "row %u is of no sequence of this model", i);
        if (rows[i].token >= m->plan.model->vocab)
            return DOP_FAIL(diag, DOP_E_INPUT, "token id %u is outside the vocabulary of %u", rows[i].token,
                            m->plan.model->vocab);
        while (k < o->n_sequences && o->of[k].sequence != rows[i].sequence)
            k++;
        if (k == o->n_sequences) {
            o->of[o->n_sequences++].sequence = rows[i].sequence;
            o->of[k].n_rows = 0;
            o->of[k].ran = false;
        }
        o->slot[i] = k;
        o->number[i] = o->of[k].n_rows++;
        o->wants[i] = (uint8_t)rows[i].wants;
        o->logits[i] = NULL;
        o->picks[i] = UINT32_MAX;
    }
    return DOP_OK;
}

bool
dop_model_draws(const dop_model *model)
{
    const dop_model *m = model;
    return !m->ranks && m->plan.profiles[m->info.profile].draws &&
           m->plan.schedules[m->info.decode].greedy == DOP_PICKS_NEXT;
}

uint32_t
dop_model_wants(const dop_model *model, const dop_sampling *sampling)
{
    if (dop_sampling_is_greedy(sampling))
        return DOP_WANTS_PICK;
    return !sampling->logprobs && !dop_sampling_changes(sampling) && dop_model_draws(model) ? DOP_WANTS_DRAW
                                                                                            : DOP_WANTS_LOGITS;
}

/* Tells the device how to draw.  Nothing may be in flight. */
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

/* A last row that wants a draw gets one from the device, without logits, or else logits for the host.  A plan in parts picks in
 * its last part, which does not receive masks. */
static void
choose_draws(dop_model *m, uint32_t n)
{
    dop_open_step *o = &m->step;
    for (uint32_t k = 0; k < o->n_sequences; k++)
        o->of[k].sequence->drawn = false;
    for (uint32_t i = 0; i < n; i++) {
        dop_sequence *s = o->of[o->slot[i]].sequence;
        if (o->wants[i] & DOP_WANTS_DRAW) {
            const bool last = o->number[i] + 1 == o->of[o->slot[i]].n_rows, host = (o->wants[i] & DOP_WANTS_LOGITS);
            const uint32_t wants =
                last && !host && !s->pick ? dop_model_wants(m, &s->sampler.params) : (uint32_t)DOP_WANTS_LOGITS;
            o->wants[i] &= (uint8_t)~DOP_WANTS_DRAW;
            o->wants[i] |= wants == DOP_WANTS_LOGITS ? DOP_WANTS_LOGITS : DOP_WANTS_PICK;
            s->drawn = wants == DOP_WANTS_DRAW && s->sampler.params.temperature > 1e-6f; /* else it is the largest */
        }
        if (s->masked && m->ranks && (o->wants[i] & DOP_WANTS_PICK))
            o->wants[i] |= DOP_WANTS_LOGITS;
    }
}

/* Does a row that is not the last of sequence k want something? */
static bool
inner_wants(const dop_open_step *o, uint32_t n, uint32_t k)
{
    for (uint32_t i = 0; i < n; i++)
        if (o->slot[i] == k && o->number[i] + 1 < o->of[k].n_rows && o->wants[i])
            return true;
    return false;
}

static bool
wants_any(const dop_open_step *o, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (o->wants[i])
            return true;
    return false;
}

static dop_status
too_many(uint32_t n, const char *what, uint32_t most, dop_diag *diag)
{
    return DOP_FAIL(diag, DOP_E_INPUT, "a step of %u rows%s: this plan's schedules take at most %u", n, what, most);
}

/* Do all rows want at most picks, which the schedule makes? */
static bool
picks_suffice(const dop_model *m, uint32_t n, uint32_t schedule)
{
    for (uint32_t i = 0; i < n; i++)
        if (m->step.wants[i] & DOP_WANTS_LOGITS)
            return false;
    return m->plan.schedules[schedule].greedy == DOP_PICKS_EACH;
}

/* Do the schedules hold the rows?  *out_together: one that takes rows of several sequences, for all of them, or a row of one that
 * is likely to continue; UINT32_MAX: one replay for each sequence. */
static dop_status
choose(dop_model *m, const dop_step_row *rows, uint32_t n, dop_diag *diag, uint32_t *out_together)
{
    dop_open_step *o = &m->step;
    uint32_t most = dop_model_max_rows_of_several(m);
    *out_together = UINT32_MAX;
    o->continued = dop_step_may_continue(m, rows, n);
    if (n == 1 && o->continued && m->plan.schedules[m->info.decode].greedy == DOP_PICKS_NEXT) {
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
        bool inner = inner_wants(o, n, k);
        if (o->of[k].n_rows > dop_model_max_rows(m, inner))
            return too_many(o->of[k].n_rows, inner ? " that want logits" : "", dop_model_max_rows(m, inner), diag);
    }
    /* Picks of several rows of one sequence do not need logits on the host. */
    uint32_t several =
        o->n_sequences == 1 && inner_wants(o, n, 0) ? dop_model_schedule_for(m, DOP_SCHED_ROWS, n) : UINT32_MAX;
    if (several != UINT32_MAX && m->plan.schedules[several].kind == DOP_SCHED_ROWS && !m->plan.replaces &&
        picks_suffice(m, n, several))
        *out_together = several;
    return DOP_OK;
}

dop_status
dop_step_prepare_model(dop_model *model, dop_diag *diag)
{
    dop_model *m = model;
    dop_open_step *o = &m->step;
    if (m->plan.model->n_sequences == 1 || dop_model_max_rows_of_several(m) > 1)
        return DOP_OK; /* logits are read where the only replay leaves them */
    o->cap_kept = (size_t)m->plan.model->n_sequences + dop_model_max_rows(m, true);
    o->kept = malloc(o->cap_kept * m->plan.model->vocab * sizeof *o->kept);
    return o->kept ? DOP_OK : DOP_FAIL(diag, DOP_E_NOMEM, "out of memory");
}

/* Allocates memory for the logits of every row that wants them, where more than one replay makes them. */
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

/* Where the host finds what the rows of sequence k want. */
static void
take_logits(dop_model *m, uint32_t n, uint32_t k, const float *all, bool of_every_row, float **io_kept)
{
    dop_open_step *o = &m->step;
    size_t vocab = m->plan.model->vocab;
    for (uint32_t i = 0; i < n; i++) {
        if (o->slot[i] != k || !o->wants[i])
            continue;
        o->logits[i] = all + (of_every_row ? o->number[i] * vocab : 0);
        if (o->n_sequences == 1)
            continue;
        memcpy(*io_kept, o->logits[i], vocab * sizeof(float));
        o->logits[i] = *io_kept;
        *io_kept += vocab;
    }
}

/* The rows of one sequence. */
static dop_status
run_one(dop_model *m, uint32_t n, uint32_t k, float **io_kept, dop_diag *diag)
{
    dop_open_step *o = &m->step;
    dop_sequence *s = o->of[k].sequence;
    uint32_t pos = s->n_tokens, n_rows = o->of[k].n_rows, last = 0;
    bool inner = inner_wants(o, n, k);
    for (uint32_t i = 0; i < n; i++)
        if (o->slot[i] == k)
            last = o->wants[i];
    uint32_t schedule = n_rows == 1 ? dop_step_decode_at(m, pos, 1) : smallest_of_one(m, inner, n_rows);
    uint32_t picks = m->plan.schedules[schedule].greedy;
    bool by_device = last == DOP_WANTS_PICK && !inner && picks == DOP_PICKS_NEXT;
    /* Persistent schedules have no form without logits. */
    dop_form form = by_device ? DOP_FORM_FULL : inner || last || n_rows == 1 ? DOP_FORM_READ : DOP_FORM_BODY;
    dop_status st = dop_step_finish(s, n_rows, pos, form, &schedule, diag);
    if (st != DOP_OK)
        return st;
    o->of[k].ran = true;
    for (uint32_t i = 0; i < n && by_device; i++)
        if (o->slot[i] == k && o->wants[i])
            o->picks[i] = dop_replay_step(&m->replay)->ids[(m->flight.picks_asked - 1) % DOP_STEP_RING];
    if (form == DOP_FORM_READ)
        take_logits(m, n, k, dop_model_logits(m, schedule), dop_plan_logit_rows(&m->plan.schedules[schedule]) > 1,
                    io_kept);
    return DOP_OK;
}

/* Runs the rows of all sequences in one replay, grouped by sequence, up to the results of this part.  The step after it is
 * submitted before this one is waited for, where the device goes on. */
static dop_status
start_together(dop_model *m, const dop_step_row *rows, uint32_t n, uint32_t schedule, dop_diag *diag)
{
    dop_open_step *o = &m->step;
    volatile dop_step *step = dop_replay_step(&m->replay);
    uint32_t end = 0;
    step->n_rows = m->replay.n_rows = n;
    step->flags = 0;
    for (uint32_t k = 0; k < o->n_sequences; k++) {
        dop_sequence *s = o->of[k].sequence;
        o->first[k] = end;
        end += o->of[k].n_rows;
        step->parity[s->place] = m->parity[s->place];
        s->n_kept = UINT32_MAX; /* the other copy is written now */
    }
    for (uint32_t i = 0; i < n; i++) {
        const dop_sequence *s = rows[i].sequence;
        uint32_t flags = o->number[i] + 1 == o->of[o->slot[i]].n_rows ? dop_sequence_row_flags(s) : 0;
        flags |= o->continued ? (uint32_t)DOP_ROW_CONTINUED : 0;
        dop_replay_write_row(&m->replay, o->first[o->slot[i]] + o->number[i],
                             &(dop_row){rows[i].token, s->n_tokens + o->number[i], s->place, flags});
    }
    uint64_t ticket;
    o->together = schedule;
    o->by_device = picks_suffice(m, n, schedule);
    if (m->plan.schedules[schedule].greedy == DOP_PICKS_NEXT) /* of one sequence */
        o->by_device = o->wants[n - 1] == DOP_WANTS_PICK;
    dop_form form = !wants_any(o, n) ? DOP_FORM_BODY : o->by_device ? DOP_FORM_FULL : DOP_FORM_READ;
    dop_status st = dop_step_submit(m, schedule, form, 1, diag, &ticket);
    o->pick_end = m->flight.picks_asked;
    o->goes_on = o->continued && o->by_device;
    if (st == DOP_OK && !m->plan.replaces)
        dop_step_continue(m, n);
    return st == DOP_OK ? dop_step_pass(m, ticket, diag) : st;
}

/* The pick of a row that this step has at r. */
static uint32_t
pick_at(const dop_model *m, const dop_sequence *s, uint32_t r)
{
    const dop_open_step *o = &m->step;
    const volatile uint32_t *ids = dop_replay_step(&m->replay)->ids;
    if (m->plan.schedules[o->together].greedy == DOP_PICKS_NEXT)
        return ids[(m->ranks ? dop_replay_step(&m->replay)->n_out - 1 : o->pick_end - 1) % DOP_STEP_RING];
    return ids[o->continued ? s->n_tokens % DOP_STEP_TURNS * DOP_STEP_MAX_SEQUENCES + r : r];
}

/* Receives the results of all parts. */
static dop_status
end_together(dop_model *m, uint32_t n, dop_diag *diag)
{
    dop_open_step *o = &m->step;
    dop_status st = dop_step_take(m, diag);
    const float *logits = dop_model_logits(m, o->together);
    const dop_plan_schedule *schedule = &m->plan.schedules[o->together];
    const bool each = schedule->greedy == DOP_PICKS_EACH && !m->ranks, one = dop_plan_logit_rows(schedule) == 1;
    for (uint32_t i = 0; i < n && st == DOP_OK; i++) {
        const uint32_t r = o->first[o->slot[i]] + o->number[i];
        if (o->wants[i] && (o->by_device || (each && !(o->wants[i] & DOP_WANTS_LOGITS))))
            o->picks[i] = pick_at(m, o->of[o->slot[i]].sequence, r);
        else if (o->wants[i])
            o->logits[i] = logits + (one ? 0 : (size_t)r * m->plan.model->vocab);
    }
    for (uint32_t k = 0; k < o->n_sequences && st == DOP_OK; k++) {
        dop_step_swap_states(m, o->of[k].sequence->place);
        o->of[k].ran = true;
    }
    dop_step_drop_rest(m);
    return st;
}

/* Did the step stall?  Of those with several rows only the flag tells, perhaps that of the step after it. */
static bool
has_stalled(const dop_model *m)
{
    const dop_plan_schedule *s = &m->plan.schedules[m->step.together];
    if (s->ordering == DOP_ORDER_BARRIERS)
        return false;
    return s->greedy == DOP_PICKS_NEXT ? dop_model_stalled(m, m->step.pick_end)
                                       : (dop_replay_step(&m->replay)->flags & DOP_STEP_STALLED) != 0;
}

static dop_status
run_together(dop_model *m, const dop_step_row *rows, uint32_t n, uint32_t schedule, dop_diag *diag)
{
    uint32_t best = schedule;
    dop_status st = wants_any(&m->step, n) ? dop_model_order_rows(m, schedule, diag, &best) : DOP_OK;
    m->orders.last_rows = best != schedule ? best : UINT32_MAX;
    if (st == DOP_OK)
        st = start_together(m, rows, n, best, diag);
    if (st == DOP_OK && has_stalled(m) && (st = dop_model_fall_back(m, diag)) == DOP_OK) {
        m->step.continued = false;
        st = start_together(m, rows, n, best != schedule ? schedule : m->info.decode, diag);
    }
    return st == DOP_OK ? end_together(m, n, diag) : st;
}

/* The same for a step that is in flight.  *out_done: false where it stalled, so that it has to be run by barriers. */
static dop_status
run_ahead(dop_model *m, uint32_t n, dop_diag *diag, bool *out_done)
{
    uint64_t ticket;
    dop_step_take_ahead(m, n, &ticket);
    dop_status st = dop_step_pass(m, ticket, diag);
    *out_done = st != DOP_OK || !has_stalled(m);
    if (st != DOP_OK)
        return st;
    return *out_done ? end_together(m, n, diag) : dop_model_fall_back(m, diag);
}

/* Checks logits that will be used. */
static dop_status
check_finite(const dop_model *m, uint32_t n, dop_diag *diag)
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

/* Ensures that every sequence of the step has the states of all its tokens, and space for its rows, whose tokens are appended.
 * together: as of choose. */
static dop_status
prepare(dop_model *m, const dop_step_row *rows, uint32_t n, uint32_t together, dop_diag *diag)
{
    dop_open_step *o = &m->step;
    dop_status st = dop_step_drain(m, diag);
    for (uint32_t k = 0; k < o->n_sequences && st == DOP_OK; k++)
        st = dop_sequence_check_room(o->of[k].sequence, o->of[k].n_rows, diag);
    for (uint32_t k = 0; k < o->n_sequences && st == DOP_OK; k++) {
        dop_sequence *s = o->of[k].sequence;
        st = dop_sequence_catch_up(s, diag);
        uint32_t end = s->n_tokens + o->of[k].n_rows;
        if (together != UINT32_MAX)
            end = dop_sequence_end(s, together, end);
        if (st == DOP_OK)
            st = dop_sequence_reserve(s, s->n_tokens, end, diag);
        if (st == DOP_OK)
            dop_sequence_note_written(s, s->n_tokens + o->of[k].n_rows);
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

/* The same for steps that nothing in flight has: feeds what is missing, then runs the rows. */
static dop_status
run_rows(dop_model *m, const dop_step_row *rows, uint32_t n, dop_diag *diag)
{
    dop_open_step *o = &m->step;
    float *kept = o->kept;
    uint32_t together;
    dop_status st = dop_step_drain(m, diag);
    o->goes_on = false;
    if (st == DOP_OK)
        write_ways(m);
    if (st != DOP_OK || (st = choose(m, rows, n, diag, &together)) != DOP_OK ||
        (st = check_room_for_logits(m, n, together, diag)) != DOP_OK ||
        (st = prepare(m, rows, n, together, diag)) != DOP_OK)
        return st;
    if (together != UINT32_MAX)
        return run_together(m, rows, n, together, diag);
    for (uint32_t k = 0; k < o->n_sequences && st == DOP_OK; k++)
        st = run_one(m, n, k, &kept, diag);
    return st;
}

dop_status
dop_step_run(dop_model *model, const dop_step_row *rows, uint32_t n_rows, dop_diag *diag)
{
    dop_diag_clear(diag);
    dop_model *m = model;
    bool done = false;
    dop_status st = dop_step_none_open(m, diag);
    if (st != DOP_OK)
        return st;
    if ((st = sort_rows(m, rows, n_rows, diag)) == DOP_OK)
        choose_draws(m, n_rows);
    if (st == DOP_OK && dop_step_is_ahead(m, rows, n_rows))
        st = run_ahead(m, n_rows, diag, &done);
    if (st == DOP_OK && !done)
        st = run_rows(m, rows, n_rows, diag);
    if (st == DOP_OK)
        st = check_finite(m, n_rows, diag);
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
    dop_status st = DOP_OK;
    for (uint32_t k = 0; k < o->n_sequences && st == DOP_OK; k++) {
        const dop_sequence *s = o->of[k].sequence;
        if (s->n_fed != s->n_tokens)
            return DOP_FAIL(diag, DOP_E_USAGE,
                            "a sequence of a step that is started has %u tokens and %u in its states", s->n_tokens,
                            s->n_fed);
        st = dop_step_none_has(m, s, diag);
    }
    return st;
}

/* Always by barriers, because the result of a persistent dispatch must be checked before anything else is done. */
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
    dop_status st = sort_rows(m, rows, n_rows, diag);
    if (st == DOP_OK)
        choose_draws(m, n_rows);
    uint32_t schedule = UINT32_MAX;
    if (st == DOP_OK)
        st = choose_start(m, n_rows, diag, &schedule);
    if (st == DOP_OK && (st = check_start(m, diag)) == DOP_OK &&
        (st = prepare(m, rows, n_rows, UINT32_MAX, diag)) == DOP_OK)
        st = start_together(m, rows, n_rows, schedule, diag);
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
    dop_status st = end_together(m, m->step.n_rows, diag);
    if (st == DOP_OK)
        st = check_finite(m, m->step.n_rows, diag);
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
    if (logits && o->number[row] + 1 == o->of[o->slot[row]].n_rows)
        return dop_sequence_largest(o->of[o->slot[row]].sequence, logits);
    return logits ? dop_logits_largest(logits, model->plan.model->vocab) : o->picks[row];
}

dop_status
dop_step_sample(dop_model *model, uint32_t row, dop_diag *diag, uint32_t *out_id)
{
    dop_diag_clear(diag);
    dop_open_step *o = &model->step;
    const bool last = row < o->n_rows && o->number[row] + 1 == o->of[o->slot[row]].n_rows;
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
