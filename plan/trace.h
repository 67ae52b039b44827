/* --trace-kernels: what each dispatch of a plan computes, with which kernel and why that one. */
#ifndef DOPPLER_PLAN_TRACE_H
#define DOPPLER_PLAN_TRACE_H

#include "plan/plan.h"

/* One line per dispatch: schedule, layer, label, ops, values with their bytes, grid, workgroup, variant, reason (of the
 * card's "choices", an object from kernel names to texts; "-" where the plan does not say). */
void dop_trace_kernels(const dop_plan *plan, dop_buf *out);

#endif
