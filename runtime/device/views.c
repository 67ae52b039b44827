#include "runtime/device/views.h"

#include <stdlib.h>
#include <string.h>

dop_status
dop_pipeline_layout(const dop_device *device, dop_diag *diag, VkPipelineLayout *out_layout)
{
    const VkPushConstantRange range = {VK_SHADER_STAGE_COMPUTE_BIT, 0, 128}; /* minimum that every device supports */
    VkDescriptorSetLayout sets[DOP_N_VIEWS];
    for (uint32_t i = 0; i < DOP_N_VIEWS; i++)
        sets[i] = device->view_layout;
    VkPipelineLayoutCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
        .setLayoutCount = device->view_layout ? DOP_N_VIEWS : 0,
        .pSetLayouts = sets,
        .pushConstantRangeCount = 1,
        .pPushConstantRanges = &range,
    };
    const VkResult r = vkCreatePipelineLayout(device->handle, &info, NULL, out_layout);
    return r == VK_SUCCESS ? DOP_OK : DOP_VK_FAIL(diag, r, "vkCreatePipelineLayout");
}

dop_status
dop_views_create(const dop_device *device, uint32_t n, uint32_t most, dop_diag *diag, dop_views *out_views)
{
    dop_views *v = out_views;
    *v = (dop_views){.device = device, .n = n};
    if (most == 0)
        return DOP_OK;
    v->views = calloc(n, sizeof(VkBufferView));
    v->sets = calloc(n, sizeof(VkDescriptorSet));
    if (!v->views || !v->sets)
        return DOP_NO_MEMORY(diag);
    const VkDescriptorPoolSize size = {VK_DESCRIPTOR_TYPE_UNIFORM_TEXEL_BUFFER, most};
    const VkDescriptorPoolCreateInfo pool = {
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO,
        .maxSets = most,
        .poolSizeCount = 1,
        .pPoolSizes = &size,
    };
    const VkResult r = vkCreateDescriptorPool(device->handle, &pool, NULL, &v->pool);
    return r == VK_SUCCESS ? DOP_OK : DOP_VK_FAIL(diag, r, "vkCreateDescriptorPool");
}

dop_status
dop_views_add(dop_views *views, uint32_t i, VkBuffer buffer, uint64_t bytes, dop_diag *diag)
{
    if (bytes / DOP_TEXEL_BYTES > DOP_VIEW_MAX_TEXELS)
        return DOP_FAIL(diag, DOP_E_DEVICE,
                        "an allocation of %llu bytes is larger than what kernels of this plan can see",
                        (unsigned long long)bytes);
    VkDevice d = views->device->handle;
    const VkBufferViewCreateInfo view = {
        .sType = VK_STRUCTURE_TYPE_BUFFER_VIEW_CREATE_INFO,
        .buffer = buffer,
        .format = VK_FORMAT_R32G32B32A32_UINT,
        .range = bytes / DOP_TEXEL_BYTES * DOP_TEXEL_BYTES,
    };
    VkResult r = vkCreateBufferView(d, &view, NULL, &views->views[i]);
    if (r != VK_SUCCESS)
        return DOP_VK_FAIL(diag, r, "vkCreateBufferView");
    const VkDescriptorSetAllocateInfo set = {
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO,
        .descriptorPool = views->pool,
        .descriptorSetCount = 1,
        .pSetLayouts = &views->device->view_layout,
    };
    r = vkAllocateDescriptorSets(d, &set, &views->sets[i]);
    if (r != VK_SUCCESS)
        return DOP_VK_FAIL(diag, r, "vkAllocateDescriptorSets");
    const VkWriteDescriptorSet write = {
        .sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET,
        .dstSet = views->sets[i],
        .descriptorCount = 1,
        .descriptorType = VK_DESCRIPTOR_TYPE_UNIFORM_TEXEL_BUFFER,
        .pTexelBufferView = &views->views[i],
    };
    vkUpdateDescriptorSets(d, 1, &write, 0, NULL);
    return DOP_OK;
}

void
dop_views_destroy(dop_views *views)
{
    if (views->pool && !views->device->hung) {
        vkDestroyDescriptorPool(views->device->handle, views->pool, NULL);
        for (uint32_t i = 0; views->views && i < views->n; i++)
            vkDestroyBufferView(views->device->handle, views->views[i], NULL);
    }
    free(views->views);
    free(views->sets);
    memset(views, 0, sizeof *views);
}
