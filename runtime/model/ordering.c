/* Chooses the ordering of decode steps; see ordering.h. */
#include "runtime/model/ordering.h"
#include "plan/plan_names.h"
#include "runtime/model/model_load.h"
#include "runtime/model/model_used.h"
#include "runtime/model/ordering_rows.h"
#include "runtime/model/part.h"
#include "runtime/model/probe.h"

#include <math.h>

static bool
has_others(const dop_model *m)
{
    for (uint32_t o = DOP_ORDER_BARRIERS + 1; o < DOP_N_ORDERS; o++)
        if (m->orders.decode[o] != UINT32_MAX)
            return true;
    return false;
}

bool
dop_model_stalled(const dop_model *model, uint32_t n_picks)
{
    const volatile dop_step *step = dop_replay_step(&model->replay);
    /* llvmpipe kills invocations that loop for too long, so the stall flag may stay unset; then the pick count is too
     * low. */
    return has_others(model) && ((step->flags & DOP_STEP_STALLED) || (int32_t)(step->n_out - n_picks) < 0);
}

void
dop_model_use_ordering(dop_model *model, uint32_t ordering)
{
    if (model->orders.decode[ordering] == UINT32_MAX)
        return;
    model->info.decode = model->orders.decode[ordering];
    model->info.ordering = ordering;
}

dop_status
dop_model_fall_back(dop_model *model, dop_diag *diag)
{
    dop_model *m = model;
    uint64_t ticket;
    dop_log_printf(&m->log, "ordering: a wait ran out: back to barriers");
    DOP_RETURN_IF_ERROR(dop_replay_wait(&m->replay, m->replay.submitted, diag));
    DOP_RETURN_IF_ERROR(dop_replay_clear(&m->replay, DOP_CLEAR_SYNC, diag, &ticket));
    DOP_RETURN_IF_ERROR(dop_replay_wait(&m->replay, ticket, diag));
    bool lost = m->plan.replaces &&
                m->flight.n > 1; /* the step after the stalled one has overwritten the states that it began with */
    m->flight.n = 0;
    m->flight.continues = false;
    m->flight.picks_taken = m->flight.picks_asked;
    volatile dop_step *step = dop_replay_step(&m->replay);
    step->persistent_runs = 0;
    for (uint32_t i = 0; i < DOP_STEP_SEVERAL; i++) {
        step->several_runs[i] = 0;
        m->orders.several[i].schedule = UINT32_MAX;
    }
    step->flags = 0;
    step->n_out = m->flight.picks_asked;
    dop_sequence *runner = m->flight.n_rows > 0 ? m->flight.rows[0].sequence : NULL;
    for (uint32_t i = 0; i < m->flight.n_rows; i++) {
        /* The stalled step is not committed; it wrote the other copy of the states. */
        dop_sequence *s = m->flight.rows[i].sequence;
        dop_sequence_kept(s, UINT32_MAX, 0);
        step->parity[s->place] = m->parity[s->place];
    }
    m->flight.n_rows = 0;
    m->flight.by_rows = false;
    dop_model_use_ordering(m, DOP_ORDER_BARRIERS);
    for (uint32_t o = DOP_ORDER_BARRIERS + 1; o < DOP_N_ORDERS; o++)
        m->orders.decode[o] = UINT32_MAX;
    m->info.stalled = true;
    if (!lost)
        return DOP_OK;
    runner->n_fed = runner->n_written = 0; /* it was the only sequence, so clearing affects no other states */
    DOP_RETURN_IF_ERROR(dop_replay_clear(&m->replay, DOP_CLEAR_STATE, diag, &ticket));
    return dop_replay_wait(&m->replay, ticket, diag);
}

/* Compares one ordering with barriers, and switches to it if it is the fastest so far. *io_best: best step time so far,
 * of the chosen ordering. */
static dop_status
probe_ordering(dop_model *m, uint32_t pos, uint32_t other, double *io_best, dop_diag *diag)
{
    const char *name = dop_plan_ordering_name(other);
    dop_probe_result r;
    dop_status st = dop_probe_run(m, other, pos, diag, &r);
    if (st != DOP_OK)
        return st;
    if (r.fault) {
        m->orders.decode[other] = UINT32_MAX;
        dop_log_printf(&m->log, "ordering: not %s: %s", name, r.fault);
        return DOP_OK;
    }
    dop_log_printf(
        &m->log,
        "ordering: a step took %.3f ms %s and %.3f ms with barriers; logits differ by %.1e standard deviations "
        "(%.1e allowed)",
        r.ms[1], name, r.ms[0], r.distance, r.bound);
    if (r.ms[1] < r.ms[0] && r.ms[1] < *io_best) {
        *io_best = r.ms[1];
        dop_model_use_ordering(m, other);
    }
    return DOP_OK;
}

