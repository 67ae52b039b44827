/* Which decode schedule to take, the one ordered by barriers or one ordered in another way, and the way back when that
 * does not work out.  All do the same, so that steps of any may follow one another; handed values and the turn only stay
 * in step with each other because every run of a schedule is a whole one. */
#include "runtime/session.h"

#include <math.h>
#include <string.h>

/* A probe costs (WARM_UP + ROUNDS * STEPS) steps of each ordering at most, and fewer where steps take long. */
enum { WARM_UP = 2, ROUNDS = 2, STEPS = 4 };
static const double round_ms = 10; /* about as long as one round of one ordering may take */

static bool
has_others(const dop_session *s)
{
    for (uint32_t o = DOP_ORDER_BARRIERS + 1; o < DOP_N_ORDERS; o++)
        if (s->decode[o] != UINT32_MAX)
            return true;
    return false;
}

bool
dop_session_stalled(const dop_session *session, uint32_t n_picks)
{
    const volatile dop_step *step = dop_replay_step(&session->replay);
    /* llvmpipe ends invocations that loop for too long: nobody is left to say so. */
    return has_others(session) && ((step->flags & DOP_STEP_STALLED) || (int32_t)(step->n_out - n_picks) < 0);
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
    dop_log_printf(&s->log, "ordering: a wait ran out: back to barriers");
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
    step->turn = 0;
    step->flags = 0;
    step->n_out = s->picks_asked;
    dop_session_use_ordering(s, DOP_ORDER_BARRIERS);
    for (uint32_t o = DOP_ORDER_BARRIERS + 1; o < DOP_N_ORDERS; o++)
        s->decode[o] = UINT32_MAX;
    s->info.stalled = true;
    return DOP_OK;
}

/* Where a probe takes its steps: from this token at this position on. */
typedef struct place {
    uint32_t token, pos;
} place;

