/* Sequences: feeding, picking with steps that run ahead on the device, scoring. */
#include "runtime/step/speculator.h"

#include <stdlib.h>
#include <string.h>

void
dop_sequence_set_sampling(dop_sequence *sequence, const dop_sampling *sampling)
{
    dop_speculator_forget(sequence->speculator);
    sequence->sampler.params = *sampling;
    sequence->pick = NULL;
}

void
dop_sequence_set_sampler(dop_sequence *sequence, dop_sampler_fn *fn, void *user)
{
    dop_speculator_forget(sequence->speculator);
    sequence->pick = fn;
    sequence->pick_user = user;
}

void
dop_sequence_expect(dop_sequence *sequence, uint32_t n_tokens)
{
    sequence->wanted = n_tokens;
}

bool
dop_sequence_is_greedy(const dop_sequence *sequence)
{
    return !sequence->pick && dop_sampling_is_greedy(&sequence->sampler.params);
}

static bool
picks_on_device(const dop_sequence *s)
{
    return dop_sequence_is_greedy(s) && !s->model->ranks && s->model->plan.schedules[s->model->info.decode].greedy;
}

/* In a plan in parts no device can run ahead, because the last one picks and the first one waits for it. */
static bool
picks_in_parts(const dop_sequence *s)
{
    return dop_sequence_is_greedy(s) && s->model->ranks && !s->masked &&
           s->model->plan.schedules[s->model->info.decode].greedy == DOP_PICKS_NEXT;
}

dop_status
dop_sequence_check_room(const dop_sequence *sequence, size_t n, dop_diag *diag)
{
    uint32_t ctx = sequence->model->plan.model->ctx;
    if (n > ctx || sequence->n_tokens > ctx - n)
        return DOP_FAIL(diag, DOP_E_INPUT,
                        "%zu tokens after %u do not fit the plan's context of %u: shorten the prompt or compile with a "
                        "larger --ctx",
                        n, sequence->n_tokens, ctx);
    return DOP_OK;
}

static dop_status
check_ids(const dop_sequence *s, const uint32_t *ids, size_t n, dop_diag *diag)
{
    const dop_plan *plan = &s->model->plan;
    dop_status st = dop_sequence_check_room(s, n, diag);
    for (size_t i = 0; i < n && st == DOP_OK; i++)
        if (ids[i] >= plan->model->vocab)
            st = DOP_FAIL(diag, DOP_E_INPUT, "token id %u is outside the vocabulary of %u", ids[i], plan->model->vocab);
    return st;
}

dop_status
dop_sequence_make_room(dop_sequence *sequence, const uint32_t *ids, size_t n, dop_diag *diag)
{
    dop_status st = check_ids(sequence, ids, n, diag);
    if (st == DOP_OK)
        st = dop_step_none_open(sequence->model, diag);
    if (st == DOP_OK)
        st = dop_step_drain(sequence->model, diag);
    return st == DOP_OK ? dop_sequence_settle(sequence, diag) : st;
}

/* Appends tokens that were checked; tokens[n_fed .. n_tokens) are those that are not in the states yet. */
static dop_status
append_tokens(dop_sequence *s, const uint32_t *ids, size_t n, dop_diag *diag)
{
    dop_status st = dop_sequence_make_room(s, ids, n, diag);
    if (st == DOP_OK)
        st = dop_sequence_reserve(s, s->n_fed, s->n_tokens + (uint32_t)n, diag);
    if (st != DOP_OK)
        return st;
    if (n > 0)
        memcpy(s->tokens + s->n_tokens, ids, n * sizeof *ids);
    s->n_tokens += (uint32_t)n;
    return DOP_OK;
}

