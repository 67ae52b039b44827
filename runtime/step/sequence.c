/* Sequences: feeding, scoring, and picking the next token; see sequence.h. */
#include "runtime/step/sequence.h"
#include "runtime/model/model_load.h"
#include "runtime/model/ordering.h"
#include "runtime/step/adapters.h"
#include "runtime/step/features.h"
#include "runtime/step/restore_point.h"
#include "runtime/step/sequence_mask.h"
#include "runtime/step/sequence_pages.h"
#include "runtime/step/sequence_states.h"
#include "runtime/step/speculator.h"
#include "runtime/step/step.h"
#include "runtime/step/step_ahead.h"

#include <math.h>
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
dop_model_draws(const dop_model *model)
{
    const dop_model *m = model;
    return !m->ranks && m->plan.profiles[m->info.profile].draws &&
           m->plan.schedules[m->info.decode].greedy == DOP_PICKS_NEXT;
}

uint32_t
dop_sequence_wants(const dop_sequence *sequence)
{
    const bool host = sequence->pick || (sequence->masked && sequence->model->ranks);
    return host ? DOP_WANTS_LOGITS : dop_model_wants(sequence->model, &sequence->sampler.params);
}

uint32_t
dop_model_wants(const dop_model *model, const dop_sampling *sampling)
{
    if (dop_sampling_is_greedy(sampling))
        return DOP_WANTS_PICK;
    return !sampling->logprobs && !dop_sampling_changes(sampling) && dop_model_draws(model) ? DOP_WANTS_DRAW
                                                                                            : DOP_WANTS_LOGITS;
}

/* True if the decode schedule picks the next token. Otherwise the host picks from logits. */
static bool
device_picks(const dop_sequence *s)
{
    return dop_sequence_wants(s) == DOP_WANTS_PICK &&
           s->model->plan.schedules[s->model->info.decode].greedy == DOP_PICKS_NEXT;
}

/* True if the device may continue from its own picks. False for a plan in parts, whose last part picks, and while a
 * draft layer needs the hidden states of every step. */
static bool
device_continues(const dop_sequence *s)
{
    return device_picks(s) && !s->model->ranks && !dop_drafts_follow(s);
}

dop_status
dop_sequence_check_room(const dop_sequence *sequence, size_t n, dop_diag *diag)
{
    uint32_t ctx = sequence->model->plan.model->ctx;
    if (n > ctx || sequence->n_tokens > ctx - n)
        return DOP_FAIL(diag, DOP_E_INPUT,
                        "%zu tokens after %u do not fit the plan's context of %u: shorten the prompt or compile with a "
                        "larger `ctx`",
                        n, sequence->n_tokens, ctx);
    return DOP_OK;
}

static dop_status
check_ids(const dop_sequence *s, const uint32_t *ids, size_t n, dop_diag *diag)
{
    const dop_plan *plan = &s->model->plan;
    DOP_RETURN_IF_ERROR(dop_sequence_check_room(s, n, diag));
    for (size_t i = 0; i < n; i++)
        if (ids[i] >= plan->model->vocab && !dop_features_has(s->model, ids[i]))
            return DOP_FAIL(diag, DOP_E_INPUT, "token id %u is outside the vocabulary of %u", ids[i],
                            plan->model->vocab);
    return DOP_OK;
}

dop_status
dop_sequence_make_room(dop_sequence *sequence, const uint32_t *ids, size_t n, dop_diag *diag)
{
    DOP_RETURN_IF_ERROR(check_ids(sequence, ids, n, diag));
    DOP_RETURN_IF_ERROR(dop_step_none_open(sequence->model, diag));
    DOP_RETURN_IF_ERROR(dop_step_drain(sequence->model, diag));
    return dop_sequence_settle(sequence, diag);
}

/* Appends tokens without feeding them: tokens[n_fed .. n_tokens) are not in the states yet. */
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

/* Makes the sequence the only one in flight. Its next submission starts with n rows at pos. */
static void
go_on_from(dop_sequence *s, uint32_t pos, uint32_t n)
{
    s->model->flight.rows[0] = (dop_sequence_rows){.sequence = s, .pos = pos, .n = n};
    s->model->flight.n_rows = 1;
}

/* Feeds one chunk of a prompt, the last one including its logits. If the device picks from the last chunk, the function
 * does not wait; dop_sequence_next does. */
