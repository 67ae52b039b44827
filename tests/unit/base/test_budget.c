/* Budgets: what is charged, what ends them, and that they stay ended. */
#include "base/budget.h"
#include "base/os/clock.h"

#include <criterion/criterion.h>
#include <string.h>

Test(budget, none_has_no_limits)
{
    cr_assert(dop_budget_step(NULL, UINT64_MAX));
    cr_assert(dop_budget_take(NULL, UINT64_MAX));
    cr_assert_not(dop_budget_ended(NULL));
    dop_budget_give(NULL, 1);
    dop_budget b = DOP_BUDGET_UNLIMITED;
    cr_assert(dop_budget_step(&b, UINT64_MAX / 2));
    cr_assert(dop_budget_step(&b, UINT64_MAX / 2));
    cr_assert(dop_budget_take(&b, UINT64_MAX - 1));
    cr_assert(dop_budget_take(&b, UINT64_MAX - 1));
    cr_assert_not(dop_budget_ended(&b));
}

Test(budget, steps_and_bytes_end_it_for_good)
{
    dop_diag diag = {0};
    dop_budget b = {.steps = 10, .bytes = 100};
    cr_assert(dop_budget_step(&b, 10));
    cr_assert(dop_budget_take(&b, 60));
    cr_assert(dop_budget_take(&b, 40));
    dop_budget_give(&b, 40);
    cr_assert(dop_budget_take(&b, 40));
    cr_assert_not(dop_budget_take(&b, 1));
    dop_budget_give(&b, 100);
    cr_assert_not(dop_budget_take(&b, 1), "it was exhausted before");
    cr_assert_not(dop_budget_step(&b, 0));
    cr_assert_eq(b.end, DOP_BUDGET_BYTES);
    cr_assert_eq(dop_budget_fail(&b, &diag, "the text"), DOP_E_LIMIT);
    cr_assert_str_eq(diag.message, "the text takes too much memory");
    b = (dop_budget){.steps = 10, .bytes = UINT64_MAX};
    cr_assert_not(dop_budget_step(&b, 11));
    cr_assert_eq(b.end, DOP_BUDGET_STEPS);
}

Test(budget, time_and_others_end_it)
{
    dop_budget b = DOP_BUDGET_UNLIMITED;
    b.until_ms = dop_now_ms() - 1.0;
    cr_assert(dop_budget_step(&b, 1), "the clock is not looked at for every step");
    uint32_t more = 1;
    while (dop_budget_step(&b, 1) && more < 1000000)
        more++;
    cr_assert_lt(more, 1000000);
    cr_assert_eq(b.end, DOP_BUDGET_TIME);
    atomic_bool cancelled = false;
    b = DOP_BUDGET_UNLIMITED;
    b.cancelled = &cancelled;
    cr_assert_not(dop_budget_ended(&b));
    atomic_store(&cancelled, true);
    cr_assert(dop_budget_ended(&b));
    cr_assert_eq(b.end, DOP_BUDGET_CANCELLED);
}
