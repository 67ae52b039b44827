#include "tests/unit/dispatch_util.h"

#include "runtime/memory.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

bool
test_device_open(test_device *d)
{
    dop_diag diag = {0};
    uint32_t index = 0;
    memset(d, 0, sizeof *d);
    if (dop_instance_create(&diag, &d->instance) != DOP_OK || d->instance.n_devices == 0 ||
        dop_instance_choose(&d->instance, NULL, &diag, &index) != DOP_OK) {
        dop_instance_destroy(&d->instance);
        return false;
    }
    dop_status st = dop_device_create(&d->instance, index, d->instance.devices[index].caps.caps, &diag, &d->device);
    if (st == DOP_OK)
        st = dop_device_timeline(&d->device, &diag, &d->timeline);
    cr_assert_eq(st, DOP_OK, "%s", diag.message);
    VkPushConstantRange range = {VK_SHADER_STAGE_COMPUTE_BIT, 0, 128};
    VkPipelineLayoutCreateInfo layout = {.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
                                         .pushConstantRangeCount = 1,
                                         .pPushConstantRanges = &range};
    VkCommandPoolCreateInfo pool = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
                                    .flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT,
                                    .queueFamilyIndex = d->device.info.queue_family};
    cr_assert_eq(vkCreatePipelineLayout(d->device.handle, &layout, NULL, &d->layout), VK_SUCCESS);
    cr_assert_eq(vkCreateCommandPool(d->device.handle, &pool, NULL, &d->pool), VK_SUCCESS);
    VkCommandBufferAllocateInfo one = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
                                       .commandPool = d->pool,
                                       .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
                                       .commandBufferCount = 1};
    cr_assert_eq(vkAllocateCommandBuffers(d->device.handle, &one, &d->commands), VK_SUCCESS);
    return true;
}

void
test_device_close(test_device *d)
{
    if (!d->device.handle)
        return;
    vkDestroyCommandPool(d->device.handle, d->pool, NULL);
    vkDestroyPipelineLayout(d->device.handle, d->layout, NULL);
    vkDestroySemaphore(d->device.handle, d->timeline, NULL);
    dop_device_destroy(&d->device);
    dop_instance_destroy(&d->instance);
}

test_buffer
test_buffer_create(test_device *d, uint64_t size)
{
    dop_diag diag = {0};
    dop_block *b = calloc(1, sizeof *b);
    cr_assert_not_null(b);
    dop_status st = dop_block_create(
        &d->device, size, VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT, 0, 0, &diag, b);
    cr_assert_eq(st, DOP_OK, "%s", diag.message);
    return (test_buffer){b, b->mapped, b->address};
}

void
test_buffer_destroy(test_device *d, test_buffer *b)
{
    if (b->block)
        dop_block_destroy(&d->device, b->block);
    free(b->block);
    memset(b, 0, sizeof *b);
}

static void
submit_and_wait(test_device *d)
{
    dop_diag diag = {0};
    uint64_t value = ++d->ticks;
    VkTimelineSemaphoreSubmitInfo values = {.sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO,
                                            .signalSemaphoreValueCount = 1,
                                            .pSignalSemaphoreValues = &value};
    VkSubmitInfo submit = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
                           .pNext = &values,
                           .commandBufferCount = 1,
                           .pCommandBuffers = &d->commands,
                           .signalSemaphoreCount = 1,
                           .pSignalSemaphores = &d->timeline};
    dop_status st = dop_device_submit(&d->device, d->device.queue, &submit, &diag);
    if (st == DOP_OK)
        st = dop_device_wait(&d->device, d->timeline, value, &diag);
    cr_assert_eq(st, DOP_OK, "%s", diag.message);
}

void
test_dispatch(test_device *d, const void *spirv, size_t size, uint32_t subgroup, uint32_t n_args, const uint64_t *args,
              const uint32_t grid[3])
{
    VkDevice device = d->device.handle;
    VkShaderModule module;
    VkPipeline pipeline;
    VkShaderModuleCreateInfo code = {
        .sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO, .codeSize = size, .pCode = spirv};
    cr_assert_eq(vkCreateShaderModule(device, &code, NULL, &module), VK_SUCCESS);
    VkPipelineShaderStageRequiredSubgroupSizeCreateInfo required = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO,
        .requiredSubgroupSize = subgroup};
    VkComputePipelineCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
        .stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                  .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                  .module = module,
                  .pName = "main",
                  .pNext = subgroup && d->device.info.subgroup_control ? &required : NULL},
        .layout = d->layout};
    cr_assert_eq(vkCreateComputePipelines(device, VK_NULL_HANDLE, 1, &info, NULL, &pipeline), VK_SUCCESS);
    VkCommandBufferBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
    cr_assert_eq(vkBeginCommandBuffer(d->commands, &begin), VK_SUCCESS);
    vkCmdBindPipeline(d->commands, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline);
    vkCmdPushConstants(d->commands, d->layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, n_args * 8, args);
    vkCmdDispatch(d->commands, grid[0], grid[1], grid[2]);
    VkMemoryBarrier all = {.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
                           .srcAccessMask = VK_ACCESS_MEMORY_WRITE_BIT,
                           .dstAccessMask = VK_ACCESS_HOST_READ_BIT | VK_ACCESS_MEMORY_READ_BIT};
    vkCmdPipelineBarrier(d->commands, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT,
                         VK_PIPELINE_STAGE_ALL_COMMANDS_BIT | VK_PIPELINE_STAGE_HOST_BIT, 0, 1, &all, 0, NULL, 0, NULL);
    cr_assert_eq(vkEndCommandBuffer(d->commands), VK_SUCCESS);
    submit_and_wait(d);
    vkDestroyPipeline(device, pipeline, NULL);
    vkDestroyShaderModule(device, module, NULL);
}
