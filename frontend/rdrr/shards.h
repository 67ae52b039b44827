/* Shards of RDRR directories; opened and verified at first use. */
#ifndef DOPPLER_FRONTEND_RDRR_SHARDS_H
#define DOPPLER_FRONTEND_RDRR_SHARDS_H

#include "frontend/rdrr/rdrr.h"

/* Gets a tensor's bytes in one piece: the mapped bytes, or a copy if the tensor spans several shards. */
dop_status dop_rdrr_gather(dop_rdrr *r, const dop_rdrr_tensor *t, const uint8_t **out);

#endif
