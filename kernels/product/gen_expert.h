/* Products with one matrix per expert, for few rows: additions to the GEMV generator. */
#ifndef DOPPLER_KERNELS_PRODUCT_GEN_EXPERT_H
#define DOPPLER_KERNELS_PRODUCT_GEN_EXPERT_H

#include "kernels/gen/gen.h"
#include "kernels/nest/nest.h"

/* Declares the slot of a workgroup, its matrices, and dop_choose(), the expert choice that main() calls first. */
void dop_expert_begin(dop_gen *gen, const dop_parts *p, struct dop_nest *n);
/* Returns the start of the slot's matrix in weight w ("dop_expert(a3, ...)"). */
const char *dop_expert_weights(dop_gen *gen, const dop_parts *p, dop_node_id w, const char *slot);
/* Sets up the row program that stages the activation of the workgroup's slot, or of all slots if they are summed. *out_each:
 * true if it must run for each slot dop_j. */
void dop_expert_program(dop_gen *gen, const dop_parts *p, uint32_t k_pad, const struct dop_nest *n, dop_rowprog *prog,
                        dop_buf *decls, bool *out_each);
uint32_t dop_expert_bytes(dop_gen *gen); /* bytes of shared memory for the choice */

#endif
