#include "runtime/session.h"

#include <string.h>

/* What one replay costs beside its tokens, in tokens: only the order of magnitude matters. */
enum { REPLAY_COST = 32 };

static uint32_t
schedule_cap(const dop_session *s, uint32_t schedule)
{
    uint32_t cap = s->plan.schedules[schedule].max_rows;
    return s->max_chunk && s->max_chunk < cap ? s->max_chunk : cap;
}

/* Whether a schedule is for feeding or scoring as `kind`: decode stands in for one token of every kind. */
static bool
takes(const dop_session *s, uint32_t schedule, uint32_t kind, size_t n)
{
    const dop_plan_schedule *row = &s->plan.schedules[schedule];
    if (schedule == s->decode[DOP_ORDER_BARRIERS])
        return n <= 1;
    return row->profile == s->info.profile && row->kind == kind && row->ordering == DOP_ORDER_BARRIERS;
}

/* Fewest padded tokens: either the smallest schedule that takes all n, or the largest one that n fills and then the
 * rest.  Decode is the schedule for one token of every kind. */
void
dop_session_chunk(const dop_session *session, uint32_t kind, size_t n, uint32_t *out_schedule, uint32_t *out_take)
{
    const dop_plan *plan = &session->plan;
    uint32_t fits = UINT32_MAX, filled = session->decode[DOP_ORDER_BARRIERS];
    for (uint32_t i = 0; i < plan->n_schedules; i++) {
        const dop_plan_schedule *s = &plan->schedules[i];
        if (!takes(session, i, kind, n))
            continue;
        uint32_t cap = schedule_cap(session, i);
        /* Among equals after the limit on chunks, the smaller schedule does less work. */
        if (cap >= n && (fits == UINT32_MAX || s->max_rows < plan->schedules[fits].max_rows))
            fits = i;
        if (cap <= n && (cap > schedule_cap(session, filled) || (cap == schedule_cap(session, filled) && cap > 1 &&
                                                                 s->max_rows < plan->schedules[filled].max_rows)))
            filled = i;
    }
    bool split = fits == UINT32_MAX;
    if (!split && schedule_cap(session, filled) < n) {
        size_t take = schedule_cap(session, filled);
        uint32_t rest = UINT32_MAX; /* the smallest schedule for what is left */
        for (uint32_t i = 0; i < plan->n_schedules; i++)
            if (plan->schedules[i].profile == session->info.profile && plan->schedules[i].kind == kind &&
                schedule_cap(session, i) >= n - take && plan->schedules[i].max_rows < rest)
                rest = plan->schedules[i].max_rows;
        if (n - take == 1)
            rest = 1;
        split = rest != UINT32_MAX &&
                plan->schedules[filled].max_rows + rest + REPLAY_COST < plan->schedules[fits].max_rows;
    }
    *out_schedule = split ? filled : fits;
    uint32_t cap = schedule_cap(session, *out_schedule);
    *out_take = n < cap ? (uint32_t)n : cap;
}

void
dop_session_write_step(dop_session *session, const uint32_t *ids, uint32_t n, uint32_t pos)
{
    volatile dop_step *step = dop_replay_step(&session->replay);
    step->n_rows = n;
    step->flags = 0;
    for (uint32_t i = 0; i < n; i++) {
        step->rows[i].token = ids[i];
        step->rows[i].position = pos + i;
        step->rows[i].sequence = 0;
        step->rows[i].flags = 0;
    }
}

/* Everything submitted is done and its picks are dropped; the last token may be missing from the cache then.  A stall
 * has spoilt only positions that were not fed for certain. */
static dop_status
drain(dop_session *s, dop_diag *diag)
{
    dop_status st = DOP_OK;
    if (s->n_ahead > 0)
        st = dop_replay_wait(&s->replay, s->ahead[s->n_ahead - 1].ticket, diag);
    s->n_ahead = 0;
    s->picks_taken = s->picks_asked;
    s->running = false;
    return st == DOP_OK && dop_session_stalled(s, s->picks_asked) ? dop_session_fall_back(s, diag) : st;
}

