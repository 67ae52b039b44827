/* Repacks blocks of a file to the planes that kernels read (kernels/emit/weight_types.h,
 * kernels/glsl/types/quant.glsl). */
#ifndef DOPPLER_COMPILER_PACK_REPACK_H
#define DOPPLER_COMPILER_PACK_REPACK_H

#include "base/storage/types.h"

/* Writes one row of `cols` values, given as whole unaligned blocks of quantized type t, to a packed matrix of rows x
 * cols at out. The matrix has dop_packed_bytes(t, rows, cols) bytes, initially zero. Rows have separate bytes, so
 * several threads may write rows of one matrix. Row 0 also writes the type's codebook, if any, with factor 1. */
void dop_repack_row(dop_type t, const uint8_t *blocks, uint32_t row, uint32_t rows, uint32_t cols, uint8_t *out);
/* Sets the factor of a packed nvfp4 matrix after row 0 was written. Does nothing for other types. */
void dop_repack_factor(dop_type t, float factor, uint32_t rows, uint32_t cols, uint8_t *out);

#endif
