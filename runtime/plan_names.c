#include "runtime/plan.h"

const char *
dop_plan_string(const dop_plan *plan, uint32_t offset)
{
    return plan->strings + offset;
}

const char *
dop_plan_ordering_name(uint32_t ordering)
{
    static const char *const names[DOP_N_ORDERS] = {"barriers", "persistent"};
    return names[ordering];
}

uint32_t
dop_plan_logit_rows(const dop_plan_schedule *schedule)
{
    return schedule->kind == DOP_SCHED_SCORE || schedule->kind == DOP_SCHED_ROWS ? schedule->max_rows : 1;
}
