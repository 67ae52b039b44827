/* Represents buffer addresses as pairs of 32-bit words until they are dereferenced.
 *
 * A GLSL buffer reference becomes a pointer of storage class PhysicalStorageBuffer. SPIR-V allows casts between pointer
 * types, and selection of pointers by control flow (OpPhi), but some drivers (SwiftShader) fail on both. All drivers support
 * both for uvec2, with casts between pointers and uvec2 as in SPV_KHR_physical_storage_buffer. */
#ifndef DOPPLER_KERNELS_SPIRV_SPIRV_ADDRESSES_H
#define DOPPLER_KERNELS_SPIRV_SPIRV_ADDRESSES_H

#include "base/base.h"

/* Rewrites a module in place so that address casts (OpBitcast) and selections of addresses (OpPhi, OpSelect) operate on pairs
 * of words. A module without these stays unchanged. `name` is for messages. Fails with DOP_E_INTERNAL for a damaged module,
 * or DOP_E_NOMEM. */
dop_status dop_spirv_addresses(const char *name, dop_buf *spirv, dop_diag *diag);

#endif
