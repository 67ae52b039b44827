/* Addresses of buffers in a module: words until they are used.
 *
 * A buffer reference of GLSL becomes a pointer of storage class PhysicalStorageBuffer.  SPIR-V allows a cast of one pointer type to
 * another and a choice between two pointers by the way that control took (OpPhi); some drivers (SwiftShader) fail on both.
 * Every driver takes the same through a pair of words, uvec2: the cast between a pointer and a pair is the one that
 * SPV_KHR_physical_storage_buffer describes. */
#ifndef DOPPLER_KERNELS_SPIRV_SPIRV_ADDRESSES_H
#define DOPPLER_KERNELS_SPIRV_SPIRV_ADDRESSES_H

#include "base/base.h"

/* Rewrites a module in place so that casts between types of addresses (OpBitcast), and addresses that depend on the way of control
 * (OpPhi, OpSelect), are those of pairs of words.  A module that has neither stays as it is, bit by bit.  name is for messages.
 * Errors: DOP_E_INTERNAL for a damaged module, DOP_E_NOMEM. */
dop_status dop_spirv_addresses(const char *name, dop_buf *spirv, dop_diag *diag);

#endif
