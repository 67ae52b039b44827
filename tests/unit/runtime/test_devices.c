/* Listing devices. */
#include "runtime/model/model.h"
#include <criterion/criterion.h>
#include <string.h>

static dop_status
count_devices(void *user, const dop_device_facts *facts, dop_diag *diag)
{
    uint32_t *n = user;
    char number[16];
    snprintf(number, sizeof number, "%u: ", facts->number);
    cr_assert_eq(strncmp(facts->line, number, strlen(number)), 0, "%s", facts->line);
    cr_assert(strstr(facts->line, facts->name) && !strchr(facts->line, '\n'), "%s", facts->line);
    cr_assert(facts->missing[0] || (facts->memory > 0 && strstr(facts->line, facts->driver)));
    return --*n ? DOP_OK : DOP_FAIL(diag, DOP_E_FULL, "enough");
}

Test(devices, are_told_one_by_one)
{
    dop_diag diag = {0};
    uint32_t many = 1000, one = 1;
    cr_assert_eq(dop_devices(count_devices, &many, &diag), DOP_OK, "%s", diag.message);
    cr_assert_lt(many, 1000);
    cr_assert_eq(dop_devices(count_devices, &one, &diag), DOP_E_FULL);
}
