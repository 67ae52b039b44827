#include "tools/bench/bench_kernels.h"

#include "runtime/device/memory.h"

#include <stdlib.h>
#include <string.h>

enum { COPIES = 16, UPDATE = 65536 };
static const uint64_t beyond_caches = 256u << 20;

struct dop_kernel_bench {
    dop_instance instance;
    dop_device device;
    VkPipelineLayout layout;
    VkCommandPool pool;
    VkCommandBuffer commands;
    VkSemaphore timeline;
    uint64_t ticks;
    dop_block memory, records; /* records: parameter records of the timed runs */
    dop_views views;           /* views of `memory`, if the device lets kernels read through views */
    uint64_t size;             /* bytes in one copy of the memory */
    uint32_t copies, next;
    uint32_t n_kernels, cap_kernels;
    VkPipeline *kernels;
};

static dop_status
open_objects(dop_kernel_bench *b, dop_diag *diag)
{
    VkCommandPoolCreateInfo pool = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
                                    .flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT,
                                    .queueFamilyIndex = b->device.info.queue_family};
    dop_status st = dop_pipeline_layout(&b->device, diag, &b->layout);
    if (st != DOP_OK)
        return st;
    VkResult r = vkCreateCommandPool(b->device.handle, &pool, NULL, &b->pool);
    VkCommandBufferAllocateInfo allocate = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
                                            .commandPool = b->pool,
                                            .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
                                            .commandBufferCount = 1};
    if (r == VK_SUCCESS)
        r = vkAllocateCommandBuffers(b->device.handle, &allocate, &b->commands);
    return r == VK_SUCCESS ? dop_device_timeline(&b->device, diag, &b->timeline)
                           : DOP_VK_FAIL(diag, r, "making what kernels are timed with");
}

dop_status
dop_kernel_bench_open(dop_diag *diag, dop_kernel_bench **out_bench)
{
    uint32_t index = 0;
    dop_kernel_bench *b = calloc(1, sizeof *b);
    *out_bench = NULL;
    if (!b)
        return DOP_NO_MEMORY(diag);
    dop_status st = dop_instance_create(diag, &b->instance);
    if (st == DOP_OK)
        st = dop_instance_choose(&b->instance, NULL, diag, &index);
    if (st == DOP_OK && b->instance.devices[index].timestamp_bits == 0)
        st = DOP_FAIL(diag, DOP_E_DEVICE, "%s has no timestamps on its compute queue",
                      b->instance.devices[index].caps.name);
    if (st == DOP_OK)
        st = dop_device_create(&b->instance, index, b->instance.devices[index].caps.caps, diag, &b->device);
    if (st == DOP_OK)
        st = open_objects(b, diag);
    if (st == DOP_OK)
        *out_bench = b;
    else
        dop_kernel_bench_close(b);
    return st;
}

void
dop_kernel_bench_close(dop_kernel_bench *b)
{
    if (!b)
        return;
    VkDevice d = b->device.handle;
    if (d && !b->device.hung) {
        for (uint32_t i = 0; i < b->n_kernels; i++)
            vkDestroyPipeline(d, b->kernels[i], NULL);
        vkDestroySemaphore(d, b->timeline, NULL);
        vkDestroyCommandPool(d, b->pool, NULL);
        vkDestroyPipelineLayout(d, b->layout, NULL);
        dop_views_destroy(&b->views);
        dop_block_destroy(&b->device, &b->memory);
    }
    free(b->kernels);
    dop_device_destroy(&b->device);
    dop_instance_destroy(&b->instance);
    free(b);
}

const dop_device_caps *
dop_kernel_bench_caps(const dop_kernel_bench *b)
{
    return &b->device.info.caps;
}

static void
wait_for_all(dop_kernel_bench *b)
{
    VkMemoryBarrier all = {.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
                           .srcAccessMask = VK_ACCESS_MEMORY_WRITE_BIT,
                           .dstAccessMask = VK_ACCESS_MEMORY_READ_BIT | VK_ACCESS_MEMORY_WRITE_BIT};
    vkCmdPipelineBarrier(b->commands, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, 0, 1,
                         &all, 0, NULL, 0, NULL);
}

static dop_status
submit_kernel_commands(dop_kernel_bench *b, dop_diag *diag)
{
    wait_for_all(b);
    VkResult r = vkEndCommandBuffer(b->commands);
    if (r != VK_SUCCESS)
        return DOP_VK_FAIL(diag, r, "vkEndCommandBuffer");
    uint64_t value = b->ticks + 1;
    DOP_RETURN_IF_ERROR(dop_device_submit(&b->device, b->device.queue, &b->commands, 1, b->timeline, value, diag));
    b->ticks = value;
    return dop_device_wait(&b->device, b->timeline, value, diag);
}

