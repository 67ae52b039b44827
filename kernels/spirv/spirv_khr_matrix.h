/* Matrix units for every vendor: from the NV form of cooperative matrices to the KHR form.
 *
 * Kernels are written with GL_NV_cooperative_matrix, the only form that shaderc 2023.2 knows.  Devices of other vendors
 * have VK_KHR_cooperative_matrix, whose types also say what a matrix is used for: first factor, second factor, or sum.
 * So one NV type may become three KHR types, and everything that hangs on it (arrays, pointers, function types, constants,
 * variables) as many.  The use of each value follows from the products it flows into or out of.
 *
 * Numbers and meanings of both forms: SPV_NV_cooperative_matrix (revision 3) and SPV_KHR_cooperative_matrix (revision 10)
 * in the SPIR-V registry.  In both a stride counts elements of the type that the pointer points to. */
#ifndef DOPPLER_KERNELS_SPIRV_SPIRV_KHR_MATRIX_H
#define DOPPLER_KERNELS_SPIRV_SPIRV_KHR_MATRIX_H

#include "base/base.h"

/* The last operand of a KHR matrix type ("Cooperative Matrix Use"). */
typedef enum dop_matrix_use { DOP_MATRIX_A = 0, DOP_MATRIX_B = 1, DOP_MATRIX_SUM = 2 } dop_matrix_use;

/* Rewrites the n words of an NV module; a module without NV matrices stays as it is.  name is for messages.
 * Errors: DOP_E_INTERNAL for a module that is damaged, gives one matrix two uses (a sum used as a factor must pass through
 * memory, because KHR has no conversion between uses), multiplies integers, or uses matrices in a way that is unknown here. */
dop_status dop_spirv_khr_matrix(const char *name, const uint32_t *words, size_t n, dop_diag *diag, dop_buf *out_spirv);

#endif
