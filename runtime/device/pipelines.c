#include "runtime/device/pipelines.h"

#include "base/clock.h"
#include "base/parallel.h"
#include "runtime/device/replay.h"
#include "runtime/device/views.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Appends why the device cannot run the kernel, missing capabilities aside; nothing where it can. */
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
    } else if (dop_push_bytes(k->n_args) > info->caps.push_bytes) {
        what = "bytes of push constants";
        need = dop_push_bytes(k->n_args);
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
dop_pipelines_refuse(const dop_device_info *info, const dop_plan *plan, const bool *kernels, const uint32_t *schedules,
                     uint32_t n_used, uint32_t matrix, dop_buf *out_reason)
{
    uint32_t missing = 0, first = 0, forms = 0;
    for (uint32_t i = 0; i < plan->n_kernels; i++) {
        uint32_t lacks = kernels[i] ? plan->kernels[i].caps & ~info->caps.caps : 0;
        first = missing ? first : i;
        missing |= lacks;
        forms |= kernels[i] ? plan->kernels[i].caps & DOP_CAP_coop : 0;
    }
    if (missing) {
        dop_buf_puts(out_reason, "needs ");
        dop_caps_names(missing, out_reason);
        dop_buf_printf(out_reason, ", which %s lacks (kernel %s)", info->caps.name,
                       dop_plan_string(plan, plan->kernels[first].name));
    }
    if (!missing && forms && !dop_device_has_matrix(info, forms, matrix)) {
        dop_buf_printf(out_reason, "needs matrix units of %ux%ux%u with f16 factors and f32 sums, and %s has ",
                       dop_matrix_m(matrix), dop_matrix_n(matrix), dop_matrix_k(matrix), info->caps.name);
        bool nv = (forms & DOP_CAP_coop_nv) && !dop_device_has_matrix(info, DOP_CAP_coop_nv, matrix);
        dop_matrix_names(nv ? &info->matrix_nv : &info->matrix_khr, out_reason);
    }
    for (uint32_t i = 0; i < plan->n_kernels && out_reason->size == 0; i++)
        if (kernels[i])
            refuse_kernel(info, plan, &plan->kernels[i], out_reason);
    for (uint32_t i = 0; i < n_used && out_reason->size == 0; i++)
        refuse_grids(info, plan, &plan->schedules[schedules[i]], out_reason);
}

typedef struct dop_pipeline_build {
    dop_pipelines *out;
    const dop_plan *plan;
    const dop_log *log;
    const char *cache_dir; /* not owned: valid until the cache is loaded */
    dop_pipeline_cache cache;
    uint32_t *order;
    uint32_t n_order;
    _Atomic uint32_t next;
    _Atomic bool stop; /* no more pipelines are created: memory or the device is lost, or nobody waits for them */
    uint32_t n_builders;
    double start_ms;      /* dop_now_ms when the threads started */
    dop_team team;        /* the threads that create pipelines */
    pthread_mutex_t lock; /* guards the fields below, and rows of pipelines that are not created yet */
    pthread_cond_t changed;
    bool cache_loaded;
    VkResult *results; /* [n_kernels]: of creating the kernel's pipeline; VK_NOT_READY: not finished */
    float *took_ms;    /* [n_kernels]: how long that took */
    uint32_t n_made;   /* pipelines */
    dop_status st;     /* why no more are created */
    dop_diag diag;
} dop_pipeline_build;

/* Did the driver refuse a kernel?  It may take others. */
static bool
is_refusal(VkResult r)
{
    return r != VK_SUCCESS && r != VK_NOT_READY && r != VK_ERROR_OUT_OF_HOST_MEMORY &&
           r != VK_ERROR_OUT_OF_DEVICE_MEMORY && r != VK_ERROR_DEVICE_LOST;
}

static dop_status
fail(const dop_device *d, const dop_plan *plan, uint32_t kernel, VkResult r, dop_diag *diag)
{
    const dop_plan_kernel *k = &plan->kernels[kernel];
    const char *name = dop_plan_string(plan, k->name);
    if (is_refusal(r))
        return DOP_FAIL(diag, DOP_E_DEVICE,
                        "the driver of %s refuses kernel %s (Vulkan error %d): update the driver, or compile the plan "
                        "again with `avoids` %s",
                        d->info.caps.name, name, (int)r, dop_plan_string(plan, k->variant));
    char what[256];
    snprintf(what, sizeof what, "creating the pipeline of kernel %s", name);
    return DOP_VK_FAIL(diag, r, what);
}

static VkResult
create(const dop_device *d, VkPipelineLayout layout, VkPipelineCache cache, const dop_plan *plan, uint32_t kernel,
       VkPipeline *out_pipeline)
{
    const dop_plan_kernel *k = &plan->kernels[kernel];
    VkShaderModuleCreateInfo module_info = {
        .sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
        .codeSize = (size_t)k->spirv_words * 4,
        .pCode = plan->spirv + k->spirv_first,
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
            .flags =
                (d->info.statistics ? VK_PIPELINE_CREATE_CAPTURE_STATISTICS_BIT_KHR : 0u) |
                (dop_replay_divides(&d->info, plan, kernel, d->submit_ms) ? VK_PIPELINE_CREATE_DISPATCH_BASE_BIT : 0u),
            .stage =
                {
                    .sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                    .pNext = control ? &size : NULL,
                    .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                    .module = module,
                    .pName = "main",
                },
            .layout = layout,
        };
        if (control && d->info.full_subgroups && k->local[0] % k->subgroup == 0)
            info.stage.flags = VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT;
        r = vkCreateComputePipelines(d->handle, cache, 1, &info, NULL, out_pipeline);
    }
    vkDestroyShaderModule(d->handle, module, NULL);
    if (r != VK_SUCCESS)
        *out_pipeline = VK_NULL_HANDLE;
    if (is_refusal(r) && d->refused)
        d->refused(d->refused_user, dop_plan_string(plan, k->variant));
    return r;
}

