/* Products with a matrix for each expert, for few rows: what the generator of gemv needs in addition. */
#ifndef DOPPLER_KERNELS_PRODUCT_GEN_EXPERT_H
#define DOPPLER_KERNELS_PRODUCT_GEN_EXPERT_H

#include "kernels/gen/gen.h"
#include "kernels/nest/nest.h"

/* What expert kernels of few rows need besides gemv: the slot of a workgroup, its matrices, and dop_choose(), the choice of experts,
 * for the beginning of main(). */
void dop_expert_begin(dop_gen *gen, const dop_parts *p, struct dop_nest *n);
/* Where the slot's matrix in weight w begins ("dop_expert(a3, ...)"). */
const char *dop_expert_weights(dop_gen *gen, const dop_parts *p, dop_node_id w, const char *slot);
/* The row program that stages the activation of the workgroup's slot, or of all slots where they are summed up; *out_each: it
 * must run for each slot dop_j. */
void dop_expert_program(dop_gen *gen, const dop_parts *p, uint32_t k_pad, const struct dop_nest *n, dop_rowprog *prog,
                        dop_buf *decls, bool *out_each);
uint32_t dop_expert_bytes(dop_gen *gen); /* of shared memory, for the choice */

#endif
