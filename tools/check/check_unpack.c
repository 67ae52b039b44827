/* Independent decoder of quantized weights in the kernels' layout; see check_unpack.h. */
#include "tools/check/check_unpack.h"
#include "base/storage/packing.h"
#include "tools/check/check.h"

#include <string.h>

enum { MAX_BLOCK = 256, MAX_BYTES = 256 };

bool
dop_check_find_row(dop_type type, uint64_t size, uint32_t rows, uint32_t cols, uint32_t row, dop_check_place *out)
{
    const dop_type_info *ti = dop_type_of(type);
    if (ti->kind != DOP_KIND_QUANT || ti->pack.unit == 0 || row >= rows)
        return false;
    const uint64_t n = ((uint64_t)cols + ti->pack.pad - 1) / ti->pack.pad * ti->pack.pad / ti->pack.unit,
                   first = row * n;
    const dop_planes planes = dop_planes_of(type, n * rows);
    const uint64_t group = first / DOP_GROUP_UNITS, end = (first + n + DOP_GROUP_UNITS - 1) / DOP_GROUP_UNITS;
    if (planes.groups + planes.group_bytes > size)
        return false;
    *out = (dop_check_place){.units = first * ti->pack.unit_bytes,
                             .n_units = n * ti->pack.unit_bytes,
                             .groups = planes.groups + group * ti->pack.group_bytes,
                             .n_groups = (end - group) * ti->pack.group_bytes,
                             .factor = planes.book,
                             .first = (uint32_t)(first % DOP_GROUP_UNITS)};
    return true;
}

void
dop_check_unpack_row(dop_type type, const dop_check_place *row, const uint8_t *units, const uint8_t *groups,
                     const uint8_t *factor, uint32_t cols, float *out)
{
    const dop_type_info *ti = dop_type_of(type);
    const uint32_t per_block = ti->block / ti->pack.unit;
    float by = 1; /* factor of all values; nvfp4 stores it in place of a codebook */
    if (type == DOP_TYPE_nvfp4)
        memcpy(&by, factor, sizeof by);
    for (uint32_t i = 0; (uint64_t)i * ti->block < cols; i++) {
        const uint32_t u = i * per_block, k = row->first + u, left = cols - i * ti->block;
        uint8_t block[MAX_BYTES];
        float x[MAX_BLOCK];
        dop_unpack_block(type, units + (uint64_t)u * ti->pack.unit_bytes,
                         groups + (uint64_t)(k / DOP_GROUP_UNITS) * ti->pack.group_bytes, k % DOP_GROUP_UNITS, block);
        dop_decode_row(type, block, ti->block, x);
        for (uint32_t c = 0; c < ti->block && type == DOP_TYPE_nvfp4; c++)
            x[c] *= by;
        memcpy(out + (size_t)i * ti->block, x, (left < ti->block ? left : ti->block) * sizeof *x);
    }
}
