/* Table of the schedules that a model uses, with their kernels and slots. */
#include "runtime/model/model_used.h"
#include "runtime/model/info.h"
#include "runtime/model/model.h"

#include <stdlib.h>
#include <string.h>

static uint32_t
cell_of(uint32_t kind, uint32_t ordering)
{
    return kind * DOP_N_ORDERS + ordering;
}

static void
insert_used_schedule(const dop_plan *plan, uint32_t schedule, dop_used *u)
{
    const dop_plan_schedule *s = &plan->schedules[schedule];
    const uint32_t cell = cell_of(s->kind + (s->adapted ? DOP_SCHED_END : 0), s->ordering);
    uint32_t at = u->first[cell + 1];
    while (at > u->first[cell] && plan->schedules[u->schedules[at - 1]].max_rows > s->max_rows)
        at--;
    memmove(u->schedules + at + 1, u->schedules + at, (u->n++ - at) * sizeof *u->schedules);
    u->schedules[at] = schedule;
    for (uint32_t i = cell + 1; i < sizeof u->first / sizeof u->first[0]; i++)
        u->first[i]++;
}

static void
mark_dispatch(const dop_plan *plan, const dop_plan_dispatch *d, dop_used *out)
{
    out->kernels[d->kernel] = true;
    for (uint32_t k = 0; k < d->n_args; k++)
        if (plan->args[d->first_arg + k].slot != DOP_ARG_NUMBERS)
            out->slots[plan->args[d->first_arg + k].slot] = true;
}

void
dop_used_add(const dop_plan *plan, uint32_t schedule, dop_used *out)
{
    const dop_plan_schedule *s = &plan->schedules[schedule];
    insert_used_schedule(plan, schedule, out);
    out->slots[plan->step_slot] = true;
    if (s->logits_slot != DOP_PLAN_NO_SLOT)
        out->slots[s->logits_slot] = true;
    if (s->table_slot != DOP_PLAN_NO_SLOT)
        out->slots[s->table_slot] = true;
    for (uint32_t i = 0; i < plan->n_crossings; i++)
        if (plan->crossings[i].schedule == schedule)
            out->slots[plan->crossings[i].slot] = true;
    for (uint32_t j = 0; j < s->n_dispatches; j++)
        mark_dispatch(plan, &plan->dispatches[s->first_dispatch + j], out);
    for (uint32_t j = 0; j < s->n_stages; j++)
        mark_dispatch(plan, &plan->dispatches[s->first_stage + j], out);
}

dop_status
dop_used_init(const dop_plan *plan, dop_diag *diag, dop_used *out_used)
{
    dop_used *u = out_used;
    const size_t numbers = (size_t)plan->n_schedules * sizeof *u->schedules;
    *u = (dop_used){.schedules = calloc(1, numbers + ((size_t)plan->n_kernels + plan->n_slots) * sizeof(bool))};
    if (!u->schedules)
        return DOP_NO_MEMORY(diag);
    u->kernels = (bool *)(u->schedules + plan->n_schedules);
    u->slots = u->kernels + plan->n_kernels;
    return DOP_OK;
}

void
dop_used_add_profile(const dop_plan *plan, uint32_t profile, uint32_t orderings, bool scoring, dop_used *out)
{
    out->slots[plan->step_slot] = true;
    for (uint32_t i = 0; i < plan->n_schedules; i++) {
        const dop_plan_schedule *s = &plan->schedules[i];
        if (s->profile == profile && (orderings >> s->ordering & 1) &&
            (scoring || (s->kind != DOP_SCHED_SCORE && s->kind != DOP_SCHED_EMBED)))
            dop_used_add(plan, i, out);
    }
}

dop_status
dop_used_memory(const dop_plan *plan, uint32_t profile, dop_diag *diag, uint64_t out_bytes[DOP_SLOT_KINDS])
{
    dop_used used;
    memset(out_bytes, 0, DOP_SLOT_KINDS * sizeof *out_bytes);
    dop_status st = dop_used_init(plan, diag, &used);
    if (st != DOP_OK)
        return st;
    dop_used_add_profile(plan, profile, UINT32_MAX, true, &used);
    for (uint32_t i = 0; i < plan->n_slots; i++)
        out_bytes[plan->slots[i].kind] += used.slots[i] ? plan->slots[i].size : 0;
    free(used.schedules);
    return DOP_OK;
}

const uint32_t *
dop_used_of(const dop_used *used, uint32_t kind, uint32_t ordering, uint32_t *out_n)
{
    const uint32_t cell = cell_of(kind, ordering);
    *out_n = used->first[cell + 1] - used->first[cell];
    return used->schedules + used->first[cell];
}

uint32_t
dop_model_schedule_for(const dop_model *model, uint32_t kind, uint32_t n)
{
    uint32_t n_of;
    const uint32_t *of = dop_used_of(&model->used, kind, DOP_ORDER_BARRIERS, &n_of);
    if (n <= 1 && kind < DOP_SCHED_EMBED)
        return model->orders.decode[DOP_ORDER_BARRIERS];
    for (uint32_t i = 0; i < n_of; i++)
        if (model->plan.schedules[of[i]].max_rows >= n)
            return of[i];
    return UINT32_MAX;
}

uint32_t
dop_model_schedule_of(const dop_model *model, uint32_t kind, uint32_t max_rows)
{
    uint32_t n;
    const uint32_t *of = dop_used_of(&model->used, kind, DOP_ORDER_BARRIERS, &n);
    for (uint32_t i = 0; i < n; i++)
        if (model->plan.schedules[of[i]].max_rows == max_rows)
            return of[i];
    return UINT32_MAX;
}

uint32_t
dop_model_schedule_adapted(const dop_model *model, uint32_t schedule)
{
    const dop_plan_schedule *s = &model->plan.schedules[schedule];
    const uint32_t orders[] = {s->ordering, DOP_ORDER_BARRIERS};
    for (uint32_t o = 0; o < 2 && !s->adapted; o++) {
        uint32_t n;
        const uint32_t *of = dop_used_of(&model->used, s->kind + DOP_SCHED_END, orders[o], &n);
        for (uint32_t i = 0; i < n; i++)
            if (model->plan.schedules[of[i]].max_rows == s->max_rows)
                return of[i];
    }
    return schedule;
}