/* The last piece, from which the device picks: the host continues at once, and dop_sequence_next waits for the pick. */
static dop_status
feed_and_pick(dop_sequence *s, uint32_t schedule, uint32_t take, dop_diag *diag)
{
    dop_model *m = s->model;
    uint64_t ticket;
    dop_status st = dop_sequence_reserve(s, s->n_fed, s->n_fed + take, diag);
    if (st != DOP_OK)
        return st;
    m->flight.picks_taken = m->flight.picks_asked;
    dop_replay_write_step_of(&m->replay, s->place, s->tokens + s->n_fed, take, s->n_fed, m->parity[s->place]);
    dop_replay_step(&m->replay)->rows[take - 1].flags = dop_sequence_row_flags(s);
    st = dop_step_submit(m, schedule, DOP_FORM_FULL, 1, diag, &ticket);
    if (st != DOP_OK)
        return st;
    m->flight.steps[0].ticket = ticket;
    m->flight.steps[0].end = m->flight.picks_asked;
    m->flight.n = 1;
    m->flight.goes_on = true;
    m->flight.rows[0].sequence = s;
    m->flight.n_rows = 1;
    m->flight.next = s->n_tokens;
    dop_sequence_note_written(s, s->n_tokens);
    s->n_kept = s->n_fed;
    s->n_fed += take;
    return DOP_OK;
}

/* Feeds one piece; the logits of the last one are needed. */
static dop_status
feed_chunk(dop_sequence *s, dop_diag *diag)
{
    dop_model *m = s->model;
    uint32_t schedule, take;
    dop_step_choose(m, DOP_SCHED_PREFILL, s->n_tokens - s->n_fed, &schedule, &take);
    bool last = s->n_fed + take == s->n_tokens;
    if (last && picks_on_device(s) && m->plan.schedules[schedule].greedy)
        return feed_and_pick(s, schedule, take, diag);
    dop_status st = dop_step_finish(s, take, s->n_fed, last ? DOP_FORM_READ : DOP_FORM_BODY, &schedule, diag);
    if (st != DOP_OK)
        return st;
    if (last)
        s->logits = dop_model_logits(m, schedule);
    s->n_kept = s->n_fed;
    s->n_fed += take;
    return DOP_OK;
}

dop_status
dop_sequence_catch_up(dop_sequence *sequence, dop_diag *diag)
{
    dop_status st = dop_sequence_settle(sequence, diag);
    if (st == DOP_OK)
        st = dop_sequence_keep_rings(sequence, sequence->n_fed, diag);
    while (st == DOP_OK && sequence->n_fed < sequence->n_tokens)
        st = feed_chunk(sequence, diag);
    /* That pick is not used. */
    return st == DOP_OK ? dop_step_drain(sequence->model, diag) : st;
}

dop_status
dop_sequence_feed(dop_sequence *sequence, const uint32_t *ids, size_t n, dop_diag *diag)
{
    dop_diag_clear(diag);
    if (n == 0)
        return DOP_OK;
    dop_status st = append_tokens(sequence, ids, n, diag);
    if (st != DOP_OK)
        return st;
    sequence->logits = NULL;
    st = dop_sequence_keep_rings(sequence, sequence->n_fed, diag);
    dop_step_choose_chunks(sequence->model, DOP_SCHED_PREFILL, sequence->n_tokens - sequence->n_fed);
    while (st == DOP_OK && sequence->n_fed < sequence->n_tokens)
        st = feed_chunk(sequence, diag);
    return st;
}

dop_status
dop_sequence_reuse(dop_sequence *sequence, const uint32_t *ids, size_t n, dop_diag *diag, size_t *out_found)
{
    dop_diag_clear(diag);
    dop_sequence *s = sequence;
    dop_model *m = s->model;
    *out_found = 0;
    if (s->n_tokens > 0)
        return DOP_FAIL(diag, DOP_E_INPUT, "the sequence has %u tokens already: only an empty one takes what is cached",
                        s->n_tokens);
    dop_status st = check_ids(s, ids, n, diag);
    if (st == DOP_OK && (st = dop_step_none_has(m, s, diag)) == DOP_OK && (st = dop_step_drain(m, diag)) == DOP_OK)
        st = dop_sequence_settle(s, diag);
    if (st != DOP_OK || n == 0)
        return st;
    for (uint32_t i = 0; i < m->plan.model->n_sequences; i++)
        if (m->sequences[i])
            dop_pages_note(&m->pages, i, m->sequences[i]->tokens, m->sequences[i]->n_fed);
    /* The last token is fed in any case, for its logits. */
    const uint32_t found = dop_pages_find(&m->pages, s->place, ids, n - 1);
    memcpy(s->tokens, ids, found * sizeof *ids);
    s->n_tokens = s->n_fed = s->n_written = found;
    s->n_kept = UINT32_MAX;
    s->logits = NULL;
    *out_found = found;
    return DOP_OK;
}

