/* Storage types, from types.def. */
#ifndef DOPPLER_BASE_STORAGE_TYPES_H
#define DOPPLER_BASE_STORAGE_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum dop_type {
#define TYPE(name, ...) DOP_TYPE_##name,
#include "base/storage/types.def"
#undef TYPE
    DOP_TYPE_COUNT
} dop_type;

typedef enum dop_type_kind { DOP_KIND_FLOAT, DOP_KIND_INT, DOP_KIND_QUANT } dop_type_kind;

/* A field of a block of a quantized type, by kind: what the block holds, and where a packed matrix has it (types.def). */
typedef enum dop_block_field_kind {
    DOP_FIELD_NONE, /* ends a list */
    DOP_FIELD_UNIT,
    DOP_FIELD_EACH,
    DOP_FIELD_ONCE,
    DOP_FIELD_VALUES,
    DOP_FIELD_BITS,
    DOP_FIELD_BYTES,
    DOP_FIELD_E2M1,
    DOP_FIELD_SIX,
    DOP_FIELD_THREE,
    DOP_FIELD_TRITS,
} dop_block_field_kind;

typedef struct dop_block_field {
    dop_block_field_kind kind;
    uint16_t from;     /* first byte of the field in the block */
    uint8_t size;      /* size in bytes; of VALUES and BITS in bits per value */
    uint8_t width;     /* of VALUES and BITS: value i + width is in the next bits of the byte that has value i */
    uint16_t to, step; /* place in bytes, in the unit of plane 0 or the group of plane 1 (types.def) */
} dop_block_field;

enum { DOP_TYPE_FIELDS = 8 }; /* most fields of a type, DOP_FIELD_NONE at the end included */

/* Where the integers of a type come from, for products with activations of 8 bits. */
typedef enum dop_type_ints {
    DOP_INTS_NONE,  /* there is no such product: weights become floats */
    DOP_INTS_BITS,  /* from the bits of a weight */
    DOP_INTS_LEVELS /* from a table of levels, which a kernel has in shared memory */
} dop_type_ints;

typedef struct dop_type_info {
    const char *name;
    uint32_t block; /* values per block along the last axis */
    uint32_t bytes; /* bytes per block */
    dop_type_kind kind;
    int32_t gguf; /* number of the type in GGUF files; -1: none */
    struct {
        uint32_t
            unit; /* values that one invocation loads and multiplies at once; 0: kernels read no weights of the type */
        uint32_t unit_bytes;  /* bytes of a unit in plane 0 */
        uint32_t pad;         /* rows are padded to a multiple of it: the unit, or what shares scales */
        uint32_t group_bytes; /* bytes of plane 1 per group: DOP_GROUP_UNITS units, counted over packed rows */
        uint32_t book;        /* bytes of the codebook behind plane 0 */
        dop_type_ints ints;
    } pack;
    dop_block_field fields[DOP_TYPE_FIELDS];
} dop_type_info;

enum { DOP_GROUP_UNITS = 32, DOP_UNIT_VALUES = 32 /* of quantized types */ };

const dop_type_info *dop_type_of(dop_type t);
bool dop_type_parse(const char *name, size_t len, dop_type *out_type);
/* Finds the type by its number in GGUF files; false: no type has it. */
bool dop_type_of_gguf(uint32_t number, dop_type *out_type);
/* Bytes of one row of n values; rows are padded to whole blocks.  False on overflow. */
bool dop_type_row_bytes(dop_type t, uint64_t n, uint64_t *out_bytes);

#endif
