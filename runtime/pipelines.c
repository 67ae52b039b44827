#include "runtime/pipelines.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_THREADS = 64 };

/* Why the device cannot run the kernel, capabilities aside; nothing is said of one that it can run. */
static void
refuse_kernel(const dop_device_info *info, const dop_plan *plan, const dop_plan_kernel *k, dop_buf *out)
{
    const char *name = dop_plan_string(plan, k->name), *device = info->caps.name;
    if (k->subgroup && (k->subgroup < info->subgroup_min || k->subgroup > info->subgroup_max)) {
        dop_buf_printf(out, "needs subgroups of %u invocations and %s has %u to %u (kernel %s)", k->subgroup, device,
                       info->subgroup_min, info->subgroup_max, name);
        return;
    }
    uint32_t n = k->local[0] * k->local[1] * k->local[2]; /* at most 4096, checked at load */
    const char *what = NULL;
    uint32_t need = 0, has = 0;
    if (k->shared_bytes > info->caps.shared_bytes) {
        what = "bytes of shared memory";
        need = k->shared_bytes;
        has = info->caps.shared_bytes;
    } else if (n > info->caps.max_workgroup) {
        what = "invocations per workgroup";
        need = n;
        has = info->caps.max_workgroup;
    } else if (k->push_bytes > info->caps.push_bytes) {
        what = "bytes of push constants";
        need = k->push_bytes;
        has = info->caps.push_bytes;
    } else if (k->subgroup && info->subgroup_control && n > k->subgroup * info->max_subgroups) {
        what = "subgroups per workgroup";
        need = dop_div_up_u32(n, k->subgroup);
        has = info->max_subgroups;
    }
    for (int d = 0; d < 3 && !what; d++)
        if (k->local[d] > info->max_local[d]) {
            what = "invocations per workgroup in one direction";
            need = k->local[d];
            has = info->max_local[d];
        }
    if (what)
        dop_buf_printf(out, "needs %u %s and %s has %u (kernel %s)", need, what, device, has, name);
}

static void
refuse_grids(const dop_device_info *info, const dop_plan *plan, const dop_plan_schedule *s, dop_buf *out)
{
    const uint32_t *max = info->max_grid;
    for (uint32_t i = 0; i < s->n_dispatches && out->size == 0; i++) {
        const dop_plan_dispatch *d = &plan->dispatches[s->first_dispatch + i];
        if (d->grid[0] > max[0] || d->grid[1] > max[1] || d->grid[2] > max[2])
            dop_buf_printf(out, "needs %u x %u x %u workgroups and %s has %u x %u x %u (dispatch %s)", d->grid[0],
                           d->grid[1], d->grid[2], info->caps.name, max[0], max[1], max[2],
                           dop_plan_string(plan, d->label));
    }
}

void
dop_pipelines_refuse(const dop_device_info *info, const dop_plan *plan, const bool *kernels, const bool *schedules,
                     dop_buf *out_reason)
{
    uint32_t missing = 0, first = 0;
    for (uint32_t i = 0; i < plan->n_kernels; i++) {
        uint32_t lacks = kernels[i] ? plan->kernels[i].caps & ~info->caps.caps : 0;
        first = missing ? first : i;
        missing |= lacks;
    }
    if (missing) {
        dop_buf_puts(out_reason, "needs ");
        dop_caps_names(missing, out_reason);
        dop_buf_printf(out_reason, ", which %s lacks (kernel %s)", info->caps.name,
                       dop_plan_string(plan, plan->kernels[first].name));
    }
    for (uint32_t i = 0; i < plan->n_kernels && out_reason->size == 0; i++)
        if (kernels[i])
            refuse_kernel(info, plan, &plan->kernels[i], out_reason);
    for (uint32_t i = 0; i < plan->n_schedules && out_reason->size == 0; i++)
        if (schedules[i])
            refuse_grids(info, plan, &plan->schedules[i], out_reason);
}

typedef struct build {
    dop_pipelines *out;
    const dop_plan *plan;
    const bool *used;
    VkPipelineCache cache;
    _Atomic uint32_t next;
    _Atomic bool failed;
} build;

typedef struct builder {
    build *b;
    pthread_t thread;
    bool started;
    dop_status st;
    dop_diag diag;
} builder;

