/* Several kernels as one module: the functions of a persistent dispatch.
 *
 * The root module (kernels/glsl/persistent.glsl, not optimized, so that its names remain) declares empty functions
 * dop_stage_0 .. dop_stage_<n-1>; the linker puts the main functions of n other modules in their place.  Modules keep
 * their own types and Private variables.  Workgroup variables are shared:
 *   - one of a struct type is the same variable in all modules (the stage record),
 *   - arrays and scalars of a module share memory with those of the others: the k-th one with a given element type is the
 *     same variable everywhere, as long as the longest.  This is safe because a workgroup runs one stage at a time.
 * Instructions are read with SPIRV-Tools (spirv-tools/libspirv.h), which knows which operands are ids. */
#ifndef DOPPLER_KERNELS_SPIRV_LINK_H
#define DOPPLER_KERNELS_SPIRV_LINK_H

#include "base/base.h"

/* root and stages: SPIR-V words.  Errors: DOP_E_INTERNAL for a module that does not fit the above. */
dop_status dop_link(const dop_buf *root, const dop_buf *stages, uint32_t n_stages, dop_diag *diag, dop_buf *out_spirv);

/* Appends the release of shaderc that the library was built with, and that of SPIRV-Tools.  Other releases make other code. */
void dop_shader_compiler_describe(dop_buf *out);

#endif
