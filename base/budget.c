#include "base/budget.h"

#include "base/os/clock.h"

/* Number of steps between checks of the clock: below 1 ms of work, at about 10 ns per step (budget.h). */
enum { LOOK_EVERY = 1 << 14 };

static bool
record_budget_end(dop_budget *b, dop_budget_end why)
{
    if (b->end == DOP_BUDGET_LEFT)
        b->end = why;
    return false;
}

bool
dop_budget_ended(dop_budget *b)
{
    if (!b)
        return false;
    b->unseen = 0;
    if (b->extend && b->until_ms > 0.0 && dop_now_ms() > b->until_ms) {
        const double later = b->extend(b->user);
        b->extend = NULL;
        b->until_ms = later > 0.0 ? later : b->until_ms;
    }
    if (b->cancelled && atomic_load_explicit(b->cancelled, memory_order_relaxed))
        record_budget_end(b, DOP_BUDGET_CANCELLED);
    else if (b->until_ms > 0.0 && dop_now_ms() > b->until_ms)
        record_budget_end(b, DOP_BUDGET_TIME);
    return b->end != DOP_BUDGET_LEFT;
}

bool
dop_budget_step(dop_budget *b, uint64_t steps)
{
    if (!b)
        return true;
    if (b->end != DOP_BUDGET_LEFT)
        return false;
    if (b->steps != UINT64_MAX) {
        if (b->steps < steps)
            return record_budget_end(b, DOP_BUDGET_STEPS);
        b->steps -= steps;
    }
    if (steps < LOOK_EVERY && (b->unseen += (uint32_t)steps) < LOOK_EVERY)
        return true;
    return !dop_budget_ended(b);
}

bool
dop_budget_take(dop_budget *b, uint64_t bytes)
{
    if (!b)
        return true;
    if (b->end != DOP_BUDGET_LEFT)
        return false;
    if (b->bytes != UINT64_MAX) {
        if (b->bytes < bytes)
            return record_budget_end(b, DOP_BUDGET_BYTES);
        b->bytes -= bytes;
    }
    return true;
}

void
dop_budget_give(dop_budget *b, uint64_t bytes)
{
    if (b && b->bytes != UINT64_MAX)
        b->bytes += bytes;
}

dop_status
dop_budget_fail(const dop_budget *b, dop_diag *diag, const char *what)
{
    static const char *const words[] = {
        [DOP_BUDGET_LEFT] = "is too large",           [DOP_BUDGET_STEPS] = "takes too many steps",
        [DOP_BUDGET_BYTES] = "takes too much memory", [DOP_BUDGET_TIME] = "takes too long",
        [DOP_BUDGET_CANCELLED] = "was given up",
    };
    return DOP_FAIL(diag, DOP_E_LIMIT, "%s %s", what, words[b->end]);
}
