/* The container part of manifest.json: shards and tensors. */
#ifndef DOPPLER_FRONTEND_RDRR_MANIFEST_H
#define DOPPLER_FRONTEND_RDRR_MANIFEST_H

#include "frontend/rdrr/rdrr.h"

/* Reads manifest.json (and the file of tensors it names) and checks the container: versions, shards in order and adding
 * up, every tensor's bytes inside its shards and as many as its shape and type take. */
dop_status dop_rdrr_open(dop_rdrr *r);
void dop_rdrr_close(dop_rdrr *r); /* frees the JSON; accepts a zeroed one */

/* Fails if an object (absent: none) has a member that is neither a key of facts.def nor one of `words` and is set: not null, false, 0 or
 * empty. */
dop_status dop_rdrr_known(const dop_json *j, const char *words);

const dop_rdrr_tensor *dop_rdrr_find(const dop_rdrr *r, const char *name);
/* The tensor of layer 0 whose name, without prefix and layer, is `name`; NULL: there is none. */
const dop_rdrr_tensor *dop_rdrr_find_in_layer(const dop_rdrr *r, const char *name);

#endif
