/* RDRR directories: tensors to canonical weights. */
#ifndef DOPPLER_FRONTEND_RDRR_IMPORT_H
#define DOPPLER_FRONTEND_RDRR_IMPORT_H

#include "frontend/rdrr/rdrr.h"

dop_status dop_import_rdrr(const char *dir, dop_diag *diag, dop_checkpoint *m);
/* Checks that every tensor the facts call for is described correctly; opens no shard. */
dop_status dop_rdrr_check_tensors(dop_rdrr *r);

#endif
