/* A latent diffusion model in one file of safetensors: tensors of all parts, and no configuration.  What the parts' configurations would say follows from names and shapes; where the folder of the file has them, as repositories with both forms do, they are read. */
#ifndef DOPPLER_FRONTEND_DIFFUSION_SINGLE_FILE_H
#define DOPPLER_FRONTEND_DIFFUSION_SINGLE_FILE_H

#include "frontend/facts/arch.h"

/* A diffusion model in one file of safetensors, under the names that it was published with first.  *out_is: it is one; else nothing
 * happened. */
dop_status dop_import_single_file(const char *path, dop_diag *diag, dop_checkpoint *m, bool *out_is);

#endif
