/* The kernels of a plan, each different one once, and the functions that they share. */
#include "compiler/schedule/kernel_set.h"
#include "kernels/gen/gen.h"
#include "tests/unit/kernels_device.h"
#include "tests/unit/kernels_util.h"

#include <criterion/criterion.h>
#include <string.h>

static uint32_t
add(dop_kernel_set *set, const char *glsl, const char *const *stages, uint32_t n_stages)
{
    dop_diag diag = {0};
    uint32_t index = UINT32_MAX;
    const dop_kernel k = {.glsl = glsl, .stages = stages, .n_stages = n_stages};
    cr_assert_eq(dop_kernel_set_add(set, &k, DOP_TPL_gemv, (dop_label){0}, &diag, &index), DOP_OK);
    return index;
}

Test(kernel_set, equal_texts_are_one_kernel)
{
    dop_kernel_set set = {0};
    cr_expect_eq(add(&set, "a", NULL, 0), 0);
    cr_expect_eq(add(&set, "b", NULL, 0), 1);
    cr_expect_eq(add(&set, "a", NULL, 0), 0);
    dop_kernel_set_finish(&set);
}

/* The text around stages says only how many there are. */
Test(kernel_set, stages_are_part_of_a_kernel)
{
    dop_kernel_set set = {0};
    const char *const one[] = {"x", "y"}, *const other[] = {"x", "z"}, *const same[] = {"x", "y"};
    cr_expect_eq(add(&set, "a", one, 2), 0);
    cr_expect_eq(add(&set, "a", other, 2), 1);
    cr_expect_eq(add(&set, "a", same, 2), 0);
    dop_kernel_set_finish(&set);
}

/* Functions that kernels share, called by a kernel of two dispatches: five workgroups each, of which two make something for the
 * others.  Words of `io` from 16 on are a mailbox of two copies. */
enum { MAKERS = 2, GROUPS = 5, LANES = 8, COPY = 64, NOTHING = -1, NOT_A_NUMBER = 0x7fc00000 };

static void
put_waits(const dop_templates *t, dop_buf *text)
{
    static const char hole[] = "${COUNTS}";
    const char *from = dop_templates_get(t, "waits.glsl"), *at = from ? strstr(from, hole) : NULL;
    cr_assert(at);
    dop_buf_printf(text,
                   "#define MAKERS %uu\n#define TAKERS %uu\n#define DONE_AT 0u\n#define MOST_WAITS 1000u\n%.*scounts%s",
                   MAKERS, GROUPS - MAKERS, (int)(at - from), from, at + sizeof hole - 1);
}

