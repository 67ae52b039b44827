/* Compiles GLSL to SPIR-V with shaderc, and compares what SPIRV-Cross reads from the module with what the plan will say. */
#include "kernels/kernel.h"
#include "kernels/link.h"
#include "kernels/spirv_addresses.h"
#include "kernels/spirv_khr_matrix.h"

#include <shaderc/shaderc.h>
#include <spirv_cross/spirv_cross_c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Shared memory is a variable of storage class Workgroup; SPIRV-Cross has no list of those, so sum them here.  The
 * module is our own compiler's output: only the few instructions needed are understood. */
typedef struct type_sizes {
    uint32_t bound;
    uint32_t *size;     /* bytes of a type id, 0: not a data type */
    uint32_t *pointee;  /* of a pointer type to Workgroup memory */
    uint32_t *constant; /* value of an integer constant id */
} type_sizes;

enum {
    SPV_TYPE_BOOL = 20,
    SPV_TYPE_INT = 21,
    SPV_TYPE_FLOAT = 22,
    SPV_TYPE_VECTOR = 23,
    SPV_TYPE_ARRAY = 28,
    SPV_TYPE_STRUCT = 30,
    SPV_TYPE_POINTER = 32,
    SPV_CONSTANT = 43,
    SPV_VARIABLE = 59,
    SPV_ENTRY_POINT = 15,
    SPV_TYPE_VOID = 19,
    SPV_TYPE_FUNCTION = 33,
    SPV_CONSTANT_TRUE = 41,
    SPV_FUNCTION = 54,
    SPV_FUNCTION_END = 56,
    SPV_LABEL = 248,
    SPV_RETURN = 253,
    SPV_WORKGROUP = 4
};

static uint32_t
shared_bytes(const uint32_t *words, size_t n, dop_arena *arena)
{
    uint32_t total = 0, bound = n > 3 ? words[3] : 0;
    type_sizes t = {bound, dop_arena_alloc(arena, bound * 4u), dop_arena_alloc(arena, bound * 4u),
                    dop_arena_alloc(arena, bound * 4u)};
    if (!t.size || !t.pointee || !t.constant)
        return UINT32_MAX;
    for (size_t i = 5; i < n;) {
        uint32_t op = words[i] & 0xffff, len = words[i] >> 16;
        const uint32_t *w = words + i;
        if (len == 0 || i + len > n)
            break;
        if (op == SPV_TYPE_BOOL)
            t.size[w[1]] = 4;
        else if (op == SPV_TYPE_INT || op == SPV_TYPE_FLOAT)
            t.size[w[1]] = w[2] / 8;
        else if (op == SPV_TYPE_VECTOR)
            t.size[w[1]] = t.size[w[2]] * w[3];
        else if (op == SPV_CONSTANT)
            t.constant[w[2]] = w[3];
        else if (op == SPV_TYPE_ARRAY)
            t.size[w[1]] = t.size[w[2]] * t.constant[w[3]];
        else if (op == SPV_TYPE_STRUCT)
            for (uint32_t k = 2; k < len; k++)
                t.size[w[1]] += t.size[w[k]];
        else if (op == SPV_TYPE_POINTER && w[2] == SPV_WORKGROUP)
            t.pointee[w[1]] = t.size[w[3]];
        else if (op == SPV_VARIABLE && w[3] == SPV_WORKGROUP)
            total += t.pointee[w[1]];
        i += len;
    }
    return total;
}

/* The module's interface alone: types, constants and variables, with an empty entry point.  SPIRV-Cross of 2022 fails on
 * cooperative-matrix types, and needs no code to reflect the interface. */
