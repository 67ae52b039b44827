/* Helpers shared by the interpreter's ops. */
#ifndef DOPPLER_IR_INTERP_INTERP_UTIL_H
#define DOPPLER_IR_INTERP_INTERP_UTIL_H

#include "ir/interp/interp_ops.h"

/* Fails if an id of source number `src` is not below the limit. */
dop_status dop_interp_check_ids(const dop_interp_node *n, uint32_t src, uint32_t limit);
/* Rounds a value to the storage type, as a store and a load would. */
float dop_interp_round(dop_type t, float v);

#endif
