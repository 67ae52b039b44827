#include "runtime/device/pipelines.h"

#include "base/os/clock.h"
#include "base/parallel.h"
#include "plan/plan_names.h"
#include "runtime/device/replay.h"
#include "runtime/device/views.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Appends the limit of the device that the kernel exceeds, or nothing. Does not check capabilities. */
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

/* Creation state of a kernel's pipeline. */
typedef struct made_kernel {
    VkResult result; /* result of creating the pipeline; VK_NOT_READY: not finished */
    float took_ms;   /* creation time */
    bool begun;      /* a thread is creating it or has done so */
    bool wanted;     /* it is in dop_pipeline_build.wanted */
} made_kernel;

typedef struct dop_pipeline_build {
    dop_pipelines *out;
    const dop_plan *plan;
    const dop_log *log;
    const char *cache_dir; /* not owned; valid until the cache is loaded */
    dop_pipeline_cache cache;
    uint32_t *ahead; /* owned, [n_ahead]: kernels to create in advance */
    uint32_t n_ahead;
    uint32_t n_builders;
    double start_ms;      /* dop_now_ms when the threads started */
    dop_team team;        /* threads that create pipelines */
    pthread_mutex_t lock; /* guards the fields below and the unfinished entries of dop_pipelines.rows */
    pthread_cond_t changed;
    bool cache_loaded;
    bool stop;            /* no more pipelines are created: an error occurred, or pipelines are no longer needed */
    made_kernel *kernels; /* owned, [n_kernels] */
    uint32_t *wanted;     /* [n_kernels], in the allocation of `ahead`: kernels that are waited for; created first */
    uint32_t n_wanted, next_wanted, next_ahead;
    uint32_t n_busy;          /* number of threads that are inside the driver */
    uint32_t n_made, n_saved; /* number of pipelines created, and their number when the cache was last saved */
    double ended_ms;          /* dop_now_ms when the last one was finished */
    dop_status st;            /* error that stopped creation */
    dop_diag diag;
} dop_pipeline_build;

/* True if the driver refused this kernel, but may accept others. */
static bool
is_refusal(VkResult r)
{
    return r != VK_SUCCESS && r != VK_NOT_READY && r != VK_ERROR_OUT_OF_HOST_MEMORY &&
           r != VK_ERROR_OUT_OF_DEVICE_MEMORY && r != VK_ERROR_DEVICE_LOST;
}

static dop_status
fail_pipeline(const dop_device *d, const dop_plan *plan, uint32_t kernel, VkResult r, dop_diag *diag)
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
create_kernel_pipeline(const dop_device *d, VkPipelineLayout layout, VkPipelineCache cache, const dop_plan *plan,
                       uint32_t kernel, VkPipeline *out_pipeline)
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
    const VkResult r = create_kernel_pipeline(device, layout, cache, plan, kernel, out_pipeline);
    return r == VK_SUCCESS ? DOP_OK : fail_pipeline(device, plan, kernel, r, diag);
}

/* Loads the cache in the first thread, so that the caller of dop_pipelines_start need not wait. Holds the lock
 * meanwhile. */
static void
load_cache(dop_pipeline_build *b)
{
    if (b->cache_loaded)
        return;
    b->cache_loaded = true;
    b->st = dop_pipeline_cache_load(b->out->device, b->cache_dir, b->log, &b->diag, &b->cache);
    b->stop = b->stop || b->st != DOP_OK;
    if (b->st != DOP_OK)
        pthread_cond_broadcast(&b->changed); /* wake threads that wait for pipelines that will not be created now */
}

/* Takes the next kernel to create; false: none is left. */
static bool
take_next_kernel(dop_pipeline_build *b, uint32_t *out_kernel)
{
    bool found = false;
    while (!b->stop && !found && (b->next_wanted < b->n_wanted || b->next_ahead < b->n_ahead)) {
        *out_kernel = b->next_wanted < b->n_wanted ? b->wanted[b->next_wanted++] : b->ahead[b->next_ahead++];
        found = !b->kernels[*out_kernel].begun;
    }
    if (found)
        b->kernels[*out_kernel].begun = true;
    return found;
}

/* Creates a kernel's pipeline, with the lock released meanwhile. */
static void
build_one(dop_pipeline_build *b, uint32_t kernel)
{
    const double start_ms = dop_now_ms();
    VkPipeline pipeline = VK_NULL_HANDLE;
    pthread_mutex_unlock(&b->lock);
    const VkResult r =
        create_kernel_pipeline(b->out->device, b->out->layout, b->cache.handle, b->plan, kernel, &pipeline);
    pthread_mutex_lock(&b->lock);
    b->ended_ms = dop_now_ms();
    b->out->rows[kernel] = pipeline;
    b->kernels[kernel].result = r;
    b->kernels[kernel].took_ms = (float)(b->ended_ms - start_ms);
    b->n_made += r == VK_SUCCESS;
    if (r != VK_SUCCESS && !is_refusal(r) && b->st == DOP_OK) {
        b->st = fail_pipeline(b->out->device, b->plan, kernel, r, &b->diag);
        b->stop = true;
    }
    pthread_cond_broadcast(&b->changed);
}

