/* Tiles of single-row products (GEMV) on GPUs (gen_gemv.c), for ordinary dispatches and for stages of a persistent
 * dispatch. */
#ifndef DOPPLER_KERNELS_PRODUCT_GEMV_TILES_H
#define DOPPLER_KERNELS_PRODUCT_GEMV_TILES_H

#include "kernels/descriptor.h"

/* Functions for `tile` and `as_stage` of descriptors. */
void dop_gemv_tile(const dop_site *s, dop_tile *tile);
void dop_gemv_tile_i8(const dop_site *s, dop_tile *tile); /* for the weights of integer products */
const char *dop_gemv_stage(const dop_site *s, dop_tile *tile);
/* Tile checks: groups of cooperative lanes, registers of a lane, and all assumptions of dop_gemv_emit. */
bool dop_team_legal(dop_check *c);
bool dop_lane_legal(dop_check *c, uint32_t tokens);
void dop_gemv_legal(dop_check *c);

#endif
