/* Addresses of buffers as pairs of words: modules made for one question each, as written and optimized. */
#include "kernels/spirv/spirv_addresses.h"

#include <criterion/criterion.h>
#include <shaderc/shaderc.h>
/* As in kernels/spirv/link.c. */
#define kDefaultMaxIdBound test_addresses_max_id_bound
#include <spirv-tools/libspirv.h>
#include <stdlib.h>
#include <string.h>

enum {
    OP_UNDEF = 1,
    OP_TYPE_VECTOR = 23,
    OP_TYPE_POINTER = 32,
    OP_BITCAST = 124,
    OP_SELECT = 169,
    OP_PHI = 245,
    CLASS_ADDRESS = 5349,
    MAX_IDS = 8192
};

/* pairs: the push constants have a member c, so that the module declares the type of pairs. */
static dop_buf
compile(const char *body, bool optimized, bool pairs)
{
    static const char head[] =
        "#version 460\n#extension GL_EXT_buffer_reference : require\n#extension GL_EXT_buffer_reference_uvec2 : "
        "require\n"
        "layout(local_size_x = 32) in;\n"
        "layout(buffer_reference, std430, buffer_reference_align = 16) buffer U32 { uint v[]; };\n"
        "layout(buffer_reference, std430, buffer_reference_align = 16) buffer U32x4 { uvec4 v[]; };\n"
        "layout(buffer_reference, std430, buffer_reference_align = 4) buffer F32 { float v[]; };\n"
        "layout(push_constant) uniform Push { U32 a; U32 b; ";
    dop_buf text = {0}, spirv = {0};
    dop_buf_puts(&text, head);
    dop_buf_puts(&text, pairs ? "uvec2 c; uint n; };\n" : "uint n; };\n");
    dop_buf_puts(&text, body);
    shaderc_compiler_t c = shaderc_compiler_initialize();
    shaderc_compile_options_t o = shaderc_compile_options_initialize();
    shaderc_compile_options_set_target_env(o, shaderc_target_env_vulkan, shaderc_env_version_vulkan_1_2);
    shaderc_compile_options_set_optimization_level(o, optimized ? shaderc_optimization_level_performance
                                                                : shaderc_optimization_level_zero);
    shaderc_compilation_result_t r =
        shaderc_compile_into_spv(c, text.data, text.size, shaderc_compute_shader, "test", "main", o);
    cr_assert_eq(shaderc_result_get_compilation_status(r), shaderc_compilation_status_success, "%s",
                 shaderc_result_get_error_message(r));
    dop_buf_append(&spirv, shaderc_result_get_bytes(r), shaderc_result_get_length(r));
    shaderc_result_release(r);
    shaderc_compile_options_release(o);
    shaderc_compiler_release(c);
    dop_buf_finish(&text);
    return spirv;
}

static const uint32_t *
words(const dop_buf *spirv)
{
    return (const uint32_t *)(const void *)spirv->data;
}

static void
validate(const dop_buf *spirv)
{
    spv_context context = spvContextCreate(SPV_ENV_VULKAN_1_2);
    spv_diagnostic diagnostic = NULL;
    spv_const_binary_t binary = {words(spirv), spirv->size / 4};
    spv_result_t r = spvValidate(context, &binary, &diagnostic);
    cr_assert_eq(r, SPV_SUCCESS, "%s", diagnostic ? diagnostic->error : "");
    spvDiagnosticDestroy(diagnostic);
    spvContextDestroy(context);
}

/* Instructions of a kind that make an address of an address. */
static uint32_t
count(const dop_buf *spirv, uint32_t wanted)
{
    static bool is_address_type[MAX_IDS], is_address[MAX_IDS];
    const uint32_t *w = words(spirv);
    uint32_t n = 0;
    memset(is_address_type, 0, sizeof is_address_type);
    memset(is_address, 0, sizeof is_address);
    cr_assert_leq(w[3], MAX_IDS);
    bool code = false;
    for (size_t i = 5; i < spirv->size / 4; i += w[i] >> 16) {
        const uint32_t op = w[i] & 0xffff;
        code = code || op == 54;
        if (op == OP_TYPE_POINTER && w[i + 2] == CLASS_ADDRESS)
            is_address_type[w[i + 1]] = true;
        if (!code || w[i] >> 16 < 4 || w[i + 1] >= MAX_IDS || !is_address_type[w[i + 1]])
            continue;
        is_address[w[i + 2]] = true;
        n += op == wanted && (op != OP_BITCAST || is_address[w[i + 3]]);
    }
    return n;
}

