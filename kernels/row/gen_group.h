/* Products by expert: a small dispatch sorts the rows of a step into blocks of one expert each. Product kernels then look up
 * their rows in these blocks. */
#ifndef DOPPLER_KERNELS_ROW_GEN_GROUP_H
#define DOPPLER_KERNELS_ROW_GEN_GROUP_H

#include "kernels/gen/gen.h"

dop_blocks dop_blocks_of(const dop_graph *g, const dop_region *r);
/* Refuses rows that tiles cannot process: those without blocks, or in blocks of other sizes. */
dop_refusal dop_blocks_refuse(const dop_site *s);
uint32_t dop_blocks_bytes(const dop_gen *gen, uint32_t bm); /* bytes of shared memory for tiles of bm rows */
/* Emits the start of main() for products in tiles of BM rows; it returns if the tile has no rows. Sets t0, the first row of
 * tile number `tile`. For blocks, also sets dop_pair[BM], the tile's pairs, and dop_matrix, their expert. Returns the number
 * of tiles. */
uint32_t dop_tiles_begin(dop_gen *gen, const char *tile, const char *tokens, dop_buf *decls, dop_buf *out);
/* dop_blocks_row returns the row of the step that `pair` belongs to; dop_blocks_column, the column of the pair's value c of n
 * in a value [T,k,n]. */
const char *dop_blocks_row(dop_gen *gen, const dop_blocks *b, const char *pair);
const char *dop_blocks_column(dop_gen *gen, const dop_blocks *b, const char *pair, uint32_t n);

#endif