static dop_status
feed_chunk(dop_sequence *s, dop_diag *diag)
{
    dop_model *m = s->model;
    uint32_t schedule, take;
    const bool parts = s->parts_at > s->n_fed && s->parts_at < s->n_tokens;
    dop_status st =
        dop_step_choose_rows(s, DOP_SCHED_PREFILL, parts ? s->parts_at : s->n_tokens, diag, &schedule, &take);
    if (st != DOP_OK)
        return st;
    const uint32_t at = s->n_fed;
    const bool last = at + take == s->n_tokens;
    if (last && device_continues(s) && m->plan.schedules[schedule].greedy) {
        m->flight.picks_taken = m->flight.picks_asked;
        go_on_from(s, at, take);
        if ((st = dop_step_continue(m, 1, 1, &schedule, diag)) != DOP_OK)
            return st;
        dop_sequence_kept(s, at, 0);
        s->n_fed = at + take;
        return DOP_OK;
    }
    st = dop_step_finish(s, take, at, last ? DOP_FORM_READ : DOP_FORM_BODY, &schedule, diag);
    if (st == DOP_OK && last)
        s->logits = dop_model_logits(m, schedule);
    return st;
}

dop_status
dop_sequence_catch_up(dop_sequence *sequence, dop_diag *diag)
{
    DOP_RETURN_IF_ERROR(dop_sequence_settle(sequence, diag));
    DOP_RETURN_IF_ERROR(dop_sequence_keep_rings(sequence, sequence->n_fed, diag));
    while (sequence->n_fed < sequence->n_tokens)
        DOP_RETURN_IF_ERROR(feed_chunk(sequence, diag));
    /* The pick of the last chunk is not used. */
    return dop_step_drain(sequence->model, diag);
}

/* Reports the tokens fed since `from`. A cancellation after all are fed is ignored. */
static dop_status
report_fed(const dop_sequence *s, uint32_t from, dop_diag *diag)
{
    const bool wanted = dop_progress_report(&s->progress, "tokens", s->n_fed - from, s->n_tokens - from);
    return wanted || s->n_fed == s->n_tokens ? DOP_OK : DOP_CANCELLED(diag);
}

dop_status
dop_sequence_feed(dop_sequence *sequence, const uint32_t *ids, size_t n, dop_diag *diag)
{
    dop_diag_clear(diag);
    DOP_DRIVE(sequence->model, diag);
    if (n == 0)
        return DOP_OK;
    dop_status st = append_tokens(sequence, ids, n, diag);
    if (st != DOP_OK)
        return st;
    sequence->logits = NULL;
    sequence->model->orders.keeps = false; /* a text uses the forms that are ready when it begins */
    st = dop_sequence_keep_rings(sequence, sequence->n_fed, diag);
    dop_step_choose_chunks(sequence->model, DOP_SCHED_PREFILL, sequence->n_tokens - sequence->n_fed);
    const uint32_t from = sequence->n_fed;
    while (st == DOP_OK && sequence->n_fed < sequence->n_tokens) {
        st = feed_chunk(sequence, diag);
        if (st == DOP_OK && sequence->n_fed < sequence->n_tokens)
            st = sequence->n_fed == sequence->parts_at ? dop_sequence_mark(sequence, diag)
                                                       : dop_sequence_mark_chunk(sequence, diag);
        if (st == DOP_OK)
            st = report_fed(sequence, from, diag);
    }
    return st;
}

void
dop_sequence_set_progress(dop_sequence *sequence, const dop_progress *progress)
{
    sequence->progress = progress ? *progress : (dop_progress){NULL, NULL};
}

