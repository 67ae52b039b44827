/* Converts tensors of RDRR directories to canonical weights. */
#ifndef DOPPLER_FRONTEND_RDRR_IMPORT_H
#define DOPPLER_FRONTEND_RDRR_IMPORT_H

#include "frontend/rdrr/rdrr.h"

dop_status dop_import_rdrr(const char *dir, dop_diag *diag, dop_checkpoint *m);
/* Checks that all required tensors are described correctly; does not open a shard. */
dop_status dop_rdrr_check_tensors(dop_rdrr *r);

#endif
