/* Opens a model: everything before the first token. */
#include "plan/plan_names.h"
#include "plan/plan_part.h"
#include "plan/plan_ranges.h"
#include "runtime/model/model_load.h"
#include "runtime/model/model_used.h"
#include "runtime/model/ordering.h"
#include "runtime/parts/lead/ranks.h"
#include "runtime/step/adapters.h"
#include "runtime/step/step.h"
#include "runtime/step/step_rows.h"
#include "runtime/step/stored.h"
#include "runtime/step/transfer.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Appends why the device cannot run a profile, or nothing if it can. */
static dop_status
try_profile(dop_model *m, const dop_device_info *info, uint32_t profile, uint32_t orderings, dop_used *out,
            dop_diag *diag, dop_buf *why)
{
    const dop_plan *plan = &m->plan;
    free(out->schedules);
    dop_status st = dop_used_init(plan, diag, out);
    if (st != DOP_OK)
        return st;
    dop_used_add_profile(plan, profile, orderings, !m->no_scoring, out);
    for (uint32_t o = 0; o < DOP_N_ORDERS; o++) {
        uint32_t n;
        const uint32_t *of = dop_used_of(out, DOP_SCHED_DECODE, o, &n);
        m->orders.decode[o] = n > 0 ? of[0] : UINT32_MAX;
    }
    dop_pipelines_refuse(info, plan, out->kernels, out->schedules, out->n, plan->profiles[profile].matrix, why);
    return why->failed ? DOP_NO_MEMORY(diag) : DOP_OK;
}

/* Adds other orderings only if they are allowed and supported, so that nothing unused is created. */
static dop_status
try_orderings(dop_model *m, const dop_device_info *info, uint32_t profile, dop_ordering ordering, dop_used *out,
              dop_diag *diag, dop_buf *why)
{
    const uint32_t barriers = 1u << DOP_ORDER_BARRIERS;
    uint32_t orderings = barriers;
    if (ordering > DOP_ORDERING_BARRIERS)
        orderings |= 1u << (ordering - DOP_ORDERING_BARRIERS);
    else if (ordering == DOP_ORDERING_AUTO && !info->caps.cpu)
        orderings |= 1u << DOP_ORDER_PERSISTENT;
    dop_buf without = {0};
    dop_status st = try_profile(m, info, profile, orderings, out, diag, why);
    if (st != DOP_OK || why->size == 0 || orderings == barriers || ordering != DOP_ORDERING_AUTO)
        return st;
    st = try_profile(m, info, profile, barriers, out, diag, &without);
    if (st == DOP_OK && without.size == 0) {
        dop_log_printf(&m->log, "ordering: by barriers only: the plan %s", why->data);
        dop_buf_finish(why);
    }
    dop_buf_finish(&without);
    return st;
}

/* Chooses the first profile that the device can run. Otherwise the error lists what is missing for each. */
static dop_status
choose_profile(dop_model *m, const dop_device_info *info, dop_ordering ordering, dop_used *out, dop_diag *diag)
{
    const dop_plan *plan = &m->plan;
    dop_buf reasons = {0};
    dop_status st = DOP_OK;
    for (uint32_t p = 0; p < plan->n_profiles && st == DOP_OK; p++) {
        const char *name = dop_plan_string(plan, plan->profiles[p].name);
        dop_buf why = {0};
        st = try_orderings(m, info, p, ordering, out, diag, &why);
        if (st == DOP_OK && why.size == 0) {
            m->info.profile = p;
            m->info.decode = m->orders.decode[DOP_ORDER_BARRIERS];
            dop_log_printf(&m->log, "target: %s", name);
            dop_buf_finish(&reasons);
            return DOP_OK;
        }
        if (st == DOP_OK)
            dop_log_printf(&m->log, "target %s not taken: it %s", name, why.data);
        if (plan->n_profiles > 1)
            dop_buf_printf(&reasons, "%s%s ", p ? "; " : "", name);
        dop_buf_puts(&reasons, why.data ? why.data : "");
        dop_buf_finish(&why);
    }
    if (st == DOP_OK)
        st =
            DOP_FAIL(diag, DOP_E_DEVICE, "%s%s: compile for this device with `target` auto, or choose another `device`",
                     plan->n_profiles > 1 ? "none of the plan's targets can run here: " : "the plan ",
                     reasons.data ? reasons.data : "needs more than the device has");
    dop_buf_finish(&reasons);
    return st;
}

