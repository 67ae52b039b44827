/* Validation of tiles: one check for every tile, regardless of its source. Assumptions of a variant's generator are checked
 * by `legal` of its descriptor, and rules for all variants here. */
#ifndef DOPPLER_KERNELS_GEN_LEGAL_H
#define DOPPLER_KERNELS_GEN_LEGAL_H

#include "kernels/descriptor.h"

/* Implements dop_kernel_legal() for a site, which may be that of a stage. */
bool dop_tile_legal(const dop_site *s, const dop_descriptor *d, const dop_tile *tile, dop_tile_fault *out_fault);
/* Functions for `legal` of descriptors. Each returns true while no rule is broken, so that later rules may divide by values
 * that earlier ones have checked. _power: the field is a power of two. _multiple: a multiple of `of`. _most: a bounded value
 * derived from the field, described by `what`. _when: any other condition, with the text of the rule. */
bool dop_check_range(dop_check *c, int field, uint32_t least, uint32_t most);
bool dop_check_power(dop_check *c, int field, uint32_t least, uint32_t most);
bool dop_check_multiple(dop_check *c, int field, uint32_t of, uint32_t least, uint32_t most);
bool dop_check_divides(dop_check *c, int field, uint32_t of, const char *what);
bool dop_check_equal(dop_check *c, int field, uint64_t value, const char *what);
bool dop_check_most(dop_check *c, int field, uint64_t value, uint64_t most, const char *what);
bool dop_check_when(dop_check *c, bool holds, int field, const char *rule);

#endif