/* ids: what the steps pick. */
static dop_status
run_steps(dop_session *s, place from_here, uint32_t ordering, uint32_t n, uint32_t *ids, double *out_ms, dop_diag *diag)
{
    uint32_t from = s->picks_asked;
    uint64_t ticket;
    dop_session_write_step(s, &from_here.token, 1, from_here.pos);
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

/* Best time of one step in this ordering and by barriers, in turns.  *out_fault: why it is out of the question, NULL: it
 * is not. */
static dop_status
measure(dop_session *s, place where, uint32_t other, double ms[2], const char **out_fault, dop_diag *diag)
{
    const uint32_t orders[2] = {DOP_ORDER_BARRIERS, other};
    uint32_t ids[2][STEPS] = {{0}}, n = WARM_UP;
    ms[0] = ms[1] = (double)INFINITY;
    *out_fault = NULL;
    for (uint32_t round = 0; round <= ROUNDS; round++) {
        double t[2];
        for (uint32_t i = 0; i < 2; i++) {
            uint32_t o = (round + i) % 2; /* barriers first while nothing is known; what goes first takes turns */
            dop_status st = run_steps(s, where, orders[o], n, ids[o], &t[o], diag);
            if (st != DOP_OK)
                return st;
            if (dop_session_stalled(s, s->picks_asked)) {
                *out_fault = "a wait ran out";
                return DOP_OK;
            }
        }
        if (memcmp(ids[0], ids[1], n * sizeof ids[0][0]) != 0) {
            *out_fault = "they pick other tokens";
            return DOP_OK;
        }
        if (round == 0)
            n = t[0] * STEPS < round_ms ? STEPS : t[0] * 2 < round_ms ? 2 : 1;
        for (uint32_t o = 0; o < 2 && round > 0; o++)
            ms[o] = t[o] < ms[o] ? t[o] : ms[o];
    }
    return DOP_OK;
}

/* One ordering against barriers; *io_best: the best time of a step so far, of the ordering taken. */
static dop_status
probe(dop_session *s, place where, uint32_t other, double *io_best, dop_diag *diag)
{
    const char *fault, *name = dop_plan_ordering_name(other);
    double ms[2];
    dop_status st = measure(s, where, other, ms, &fault, diag);
    if (st == DOP_OK && dop_session_stalled(s, s->picks_asked))
        st = dop_session_fall_back(s, diag);
    if (st != DOP_OK)
        return st;
    if (fault) {
        s->decode[other] = UINT32_MAX;
        dop_log_printf(&s->log, "ordering: not %s: %s", name, fault);
        return DOP_OK;
    }
    dop_log_printf(&s->log, "ordering: a step took %.3f ms %s and %.3f ms with barriers", ms[1], name, ms[0]);
    if (ms[1] < ms[0] && ms[1] < *io_best) {
        *io_best = ms[1];
        dop_session_use_ordering(s, other);
    }
    return DOP_OK;
}

static dop_status
probe_all(dop_session *s, place where, dop_diag *diag)
{
    double start = dop_now_ms(), best = (double)INFINITY;
    dop_status st = DOP_OK;
    /* Orderings cost differently as the cache fills: attention has more to do. */
    s->probe_at = where.pos * 2 > 1024 ? where.pos * 2 : 1024;
    dop_session_use_ordering(s, DOP_ORDER_BARRIERS);
    for (uint32_t o = DOP_ORDER_BARRIERS + 1; o < DOP_N_ORDERS && st == DOP_OK; o++)
        if (s->decode[o] != UINT32_MAX)
            st = probe(s, where, o, &best, diag);
    s->info.probe_ms = dop_now_ms() - start;
    if (st == DOP_OK)
        dop_log_printf(&s->log, "ordering: %s; probe %.1f ms", dop_plan_ordering_name(s->info.ordering),
                       s->info.probe_ms);
    return st;
}

dop_status
dop_session_probe_ordering(dop_session *session, dop_diag *diag)
{
    dop_session *s = session;
    uint64_t ticket;
    place first = {s->plan.model->bos_id > 0 ? (uint32_t)s->plan.model->bos_id : 0, 0};
    if (!has_others(s) || s->plan.model->ctx <= STEPS)
        return DOP_OK;
    dop_status st = probe_all(s, first, diag);
    if (st == DOP_OK)
        st = dop_replay_clear(&s->replay, DOP_CLEAR_STATE, diag, &ticket);
    if (st == DOP_OK)
        st = dop_replay_wait(&s->replay, ticket, diag);
    return st;
}

static bool
all_made(const dop_session *s)
{
    for (uint32_t o = 0; o < DOP_N_ORDERS; o++)
        if (s->decode[o] != UINT32_MAX && !dop_session_has(s, s->decode[o]))
            return false;
    return true;
}

bool
dop_session_probes_next(const dop_session *session)
{
    const dop_session *s = session;
    return s->probes && s->dev_pos >= s->probe_at && s->dev_pos + STEPS < s->plan.model->ctx && has_others(s) &&
           all_made(s);
}

dop_status
dop_session_probe_here(dop_session *session, dop_diag *diag)
{
    dop_session *s = session;
    dop_status st = probe_all(s, (place){s->tokens[s->dev_pos], s->dev_pos}, diag);
    dop_session_write_step(s, s->tokens + s->dev_pos, 1, s->dev_pos);
    return st;
}

dop_status
dop_session_choose_ordering(dop_session *session, dop_ordering wanted, dop_diag *diag)
{
    dop_session *s = session;
    uint32_t order = wanted > DOP_ORDERING_BARRIERS ? wanted - DOP_ORDERING_BARRIERS : DOP_ORDER_BARRIERS;
    if (!s->plan.schedules[s->decode[DOP_ORDER_BARRIERS]].greedy) /* not the same but for the ordering */
        for (uint32_t o = DOP_ORDER_BARRIERS + 1; o < DOP_N_ORDERS; o++)
            s->decode[o] = UINT32_MAX;
    if (s->decode[order] == UINT32_MAX)
        return DOP_FAIL_IN(diag, DOP_E_INPUT, s->plan.path,
                           "the plan has no %s decode schedule for target %s: compile it for a target that has one, or "
                           "leave --ordering out",
                           dop_plan_ordering_name(order),
                           dop_plan_string(&s->plan, s->plan.profiles[s->info.profile].name));
    dop_session_use_ordering(s, order);
    s->probes = wanted == DOP_ORDERING_AUTO && has_others(s);
    return s->probes && all_made(s) ? dop_session_probe_ordering(s, diag) : DOP_OK;
}