static bool
interface_only(const dop_buf *spirv, dop_buf *out)
{
    const uint32_t *w = (const uint32_t *)(const void *)spirv->data;
    size_t n = spirv->size / 4;
    uint32_t entry = 0, bound = n > 3 ? w[3] : 0;
    uint8_t *unknown = calloc(bound ? bound : 1, 1); /* ids that depend on a type that is left out */
    if (!unknown)
        return false;
    dop_buf_append(out, w, 20);
    for (size_t i = 5; i < n;) {
        uint32_t op = w[i] & 0xffff, len = w[i] >> 16, result = 0;
        if (len == 0 || i + len > n)
            break;
        if (op == SPV_FUNCTION) {
            if (w[i + 2] == entry) {
                dop_buf_append(out, w + i, len * 4u);
                while (i < n && (w[i] & 0xffff) != SPV_LABEL)
                    i += w[i] >> 16;
                const uint32_t rest[] = {2u << 16 | SPV_LABEL, w[i + 1], 1u << 16 | SPV_RETURN,
                                         1u << 16 | SPV_FUNCTION_END};
                dop_buf_append(out, rest, sizeof rest);
                break;
            }
            while (i < n && (w[i] & 0xffff) != SPV_FUNCTION_END)
                i += w[i] >> 16;
            i++;
            continue;
        }
        if (op == SPV_ENTRY_POINT)
            entry = w[i + 2];
        bool type = op >= SPV_TYPE_VOID && op <= SPV_TYPE_FUNCTION,
             value = op >= SPV_CONSTANT_TRUE && op <= SPV_VARIABLE;
        bool skip = op == DOP_SPV_TYPE_MATRIX_NV || op == DOP_SPV_TYPE_MATRIX_KHR;
        if (type || skip)
            result = w[i + 1];
        else if (value)
            result = w[i + 2];
        for (uint32_t k = 1; k < len && (type || value); k++)
            skip = skip ||
                   (k != (type ? 1u : 2u) && w[i + k] < bound && unknown[w[i + k]] && !(op == SPV_CONSTANT && k > 2) &&
                    !(op == SPV_TYPE_INT || op == SPV_TYPE_FLOAT) && !(op == SPV_TYPE_VECTOR && k > 2) &&
                    !(op == SPV_TYPE_POINTER && k == 2) && !(op == SPV_VARIABLE && k == 3));
        if (skip && result < bound)
            unknown[result] = 1;
        else
            dop_buf_append(out, w + i, len * 4u);
        i += len;
    }
    free(unknown);
    return !out->failed;
}

/* SPIR-V's capabilities (section 3.31) with our own for each; 0: every device that can run a plan has it. */
static const struct {
    uint32_t spirv, cap;
} capabilities[] = {
    {1, 0},                      /* Shader */
    {9, DOP_CAP_f16_math},       /* Float16 */
    {11, DOP_CAP_int64},         /* Int64 */
    {46, DOP_CAP_texels},        /* SampledBuffer */
    {22, DOP_CAP_f16_storage},   /* Int16 */
    {61, DOP_CAP_subgroup},      /* GroupNonUniform */
    {62, DOP_CAP_subgroup},      /* GroupNonUniformVote */
    {63, DOP_CAP_subgroup},      /* GroupNonUniformArithmetic */
    {64, DOP_CAP_subgroup},      /* GroupNonUniformBallot */
    {65, DOP_CAP_subgroup},      /* GroupNonUniformShuffle */
    {4433, DOP_CAP_f16_storage}, /* StorageBuffer16BitAccess */
    {4434, DOP_CAP_f16_storage}, /* UniformAndStorageBuffer16BitAccess */
    {4448, DOP_CAP_i8_storage},  /* StorageBuffer8BitAccess */
    {5345, 0},                   /* VulkanMemoryModel: on with every device that has it */
    {5346, 0},                   /* VulkanMemoryModelDeviceScope */
    {5347, 0},                   /* PhysicalStorageBufferAddresses */
    {5357, DOP_CAP_coop_nv},     /* CooperativeMatrixNV */
    {6018, DOP_CAP_int_dot},     /* DotProductInput4x8BitPacked */
    {6019, DOP_CAP_int_dot},     /* DotProduct */
    {6022, DOP_CAP_coop_khr},    /* CooperativeMatrixKHR */
};

