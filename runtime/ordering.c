/* Which decode schedule to take, the one ordered by barriers or the one by completion counters, and the way back when
 * counters do not work out.  Both do the same, so that steps of either may follow one another; counters and epoch only
 * stay in step with each other because every run of a schedule with counters is a whole one. */
#include "runtime/session.h"

#include <math.h>
#include <string.h>

/* A probe costs 2 * (WARM_UP + ROUNDS * STEPS) steps at most, and fewer where steps take long. */
enum { WARM_UP = 2, ROUNDS = 2, STEPS = 4 };
static const double round_ms = 10; /* about as long as one round of one ordering may take */

bool
dop_session_stalled(const dop_session *session, uint32_t n_picks)
{
    const volatile dop_step *step = dop_replay_step(&session->replay);
    /* llvmpipe ends invocations that loop for too long: nobody is left to say so. */
    return session->decode[DOP_ORDER_COUNTERS] != UINT32_MAX &&
           ((step->flags & DOP_STEP_STALLED) || (int32_t)(step->n_out - n_picks) < 0);
}

void
dop_session_use_ordering(dop_session *session, uint32_t ordering)
{
    if (session->decode[ordering] == UINT32_MAX)
        return;
    session->info.decode = session->decode[ordering];
    session->info.ordering = ordering;
}

dop_status
dop_session_fall_back(dop_session *session, dop_diag *diag)
{
    dop_session *s = session;
    uint64_t ticket;
    dop_log_printf(&s->log, "ordering: a wait for a counter ran out: back to barriers");
    dop_status st = dop_replay_wait(&s->replay, s->replay.submitted, diag);
    if (st == DOP_OK)
        st = dop_replay_clear(&s->replay, DOP_CLEAR_SYNC, diag, &ticket);
    if (st == DOP_OK)
        st = dop_replay_wait(&s->replay, ticket, diag);
    if (st != DOP_OK)
        return st;
    s->n_ahead = 0;
    s->running = false;
    s->picks_taken = s->picks_asked;
    volatile dop_step *step = dop_replay_step(&s->replay);
    step->epoch = 0;
    step->flags = 0;
    step->n_out = s->picks_asked;
    dop_session_use_ordering(s, DOP_ORDER_BARRIERS);
    s->decode[DOP_ORDER_COUNTERS] = UINT32_MAX;
    s->info.stalled = true;
    return DOP_OK;
}

/* The first steps of a sequence that starts with the model's own first token; ids: what they pick. */
static dop_status
run_steps(dop_session *s, uint32_t ordering, uint32_t n, uint32_t *ids, double *out_ms, dop_diag *diag)
{
    uint32_t first = s->plan.model->bos_id > 0 ? (uint32_t)s->plan.model->bos_id : 0, from = s->picks_asked;
    uint64_t ticket;
    dop_session_write_step(s, &first, 1, 0);
    double start = dop_now_ms();
    dop_status st = dop_session_submit(s, s->decode[ordering], DOP_FORM_FULL, n, diag, &ticket);
    if (st == DOP_OK)
        st = dop_replay_wait(&s->replay, ticket, diag);
    *out_ms = (dop_now_ms() - start) / n;
    s->picks_taken = s->picks_asked;
    for (uint32_t i = 0; i < n && st == DOP_OK; i++)
        ids[i] = dop_replay_step(&s->replay)->ids[(from + i) % DOP_STEP_RING];
    return st;
}

