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

/* Kinds of block fields: contents of a block of a quantized type and its place in a packed matrix (types.def). */
typedef enum dop_block_field_kind {
    DOP_FIELD_NONE, /* end of a list */
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
    uint8_t size;      /* bytes; for VALUES and BITS, bits per value */
    uint8_t width;     /* VALUES and BITS: value i + width is in the next higher bits of the byte of value i */
    uint16_t to, step; /* byte offset and stride in the unit (plane 0) or group (plane 1) (types.def) */
} dop_block_field;

enum { DOP_TYPE_FIELDS = 8 }; /* maximum number of fields of a type, including DOP_FIELD_NONE */

/* Source of a type's integers in products with 8-bit activations. */
typedef enum dop_type_ints {
    DOP_INTS_NONE,  /* no integer product: weights are converted to floats */
    DOP_INTS_BITS,  /* bits of the weight */
    DOP_INTS_LEVELS /* lookup in a table of levels in shared memory */
} dop_type_ints;

typedef struct dop_type_info {
    const char *name;
    uint32_t block; /* values per block along the last axis */
    uint32_t bytes; /* bytes per block */
    dop_type_kind kind;
    int32_t gguf; /* type number in GGUF files; -1: none */
    struct {
        uint32_t unit;        /* values loaded and multiplied at once per invocation; 0: not readable by kernels */
        uint32_t unit_bytes;  /* bytes of a unit in plane 0 */
        uint32_t pad;         /* rows are padded to a multiple of this many values */
        uint32_t group_bytes; /* bytes of plane 1 per group of DOP_GROUP_UNITS units, counted over packed rows */
        uint32_t book;        /* bytes of the codebook after plane 0 */
        dop_type_ints ints;
    } pack;
    dop_block_field fields[DOP_TYPE_FIELDS];
} dop_type_info;

enum { DOP_GROUP_UNITS = 32, DOP_UNIT_VALUES = 32 /* for quantized types */ };

const dop_type_info *dop_type_of(dop_type t);
bool dop_type_parse(const char *name, size_t len, dop_type *out_type);
/* Finds a type by its number in GGUF files.  False if there is none. */
bool dop_type_of_gguf(uint32_t number, dop_type *out_type);
/* Computes the bytes of a row of n values, padded to whole blocks.  False on overflow. */
bool dop_type_row_bytes(dop_type t, uint64_t n, uint64_t *out_bytes);

#endif
