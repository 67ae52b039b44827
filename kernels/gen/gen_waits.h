/* Waits within a dispatch of products (dop_product_facts.awaited): parts whose values others read as whole rows come first in
 * the grid, and the other parts' epilogues wait for them (waits.glsl). In a persistent dispatch mailboxes do this instead.
 * dop_waits_order writes the part numbers in grid order. _declare adds a hole for the wait functions, or returns NULL if
 * nothing waits or mailboxes are used. _define fills it with the numbers of workgroups: producers and consumers, each times
 * the expression `tiles` (NULL: 1). _call returns a part's call, followed by the increment of the workgroup counter. */
#ifndef DOPPLER_KERNELS_GEN_GEN_WAITS_H
#define DOPPLER_KERNELS_GEN_GEN_WAITS_H

#include "kernels/gen/gen.h"
#include "kernels/nest/nest.h"

void dop_waits_order(const dop_gen *gen, const dop_parts *p, uint32_t *order);
struct dop_stmt *dop_waits_declare(dop_gen *gen, struct dop_nest *n);
void dop_waits_define(dop_gen *gen, struct dop_stmt *hole, uint32_t makers, uint32_t takers, const char *tiles);
const char *dop_waits_call(dop_gen *gen, uint32_t part, const char *call);

#endif
