/* Packed weight formats as kernels read them, one table row per storage type. */
#ifndef DOPPLER_KERNELS_EMIT_WEIGHT_TYPES_H
#define DOPPLER_KERNELS_EMIT_WEIGHT_TYPES_H

#include "base/storage/types.h"

/* A packed matrix has one or two planes, each 16-byte aligned: plane 0 holds the values of each unit, plane 1 (at
 * `aux` 16-byte words from the start) what several values share, such as scales.  Rows follow each other without gaps in
 * both.  Types with one plane have aux 0.  Padding decodes to finite values, because readers multiply it by zero.
 *
 * The GLSL file of a type T defines, for weights at address p:
 *   float dop_w1_T(U32 p, uint i, uint aux)     value i, counted over packed rows
 *   vec4 dop_w4_T(U32 p, uint i, uint aux)      values i .. i+3, i a multiple of 4
 *   dop_raw_T                                   what one invocation loads of a unit (a type or a macro for one)
 *   dop_raw_T dop_wload_T(U32 p, uint u, uint aux)   loads unit u, counted over packed rows; no arithmetic, so that
 *                                               several can be in flight
 *   float dop_wdot_T(dop_raw_T q, vec4 x[unit / 4])  product with the unit's activations */
enum { DOP_AUX_UNITS = DOP_GROUP_UNITS };

typedef struct dop_weight_type {
    dop_type type;
    const char *file;    /* GLSL file with its functions, relative to the template folder */
    uint32_t unit;       /* values that one invocation loads and multiplies at once */
    uint32_t unit_bytes; /* bytes of a unit in plane 0 */
    uint32_t pad;        /* values: rows are padded to a multiple of it (the unit, or the values that share scales) */
    uint32_t aux_bytes;  /* bytes of plane 1 per group of DOP_AUX_UNITS units, counted over packed rows */
    uint32_t book;       /* bytes of the codebook, which follows all units in plane 0 */
} dop_weight_type;       /* filled from PACK of base/storage/types.def */

enum { DOP_PACK_ALIGN = 256 }; /* alignment in bytes of a tensor, and of each expert's matrix within a tensor */

/* Returns NULL if kernels cannot read the type. */
const dop_weight_type *dop_weight_type_of(dop_type t);
/* Returns the number of values of a packed row of n values, including padding. */
uint32_t dop_packed_row_values(dop_type t, uint32_t n);
/* Return the bytes of plane 0, and of the whole packed matrix. */
uint64_t dop_packed_plane_bytes(dop_type t, uint32_t rows, uint32_t cols);
uint64_t dop_packed_bytes(dop_type t, uint32_t rows, uint32_t cols);
/* Returns the distance in bytes between the packed matrices of two experts. */
uint64_t dop_packed_expert_stride(dop_type t, uint32_t rows, uint32_t cols);

#endif