dop_status
dop_sequence_score(dop_sequence *sequence, const uint32_t *ids, size_t n, dop_logits_fn *fn, void *user, dop_diag *diag)
{
    dop_diag_clear(diag);
    dop_sequence *s = sequence;
    dop_model *m = s->model;
    if (m->no_scoring)
        return DOP_FAIL(diag, DOP_E_INTERNAL, "the model was opened without scoring");
    /* A pick that is not in the states yet goes first and is not scored: the caller did not feed it. */
    dop_status st = dop_sequence_make_room(s, ids, n, diag);
    if (st == DOP_OK)
        st = dop_sequence_catch_up(s, diag);
    uint32_t first = s->n_tokens, vocab = m->plan.model->vocab;
    if (st == DOP_OK)
        st = append_tokens(s, ids, n, diag);
    dop_step_choose_chunks(m, DOP_SCHED_SCORE, s->n_tokens - s->n_fed);
    while (st == DOP_OK && s->n_fed < s->n_tokens) {
        uint32_t schedule, take;
        dop_step_choose(m, DOP_SCHED_SCORE, s->n_tokens - s->n_fed, &schedule, &take);
        st = dop_step_finish(s, take, s->n_fed, DOP_FORM_READ, &schedule, diag);
        if (st != DOP_OK)
            break;
        const float *rows = dop_model_logits(m, schedule);
        for (uint32_t i = 0; i < take && st == DOP_OK; i++)
            if (dop_logits_largest(rows + (size_t)i * vocab, vocab) == UINT32_MAX)
                st = dop_step_not_finite(m, s->n_fed + i, diag);
        if (st == DOP_OK)
            st = fn(user, s->n_fed - first, take, rows, diag);
        s->logits = rows + (size_t)(take - 1) * vocab;
        s->n_kept = s->n_fed;
        s->n_fed += take;
    }
    return st;
}

dop_status
dop_sequence_logprobs(const dop_sequence *sequence, uint32_t n_top, dop_diag *diag, dop_logprob *out_id,
                      dop_logprob *out_top)
{
    const dop_sequence *s = sequence;
    const uint32_t vocab = s->model->plan.model->vocab;
    dop_diag_clear(diag);
    if (!s->picked_from || !s->sampler.params.logprobs || n_top > vocab)
        return DOP_FAIL(diag, DOP_E_USAGE,
                        "there are no logits of a pick for %u log-probabilities: set "
                        "dop_sampling.logprobs, and ask at once",
                        n_top);
    dop_logits_logprobs(s->picked_from, vocab, s->tokens[s->n_tokens - 1], n_top, out_id, out_top);
    return DOP_OK;
}

/* --- picking --------------------------------------------------------------------------------------------------------- */

/* Are there pages for positions [from, to) that the sequence does not share? */
static bool
has_pages(const dop_sequence *s, uint32_t from, uint32_t to)
{
    return dop_pages_missing(&s->model->pages, s->place, from, to) <= dop_pages_available(&s->model->pages);
}

/* Keeps steps_ahead submissions in flight, but no more than wanted and none past the context.  Where there are other sequences,
 * only what the next call needs, because their calls would drop the rest. */
