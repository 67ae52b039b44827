/* Importance matrix: mean squares of the inputs of a model's products. Quantization weights the squared errors of a
 * matrix column by the mean square of the input that multiplies it.
 *
 * Reads two formats of llama-imatrix (llama.cpp). GGUF: for each tensor NAME, sums of squares NAME.in_sum2 [matrices,
 * inputs] and row counts NAME.counts [matrices], both f32. The older format (.dat), little-endian: number of entries;
 * for each entry the length of its name, the name, an unused number, the number of its values, and the values as f32,
 * which are means times a constant. Data after the entries is ignored. */
#ifndef DOPPLER_COMPILER_PACK_IMATRIX_H
#define DOPPLER_COMPILER_PACK_IMATRIX_H

#include "base/arena.h"
#include "frontend/facts/arch.h"

typedef struct dop_imatrix dop_imatrix;

/* Opens an importance matrix: maps the file and validates all of it. *out is in the arena and must be closed before the
 * arena is finished. */
dop_status dop_imatrix_open(const char *path, dop_arena *arena, dop_diag *diag, const dop_imatrix **out);
void dop_imatrix_close(const dop_imatrix *m); /* accepts NULL */

/* Checks that an importance matrix belongs to the model, using the weights with wanted[w->n]. *out_without: number of
 * wanted weights without an entry. Fails with DOP_E_INPUT if an entry and its weight have different numbers of inputs,
 * or if no wanted weight has an entry. */
dop_status dop_imatrix_check(const dop_imatrix *m, const dop_weights *w, const bool *wanted, dop_diag *diag,
                             uint32_t *out_without);
/* Sets out[w->cols] to the importance of each input of a matrix, 1 on average. expert: 0 if w has rank 2. Returns false
 * if the matrix has no entry, or if the entry counts no rows. */
bool dop_imatrix_columns(const dop_imatrix *m, const dop_weight *w, uint32_t expert, float *out);

#endif
