/* Attention: properties of a region that all attention kernels need, and the general kernel, which does not use matrix units
 * and has no special form for one token. */
#ifndef DOPPLER_KERNELS_ATTENTION_GEN_ATTENTION_H
#define DOPPLER_KERNELS_ATTENTION_GEN_ATTENTION_H

#include "kernels/gen/gen.h"

dop_attn dop_attn_at(const dop_site *s); /* leaves `rows` to the placement */
/* True if values are columns of the key rows, as in latent attention. */
bool dop_attn_values_in_keys(const dop_graph *g, const dop_attn *a);
/* True if the region computes query heads by a row program, or writes this step's rows of the caches. */
bool dop_attn_makes_heads(const dop_gen *gen);
/* Refuse unsupported attention. dop_attn_refuses: heads that no kernel supports. _slopes, for variants without
 * distance-dependent scores: also ALiBi and distance tables. _step, for variants that only read caches: also keys that are
 * values of this step. */
dop_refusal dop_attn_refuses_slopes(const dop_site *s);
dop_refusal dop_attn_refuses(const dop_site *s);
dop_refusal dop_attn_refuses_step(const dop_site *s);
/* True if a step may have rows of several sequences, or if its rows must be treated that way. */
bool dop_attn_mixes(const dop_site *s);
/* Loop trip counts of attention: maximum number of positions that a workgroup walks over, and iterations of the prologue and
 * epilogue for `rows` query rows. */
uint64_t dop_attn_reaches(const dop_site *s, const dop_attn *a);
uint64_t dop_trips_heads(const dop_site *s, const dop_tile *tile, const dop_attn *a, uint32_t rows);
/* Chooses the tile of the variants without matrix units. */
void dop_attn_tile(const dop_site *s, dop_tile *tile);

#endif