dop_status
dop_model_probe(dop_model *model, uint32_t pos, dop_diag *diag)
{
    dop_model *m = model;
    double start = dop_now_ms(), best = (double)INFINITY;
    dop_status st = DOP_OK;
    /* Costs shift as the cache fills, because attention grows: probe again at twice the position. */
    m->orders.probe_at = pos * 2 > 1024 ? pos * 2 : 1024;
    dop_model_use_ordering(m, DOP_ORDER_BARRIERS);
    for (uint32_t o = DOP_ORDER_BARRIERS + 1; o < DOP_N_ORDERS && st == DOP_OK; o++)
        if (m->orders.decode[o] != UINT32_MAX)
            st = probe_ordering(m, pos, o, &best, diag);
    m->info.probe_ms = dop_now_ms() - start;
    if (st == DOP_OK)
        dop_log_printf(&m->log, "ordering: %s; probe %.1f ms", dop_plan_ordering_name(m->info.ordering),
                       m->info.probe_ms);
    return st;
}

static bool
all_made(const dop_model *m)
{
    for (uint32_t o = 0; o < DOP_N_ORDERS; o++)
        if (m->orders.decode[o] != UINT32_MAX && !dop_model_has(m, m->orders.decode[o]))
            return false;
    return m->orders.probe_prefill == UINT32_MAX || dop_model_has(m, m->orders.probe_prefill);
}

/* Waits briefly for the forms that a probe compares. */
static bool
await_all(dop_model *m)
{
    for (uint32_t o = 0; o < DOP_N_ORDERS; o++)
        if (m->orders.decode[o] != UINT32_MAX && !dop_model_await(m, m->orders.decode[o]))
            return false;
    return m->orders.probe_prefill == UINT32_MAX || dop_model_await(m, m->orders.probe_prefill);
}

bool
dop_model_probes_next(const dop_model *model, uint32_t pos)
{
    const dop_model *m = model;
    return m->orders.probes && !m->orders.keeps && pos >= m->orders.probe_at &&
           pos + DOP_PROBE_ROWS < m->plan.model->ctx && has_others(m);
}

dop_status
dop_model_probe_at(dop_model *model, uint32_t pos, dop_diag *diag)
{
    dop_model *m = model;
    if (!dop_model_probes_next(m, pos))
        return DOP_OK;
    if (await_all(m))
        return dop_model_probe(m, pos, diag);
    m->orders.keeps = true;
    dop_log_printf(&m->log, "ordering: barriers for this text: the other forms are not there yet");
    return DOP_OK;
}

dop_status
dop_model_choose_ordering(dop_model *model, dop_ordering wanted, dop_diag *diag)
{
    dop_model *m = model;
    if (!dop_plan_steps(&m->plan)) {
        dop_model_find_rows_orders(m, wanted);
        return DOP_OK;
    }
    uint32_t order = wanted > DOP_ORDERING_BARRIERS ? wanted - DOP_ORDERING_BARRIERS : DOP_ORDER_BARRIERS;
    if (!m->plan.schedules[m->orders.decode[DOP_ORDER_BARRIERS]].greedy &&
        !dop_part_is_inner(m)) /* the schedules differ in more than the ordering */
        for (uint32_t o = DOP_ORDER_BARRIERS + 1; o < DOP_N_ORDERS; o++)
            m->orders.decode[o] = UINT32_MAX;
    if (m->orders.decode[order] == UINT32_MAX)
        return DOP_FAIL_IN(diag, DOP_E_INPUT, m->plan.path,
                           "the plan has no %s decode schedule for target %s: compile it for a target that has one, or "
                           "leave `ordering` out",
                           dop_plan_ordering_name(order),
                           dop_plan_string(&m->plan, m->plan.profiles[m->info.profile].name));
    dop_model_use_ordering(m, order);
    dop_model_find_rows_orders(m, wanted);
    m->orders.probes = wanted == DOP_ORDERING_AUTO && has_others(m);
    m->orders.probe_prefill = dop_model_schedule_for(m, DOP_SCHED_PREFILL, DOP_PROBE_ROWS);
    return all_made(m) ? dop_model_probe_at(m, 0, diag) : DOP_OK;
}
