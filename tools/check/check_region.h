/* One case: which step it is, the dispatch, and what becomes of it. */
#ifndef DOPPLER_TOOLS_CHECK_CHECK_REGION_H
#define DOPPLER_TOOLS_CHECK_CHECK_REGION_H

#include "tools/check/check.h"

/* Runs a case and adds to *result, which keeps the worst of all cases. */
dop_status dop_check_run_case(const dop_check_case *c, dop_diag *diag, dop_check_result *result);
/* Does what the region computes depend on the position? */
bool dop_check_uses_position(const dop_graph *g, const dop_region *r);
/* Is this the graph of a program (dop_program_run), which leaves nothing in the model? */
bool dop_check_keeps_nothing(const dop_graph *g);
/* Do rows of the graph's steps begin at position 0, because it keeps nothing or attends to values of the step? */
bool dop_check_begins(const dop_graph *g);
/* Does what the region computes depend on which copy of a replace state is current, or does it change that? */
bool dop_check_uses_parity(const dop_graph *g, const dop_region *r);

#endif
