/* Families that the Hugging Face importer reads (Gemma 4, LFM2, Qwen 3.5).  The manifest's fields are rewritten as a config.json, and its tensors, which have the names of a Hugging Face directory, as a set of safetensors.  Facts that the family fixes must agree with the manifest. */
#ifndef DOPPLER_FRONTEND_RDRR_FAMILY_H
#define DOPPLER_FRONTEND_RDRR_FAMILY_H

#include "frontend/rdrr/rdrr.h"

/* family.c, for a model with r->family.  import_family: reads facts and tensors into m; instead: bytes in place of those of every tensor,
 * so that no shard is opened (NULL: none).  Fails if a fact that the manifest states differs from the family's.  check_family: imports
 * into a checkpoint that is dropped, without opening a shard. */
dop_status dop_rdrr_import_family(dop_rdrr *r, const uint8_t *instead, dop_checkpoint *m);
dop_status dop_rdrr_check_family(dop_rdrr *r);

#endif