/* Best time of one step by ordering; *out_fault: why counters are out of the question, NULL: they are not. */
static dop_status
measure(dop_session *s, double ms[2], const char **out_fault, dop_diag *diag)
{
    uint32_t ids[2][STEPS] = {{0}}, n = WARM_UP;
    ms[0] = ms[1] = (double)INFINITY;
    *out_fault = NULL;
    for (uint32_t round = 0; round <= ROUNDS; round++) {
        double t[2];
        for (uint32_t i = 0; i < 2; i++) {
            uint32_t o = (round + i) % 2; /* barriers first while nothing is known; what goes first takes turns */
            dop_status st = run_steps(s, o, n, ids[o], &t[o], diag);
            if (st != DOP_OK)
                return st;
            if (dop_session_stalled(s, s->picks_asked)) {
                *out_fault = "a wait for a counter ran out";
                return DOP_OK;
            }
        }
        if (memcmp(ids[0], ids[1], n * sizeof ids[0][0]) != 0) {
            *out_fault = "they pick other tokens";
            return DOP_OK;
        }
        if (round == 0)
            n = t[DOP_ORDER_BARRIERS] * STEPS < round_ms ? STEPS : t[DOP_ORDER_BARRIERS] * 2 < round_ms ? 2 : 1;
        for (uint32_t o = 0; o < 2 && round > 0; o++)
            ms[o] = t[o] < ms[o] ? t[o] : ms[o];
    }
    return DOP_OK;
}

dop_status
dop_session_probe_ordering(dop_session *session, dop_diag *diag)
{
    dop_session *s = session;
    double start = dop_now_ms(), ms[2];
    const char *fault;
    uint64_t ticket;
    dop_session_use_ordering(s, DOP_ORDER_BARRIERS);
    if (s->decode[DOP_ORDER_COUNTERS] == UINT32_MAX || s->plan.model->ctx <= STEPS)
        return DOP_OK;
    dop_status st = measure(s, ms, &fault, diag);
    if (st == DOP_OK && dop_session_stalled(s, s->picks_asked))
        st = dop_session_fall_back(s, diag);
    if (st == DOP_OK && !fault && ms[DOP_ORDER_COUNTERS] < ms[DOP_ORDER_BARRIERS])
        dop_session_use_ordering(s, DOP_ORDER_COUNTERS);
    if (st == DOP_OK && fault)
        s->decode[DOP_ORDER_COUNTERS] = UINT32_MAX;
    if (st == DOP_OK)
        st = dop_replay_clear(&s->replay, DOP_CLEAR_STATE, diag, &ticket);
    if (st == DOP_OK)
        st = dop_replay_wait(&s->replay, ticket, diag);
    if (st != DOP_OK)
        return st;
    s->info.probe_ms = dop_now_ms() - start;
    if (fault)
        dop_log_printf(&s->log, "ordering: barriers; with counters %s; probe %.1f ms", fault, s->info.probe_ms);
    else
        dop_log_printf(
            &s->log, "ordering: %s; a step took %.3f ms with counters and %.3f ms with barriers; probe %.1f ms",
            dop_plan_ordering_name(s->info.ordering), ms[DOP_ORDER_COUNTERS], ms[DOP_ORDER_BARRIERS], s->info.probe_ms);
    return DOP_OK;
}

dop_status
dop_session_choose_ordering(dop_session *session, dop_ordering wanted, dop_diag *diag)
{
    dop_session *s = session;
    bool has = s->decode[DOP_ORDER_COUNTERS] != UINT32_MAX;
    if (has && !s->plan.schedules[s->decode[DOP_ORDER_BARRIERS]].greedy) {
        s->decode[DOP_ORDER_COUNTERS] = UINT32_MAX; /* not the same but for the ordering */
        has = false;
    }
    if (wanted == DOP_ORDERING_COUNTERS && !has && !s->device.info.memory_model)
        return DOP_FAIL(diag, DOP_E_DEVICE,
                        "--ordering counters needs the Vulkan memory model with device scope, which %s lacks",
                        s->device.info.caps.name);
    if (wanted == DOP_ORDERING_COUNTERS && !has)
        return DOP_FAIL_IN(diag, DOP_E_INPUT, s->plan.path,
                           "the plan has no decode schedule ordered by counters for target %s: compile it for a target "
                           "with counters, or leave --ordering out",
                           dop_plan_string(&s->plan, s->plan.profiles[s->info.profile].name));
    dop_session_use_ordering(s, wanted == DOP_ORDERING_COUNTERS ? DOP_ORDER_COUNTERS : DOP_ORDER_BARRIERS);
    return wanted == DOP_ORDERING_AUTO && has ? dop_session_probe_ordering(s, diag) : DOP_OK;
}
