/* Compiles GLSL to SPIR-V with shaderc, and checks the module's interface against the declarations for the plan. */
#include "kernels/kernel.h"
#include "kernels/spirv/link.h"
#include "kernels/spirv/spirv.h"
#include "kernels/spirv/spirv_addresses.h"
#include "kernels/spirv/spirv_khr_matrix.h"

#include <shaderc/shaderc.h>
#include <stdlib.h>
#include <string.h>

/* Interface of a module: shared memory and push constants in bytes, workgroup size in invocations. */
typedef struct module_face {
    uint32_t shared, push, local;
} module_face;

/* Properties of an id. Only the interface instructions are parsed, because the module is our own compiler's output. */
typedef struct face_id {
    uint32_t bytes;        /* size of a type; 0: not a data type */
    uint32_t constant;     /* value of an integer constant */
    uint32_t pointee;      /* pointer types: id of the pointee type */
    uint32_t last, offset; /* structs: member with the highest offset, and that offset */
} face_id;

static uint32_t
type_size(const face_id *id, const uint32_t *w, uint32_t len)
{
    uint32_t sum = 0;
    switch (dop_spv_op(w)) {
    case SpvOpTypeBool:
        return 4;
    case SpvOpTypeInt:
    case SpvOpTypeFloat:
        return w[2] / 8;
    case SpvOpTypeVector:
        return id[w[2]].bytes * w[3];
    case SpvOpTypeArray:
        return id[w[2]].bytes * id[w[3]].constant;
    case SpvOpTypeStruct:
        for (uint32_t k = 2; k < len; k++)
            sum += id[w[k]].bytes;
        return id[w[1]].offset ? id[w[1]].offset + id[w[2 + id[w[1]].last]].bytes : sum;
    case SpvOpTypePointer: /* address of a buffer */
    case SpvOpTypeForwardPointer:
        return w[2] == SpvStorageClassPhysicalStorageBuffer ? 8 : 0;
    default:
        return 0;
    }
}

/* Reads the module's interface; returns false if out of memory. */
static bool
read_interface(const dop_buf *spirv, module_face *out)
{
    const uint32_t *words = (const uint32_t *)(const void *)spirv->data, n = (uint32_t)(spirv->size / 4);
    face_id *id = calloc(n > 3 ? words[3] : 1, sizeof *id);
    *out = (module_face){0};
    for (uint32_t i = 5; id && i < n && dop_spv_len(words + i); i += dop_spv_len(words + i)) {
        const uint32_t *w = words + i, op = dop_spv_op(w);
        if (op == SpvOpMemberDecorate && w[3] == SpvDecorationOffset && w[4] >= id[w[1]].offset) {
            id[w[1]].last = w[2];
            id[w[1]].offset = w[4];
        } else if (op == SpvOpExecutionMode && w[2] == SpvExecutionModeLocalSize) {
            out->local = w[3];
        } else if (op == SpvOpConstant) {
            id[w[2]].constant = w[3];
        } else if (op == SpvOpVariable && w[3] == SpvStorageClassWorkgroup) {
            out->shared += id[id[w[1]].pointee].bytes;
        } else if (op == SpvOpVariable && w[3] == SpvStorageClassPushConstant) {
            out->push = id[id[w[1]].pointee].bytes;
        } else if (dop_spv_is_type(op) || op == SpvOpTypeForwardPointer) {
            id[w[1]].bytes = type_size(id, w, dop_spv_len(w));
            id[w[1]].pointee = op == SpvOpTypePointer ? w[3] : 0;
        } else if (op == SpvOpFunction) {
            break;
        }
    }
    free(id);
    return id != NULL;
}

/* SPIR-V capabilities (section 3.31) and the DOP_CAP_* bit that each requires; 0: supported by every device that can run a
 * plan. */
static const struct {
    uint32_t spirv, cap;
} capabilities[] = {
    {SpvCapabilityShader, 0},
    {SpvCapabilityFloat16, DOP_CAP_f16_math},
    {SpvCapabilityInt64, DOP_CAP_int64},
    {SpvCapabilitySampledBuffer, DOP_CAP_texels},
    {SpvCapabilityInt16, DOP_CAP_f16_storage},
    {SpvCapabilityGroupNonUniform, DOP_CAP_subgroup},
    {SpvCapabilityGroupNonUniformVote, DOP_CAP_subgroup},
    {SpvCapabilityGroupNonUniformArithmetic, DOP_CAP_subgroup},
    {SpvCapabilityGroupNonUniformBallot, DOP_CAP_subgroup},
    {SpvCapabilityGroupNonUniformShuffle, DOP_CAP_subgroup},
    {SpvCapabilityStorageBuffer16BitAccess, DOP_CAP_f16_storage},
    {SpvCapabilityUniformAndStorageBuffer16BitAccess, DOP_CAP_f16_storage},
    {SpvCapabilityStorageBuffer8BitAccess, DOP_CAP_i8_storage},
    {SpvCapabilityVulkanMemoryModel, 0}, /* enabled on every device that supports it */
    {SpvCapabilityVulkanMemoryModelDeviceScope, 0},
    {SpvCapabilityPhysicalStorageBufferAddresses, 0},
    {SpvCapabilityCooperativeMatrixNV, DOP_CAP_coop_nv},
    {SpvCapabilityDotProductInput4x8BitPacked, DOP_CAP_int_dot},
    {SpvCapabilityDotProduct, DOP_CAP_int_dot},
    {DOP_SPV_CAPABILITY_MATRIX_KHR, DOP_CAP_coop_khr},
};

