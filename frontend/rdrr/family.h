/* Families read by the Hugging Face importer (Gemma 4, LFM2, Qwen 3.5). The manifest's fields are rewritten as a
 * config.json. Its tensors, which have the names of a Hugging Face directory, become a set of safetensors. Facts fixed
 * by the family must agree with the manifest. */
#ifndef DOPPLER_FRONTEND_RDRR_FAMILY_H
#define DOPPLER_FRONTEND_RDRR_FAMILY_H

#include "frontend/rdrr/rdrr.h"

/* For a model with r->family. dop_rdrr_import_family() reads facts and tensors into m; fails if a fact of the manifest differs
 * from the family's. instead: bytes used in place of every tensor's, so that no shard is opened (NULL: none).
 * dop_rdrr_check_family() imports into a temporary checkpoint without opening a shard. */
dop_status dop_rdrr_import_family(dop_rdrr *r, const uint8_t *instead, dop_checkpoint *m);
dop_status dop_rdrr_check_family(dop_rdrr *r);

#endif
