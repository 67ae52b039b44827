#include "kernels/weight_types.h"

#include <stddef.h>

static const dop_weight_type types[] = {
    {DOP_TYPE_f32, 8, 8, "types/float.glsl"},
    {DOP_TYPE_f16, 8, 8, "types/float.glsl"},
    {DOP_TYPE_bf16, 8, 8, "types/float.glsl"},
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
    uint32_t pad = w ? w->pad : 1;
    return (n + pad - 1) / pad * pad;
}

uint64_t
dop_packed_row_bytes(dop_type t, uint32_t n)
{
    uint64_t bytes = 0;
    dop_type_row_bytes(t, dop_packed_row_values(t, n), &bytes);
    return bytes;
}
