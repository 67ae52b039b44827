/* An importance matrix: how large the inputs of a model's products are, so that quantization makes those errors small that matter.
 * The mean square of each input of a product is the weight of the squared errors in the matrix column that it is multiplied by.
 *
 * Two forms that llama-imatrix of llama.cpp writes are read.  GGUF: for each tensor NAME the sums of squares NAME.in_sum2 [matrices,
 * inputs] and the numbers of rows NAME.counts [matrices], both f32.  The older form (.dat), little-endian: the number of entries; for
 * each entry the length of its name, the name, a number that is not used, the number of its values, and the values, which are means
 * times a constant, as f32.  What follows the entries is not read. */
#ifndef DOPPLER_COMPILER_PACK_IMATRIX_H
#define DOPPLER_COMPILER_PACK_IMATRIX_H

#include "base/arena.h"
#include "frontend/facts/arch.h"

typedef struct dop_imatrix dop_imatrix;

/* Opens an importance matrix: maps the file and checks all of it.  *out is in the arena and must be closed before the arena is
 * finished. */
dop_status dop_imatrix_open(const char *path, dop_arena *arena, dop_diag *diag, const dop_imatrix **out);
void dop_imatrix_close(const dop_imatrix *m); /* accepts NULL */

/* Checks that an importance matrix fits a model, by the weights with wanted[w->n].  *out_without: number of wanted weights without an
 * entry.  DOP_E_INPUT: the matrix is of another model, because an entry has another number of inputs than its weight or because no
 * wanted weight has an entry. */
dop_status dop_imatrix_check(const dop_imatrix *m, const dop_weights *w, const bool *wanted, dop_diag *diag,
                             uint32_t *out_without);
/* Gives the importance of each input of a matrix in out[w->cols], 1 on average.  expert: 0 where w has rank 2.  False: there is no
 * entry for the matrix, or no row was counted in it. */
bool dop_imatrix_columns(const dop_imatrix *m, const dop_weight *w, uint32_t expert, float *out);

#endif
