/* --trace-kernels: the ops and kernel of each dispatch, and the reason for the kernel choice. */
#ifndef DOPPLER_PLAN_TRACE_H
#define DOPPLER_PLAN_TRACE_H

#include "plan/plan.h"

/* Appends one line per dispatch: schedule, layer, label, ops, values with their bytes, grid, workgroup, variant and reason.  Reasons
 * come from the card's "choices" (an object from kernel names to texts); "-" if missing. */
void dop_trace_kernels(const dop_plan *plan, dop_buf *out);

#endif
