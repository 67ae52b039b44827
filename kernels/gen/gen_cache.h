/* How attention kernels load rows of keys and values, by the type that the caches are stored in. */
#ifndef DOPPLER_KERNELS_GEN_GEN_CACHE_H
#define DOPPLER_KERNELS_GEN_GEN_CACHE_H

#include "kernels/gen/gen.h"

/* Macros that templates use for positions: DOP_FIRST(p), the first one that a query at p sees, and DOP_SLOT(p), the row of p in
 * the cache, for positions from DOP_RING_FROM(first) on. */
void dop_attn_positions(dop_gen *gen, const dop_attn *a, dop_buf *decls);
/* Is K (0) or V (1) stored in blocks?  Are both stored so that kernels load eight values at once? */
bool dop_attn_in_blocks(const dop_graph *g, const dop_attn *a, uint32_t which);
bool dop_attn_in_eights(const dop_graph *g, const dop_attn *a);
/* For kernels whose invocations do not share a block: the region writes a cache that is stored in blocks. */
dop_refusal dop_attn_refuses_blocks(const dop_site *s);
/* Macros that load four values of a cache, DOP_AT_K(p) and DOP_LD4_K(at, d), or pieces of eight, DOP_ROW_K(p), DOP_LD_K(at, piece)
 * and so on, and with _V for V; words: functions, of an address and an index, that load 16 bytes of K and V. */
void dop_attn_loads(dop_gen *gen, const dop_attn *a, const char *const words[2], dop_buf *out);
void dop_attn_made(dop_gen *gen, const dop_attn *a, dop_buf *out);

#endif
