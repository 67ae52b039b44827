#include "kernels/spirv/link.h"

#include <criterion/criterion.h>
#include <shaderc/shaderc.h>
/* As in kernels/spirv/link.c. */
#define kDefaultMaxIdBound test_link_max_id_bound
#include <spirv-tools/libspirv.h>
#include <string.h>

#define RECORD "struct Stage { uvec2 args[4]; uint group; };\nshared Stage stage;\n"

static const char root_text[] =
    "#version 460\nlayout(local_size_x = 32) in;\n" RECORD "layout(push_constant) uniform Push { uint n; };\n"
    "void dop_stage_0() {}\nvoid dop_stage_1() {}\n"
    "void main() {\n"
    "    for (uint i = 0u; i < n; i++) {\n"
    "        stage.group = i;\n        barrier();\n"
    "        if (i % 2u == 0u) dop_stage_0(); else dop_stage_1();\n        barrier();\n    }\n}\n";

/* Two arrays of vec4, one of float, a function of its own, GLSL.std.450 and a buffer reference. */
static const char first_text[] =
    "#version 460\n#extension GL_EXT_buffer_reference : require\n#extension GL_EXT_buffer_reference_uvec2 : require\n"
    "layout(local_size_x = 32) in;\n" RECORD "layout(buffer_reference, std430) buffer F { float v[]; };\n"
    "shared vec4 small[8];\nshared vec4 large[40];\nshared float sums[32];\n"
    "float twice(float x) { return exp(x) * 2.0; }\n"
    "void main() {\n"
    "    uint i = gl_LocalInvocationIndex;\n"
    "    small[i & 7u] = vec4(i);\n    large[i] = vec4(twice(float(i)));\n    sums[i] = 1.0;\n    barrier();\n"
    "    F(stage.args[1]).v[i] = small[1].x + large[31u - i].y + sums[0] + float(stage.group);\n}\n";

static const char second_text[] =
    "#version 460\n#extension GL_EXT_buffer_reference : require\n#extension GL_EXT_buffer_reference_uvec2 : require\n"
    "layout(local_size_x = 32) in;\n" RECORD "layout(buffer_reference, std430) buffer F { float v[]; };\n"
    "shared vec4 rows[100];\n"
    "void main() {\n"
    "    rows[gl_LocalInvocationIndex] = vec4(1.0);\n    barrier();\n"
    "    F(stage.args[2]).v[gl_LocalInvocationIndex] = rows[3].z;\n}\n";

static dop_buf
compile(const char *text, shaderc_optimization_level level)
{
    dop_buf b = {0};
    shaderc_compiler_t c = shaderc_compiler_initialize();
    shaderc_compile_options_t o = shaderc_compile_options_initialize();
    shaderc_compile_options_set_target_env(o, shaderc_target_env_vulkan, shaderc_env_version_vulkan_1_2);
    shaderc_compile_options_set_optimization_level(o, level);
    shaderc_compilation_result_t r =
        shaderc_compile_into_spv(c, text, strlen(text), shaderc_compute_shader, "test", "main", o);
    cr_assert_eq(shaderc_result_get_compilation_status(r), shaderc_compilation_status_success, "%s",
                 shaderc_result_get_error_message(r));
    dop_buf_append(&b, shaderc_result_get_bytes(r), shaderc_result_get_length(r));
    shaderc_result_release(r);
    shaderc_compile_options_release(o);
    shaderc_compiler_release(c);
    return b;
}

static void
validate(const dop_buf *spirv)
{
    spv_context context = spvContextCreate(SPV_ENV_VULKAN_1_2);
    spv_diagnostic diagnostic = NULL;
    spv_const_binary_t binary = {(const uint32_t *)(const void *)spirv->data, spirv->size / 4};
    spv_result_t r = spvValidate(context, &binary, &diagnostic);
    cr_assert_eq(r, SPV_SUCCESS, "%s", diagnostic ? diagnostic->error : "");
    spvDiagnosticDestroy(diagnostic);
    spvContextDestroy(context);
}

/* Instructions with an opcode, and of variables with a storage class. */
static uint32_t
count(const dop_buf *spirv, uint32_t op, uint32_t class)
{
    const uint32_t *w = (const uint32_t *)(const void *)spirv->data;
    uint32_t n = 0;
    for (size_t i = 5; i < spirv->size / 4; i += w[i] >> 16)
        n += (w[i] & 0xffff) == op && (!class || w[i + 3] == class);
    return n;
}

enum { OP_ENTRY_POINT = 15, OP_TYPE_FLOAT = 22, OP_FUNCTION = 54, OP_VARIABLE = 59, WORKGROUP = 4, PUSH_CONSTANT = 9 };

Test(link, modules_become_one)
{
    dop_diag diag = {0};
    for (int level = 0; level < 2; level++) {
        shaderc_optimization_level o = level ? shaderc_optimization_level_performance : shaderc_optimization_level_zero;
        dop_buf root = compile(root_text, shaderc_optimization_level_zero), out = {0};
        dop_buf stages[2] = {compile(first_text, o), compile(second_text, o)};
        cr_assert_eq(dop_link(&root, stages, 2, &diag, &out), DOP_OK, "%s", diag.message);
        validate(&out);
        cr_assert_eq(count(&out, OP_ENTRY_POINT, 0), 1);
        cr_assert_eq(count(&out, OP_TYPE_FLOAT, 0), 1);
        cr_assert_eq(count(&out, OP_VARIABLE, PUSH_CONSTANT), 1);
        /* The record; rows with large, small, sums. */
        cr_assert_eq(count(&out, OP_VARIABLE, WORKGROUP), 4);
        cr_assert_eq(count(&out, OP_FUNCTION, 0), level ? 3 : 4);
        for (int i = 0; i < 2; i++)
            dop_buf_finish(&stages[i]);
        dop_buf_finish(&root);
        dop_buf_finish(&out);
    }
}

Test(link, modules_that_do_not_fit)
{
    dop_diag diag = {0};
    dop_buf root = compile(root_text, shaderc_optimization_level_zero), out = {0}, none = {0};
    dop_buf first = compile(first_text, shaderc_optimization_level_zero);
    dop_buf stages[3] = {first, first, first};
    cr_assert_eq(dop_link(&root, stages, 3, &diag, &out), DOP_E_INTERNAL);
    cr_assert(strstr(diag.message, "2 of 3 stages have a place"), "%s", diag.message);
    diag = (dop_diag){0};
    cr_assert_eq(dop_link(&root, &none, 1, &diag, &out), DOP_E_INTERNAL);
    cr_assert(strstr(diag.message, "cannot be read"), "%s", diag.message);
    dop_buf_finish(&first);
    dop_buf_finish(&root);
    dop_buf_finish(&out);
}