/* Thread that checks the digests of the weights while the model is opened. */
typedef struct verification {
    dop_model *m;
    _Atomic bool stop;
    dop_status st;
    dop_diag diag;
    pthread_t thread;
    bool started;
} verification;

static void *
verify_main(void *arg)
{
    verification *v = arg;
    uint32_t span = dop_spans_begin(&v->m->spans, "digests of the weights");
    v->st = dop_plan_verify_weights(&v->m->plan, &v->stop, &v->diag);
    dop_spans_end(&v->m->spans, span);
    return NULL;
}

/* Calls fn with facts about a device. */
static dop_status
show_device(const dop_device_info *d, dop_device_fn *fn, void *user, dop_diag *diag)
{
    dop_buf line = {0};
    dop_status st;
    dop_device_describe(d, &line);
    if (line.failed) {
        st = DOP_NO_MEMORY(diag);
    } else {
        line.data[line.size - 1] = 0; /* without the newline */
        const dop_device_facts facts = {.number = d->index,
                                        .name = d->caps.name,
                                        .driver = d->caps.driver,
                                        .missing = d->missing,
                                        .memory = d->caps.memory,
                                        .software = d->caps.cpu,
                                        .line = line.data};
        st = fn(user, &facts, diag);
    }
    dop_buf_finish(&line);
    return st;
}

static dop_status
open_device(dop_model *m, const dop_open_options *o, dop_diag *diag)
{
    uint32_t index = 0, span = dop_spans_begin(&m->spans, "instance");
    dop_status st = dop_instance_create(diag, &m->instance);
    dop_spans_end(&m->spans, span);
    if (st != DOP_OK || (st = dop_instance_choose_nth(&m->instance, o->device, o->nth_device, diag, &index)) != DOP_OK)
        return st;
    const dop_device_info *info = &m->instance.devices[index];
    dop_log_printf(&m->log, "device: %s, %s", info->caps.name, info->caps.driver);
    if (o->chosen && (st = show_device(info, o->chosen, o->chosen_user, diag)) != DOP_OK)
        return st;
    if ((st = choose_profile(m, info, o->ordering, &m->used, diag)) != DOP_OK)
        return st;
    uint32_t caps = 0;
    for (uint32_t i = 0; i < m->plan.n_kernels; i++)
        caps |= m->used.kernels[i] ? m->plan.kernels[i].caps : 0;
    span = dop_spans_begin(&m->spans, "device");
    st = dop_device_create(&m->instance, index, caps, diag, &m->device);
    dop_spans_end(&m->spans, span);
    if (st == DOP_OK && o->timeout_s > 0)
        m->device.timeout_s = o->timeout_s;
    if (st == DOP_OK && o->submit_ms > 0)
        m->device.submit_ms = o->submit_ms;
    m->device.refused = o->refused;
    m->device.refused_user = o->refused_user;
    return st;
}

/* Returns the default number of steps per submission. */
static uint32_t
steps_at_once(const dop_model *m)
{
    const uint32_t *mib = m->plan.profiles[m->info.profile].submit_mib;
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < m->plan.n_slots; i++)
        bytes += m->plan.slots[i].kind == DOP_SLOT_WEIGHTS ? m->plan.slots[i].size : 0;
    return m->device.info.caps.cpu || m->plan.part     ? 1
           : bytes <= (uint64_t)mib[0] * (1024 * 1024) ? 4
           : bytes <= (uint64_t)mib[1] * (1024 * 1024) ? 2
                                                       : 1;
}

