/* Imports Hugging Face directories: facts and weights from config.json and safetensors. */
#ifndef DOPPLER_FRONTEND_HF_IMPORT_H
#define DOPPLER_FRONTEND_HF_IMPORT_H

#include "frontend/hf/hf.h"

/* Imports a directory. m->arena must be set; the caller finishes `m`, also after an error. */
dop_status dop_import_hf(const char *dir, dop_diag *diag, dop_checkpoint *m);
/* Like dop_import_hf(), but with a given config.json object and tensor set, whose maps `m` or the caller keeps open. dir: folder
 * of other files. path: name of the configuration in messages; NULL: dir. */
dop_status dop_import_hf_parts(const char *dir, const char *path, struct json_t *config, const struct dop_st_set *set,
                               dop_diag *diag, dop_checkpoint *m);

/* Reads all facts except the weights. The caller releases hf->root. */
dop_status dop_hf_facts(dop_hf *hf);

#endif
