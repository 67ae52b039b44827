/* Kernel path of a manifest, as a list of dispatches: inference.execution (tuples of op, kernel, weights) or the older
 * kernelPath objects. Unknown ops, kernels and types are errors: a path that is half understood is worse than none. */
#ifndef DOPPLER_FRONTEND_RDRR_PATH_H
#define DOPPLER_FRONTEND_RDRR_PATH_H

#include "frontend/rdrr/rdrr.h"

dop_status dop_rdrr_path(dop_rdrr *r);

#endif
