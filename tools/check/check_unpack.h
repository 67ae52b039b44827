/* Independent decoder of quantized weights in the kernels' layout. Restores the blocks of the file format
 * (base/storage/packing.h) and decodes these. */
#ifndef DOPPLER_TOOLS_CHECK_CHECK_UNPACK_H
#define DOPPLER_TOOLS_CHECK_CHECK_UNPACK_H

#include "tools/check/check.h"

/* Locates a row. Returns false if the type is unknown or the matrix is larger than `size` bytes. */
bool dop_check_find_row(dop_type type, uint64_t size, uint32_t rows, uint32_t cols, uint32_t row, dop_check_place *out);
/* Decodes a row from its units, groups and factor. Reads groups and factor only if the type has them. */
void dop_check_unpack_row(dop_type type, const dop_check_place *row, const uint8_t *units, const uint8_t *groups,
                          const uint8_t *factor, uint32_t cols, float *out);

#endif
