/* Reads rows of weights as a model stores them, and gives them as contiguous blocks or as values. */
#ifndef DOPPLER_COMPILER_PACK_PACK_ROWS_H
#define DOPPLER_COMPILER_PACK_PACK_ROWS_H

#include "frontend/facts/arch.h"

/* Writes rows first .. first + n - 1 of a weight with parts as blocks of its type, one row after the other, each of
 * dop_type_row_bytes() bytes.  Values of a row's last block that lie behind its inputs are arbitrary.  Many rows at once cost far less
 * than one by one, because a word of the parts holds several outputs. */
void dop_int4_rows(const dop_weight *w, uint32_t first, uint32_t n, uint8_t *blocks);

/* The factor of a whole nvfp4 matrix, which multiplies the values that its blocks decode to; 1 for other types. */
float dop_weight_factor(const dop_weight *w);
/* One row of a vector or matrix (of rank 3: dop_weight_expert()) as w->cols values, whatever its type, strides or parts, with
 * the changes of adapters that are merged. */
void dop_weight_row(const dop_weight *w, uint32_t row, float *out);

#endif
