/* Converts cooperative matrices from the NV form to the KHR form, which devices of all vendors support.
 *
 * Kernels are written with GL_NV_cooperative_matrix, the only form that shaderc 2023.2 supports. The types of
 * VK_KHR_cooperative_matrix also contain the use of a matrix: A, B or accumulator. So one NV type may become three KHR types,
 * and so may all dependent arrays, pointers, function types, constants and variables. The use of each value is inferred from
 * the multiplications that it flows into or out of.
 *
 * Opcodes and semantics: SPV_NV_cooperative_matrix (revision 3) and SPV_KHR_cooperative_matrix (revision 10) in the SPIR-V
 * registry. In both forms, strides count elements of the pointee type. */
#ifndef DOPPLER_KERNELS_SPIRV_SPIRV_KHR_MATRIX_H
#define DOPPLER_KERNELS_SPIRV_SPIRV_KHR_MATRIX_H

#include "base/base.h"

/* Last operand of a KHR matrix type ("Cooperative Matrix Use"). */
typedef enum dop_matrix_use { DOP_MATRIX_A = 0, DOP_MATRIX_B = 1, DOP_MATRIX_SUM = 2 } dop_matrix_use;

/* Rewrites the n words of an NV module; a module without NV matrices is copied unchanged. `name` is for messages. Fails with
 * DOP_E_INTERNAL if a module is damaged, multiplies integers, uses a matrix in an unsupported way, or gives one matrix two
 * uses. An accumulator used as a factor must pass through memory, because KHR has no conversion between uses. */
dop_status dop_spirv_khr_matrix(const char *name, const uint32_t *words, size_t n, dop_diag *diag, dop_buf *out_spirv);

#endif
