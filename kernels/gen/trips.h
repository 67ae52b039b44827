/* Loop trip counts: upper bounds of the iterations of all loops of an invocation together, for `trips` of the descriptors. */
#ifndef DOPPLER_KERNELS_GEN_TRIPS_H
#define DOPPLER_KERNELS_GEN_TRIPS_H

#include "ir/region/region.h"
#include "kernels/descriptor.h"

/* Loop trip counts: of a loop that takes `of` of n values at a time; of a sum over n lanes; of a row program; and of the prologue
 * of products (row programs, choice of experts) for `rows` rows of the step. */
uint64_t dop_turns(uint64_t n, uint64_t of);
uint32_t dop_halvings(uint32_t n);
uint64_t dop_trips_program(const dop_site *s, const dop_program *p, uint32_t len, uint32_t lanes);
uint64_t dop_trips_prologue(const dop_site *s, const dop_tile *tile, uint32_t rows);
/* Functions for `trips` of descriptors: dop_trips_gemv for products of gen_gemv.c and gen_few.c, dop_trips_tiles for products in
 * tiles, and the rest for the variants of their names. */
uint64_t dop_trips_gemv(const dop_site *s, const dop_tile *tile);
uint64_t dop_trips_tiles(const dop_site *s, const dop_tile *tile);
uint64_t dop_trips_row(const dop_site *s, const dop_tile *tile);
uint64_t dop_trips_choice(const dop_site *s, const dop_tile *tile);
uint64_t dop_trips_argmax(const dop_site *s, const dop_tile *tile);
uint64_t dop_trips_group(const dop_site *s, const dop_tile *tile);
uint64_t dop_trips_dequant(const dop_site *s, const dop_tile *tile);
/* Would the driver end the loops too early?  Never where the target states no limit. */
bool dop_trips_too_many(const dop_site *s, const dop_descriptor *d, const dop_tile *tile);

#endif
