/* Every index, offset and count in the rows of a plan.  The digests only say that the file is as its writer left it; these checks say that using it stays inside the file and inside the slots. */
#ifndef DOPPLER_PLAN_PLAN_CHECK_H
#define DOPPLER_PLAN_PLAN_CHECK_H

#include "plan/plan.h"

/* plan_check.c: checks every row of a plan whose section pointers are set. */
dop_status dop_plan_check_rows(dop_plan *plan, dop_diag *diag);

#endif