dop_status
dop_sequence_score(dop_sequence *sequence, const uint32_t *ids, size_t n, dop_logits_fn *fn, void *user, dop_diag *diag)
{
    dop_diag_clear(diag);
    DOP_DRIVE(sequence->model, diag);
    dop_sequence *s = sequence;
    dop_model *m = s->model;
    if (m->no_scoring)
        return DOP_FAIL(diag, DOP_E_INTERNAL, "the model was opened without scoring");
    /* An unfed pick is fed first and not scored, because the caller did not pass it. */
    dop_status st = dop_sequence_make_room(s, ids, n, diag);
    if (st == DOP_OK)
        st = dop_sequence_catch_up(s, diag);
    uint32_t first = s->n_tokens, vocab = m->plan.model->vocab;
    if (st == DOP_OK)
        st = append_tokens(s, ids, n, diag);
    dop_step_choose_chunks(m, DOP_SCHED_SCORE, s->n_tokens - s->n_fed);
    while (st == DOP_OK && s->n_fed < s->n_tokens) {
        uint32_t schedule, take;
        if ((st = dop_step_choose_rows(s, DOP_SCHED_SCORE, s->n_tokens, diag, &schedule, &take)) != DOP_OK)
            break;
        const uint32_t at = s->n_fed;
        st = dop_step_finish(s, take, at, DOP_FORM_READ, &schedule, diag);
        if (st != DOP_OK)
            break;
        const float *rows = dop_model_logits(m, schedule);
        for (uint32_t i = 0; i < take && st == DOP_OK; i++)
            if (dop_logits_largest(rows + (size_t)i * vocab, vocab) == UINT32_MAX)
                st = dop_step_not_finite(m, at + i, diag);
        if (st == DOP_OK)
            st = fn(user, at - first, take, rows, diag);
        s->logits = rows + (size_t)(take - 1) * vocab;
        if (st == DOP_OK)
            st = report_fed(s, first, diag);
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
                        "`dop_sampling.logprobs`, and ask at once",
                        n_top);
    dop_logits_logprobs(s->picked_from, vocab, s->tokens[s->n_tokens - 1], n_top, out_id, out_top);
    return DOP_OK;
}

/* --- picking --------------------------------------------------------------------------------------------------------- */

/* Keeps steps_ahead submissions in flight, but no more than wanted and none past the context. With several sequences it
 * submits only the next step, because calls for the others would drop the rest. */
static dop_status
submit_ahead(dop_sequence *s, dop_diag *diag)
{
    dop_model *m = s->model;
    const uint32_t *next = &m->flight.rows[0].pos;
    if (dop_model_probes_next(m, *next)) {
        dop_status st = m->flight.n == 0 ? dop_model_probe_at(m, *next, diag) : DOP_OK;
        if (st != DOP_OK || m->flight.n > 0)
            return st;
    }
    const bool one = m->n_sequences > 1 || s->masked; /* the next step's mask depends on this step's pick */
    uint32_t most = one ? 1 : m->steps_ahead;
    while (m->flight.n < most) {
        uint32_t pending = m->flight.picks_asked - m->flight.picks_taken;
        uint32_t times = one ? 1 : m->steps_per_submit, room = m->plan.model->ctx - *next;
        uint32_t rewind = m->plan.model->rewind, ahead = *next + 1 - s->n_tokens;
        /* leave room in the sliding windows: picks may be dropped */
        if (rewind != DOP_PLAN_NO_RINGS && room > rewind - (ahead < rewind ? ahead : rewind))
            room = rewind - (ahead < rewind ? ahead : rewind);
        uint32_t wanted = dop_speculator_limit(s->speculator, s->wanted); /* do not run past the next round of drafts */
        if (wanted <= pending || room == 0)
            return DOP_OK;
        if (times > wanted - pending)
            times = wanted - pending;
        if (!dop_step_has_pages(m, m->info.decode, 1, times))
            times = 1;
        if (times > room)
            times = room;
        uint32_t schedule = dop_step_decode_at(m, *next, times);
        const uint32_t at = *next;
        if (m->flight.n > 0 && (!dop_step_has_pages(m, m->info.decode, 1, times) || !dop_model_has(m, schedule)))
            return DOP_OK; /* the step needed now is in flight; this one can wait */
        const bool first = m->flight.n == 0;
        dop_status st = dop_step_continue(m, 1, times, &schedule, diag);
        if (st != DOP_OK)
            return st;
        if (first) /* a second step overwrites the states from before the first */
            dop_sequence_kept(s, at, 0);
    }
    return DOP_OK;
}

static dop_status
context_full(const dop_sequence *s, dop_diag *diag)
{
    return DOP_FAIL(diag, DOP_E_INPUT, "the plan's context of %u tokens is full: compile with a larger `ctx`",
                    s->model->plan.model->ctx);
}

/* Returns the position to feed next. If everything is fed and the pick was dropped because sampling parameters changed,
 * the last token is fed again with the same result. Replaced states must then be those before the last token
 * (make_ready). */
static uint32_t
find_unfed_position(const dop_sequence *s)
{
    return s->n_fed < s->n_tokens ? s->n_fed : s->n_fed - 1;
}

/* Submits steps up to the next pick, and waits for it. */
static dop_status
finish_pick(dop_sequence *s, dop_diag *diag)
{
    dop_model *m = s->model;
    dop_status st;
    if (!m->flight.continues) {
        uint32_t at = find_unfed_position(s);
        if (at == m->plan.model->ctx)
            return context_full(s, diag);
        go_on_from(s, at, 1);
    }
    if ((st = submit_ahead(s, diag)) != DOP_OK)
        return st;
    if (m->flight.picks_asked == m->flight.picks_taken)
        return context_full(s, diag);
    return dop_replay_wait(&m->replay, m->flight.steps[0].ticket, diag);
}