/* Saves the cache if it may have grown, with the lock released meanwhile. */
static void
save_built_pipelines(dop_pipeline_build *b)
{
    if (b->st != DOP_OK || b->n_made == b->n_saved)
        return;
    b->n_saved = b->n_made;
    pthread_mutex_unlock(&b->lock);
    dop_pipeline_cache_save(b->out->device, &b->cache, b->log);
    pthread_mutex_lock(&b->lock);
}

/* Creates all queued pipelines. The last busy thread saves the cache, so that it survives if the process is killed
 * later. */
static void
build_some(dop_pipeline_build *b)
{
    uint32_t kernel;
    load_cache(b);
    b->n_busy++;
    while (take_next_kernel(b, &kernel))
        build_one(b, kernel);
    if (b->n_busy == 1 && !b->stop)
        save_built_pipelines(b);
    b->n_busy--;
}

static void
build_pipelines(void *user, uint32_t member)
{
    dop_pipeline_build *b = user;
    (void)member;
    pthread_mutex_lock(&b->lock);
    while (!b->stop) {
        build_some(b);
        while (!b->stop && b->next_wanted == b->n_wanted)
            pthread_cond_wait(&b->changed, &b->lock);
    }
    pthread_mutex_unlock(&b->lock);
}

/* Allocates the state and locks of pipeline creation, which dop_pipelines_destroy frees. */
static dop_status
make_build(dop_pipelines *p, const dop_plan *plan, const uint32_t *ahead, uint32_t n_ahead, uint32_t n_threads,
           dop_diag *diag)
{
    dop_pipeline_build *b = calloc(1, sizeof *b);
    if (!b)
        return DOP_NO_MEMORY(diag);
    b->out = p;
    b->plan = plan;
    b->n_ahead = n_ahead;
    b->n_builders = n_threads < 1 ? 1 : n_threads > DOP_MAX_THREADS ? DOP_MAX_THREADS : n_threads;
    if (b->n_builders > plan->n_kernels)
        b->n_builders = plan->n_kernels;
    b->ahead = calloc((size_t)plan->n_kernels + 1, 2 * sizeof *b->ahead);
    b->kernels = calloc((size_t)plan->n_kernels + 1, sizeof *b->kernels);
    bool lock = pthread_mutex_init(&b->lock, NULL) == 0, cond = pthread_cond_init(&b->changed, NULL) == 0;
    if (!b->ahead || !b->kernels || !lock || !cond) {
        if (lock)
            pthread_mutex_destroy(&b->lock);
        if (cond)
            pthread_cond_destroy(&b->changed);
        free(b->ahead);
        free(b->kernels);
        free(b);
        return DOP_NO_MEMORY(diag);
    }
    b->wanted = b->ahead + plan->n_kernels;
    memcpy(b->ahead, ahead, n_ahead * sizeof *ahead);
    for (uint32_t i = 0; i < plan->n_kernels; i++)
        b->kernels[i].result = VK_NOT_READY;
    p->build = b;
    return DOP_OK;
}

dop_status
dop_pipelines_start(dop_device *device, const dop_plan *plan, const uint32_t *ahead, uint32_t n_ahead,
                    uint32_t n_threads, const char *cache_dir, const dop_log *log, dop_diag *diag,
                    dop_pipelines *out_pipelines)
{
    dop_pipelines *p = out_pipelines;
    memset(p, 0, sizeof *p);
    p->device = device;
    p->n_rows = plan->n_kernels;
    p->rows = calloc(plan->n_kernels, sizeof(VkPipeline));
    dop_status st = p->rows ? DOP_OK : DOP_NO_MEMORY(diag);
    if (st == DOP_OK && (st = make_build(p, plan, ahead, n_ahead, n_threads, diag)) == DOP_OK)
        st = dop_pipeline_layout(p->device, diag, &p->layout);
    if (st != DOP_OK) {
        dop_pipelines_destroy(p);
        return st;
    }
    p->build->log = log;
    p->build->cache_dir = cache_dir;
    p->build->start_ms = p->build->ended_ms = dop_now_ms();
    dop_team_start(&p->build->team, p->build->n_builders, build_pipelines, p->build);
    return DOP_OK;
}

/* Queues the kernels in used[] before all others. If no thread could be started, creates them here, with everything
 * else queued. */
static void
queue_wanted_kernels(dop_pipeline_build *b, const bool *used)
{
    for (uint32_t i = 0; i < b->plan->n_kernels; i++)
        if (used[i] && !b->kernels[i].begun && !b->kernels[i].wanted) {
            b->kernels[i].wanted = true;
            b->wanted[b->n_wanted++] = i;
        }
    pthread_cond_broadcast(&b->changed);
    if (b->team.n == 0)
        build_some(b);
}