static dop_status
submit_ahead(dop_sequence *s, dop_diag *diag)
{
    dop_model *m = s->model;
    if (dop_model_probes_next(m)) {
        dop_status st = m->flight.n == 0 ? dop_model_probe(m, m->flight.next, diag) : DOP_OK;
        if (st != DOP_OK || m->flight.n > 0)
            return st;
    }
    const bool one = m->n_sequences > 1 || s->masked; /* the next step's mask is not known before this one's pick */
    uint32_t most = one ? 1 : m->steps_ahead;
    while (m->flight.n < most) {
        uint32_t pending = m->flight.picks_asked - m->flight.picks_taken;
        uint32_t times = one ? 1 : m->steps_per_submit, room = m->plan.model->ctx - m->flight.next;
        uint32_t rewind = m->plan.model->rewind, ahead = m->flight.next + 1 - s->n_tokens;
        if (rewind != DOP_PLAN_NO_RINGS && room > rewind - (ahead < rewind ? ahead : rewind)) /* picks may be dropped */
            room = rewind - (ahead < rewind ? ahead : rewind);
        uint32_t wanted = dop_speculator_limit(s->speculator, s->wanted); /* no more than until the next drafts */
        if (wanted <= pending || room == 0)
            return DOP_OK;
        if (times > wanted - pending)
            times = wanted - pending;
        if (!has_pages(s, m->flight.next, dop_sequence_end(s, m->info.decode, m->flight.next + times)))
            times = 1;
        if (times > room)
            times = room;
        const uint32_t end = dop_sequence_end(s, m->info.decode, m->flight.next + times);
        if (m->flight.n > 0 && !has_pages(s, m->flight.next, end))
            return DOP_OK; /* what is needed now is in flight */
        dop_status st = dop_sequence_reserve(s, m->flight.next, end, diag);
        if (st != DOP_OK)
            return st;
        uint64_t ticket;
        uint32_t schedule = dop_step_decode_at(m, m->flight.next, times);
        if (m->flight.n > 0 && !dop_model_has(m, schedule))
            return DOP_OK; /* nothing waits for it yet */
        st = dop_step_submit(m, schedule, DOP_FORM_FULL, times, diag, &ticket);
        if (st != DOP_OK)
            return st;
        dop_sequence_note_written(s, m->flight.next + times);
        s->n_kept = m->flight.n == 0 ? m->flight.next
                                     : UINT32_MAX; /* a second step overwrites the states from before the first */
        m->flight.next += times;
        m->flight.steps[m->flight.n].ticket = ticket;
        m->flight.steps[m->flight.n].end = m->flight.picks_asked;
        m->flight.n++;
    }
    return DOP_OK;
}

static dop_status
context_full(const dop_sequence *s, dop_diag *diag)
{
    return DOP_FAIL(diag, DOP_E_INPUT, "the plan's context of %u tokens is full: compile with a larger --ctx",
                    s->model->plan.model->ctx);
}

/* Position to feed next.  When everything is fed and the pick was dropped (the way of picking changed in between), the
 * last token is fed again: the same position gets the same values.  States that steps replace are those from before it
 * then (make_ready). */
static uint32_t
unfed(const dop_sequence *s)
{
    return s->n_fed < s->n_tokens ? s->n_fed : s->n_fed - 1;
}

/* Submits steps up to the next pick, and waits for that one. */
static dop_status
finish_pick(dop_sequence *s, dop_diag *diag)
{
    dop_model *m = s->model;
    dop_status st;
    if (!m->flight.goes_on) {
        uint32_t at = unfed(s);
        if (at == m->plan.model->ctx)
            return context_full(s, diag);
        dop_replay_write_step_of(&m->replay, s->place, s->tokens + at, 1, at, m->parity[s->place]);
        dop_replay_step(&m->replay)->rows[0].flags = dop_sequence_row_flags(s);
        m->flight.next = at;
        m->flight.goes_on = true;
        m->flight.rows[0].sequence = s;
        m->flight.n_rows = 1;
    }
    if ((st = submit_ahead(s, diag)) != DOP_OK)
        return st;
    if (m->flight.picks_asked == m->flight.picks_taken)
        return context_full(s, diag);
    return dop_replay_wait(&m->replay, m->flight.steps[0].ticket, diag);
}

/* Prepares a pick: drops steps in flight that are not for it, and feeds all tokens except the last one. */
static dop_status
make_ready(dop_sequence *s, dop_diag *diag)
{
    dop_model *m = s->model;
    dop_status st = DOP_OK;
    if (m->flight.goes_on && (m->flight.by_rows || !dop_step_runs(m, s) || s->logits || !picks_on_device(s)))
        st = dop_step_drain(m, diag);
    if (st == DOP_OK && m->plan.replaces && !m->flight.goes_on && !s->logits)
        st = dop_sequence_go_back(s, s->n_tokens - 1, diag);
    if (st == DOP_OK && !m->flight.goes_on && !s->logits)
        st = dop_sequence_keep_rings(s, s->n_fed < s->n_tokens ? s->n_fed : s->n_tokens - 1, diag);
    /* More than the last pick is missing if feeding failed or starts again. */
    while (st == DOP_OK && !m->flight.goes_on && s->n_fed + 1 < s->n_tokens)
        st = feed_chunk(s, diag);
    return st;
}

