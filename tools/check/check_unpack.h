/* Quantized weights as kernels read them, decoded without the kernels' code: blocks are put together again
 * (base/storage/packing.h), and decoded like those of a file. */
#ifndef DOPPLER_TOOLS_CHECK_CHECK_UNPACK_H
#define DOPPLER_TOOLS_CHECK_CHECK_UNPACK_H

#include "tools/check/check.h"

/* False: an unknown type, or a matrix of more than `size` bytes. */
bool dop_check_find_row(dop_type type, uint64_t size, uint32_t rows, uint32_t cols, uint32_t row, dop_check_place *out);
/* Decodes the row from its units, its groups and its factor, which are read only where the row has them. */
void dop_check_unpack_row(dop_type type, const dop_check_place *row, const uint8_t *units, const uint8_t *groups,
                          const uint8_t *factor, uint32_t cols, float *out);

#endif
