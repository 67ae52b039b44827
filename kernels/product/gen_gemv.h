/* Products of one token (GEMV) on GPUs, which have many invocations. */
#ifndef DOPPLER_KERNELS_PRODUCT_GEN_GEMV_H
#define DOPPLER_KERNELS_PRODUCT_GEN_GEMV_H

#include "kernels/gen/gen.h"
#include "kernels/nest/nest.h"

/* Functions for `emit` and `shared` of descriptors, which are in gemv_variants.c. */
dop_status dop_gemv_emit(dop_gen *gen);
uint32_t dop_gemv_shared(dop_gen *gen);
/* Stages the activation row of the second product (dop_product_facts.beside) in shared memory, after the `first` values of
 * other products. Returns the loop that does it. */
struct dop_stmt *dop_stage_beside(dop_gen *gen, const dop_parts *p, uint32_t first, struct dop_nest *n);

#endif
