#include "compiler/pack/repack.h"

#include "base/storage/packing.h"
#include "ir/codebooks.h"
#include "kernels/emit/weight_types.h"

#include <string.h>

void
dop_repack_row(dop_type t, const uint8_t *blocks, uint32_t row, uint32_t rows, uint32_t cols, uint8_t *out)
{
    const dop_type_info *ti = dop_type_of(t);
    const uint64_t plane = dop_packed_plane_bytes(t, rows, cols);
    const uint32_t per_block = ti->block / ti->pack.unit, n = dop_packed_row_values(t, cols) / ti->block;
    if (row == 0 && ti->pack.book)
        dop_type_book(t, out + plane - ti->pack.book);
    for (uint32_t i = 0; i < n; i++) {
        const uint64_t u = ((uint64_t)row * n + i) * per_block;
        dop_pack_block(t, blocks + (uint64_t)i * ti->bytes, (uint32_t)(u % DOP_AUX_UNITS),
                       out + u * ti->pack.unit_bytes, out + plane + u / DOP_AUX_UNITS * ti->pack.group_bytes);
    }
}

void
dop_repack_factor(dop_type t, float factor, uint32_t rows, uint32_t cols, uint8_t *out)
{
    if (t == DOP_TYPE_nvfp4)
        memcpy(out + dop_packed_plane_bytes(t, rows, cols) - dop_type_of(t)->pack.book, &factor, sizeof factor);
}
