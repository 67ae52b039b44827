/* Implements --explain: why regions got their kernels, and why two regions were not joined. */
#ifndef DOPPLER_COMPILER_REPORT_REPORT_EXPLAIN_H
#define DOPPLER_COMPILER_REPORT_REPORT_EXPLAIN_H

#include "compiler/schedule/schedule.h"

/* Appends the answer to --explain. OP: why each region with this op, template, label or role got its kernel. A+B: why
 * regions of B read the outputs of A's regions from memory, or which rule joined the ops. Equal layers are grouped.
 * parts[n]: parts of the plan; n == 0: the plan has one part. */
dop_status dop_report_explain(const dop_compilation *c, const char *op, const dop_compilation *parts, uint32_t n,
                              dop_diag *diag, dop_buf *out);

#endif
