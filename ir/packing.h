/* Blocks of quantized types to the planes that kernels read, and back (types.def). */
#ifndef DOPPLER_IR_PACKING_H
#define DOPPLER_IR_PACKING_H

#include "ir/types.h"

/* Writes a block of quantized type t into planes that were zero there: to its first unit in plane 0, and to the group of that
 * unit in plane 1, where the unit's number is k.  A block does not cross a group: groups have 32 units, blocks up to 8. */
void dop_pack_block(dop_type t, const uint8_t *block, uint32_t k, uint8_t *units, uint8_t *group);
/* The inverse, without any code of kernels: makes the block of a file, dop_type_of(t)->bytes. */
void dop_unpack_block(dop_type t, const uint8_t *units, const uint8_t *group, uint32_t k, uint8_t *block);

/* Writes the codebook of a type as kernels read it, dop_type_of(t)->pack.book bytes. */
void dop_type_book(dop_type t, uint8_t *out);

#endif
