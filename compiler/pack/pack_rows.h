/* Reads rows of weights as a model stores them, and gives them as contiguous blocks or as values. */
#ifndef DOPPLER_COMPILER_PACK_PACK_ROWS_H
#define DOPPLER_COMPILER_PACK_PACK_ROWS_H

#include "compiler/model/arch.h"

/* Rows first .. first + n - 1 of a weight with parts as blocks of its type, dop_type_row_bytes each, one row after the
 * other.  Values that its last block has no input for are arbitrary.  Words hold several outputs, so that many rows at
 * once cost far less than one by one. */
void dop_int4_rows(const dop_weight *w, uint32_t first, uint32_t n, uint8_t *blocks);

/* By what the values of a matrix of nvfp4 are multiplied after its blocks were decoded; 1 for others. */
float dop_weight_factor(const dop_weight *w);
/* One row of a vector or matrix (of rank 3: dop_weight_expert()) as w->cols values, whatever its type, strides or parts. */
void dop_weight_row(const dop_weight *w, uint32_t row, float *out);

#endif
