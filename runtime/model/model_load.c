/* Creates kernels and schedules when they are needed; see model_load.h. */
#include "runtime/model/model_load.h"
#include "runtime/model/model.h"
#include "runtime/model/model_used.h"

#include <stdlib.h>
#include <string.h>

static void
mark_kernels(const dop_plan *plan, uint32_t schedule, bool *out_kernels)
{
    const dop_plan_schedule *s = &plan->schedules[schedule];
    for (uint32_t i = 0; i < s->n_dispatches; i++)
        out_kernels[plan->dispatches[s->first_dispatch + i].kernel] = true;
}

typedef struct ranked {
    uint32_t kernel, rank, words;
} ranked;

static int
compare_ranks(const void *a, const void *b)
{
    const ranked *x = a, *y = b;
    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    if (x->words != y->words)
        return x->words > y->words ? -1 : 1;
    return x->kernel < y->kernel ? -1 : x->kernel > y->kernel;
}

dop_status
dop_model_order_kernels(const dop_model *model, const bool *first, const dop_open_options *options, dop_diag *diag,
                        uint32_t *out_order, uint32_t *out_n)
{
    const dop_model *m = model;
    const dop_plan *plan = &m->plan;
    uint32_t n = 0, n_drafts; /* number of schedules of a draft layer */
    (void)dop_used_of(&m->used, DOP_SCHED_DRAFT, DOP_ORDER_BARRIERS, &n_drafts);
    ranked *rows = calloc((size_t)plan->n_kernels + 1, sizeof *rows);
    bool *kernels = calloc((size_t)plan->n_kernels * 2 + 1, sizeof *kernels), *decode = kernels + plan->n_kernels;
    dop_status st = rows && kernels ? DOP_OK : DOP_NO_MEMORY(diag);
    *out_n = 0;
    if (st != DOP_OK)
        goto error;
    for (uint32_t i = 0; i < m->used.n; i++) {
        const uint32_t schedule = m->used.schedules[i];
        if (first[schedule])
            mark_kernels(plan, schedule, kernels);
        const uint32_t kind = plan->schedules[schedule].kind;
        if (!options->no_steps && (kind == DOP_SCHED_DECODE || (n_drafts > 0 && kind == DOP_SCHED_ROWS)))
            mark_kernels(plan, schedule, decode);
    }
    /* If steps follow on a GPU, compiling their persistent form takes so long that the other kernels finish in the
     * meantime. */
    const bool rest = !options->on_demand || (!options->no_steps && !m->device.info.caps.cpu);
    for (uint32_t i = 0; i < plan->n_kernels; i++)
        if (kernels[i] || decode[i] || (m->used.kernels[i] && rest))
            rows[n++] = (ranked){i, kernels[i] ? 0 : decode[i] ? 1 : 2, plan->kernels[i].spirv_words};
    qsort(rows, n, sizeof *rows, compare_ranks);
    for (uint32_t i = 0; i < n; i++)
        out_order[i] = rows[i].kernel;
    *out_n = n;
error:
    free(rows);
    free(kernels);
    return st;
}

dop_status
dop_model_start_pipelines(dop_model *model, const bool *first, const dop_open_options *options, uint32_t threads,
                          dop_diag *diag)
{
    dop_model *m = model;
    uint32_t n = 0, *order = calloc((size_t)m->plan.n_kernels + 1, sizeof *order);
    dop_status st = DOP_OK;
    DOP_TRY(order ? dop_model_order_kernels(m, first, options, diag, order, &n) : DOP_NO_MEMORY(diag));
    /* Use fewer threads than cores, because other threads upload weights meanwhile and two compilers per core are
     * hardly faster than one. */
    const uint32_t most = threads / 2 > 8 ? threads / 2 : 8;
    DOP_TRY(dop_pipelines_start(&m->device, &m->plan, order, n, threads < most ? threads : most, options->cache_dir,
                                &m->log, diag, &m->pipelines));
error:
    free(order);
    return st;
}

