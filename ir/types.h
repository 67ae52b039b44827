/* Storage types, from types.def. */
#ifndef DOPPLER_IR_TYPES_H
#define DOPPLER_IR_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum dop_type {
#define TYPE(name, block, bytes, kind) DOP_TYPE_##name,
#include "ir/types.def"
#undef TYPE
    DOP_TYPE_COUNT
} dop_type;

typedef enum dop_type_kind { DOP_KIND_FLOAT, DOP_KIND_INT, DOP_KIND_QUANT } dop_type_kind;

typedef struct dop_type_info {
    const char *name;
    uint32_t block; /* values per block along the last axis */
    uint32_t bytes; /* bytes per block */
    dop_type_kind kind;
} dop_type_info;

const dop_type_info *dop_type_of(dop_type t);
bool dop_type_parse(const char *name, size_t len, dop_type *out_type);
/* Bytes of one row of n values; rows are padded to whole blocks.  False on overflow. */
bool dop_type_row_bytes(dop_type t, uint64_t n, uint64_t *out_bytes);

#endif