dop_status
dop_session_submit(dop_session *session, uint32_t schedule, dop_form form, uint32_t times, dop_diag *diag,
                   uint64_t *out_ticket)
{
    dop_session *s = session;
    const dop_plan_schedule *sched = &s->plan.schedules[schedule];
    dop_status st = dop_session_need(s, schedule, diag);
    if (st == DOP_OK)
        st = dop_replay_submit(&s->replay, schedule, form, times, diag, out_ticket);
    /* A schedule without a split picks even when only its body is wanted. */
    if (st == DOP_OK && sched->greedy && (form != DOP_FORM_BODY || sched->n_body == sched->n_dispatches))
        s->picks_asked += times;
    return st;
}

static dop_status
run_and_wait(dop_session *s, uint32_t schedule, dop_form form, dop_diag *diag)
{
    uint64_t ticket;
    dop_status st = dop_session_submit(s, schedule, form, 1, diag, &ticket);
    return st == DOP_OK ? dop_replay_wait(&s->replay, ticket, diag) : st;
}

dop_status
dop_session_reset(dop_session *session, dop_diag *diag)
{
    uint64_t ticket;
    dop_status st = drain(session, diag);
    session->n_tokens = session->n_fed = 0;
    session->logits = NULL;
    if (st == DOP_OK)
        st = dop_replay_clear(&session->replay, DOP_CLEAR_STATE, diag, &ticket);
    return st == DOP_OK ? dop_replay_wait(&session->replay, ticket, diag) : st;
}

void
dop_session_set_sampling(dop_session *session, const dop_sampling *sampling)
{
    dop_sampler_set(&session->sampler, sampling);
}

void
dop_session_expect(dop_session *session, uint32_t n_tokens)
{
    session->wanted = n_tokens;
}

const uint32_t *
dop_session_tokens(const dop_session *session, size_t *out_n)
{
    *out_n = session->n_tokens;
    return session->tokens;
}

static bool
picks_on_device(const dop_session *s)
{
    return dop_sampling_is_greedy(&s->sampler.params) && s->plan.schedules[s->info.decode].greedy;
}

/* Checks and appends tokens to the sequence; what is missing from the cache is tokens[n_fed .. n_tokens). */
static dop_status
append_tokens(dop_session *s, const uint32_t *ids, size_t n, dop_diag *diag)
{
    uint32_t ctx = s->plan.model->ctx, vocab = s->plan.model->vocab;
    if (n > ctx || s->n_tokens > ctx - n)
        return DOP_FAIL(diag, DOP_E_INPUT,
                        "%zu tokens after %u do not fit the plan's context of %u: shorten the prompt or compile with a "
                        "larger --ctx",
                        n, s->n_tokens, ctx);
    for (size_t i = 0; i < n; i++)
        if (ids[i] >= vocab)
            return DOP_FAIL(diag, DOP_E_INPUT, "token id %u is outside the vocabulary of %u", ids[i], vocab);
    dop_status st = drain(s, diag);
    if (st != DOP_OK)
        return st;
    if (n > 0)
        memcpy(s->tokens + s->n_tokens, ids, n * sizeof *ids);
    s->n_tokens += (uint32_t)n;
    return DOP_OK;
}

/* One piece of the prompt whose logits are not wanted, or the last one. */
static dop_status
feed_chunk(dop_session *s, dop_diag *diag)
{
    uint32_t schedule, take;
    dop_session_chunk(s, DOP_SCHED_PREFILL, s->n_tokens - s->n_fed, &schedule, &take);
    bool last = s->n_fed + take == s->n_tokens;
    dop_session_write_step(s, s->tokens + s->n_fed, take, s->n_fed);
    bool pick = last && picks_on_device(s) && s->plan.schedules[schedule].greedy;
    dop_form form = !last ? DOP_FORM_BODY : pick ? DOP_FORM_FULL : DOP_FORM_READ;
    dop_status st;
    if (pick) {
        /* The host goes on at once: the pick and the steps after it are waited for in dop_session_next. */
        s->picks_taken = s->picks_asked;
        uint64_t ticket;
        st = dop_session_submit(s, schedule, form, 1, diag, &ticket);
        if (st != DOP_OK)
            return st;
        s->ahead[0].ticket = ticket;
        s->ahead[0].end = s->picks_asked;
        s->n_ahead = 1;
        s->running = true;
        s->dev_pos = s->n_tokens;
    } else {
        st = run_and_wait(s, schedule, form, diag);
        s->picks_taken = s->picks_asked;
        if (last)
            s->logits = dop_replay_logits(&s->replay, schedule);
    }
    s->n_fed += take;
    return st;
}

