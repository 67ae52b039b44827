/* How kernels see each storage type: one row per type. */
#ifndef DOPPLER_KERNELS_WEIGHT_TYPES_H
#define DOPPLER_KERNELS_WEIGHT_TYPES_H

#include "ir/types.h"

typedef struct dop_weight_type {
    dop_type type;
    uint32_t unit;    /* values that one invocation loads and multiplies at once */
    uint32_t pad;     /* rows are padded with zeros to a multiple of this many values */
    const char *file; /* GLSL with its functions, relative to the template folder; NULL: common.glsl has them */
} dop_weight_type;

/* NULL when kernels cannot read the type. */
const dop_weight_type *dop_weight_type_of(dop_type t);
/* Values and bytes of a packed row of n values: what the plan's weights hold. */
uint32_t dop_packed_row_values(dop_type t, uint32_t n);
uint64_t dop_packed_row_bytes(dop_type t, uint32_t n);

#endif
