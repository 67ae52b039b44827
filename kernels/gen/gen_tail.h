/* Per-head products (dop_tail_facts), which fill tail.glsl: each head of a value that the region makes is multiplied with a matrix of its own, by the workgroup that completes the head. */
#ifndef DOPPLER_KERNELS_GEN_GEN_TAIL_H
#define DOPPLER_KERNELS_GEN_GEN_TAIL_H

#include "kernels/descriptor.h"

/* Number of heads in the region's tail, 0: it has none; and values per head. */
uint32_t dop_tail_heads(const dop_gen *gen);
uint32_t dop_tail_depth(const dop_gen *gen);
/* How many of the heads that a workgroup completes it multiplies at once; and bytes of shared memory for that. */
uint32_t dop_tail_at_once(const dop_gen *gen, uint32_t heads);
uint32_t dop_tail_bytes(const dop_gen *gen, uint32_t at_once);
/* Refuses weights of the tail that no kernel can read. */
dop_refusal dop_tail_refuses(const dop_site *s);
/* The function dop_tail(h) for that many heads from h on, if the region has a tail.  All forms of a stage must request their
 * arguments in the same order, because the order numbers them. */
void dop_tail_declare(dop_gen *gen, uint32_t at_once, dop_buf *decls);
/* Appends code of a workgroup that has made its blocks of `rows` rows each, out of `blocks`, which neighbouring workgroups divide
 * evenly; those from number `first` on are of the heads.  It computes the product of every head that it has completed. */
dop_status dop_tail_blocks(dop_gen *gen, uint32_t first, uint32_t rows, uint32_t blocks, dop_buf *out);
/* Iterations of a workgroup that completes all heads, for `trips` of descriptors. */
uint64_t dop_tail_trips(const dop_site *s, const dop_tile *tile);

#endif
