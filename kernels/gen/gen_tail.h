/* Per-head products (dop_tail_facts), which fill tail.glsl: each head of a value that the region computes is multiplied by
 * its own matrix, in the workgroup that completes the head. */
#ifndef DOPPLER_KERNELS_GEN_GEN_TAIL_H
#define DOPPLER_KERNELS_GEN_GEN_TAIL_H

#include "kernels/descriptor.h"

/* dop_tail_heads returns the number of heads of the region's per-head product (0: none); dop_tail_depth, the values per
 * head. */
uint32_t dop_tail_heads(const dop_gen *gen);
uint32_t dop_tail_depth(const dop_gen *gen);
/* dop_tail_at_once returns the number of completed heads that a workgroup multiplies at once; dop_tail_bytes, the bytes of
 * shared memory for that. */
uint32_t dop_tail_at_once(const dop_gen *gen, uint32_t heads);
uint32_t dop_tail_bytes(const dop_gen *gen, uint32_t at_once);
/* Refuses weights of the per-head product that no kernel can read. */
dop_refusal dop_tail_refuses(const dop_site *s);
/* Declares the function dop_tail(h) for at_once heads from h on, if the region has a per-head product. All tiles of a stage
 * must request their arguments in the same order, because arguments are numbered in that order. */
void dop_tail_declare(dop_gen *gen, uint32_t at_once, dop_buf *decls);
/* Appends code for a workgroup that has made its share of `blocks` blocks with `rows` rows each, divided evenly among
 * neighboring workgroups. Blocks from number `first` on belong to heads. The code computes the product of every head that the
 * workgroup has completed. */
dop_status dop_tail_blocks(dop_gen *gen, uint32_t first, uint32_t rows, uint32_t blocks, dop_buf *out);
/* Returns the iterations of a workgroup that completes all heads, for `trips` of descriptors. */
uint64_t dop_tail_trips(const dop_site *s, const dop_tile *tile);

#endif
