/* The legality of tiles: one check for every tile, wherever it comes from.  What a variant's generator takes for granted is in the `legal` function of its descriptor; what is alike for all variants is here. */
#ifndef DOPPLER_KERNELS_GEN_LEGAL_H
#define DOPPLER_KERNELS_GEN_LEGAL_H

#include "kernels/descriptor.h"

/* dop_kernel_legal() for a site, which may be that of a stage. */
bool dop_tile_legal(const dop_site *s, const dop_descriptor *d, const dop_tile *tile, dop_tile_fault *out_fault);
/* Functions for `legal` of descriptors.  Each returns true while no rule is broken, so that later rules may divide by what earlier
 * ones have checked.  dop_check_power: a power of two; _multiple: a multiple of `of`; _most: fields whose product with `each` is
 * bounded, with `what` they multiply; _when: anything else, with the text of the rule. */
bool dop_check_range(dop_check *c, int field, uint32_t least, uint32_t most);
bool dop_check_power(dop_check *c, int field, uint32_t least, uint32_t most);
bool dop_check_multiple(dop_check *c, int field, uint32_t of, uint32_t least, uint32_t most);
bool dop_check_divides(dop_check *c, int field, uint32_t of, const char *what);
bool dop_check_equal(dop_check *c, int field, uint64_t value, const char *what);
bool dop_check_most(dop_check *c, int field, uint64_t value, uint64_t most, const char *what);
bool dop_check_when(dop_check *c, bool holds, int field, const char *rule);

#endif