/* Returns the kernels of a schedule, marked in loader.kernels. */
static const bool *
kernels_of(dop_model *m, uint32_t schedule)
{
    memset(m->loader.kernels, 0, m->plan.n_kernels * sizeof *m->loader.kernels);
    mark_kernels(&m->plan, schedule, m->loader.kernels);
    return m->loader.kernels;
}

dop_status
dop_model_need(dop_model *model, uint32_t schedule, dop_diag *diag)
{
    dop_model *m = model;
    if (dop_model_has(m, schedule))
        return DOP_OK;
    const double start = dop_now_ms();
    const uint64_t recordings = m->device.recordings;
    dop_status st = DOP_OK;
    DOP_TRY(dop_pipelines_wait(&m->pipelines, kernels_of(m, schedule), &m->loader.progress, diag));
    DOP_TRY(dop_replay_add(&m->replay, schedule, diag));
error:
    m->loader.ready[schedule] = st == DOP_OK;
    m->base.recordings += m->device.recordings - recordings;
    m->info.waited_ms += dop_now_ms() - start;
    return st;
}

bool
dop_model_has(const dop_model *model, uint32_t schedule)
{
    return model->loader.ready[schedule];
}

bool
dop_model_await(dop_model *model, uint32_t schedule)
{
    enum { WAIT_MS = 100 };
    dop_model *m = model;
    const double start = dop_now_ms();
    if (dop_model_has(m, schedule))
        return true;
    const bool come = dop_pipelines_come(&m->pipelines, kernels_of(m, schedule), WAIT_MS);
    m->info.waited_ms += dop_now_ms() - start;
    return come && dop_model_need(m, schedule, NULL) == DOP_OK;
}

dop_status
dop_model_make_code(dop_model *model, uint32_t schedule, dop_form form, dop_diag *diag)
{
    dop_model *m = model;
    const dop_plan_schedule *s = &m->plan.schedules[schedule];
    const uint32_t n = form == DOP_FORM_BODY ? s->n_body : s->n_dispatches;
    const uint64_t none[DOP_PUSH_ARGS] = {0};
    VkCommandBuffer commands = VK_NULL_HANDLE;
    dop_status st = DOP_OK;
    if (!m->device.info.caps.cpu || m->ranks)
        return DOP_OK;
    for (uint32_t i = 0; i < n && st == DOP_OK; i++) {
        const dop_plan_dispatch *d = &m->plan.dispatches[s->first_dispatch + i];
        const uint32_t kernel = d->kernel;
        if (m->loader.run[kernel])
            continue;
        /* Wait first, so that the time of in-flight steps does not count as waiting for kernels. */
        if (!commands && (st = dop_replay_wait(&m->replay, m->replay.submitted, diag)) == DOP_OK)
            st = dop_replay_begin(&m->replay, diag, &commands);
        if (st == DOP_OK) {
            vkCmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, m->pipelines.rows[kernel]);
            VkDescriptorSet views[DOP_N_VIEWS] = {VK_NULL_HANDLE};
            dop_memory_bind(&m->memory, &m->plan, d, m->pipelines.layout, views, commands);
            if (d->n_args > 0) /* the values do not matter: no workgroup reads them */
                vkCmdPushConstants(commands, m->pipelines.layout, VK_SHADER_STAGE_COMPUTE_BIT, 0,
                                   dop_push_bytes(d->n_args), none);
            vkCmdDispatch(commands, 0, 1, 1);
            m->loader.run[kernel] = true;
        }
    }
    if (!commands)
        return st;
    uint64_t ticket;
    const double start = dop_now_ms();
    if (st == DOP_OK && (st = dop_replay_end(&m->replay, diag, &ticket)) == DOP_OK)
        st = dop_replay_wait(&m->replay, ticket, diag);
    m->base.submissions++;
    m->info.waited_ms += dop_now_ms() - start;
    return st;
}

void
dop_model_describe(const dop_model *model, dop_model_info *out_info)
{
    *out_info = model->info;
}
