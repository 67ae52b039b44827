/* Loads of key and value rows in attention kernels, for each storage type of caches. */
#ifndef DOPPLER_KERNELS_GEN_GEN_CACHE_H
#define DOPPLER_KERNELS_GEN_GEN_CACHE_H

#include "kernels/gen/gen.h"

/* Defines the position macros of templates. DOP_FIRST(p) is the first position that a query at p attends to. DOP_SLOT(p) is
 * the cache row of p, for positions from DOP_RING_FROM(first) on. */
void dop_attn_positions(dop_gen *gen, const dop_attn *a, dop_buf *decls);
/* dop_attn_in_blocks is true if K (0) or V (1) is stored in quantized blocks; dop_attn_in_eights, if both allow loads of
 * eight values. */
bool dop_attn_in_blocks(const dop_graph *g, const dop_attn *a, uint32_t which);
bool dop_attn_in_eights(const dop_graph *g, const dop_attn *a);
/* Refuses regions that write a cache stored in blocks, for kernels whose invocations cannot share a block. */
dop_refusal dop_attn_refuses_blocks(const dop_site *s);
/* Defines macros that load four values of a cache row, DOP_AT_K(p) and DOP_LD4_K(at, d), or pieces of eight, DOP_ROW_K(p) and
 * DOP_LD_K(at, piece); with suffix _V for V. `words` are functions of an address and an index that load 16 bytes of K and
 * V. */
void dop_attn_loads(dop_gen *gen, const dop_attn *a, const char *const words[2], dop_buf *out);
void dop_attn_made(dop_gen *gen, const dop_attn *a, dop_buf *out);

#endif
