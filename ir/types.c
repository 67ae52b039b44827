#include "ir/types.h"

#include "base/base.h"

#include <string.h>

static const dop_type_info types[DOP_TYPE_COUNT] = {
#define TYPE(name, block, bytes, kind) {#name, block, bytes, DOP_KIND_##kind},
#include "ir/types.def"
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
dop_type_row_bytes(dop_type t, uint64_t n, uint64_t *out_bytes)
{
    const dop_type_info *ti = dop_type_of(t);
    uint64_t blocks = n / ti->block + (n % ti->block != 0);
    return dop_mul_u64(blocks, ti->bytes, out_bytes);
}