static dop_status
open_host(dop_model *m, const dop_open_options *o, dop_diag *diag)
{
    m->max_chunk = o->max_chunk;
    m->steps_per_submit = o->steps_per_submit ? o->steps_per_submit : steps_at_once(m);
    if (m->steps_per_submit > DOP_REPLAY_MAX_TIMES)
        return DOP_FAIL(diag, DOP_E_USAGE, "%u steps in one submission; at most %d", m->steps_per_submit,
                        DOP_REPLAY_MAX_TIMES);
    m->steps_ahead = o->steps_ahead ? o->steps_ahead : m->device.info.caps.cpu || m->steps_per_submit > 1 ? 2 : 4;
    if (m->steps_ahead > DOP_MAX_AHEAD)
        m->steps_ahead = DOP_MAX_AHEAD;
    if (m->plan.replaces) { /* only one step can be undone */
        m->steps_ahead = m->steps_ahead < 2 ? m->steps_ahead : 2;
        m->steps_per_submit = 1;
    }
    return DOP_OK;
}

/* Marks the schedules that opening waits for. */
static dop_status
choose_first(dop_model *m, const dop_open_options *o, bool **out_first, dop_diag *diag)
{
    const dop_plan *plan = &m->plan;
    bool *first = calloc((size_t)plan->n_schedules + 1, sizeof *first);
    m->loader.ready = calloc((size_t)plan->n_schedules + 1, sizeof *m->loader.ready);
    m->loader.run = calloc((size_t)plan->n_kernels + 1, sizeof *m->loader.run);
    m->loader.kernels = calloc((size_t)plan->n_kernels + 1, sizeof *m->loader.kernels);
    *out_first = first;
    if (!first || !m->loader.ready || !m->loader.run || !m->loader.kernels)
        return DOP_NO_MEMORY(diag);
    if (o->first_tokens > 0 || o->on_demand)
        dop_step_first(m, o->first_tokens, !o->no_steps, o->ordering, first);
    else
        memset(first, true, plan->n_schedules * sizeof *first);
    return DOP_OK;
}

static dop_status
make_first(dop_model *m, const bool *first, dop_diag *diag)
{
    uint32_t span = dop_spans_begin(&m->spans, "the first schedules");
    dop_status st = DOP_OK;
    DOP_TRY(dop_replay_create(&m->device, &m->plan, &m->memory, &m->pipelines, diag, &m->replay));
    for (uint32_t i = 0; i < m->used.n; i++)
        if (first[m->used.schedules[i]])
            DOP_TRY(dop_model_need(m, m->used.schedules[i], diag));
error:
    dop_spans_end(&m->spans, span);
    return st;
}

static dop_status
allocate_model_memory(dop_model *m, dop_diag *diag)
{
    uint32_t span = dop_spans_begin(&m->spans, "memory");
    dop_status st = dop_memory_allocate(&m->memory, &m->plan, diag);
    dop_spans_end(&m->spans, span);
    return st;
}

/* Loads in parallel: pipelines and weights need only the device, so memory is allocated while both are in progress. On
 * software devices allocation is instant, and it comes first because a driver's compiler that runs out of memory may
 * crash. */
static dop_status
load_opened_model(dop_model *m, const dop_open_options *o, uint32_t threads, const bool *first, dop_diag *diag)
{
    const dop_memory_use use = {m->used.slots, m->used.schedules, m->used.n,
                                o->separate_memory ? DOP_SHARING_OFF : DOP_SHARING_AUTO, 0};
    dop_status st = dop_memory_place(&m->device, &m->plan, &use, &m->log, diag, &m->memory);
    bool early = m->device.info.caps.cpu && m->memory.shared;
    double start = dop_now_ms();
    if (st == DOP_OK && early)
        st = allocate_model_memory(m, diag);
    if (st != DOP_OK || (st = dop_model_start_pipelines(m, first, o, threads, diag)) != DOP_OK ||
        (st = dop_upload_start(&m->device, &m->plan, &m->memory, threads, &m->spans, diag, &m->upload)) != DOP_OK)
        return st;
    if (!early)
        st = allocate_model_memory(m, diag);
    if (st != DOP_OK || (st = make_first(m, first, diag)) != DOP_OK)
        return st;
    m->info.pipelines_ms = dop_now_ms() - start;
    if ((st = dop_upload_wait(m->upload, &m->loader.progress, diag)) != DOP_OK)
        return st;
    uint32_t span = dop_spans_begin(&m->spans, "clearing");
    uint64_t ticket;
    if ((st = dop_replay_clear(&m->replay, DOP_CLEAR_ALL, diag, &ticket)) == DOP_OK &&
        (st = dop_replay_wait(&m->replay, ticket, diag)) == DOP_OK)
        st = dop_model_choose_ordering(m, o->ordering, diag);
    dop_spans_end(&m->spans, span);
    return st;
}

