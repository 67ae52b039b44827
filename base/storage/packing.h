/* Blocks of quantized types to the planes that kernels read, and back (types.def). */
#ifndef DOPPLER_BASE_STORAGE_PACKING_H
#define DOPPLER_BASE_STORAGE_PACKING_H

#include "base/storage/types.h"

/* Writes a block of quantized type t into planes that were zero there: to its first unit in plane 0, and to the group of that
 * unit in plane 1, where the unit's number is k.  A block does not cross a group: groups have 32 units, blocks up to 8.  units or group
 * NULL: only what the other one has. */
void dop_pack_block(dop_type t, const uint8_t *block, uint32_t k, uint8_t *units, uint8_t *group);
/* The inverse, without any code of kernels: makes the block of a file, dop_type_of(t)->bytes. */
void dop_unpack_block(dop_type t, const uint8_t *units, const uint8_t *group, uint32_t k, uint8_t *block);

/* Where a packed matrix has what, in bytes: units, then zeros up to a multiple of 16, the codebook, and the groups. */
typedef struct dop_planes {
    uint64_t units;               /* bytes of all units */
    uint64_t book;                /* where the codebook begins */
    uint64_t groups, group_bytes; /* where groups begin, and bytes of all groups */
} dop_planes;

/* The planes of a matrix of that many units (of floats: pack.unit values, which have no groups). */
dop_planes dop_planes_of(dop_type t, uint64_t units);

/* Writes bytes from .. from + size - 1 of all units, or of all groups, of a packed matrix of quantized type t, whose n_blocks blocks follow
 * each other at `blocks`.  Writes `out` in order and never reads it, because it may be memory of a device. */
void dop_pack_units(dop_type t, const uint8_t *blocks, uint64_t from, uint64_t size, uint8_t *out);
void dop_pack_groups(dop_type t, const uint8_t *blocks, uint64_t n_blocks, uint64_t from, uint64_t size, uint8_t *out);

#endif
