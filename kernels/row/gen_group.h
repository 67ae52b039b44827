/* Products by expert: one small dispatch sorts the rows of a step into blocks of one expert each, and the kernels of products find their rows in these blocks. */
#ifndef DOPPLER_KERNELS_ROW_GEN_GROUP_H
#define DOPPLER_KERNELS_ROW_GEN_GROUP_H

#include "kernels/gen/gen.h"

dop_blocks dop_blocks_of(const dop_graph *g, const dop_region *r);
/* Refuses rows that tiles cannot make: without blocks, or in blocks of other sizes. */
dop_refusal dop_blocks_refuse(const dop_site *s);
uint32_t dop_blocks_bytes(const dop_gen *gen, uint32_t bm); /* of shared memory, in tiles of bm rows */
/* The start of main() for products in tiles of BM rows: t0, the first row of tile number `tile`; and of blocks dop_pair[BM], the tile's
 * pairs, and dop_matrix, their expert.  It returns where the tile has no rows.  Returns the number of tiles. */
uint32_t dop_tiles_begin(dop_gen *gen, const char *tile, const char *tokens, dop_buf *decls, dop_buf *out);
/* The row of the step that `pair` belongs to; `column` becomes the place of the pair's column c of n in a value [T,k,n]. */
const char *dop_blocks_row(dop_gen *gen, const dop_blocks *b, const char *pair);
const char *dop_blocks_column(dop_gen *gen, const dop_blocks *b, const char *pair, uint32_t n);

#endif