static dop_status
create_one(build *b, uint32_t i, dop_diag *diag)
{
    const dop_plan_kernel *k = &b->plan->kernels[i];
    dop_device *d = b->out->device;
    VkShaderModuleCreateInfo module_info = {
        .sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
        .codeSize = (size_t)k->spirv_words * 4,
        .pCode = b->plan->spirv + k->spirv_first,
    };
    VkShaderModule module = VK_NULL_HANDLE;
    VkResult r = vkCreateShaderModule(d->handle, &module_info, NULL, &module);
    if (r == VK_SUCCESS) {
        bool control = k->subgroup && d->info.subgroup_control;
        VkPipelineShaderStageRequiredSubgroupSizeCreateInfo size = {
            .sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO,
            .requiredSubgroupSize = k->subgroup,
        };
        VkComputePipelineCreateInfo info = {
            .sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
            .stage =
                {
                    .sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                    .pNext = control ? &size : NULL,
                    .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                    .module = module,
                    .pName = "main",
                },
            .layout = b->out->layout,
        };
        if (control && d->info.full_subgroups && k->local[0] % k->subgroup == 0)
            info.stage.flags = VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT;
        r = vkCreateComputePipelines(d->handle, b->cache, 1, &info, NULL, &b->out->rows[i]);
    }
    vkDestroyShaderModule(d->handle, module, NULL);
    if (r == VK_SUCCESS)
        return DOP_OK;
    b->out->rows[i] = VK_NULL_HANDLE;
    char what[256];
    snprintf(what, sizeof what, "creating the pipeline of kernel %s", dop_plan_string(b->plan, k->name));
    return DOP_VK_FAIL(diag, r, what);
}

static void *
builder_main(void *arg)
{
    builder *w = arg;
    while (w->st == DOP_OK && !atomic_load(&w->b->failed)) {
        uint32_t i = atomic_fetch_add(&w->b->next, 1);
        if (i >= w->b->plan->n_kernels)
            break;
        if (w->b->used[i])
            w->st = create_one(w->b, i, &w->diag);
    }
    if (w->st != DOP_OK)
        atomic_store(&w->b->failed, true);
    return NULL;
}

static dop_status
build_all(build *b, uint32_t n_threads, dop_diag *diag)
{
    dop_status st = DOP_OK;
    uint32_t n = n_threads < 1 ? 1 : n_threads > MAX_THREADS ? MAX_THREADS : n_threads;
    builder *workers = calloc(n, sizeof *workers);
    if (!workers)
        return DOP_FAIL(diag, DOP_E_NOMEM, "out of memory");
    for (uint32_t i = 0; i < n; i++)
        workers[i].b = b;
    for (uint32_t i = 1; i < n; i++)
        workers[i].started = pthread_create(&workers[i].thread, NULL, builder_main, &workers[i]) == 0;
    builder_main(&workers[0]);
    for (uint32_t i = 1; i < n; i++)
        if (workers[i].started)
            pthread_join(workers[i].thread, NULL);
    for (uint32_t i = 0; i < n && st == DOP_OK; i++)
        if (workers[i].st != DOP_OK) {
            st = workers[i].st;
            if (diag)
                *diag = workers[i].diag;
        }
    free(workers);
    return st;
}

dop_status
dop_pipelines_create(dop_device *device, const dop_plan *plan, const bool *used, uint32_t n_threads,
                     const char *cache_dir, const dop_log *log, dop_diag *diag, dop_pipelines *out_pipelines)
{
    dop_pipelines *p = out_pipelines;
    dop_pipeline_cache cache = {0};
    memset(p, 0, sizeof *p);
    p->device = device;
    p->n_rows = plan->n_kernels;
    p->rows = calloc(plan->n_kernels, sizeof(VkPipeline));
    if (!p->rows)
        return DOP_FAIL(diag, DOP_E_NOMEM, "out of memory");
    VkPushConstantRange range = {VK_SHADER_STAGE_COMPUTE_BIT, 0, 128}; /* the least every device has */
    VkPipelineLayoutCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
        .pushConstantRangeCount = 1,
        .pPushConstantRanges = &range,
    };
    dop_status st = DOP_OK;
    VkResult r = vkCreatePipelineLayout(device->handle, &info, NULL, &p->layout);
    if (r != VK_SUCCESS)
        st = DOP_VK_FAIL(diag, r, "vkCreatePipelineLayout");
    if (st == DOP_OK)
        st = dop_pipeline_cache_load(device, cache_dir, log, diag, &cache);
    if (st == DOP_OK) {
        build b = {.out = p, .plan = plan, .used = used, .cache = cache.handle};
        st = build_all(&b, n_threads, diag);
    }
    if (st == DOP_OK)
        dop_pipeline_cache_save(device, &cache, log);
    vkDestroyPipelineCache(device->handle, cache.handle, NULL);
    if (st != DOP_OK)
        dop_pipelines_destroy(p);
    return st;
}

void
dop_pipelines_destroy(dop_pipelines *pipelines)
{
    dop_device *d = pipelines->device;
    if (d && d->handle && !d->lost) {
        for (uint32_t i = 0; i < pipelines->n_rows && pipelines->rows; i++)
            vkDestroyPipeline(d->handle, pipelines->rows[i], NULL);
        vkDestroyPipelineLayout(d->handle, pipelines->layout, NULL);
    }
    free(pipelines->rows);
    memset(pipelines, 0, sizeof *pipelines);
}
