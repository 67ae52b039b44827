/* Attention: what its kernels have to know of a region, and the general kernel, which uses no matrix units and has no special form for one token. */
#ifndef DOPPLER_KERNELS_ATTENTION_GEN_ATTENTION_H
#define DOPPLER_KERNELS_ATTENTION_GEN_ATTENTION_H

#include "kernels/gen/gen.h"

dop_attn dop_attn_at(const dop_site *s); /* rows is left to the placement */
/* Are values columns of the keys' rows, as in latent attention? */
bool dop_attn_values_in_keys(const dop_graph *g, const dop_attn *a);
/* Does the region compute query heads by a row program, or write this step's rows of the caches? */
bool dop_attn_makes_heads(const dop_gen *gen);
/* Refuse attention that a kernel cannot compute.  dop_attn_refuses: heads that no kernel can; _slopes, for variants whose scores
 * do not depend on the distance: ALiBi and tables of distances as well; _step, for variants that read caches only: keys of this
 * step as well. */
dop_refusal dop_attn_refuses_slopes(const dop_site *s);
dop_refusal dop_attn_refuses(const dop_site *s);
dop_refusal dop_attn_refuses_step(const dop_site *s);
/* May a step have rows of several sequences, or are its rows to be taken as if they were? */
bool dop_attn_mixes(const dop_site *s);
/* Loop trip counts of attention: the most positions that one workgroup walks over; and the iterations of the prologue and epilogue
 * around them, for `rows` query rows. */
uint64_t dop_attn_reaches(const dop_site *s, const dop_attn *a);
uint64_t dop_trips_heads(const dop_site *s, const dop_tile *tile, const dop_attn *a, uint32_t rows);
/* The tile of the variants without matrix units. */
void dop_attn_tile(const dop_site *s, dop_tile *tile);

#endif
