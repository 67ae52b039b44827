/* Tiles of products of one row (GEMV) on GPUs (gen_gemv.c), for ordinary dispatches and for stages of a persistent dispatch. */
#ifndef DOPPLER_KERNELS_PRODUCT_GEMV_TILES_H
#define DOPPLER_KERNELS_PRODUCT_GEMV_TILES_H

#include "kernels/descriptor.h"

/* gemv_tiles.c: what a descriptor's tile and as_stage do. */
void dop_gemv_tile(const dop_site *s, dop_tile *tile);
void dop_gemv_tile_i8(const dop_site *s, dop_tile *tile); /* for the weights of integer products */
const char *dop_gemv_stage(const dop_site *s, dop_tile *tile);
/* gemv_tiles.c: teams of lanes, what a lane holds, and all that dop_gemv_emit needs. */
bool dop_team_legal(dop_check *c);
bool dop_lane_legal(dop_check *c, uint32_t tokens);
void dop_gemv_legal(dop_check *c);

#endif
