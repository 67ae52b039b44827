/* Converts matrices that a model stores as codes with a scale for each tile (dop_code_parts) to blocks of a storage
 * type. */
#ifndef DOPPLER_COMPILER_PACK_PACK_CODES_H
#define DOPPLER_COMPILER_PACK_PACK_CODES_H

#include "frontend/facts/arch.h"

/* Writes the blocks of row `row` with inputs from .. to - 1. `to` is the number of inputs or the end of a block. The
 * bytes at `at` must be zero. */
void dop_code_blocks(const dop_weight *w, uint32_t row, uint32_t from, uint32_t to, uint8_t *at);

#endif
