#include "kernels/weight_types.h"

#include <stddef.h>

/* {type, unit, bytes of a unit in plane 0, row padding, bytes of plane 1 per 32 units, file}; the fields of plane 1 are
 * listed in compiler/repack.c. */
static const dop_weight_type types[] = {
    {DOP_TYPE_f32, 8, 32, 8, 0, "types/float.glsl"},         {DOP_TYPE_f16, 8, 16, 8, 0, "types/float.glsl"},
    {DOP_TYPE_bf16, 8, 16, 8, 0, "types/float.glsl"},        {DOP_TYPE_q4_0, 32, 16, 32, 64, "types/quant.glsl"},
    {DOP_TYPE_q4_1, 32, 16, 32, 128, "types/quant.glsl"},    {DOP_TYPE_q5_0, 32, 16, 32, 192, "types/quant.glsl"},
    {DOP_TYPE_q5_1, 32, 16, 32, 256, "types/quant.glsl"},    {DOP_TYPE_q8_0, 32, 32, 32, 64, "types/quant.glsl"},
    {DOP_TYPE_q2_k, 32, 8, 256, 80, "types/quant.glsl"},     {DOP_TYPE_q3_k, 32, 8, 256, 200, "types/quant.glsl"},
    {DOP_TYPE_q4_k, 32, 16, 256, 64, "types/quant.glsl"},    {DOP_TYPE_q5_k, 32, 16, 256, 192, "types/quant.glsl"},
    {DOP_TYPE_q6_k, 32, 16, 256, 328, "types/quant.glsl"},   {DOP_TYPE_iq4_nl, 32, 16, 32, 64, "types/quant.glsl"},
    {DOP_TYPE_mxfp4, 32, 16, 32, 32, "types/quant.glsl"},    {DOP_TYPE_int4_g128, 32, 16, 128, 32, "types/quant.glsl"},
    {DOP_TYPE_int4_g64, 32, 16, 64, 64, "types/quant.glsl"}, {DOP_TYPE_int4_g32, 32, 16, 32, 128, "types/quant.glsl"},
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
    uint64_t groups = (units + DOP_AUX_UNITS - 1) / DOP_AUX_UNITS;
    return dop_packed_plane_bytes(t, rows, cols) + (w ? groups * w->aux_bytes : 0);
}

uint64_t
dop_packed_expert_stride(dop_type t, uint32_t rows, uint32_t cols)
{
    return (dop_packed_bytes(t, rows, cols) + DOP_PACK_ALIGN - 1) / DOP_PACK_ALIGN * DOP_PACK_ALIGN;
}
