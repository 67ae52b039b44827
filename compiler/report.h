/* The fusion report: what each dispatch does, what was fused by which rule, what was not and why. */
#ifndef DOPPLER_COMPILER_REPORT_H
#define DOPPLER_COMPILER_REPORT_H

#include "compiler/compile.h"

/* Name of a fusion by the ops it joins, for people who know the hand-written combinations: "residual+rmsnorm". */
const char *dop_fusion_rule(const dop_graph *g, const dop_fusion_event *e);
void dop_report_text(const dop_compilation *c, dop_buf *out);
/* --explain OP: why each region with that op, template or label part got its kernel. */
dop_status dop_report_explain(const dop_compilation *c, const char *op, dop_diag *diag, dop_buf *out);

#endif