/* Location of a plan. */
typedef struct source {
    const char *path;   /* NULL: in memory */
    const void *memory; /* [size] */
    size_t size;
} source;

static dop_status
open_model_plan(dop_model *m, const source *from, const dop_open_options *o, dop_diag *diag)
{
    uint32_t span = dop_spans_begin(&m->spans, "plan");
    dop_status st = from->path ? dop_plan_open_part(from->path, o->parts, o->part, diag, &m->plan)
                               : dop_plan_open_memory(from->memory, from->size, diag, &m->plan);
    dop_spans_end(&m->spans, span);
    return st == DOP_OK && o->parts == 0 && m->plan.part
               ? dop_plan_wants_ranks(from->path ? from->path : "the plan", m->plan.part->n_parts, diag)
               : st;
}

static dop_status
open_opened(dop_model *m, const dop_open_options *o, dop_diag *diag)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    uint32_t threads = o->threads ? o->threads : cores > 0 ? (uint32_t)cores : 1;
    bool *first = NULL;
    verification v = {.m = m};
    v.started = pthread_create(&v.thread, NULL, verify_main, &v) == 0;
    dop_diag mine = {0};
    dop_status st;
    if ((st = open_device(m, o, &mine)) == DOP_OK && (st = open_host(m, o, &mine)) == DOP_OK &&
        (st = choose_first(m, o, &first, &mine)) == DOP_OK)
        st = load_opened_model(m, o, threads, first, &mine);
    free(first);
    /* Damaged weights may be the cause of another failure, so they are reported first. */
    bool loaded = m->memory.n_blocks > 0 && st != DOP_E_CANCELLED;
    atomic_store(&v.stop, st != DOP_OK && !loaded);
    if (v.started)
        pthread_join(v.thread, NULL);
    else if (st == DOP_OK || loaded)
        verify_main(&v);
    m->info.upload_ms = dop_spans_length(&m->spans, "upload");
    m->info.verify_ms = dop_spans_length(&m->spans, "digests of the weights");
    bool damaged = v.st != DOP_OK && (st == DOP_OK || loaded);
    if (diag && (damaged || st != DOP_OK))
        *diag = damaged ? v.diag : mine;
    return damaged ? v.st : st;
}

/* Initializes the page pool. */
static dop_status
open_pages(dop_model *m, dop_diag *diag)
{
    uint8_t *step = dop_memory_host(&m->memory, m->plan.step_slot);
    DOP_RETURN_IF_ERROR(
        dop_pages_init(m->plan.model, (volatile uint32_t *)(void *)(step + sizeof(dop_step)), diag, &m->pages));
    if (m->pages.page)
        dop_log_printf(&m->log, "pages: %u of %u positions, for %u sequences of at most %u", m->pages.n_pages,
                       m->pages.page, m->plan.model->n_sequences, m->pages.per);
    return DOP_OK;
}

/* Sets the part of the plan and the device for this rank. */
static void
choose_part(const dop_wire *wire, dop_open_options *out)
{
    if (!wire->twins) {
        out->parts = wire->n;
        out->part = wire->rank;
    }
    out->nth_device = wire->local;
}

/* Checks the range of numeric options. */
static dop_status
check_open_numbers(const dop_open_options *o, dop_diag *diag)
{
    if ((unsigned)o->ordering > DOP_ORDERING_PERSISTENT)
        return DOP_FAIL(diag, DOP_E_USAGE, "there is no ordering %d", (int)o->ordering);
    if (!(o->timeout_s >= 0 && isfinite(o->timeout_s)) || !(o->submit_ms >= 0 && isfinite(o->submit_ms)))
        return DOP_FAIL(diag, DOP_E_USAGE, "timeout_s and submit_ms are finite and not below 0");
    return DOP_OK;
}

