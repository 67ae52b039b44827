/* Imports diffusers directories: model_index.json, and a folder per part. */
#ifndef DOPPLER_FRONTEND_DIFFUSION_DIFFUSERS_H
#define DOPPLER_FRONTEND_DIFFUSION_DIFFUSERS_H

#include "frontend/facts/arch.h"

dop_status dop_import_diffusers(const char *dir, dop_diag *diag, dop_checkpoint *m);

#endif