dop_status
dop_pipeline_create(const dop_device *device, VkPipelineLayout layout, VkPipelineCache cache, const dop_plan *plan,
                    uint32_t kernel, VkPipeline *out_pipeline, dop_diag *diag)
{
    const VkResult r = create(device, layout, cache, plan, kernel, out_pipeline);
    return r == VK_SUCCESS ? DOP_OK : fail(device, plan, kernel, r, diag);
}

/* The first thread loads the cache and the others wait for it: whoever started them has other things to do. */
static void
load_cache(dop_pipeline_build *b)
{
    pthread_mutex_lock(&b->lock);
    if (!b->cache_loaded) {
        b->cache_loaded = true;
        b->st = dop_pipeline_cache_load(b->out->device, b->cache_dir, b->log, &b->diag, &b->cache);
        if (b->st != DOP_OK) {
            atomic_store(&b->stop, true);
            pthread_cond_broadcast(&b->changed); /* a thread may wait already for a pipeline that is not created now */
        }
    }
    pthread_mutex_unlock(&b->lock);
}

static void
build_pipelines(void *user, uint32_t member)
{
    dop_pipeline_build *b = user;
    (void)member;
    load_cache(b);
    while (!atomic_load(&b->stop)) {
        uint32_t next = atomic_fetch_add(&b->next, 1);
        if (next >= b->n_order)
            break;
        const uint32_t i = b->order[next];
        const double start_ms = dop_now_ms();
        VkPipeline pipeline = VK_NULL_HANDLE;
        const VkResult r = create(b->out->device, b->out->layout, b->cache.handle, b->plan, i, &pipeline);
        pthread_mutex_lock(&b->lock);
        b->out->rows[i] = pipeline;
        b->results[i] = r;
        b->took_ms[i] = (float)(dop_now_ms() - start_ms);
        b->n_made += r == VK_SUCCESS;
        if (r != VK_SUCCESS && !is_refusal(r) && b->st == DOP_OK) {
            b->st = fail(b->out->device, b->plan, i, r, &b->diag);
            atomic_store(&b->stop, true);
        }
        pthread_cond_broadcast(&b->changed);
        pthread_mutex_unlock(&b->lock);
    }
}

/* Allocates the build's memory and locks, which dop_pipelines_destroy frees. */
static dop_status
make_build(dop_pipelines *p, const dop_plan *plan, const uint32_t *order, uint32_t n_order, uint32_t n_threads,
           dop_diag *diag)
{
    dop_pipeline_build *b = calloc(1, sizeof *b);
    if (!b)
        return DOP_FAIL(diag, DOP_E_NOMEM, "out of memory");
    b->out = p;
    b->plan = plan;
    b->n_order = n_order;
    b->n_builders = n_threads < 1 ? 1 : n_threads > DOP_MAX_THREADS ? DOP_MAX_THREADS : n_threads;
    if (b->n_builders > n_order)
        b->n_builders = n_order;
    b->order = calloc((size_t)n_order + 1, sizeof *b->order);
    b->results = calloc((size_t)plan->n_kernels + 1, sizeof *b->results);
    b->took_ms = calloc((size_t)plan->n_kernels + 1, sizeof *b->took_ms);
    bool lock = pthread_mutex_init(&b->lock, NULL) == 0, cond = pthread_cond_init(&b->changed, NULL) == 0;
    if (!b->order || !b->results || !b->took_ms || !lock || !cond) {
        if (lock)
            pthread_mutex_destroy(&b->lock);
        if (cond)
            pthread_cond_destroy(&b->changed);
        free(b->order);
        free(b->results);
        free(b->took_ms);
        free(b);
        return DOP_FAIL(diag, DOP_E_NOMEM, "out of memory");
    }
    memcpy(b->order, order, n_order * sizeof *order);
    for (uint32_t i = 0; i < plan->n_kernels; i++)
        b->results[i] = VK_NOT_READY;
    p->build = b;
    return DOP_OK;
}

