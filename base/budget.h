/* Budget for work on untrusted data: steps, bytes held at once, and time.
 *
 * Each server request has one budget, charged by every stage: parsing, chat templates, normalization, tokenization, grammar compilation
 * and token masks.  Loops whose length depends on the input charge steps; one step is about 10 ns of work.  When the budget is
 * exhausted, the work fails with DOP_E_LIMIT and returns its memory.
 *
 * One thread at a time charges a budget; any thread may set `cancelled`. */
#ifndef DOPPLER_BASE_BUDGET_H
#define DOPPLER_BASE_BUDGET_H

#include <stdatomic.h>

#include "base/base.h"

typedef enum dop_budget_end {
    DOP_BUDGET_LEFT = 0, /* not exhausted */
    DOP_BUDGET_STEPS,
    DOP_BUDGET_BYTES,
    DOP_BUDGET_TIME,
    DOP_BUDGET_CANCELLED
} dop_budget_end;

typedef struct dop_budget {
    uint64_t steps;               /* remaining steps; UINT64_MAX: unlimited */
    uint64_t bytes;               /* remaining bytes; UINT64_MAX: unlimited */
    double until_ms;              /* deadline in milliseconds of dop_now_ms(); 0: none */
    const atomic_bool *cancelled; /* set by any thread to cancel the work; not owned; NULL: not cancellable */
    /* Called once when until_ms has passed: returns a later deadline, or 0 to end the work.  NULL: the work ends. */
    double (*extend)(void *user);
    void *user;         /* argument of extend */
    uint32_t unseen;    /* steps charged since the last check of the clock and `cancelled` */
    dop_budget_end end; /* limit that was exhausted first; never reset */
} dop_budget;

/* An unlimited budget. */
#define DOP_BUDGET_UNLIMITED ((dop_budget){.steps = UINT64_MAX, .bytes = UINT64_MAX})

/* Charge steps, or bytes about to be allocated.  False if the budget is exhausted, now or earlier.  NULL is an unlimited budget. */
bool dop_budget_step(dop_budget *b, uint64_t steps);
bool dop_budget_take(dop_budget *b, uint64_t bytes);
/* Returns freed bytes to the budget. */
void dop_budget_give(dop_budget *b, uint64_t bytes);
/* True if the budget is exhausted.  Reads the clock, so do not call it in inner loops. */
bool dop_budget_ended(dop_budget *b);
/* Returns DOP_E_LIMIT with a message such as "WHAT takes too many steps".  The budget must be exhausted. */
dop_status dop_budget_fail(const dop_budget *b, dop_diag *diag, const char *what);

#endif
