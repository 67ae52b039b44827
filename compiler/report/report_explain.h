/* --explain: why regions got their kernels, and why two regions were not joined. */
#ifndef DOPPLER_COMPILER_REPORT_REPORT_EXPLAIN_H
#define DOPPLER_COMPILER_REPORT_REPORT_EXPLAIN_H

#include "compiler/schedule/schedule.h"

/* report_explain.c, --explain.  OP: why each region with this op, template, label or role got its kernel.  A+B: why regions of B
 * read from memory what regions of A make, or by which rule the ops were joined.  Equal layers are grouped.  parts[n]: the parts
 * of the plan; n == 0: it is in one piece. */
dop_status dop_report_explain(const dop_compilation *c, const char *op, const dop_compilation *parts, uint32_t n,
                              dop_diag *diag, dop_buf *out);

#endif
