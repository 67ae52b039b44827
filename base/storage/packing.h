/* Packing of quantized blocks into the planes that kernels read, and unpacking (types.def). */
#ifndef DOPPLER_BASE_STORAGE_PACKING_H
#define DOPPLER_BASE_STORAGE_PACKING_H

#include "base/storage/types.h"

/* Packs a block of quantized type t into zeroed planes: into plane 0 from its first unit on, and into the group of that unit in plane
 * 1.
 * k: number of the unit within its group.  Blocks (up to 8 units) do not cross groups (32 units).  units or group NULL: skips that
 * plane. */
void dop_pack_block(dop_type t, const uint8_t *block, uint32_t k, uint8_t *units, uint8_t *group);
/* Inverse of dop_pack_block, independent of kernel code: restores the dop_type_of(t)->bytes bytes of a block. */
void dop_unpack_block(dop_type t, const uint8_t *units, const uint8_t *group, uint32_t k, uint8_t *block);

/* Byte layout of a packed matrix: units, zeros up to a multiple of 16, codebook, groups. */
typedef struct dop_planes {
    uint64_t units;               /* size of plane 0 in bytes */
    uint64_t book;                /* byte offset of the codebook */
    uint64_t groups, group_bytes; /* byte offset and size of plane 1 */
} dop_planes;

/* Returns the layout of a matrix of `units` units (for floats, pack.unit values each, without groups). */
dop_planes dop_planes_of(dop_type t, uint64_t units);

/* Pack bytes from .. from + size - 1 of plane 0, or of plane 1, of a matrix of quantized type t with n_blocks consecutive blocks.
 * Write `out` sequentially and never read it, because it may be device memory. */
void dop_pack_units(dop_type t, const uint8_t *blocks, uint64_t from, uint64_t size, uint8_t *out);
void dop_pack_groups(dop_type t, const uint8_t *blocks, uint64_t n_blocks, uint64_t from, uint64_t size, uint8_t *out);

#endif
