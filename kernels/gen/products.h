/* The products of a region as generators need them: their parts, what computes the activation, and the facts that determine tiles. */
#ifndef DOPPLER_KERNELS_GEN_PRODUCTS_H
#define DOPPLER_KERNELS_GEN_PRODUCTS_H

#include "kernels/gen/gen.h"

dop_products dop_products_of(const dop_site *s);
/* Refuses weights that no kernel can read. */
dop_refusal dop_products_refuse(const dop_site *s);

/* Errors: weights of a type that no kernel reads. */
dop_status dop_gen_parts(const dop_gen *gen, dop_parts *out);
/* The number of operations of the region that computing one value of node `id` takes, or `most` where it is larger. */
uint32_t dop_gen_operations(const dop_gen *gen, dop_node_id id, uint32_t most);
/* The weight vector of n_values values (as that of a norm) that the region applies element by element to compute node `id`; 0:
 * there is none. */
dop_node_id dop_gen_vector(const dop_gen *gen, dop_node_id id, uint32_t n_values);
/* The largest unit of the part's weight types. */
uint32_t dop_part_unit(const dop_graph *g, const dop_segment *part);
/* Values of a step of a region's products: the largest unit of all its weight types, at least 8. */
uint32_t dop_products_unit(const dop_graph *g, const dop_region *r);
/* Appends the call of a part's function by the workgroups whose numbers are below `end`; 0: by all remaining workgroups. */
void dop_gen_call(dop_buf *calls, const char *call, uint32_t end);
uint32_t dop_pow2_floor(uint32_t v);
/* Invocations of a workgroup: `invocations`, or the target's maximum where that is smaller. */
uint32_t dop_wg_of(const dop_target *t, uint32_t invocations);

#endif
