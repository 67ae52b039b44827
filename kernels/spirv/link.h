/* Links several kernels into one module: the stages of a persistent dispatch.
 *
 * The root module (kernels/glsl/persistent.glsl, not optimized, so that its names remain) declares empty functions
 * dop_stage_0 .. dop_stage_<n-1>. The linker replaces them by the main functions of n other modules. Modules keep their own
 * types and Private variables. Workgroup variables are shared:
 * - A variable of a struct type is the same one in all modules (the stage record).
 * - Arrays and scalars share memory between modules: the k-th variable with a given element type is the same everywhere, with
 * the maximum length. This is safe because a workgroup runs one stage at a time.
 * SPIRV-Tools (spirv-tools/libspirv.h) parses the instructions, because it knows which operands are ids. */
#ifndef DOPPLER_KERNELS_SPIRV_LINK_H
#define DOPPLER_KERNELS_SPIRV_LINK_H

#include "base/base.h"

/* Links the SPIR-V words of root and stages. Fails with DOP_E_INTERNAL if a module does not have the structure above. */
dop_status dop_link(const dop_buf *root, const dop_buf *stages, uint32_t n_stages, dop_diag *diag, dop_buf *out_spirv);

/* Appends the versions of the shaderc that the library was built with and of SPIRV-Tools, which determine the generated
 * code. */
void dop_shader_compiler_describe(dop_buf *out);

#endif
