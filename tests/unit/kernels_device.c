#include "tests/unit/kernels_device.h"

#include "runtime/device/memory.h"

#include <stdlib.h>
#include <string.h>

typedef struct lab_kernel {
    char *glsl;
    uint64_t hash;
    VkPipeline pipeline;
} lab_kernel;

struct lab_device {
    dop_instance instance;
    dop_device device;
    VkPipelineLayout layout;
    VkCommandPool pool;
    VkCommandBuffer commands;
    VkSemaphore timeline;
    uint64_t ticks;
    dop_block heap;
    lab_kernel *kernels;
    uint32_t n_kernels;
    uint32_t lost; /* number of the dispatch that is left out of every list */
};

static dop_status
open_objects(lab_device *l, dop_diag *diag)
{
    VkDevice d = l->device.handle;
    VkPushConstantRange range = {VK_SHADER_STAGE_COMPUTE_BIT, 0, 128};
    VkPipelineLayoutCreateInfo layout = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
        .pushConstantRangeCount = 1,
        .pPushConstantRanges = &range,
    };
    VkCommandPoolCreateInfo pool = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
        .flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT,
        .queueFamilyIndex = l->device.info.queue_family,
    };
    VkResult r = vkCreatePipelineLayout(d, &layout, NULL, &l->layout);
    if (r == VK_SUCCESS)
        r = vkCreateCommandPool(d, &pool, NULL, &l->pool);
    VkCommandBufferAllocateInfo allocate = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
        .commandPool = l->pool,
        .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
        .commandBufferCount = 1,
    };
    if (r == VK_SUCCESS)
        r = vkAllocateCommandBuffers(d, &allocate, &l->commands);
    if (r != VK_SUCCESS)
        return DOP_VK_FAIL(diag, r, "making the laboratory's objects");
    dop_status st = dop_device_timeline(&l->device, diag, &l->timeline);
    if (st != DOP_OK)
        return st;
    return dop_block_create(&l->device, LAB_HEAP + LAB_RECORDS,
                            VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT,
                            VK_MEMORY_PROPERTY_HOST_CACHED_BIT, 0, diag, &l->heap);
}

dop_status
lab_device_open(bool any, uint32_t caps, dop_diag *diag, lab_device **out_device)
{
    uint32_t index = 0;
    lab_device *l = calloc(1, sizeof *l);
    *out_device = l;
    if (!l)
        return DOP_NO_MEMORY(diag);
    l->lost = UINT32_MAX;
    dop_status st = dop_instance_create(diag, &l->instance);
    while (st == DOP_OK && !any && index < l->instance.n_devices && !l->instance.devices[index].caps.cpu)
        index++;
    if (st == DOP_OK && index == l->instance.n_devices)
        st = DOP_FAIL(diag, DOP_E_DEVICE, "no %s device", any ? "Vulkan" : "software Vulkan");
    if (st == DOP_OK && any)
        st = dop_instance_choose(&l->instance, NULL, diag, &index);
    if (st == DOP_OK)
        st =
            dop_device_create(&l->instance, index, any ? l->instance.devices[index].caps.caps : caps, diag, &l->device);
    if (st == DOP_OK)
        st = open_objects(l, diag);
    return st;
}

void
lab_device_close(lab_device *l)
{
    if (!l)
        return;
    VkDevice d = l->device.handle;
    for (uint32_t i = 0; i < l->n_kernels; i++) {
        vkDestroyPipeline(d, l->kernels[i].pipeline, NULL);
        free(l->kernels[i].glsl);
    }
    free(l->kernels);
    if (d) {
        vkDestroySemaphore(d, l->timeline, NULL);
        vkDestroyCommandPool(d, l->pool, NULL);
        vkDestroyPipelineLayout(d, l->layout, NULL);
        dop_block_destroy(&l->device, &l->heap);
    }
    dop_device_destroy(&l->device);
    dop_instance_destroy(&l->instance);
    free(l);
}

uint32_t
lab_device_caps(const lab_device *l)
{
    return l->device.info.caps.caps;
}

uint32_t
lab_device_subgroup(const lab_device *l)
{
    return l->device.info.caps.subgroup;
}

uint8_t *
lab_device_heap(const lab_device *l, uint64_t *out_address)
{
    *out_address = l->heap.address;
    return l->heap.mapped;
}

static uint64_t
hash(const char *s)
{
    uint64_t h = 1469598103934665603u; /* FNV-1a */
    for (; *s; s++)
        h = (h ^ (unsigned char)*s) * 1099511628211u;
    return h;
}

