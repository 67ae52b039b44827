/* Names fusions by the ops that they join. */
#ifndef DOPPLER_COMPILER_REPORT_REPORT_RULES_H
#define DOPPLER_COMPILER_REPORT_REPORT_RULES_H

#include "compiler/report/report.h"

/* Returns the name of a fusion by the ops that it joins, as in hand-written kernels: "residual+rmsnorm". */
const char *dop_fusion_rule(const dop_graph *g, const dop_fusion_event *e);
/* True if no residual sum is joined with the norm after it ("residual+rmsnorm"), because both were joined with other
 * ops. Sets the names of these two fusions. */
bool dop_report_residual_rules(const dop_report_schedule *s, const char **out_add, const char **out_norm);

#endif