dop_status
dop_kernel_bench_memory(dop_kernel_bench *bench, uint64_t size, dop_diag *diag, uint64_t *out_address)
{
    dop_kernel_bench *b = bench;
    dop_views_destroy(&b->views);
    dop_block_destroy(&b->device, &b->memory);
    b->size = dop_align_u64(size, 256);
    b->copies = b->device.info.caps.cpu ? 1 : (uint32_t)(beyond_caches / b->size + 1);
    b->copies = b->copies > COPIES ? COPIES : b->copies;
    b->next = 0;
    dop_status st =
        dop_block_create(&b->device, b->size * b->copies, VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT, 0, 0, diag, &b->memory);
    const bool viewed = b->device.view_layout && b->size * b->copies / DOP_TEXEL_BYTES <= DOP_VIEW_MAX_TEXELS;
    if (st == DOP_OK && viewed)
        st = dop_views_create(&b->device, 1, 1, diag, &b->views);
    if (st == DOP_OK && viewed)
        st = dop_views_add(&b->views, 0, b->memory.buffer, b->size * b->copies, diag);
    if (st == DOP_OK)
        st = dop_device_begin(b->commands, VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT, diag);
    if (st != DOP_OK)
        return st;
    vkCmdFillBuffer(b->commands, b->memory.buffer, 0, b->size * b->copies, 0x3c003c00u);
    *out_address = b->memory.address;
    return submit_kernel_commands(b, diag);
}

dop_status
dop_kernel_bench_write(dop_kernel_bench *bench, uint64_t offset, const void *bytes, uint64_t size, dop_diag *diag)
{
    dop_kernel_bench *b = bench;
    DOP_RETURN_IF_ERROR(dop_device_begin(b->commands, VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT, diag));
    for (uint32_t c = 0; c < b->copies; c++) {
        const uint64_t to = c * b->size + offset;
        if (!bytes)
            vkCmdFillBuffer(b->commands, b->memory.buffer, to, size, 0);
        for (uint64_t at = 0; bytes && at < size; at += UPDATE)
            vkCmdUpdateBuffer(b->commands, b->memory.buffer, to + at, size - at < UPDATE ? size - at : UPDATE,
                              (const uint8_t *)bytes + at);
    }
    return submit_kernel_commands(b, diag);
}

dop_status
dop_kernel_bench_add(dop_kernel_bench *bench, const dop_buf *spirv, uint32_t subgroup, uint32_t local, dop_diag *diag,
                     uint32_t *out_kernel)
{
    dop_kernel_bench *b = bench;
    if (b->n_kernels == b->cap_kernels) {
        uint32_t cap = b->cap_kernels ? 2 * b->cap_kernels : 32;
        VkPipeline *grown = realloc(b->kernels, cap * sizeof *grown);
        if (!grown)
            return DOP_NO_MEMORY(diag);
        b->kernels = grown;
        b->cap_kernels = cap;
    }
    VkShaderModuleCreateInfo info = {.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
                                     .codeSize = spirv->size,
                                     .pCode = (const uint32_t *)(const void *)spirv->data};
    VkShaderModule module;
    VkResult r = vkCreateShaderModule(b->device.handle, &info, NULL, &module);
    if (r != VK_SUCCESS)
        return DOP_VK_FAIL(diag, r, "vkCreateShaderModule");
    VkPipelineShaderStageRequiredSubgroupSizeCreateInfo size = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO,
        .requiredSubgroupSize = subgroup};
    const bool control = subgroup > 1 && b->device.info.subgroup_control;
    VkComputePipelineCreateInfo pipeline = {.sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
                                            .stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                                                      .pNext = control ? &size : NULL,
                                                      .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                                                      .module = module,
                                                      .pName = "main"},
                                            .layout = b->layout};
    if (control && b->device.info.full_subgroups && local % subgroup == 0)
        pipeline.stage.flags = VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT;
    r = vkCreateComputePipelines(b->device.handle, VK_NULL_HANDLE, 1, &pipeline, NULL, &b->kernels[b->n_kernels]);
    vkDestroyShaderModule(b->device.handle, module, NULL);
    if (r != VK_SUCCESS)
        return DOP_VK_FAIL(diag, r, "vkCreateComputePipelines");
    *out_kernel = b->n_kernels++;
    return DOP_OK;
}

static uint64_t
moved_arg(const dop_kernel_run *run, uint32_t k, uint64_t moved)
{
    const uint64_t arg = run->args[k] + (run->kinds[k] == DOP_RUN_NUMBERS ? 0 : moved);
    return run->kinds[k] == DOP_RUN_VIEW ? arg / DOP_TEXEL_BYTES : arg;
}

static void
record_kernel_dispatch(dop_kernel_bench *b, const dop_kernel_run *run, uint64_t moved)
{
    uint64_t args[DOP_PUSH_ARGS] = {b->records.address + run->record};
    bool views = false;
    for (uint32_t k = 0; k < run->n_args; k++) {
        views = views || run->kinds[k] == DOP_RUN_VIEW;
        if (!dop_has_record(run->n_args))
            args[k] = moved_arg(run, k, moved);
    }
    if (views)
        vkCmdBindDescriptorSets(b->commands, VK_PIPELINE_BIND_POINT_COMPUTE, b->layout, 0, 1, b->views.sets, 0, NULL);
    vkCmdBindPipeline(b->commands, VK_PIPELINE_BIND_POINT_COMPUTE, b->kernels[run->kernel]);
    if (run->n_args > 0)
        vkCmdPushConstants(b->commands, b->layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, dop_push_bytes(run->n_args), args);
    vkCmdDispatch(b->commands, run->grid[0], run->grid[1], run->grid[2]);
}