static dop_status
make_pipeline(lab_device *l, const dop_buf *spirv, uint32_t subgroup, dop_diag *diag, VkPipeline *out)
{
    VkShaderModuleCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
        .codeSize = spirv->size,
        .pCode = (const uint32_t *)(const void *)spirv->data,
    };
    VkShaderModule module;
    VkResult r = vkCreateShaderModule(l->device.handle, &info, NULL, &module);
    if (r != VK_SUCCESS)
        return DOP_VK_FAIL(diag, r, "vkCreateShaderModule");
    VkPipelineShaderStageRequiredSubgroupSizeCreateInfo size = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO,
        .requiredSubgroupSize = subgroup,
    };
    bool required = subgroup > 1 && l->device.info.subgroup_control;
    VkComputePipelineCreateInfo pipeline = {
        .sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
        .stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                  .pNext = required ? &size : NULL,
                  .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                  .module = module,
                  .pName = "main"},
        .layout = l->layout,
    };
    r = vkCreateComputePipelines(l->device.handle, VK_NULL_HANDLE, 1, &pipeline, NULL, out);
    vkDestroyShaderModule(l->device.handle, module, NULL);
    return r == VK_SUCCESS ? DOP_OK : DOP_VK_FAIL(diag, r, "vkCreateComputePipelines");
}

bool
lab_device_find(const lab_device *l, const char *glsl, uint32_t *out_kernel)
{
    uint64_t h = hash(glsl);
    for (uint32_t i = 0; i < l->n_kernels; i++)
        if (l->kernels[i].hash == h && strcmp(l->kernels[i].glsl, glsl) == 0) {
            *out_kernel = i;
            return true;
        }
    return false;
}

dop_status
lab_device_add(lab_device *l, const char *glsl, const dop_buf *spirv, uint32_t subgroup, dop_diag *diag,
               uint32_t *out_kernel)
{
    lab_kernel fresh = {.hash = hash(glsl)};
    dop_status st = make_pipeline(l, spirv, subgroup, diag, &fresh.pipeline);
    if (st != DOP_OK)
        return st;
    lab_kernel *grown = realloc(l->kernels, (l->n_kernels + 1) * sizeof *grown);
    if (grown)
        l->kernels = grown;
    fresh.glsl = strdup(glsl);
    if (!grown || !fresh.glsl)
        return DOP_NO_MEMORY(diag);
    *out_kernel = l->n_kernels;
    l->kernels[l->n_kernels++] = fresh;
    return DOP_OK;
}

void
lab_device_lose(lab_device *l, uint32_t n)
{
    l->lost = n;
}

dop_status
lab_device_run(lab_device *l, const lab_dispatch *list, uint32_t n, dop_diag *diag)
{
    VkCommandBuffer c = l->commands;
    VkCommandBufferBeginInfo begin = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
    VkMemoryBarrier barrier = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
        .srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT,
        .dstAccessMask = VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT,
    };
    VkResult r = vkBeginCommandBuffer(c, &begin);
    for (uint32_t i = 0; r == VK_SUCCESS && i < n; i++) {
        const lab_dispatch *d = &list[i];
        if (d->barrier)
            vkCmdPipelineBarrier(c, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, 0, 1,
                                 &barrier, 0, NULL, 0, NULL);
        if (i == l->lost)
            continue;
        vkCmdBindPipeline(c, VK_PIPELINE_BIND_POINT_COMPUTE, l->kernels[d->kernel].pipeline);
        const uint64_t record = LAB_HEAP + i * sizeof d->args, at = l->heap.address + record;
        if (dop_has_record(d->n_args))
            memcpy((uint8_t *)l->heap.mapped + record, d->args, sizeof d->args);
        if (d->n_args > 0)
            vkCmdPushConstants(c, l->layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, dop_push_bytes(d->n_args),
                               dop_has_record(d->n_args) ? &at : d->args);
        vkCmdDispatch(c, d->grid[0], d->grid[1], d->grid[2]);
    }
    if (r == VK_SUCCESS)
        r = vkEndCommandBuffer(c);
    if (r != VK_SUCCESS)
        return DOP_VK_FAIL(diag, r, "recording");
    uint64_t value = l->ticks + 1;
    dop_status st = dop_device_submit(&l->device, l->device.queue, &l->commands, 1, l->timeline, value, diag);
    l->ticks = value;
    return st == DOP_OK ? dop_device_wait(&l->device, l->timeline, value, diag) : st;
}
