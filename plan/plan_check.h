/* Validation of a plan's rows: every index, offset and count.  Digests only show that the file is as written; these checks keep all
 * accesses inside the file and the slots. */
#ifndef DOPPLER_PLAN_PLAN_CHECK_H
#define DOPPLER_PLAN_PLAN_CHECK_H

#include "plan/plan.h"

/* Checks every row of a plan whose section pointers are set. */
dop_status dop_plan_check_rows(dop_plan *plan, dop_diag *diag);

#endif
