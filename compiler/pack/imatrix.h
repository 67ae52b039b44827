/* An importance matrix: how large the inputs of a model's products are, so that quantizing makes the errors small that matter.  The
 * mean square of each input of a product weighs the squared errors of the weights that it is multiplied by.
 *
 * Two forms of llama.cpp's tool of that name are read.  GGUF: for each tensor NAME sums of squares NAME.in_sum2 [matrices, inputs] and
 * rows NAME.counts [matrices], both f32.  The older one (.dat), little-endian: the number of entries; of each the length of its name,
 * the name, a number, the number of its values, and these, means times a constant, as f32; what follows is not read. */
#ifndef DOPPLER_COMPILER_PACK_IMATRIX_H
#define DOPPLER_COMPILER_PACK_IMATRIX_H

#include "base/arena.h"
#include "compiler/model/arch.h"

typedef struct dop_imatrix dop_imatrix;

/* Maps a file and checks all of it.  *out is in the arena, and has to be closed before that is finished. */
dop_status dop_imatrix_open(const char *path, dop_arena *arena, dop_diag *diag, const dop_imatrix **out);
void dop_imatrix_close(const dop_imatrix *m); /* accepts NULL */

/* Does it have entries that fit these weights, where wanted[w->n]?  *out_without: how many of those have none.  DOP_E_INPUT: an entry has
 * another number of inputs than its weight, or there is none for any of them, so it is of another model. */
dop_status dop_imatrix_check(const dop_imatrix *m, const dop_weights *w, const bool *wanted, dop_diag *diag,
                             uint32_t *out_without);
/* The importance of the inputs of a matrix, out[w->cols], 1 on average; expert 0 where w is of rank 2.  False: not known. */
bool dop_imatrix_columns(const dop_imatrix *m, const dop_weight *w, uint32_t expert, float *out);

#endif
