/* Helpers to read and rewrite SPIR-V modules as words: a header of five words, then instructions (SPIR-V 1.6, section
 * 2.3). */
#ifndef DOPPLER_KERNELS_SPIRV_SPIRV_H
#define DOPPLER_KERNELS_SPIRV_SPIRV_H

#include "base/base.h"

#include <spirv/unified1/spirv.h>

/* The KHR cooperative matrix opcodes, missing in SPIR-V headers before 2023. */
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

/* True if the instruction declares a type. */
static inline bool
dop_spv_is_type(uint32_t op)
{
    return (op >= SpvOpTypeVoid && op < SpvOpTypeForwardPointer) || op == SpvOpTypeCooperativeMatrixNV ||
           op == DOP_SPV_TYPE_MATRIX_KHR;
}

#endif
