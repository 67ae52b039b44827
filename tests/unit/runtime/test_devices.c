/* Listing devices. */
#include "runtime/device/device.h"
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

/* What is known of a device is what its driver says. */
Test(devices, are_what_drivers_say)
{
    dop_instance instance = {0};
    dop_diag diag = {0};
    cr_assert_eq(dop_instance_create(&diag, &instance), DOP_OK, "%s", diag.message);
    for (uint32_t i = 0; i < instance.n_devices; i++) {
        const dop_device_info *d = &instance.devices[i];
        VkPhysicalDeviceSubgroupSizeControlFeatures f = {
            .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES};
        VkPhysicalDeviceSubgroupSizeControlProperties s = {
            .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES};
        VkPhysicalDeviceFeatures2 features = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, .pNext = &f};
        VkPhysicalDeviceProperties2 properties = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, .pNext = &s};
        if (d->missing[0])
            continue;
        vkGetPhysicalDeviceFeatures2(d->physical, &features);
        vkGetPhysicalDeviceProperties2(d->physical, &properties);
        const VkPhysicalDeviceLimits *l = &properties.properties.limits;
        cr_expect(d->max_local[0] == l->maxComputeWorkGroupSize[0] &&
                  d->max_grid[0] == l->maxComputeWorkGroupCount[0] &&
                  d->max_local[2] == l->maxComputeWorkGroupSize[2] && d->max_grid[2] == l->maxComputeWorkGroupCount[2]);
        cr_expect(d->caps.max_workgroup == l->maxComputeWorkGroupInvocations &&
                  d->caps.shared_bytes == l->maxComputeSharedMemorySize &&
                  d->caps.push_bytes == l->maxPushConstantsSize && d->timestamp_period == l->timestampPeriod);
        if (!d->subgroup_control)
            continue;
        cr_expect(f.subgroupSizeControl && (s.requiredSubgroupSizeStages & VK_SHADER_STAGE_COMPUTE_BIT));
        cr_expect_eq(d->full_subgroups, f.computeFullSubgroups != VK_FALSE);
        cr_expect(d->subgroup_min == s.minSubgroupSize && d->subgroup_max == s.maxSubgroupSize &&
                  d->max_subgroups == s.maxComputeWorkgroupSubgroups);
    }
    dop_instance_destroy(&instance);
}