dop_status
dop_session_feed(dop_session *session, const uint32_t *ids, size_t n, dop_diag *diag)
{
    if (n == 0)
        return DOP_OK;
    dop_status st = append_tokens(session, ids, n, diag);
    session->logits = NULL;
    while (st == DOP_OK && session->n_fed < session->n_tokens)
        st = feed_chunk(session, diag);
    return st;
}

dop_status
dop_session_score(dop_session *session, const uint32_t *ids, size_t n, dop_logits_fn *fn, void *user, dop_diag *diag)
{
    dop_session *s = session;
    if (s->no_scoring)
        return DOP_FAIL(diag, DOP_E_INTERNAL, "the session was opened without scoring");
    /* A pick that is not in the cache yet goes first and is not scored: the caller did not feed it. */
    dop_status st = append_tokens(s, NULL, 0, diag);
    while (st == DOP_OK && s->n_fed < s->n_tokens)
        st = feed_chunk(s, diag);
    uint32_t first = s->n_tokens;
    if (st == DOP_OK)
        st = append_tokens(s, ids, n, diag);
    while (st == DOP_OK && s->n_fed < s->n_tokens) {
        uint32_t schedule, take;
        dop_session_chunk(s, DOP_SCHED_SCORE, s->n_tokens - s->n_fed, &schedule, &take);
        dop_session_write_step(s, s->tokens + s->n_fed, take, s->n_fed);
        if ((st = run_and_wait(s, schedule, DOP_FORM_READ, diag)) != DOP_OK)
            break;
        s->picks_taken = s->picks_asked;
        const float *rows = dop_replay_logits(&s->replay, schedule);
        st = fn(user, s->n_fed - first, take, rows, diag);
        s->logits = rows + (size_t)(take - 1) * s->plan.model->vocab;
        s->n_fed += take;
    }
    return st;
}

/* The decode schedule for n steps from pos on.  In a step that stalls, late kernels may see the position after it; the
 * last one of the context has none after it that would be theirs to write. */
static uint32_t
decode_at(const dop_session *s, uint32_t pos, uint32_t n)
{
    return s->plan.model->ctx - pos > n ? s->info.decode : s->decode[DOP_ORDER_BARRIERS];
}

/* Keeps steps_ahead submissions under way, no more than wanted and none past the context. */
static dop_status
submit_ahead(dop_session *s, dop_diag *diag)
{
    if (dop_session_probes_next(s)) {
        dop_status st = s->n_ahead == 0 ? dop_session_probe_here(s, diag) : DOP_OK;
        if (st != DOP_OK || s->n_ahead > 0)
            return st;
    }
    while (s->n_ahead < s->steps_ahead) {
        uint32_t pending = s->picks_asked - s->picks_taken;
        uint32_t times = s->steps_per_submit, room = s->plan.model->ctx - s->dev_pos;
        if (s->wanted <= pending || room == 0)
            return DOP_OK;
        if (times > s->wanted - pending)
            times = s->wanted - pending;
        if (times > room)
            times = room;
        uint64_t ticket;
        uint32_t schedule = decode_at(s, s->dev_pos, times);
        if (s->n_ahead > 0 && !dop_session_has(s, schedule))
            return DOP_OK; /* nobody waits for it yet */
        dop_status st = dop_session_submit(s, schedule, DOP_FORM_FULL, times, diag, &ticket);
        if (st != DOP_OK)
            return st;
        s->dev_pos += times;
        s->ahead[s->n_ahead].ticket = ticket;
        s->ahead[s->n_ahead].end = s->picks_asked;
        s->n_ahead++;
    }
    return DOP_OK;
}

static dop_status
context_full(const dop_session *s, dop_diag *diag)
{
    return DOP_FAIL(diag, DOP_E_INPUT, "the plan's context of %u tokens is full: compile with a larger --ctx",
                    s->plan.model->ctx);
}

/* Position to feed next.  When everything is fed and the pick was dropped (the way of picking changed in between), the
 * last token is fed again: the same position gets the same values. */
static uint32_t
unfed(const dop_session *s)
{
    return s->n_fed < s->n_tokens ? s->n_fed : s->n_fed - 1;
}

