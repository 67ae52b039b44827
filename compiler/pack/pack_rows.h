/* Reads rows of weights in any of the model's storage formats, as contiguous blocks or as values. */
#ifndef DOPPLER_COMPILER_PACK_PACK_ROWS_H
#define DOPPLER_COMPILER_PACK_PACK_ROWS_H

#include "frontend/facts/arch.h"

/* Writes rows first .. first + n - 1 of a weight with parts as blocks of its type, dop_type_row_bytes() bytes per row.
 * Values after the last input of a row are arbitrary. Many rows at once are far cheaper than single rows, because a
 * word of the parts holds several outputs. */
void dop_int4_rows(const dop_weight *w, uint32_t first, uint32_t n, uint8_t *blocks);

/* Returns the factor of a whole nvfp4 matrix, which multiplies its decoded values; 1 for other types. */
float dop_weight_factor(const dop_weight *w);
/* Reads one row of a vector or matrix as w->cols values, for any type, strides or parts. Includes the changes of merged
 * adapters. Weights of rank 3 must be passed through dop_weight_expert(). */
void dop_weight_row(const dop_weight *w, uint32_t row, float *out);

#endif
