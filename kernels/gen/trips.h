/* Loop trip counts: upper bounds on the total iterations of all loops of one invocation, for `trips` of the
 * descriptors. */
#ifndef DOPPLER_KERNELS_GEN_TRIPS_H
#define DOPPLER_KERNELS_GEN_TRIPS_H

#include "ir/region/region.h"
#include "kernels/descriptor.h"

/* Return the trip counts of: a loop over n values, `of` at a time; a reduction over n lanes; a row program; the prologue of
 * products (row programs, expert choice) for `rows` rows of the step. */
uint64_t dop_turns(uint64_t n, uint64_t of);
uint32_t dop_halvings(uint32_t n);
uint64_t dop_trips_program(const dop_site *s, const dop_program *p, uint32_t len, uint32_t lanes);
uint64_t dop_trips_prologue(const dop_site *s, const dop_tile *tile, uint32_t rows);
/* Functions for `trips` of descriptors: dop_trips_gemv for gen_gemv.c and gen_few.c, dop_trips_tiles for tiled products, and
 * the rest for the variants that they are named after. */
uint64_t dop_trips_gemv(const dop_site *s, const dop_tile *tile);
uint64_t dop_trips_tiles(const dop_site *s, const dop_tile *tile);
uint64_t dop_trips_row(const dop_site *s, const dop_tile *tile);
uint64_t dop_trips_choice(const dop_site *s, const dop_tile *tile);
uint64_t dop_trips_argmax(const dop_site *s, const dop_tile *tile);
uint64_t dop_trips_group(const dop_site *s, const dop_tile *tile);
uint64_t dop_trips_dequant(const dop_site *s, const dop_tile *tile);
/* True if the total exceeds the target's loop limit, after which the driver would end loops early. False if the target states
 * no limit. */
bool dop_trips_too_many(const dop_site *s, const dop_descriptor *d, const dop_tile *tile);

#endif