static dop_status
next_on_device(dop_sequence *s, dop_diag *diag, uint32_t *out_id)
{
    dop_model *m = s->model;
    dop_status st = finish_pick(s, diag);
    /* At most once: after that no dispatch waits for another. */
    if (st == DOP_OK && dop_model_stalled(m, m->flight.steps[0].end) && (st = dop_model_fall_back(m, diag)) == DOP_OK &&
        (st = make_ready(s, diag)) == DOP_OK)
        st = finish_pick(s, diag);
    if (st != DOP_OK)
        return st;
    uint32_t id = dop_replay_step(&m->replay)->ids[m->flight.picks_taken % DOP_STEP_RING];
    if (id >= m->plan.model->vocab) {
        (void)dop_step_drain(m, NULL); /* steps that run ahead of it have no valid token to continue from */
        return dop_step_not_finite(m, s->n_tokens - 1, diag);
    }
    dop_step_note_swap(m, s->place); /* the device has swapped them, and may do so again for the next step */
    m->flight.picks_taken++;
    if (m->flight.picks_taken == m->flight.steps[0].end) {
        m->flight.n--;
        memmove(&m->flight.steps[0], &m->flight.steps[1], m->flight.n * sizeof m->flight.steps[0]);
    }
    s->n_fed = s->n_tokens; /* the step that made this pick has fed what came before it */
    if (m->flight.n == 1)
        s->n_kept = s->n_fed; /* the step that is left feeds this pick, and reads the states before it */
    *out_id = id;
    return DOP_OK;
}

/* Feeds one token with the decode schedule; its logits are for the host. */
static dop_status
decode_on_host(dop_sequence *s, uint32_t at, dop_diag *diag)
{
    dop_model *m = s->model;
    dop_status st = dop_model_probe_at(m, at, diag);
    if (st != DOP_OK)
        return st;
    uint32_t schedule = dop_step_decode_at(m, at, 1);
    if ((st = dop_step_finish(s, 1, at, DOP_FORM_READ, &schedule, diag)) != DOP_OK)
        return st;
    s->logits = dop_model_logits(m, schedule);
    s->n_kept = at;
    s->n_fed = at + 1;
    return DOP_OK;
}

dop_status
dop_sequence_own_pick(dop_sequence *sequence, const float *logits, size_t n_tokens, dop_diag *diag, uint32_t *out_id)
{
    uint32_t vocab = sequence->model->plan.model->vocab, id = UINT32_MAX;
    dop_status st = sequence->pick(sequence->pick_user, logits, vocab, sequence->tokens, n_tokens, diag, &id);
    if (st == DOP_OK && id >= vocab)
        st = DOP_FAIL(diag, DOP_E_INPUT, "the sampler gave token id %u, which is outside the vocabulary of %u", id,
                      vocab);
    if (st == DOP_OK)
        *out_id = id;
    return st;
}

static dop_status
next_on_host(dop_sequence *s, dop_diag *diag, uint32_t *out_id)
{
    dop_model *m = s->model;
    dop_status st = DOP_OK;
    if (!s->logits) {
        uint32_t at = unfed(s);
        if (at == m->plan.model->ctx)
            return context_full(s, diag);
        if ((st = decode_on_host(s, at, diag)) != DOP_OK)
            return st;
    }
    const float *logits = s->logits;
    bool looks = s->pick || s->masked;
    bool finite = !looks || dop_logits_largest(logits, m->plan.model->vocab) != UINT32_MAX;
    if (!s->pick && finite) {
        *out_id = dop_sampler_pick(&s->sampler, dop_sequence_masked(s, logits), s->tokens, s->n_tokens, NULL);
        finite = looks || !s->sampler.bad;
    }
    if (!finite)
        return dop_step_not_finite(m, s->n_fed - 1, diag);
    if (s->pick && (st = dop_sequence_own_pick(s, logits, s->n_tokens, diag, out_id)) != DOP_OK)
        return st; /* the next call asks again */
    s->picked_from = s->logits;
    s->logits = NULL;
    return DOP_OK;
}

