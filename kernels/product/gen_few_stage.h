/* Products of a few rows as stages of a persistent dispatch: how they receive rows, and how their tiles are chosen. */
#ifndef DOPPLER_KERNELS_PRODUCT_GEN_FEW_STAGE_H
#define DOPPLER_KERNELS_PRODUCT_GEN_FEW_STAGE_H

#include "kernels/gen/gen.h"

dop_few_piece dop_few_piece_of(const dop_site *s, bool ints, bool stage);
/* The number of workgroups of all parts together, where each has `rows` rows of its part's matrices. */
uint32_t dop_few_groups(const dop_site *s, uint32_t rows);
/* The body of dop_put_rows(c0) of a stage, which receives rows of the activation from mailboxes and stages them; `done` gets code
 * that names the statistics of row t for the epilogue.  dop_few_stat_values: how many partial sums of a statistic there are. */
void dop_few_receive(dop_gen *gen, const dop_parts *p, const dop_few_piece *piece, dop_buf *receive, dop_buf *done);
uint32_t dop_few_stat_values(const dop_gen *gen, const dop_parts *p, const dop_few_piece *piece);
const char *dop_few_stage(const dop_site *s, dop_tile *tile);

#endif
