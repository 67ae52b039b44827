/* Arg-max of the logits: alone, as partial results, or merging partial results; the last step of a greedy token also advances the step record. */
#ifndef DOPPLER_KERNELS_ROW_GEN_ARGMAX_H
#define DOPPLER_KERNELS_ROW_GEN_ARGMAX_H

#include "ir/region/region.h"
#include "kernels/descriptor.h"

/* Partial arg-max of the rows that a workgroup of gemv made, (value, index) pairs: gen_argmax.c. */
void dop_gemv_argmax(dop_gen *gen, const dop_segment *part, uint32_t n_wg, dop_buf *decls, dop_buf *begin,
                     dop_buf *end);

#endif
