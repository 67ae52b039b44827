/* Shards of RDRR directories, opened and verified at their first use. */
#ifndef DOPPLER_FRONTEND_RDRR_SHARDS_H
#define DOPPLER_FRONTEND_RDRR_SHARDS_H

#include "frontend/rdrr/rdrr.h"

/* shards.c: gives a tensor's bytes in one piece: where they lie, or a copy where they are spread over shards. */
dop_status dop_rdrr_gather(dop_rdrr *r, const dop_rdrr_tensor *t, const uint8_t **out);

#endif
