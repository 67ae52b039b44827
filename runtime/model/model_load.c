/* Work that continues while the first tokens are computed.  Kernels are created in the order in which they will be needed, and
 * the largest first among equals, because the driver takes longest for it; schedules are recorded as their kernels become ready. */
#include "runtime/model/model.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

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
dop_model_order_kernels(const dop_model *model, const bool *first, dop_diag *diag, uint32_t *out_order, uint32_t *out_n)
{
    const dop_model *m = model;
    const dop_plan *plan = &m->plan;
    uint32_t n = 0;
    ranked *rows = calloc((size_t)plan->n_kernels + 1, sizeof *rows);
    bool *kernels = calloc((size_t)plan->n_kernels * 2 + 1, sizeof *kernels), *decode = kernels + plan->n_kernels;
    dop_status st = rows && kernels ? DOP_OK : DOP_FAIL(diag, DOP_E_NOMEM, "out of memory");
    *out_n = 0;
    if (st != DOP_OK)
        goto error;
    for (uint32_t i = 0; i < m->used.n; i++) {
        const uint32_t schedule = m->used.schedules[i];
        if (first[schedule])
            mark_kernels(plan, schedule, kernels);
        if (plan->schedules[schedule].kind == DOP_SCHED_DECODE)
            mark_kernels(plan, schedule, decode);
    }
    for (uint32_t i = 0; i < plan->n_kernels; i++)
        if (m->used.kernels[i])
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
dop_model_start_pipelines(dop_model *model, const bool *first, uint32_t threads, const char *cache_dir, dop_diag *diag)
{
    dop_model *m = model;
    uint32_t n = 0, *order = calloc((size_t)m->plan.n_kernels + 1, sizeof *order);
    dop_status st =
        order ? dop_model_order_kernels(m, first, diag, order, &n) : DOP_FAIL(diag, DOP_E_NOMEM, "out of memory");
    /* Fewer threads than cores, because others write weights meanwhile; and two compilers on one core are hardly faster than one. */
    const uint32_t most = threads / 2 > 8 ? threads / 2 : 8;
    if (st == DOP_OK)
        st = dop_pipelines_start(&m->device, &m->plan, order, n, threads < most ? threads : most, cache_dir, &m->log,
                                 diag, &m->pipelines);
    free(order);
    return st;
}

dop_status
dop_model_make(dop_model *model, uint32_t schedule, bool later, dop_diag *diag)
{
    dop_model *m = model;
    bool *kernels = calloc(m->plan.n_kernels, sizeof *kernels);
    if (!kernels)
        return DOP_FAIL(diag, DOP_E_NOMEM, "out of memory");
    mark_kernels(&m->plan, schedule, kernels);
    dop_status st = dop_pipelines_wait(&m->pipelines, kernels, &m->loader.progress, diag);
    free(kernels);
    for (int f = 0; f < DOP_N_FORMS && later; f++) /* before they are counted as recordings: see dop_model_counters */
        m->loader.recordings +=
            dop_replay_has_form(&m->plan, schedule, (dop_form)f) ? dop_replay_segments(&m->replay, schedule) : 0;
    for (int c = 0; c < DOP_N_CUTS && later; c++)
        m->loader.recordings += dop_cut_is_crossed(&m->plan, schedule, (dop_cut_side)c);
    if (st == DOP_OK)
        st = dop_replay_add(&m->replay, schedule, later, diag);
    if (st == DOP_OK)
        atomic_store(&m->loader.ready[schedule], true);
    return st;
}

/* Decode schedules come first in the table.  One that cannot be made, because the driver refuses a kernel of it, does not keep the others
 * from being made: who needs it later gets the first failure. */
static dop_status
make_rest(dop_model *m, dop_diag *diag, bool *out_any)
{
    dop_loader *l = &m->loader;
    dop_status st = DOP_OK;
    *out_any = false;
    for (uint32_t i = 0; i < m->used.n; i++) {
        if (l->ready[m->used.schedules[i]])
            continue;
        *out_any = true;
        const dop_status made = dop_model_make(m, m->used.schedules[i], true, st == DOP_OK ? diag : NULL);
        st = st == DOP_OK ? made : st;
        pthread_mutex_lock(&l->lock);
        pthread_cond_broadcast(&l->changed);
        pthread_mutex_unlock(&l->lock);
    }
    return st;
}

static void *
loader_main(void *arg)
{
    dop_model *m = arg;
    dop_loader *l = &m->loader;
    dop_diag diag = {0};
    double start = dop_now_ms();
    bool rest;
    dop_status st = make_rest(m, &diag, &rest);
    pthread_mutex_lock(&l->lock);
    l->st = st;
    l->diag = diag;
    l->ended = true;
    pthread_cond_broadcast(&l->changed);
    pthread_mutex_unlock(&l->lock);
    dop_pipelines_end(&m->pipelines);
    if (rest && st == DOP_OK)
        dop_log_printf(&m->log, "start: the other schedules were there %.1f ms later", dop_now_ms() - start);
    else if (st != DOP_OK)
        dop_log_printf(&m->log, "start: a schedule could not be made: %s", diag.message);
    return NULL;
}

dop_status
dop_model_start_loader(dop_model *model, dop_diag *diag)
{
    dop_loader *l = &model->loader;
    bool lock = pthread_mutex_init(&l->lock, NULL) == 0;
    l->lock_made = lock && pthread_cond_init(&l->changed, NULL) == 0;
    if (!l->lock_made) {
        if (lock)
            pthread_mutex_destroy(&l->lock);
        return DOP_FAIL(diag, DOP_E_NOMEM, "cannot make a lock");
    }
    l->started = pthread_create(&l->thread, NULL, loader_main, model) == 0;
    if (!l->started)
        loader_main(model);
    return DOP_OK;
}

void
dop_model_end_loader(dop_model *model)
{
    dop_loader *l = &model->loader;
    if (l->started)
        pthread_join(l->thread, NULL);
    l->started = false;
    if (l->lock_made) {
        pthread_mutex_destroy(&l->lock);
        pthread_cond_destroy(&l->changed);
    }
    l->lock_made = false;
    free(l->ready);
    free(l->run);
    l->ready = NULL;
    l->run = NULL;
}

bool
dop_model_has(const dop_model *model, uint32_t schedule)
{
    return atomic_load(&model->loader.ready[schedule]);
}

bool
dop_model_await(dop_model *model, uint32_t schedule)
{
    enum { WAIT_NS = 100 * 1000 * 1000, SECOND_NS = 1000 * 1000 * 1000 };
    dop_loader *l = &model->loader;
    struct timespec until;
    if (dop_model_has(model, schedule))
        return true;
    const double start = dop_now_ms();
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += WAIT_NS;
    until.tv_sec += until.tv_nsec / SECOND_NS;
    until.tv_nsec %= SECOND_NS;
    pthread_mutex_lock(&l->lock);
    for (int waited = 0; waited == 0 && !dop_model_has(model, schedule) && !l->ended;)
        waited = pthread_cond_timedwait(&l->changed, &l->lock, &until);
    pthread_mutex_unlock(&l->lock);
    model->info.waited_ms += dop_now_ms() - start;
    return dop_model_has(model, schedule);
}

dop_status
dop_model_need(dop_model *model, uint32_t schedule, dop_diag *diag)
{
    dop_loader *l = &model->loader;
    dop_status st = DOP_OK;
    if (dop_model_has(model, schedule))
        return DOP_OK;
    const double start = dop_now_ms();
    pthread_mutex_lock(&l->lock);
    while (!dop_model_has(model, schedule) && !l->ended)
        pthread_cond_wait(&l->changed, &l->lock);
    model->info.waited_ms += dop_now_ms() - start;
    if (!dop_model_has(model, schedule)) {
        st = l->st != DOP_OK ? l->st : DOP_FAIL(diag, DOP_E_INTERNAL, "schedule %u was never made", schedule);
        if (diag && l->st != DOP_OK)
            *diag = l->diag;
    }
    pthread_mutex_unlock(&l->lock);
    return st;
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
        /* Wait first, so that the time of steps in flight is not counted as waiting for kernels. */
        if (!commands && (st = dop_replay_wait(&m->replay, m->replay.submitted, diag)) == DOP_OK)
            st = dop_replay_begin(&m->replay, diag, &commands);
        if (st == DOP_OK) {
            vkCmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, m->pipelines.rows[kernel]);
            VkDescriptorSet views[DOP_N_VIEWS] = {VK_NULL_HANDLE};
            dop_memory_bind(&m->memory, &m->plan, d, m->pipelines.layout, views, commands);
            if (d->n_args > 0) /* no workgroup reads them */
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
