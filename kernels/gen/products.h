/* The products of a region for generators: their parts, the computation of the activation, and the properties that determine
 * tiles. */
#ifndef DOPPLER_KERNELS_GEN_PRODUCTS_H
#define DOPPLER_KERNELS_GEN_PRODUCTS_H

#include "kernels/gen/gen.h"

dop_products dop_products_of(const dop_site *s);
/* Refuses weights that no kernel can read. */
dop_refusal dop_products_refuse(const dop_site *s);

/* Fails if a weight has a type that no kernel reads. */
dop_status dop_gen_parts(const dop_gen *gen, dop_parts *out);
/* Returns the number of the region's operations that compute one value of node `id`, at most `most`. */
uint32_t dop_gen_operations(const dop_gen *gen, dop_node_id id, uint32_t most);
/* Returns the weight vector of n_values values (such as a norm's) that the region applies element-wise to compute node `id`;
 * 0: none. */
dop_node_id dop_gen_vector(const dop_gen *gen, dop_node_id id, uint32_t n_values);
/* Returns the largest unit of the part's weight types. */
uint32_t dop_part_unit(const dop_graph *g, const dop_segment *part);
/* Returns the values per iteration of a region's products: the largest unit of all its weight types, at least 8. */
uint32_t dop_products_unit(const dop_graph *g, const dop_region *r);
/* Appends the call of a part's function by the workgroups with numbers below `end`; 0: by all remaining workgroups. */
void dop_gen_call(dop_buf *calls, const char *call, uint32_t end);
uint32_t dop_pow2_floor(uint32_t v);
/* Returns the workgroup size: `invocations`, at most the target's maximum. */
uint32_t dop_wg_of(const dop_target *t, uint32_t invocations);

#endif