static dop_status
open_source(const source *from, const dop_open_options *options, dop_diag *diag, dop_model **out_model)
{
    dop_diag_clear(diag);
    dop_open_options own = {0}, *o = &own;
    double start = dop_now_ms();
    dop_status st;
    *out_model = NULL;
    dop_model *m = calloc(1, sizeof *m);
    if (!m)
        return DOP_NO_MEMORY(diag);
    m->loader.driver.process = getpid();
    if (options)
        own = *options;
    if ((st = check_open_numbers(o, diag)) != DOP_OK)
        goto error;
    if (own.wire)
        choose_part(own.wire, &own);
    m->log = o->log;
    m->loader.progress = o->progress;
    m->no_scoring = o->no_scoring;
    if ((st = open_model_plan(m, from, o, diag)) != DOP_OK ||
        (o->wire && (st = dop_ranks_start(m, from->path, o, diag)) != DOP_OK) ||
        (st = open_opened(m, o, diag)) != DOP_OK)
        goto error;
    if ((st = open_pages(m, diag)) != DOP_OK || (o->wire && (st = dop_ranks_join(m, diag)) != DOP_OK) ||
        (st = dop_step_prepare_model(m, diag)) != DOP_OK || (st = dop_restore_points_open(m, o, diag)) != DOP_OK ||
        (st = dop_stored_open(m, o, diag)) != DOP_OK)
        goto error;
    m->replay.looks = m->replay.looks && !(o->wire && o->wire->crowded);
    m->base.allocations = m->device.allocations;
    m->base.recordings = m->device.recordings;
    m->base.submissions = m->replay.submitted;
    m->info.plan = &m->plan;
    m->info.device = &m->device.info.caps;
    m->info.device_bytes = m->memory.total;
    m->info.load_ms = dop_now_ms() - start;
    dop_spans_log(&m->spans, start, &m->log);
    if (m->device.second_best > 0)
        dop_log_printf(&m->log,
                       "memory: %" PRIu64 " of %" PRIu64
                       " allocations are in another memory than suits best, which is full",
                       (uint64_t)m->device.second_best, (uint64_t)m->device.allocations);
    dop_log_printf(&m->log, "load: %.1f ms; pipelines %.1f ms, upload %.1f ms, digests %.1f ms", m->info.load_ms,
                   m->info.pipelines_ms, m->info.upload_ms, m->info.verify_ms);
    m->loader.progress = (dop_progress){NULL, NULL};
    m->info.waited_ms = 0;
    *out_model = m;
error:
    if (st != DOP_OK)
        dop_model_close(m);
    return st;
}

dop_status
dop_model_open(const char *plan_path, const dop_open_options *options, dop_diag *diag, dop_model **out_model)
{
    return open_source(&(source){.path = plan_path}, options, diag, out_model);
}

dop_status
dop_model_open_memory(const void *plan, size_t size, const dop_open_options *options, dop_diag *diag,
                      dop_model **out_model)
{
    dop_diag_clear(diag);
    *out_model = NULL;
    if ((uintptr_t)plan % 16 != 0)
        return DOP_FAIL(diag, DOP_E_USAGE, "a plan in memory must be aligned to 16 bytes");
    if (options && (options->wire || options->parts))
        return DOP_FAIL(diag, DOP_E_USAGE, "a plan in parts is opened by its path");
    return open_source(&(source){.memory = plan, .size = size}, options, diag, out_model);
}

dop_status
dop_model_open_fd(int fd, const dop_open_options *options, dop_diag *diag, dop_model **out_model)
{
    char path[32]; /* also works if the file has been unlinked */
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    dop_diag_clear(diag);
    *out_model = NULL;
    if (options && (options->wire || options->parts))
        return DOP_FAIL(diag, DOP_E_USAGE, "a plan in parts is opened by its path");
    return open_source(&(source){.path = path}, options, diag, out_model);
}

