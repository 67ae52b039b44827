/* What a schedule uses of a plan: its kernels and slots. */
#include "runtime/model/model.h"

#include <stdlib.h>

static void
mark_dispatch(const dop_plan *plan, const dop_plan_dispatch *d, dop_used *out)
{
    out->kernels[d->kernel] = true;
    for (uint32_t k = 0; k < d->n_args; k++)
        if (plan->args[d->first_arg + k].slot != DOP_ARG_NUMBERS)
            out->slots[plan->args[d->first_arg + k].slot] = true;
}

void
dop_model_mark(const dop_plan *plan, uint32_t schedule, dop_used *out)
{
    const dop_plan_schedule *s = &plan->schedules[schedule];
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
    u->schedules = calloc((size_t)plan->n_schedules + plan->n_kernels + plan->n_slots, sizeof(bool));
    if (!u->schedules)
        return DOP_FAIL(diag, DOP_E_NOMEM, "out of memory");
    u->kernels = u->schedules + plan->n_schedules;
    u->slots = u->kernels + plan->n_kernels;
    return DOP_OK;
}
