/* Names of fusions, by the ops that they join. */
#ifndef DOPPLER_COMPILER_REPORT_REPORT_RULES_H
#define DOPPLER_COMPILER_REPORT_REPORT_RULES_H

#include "compiler/report/report.h"

/* Name of a fusion by the ops it joins, for people who know the hand-written combinations: "residual+rmsnorm". */
const char *dop_fusion_rule(const dop_graph *g, const dop_fusion_event *e);
/* True if no residual sum is joined with the norm after it ("residual+rmsnorm"), because both were joined with others: sets the names
 * of these two fusions. */
bool dop_report_residual_rules(const dop_report_schedule *s, const char **out_add, const char **out_norm);

#endif
