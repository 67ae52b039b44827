/* Hugging Face directories: config.json and safetensors to facts and weights. */
#ifndef DOPPLER_FRONTEND_HF_IMPORT_H
#define DOPPLER_FRONTEND_HF_IMPORT_H

#include "frontend/hf/hf.h"

/* Formats.  `m` has its arena set and is finished by the caller, also after an error. */
dop_status dop_import_hf(const char *dir, dop_diag *diag, dop_checkpoint *m);
/* As dop_import_hf, of what config.json contains and of tensors by their names there, whose maps `m` or the caller keeps open.  dir:
 * where other files may be; path: what messages about the configuration name, NULL: dir. */
dop_status dop_import_hf_parts(const char *dir, const char *path, struct json_t *config, const struct dop_st_set *set,
                               dop_diag *diag, dop_checkpoint *m);

/* Reads all facts that files state besides the weights.  The caller releases hf->root. */
dop_status dop_hf_facts(dop_hf *hf);

#endif
