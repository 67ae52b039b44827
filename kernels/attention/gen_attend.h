/* Attention as a nest (attend.h): holes and statements that all attention kernels share. The prologue computes queries and,
 * for one token, the keys and values of this step. */
#ifndef DOPPLER_KERNELS_ATTENTION_GEN_ATTEND_H
#define DOPPLER_KERNELS_ATTENTION_GEN_ATTEND_H

#include "kernels/gen/gen.h"

/* True if the region computes this step's row of a cache (0: K, 1: V), or receives it from the stage that writes it. */
bool dop_attn_has_row(const dop_gen *gen, const dop_attn *a, uint32_t which);
/* With several sequences: returns code that sets dop_first, the start of the caches of row `row`'s sequence. */
const char *dop_attn_sequence(dop_gen *gen, const dop_attn *a, const char *row, dop_buf *decls);
/* Returns code that declares begin and end, the first and last that row `t` attends to: positions, or rows of the step if
 * keys are values of this step. */
const char *dop_attn_bounds(dop_gen *gen, const dop_attn *a);

#endif