dop_status
dop_pipelines_wait(dop_pipelines *pipelines, const bool *used, const dop_progress *progress, dop_diag *diag)
{
    dop_pipeline_build *b = pipelines->build;
    dop_status st = DOP_OK;
    pthread_mutex_lock(&b->lock);
    queue_wanted_kernels(b, used);
    for (uint32_t i = 0; i < pipelines->n_rows && st == DOP_OK; i++) {
        const made_kernel *k = &b->kernels[i];
        while (used[i] && k->result == VK_NOT_READY && b->st == DOP_OK && st == DOP_OK) {
            const uint32_t n = b->n_made;
            pthread_cond_wait(&b->changed, &b->lock);
            if (b->n_made == n || !progress->fn)
                continue;
            const uint32_t made = b->n_made, all = b->n_ahead > made ? b->n_ahead : made;
            pthread_mutex_unlock(&b->lock);
            if (!dop_progress_report(progress, "kernels", made, all))
                st = DOP_CANCELLED(diag);
            pthread_mutex_lock(&b->lock);
        }
        if (used[i] && is_refusal(k->result) && st == DOP_OK) {
            st = fail_pipeline(pipelines->device, b->plan, i, k->result, diag);
        } else if (used[i] && k->result != VK_SUCCESS && st == DOP_OK) {
            st = b->st;
            if (diag)
                *diag = b->diag;
        }
    }
    pthread_mutex_unlock(&b->lock);
    return st;
}

bool
dop_pipelines_come(dop_pipelines *pipelines, const bool *used, uint32_t most_ms)
{
    enum { MS_NS = 1000 * 1000, SECOND_NS = 1000 * MS_NS };
    dop_pipeline_build *b = pipelines->build;
    bool are = true;
    int waited = 0;
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += most_ms / 1000;
    until.tv_nsec += (long)(most_ms % 1000) * MS_NS;
    until.tv_sec += until.tv_nsec / SECOND_NS;
    until.tv_nsec %= SECOND_NS;
    pthread_mutex_lock(&b->lock);
    queue_wanted_kernels(b, used);
    for (uint32_t i = 0; i < pipelines->n_rows && are; i++) {
        while (used[i] && b->kernels[i].result == VK_NOT_READY && b->st == DOP_OK && waited == 0)
            waited = pthread_cond_timedwait(&b->changed, &b->lock, &until);
        are = !used[i] || b->kernels[i].result == VK_SUCCESS;
    }
    pthread_mutex_unlock(&b->lock);
    return are;
}

/* Logs the total compilation time, and the slowest kernels. */
static void
log_times(const dop_pipeline_build *b)
{
    const uint32_t none = UINT32_MAX;
    uint32_t longest[2] = {none, none};
    double all_ms = 0;
    for (uint32_t i = 0; i < b->plan->n_kernels; i++) {
        if (!b->kernels[i].begun)
            continue;
        all_ms += (double)b->kernels[i].took_ms;
        if (longest[0] == none || b->kernels[i].took_ms > b->kernels[longest[0]].took_ms) {
            longest[1] = longest[0];
            longest[0] = i;
        } else if (longest[1] == none || b->kernels[i].took_ms > b->kernels[longest[1]].took_ms) {
            longest[1] = i;
        }
    }
    dop_log_printf(b->log, "kernels: %u by %u threads, the last %.1f ms after the start, %.1f ms one by one", b->n_made,
                   b->n_builders, b->ended_ms - b->start_ms, all_ms);
    for (uint32_t n = 0; n < 2 && longest[n] != none; n++)
        dop_log_printf(b->log, "kernels:   %.1f ms for %s", (double)b->kernels[longest[n]].took_ms,
                       dop_plan_string(b->plan, b->plan->kernels[longest[n]].name));
}

void
dop_pipelines_end(dop_pipelines *pipelines)
{
    dop_pipeline_build *b = pipelines->build;
    if (!b)
        return;
    pthread_mutex_lock(&b->lock);
    b->stop = true;
    pthread_cond_broadcast(&b->changed);
    pthread_mutex_unlock(&b->lock);
    dop_team_join(&b->team);
    pthread_mutex_lock(&b->lock);
    if (!pipelines->device->lost && !pipelines->device->hung)
        save_built_pipelines(b);
    pthread_mutex_unlock(&b->lock);
    log_times(b);
}

void
dop_pipelines_destroy(dop_pipelines *pipelines)
{
    dop_device *d = pipelines->device;
    dop_pipeline_build *b = pipelines->build;
    if (b) {
        if (!d->hung)
            vkDestroyPipelineCache(d->handle, b->cache.handle, NULL);
        pthread_mutex_destroy(&b->lock);
        pthread_cond_destroy(&b->changed);
        free(b->ahead);
        free(b->kernels);
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
