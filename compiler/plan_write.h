/* Writes a compilation as plan.bin (runtime/plan_format.h). */
#ifndef DOPPLER_COMPILER_PLAN_WRITE_H
#define DOPPLER_COMPILER_PLAN_WRITE_H

#include "compiler/compile.h"

/* Written to a temporary name beside `path` and renamed when complete; nothing is left after a failure.  With
 * external_weights the packed weights become a file of their own, `path`.weights, which the plan names relative to its
 * own folder, with size and digest; the two are moved and copied together. */
dop_status dop_plan_write(const dop_compilation *c, const char *path, bool external_weights, dop_diag *diag);

#endif
