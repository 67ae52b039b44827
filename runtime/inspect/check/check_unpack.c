/* Quantized weights as kernels read them, decoded without the kernels' code: blocks are put together again (ir/packing.h), and
 * decoded like those of a file. */
#include "ir/packing.h"
#include "runtime/inspect/check/check.h"

#include <string.h>

enum { MAX_BLOCK = 256, MAX_BYTES = 256 };

bool
dop_check_unpack_row(dop_type type, const uint8_t *data, uint64_t size, uint32_t rows, uint32_t cols, uint32_t row,
                     float *out)
{
    const dop_type_info *ti = dop_type_of(type);
    if (ti->kind != DOP_KIND_QUANT || ti->pack.unit == 0 || row >= rows)
        return false;
    const uint32_t per_block = ti->block / ti->pack.unit;
    const uint64_t n = ((uint64_t)cols + ti->pack.pad - 1) / ti->pack.pad * ti->pack.pad / ti->block;
    const uint64_t units = n * per_block * rows, groups = (units + DOP_GROUP_UNITS - 1) / DOP_GROUP_UNITS;
    const uint64_t plane = (units * ti->pack.unit_bytes + 15) / 16 * 16 + ti->pack.book;
    if (plane + groups * ti->pack.group_bytes > size)
        return false;
    float factor = 1; /* factor of all values, which nvfp4 keeps in the place of a codebook */
    if (type == DOP_TYPE_nvfp4)
        memcpy(&factor, data + plane - ti->pack.book, sizeof factor);
    for (uint32_t i = 0; (uint64_t)i * ti->block < cols; i++) {
        const uint64_t u = (row * n + i) * per_block;
        const uint32_t left = cols - i * ti->block;
        uint8_t block[MAX_BYTES];
        float x[MAX_BLOCK];
        dop_unpack_block(type, data + u * ti->pack.unit_bytes,
                         data + plane + u / DOP_GROUP_UNITS * ti->pack.group_bytes, (uint32_t)(u % DOP_GROUP_UNITS),
                         block);
        dop_decode_row(type, block, ti->block, x);
        for (uint32_t k = 0; k < ti->block && type == DOP_TYPE_nvfp4; k++)
            x[k] *= factor;
        memcpy(out + (size_t)i * ti->block, x, (left < ti->block ? left : ti->block) * sizeof *x);
    }
    return true;
}