/* Prepares a pick: drops unrelated in-flight steps, and feeds all tokens except the last one. */
static dop_status
make_ready(dop_sequence *s, dop_diag *diag)
{
    dop_model *m = s->model;
    if (m->flight.continues && (m->flight.by_rows || !dop_step_runs(m, s) || s->logits || !device_continues(s)))
        DOP_RETURN_IF_ERROR(dop_step_drain(m, diag));
    if (m->plan.replaces && !m->flight.continues && !s->logits)
        DOP_RETURN_IF_ERROR(dop_sequence_go_back(s, s->n_tokens - 1, diag));
    if (!m->flight.continues && !s->logits)
        DOP_RETURN_IF_ERROR(dop_sequence_keep_rings(s, s->n_fed < s->n_tokens ? s->n_fed : s->n_tokens - 1, diag));
    /* More than the last pick is unfed after an error or when states were cleared. */
    while (!m->flight.continues && s->n_fed + 1 < s->n_tokens)
        DOP_RETURN_IF_ERROR(feed_chunk(s, diag));
    return DOP_OK;
}

static dop_status
next_on_device(dop_sequence *s, dop_diag *diag, uint32_t *out_id)
{
    dop_model *m = s->model;
    dop_status st = finish_pick(s, diag);
    /* At most one retry: with barriers, steps cannot stall. */
    if (st == DOP_OK && dop_model_stalled(m, m->flight.steps[0].end) && (st = dop_model_fall_back(m, diag)) == DOP_OK &&
        (st = make_ready(s, diag)) == DOP_OK)
        st = finish_pick(s, diag);
    if (st != DOP_OK)
        return st;
    uint32_t id = dop_replay_step(&m->replay)->ids[m->flight.picks_taken % DOP_STEP_RING];
    if (id >= m->plan.model->vocab) {
        (void)dop_step_drain(m, NULL); /* later in-flight steps have no valid token to continue from */
        return dop_step_not_finite(m, s->n_tokens - 1, diag);
    }
    /* the device has advanced the replaced states, and may do so again for the next step */
    dop_step_note_version(m, s->place);
    m->flight.picks_taken++;
    if (m->flight.picks_taken == m->flight.steps[0].end)
        dop_step_pop_ahead(m);
    s->n_fed = s->n_tokens; /* the step that made this pick has fed all earlier tokens */
    if (m->flight.n == 1)
        dop_sequence_kept(s, s->n_fed, 0); /* the remaining step feeds this pick and reads the states before it */
    *out_id = id;
    return DOP_OK;
}

/* Feeds one token with the decode schedule. form: whether the device picks or the host gets the logits. */
static dop_status
decode_one(dop_sequence *s, dop_form form, dop_diag *diag)
{
    dop_model *m = s->model;
    const uint32_t at = find_unfed_position(s);
    if (at == m->plan.model->ctx)
        return context_full(s, diag);
    dop_status st = dop_model_probe_at(m, at, diag);
    if (st != DOP_OK)
        return st;
    uint32_t schedule = dop_step_decode_at(m, at, 1);
    if ((st = dop_step_finish(s, 1, at, form, &schedule, diag)) == DOP_OK && form == DOP_FORM_READ)
        s->logits = dop_model_logits(m, schedule);
    return st;
}

dop_status
dop_sequence_own_pick(dop_sequence *sequence, const float *logits, size_t n_tokens, dop_diag *diag, uint32_t *out_id)
{
    uint32_t vocab = sequence->model->plan.model->vocab, id = UINT32_MAX;
    DOP_RETURN_IF_ERROR(sequence->pick(sequence->pick_user, logits, vocab, sequence->tokens, n_tokens, diag, &id));
    if (id >= vocab)
        return DOP_FAIL(diag, DOP_E_INPUT, "the sampler gave token id %u, which is outside the vocabulary of %u", id,
                        vocab);
    *out_id = id;
    return DOP_OK;
}

static dop_status
next_on_host(dop_sequence *s, dop_diag *diag, uint32_t *out_id)
{
    dop_model *m = s->model;
    dop_status st = DOP_OK;
    if (!s->logits && (st = decode_one(s, DOP_FORM_READ, diag)) != DOP_OK)
        return st;
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
        return st; /* the next call tries again */
    s->picked_from = s->logits;
    s->logits = NULL;
    return DOP_OK;
}

