#include "kernels/emit/weight_types.h"

#include "base/storage/packing.h"

#include <stddef.h>

static const dop_weight_type types[DOP_TYPE_COUNT] = {
#define PACK(code, ...) "types/" #code ".glsl", __VA_ARGS__
#define INTS PACK
#define LEVELS PACK
#define NOT_PACKED NULL, 0, 0, 0, 0, 0
#define TYPE(name, block, bytes, kind, gguf, pack, fields) {DOP_TYPE_##name, pack},
#include "base/storage/types.def"
#undef TYPE
};

const dop_weight_type *
dop_weight_type_of(dop_type t)
{
    return (unsigned)t < DOP_TYPE_COUNT && types[t].unit ? &types[t] : NULL;
}

uint32_t
dop_packed_row_values(dop_type t, uint32_t n)
{
    const dop_weight_type *w = dop_weight_type_of(t);
    uint32_t pad = w ? w->pad : 1;
    return (n + pad - 1) / pad * pad;
}

static dop_planes
planes_of(dop_type t, uint32_t rows, uint32_t cols)
{
    const dop_weight_type *w = dop_weight_type_of(t);
    return dop_planes_of(t, w ? (uint64_t)rows * (dop_packed_row_values(t, cols) / w->unit) : 0);
}

uint64_t
dop_packed_plane_bytes(dop_type t, uint32_t rows, uint32_t cols)
{
    return planes_of(t, rows, cols).groups;
}

uint64_t
dop_packed_bytes(dop_type t, uint32_t rows, uint32_t cols)
{
    const dop_planes planes = planes_of(t, rows, cols);
    return planes.groups + planes.group_bytes;
}

uint64_t
dop_packed_expert_stride(dop_type t, uint32_t rows, uint32_t cols)
{
    return (dop_packed_bytes(t, rows, cols) + DOP_PACK_ALIGN - 1) / DOP_PACK_ALIGN * DOP_PACK_ALIGN;
}
