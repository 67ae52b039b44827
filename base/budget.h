/* What the work on outside data may cost: steps, bytes that are held at once, time on the clock.
 *
 * A request to the server has one budget, which every stage of its work charges: parsing, rendering a chat template,
 * normalizing, tokenizing, compiling a constraint, making masks.  Loops charge steps where their length depends on the
 * input; one step is about the work of looking at one item (some 10 ns).  What exceeds a budget ends with DOP_E_LIMIT and
 * gives back its memory.
 *
 * A budget is charged by one thread at a time; `cancelled` may be set by any thread. */
#ifndef DOPPLER_BASE_BUDGET_H
#define DOPPLER_BASE_BUDGET_H

#include <stdatomic.h>

#include "base/base.h"

typedef enum dop_budget_end {
    DOP_BUDGET_LEFT = 0, /* nothing is exhausted */
    DOP_BUDGET_STEPS,
    DOP_BUDGET_BYTES,
    DOP_BUDGET_TIME,
    DOP_BUDGET_CANCELLED
} dop_budget_end;

typedef struct dop_budget {
    uint64_t steps;               /* steps that are left; UINT64_MAX: no limit */
    uint64_t bytes;               /* bytes that are left; UINT64_MAX: no limit */
    double until_ms;              /* deadline, in milliseconds of dop_now_ms(); 0: none */
    const atomic_bool *cancelled; /* set by any thread to end the work; not owned; NULL: nobody cancels */
    /* Called once, when until_ms has passed: returns a later deadline, or 0 to end the work now.  NULL: the work ends. */
    double (*extend)(void *user);
    void *user;         /* argument of extend */
    uint32_t unseen;    /* steps charged since the clock and `cancelled` were last read */
    dop_budget_end end; /* what was exhausted first; never reset */
} dop_budget;

/* A budget without limits. */
#define DOP_BUDGET_UNLIMITED ((dop_budget){.steps = UINT64_MAX, .bytes = UINT64_MAX})

/* Charges steps, or bytes about to be allocated.  false: the budget is exhausted, now or before.  A NULL budget has no limits. */
bool dop_budget_step(dop_budget *b, uint64_t steps);
bool dop_budget_take(dop_budget *b, uint64_t bytes);
/* Returns bytes that were freed to the budget. */
void dop_budget_give(dop_budget *b, uint64_t bytes);
/* Is the budget exhausted?  Reads the clock, so not for inner loops. */
bool dop_budget_ended(dop_budget *b);
/* DOP_E_LIMIT with a message such as "WHAT takes too many steps"; the budget is exhausted. */
dop_status dop_budget_fail(const dop_budget *b, dop_diag *diag, const char *what);

#endif