/* Checks that the module needs no capability that the plan does not declare. */
static dop_status
check_capabilities(const char *name, const dop_kernel *k, const dop_buf *spirv, dop_diag *diag)
{
    const uint32_t *w = (const uint32_t *)(const void *)spirv->data;
    for (size_t i = 5; i + 1 < spirv->size / 4 && dop_spv_op(w + i) == SpvOpCapability; i += 2) {
        size_t at = 0, n = sizeof capabilities / sizeof *capabilities;
        while (at < n && capabilities[at].spirv != w[i + 1])
            at++;
        if (at == n || (capabilities[at].cap & ~k->caps))
            return DOP_FAIL(diag, DOP_E_INTERNAL,
                            "kernel %s: the module needs SPIR-V capability %u, which its plan "
                            "would not say",
                            name, w[i + 1]);
    }
    return DOP_OK;
}

/* Compares the module's interface with the declarations for the plan. */
static dop_status
compare_interface(const char *name, const dop_kernel *k, const dop_target *target, const module_face *has,
                  dop_diag *diag)
{
    if (has->push != dop_push_bytes(k->n_args))
        return DOP_FAIL(diag, DOP_E_INTERNAL, "kernel %s: push constants are %u bytes, not %u", name, has->push,
                        dop_push_bytes(k->n_args));
    if (has->local != k->local)
        return DOP_FAIL(diag, DOP_E_INTERNAL, "kernel %s: workgroup size is %u, not %u", name, has->local, k->local);
    /* Exceeding the limit would lose the device instead of failing to compile: refuse it here. */
    if (has->shared > target->shared_bytes)
        return DOP_FAIL(diag, DOP_E_INPUT, "kernel %s needs %u bytes of shared memory, target %s has %u", name,
                        has->shared, target->name, target->shared_bytes);
    return DOP_OK;
}

/* Compiles one GLSL text. khr: converts matrices to the KHR form (spirv_khr_matrix.h). */
static dop_status
compile_text(const char *name, const char *glsl, bool optimize, bool khr, dop_diag *diag, dop_buf *out_spirv)
{
    dop_status st = DOP_OK;
    shaderc_compilation_result_t result = NULL;
    shaderc_compiler_t compiler = shaderc_compiler_initialize();
    shaderc_compile_options_t options = shaderc_compile_options_initialize();
    if (!compiler || !options) {
        st = DOP_NO_MEMORY(diag);
        goto error;
    }
    shaderc_compile_options_set_target_env(options, shaderc_target_env_vulkan, shaderc_env_version_vulkan_1_2);
    shaderc_compile_options_set_optimization_level(options, optimize ? shaderc_optimization_level_performance
                                                                     : shaderc_optimization_level_zero);
    result = shaderc_compile_into_spv(compiler, glsl, strlen(glsl), shaderc_compute_shader, name, "main", options);
    if (!result || shaderc_result_get_compilation_status(result) != shaderc_compilation_status_success) {
        st = DOP_FAIL(diag, DOP_E_INTERNAL, "kernel %s does not compile: %.600s", name,
                      result ? shaderc_result_get_error_message(result) : "no result");
        goto error;
    }
    const void *bytes = shaderc_result_get_bytes(result);
    size_t size = shaderc_result_get_length(result);
    if (khr)
        st = dop_spirv_khr_matrix(name, bytes, size / 4, diag, out_spirv);
    else
        dop_buf_append(out_spirv, bytes, size);
    if (st == DOP_OK && out_spirv->failed)
        st = DOP_NO_MEMORY(diag);
error:
    if (result)
        shaderc_result_release(result);
    if (options)
        shaderc_compile_options_release(options);
    if (compiler)
        shaderc_compiler_release(compiler);
    return st;
}

/* Compiles the root and the stages, and replaces the root's empty functions by the stages'. The root is not optimized,
 * because an optimizer would remove the functions' names. */
static dop_status
compile_stages(const char *name, const dop_kernel *k, dop_diag *diag, dop_buf *out_spirv)
{
    dop_buf root = {0}, *stages = calloc(k->n_stages, sizeof *stages);
    dop_status st = DOP_OK;
    DOP_TRY(stages ? compile_text(name, k->glsl, false, false, diag, &root) : DOP_NO_MEMORY(diag));
    for (uint32_t i = 0; i < k->n_stages; i++)
        DOP_TRY(compile_text(name, k->stages[i], true, false, diag, &stages[i]));
    DOP_TRY(dop_link(&root, stages, k->n_stages, diag, out_spirv));
error:
    for (uint32_t i = 0; stages && i < k->n_stages; i++)
        dop_buf_finish(&stages[i]);
    dop_buf_finish(&root);
    free(stages);
    return st;
}

dop_status
dop_kernel_compile(const char *name, const dop_kernel *k, const dop_target *target, dop_diag *diag, dop_buf *out_spirv,
                   uint32_t *out_shared_bytes)
{
    module_face has = {0};
    dop_status st = k->n_stages ? compile_stages(name, k, diag, out_spirv)
                                : compile_text(name, k->glsl, true, (k->caps & DOP_CAP_coop_khr) != 0, diag, out_spirv);
    if (st == DOP_OK)
        st = dop_spirv_addresses(name, out_spirv, diag);
    if (st == DOP_OK)
        st = check_capabilities(name, k, out_spirv, diag);
    if (st == DOP_OK && !read_interface(out_spirv, &has))
        st = DOP_NO_MEMORY(diag);
    *out_shared_bytes = has.shared;
    return st == DOP_OK ? compare_interface(name, k, target, &has, diag) : st;
}