/* Is there an instruction of a kind, with this word in a place (0: any)? */
static bool
has(const dop_buf *spirv, uint32_t op, uint32_t place, uint32_t word)
{
    const uint32_t *w = words(spirv);
    for (size_t i = 5; i < spirv->size / 4; i += w[i] >> 16)
        if ((w[i] & 0xffff) == op && (place == 0 || w[i + place] == word))
            return true;
    return false;
}

static uint32_t
all(const dop_buf *spirv)
{
    return count(spirv, OP_BITCAST) + count(spirv, OP_PHI) + count(spirv, OP_SELECT);
}

/* kind: an instruction of which the module must have one, so that something is proved; variables become OpPhi in the optimizer. */
static void
rewritten(const char *body, uint32_t kind)
{
    for (int optimized = 0; optimized < 2; optimized++) {
        dop_buf spirv = compile(body, optimized, true);
        dop_diag diag = {0};
        cr_assert(kind == OP_PHI && !optimized ? true : count(&spirv, kind) > 0, "nothing to do (%d)", optimized);
        cr_assert_eq(dop_spirv_addresses("test", &spirv, &diag), DOP_OK, "%s", diag.message);
        cr_expect_eq(all(&spirv), 0);
        validate(&spirv);
        dop_buf_finish(&spirv);
    }
}

Test(spirv_addresses, casts)
{
    rewritten("float get(U32 p, uint i) { return F32(p).v[i]; }\n"
              "void main() {\n"
              "    U32x4(b).v[0] = U32x4(a).v[n] + uint(get(a, n));\n"
              "    F32(U32x4(a)).v[1] = get(U32(F32(b)), 2u) + get(U32(U32x4(c)), 3u);\n"
              "}\n",
              OP_BITCAST);
}

/* One address of two by the way of control, in a loop, and one that changes while the loop runs. */
Test(spirv_addresses, ways_of_control)
{
    rewritten("void main() {\n"
              "    U32 p = a, q = b;\n"
              "    if (n > 3u) {\n        q.v[7] = 1u;\n        p = b;\n    }\n"
              "    for (uint i = 0u; i < n; i++) {\n"
              "        U32x4(p).v[i] += uvec4(q.v[i]);\n"
              "        if (q.v[i] == 5u) { U32 r = p; p = q; q = r; }\n"
              "        else if (q.v[i] == 6u) { q = U32(c); q.v[1] = 2u; }\n"
              "    }\n"
              "    F32(p).v[0] = float(q.v[1]);\n"
              "}\n",
              OP_PHI);
}

Test(spirv_addresses, nothing_to_do)
{
    for (int optimized = 0; optimized < 2; optimized++) {
        dop_buf spirv = compile("void main() { a.v[0] = b.v[1] + U32(c).v[n]; }\n", optimized, true), same = {0};
        dop_diag diag = {0};
        dop_buf_append(&same, spirv.data, spirv.size);
        cr_assert_eq(dop_spirv_addresses("test", &spirv, &diag), DOP_OK, "%s", diag.message);
        cr_assert_eq(spirv.size, same.size);
        cr_expect_eq(memcmp(spirv.data, same.data, same.size), 0);
        dop_buf_finish(&spirv);
        dop_buf_finish(&same);
    }
}

/* One way brings no address: the optimizer has an OpUndef in front of the functions for it, of which there is a pair as well.  The
 * module without the pair that compile() declares has no type of pairs: the pair's type must be declared in front of it. */
Test(spirv_addresses, no_address_on_one_way)
{
    static const char body[] = "void main() {\n"
                               "    U32 p;\n"
                               "    for (uint i = 0u; i < n; i++) {\n"
                               "        if (i > 0u) p.v[i] = 1u;\n"
                               "        p = a.v[i] > 3u ? a : b;\n"
                               "    }\n"
                               "}\n";
    for (int pairs = 0; pairs < 2; pairs++) {
        dop_buf spirv = compile(body, true, pairs);
        dop_diag diag = {0};
        cr_assert_gt(count(&spirv, OP_PHI), 0);
        cr_assert(has(&spirv, OP_UNDEF, 0, 0), "nothing is undefined");
        cr_assert_eq(has(&spirv, OP_TYPE_VECTOR, 3, 2), pairs == 1);
        cr_assert_eq(dop_spirv_addresses("test", &spirv, &diag), DOP_OK, "%s", diag.message);
        cr_expect_eq(all(&spirv), 0);
        validate(&spirv);
        dop_buf_finish(&spirv);
    }
}

