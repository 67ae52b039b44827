/* Storage types of the tensors of safetensors files. */
#ifndef DOPPLER_FRONTEND_HF_TENSOR_H
#define DOPPLER_FRONTEND_HF_TENSOR_H

#include "base/format/safetensors.h"
#include "base/storage/types.h"

#include <string.h>

/* Returns the storage type of a tensor: f32, f16, bf16, i32 or u32; none: another type. */
static inline dop_type
dop_hf_type(const dop_st_tensor *t)
{
    return dop_st_is(t, "F32")    ? DOP_TYPE_f32
           : dop_st_is(t, "F16")  ? DOP_TYPE_f16
           : dop_st_is(t, "BF16") ? DOP_TYPE_bf16
           : dop_st_is(t, "I32")  ? DOP_TYPE_i32
           : dop_st_is(t, "U32")  ? DOP_TYPE_u32
                                  : DOP_TYPE_none;
}

/* True if the values are floats: f32, f16 or bf16. */
static inline bool
dop_hf_is_float(const dop_st_tensor *t)
{
    const dop_type type = dop_hf_type(t);
    return type == DOP_TYPE_f32 || type == DOP_TYPE_f16 || type == DOP_TYPE_bf16;
}

static inline dop_status
dop_hf_check_float(const dop_st_tensor *t, dop_diag *diag)
{
    return dop_hf_is_float(t)
               ? DOP_OK
               : DOP_FAIL_IN(diag, DOP_E_INPUT, t->file, "tensor %s: dtype %s is not supported; known: F32, F16, BF16",
                             t->name, t->dtype);
}

/* Returns the block type of a tensor (from GGML files); none: not a block type. */
static inline dop_type
dop_hf_block_type(const dop_st_tensor *t)
{
    dop_type type = DOP_TYPE_none;
    return dop_type_parse(t->dtype, strlen(t->dtype), &type) && dop_type_of(type)->block > 1 ? type : DOP_TYPE_none;
}

#endif