/* A module must not need more than the plan will declare. */
static dop_status
check_capabilities(const char *name, const dop_kernel *k, const dop_buf *spirv, dop_diag *diag)
{
    const uint32_t *w = (const uint32_t *)(const void *)spirv->data;
    enum { OP_CAPABILITY = 17 };
    for (size_t i = 5; i + 1 < spirv->size / 4 && (w[i] & 0xffff) == OP_CAPABILITY; i += 2) {
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

static dop_status
reflect(const char *name, const dop_kernel *k, const dop_buf *spirv, dop_diag *diag)
{
    spvc_context ctx = NULL;
    spvc_parsed_ir ir;
    spvc_compiler comp;
    spvc_resources res;
    const spvc_reflected_resource *list;
    size_t n = 0, push = 0;
    dop_status st = DOP_OK;
    dop_buf face = {0};
    if (!interface_only(spirv, &face)) {
        dop_buf_finish(&face);
        return DOP_FAIL(diag, DOP_E_NOMEM, "out of memory");
    }
    if (spvc_context_create(&ctx) != SPVC_SUCCESS) {
        dop_buf_finish(&face);
        return DOP_FAIL(diag, DOP_E_NOMEM, "out of memory");
    }
    if (spvc_context_parse_spirv(ctx, (const SpvId *)(const void *)face.data, face.size / 4, &ir) != SPVC_SUCCESS ||
        spvc_context_create_compiler(ctx, SPVC_BACKEND_NONE, ir, SPVC_CAPTURE_MODE_TAKE_OWNERSHIP, &comp) !=
            SPVC_SUCCESS ||
        spvc_compiler_create_shader_resources(comp, &res) != SPVC_SUCCESS ||
        spvc_resources_get_resource_list_for_type(res, SPVC_RESOURCE_TYPE_PUSH_CONSTANT, &list, &n) != SPVC_SUCCESS) {
        st = DOP_FAIL(diag, DOP_E_INTERNAL, "kernel %s: reflection failed: %s", name,
                      spvc_context_get_last_error_string(ctx));
        goto error;
    }
    if (n == 1)
        spvc_compiler_get_declared_struct_size(comp, spvc_compiler_get_type_handle(comp, list[0].base_type_id), &push);
    uint32_t local = spvc_compiler_get_execution_mode_argument_by_index(comp, SpvExecutionModeLocalSize, 0);
    if (push != dop_push_bytes(k->n_args))
        st = DOP_FAIL(diag, DOP_E_INTERNAL, "kernel %s: push constants are %zu bytes, not %u", name, push,
                      dop_push_bytes(k->n_args));
    else if (local != k->local)
        st = DOP_FAIL(diag, DOP_E_INTERNAL, "kernel %s: workgroup size is %u, not %u", name, local, k->local);
error:
    spvc_context_destroy(ctx);
    dop_buf_finish(&face);
    return st;
}

/* khr: matrices get their KHR form (spirv_khr_matrix.h). */
static dop_status
compile_text(const char *name, const char *glsl, bool optimize, bool khr, dop_diag *diag, dop_buf *out_spirv)
{
    dop_status st = DOP_OK;
    shaderc_compilation_result_t result = NULL;
    shaderc_compiler_t compiler = shaderc_compiler_initialize();
    shaderc_compile_options_t options = shaderc_compile_options_initialize();
    if (!compiler || !options) {
        st = DOP_FAIL(diag, DOP_E_NOMEM, "out of memory");
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
        st = DOP_FAIL(diag, DOP_E_NOMEM, "out of memory");
error:
    if (result)
        shaderc_result_release(result);
    if (options)
        shaderc_compile_options_release(options);
    if (compiler)
        shaderc_compiler_release(compiler);
    return st;
}

/* Puts the stages' functions in the place of the root's empty ones, whose names an optimizer would remove. */
static dop_status
compile_stages(const char *name, const dop_kernel *k, dop_diag *diag, dop_buf *out_spirv)
{
    dop_buf root = {0}, *stages = calloc(k->n_stages, sizeof *stages);
    dop_status st =
        stages ? compile_text(name, k->glsl, false, false, diag, &root) : DOP_FAIL(diag, DOP_E_NOMEM, "out of memory");
    for (uint32_t i = 0; i < k->n_stages && st == DOP_OK; i++)
        st = compile_text(name, k->stages[i], true, false, diag, &stages[i]);
    if (st == DOP_OK)
        st = dop_link(&root, stages, k->n_stages, diag, out_spirv);
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
    dop_arena arena;
    dop_arena_init(&arena);
    dop_status st = k->n_stages ? compile_stages(name, k, diag, out_spirv)
                                : compile_text(name, k->glsl, true, (k->caps & DOP_CAP_coop_khr) != 0, diag, out_spirv);
    if (st == DOP_OK)
        st = dop_spirv_addresses(name, out_spirv, diag);
    if (st != DOP_OK)
        goto error;
    st = check_capabilities(name, k, out_spirv, diag);
    if (st == DOP_OK)
        st = reflect(name, k, out_spirv, diag);
    *out_shared_bytes = shared_bytes((const uint32_t *)(const void *)out_spirv->data, out_spirv->size / 4, &arena);
    if (st == DOP_OK && *out_shared_bytes == UINT32_MAX)
        st = DOP_FAIL(diag, DOP_E_NOMEM, "out of memory");
    /* A kernel past the limit loses the device instead of failing to compile: refuse it here. */
    if (st == DOP_OK && *out_shared_bytes > target->shared_bytes)
        st = DOP_FAIL(diag, DOP_E_INPUT, "kernel %s needs %u bytes of shared memory, target %s has %u", name,
                      *out_shared_bytes, target->name, target->shared_bytes);
error:
    dop_arena_finish(&arena);
    return st;
}
