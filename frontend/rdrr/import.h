/* RDRR directories: shards opened and verified, tensors to canonical weights. */
#ifndef DOPPLER_FRONTEND_RDRR_IMPORT_H
#define DOPPLER_FRONTEND_RDRR_IMPORT_H

#include "frontend/facts/arch.h"

dop_status dop_import_rdrr(const char *dir, dop_diag *diag, dop_checkpoint *m);

#endif
