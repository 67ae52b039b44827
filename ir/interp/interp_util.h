/* Helpers shared by the files of the interpreter's ops. */
#ifndef DOPPLER_IR_INTERP_INTERP_UTIL_H
#define DOPPLER_IR_INTERP_INTERP_UTIL_H

#include "ir/interp/interp_ops.h"

/* Error: an id of source number `src` is not below the limit. */
dop_status dop_interp_check_ids(const dop_interp_node *n, uint32_t src, uint32_t limit);
/* Rounds to the storage type, as a store and a load would. */
float dop_interp_round(dop_type t, float v);

#endif