dop_status
dop_model_open_part(const char *path, const dop_open_options *options, const dop_wire *wire, dop_diag *diag,
                    dop_model **out_model)
{
    dop_open_options o = *options;
    o.wire = NULL;
    o.checkpoints = 0; /* rank 0 determines the count, and stores states of all parts */
    o.cache_memory = 0;
    o.prompt_cache = NULL;
    choose_part(wire, &o);
    DOP_RETURN_IF_ERROR(dop_model_open(path, &o, diag, out_model));
    if (wire->crowded)
        (*out_model)->replay.looks = false;
    return DOP_OK;
}

void
dop_model_close(dop_model *model)
{
    if (!model || dop_driver_is_forked(&model->loader.driver))
        return;
    for (uint32_t i = 0; i < DOP_STEP_MAX_SEQUENCES; i++)
        dop_sequence_destroy(model->sequences[i]);
    dop_pipelines_end(&model->pipelines); /* pipelines not started are no longer needed */
    dop_ranks_end(model);
    dop_adapters_finish(model);
    free(model->step.kept);
    dop_store_destroy(model->kept.prompts.store);
    while (model->pictures.list)
        dop_features_drop(model, model->pictures.list->first);
    dop_restore_points_finish(model);
    dop_pages_finish(&model->pages);
    dop_upload_destroy(model->upload);
    /* If a device was only slow, it has finished by now and everything can be freed. */
    if (model->device.hung && model->replay.timeline && dop_replay_is_idle(&model->replay))
        model->device.hung = false;
    dop_replay_destroy(&model->replay);
    dop_transfer_finish(model);
    dop_pipelines_destroy(&model->pipelines);
    dop_memory_destroy(&model->memory);
    const bool hung = model->device.hung;
    dop_device_destroy(&model->device);
    if (hung)
        memset(&model->instance.handle, 0, sizeof model->instance.handle); /* a hung device still needs its instance */
    dop_instance_destroy(&model->instance);
    free(model->loader.ready);
    free(model->loader.run);
    free(model->loader.kernels);
    free(model->used.schedules);
    dop_plan_close(&model->plan);
    free(model);
}

dop_counters
dop_model_counters(const dop_model *model)
{
    const dop_store_counts store = model->kept.prompts.store && !dop_driver_is_forked(&model->loader.driver)
                                       ? dop_store_count(model->kept.prompts.store)
                                       : (dop_store_counts){0};
    uint32_t checkpoints = 0;
    for (uint32_t i = 0; i < model->kept.slots.n; i++)
        checkpoints += model->kept.points[i].id != 0;
    return (dop_counters){
        .tokens_saved = model->kept.prompts.tokens_saved,
        .tokens_loaded = model->kept.prompts.tokens_loaded,
        .checkpoints_made = model->kept.made,
        .checkpoints_used = model->kept.used,
        .checkpoints = checkpoints,
        .checkpoint_bytes = model->kept.slots.bytes * model->kept.slots.n,
        .cache_hits = store.from_memory,
        .file_hits = store.from_files,
        .files_written = store.files.written,
        .files_removed = store.files.removed,
        .cache_bytes = store.bytes,
        .file_bytes = store.files.bytes,
        .allocations = model->device.allocations - model->base.allocations,
        .recordings = model->device.recordings - model->base.recordings,
        .submissions = model->replay.submitted - model->base.submissions,
        .tokens_reused = model->pages.reused,
        .pages_copied = model->pages.copied,
        .pages_free = dop_pages_available(&model->pages),
        .waited_ms = model->info.waited_ms,
        .steps_ahead = model->flight.n_taken,
        .rows_dropped = model->flight.n_dropped,
    };
}

const char *
dop_model_ordering(const dop_model *model)
{
    return dop_plan_ordering_name(model->info.ordering);
}

dop_status
dop_devices(dop_device_fn *fn, void *user, dop_diag *diag)
{
    dop_diag_clear(diag);
    dop_instance instance;
    dop_status st = dop_instance_create(diag, &instance);
    if (st != DOP_OK)
        return st;
    for (uint32_t i = 0; i < instance.n_devices && st == DOP_OK; i++)
        st = show_device(&instance.devices[i], fn, user, diag);
    dop_instance_destroy(&instance);
    return st;
}
