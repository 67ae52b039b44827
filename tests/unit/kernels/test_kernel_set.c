/* The kernels of a plan, each different one once. */
#include "compiler/schedule/kernel_set.h"

#include <criterion/criterion.h>

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
