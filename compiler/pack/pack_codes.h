/* Matrices of codes with scales for tiles of them (dop_code_parts) to blocks of a storage type. */
#ifndef DOPPLER_COMPILER_PACK_PACK_CODES_H
#define DOPPLER_COMPILER_PACK_PACK_CODES_H

#include "compiler/model/arch.h"

/* The blocks of row `row` for the inputs from `from` to `to`, which is the last one or where a block ends; at: zeros. */
void dop_code_blocks(const dop_weight *w, uint32_t row, uint32_t from, uint32_t to, uint8_t *at);

#endif
