#include "kernels/weight_types.h"

#include <stddef.h>

/* All of a kind have their functions in one file. */
static const char *const files[] = {[DOP_KIND_FLOAT] = "types/float.glsl", [DOP_KIND_QUANT] = "types/quant.glsl"};

static const dop_weight_type types[] = {
#define PACKING(type, unit, unit_bytes, pad, group_bytes) {DOP_TYPE_##type, unit, unit_bytes, pad, group_bytes},
#include "ir/packing.def"
#undef PACKING
};

const char *
dop_weight_type_file(const dop_weight_type *w)
{
    return files[dop_type_of(w->type)->kind];
}

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
