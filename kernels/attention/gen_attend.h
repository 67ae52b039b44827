/* Attention as a nest (attend.h): the holes that all kernels of attention share, and the statements of those whose nest it is.  The prologue computes queries and, for one token, the keys and values of this step. */
#ifndef DOPPLER_KERNELS_ATTENTION_GEN_ATTEND_H
#define DOPPLER_KERNELS_ATTENTION_GEN_ATTEND_H

#include "kernels/gen/gen.h"

/* Does the region make this step's row of a cache (0: K, 1: V), or receive it from the stage that writes it? */
bool dop_attn_has_row(const dop_gen *gen, const dop_attn *a, uint32_t which);
/* Where there are several sequences: code that finds dop_first, where the caches of the sequence of row `row` begin. */
const char *dop_attn_sequence(dop_gen *gen, const dop_attn *a, const char *row, dop_buf *decls);
/* Code that declares begin and end, the first and the last that row `t` sees: positions, or, for keys that are values of this step,
 * rows of the step. */
const char *dop_attn_bounds(dop_gen *gen, const dop_attn *a);

#endif
