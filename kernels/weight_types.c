#include "kernels/weight_types.h"

#include <stddef.h>

static const dop_weight_type types[] = {
    {DOP_TYPE_f32, 8, 32, 0, "types/float.glsl"},
    {DOP_TYPE_f16, 8, 16, 0, "types/float.glsl"},
    {DOP_TYPE_bf16, 8, 16, 0, "types/float.glsl"},
};

const dop_weight_type *
dop_weight_type_of(dop_type t)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].type == t)
            return &types[i];
    return NULL;
}

uint32_t
dop_packed_row_values(dop_type t, uint32_t n)
{
    const dop_weight_type *w = dop_weight_type_of(t);
    uint32_t pad = w ? w->unit : 1;
    return (n + pad - 1) / pad * pad;
}

uint64_t
dop_packed_plane_bytes(dop_type t, uint32_t rows, uint32_t cols)
{
    const dop_weight_type *w = dop_weight_type_of(t);
    uint64_t units = w ? (uint64_t)rows * (dop_packed_row_values(t, cols) / w->unit) : 0;
    return w ? (units * w->unit_bytes + 15) / 16 * 16 : 0;
}

uint64_t
dop_packed_bytes(dop_type t, uint32_t rows, uint32_t cols)
{
    const dop_weight_type *w = dop_weight_type_of(t);
    uint64_t units = w ? (uint64_t)rows * (dop_packed_row_values(t, cols) / w->unit) : 0;
    return dop_packed_plane_bytes(t, rows, cols) + (w ? (units * w->aux_bytes * w->unit + 255) / 256 : 0);
}
