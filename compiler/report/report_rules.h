/* Names of fusions, by the ops that they join. */
#ifndef DOPPLER_COMPILER_REPORT_REPORT_RULES_H
#define DOPPLER_COMPILER_REPORT_REPORT_RULES_H

#include "passes/fusion/reasons.h"

/* Name of a fusion by the ops it joins, for people who know the hand-written combinations: "residual+rmsnorm". */
const char *dop_fusion_rule(const dop_graph *g, const dop_fusion_event *e);

#endif
