/* Imports a latent diffusion model from a single safetensors file, which has the tensors of all parts but no
 * configuration. Facts follow from names and shapes. Configuration files in the same folder are read if present, as in
 * repositories with both forms. */
#ifndef DOPPLER_FRONTEND_DIFFUSION_SINGLE_FILE_H
#define DOPPLER_FRONTEND_DIFFUSION_SINGLE_FILE_H

#include "frontend/facts/arch.h"

/* Imports a diffusion model from one safetensors file with the originally published names. *out_is: false if the file is not such
 * a model; nothing else is then changed. */
dop_status dop_import_single_file(const char *path, dop_diag *diag, dop_checkpoint *m, bool *out_is);

#endif
