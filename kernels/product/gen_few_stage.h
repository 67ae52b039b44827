/* Small-batch products as stages of a persistent dispatch: receiving of rows, and choice of tiles. */
#ifndef DOPPLER_KERNELS_PRODUCT_GEN_FEW_STAGE_H
#define DOPPLER_KERNELS_PRODUCT_GEN_FEW_STAGE_H

#include "kernels/gen/gen.h"

dop_few_piece dop_few_piece_of(const dop_site *s, bool ints, bool stage);
/* Returns the number of workgroups of all parts, if each has `rows` rows of its part's matrices. */
uint32_t dop_few_groups(const dop_site *s, uint32_t rows);
/* dop_few_receive appends the body of a stage's dop_put_rows(c0), which receives activation rows from mailboxes and stages
 * them. `done` gets code that names the statistics of row t for the epilogue. dop_few_stat_values returns the number of
 * partial sums of a statistic. */
void dop_few_receive(dop_gen *gen, const dop_parts *p, const dop_few_piece *piece, dop_buf *receive, dop_buf *done);
uint32_t dop_few_stat_values(const dop_gen *gen, const dop_parts *p, const dop_few_piece *piece);
const char *dop_few_stage(const dop_site *s, dop_tile *tile);

#endif
