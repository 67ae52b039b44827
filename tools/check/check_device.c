#include "tools/check/check_device.h"
#include "tools/check/check.h"

#include <string.h>

enum { STAGE_BYTES = 16 << 20 };

dop_status
dop_check_device_create(dop_model *model, dop_diag *diag, dop_check_device *out_device)
{
    dop_check_device *d = out_device;
    memset(d, 0, sizeof *d);
    d->model = model;
    VkDevice handle = model->device.handle;
    VkCommandPoolCreateInfo pool = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
        .flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT,
        .queueFamilyIndex = model->device.info.queue_family,
    };
    VkResult r = vkCreateCommandPool(handle, &pool, NULL, &d->pool);
    if (r != VK_SUCCESS)
        return DOP_VK_FAIL(diag, r, "vkCreateCommandPool");
    VkCommandBufferAllocateInfo allocate = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
        .commandPool = d->pool,
        .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
        .commandBufferCount = 1,
    };
    r = vkAllocateCommandBuffers(handle, &allocate, &d->commands);
    dop_status st = DOP_OK;
    if (!(r == VK_SUCCESS))
        DOP_TRY(DOP_VK_FAIL(diag, r, "vkAllocateCommandBuffers"));
    DOP_TRY(dop_device_timeline(&model->device, diag, &d->timeline));
    DOP_TRY(dop_block_create(&model->device, STAGE_BYTES,
                             VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT,
                             VK_MEMORY_PROPERTY_HOST_CACHED_BIT, 0, diag, &d->stage));
error:
    if (st != DOP_OK)
        dop_check_device_destroy(d);
    return st;
}

void
dop_check_device_destroy(dop_check_device *device)
{
    if (!device->model)
        return;
    dop_device *d = &device->model->device;
    if (!d->hung) {
        vkDestroySemaphore(d->handle, device->timeline, NULL);
        vkDestroyCommandPool(d->handle, device->pool, NULL);
    }
    dop_block_destroy(d, &device->stage);
    memset(device, 0, sizeof *device);
}

/* Submits the commands and waits. Writes are visible to all later work, including the host's. */
static dop_status
submit_check_commands(dop_check_device *d, dop_diag *diag)
{
    VkMemoryBarrier all = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
        .srcAccessMask = VK_ACCESS_MEMORY_WRITE_BIT,
        .dstAccessMask = VK_ACCESS_MEMORY_READ_BIT | VK_ACCESS_MEMORY_WRITE_BIT,
    };
    vkCmdPipelineBarrier(d->commands, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT,
                         VK_PIPELINE_STAGE_ALL_COMMANDS_BIT | VK_PIPELINE_STAGE_HOST_BIT, 0, 1, &all, 0, NULL, 0, NULL);
    VkResult r = vkEndCommandBuffer(d->commands);
    if (r != VK_SUCCESS)
        return DOP_VK_FAIL(diag, r, "vkEndCommandBuffer");
    uint64_t value = d->ticks + 1;
    dop_device *device = &d->model->device;
    dop_status st = dop_device_submit(device, device->queue, &d->commands, 1, d->timeline, value, diag);
    if (st != DOP_OK)
        return st;
    d->ticks = value;
    return dop_device_wait(device, d->timeline, value, diag);
}

static dop_status
copy_slot_bytes(dop_check_device *d, uint32_t slot, uint64_t offset, uint8_t *bytes, uint64_t size, bool to_device,
                dop_diag *diag)
{
    const dop_memory *m = &d->model->memory;
    const dop_slot_place *p = &m->places[slot];
    for (uint64_t at = 0; at < size;) {
        uint64_t n = size - at < STAGE_BYTES ? size - at : STAGE_BYTES, there = p->offset + offset + at;
        dop_status st = dop_device_begin(d->commands, VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT, diag);
        if (st != DOP_OK)
            return st;
        if (to_device)
            memcpy(d->stage.mapped, bytes + at, n);
        VkBuffer buffer = m->blocks[p->block].buffer;
        VkBufferCopy region = {to_device ? 0 : there, to_device ? there : 0, n};
        vkCmdCopyBuffer(d->commands, to_device ? d->stage.buffer : buffer, to_device ? buffer : d->stage.buffer, 1,
                        &region);
        if ((st = submit_check_commands(d, diag)) != DOP_OK)
            return st;
        if (!to_device)
            memcpy(bytes + at, d->stage.mapped, n);
        at += n;
    }
    return DOP_OK;
}

dop_status
dop_check_write(dop_check_device *device, uint32_t slot, uint64_t offset, const void *bytes, uint64_t size,
                dop_diag *diag)
{
    return copy_slot_bytes(device, slot, offset, (uint8_t *)(uintptr_t)bytes, size, true, diag);
}

dop_status
dop_check_read(dop_check_device *device, uint32_t slot, uint64_t offset, void *bytes, uint64_t size, dop_diag *diag)
{
    return copy_slot_bytes(device, slot, offset, bytes, size, false, diag);
}

dop_status
dop_check_dispatch(dop_check_device *device, const dop_plan_dispatch *dispatch, dop_diag *diag)
{
    const dop_model *s = device->model;
    uint64_t args[DOP_PUSH_ARGS];
    const uint32_t bytes = dop_replay_args(&s->replay, dispatch, args);
    dop_status st = dop_device_begin(device->commands, VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT, diag);
    if (st != DOP_OK)
        return st;
    vkCmdBindPipeline(device->commands, VK_PIPELINE_BIND_POINT_COMPUTE, s->pipelines.rows[dispatch->kernel]);
    VkDescriptorSet views[DOP_N_VIEWS] = {VK_NULL_HANDLE};
    dop_memory_bind(&s->memory, &s->plan, dispatch, s->pipelines.layout, views, device->commands);
    if (bytes > 0)
        vkCmdPushConstants(device->commands, s->pipelines.layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, bytes, args);
    vkCmdDispatch(device->commands, dispatch->grid[0], dispatch->grid[1], dispatch->grid[2]);
    return submit_check_commands(device, diag);
}