static void
check_shared(lab_device *device, const dop_templates *t, bool subgroups)
{
    dop_diag diag = {0};
    dop_buf text = {0}, spirv = {0};
    uint32_t shared, kernel;
    const uint32_t lanes = subgroups ? lab_device_subgroup(device) : LANES;
    dop_buf_printf(&text,
                   "#version 460\n#extension GL_EXT_buffer_reference : require\n#extension "
                   "GL_EXT_buffer_reference_uvec2 : require\n"
                   "#extension GL_EXT_control_flow_attributes : require\n%s#define WG %u\n#define SG %u\n"
                   "layout(local_size_x = %u) in;\n#define DOP_STAGE\n#define DOP_HANDS_ON\n",
                   subgroups
                       ? "#define DOP_CPU\n#define DOP_CLAIMS\n#extension GL_KHR_shader_subgroup_basic : require\n"
                         "#extension GL_KHR_shader_subgroup_arithmetic : require\n"
                         "#extension GL_KHR_shader_subgroup_shuffle : require\n"
                         "#extension GL_KHR_shader_subgroup_ballot : require\n"
                       : "",
                   lanes, subgroups ? lanes : 1, lanes);
    dop_buf_puts(&text, dop_templates_get(t, "common.glsl"));
    dop_buf_puts(&text, "layout(push_constant, std430) uniform Push { U32 counts; U32 io; };\n");
    put_waits(t, &text);
    dop_buf_printf(
        &text,
        "void main()\n{\n    bool made = gl_WorkGroupID.x < MAKERS, first = gl_LocalInvocationIndex == 0u;\n"
        "    if (!made)\n        dop_await();\n"
        "    if (first) {\n        dop_stage.now = 0u;\n        dop_stage.next = %uu;\n    }\n    barrier();\n"
        "    if (first && gl_WorkGroupID.x == 0u) {\n"
        "        dop_send1(io, 16u, uintBitsToFloat(Words(io).v[8]));\n"
        "        dop_send1(io, 17u, uintBitsToFloat(Words(io).v[9]));\n"
        "        dop_send4(io, 20u, uintBitsToFloat(uvec4(Words(io).v[8], Words(io).v[9], Words(io).v[10], "
        "Words(io).v[8])));\n"
        "    }\n    dop_ends(made);\n"
        "    if (dop_last_of(counts, 2u, %uu) && first)\n        atomicAdd(Counts(io).n[0], 1u);\n%s}\n",
        COPY, GROUPS,
        subgroups ? "    uint claimed = dop_claim(counts, 3u, 5u);\n    if (first)\n"
                    "        atomicAdd(Counts(io).n[1u + claimed], 1u);\n"
                  : "");
    const dop_kernel k = {.glsl = text.data,
                          .n_args = 2,
                          .local = lanes,
                          .caps = subgroups ? DOP_CAP_subgroup : 0,
                          .subgroup = subgroups ? lanes : 0};
    cr_assert_eq(dop_kernel_compile("shared", &k, kernel_lab_target(subgroups ? 0 : 2), &diag, &spirv, &shared), DOP_OK,
                 "%s", diag.message);
    cr_assert_eq(lab_device_add(device, text.data, &spirv, k.subgroup, &diag, &kernel), DOP_OK, "%s", diag.message);
    uint64_t at;
    uint32_t *counts = (uint32_t *)(void *)lab_device_heap(device, &at), *io = counts + 64;
    memset(counts, 0, 4096);
    io[8] = (uint32_t)NOTHING, io[9] = 0x3fc00000, io[10] = 0x7f800001;
    const lab_dispatch d = {.kernel = kernel,
                            .grid = {GROUPS, 1, 1},
                            .n_args = 2,
                            .args = {at, at + 256},
                            .barrier = true},
                       list[] = {d, d};
    cr_assert_eq(lab_device_run(device, list, 2, &diag), DOP_OK, "%s", diag.message);
    for (uint32_t i = 0; i < 4; i++)
        cr_expect_eq(counts[i], 0, "count %u is %u after its last use", i, counts[i]);
    cr_expect_eq(io[0], 2, "%u workgroups were the last one", io[0]);
    for (uint32_t i = 1; i <= GROUPS && subgroups; i++)
        cr_expect_eq(io[i], 2, "block %u was claimed %u times", i - 1, io[i]);
    /* What is sent is never what an empty place has; the places of the next step are empty. */
    static const uint32_t sent[] = {NOT_A_NUMBER, 0x3fc00000, 0, 0, NOT_A_NUMBER, 0x3fc00000, 0x7f800001, NOT_A_NUMBER};
    for (uint32_t i = 0; i < 8; i++) {
        cr_expect(io[16 + i] == sent[i] || (i == 6 && io[16 + i] == 0x7fc00001), "word %u is %x", i, io[16 + i]);
        cr_expect_eq(io[16 + COPY + i], i == 2 || i == 3 ? 0 : (uint32_t)NOTHING, "word %u of the next step", i);
    }
    dop_buf_finish(&text);
    dop_buf_finish(&spirv);
}

Test(kernel_set, functions_that_kernels_share)
{
    dop_templates t;
    dop_diag diag = {0};
    lab_device *device;
    if (lab_device_open(false, DOP_CAP_subgroup, &diag, &device) != DOP_OK) {
        lab_device_close(device);
        cr_skip_test("%s", diag.message);
    }
    cr_assert_eq(dop_templates_load(DOP_GLSL_SOURCE_DIR, &t, &diag), DOP_OK, "%s", diag.message);
    check_shared(device, &t, false);
    check_shared(device, &t, true);
    dop_templates_finish(&t);
    lab_device_close(device);
}
