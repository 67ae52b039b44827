/* Progress reports of public functions (dop_progress in doppler/status.h). */
#ifndef DOPPLER_BASE_PROGRESS_H
#define DOPPLER_BASE_PROGRESS_H

#include "base/base.h"

/* Reports progress.  False if the caller cancels; the work must then return DOP_CANCELLED(diag). */
static inline bool
dop_progress_report(const dop_progress *p, const char *step, uint64_t done, uint64_t all)
{
    return !p->fn || p->fn(p->user, step, done, all);
}

#define DOP_CANCELLED(diag) DOP_FAIL(diag, DOP_E_CANCELLED, "cancelled")

#endif
