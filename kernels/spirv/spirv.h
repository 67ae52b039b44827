/* SPIR-V modules as words, for code that reads and rewrites them: instructions (SPIR-V 1.6, section 2.3) behind the header's five words. */
#ifndef DOPPLER_KERNELS_SPIRV_SPIRV_H
#define DOPPLER_KERNELS_SPIRV_SPIRV_H

#include "base/base.h"

#include <spirv/unified1/spirv.h>

/* The KHR form of matrices, which headers of SPIR-V before 2023 do not have. */
enum {
    DOP_SPV_CAPABILITY_MATRIX_KHR = 6022,
    DOP_SPV_TYPE_MATRIX_KHR = 4456,
    DOP_SPV_MATRIX_LOAD_KHR = 4457,
    DOP_SPV_MATRIX_STORE_KHR = 4458,
    DOP_SPV_MATRIX_MUL_ADD_KHR = 4459
};

/* Opcode and length in words of the instruction at w. */
static inline uint32_t
dop_spv_op(const uint32_t *w)
{
    return w[0] & SpvOpCodeMask;
}

static inline uint32_t
dop_spv_len(const uint32_t *w)
{
    return w[0] >> SpvWordCountShift;
}

/* Is the instruction one that makes a type? */
static inline bool
dop_spv_is_type(uint32_t op)
{
    return (op >= SpvOpTypeVoid && op < SpvOpTypeForwardPointer) || op == SpvOpTypeCooperativeMatrixNV ||
           op == DOP_SPV_TYPE_MATRIX_KHR;
}

#endif