/* Picks on the device, with nothing in flight afterwards. */
static dop_status
next_alone(dop_sequence *s, dop_diag *diag, uint32_t *out_id)
{
    dop_model *m = s->model;
    dop_status st = decode_one(s, DOP_FORM_FULL, diag);
    if (st != DOP_OK)
        return st;
    *out_id = dop_replay_step(&m->replay)->ids[(m->flight.picks_taken - 1) % DOP_STEP_RING];
    return *out_id < m->plan.model->vocab ? DOP_OK : dop_step_not_finite(m, s->n_fed - 1, diag);
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
    if (!s->pick && !dop_sampling_can_pick(&s->sampler.params))
        return DOP_FAIL(diag, DOP_E_USAGE, DOP_SAMPLING_ODD);
    if (s->wanted == 0)
        s->wanted = 1;
    return DOP_OK;
}

dop_status
dop_sequence_pick(dop_sequence *sequence, dop_diag *diag, uint32_t *out_id)
{
    dop_sequence *s = sequence;
    DOP_RETURN_IF_ERROR(make_ready(s, diag));
    DOP_RETURN_IF_ERROR(s->logits || !device_picks(s) ? next_on_host(s, diag, out_id)
                        : !device_continues(s)        ? next_alone(s, diag, out_id)
                                                      : next_on_device(s, diag, out_id));
    s->tokens[s->n_tokens++] = *out_id;
    return DOP_OK;
}

void
dop_sequence_picked(dop_sequence *sequence)
{
    dop_sequence *s = sequence;
    if (s->wanted != UINT32_MAX && s->wanted > 0)
        s->wanted--;
    dop_speculator_took(s->speculator);
    /* Only the last step of replaced states can be undone. So at most two steps may be in flight after the last pick;
     * the first of these feeds it. The next step is submitted here so that it runs while the caller works. Errors are
     * ignored, because they recur in the next call. */
    if (s->model->plan.replaces && s->model->flight.continues && s->model->n_sequences == 1 && !s->masked)
        (void)submit_ahead(s, NULL);
}

dop_status
dop_sequence_next_plain(dop_sequence *sequence, dop_diag *diag, uint32_t *out_id)
{
    DOP_RETURN_IF_ERROR(dop_sequence_may_pick(sequence, diag));
    DOP_RETURN_IF_ERROR(dop_sequence_pick(sequence, diag, out_id));
    dop_sequence_picked(sequence);
    return DOP_OK;
}

/* --- adapters -------------------------------------------------------------------------------------------------------- */

dop_status
dop_sequence_set_adapters(dop_sequence *sequence, const dop_adapter_use *uses, size_t n, dop_diag *diag)
{
    dop_diag_clear(diag);
    DOP_DRIVE(sequence->model, diag);
    dop_sequence *s = sequence;
    dop_model *m = s->model;
    dop_adapter_use kept[DOP_ADAPTERS_AT_ONCE];
    uint32_t n_kept = 0;
    for (size_t i = 0; i < n; i++) {
        if (!dop_model_adapter(m, uses[i].adapter))
            return DOP_FAIL(diag, DOP_E_INPUT, "there is no adapter %u", uses[i].adapter);
        if (!isfinite(uses[i].scale) || fabsf(uses[i].scale) > 1e6f)
            return DOP_FAIL(diag, DOP_E_INPUT, "the scale of adapter %u is not a number of sensible size",
                            uses[i].adapter);
        if (uses[i].scale != 0 && n_kept == DOP_ADAPTERS_AT_ONCE)
            return DOP_FAIL(diag, DOP_E_INPUT, "a sequence may use %d adapters at once", DOP_ADAPTERS_AT_ONCE);
        if (uses[i].scale != 0)
            kept[n_kept++] = uses[i];
    }
    if (dop_adapters_name(m, kept, n_kept) == s->adapters)
        return DOP_OK;
    dop_status st = dop_step_none_has(m, s, diag);
    if (st == DOP_OK && (st = dop_step_drain(m, diag)) == DOP_OK)
        st = dop_sequence_settle(s, diag);
    if (st == DOP_OK && s->n_fed > 0) /* the cached states were computed with other adapters */
        st = dop_sequence_empty(s, diag);
    return st == DOP_OK ? dop_adapters_apply(s, kept, n_kept, diag) : st;
}