static void
write_records(dop_kernel_bench *b, const dop_kernel_run *list, uint32_t n, uint64_t moved)
{
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < list[i].n_args && dop_has_record(list[i].n_args); k++) {
            const uint64_t arg = moved_arg(&list[i], k, moved);
            vkCmdUpdateBuffer(b->commands, b->records.buffer, list[i].record + k * sizeof arg, sizeof arg, &arg);
        }
    wait_for_all(b);
}

/* Runs every dispatch of the list once, each after a barrier. Rounds start at different dispatches. An untimed
 * dispatch goes first, because the first one of a submission takes longer. */
static dop_status
run_kernel_round(dop_kernel_bench *b, const dop_kernel_run *list, uint32_t n, VkQueryPool queries, dop_diag *diag)
{
    dop_status st = dop_device_begin(b->commands, VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT, diag);
    if (st != DOP_OK)
        return st;
    vkCmdResetQueryPool(b->commands, queries, 0, 2 * n);
    const uint64_t moved = b->next++ % b->copies * b->size;
    const uint32_t first = b->next % n;
    write_records(b, list, n, moved);
    record_kernel_dispatch(b, &list[first], moved);
    wait_for_all(b);
    for (uint32_t k = 0; k < n; k++) {
        const uint32_t i = (first + k) % n;
        vkCmdWriteTimestamp(b->commands, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, queries, 2 * i);
        record_kernel_dispatch(b, &list[i], moved);
        vkCmdWriteTimestamp(b->commands, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, queries, 2 * i + 1);
        wait_for_all(b);
    }
    return submit_kernel_commands(b, diag);
}

/* Assigns space for the parameter record of every run that has one. */
static dop_status
place_records(dop_kernel_bench *b, dop_kernel_run *list, uint32_t n, dop_diag *diag)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < n; i++) {
        list[i].record = bytes;
        bytes += dop_record_bytes(list[i].n_args);
    }
    return bytes ? dop_block_create(&b->device, bytes, VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT, 0, 0, diag, &b->records)
                 : DOP_OK;
}

static int
compare_kernel_times(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

dop_status
dop_kernel_bench_time(dop_kernel_bench *bench, dop_kernel_run *list, uint32_t n, uint32_t rounds, dop_diag *diag,
                      double *out_us)
{
    dop_kernel_bench *b = bench;
    const uint32_t bits = b->device.info.timestamp_bits;
    const uint64_t mask = bits >= 64 ? UINT64_MAX : ((uint64_t)1 << bits) - 1;
    VkQueryPool queries = VK_NULL_HANDLE;
    VkQueryPoolCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO, .queryType = VK_QUERY_TYPE_TIMESTAMP, .queryCount = 2 * n};
    uint64_t *ticks = calloc(2 * (size_t)n, sizeof *ticks);
    double *us = calloc((size_t)n * rounds, sizeof *us);
    VkResult r = vkCreateQueryPool(b->device.handle, &info, NULL, &queries);
    dop_status st = !ticks || !us     ? DOP_NO_MEMORY(diag)
                    : r != VK_SUCCESS ? DOP_VK_FAIL(diag, r, "vkCreateQueryPool")
                                      : place_records(b, list, n, diag);
    if (st == DOP_OK)
        st = run_kernel_round(b, list, n, queries, diag);
    for (uint32_t k = 0; k < rounds && st == DOP_OK; k++) {
        st = run_kernel_round(b, list, n, queries, diag);
        r = st == DOP_OK ? vkGetQueryPoolResults(b->device.handle, queries, 0, 2 * n, 2 * n * sizeof *ticks, ticks,
                                                 sizeof *ticks, VK_QUERY_RESULT_64_BIT | VK_QUERY_RESULT_WAIT_BIT)
                         : VK_SUCCESS;
        if (r != VK_SUCCESS)
            st = DOP_VK_FAIL(diag, r, "vkGetQueryPoolResults");
        for (uint32_t i = 0; i < n; i++)
            us[i * rounds + k] =
                (double)((ticks[2 * i + 1] - ticks[2 * i]) & mask) * (double)b->device.info.timestamp_period * 1e-3;
    }
    for (uint32_t i = 0; i < n && st == DOP_OK; i++) {
        qsort(us + i * rounds, rounds, sizeof *us, compare_kernel_times);
        out_us[i] = us[i * rounds + rounds / 2];
    }
    if (queries && !b->device.hung)
        vkDestroyQueryPool(b->device.handle, queries, NULL);
    dop_block_destroy(&b->device, &b->records);
    free(ticks);
    free(us);
    return st;
}