static dop_status
next_in_parts(dop_sequence *s, dop_diag *diag, uint32_t *out_id)
{
    dop_model *m = s->model;
    const uint32_t at = unfed(s);
    if (at == m->plan.model->ctx)
        return context_full(s, diag);
    dop_status st = dop_model_probe_at(m, at, diag);
    if (st != DOP_OK)
        return st;
    uint32_t schedule = dop_step_decode_at(m, at, 1);
    if ((st = dop_step_finish(s, 1, at, DOP_FORM_FULL, &schedule, diag)) != DOP_OK)
        return st;
    s->n_kept = at;
    s->n_fed = at + 1;
    *out_id = dop_replay_step(&m->replay)->ids[(m->flight.picks_asked - 1) % DOP_STEP_RING];
    return *out_id < m->plan.model->vocab ? DOP_OK : dop_step_not_finite(m, at, diag);
}

dop_status
dop_sequence_pick_on_host(dop_sequence *sequence, dop_diag *diag, uint32_t *out_id)
{
    dop_sequence *s = sequence;
    dop_status st = dop_step_drain(s->model, diag);
    if (st == DOP_OK && s->n_fed + 1 < s->n_tokens) { /* a chunk with the last token would pick by itself */
        s->n_tokens--;
        st = dop_sequence_catch_up(s, diag);
        s->n_tokens++;
        s->logits = NULL;
    }
    if (st == DOP_OK)
        st = make_ready(s, diag);
    return st == DOP_OK ? next_on_host(s, diag, out_id) : st;
}

dop_status
dop_sequence_may_pick(dop_sequence *sequence, dop_diag *diag)
{
    dop_sequence *s = sequence;
    dop_status st = dop_step_none_open(s->model, diag);
    if (st != DOP_OK)
        return st;
    if (s->n_tokens == 0)
        return DOP_FAIL(diag, DOP_E_INPUT, "nothing to continue: the prompt has no tokens");
    if (s->n_tokens > s->model->plan.model->ctx)
        return context_full(s, diag);
    if (s->wanted == 0)
        s->wanted = 1;
    return DOP_OK;
}

dop_status
dop_sequence_pick(dop_sequence *sequence, dop_diag *diag, uint32_t *out_id)
{
    dop_sequence *s = sequence;
    dop_status st = make_ready(s, diag);
    if (st == DOP_OK)
        st = !s->logits && picks_in_parts(s)    ? next_in_parts(s, diag, out_id)
             : s->logits || !picks_on_device(s) ? next_on_host(s, diag, out_id)
                                                : next_on_device(s, diag, out_id);
    if (st == DOP_OK)
        s->tokens[s->n_tokens++] = *out_id;
    return st;
}

void
dop_sequence_picked(dop_sequence *sequence)
{
    dop_sequence *s = sequence;
    if (s->wanted != UINT32_MAX && s->wanted > 0)
        s->wanted--;
    dop_speculator_took(s->speculator);
    /* Of states that steps replace only the last step can be undone, so that no more than two may be under way behind the
     * last pick, the first of which feeds it: the next one begins when its token is taken, and whoever calls meanwhile does
     * something else.  What fails here fails again in the next call, which says so. */
    if (s->model->plan.replaces && s->model->flight.goes_on && s->model->n_sequences == 1 && !s->masked)
        (void)submit_ahead(s, NULL);
}

dop_status
dop_sequence_next_plain(dop_sequence *sequence, dop_diag *diag, uint32_t *out_id)
{
    dop_status st = dop_sequence_may_pick(sequence, diag);
    if (st == DOP_OK)
        st = dop_sequence_pick(sequence, diag, out_id);
    if (st == DOP_OK)
        dop_sequence_picked(sequence);
    return st;
}
