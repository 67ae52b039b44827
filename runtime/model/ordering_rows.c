/* Chooses the ordering of steps with a few rows of several sequences; see ordering_rows.h. */
#include "runtime/model/ordering_rows.h"
#include "runtime/model/model.h"
#include "runtime/model/model_load.h"
#include "runtime/model/model_used.h"
#include "runtime/model/probe.h"

void
dop_model_find_rows_orders(dop_model *model, dop_ordering wanted)
{
    dop_model *m = model;
    m->orders.last_rows = UINT32_MAX;
    for (uint32_t i = 0; i < DOP_STEP_SEVERAL; i++)
        m->orders.several[i] = (dop_rows_order){.schedule = UINT32_MAX};
    uint32_t n;
    const uint32_t *of = dop_used_of(&m->used, DOP_SCHED_ROWS, DOP_ORDER_PERSISTENT, &n);
    for (uint32_t i = 0; i < n && !m->ranks; i++)
        m->orders.several[m->plan.schedules[of[i]].max_rows - 1] =
            (dop_rows_order){.schedule = of[i], .probed = wanted == DOP_ORDERING_PERSISTENT, .use = true};
}

static dop_status
probe_rows_ordering(dop_model *m, uint32_t barriers, dop_rows_order *order, dop_diag *diag)
{
    const double start = dop_now_ms();
    dop_probe_result r;
    dop_status st = dop_probe_rows(m, barriers, order->schedule, diag, &r);
    order->probed = true;
    if (st != DOP_OK)
        return st;
    order->use = !r.fault && r.ms[1] < r.ms[0];
    if (r.fault)
        dop_log_printf(&m->log, "ordering: steps of %u rows not persistent: %s", m->plan.schedules[barriers].max_rows,
                       r.fault);
    else
        dop_log_printf(
            &m->log,
            "ordering: a step of %u rows took %.3f ms persistent and %.3f ms with barriers; logits differ by "
            "%.1e standard deviations (%.1e allowed); probe %.1f ms",
            m->plan.schedules[barriers].max_rows, r.ms[1], r.ms[0], r.distance, r.bound, dop_now_ms() - start);
    return DOP_OK;
}

dop_status
dop_model_order_rows(dop_model *model, uint32_t schedule, dop_diag *diag, uint32_t *out_schedule)
{
    dop_model *m = model;
    const dop_plan_schedule *s = &m->plan.schedules[schedule];
    *out_schedule = schedule;
    if (s->kind != DOP_SCHED_ROWS || s->max_rows > DOP_STEP_SEVERAL)
        return DOP_OK;
    dop_rows_order *order = &m->orders.several[s->max_rows - 1];
    dop_status st = DOP_OK;
    if (order->schedule == UINT32_MAX || (!order->probed && m->orders.keeps))
        return DOP_OK;
    if (!order->probed && !dop_model_await(m, order->schedule)) {
        m->orders.keeps = true;
        return DOP_OK;
    }
    if (!order->probed && (st = dop_model_need(m, schedule, diag)) == DOP_OK)
        st = probe_rows_ordering(m, schedule, order, diag);
    if (st == DOP_OK && order->use && (st = dop_model_need(m, order->schedule, diag)) == DOP_OK)
        *out_schedule = order->schedule;
    return st;
}