/* Steps up to the next pick are submitted, and that one is done. */
static dop_status
finish_pick(dop_session *s, dop_diag *diag)
{
    dop_status st;
    if (!s->running) {
        uint32_t at = unfed(s);
        if (at == s->plan.model->ctx)
            return context_full(s, diag);
        dop_session_write_step(s, s->tokens + at, 1, at);
        s->dev_pos = at;
        s->running = true;
    }
    if ((st = submit_ahead(s, diag)) != DOP_OK)
        return st;
    if (s->picks_asked == s->picks_taken)
        return context_full(s, diag);
    return dop_replay_wait(&s->replay, s->ahead[0].ticket, diag);
}

static dop_status
next_on_device(dop_session *s, dop_diag *diag, uint32_t *out_id)
{
    dop_status st = finish_pick(s, diag);
    /* Once at most: afterwards nothing waits any more. */
    if (st == DOP_OK && dop_session_stalled(s, s->ahead[0].end) && (st = dop_session_fall_back(s, diag)) == DOP_OK)
        st = finish_pick(s, diag);
    if (st != DOP_OK)
        return st;
    uint32_t id = dop_replay_step(&s->replay)->ids[s->picks_taken % DOP_STEP_RING];
    if (id >= s->plan.model->vocab)
        return DOP_FAIL(diag, DOP_E_DEVICE,
                        "the device picked token %u of %u: its driver or the plan is broken, run doppler-exec --check",
                        id, s->plan.model->vocab);
    s->picks_taken++;
    if (s->picks_taken == s->ahead[0].end) {
        s->n_ahead--;
        memmove(&s->ahead[0], &s->ahead[1], s->n_ahead * sizeof s->ahead[0]);
    }
    *out_id = id;
    return DOP_OK;
}

/* Feeds one token with the decode schedule; its logits are for the host. */
static dop_status
decode_on_host(dop_session *s, uint32_t at, dop_diag *diag)
{
    s->dev_pos = at;
    dop_status st = dop_session_probes_next(s) ? dop_session_probe_here(s, diag) : DOP_OK;
    if (st != DOP_OK)
        return st;
    uint32_t schedule = decode_at(s, at, 1);
    dop_session_write_step(s, s->tokens + at, 1, at);
    st = run_and_wait(s, schedule, DOP_FORM_READ, diag);
    if (st == DOP_OK && dop_session_stalled(s, s->picks_asked) && (st = dop_session_fall_back(s, diag)) == DOP_OK) {
        schedule = s->info.decode;
        dop_session_write_step(s, s->tokens + at, 1, at);
        st = run_and_wait(s, schedule, DOP_FORM_READ, diag);
    }
    if (st != DOP_OK)
        return st;
    s->picks_taken = s->picks_asked;
    s->logits = dop_replay_logits(&s->replay, schedule);
    s->n_fed = at + 1;
    return DOP_OK;
}

static dop_status
next_on_host(dop_session *s, dop_diag *diag, uint32_t *out_id)
{
    dop_status st = DOP_OK;
    if (s->running && (st = drain(s, diag)) != DOP_OK)
        return st;
    if (!s->logits) {
        uint32_t at = unfed(s);
        if (at == s->plan.model->ctx)
            return context_full(s, diag);
        if ((st = decode_on_host(s, at, diag)) != DOP_OK)
            return st;
    }
    *out_id = dop_sampler_pick(&s->sampler, s->logits, s->tokens, s->n_tokens);
    s->logits = NULL;
    return DOP_OK;
}

dop_status
dop_session_next(dop_session *session, dop_diag *diag, uint32_t *out_id)
{
    dop_session *s = session;
    dop_status st;
    if (s->n_tokens == 0)
        return DOP_FAIL(diag, DOP_E_INPUT, "nothing to continue: the prompt has no tokens");
    if (s->n_tokens > s->plan.model->ctx)
        return context_full(s, diag);
    if (s->wanted == 0)
        s->wanted = 1;
    if (s->logits || !picks_on_device(s)) {
        st = next_on_host(s, diag, out_id);
    } else {
        st = next_on_device(s, diag, out_id);
        if (st == DOP_OK)
            s->n_fed = s->n_tokens; /* the step that made this pick has fed what came before it */
    }
    if (st != DOP_OK)
        return st;
    s->tokens[s->n_tokens++] = *out_id;
    if (s->wanted != UINT32_MAX && s->wanted > 0)
        s->wanted--;
    return DOP_OK;
}
