/* Container part of manifest.json: shards and tensors. */
#ifndef DOPPLER_FRONTEND_RDRR_MANIFEST_H
#define DOPPLER_FRONTEND_RDRR_MANIFEST_H

#include "frontend/rdrr/rdrr.h"

/* Reads manifest.json (and the tensor file that it names) and checks the container: versions, sequence and sizes of shards, and
 * that every tensor's bytes lie in its shards and match its shape and type. */
dop_status dop_rdrr_open(dop_rdrr *r);
void dop_rdrr_close(dop_rdrr *r); /* frees the JSON; accepts a zeroed struct */

/* Fails if an object (which may be absent) has a member that is set (not null, false, 0 or empty), but neither a key of facts.def
 * nor listed in `words`. */
dop_status dop_rdrr_known(const dop_json *j, const char *words);

const dop_rdrr_tensor *dop_rdrr_find(const dop_rdrr *r, const char *name);
/* Finds a tensor of layer 0 by its name without prefix and layer; NULL: not found. */
const dop_rdrr_tensor *dop_rdrr_find_in_layer(const dop_rdrr *r, const char *name);

#endif
