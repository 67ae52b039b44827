/* Matrix units that a device has and a plan needs: which form, which shape, and what is said when one is missing. */
#include "runtime/device/device.h"
#include "runtime/device/pipelines.h"

#include <criterion/criterion.h>
#include <string.h>

enum { M16 = DOP_MATRIX_SHAPE(16, 16, 16), M8 = DOP_MATRIX_SHAPE(8, 16, 16) };

Test(matrix_units, either_form_will_do)
{
    uint32_t need = DOP_CAP_coop | DOP_CAP_subgroup;
    cr_expect_eq(dop_caps_missing(need, DOP_CAP_subgroup | DOP_CAP_coop_khr), 0);
    cr_expect_eq(dop_caps_missing(need, DOP_CAP_subgroup | DOP_CAP_coop_nv), 0);
    cr_expect_eq(dop_caps_missing(need, DOP_CAP_coop_nv), DOP_CAP_subgroup);
    cr_expect_eq(dop_caps_missing(need, DOP_CAP_subgroup), DOP_CAP_coop);
    cr_expect_eq(dop_caps_missing(DOP_CAP_coop_khr, DOP_CAP_coop_nv), DOP_CAP_coop_khr);
}

Test(matrix_units, shapes_that_kernels_are_made_for)
{
    cr_expect(dop_matrix_usable(M16, 32) && dop_matrix_usable(M16, 64));
    cr_expect(dop_matrix_usable(M8, 16) && dop_matrix_usable(M8, 32));
    cr_expect(!dop_matrix_usable(M16, 16) && !dop_matrix_usable(M8, 8) && !dop_matrix_usable(0, 32));
    cr_expect(dop_matrix_usable(DOP_MATRIX_SHAPE(8, 8, 16), 8) && dop_matrix_usable(DOP_MATRIX_SHAPE(8, 8, 8), 8));
    cr_expect(!dop_matrix_usable(DOP_MATRIX_SHAPE(8, 8, 16), 16) &&
              !dop_matrix_usable(DOP_MATRIX_SHAPE(16, 8, 16), 16) &&
              !dop_matrix_usable(DOP_MATRIX_SHAPE(16, 16, 8), 32));
}

static void
refusal(const dop_device_info *info, uint32_t caps, uint32_t matrix, const char *want)
{
    dop_plan_kernel kernel = {.caps = caps, .local = {64, 1, 1}};
    dop_plan plan = {.strings = "", .kernels = &kernel, .n_kernels = 1};
    bool used = true;
    dop_buf why = {0};
    dop_pipelines_refuse(info, &plan, &used, NULL, 0, matrix, &why);
    cr_expect_str_eq(why.data ? why.data : "", want);
    dop_buf_finish(&why);
}

Test(matrix_units, a_plan_and_a_device)
{
    dop_device_info d = {.caps = {.name = "X", .caps = DOP_CAP_coop, .max_workgroup = 1024},
                         .max_local = {1024, 1024, 64},
                         .matrix_nv = {1, {M16}},
                         .matrix_khr = {2, {DOP_MATRIX_SHAPE(16, 8, 16), M8}}};
    refusal(&d, DOP_CAP_coop_nv, M16, "");
    refusal(&d, DOP_CAP_coop_khr, M8, "");
    refusal(&d, 0, 0, "");
    refusal(&d, DOP_CAP_coop_khr, M16,
            "needs matrix units of 16x16x16 with f16 factors and f32 sums, and X has 16x8x16, 8x16x16");
    refusal(&d, DOP_CAP_coop_nv, M8, "needs matrix units of 8x16x16 with f16 factors and f32 sums, and X has 16x16x16");
    refusal(&d, DOP_CAP_coop, M8, "needs matrix units of 8x16x16 with f16 factors and f32 sums, and X has 16x16x16");
    d.caps.caps = DOP_CAP_coop_nv;
    refusal(&d, DOP_CAP_coop_khr, M8, "needs cooperative matrix (KHR), which X lacks (kernel )");
    d.caps.caps = DOP_CAP_coop;
    refusal(&d, DOP_CAP_coop_khr | DOP_CAP_coop_pairs, M8,
            "needs factors of cooperative matrices in pairs of elements (KHR), which X lacks (kernel )");
    memset(&d.matrix_khr, 0, sizeof d.matrix_khr);
    refusal(&d, DOP_CAP_coop_khr, M8, "needs matrix units of 8x16x16 with f16 factors and f32 sums, and X has none");
}