/* A value whose id is the number of the storage class (5349) is no part of the instructions that name the class. */
Test(spirv_addresses, an_id_like_the_storage_class)
{
    static const char text[] =
        "OpCapability Shader\nOpCapability PhysicalStorageBufferAddresses\n"
        "OpMemoryModel PhysicalStorageBuffer64 GLSL450\nOpEntryPoint GLCompute %1 \"main\" %12\n"
        "OpExecutionMode %1 LocalSize 1 1 1\nOpDecorate %5 Block\nOpMemberDecorate %5 0 Offset 0\n"
        "OpDecorate %7 Block\nOpMemberDecorate %7 0 Offset 0\nOpDecorate %10 Block\nOpMemberDecorate %10 0 Offset 0\n"
        "%2 = OpTypeVoid\n%3 = OpTypeFunction %2\n%4 = OpTypeInt 32 0\n%8 = OpTypeFloat 32\n"
        "%5 = OpTypeStruct %4\n%6 = OpTypePointer PhysicalStorageBuffer %5\n%7 = OpTypeStruct %8\n"
        "%9 = OpTypePointer PhysicalStorageBuffer %7\n%14 = OpTypePointer PhysicalStorageBuffer %8\n"
        "%10 = OpTypeStruct %6\n%11 = OpTypePointer PushConstant %10\n%13 = OpTypePointer PushConstant %6\n"
        "%12 = OpVariable %11 PushConstant\n%15 = OpConstant %4 0\n%16 = OpConstant %8 1\n"
        "%1 = OpFunction %2 None %3\n%20 = OpLabel\n%21 = OpAccessChain %13 %12 %15\n%5349 = OpLoad %6 %21\n"
        "%30 = OpBitcast %9 %5349\n%31 = OpAccessChain %14 %30 %15\nOpStore %31 %16 Aligned "
        "4\nOpReturn\nOpFunctionEnd\n";
    spv_context context = spvContextCreate(SPV_ENV_VULKAN_1_2);
    spv_binary binary = NULL;
    const spv_result_t r = spvTextToBinaryWithOptions(context, text, sizeof text - 1,
                                                      SPV_TEXT_TO_BINARY_OPTION_PRESERVE_NUMERIC_IDS, &binary, NULL);
    cr_assert_eq(r, SPV_SUCCESS);
    dop_buf spirv = {0};
    dop_diag diag = {0};
    dop_buf_append(&spirv, binary->code, binary->wordCount * 4);
    cr_expect_eq(count(&spirv, OP_BITCAST), 1);
    cr_assert_eq(dop_spirv_addresses("test", &spirv, &diag), DOP_OK, "%s", diag.message);
    cr_expect_eq(all(&spirv), 0);
    validate(&spirv);
    dop_buf_finish(&spirv);
    spvBinaryDestroy(binary);
    spvContextDestroy(context);
}

/* Whatever a word says, it is a module or an error. */
Test(spirv_addresses, damaged_modules)
{
    dop_buf whole = compile("void main() {\n"
                            "    U32 p = a;\n"
                            "    for (uint i = 0u; i < n; i++) { F32(p).v[i] = 1.0; if (p.v[i] == 5u) p = b; }\n"
                            "}\n",
                            true, true);
    const uint32_t values[] = {0, 1, 0xffffffffu, 0x00010000u, words(&whole)[3], words(&whole)[3] - 1};
    uint32_t refused = 0;
    for (size_t at = 0; at < whole.size / 4; at++)
        for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
            dop_buf spirv = {0};
            dop_diag diag = {0};
            dop_buf_append(&spirv, whole.data, whole.size);
            memcpy(spirv.data + at * 4, &values[i], 4);
            refused += dop_spirv_addresses("test", &spirv, &diag) != DOP_OK;
            dop_buf_finish(&spirv);
        }
    for (size_t n = 0; n < whole.size; n += 4) {
        dop_buf spirv = {0};
        dop_diag diag = {0};
        dop_buf_append(&spirv, whole.data, n);
        (void)dop_spirv_addresses("test", &spirv, &diag);
        dop_buf_finish(&spirv);
    }
    cr_expect_gt(refused, 100);
    dop_buf_finish(&whole);
}
