/* Arg-max of the logits: of whole rows, of parts of a row, or merging partial results. In a greedy decode step, the last
 * dispatch also advances the step record. */
#ifndef DOPPLER_KERNELS_ROW_GEN_ARGMAX_H
#define DOPPLER_KERNELS_ROW_GEN_ARGMAX_H

#include "ir/region/region.h"
#include "kernels/descriptor.h"

/* Emits the partial arg-max over the logits that a gemv workgroup computes, as (value, index) pairs. */
void dop_gemv_argmax(dop_gen *gen, const dop_segment *part, uint32_t n_wg, dop_buf *decls, dop_buf *begin,
                     dop_buf *end);

#endif