dop_status
dop_pipelines_start(dop_device *device, const dop_plan *plan, const uint32_t *order, uint32_t n_order,
                    uint32_t n_threads, const char *cache_dir, const dop_log *log, dop_diag *diag,
                    dop_pipelines *out_pipelines)
{
    dop_pipelines *p = out_pipelines;
    memset(p, 0, sizeof *p);
    p->device = device;
    p->n_rows = plan->n_kernels;
    p->rows = calloc(plan->n_kernels, sizeof(VkPipeline));
    dop_status st = p->rows ? DOP_OK : DOP_FAIL(diag, DOP_E_NOMEM, "out of memory");
    if (st == DOP_OK && (st = make_build(p, plan, order, n_order, n_threads, diag)) == DOP_OK)
        st = dop_pipeline_layout(p->device, diag, &p->layout);
    if (st != DOP_OK) {
        dop_pipelines_destroy(p);
        return st;
    }
    p->build->log = log;
    p->build->cache_dir = cache_dir;
    p->build->start_ms = dop_now_ms();
    if (dop_team_start(&p->build->team, p->build->n_builders, build_pipelines, p->build) == 0)
        build_pipelines(p->build, 0);
    return DOP_OK;
}

dop_status
dop_pipelines_wait(dop_pipelines *pipelines, const bool *used, const dop_progress *progress, dop_diag *diag)
{
    dop_pipeline_build *b = pipelines->build;
    dop_status st = DOP_OK;
    pthread_mutex_lock(&b->lock);
    for (uint32_t i = 0; i < pipelines->n_rows && st == DOP_OK; i++) {
        while (used[i] && b->results[i] == VK_NOT_READY && b->st == DOP_OK && st == DOP_OK) {
            const uint32_t n = b->n_made;
            pthread_cond_wait(&b->changed, &b->lock);
            if (b->n_made == n || !progress->fn)
                continue;
            const uint32_t made = b->n_made;
            pthread_mutex_unlock(&b->lock);
            if (!dop_progress_report(progress, "kernels", made, b->n_order))
                st = DOP_CANCELLED(diag);
            pthread_mutex_lock(&b->lock);
        }
        if (used[i] && is_refusal(b->results[i]) && st == DOP_OK) {
            st = fail(pipelines->device, b->plan, i, b->results[i], diag);
        } else if (used[i] && b->results[i] != VK_SUCCESS && st == DOP_OK) {
            st = b->st;
            if (diag)
                *diag = b->diag;
        }
    }
    pthread_mutex_unlock(&b->lock);
    return st;
}

/* How long the driver's compiler took, and for which kernels longest. */
static void
log_times(const dop_pipeline_build *b, double wall_ms)
{
    const uint32_t none = UINT32_MAX;
    uint32_t longest[2] = {none, none};
    double all_ms = 0;
    for (uint32_t n = 0; n < b->n_order; n++) {
        const uint32_t i = b->order[n];
        all_ms += (double)b->took_ms[i];
        if (longest[0] == none || b->took_ms[i] > b->took_ms[longest[0]]) {
            longest[1] = longest[0];
            longest[0] = i;
        } else if (longest[1] == none || b->took_ms[i] > b->took_ms[longest[1]]) {
            longest[1] = i;
        }
    }
    dop_log_printf(b->log, "kernels: %u by %u threads in %.1f ms, %.1f ms one by one", b->n_made, b->n_builders,
                   wall_ms, all_ms);
    for (uint32_t n = 0; n < 2 && longest[n] != none; n++)
        dop_log_printf(b->log, "kernels:   %.1f ms for %s", (double)b->took_ms[longest[n]],
                       dop_plan_string(b->plan, b->plan->kernels[longest[n]].name));
}

void
dop_pipelines_end(dop_pipelines *pipelines)
{
    dop_pipeline_build *b = pipelines->build;
    dop_team_join(&b->team);
    log_times(b, dop_now_ms() - b->start_ms);
    if (b->st == DOP_OK)
        dop_pipeline_cache_save(pipelines->device, &b->cache, b->log);
}

void
dop_pipelines_destroy(dop_pipelines *pipelines)
{
    dop_device *d = pipelines->device;
    dop_pipeline_build *b = pipelines->build;
    if (b) {
        atomic_store(&b->stop, true);
        dop_team_join(&b->team);
        if (!d->hung)
            vkDestroyPipelineCache(d->handle, b->cache.handle, NULL);
        pthread_mutex_destroy(&b->lock);
        pthread_cond_destroy(&b->changed);
        free(b->order);
        free(b->results);
        free(b->took_ms);
        free(b);
    }
    if (d && d->handle && !d->hung) {
        for (uint32_t i = 0; i < pipelines->n_rows && pipelines->rows; i++)
            vkDestroyPipeline(d->handle, pipelines->rows[i], NULL);
        vkDestroyPipelineLayout(d->handle, pipelines->layout, NULL);
    }
    free(pipelines->rows);
    memset(pipelines, 0, sizeof *pipelines);
}
