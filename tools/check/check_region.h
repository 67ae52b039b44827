/* One case of --check: sets up a step, runs the dispatch and compares its outputs. */
#ifndef DOPPLER_TOOLS_CHECK_CHECK_REGION_H
#define DOPPLER_TOOLS_CHECK_CHECK_REGION_H

#include "tools/check/check.h"

/* Runs a case and merges it into *result, which keeps the largest error of all cases. */
dop_status dop_check_run_case(const dop_check_case *c, dop_diag *diag, dop_check_result *result);
/* True if the region's results depend on the position. */
bool dop_check_uses_position(const dop_graph *g, const dop_region *r);
/* True for graphs of programs (dop_program_run), which leave no state in the model. */
bool dop_check_keeps_nothing(const dop_graph *g);
/* True if rows of the graph's steps begin at position 0: it keeps no state, or attends to values of the step. */
bool dop_check_begins(const dop_graph *g);
/* True if the region depends on which copy of a replace state is current, or changes it. */
bool dop_check_uses_parity(const dop_graph *g, const dop_region *r);

#endif
