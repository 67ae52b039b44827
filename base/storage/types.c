#include "base/storage/types.h"

#include "base/base.h"

#include <string.h>

static const dop_type_info types[DOP_TYPE_COUNT] = {
#define NOT_GGUF -1
#define NOT_PACKED \
    {              \
        0          \
    }
#define PACK(code, unit, unit_bytes, pad, group_bytes, book)    \
    {                                                           \
        unit, unit_bytes, pad, group_bytes, book, DOP_INTS_NONE \
    }
#define INTS(code, unit, unit_bytes, pad, group_bytes, book)    \
    {                                                           \
        unit, unit_bytes, pad, group_bytes, book, DOP_INTS_BITS \
    }
#define LEVELS(code, unit, unit_bytes, pad, group_bytes, book)    \
    {                                                             \
        unit, unit_bytes, pad, group_bytes, book, DOP_INTS_LEVELS \
    }
#define NO_FIELDS
#define UNIT(from, bytes, to) {DOP_FIELD_UNIT, from, bytes, 0, to, 0},
#define EACH(from, bytes, to, step) {DOP_FIELD_EACH, from, bytes, 0, to, step},
#define ONCE(from, bytes, to, step) {DOP_FIELD_ONCE, from, bytes, 0, to, step},
#define VALUES(from, bits, width) {DOP_FIELD_VALUES, from, bits, width, 0, 0},
#define BITS(from, bits, width, to, step) {DOP_FIELD_BITS, from, bits, width, to, step},
#define BYTES(from) {DOP_FIELD_BYTES, from, 8, 1, 0, 0},
#define E2M1(from, width) {DOP_FIELD_E2M1, from, 4, width, 0, 0},
#define SIX(from, to, step) {DOP_FIELD_SIX, from, 12, 0, to, step},
#define THREE(from, to, step) {DOP_FIELD_THREE, from, 12, 0, to, step},
#define TRITS(from) {DOP_FIELD_TRITS, from, 2, 0, 0, 0},
#define TYPE(name, block, bytes, kind, gguf, pack, fields) \
    {#name, block, bytes, DOP_KIND_##kind, gguf, pack, {fields{DOP_FIELD_NONE, 0, 0, 0, 0, 0}}},
#include "base/storage/types.def"
#undef TYPE
};

const dop_type_info *
dop_type_of(dop_type t)
{
    return &types[(unsigned)t < DOP_TYPE_COUNT ? t : DOP_TYPE_none];
}

bool
dop_type_parse(const char *name, size_t len, dop_type *out_type)
{
    for (unsigned t = 1; t < DOP_TYPE_COUNT; t++) {
        if (strlen(types[t].name) == len && memcmp(types[t].name, name, len) == 0) {
            *out_type = (dop_type)t;
            return true;
        }
    }
    return false;
}

bool
dop_type_of_gguf(uint32_t number, dop_type *out_type)
{
    for (unsigned t = 1; t < DOP_TYPE_COUNT; t++) {
        if (types[t].gguf >= 0 && (uint32_t)types[t].gguf == number) {
            *out_type = (dop_type)t;
            return true;
        }
    }
    return false;
}

bool
dop_type_row_bytes(dop_type t, uint64_t n, uint64_t *out_bytes)
{
    const dop_type_info *ti = dop_type_of(t);
    uint64_t blocks = n / ti->block + (n % ti->block != 0);
    return dop_mul_u64(blocks, ti->bytes, out_bytes);
}
