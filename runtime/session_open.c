/* Opening a session: everything that happens before the first token. */
#include "runtime/session.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void
mark_dispatch(const dop_plan *plan, const dop_plan_dispatch *d, dop_used *out)
{
    out->kernels[d->kernel] = true;
    for (uint32_t k = 0; k < d->n_args; k++)
        if (plan->args[d->first_arg + k].slot != DOP_ARG_NUMBERS)
            out->slots[plan->args[d->first_arg + k].slot] = true;
}

/* orderings: bits 1 << DOP_ORDER_*. */
static dop_status
mark_used(const dop_session *session, uint32_t profile, uint32_t orderings, dop_used *out, dop_diag *diag)
{
    const dop_plan *plan = &session->plan;
    free(out->schedules);
    out->schedules = calloc((size_t)plan->n_schedules + plan->n_kernels + plan->n_slots, sizeof(bool));
    if (!out->schedules)
        return DOP_FAIL(diag, DOP_E_NOMEM, "out of memory");
    out->kernels = out->schedules + plan->n_schedules;
    out->slots = out->kernels + plan->n_kernels;
    out->slots[plan->step_slot] = true;
    for (uint32_t i = 0; i < plan->n_schedules; i++) {
        const dop_plan_schedule *s = &plan->schedules[i];
        if (s->profile != profile || !(orderings >> s->ordering & 1) ||
            (s->kind == DOP_SCHED_SCORE && session->no_scoring))
            continue;
        out->schedules[i] = true;
        out->slots[s->logits_slot] = true;
        for (uint32_t j = 0; j < s->n_dispatches; j++)
            mark_dispatch(plan, &plan->dispatches[s->first_dispatch + j], out);
        for (uint32_t j = 0; j < s->n_stages; j++)
            mark_dispatch(plan, &plan->dispatches[s->first_stage + j], out);
    }
    return DOP_OK;
}

/* The decode schedules of a profile by ordering; the first one of each. */
static void
find_decode(const dop_plan *plan, uint32_t profile, const bool *used, uint32_t out[DOP_N_ORDERS])
{
    for (uint32_t i = 0; i < DOP_N_ORDERS; i++)
        out[i] = UINT32_MAX;
    for (uint32_t i = 0; i < plan->n_schedules; i++) {
        const dop_plan_schedule *s = &plan->schedules[i];
        if (used[i] && s->profile == profile && s->kind == DOP_SCHED_DECODE && out[s->ordering] == UINT32_MAX)
            out[s->ordering] = i;
    }
}

/* Appends why the device cannot run a profile, nothing when it can. */
static dop_status
try_profile(dop_session *s, const dop_device_info *info, uint32_t profile, uint32_t orderings, dop_used *out,
            dop_diag *diag, dop_buf *why)
{
    const dop_plan *plan = &s->plan;
    dop_status st = mark_used(s, profile, orderings, out, diag);
    if (st != DOP_OK)
        return st;
    find_decode(plan, profile, out->schedules, s->decode);
    dop_pipelines_refuse(info, plan, out->kernels, out->schedules, plan->profiles[profile].matrix, why);
    return why->failed ? DOP_FAIL(diag, DOP_E_NOMEM, "out of memory") : DOP_OK;
}

/* With the other orderings where they may be used and can be, by barriers alone otherwise: what is not going to be used is
 * not even made. */
static dop_status
try_orderings(dop_session *s, const dop_device_info *info, uint32_t profile, dop_ordering ordering, dop_used *out,
              dop_diag *diag, dop_buf *why)
{
    const uint32_t barriers = 1u << DOP_ORDER_BARRIERS;
    uint32_t orderings = barriers;
    if (ordering > DOP_ORDERING_BARRIERS)
        orderings |= 1u << (ordering - DOP_ORDERING_BARRIERS);
    else if (ordering == DOP_ORDERING_AUTO && !info->caps.cpu)
        orderings |= 1u << DOP_ORDER_PERSISTENT;
    dop_buf without = {0};
    dop_status st = try_profile(s, info, profile, orderings, out, diag, why);
    if (st != DOP_OK || why->size == 0 || orderings == barriers || ordering != DOP_ORDERING_AUTO)
        return st;
    st = try_profile(s, info, profile, barriers, out, diag, &without);
    if (st == DOP_OK && without.size == 0) {
        dop_log_printf(&s->log, "ordering: by barriers only: the plan %s", why->data);
        dop_buf_finish(why);
    }
    dop_buf_finish(&without);
    return st;
}

/* The first profile that the device can run; without one, what is missing for each. */
static dop_status
choose_profile(dop_session *s, const dop_device_info *info, dop_ordering ordering, dop_used *out, dop_diag *diag)
{
    const dop_plan *plan = &s->plan;
    dop_buf reasons = {0};
    dop_status st = DOP_OK;
    for (uint32_t p = 0; p < plan->n_profiles && st == DOP_OK; p++) {
        const char *name = dop_plan_string(plan, plan->profiles[p].name);
        dop_buf why = {0};
        st = try_orderings(s, info, p, ordering, out, diag, &why);
        if (st == DOP_OK && why.size == 0) {
            s->info.profile = p;
            s->info.decode = s->decode[DOP_ORDER_BARRIERS];
            dop_log_printf(&s->log, "target: %s", name);
            dop_buf_finish(&reasons);
            return DOP_OK;
        }
        if (st == DOP_OK)
            dop_log_printf(&s->log, "target %s not taken: it %s", name, why.data);
        if (plan->n_profiles > 1)
            dop_buf_printf(&reasons, "%s%s ", p ? "; " : "", name);
        dop_buf_puts(&reasons, why.data ? why.data : "");
        dop_buf_finish(&why);
    }
    if (st == DOP_OK)
        st =
            DOP_FAIL(diag, DOP_E_DEVICE, "%s%s: compile for this device with --target auto, or choose another --device",
                     plan->n_profiles > 1 ? "none of the plan's targets can run here: " : "the plan ",
                     reasons.data ? reasons.data : "needs more than the device has");
    dop_buf_finish(&reasons);
    return st;
}

/* Digests of the weights, from the moment the plan is open. */
typedef struct verification {
    dop_session *s;
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
    uint32_t span = dop_spans_begin(&v->s->spans, "digests of the weights");
    v->st = dop_plan_verify_weights(&v->s->plan, &v->stop, &v->diag);
    dop_spans_end(&v->s->spans, span);
    return NULL;
}

static dop_status
open_device(dop_session *s, const dop_open_options *o, dop_diag *diag)
{
    uint32_t index = 0, span = dop_spans_begin(&s->spans, "instance");
    dop_status st = dop_instance_create(diag, &s->instance);
    dop_spans_end(&s->spans, span);
    if (st != DOP_OK || (st = dop_instance_choose(&s->instance, o->device, diag, &index)) != DOP_OK)
        return st;
    const dop_device_info *info = &s->instance.devices[index];
    dop_log_printf(&s->log, "device: %s, %s", info->caps.name, info->caps.driver);
    if ((st = choose_profile(s, info, o->ordering, &s->used, diag)) != DOP_OK)
        return st;
    uint32_t caps = 0;
    for (uint32_t i = 0; i < s->plan.n_kernels; i++)
        caps |= s->used.kernels[i] ? s->plan.kernels[i].caps : 0;
    span = dop_spans_begin(&s->spans, "device");
    st = dop_device_create(&s->instance, index, caps, diag, &s->device);
    dop_spans_end(&s->spans, span);
    if (st == DOP_OK && o->timeout_s > 0)
        s->device.timeout_s = o->timeout_s;
    return st;
}

static dop_status
open_host(dop_session *s, const dop_open_options *o, dop_diag *diag)
{
    s->max_chunk = o->max_chunk;
    s->steps_per_submit = o->steps_per_submit ? o->steps_per_submit : 1;
    if (s->steps_per_submit > DOP_REPLAY_MAX_TIMES)
        return DOP_FAIL(diag, DOP_E_USAGE, "%u steps in one submission; at most %d", s->steps_per_submit,
                        DOP_REPLAY_MAX_TIMES);
    s->steps_ahead = o->steps_ahead ? o->steps_ahead : s->device.info.caps.cpu ? 2 : 4;
    if (s->steps_ahead > DOP_MAX_AHEAD)
        s->steps_ahead = DOP_MAX_AHEAD;
    s->wanted = UINT32_MAX;
    s->tokens = calloc((size_t)s->plan.model->ctx + 1, sizeof *s->tokens);
    if (!s->tokens)
        return DOP_FAIL(diag, DOP_E_NOMEM, "out of memory");
    return dop_sampler_init(&s->sampler, s->plan.model->vocab, diag);
}

/* The schedules that opening waits for: all of them, or what feeds that many tokens. */
static dop_status
choose_first(dop_session *s, uint32_t first_tokens, bool **out_first, dop_diag *diag)
{
    const dop_plan *plan = &s->plan;
    bool *first = calloc((size_t)plan->n_schedules + 1, sizeof *first);
    s->loader.ready = calloc((size_t)plan->n_schedules + 1, sizeof *s->loader.ready);
    *out_first = first;
    if (!first || !s->loader.ready)
        return DOP_FAIL(diag, DOP_E_NOMEM, "out of memory");
    uint32_t left = first_tokens < plan->model->ctx ? first_tokens : plan->model->ctx, schedule, take;
    for (; left > 0; left -= take) {
        dop_session_chunk(s, DOP_SCHED_PREFILL, left, &schedule, &take);
        first[schedule] = true;
    }
    for (uint32_t i = 0; i < plan->n_schedules; i++) {
        first[i] = s->used.schedules[i] && (first[i] || first_tokens == 0);
    }
    return DOP_OK;
}

static dop_status
make_first(dop_session *s, const bool *first, dop_diag *diag)
{
    uint32_t span = dop_spans_begin(&s->spans, "the first schedules");
    dop_status st = dop_replay_create(&s->device, &s->plan, &s->memory, &s->pipelines, diag, &s->replay);
    for (uint32_t i = 0; i < s->plan.n_schedules && st == DOP_OK; i++)
        if (first[i])
            st = dop_session_make(s, i, false, diag);
    dop_spans_end(&s->spans, span);
    return st;
}

static dop_status
allocate(dop_session *s, dop_diag *diag)
{
    uint32_t span = dop_spans_begin(&s->spans, "memory");
    dop_status st = dop_memory_allocate(&s->memory, &s->plan, diag);
    dop_spans_end(&s->spans, span);
    return st;
}

/* Pipelines and the writing of weights need the device only; memory is allocated while both are at work.  Where it is
 * the host's memory that takes no time, and a driver whose compiler runs out of memory may crash: there it comes
 * first. */
static dop_status
load(dop_session *s, const dop_open_options *o, uint32_t threads, const bool *first, dop_diag *diag)
{
    const dop_memory_use use = {s->used.slots, s->used.schedules,
                                o->separate_memory ? DOP_SHARING_OFF : DOP_SHARING_AUTO};
    dop_status st = dop_memory_place(&s->device, &s->plan, &use, &s->log, diag, &s->memory);
    bool early = s->device.info.caps.cpu && s->memory.shared;
    double start = dop_now_ms();
    if (st == DOP_OK && early)
        st = allocate(s, diag);
    if (st != DOP_OK || (st = dop_session_start_pipelines(s, first, threads, o->cache_dir, diag)) != DOP_OK ||
        (st = dop_upload_start(&s->device, &s->plan, &s->memory, threads, &s->spans, diag, &s->upload)) != DOP_OK)
        return st;
    if (!early)
        st = allocate(s, diag);
    if (st != DOP_OK || (st = make_first(s, first, diag)) != DOP_OK)
        return st;
    s->info.pipelines_ms = dop_now_ms() - start;
    if ((st = dop_upload_wait(s->upload, diag)) != DOP_OK)
        return st;
    uint32_t span = dop_spans_begin(&s->spans, "clearing");
    uint64_t ticket;
    if ((st = dop_replay_clear(&s->replay, DOP_CLEAR_ALL, diag, &ticket)) == DOP_OK &&
        (st = dop_replay_wait(&s->replay, ticket, diag)) == DOP_OK)
        st = dop_session_choose_ordering(s, o->ordering, diag);
    dop_spans_end(&s->spans, span);
    return st;
}

static dop_status
open_plan(dop_session *s, const char *path, dop_diag *diag)
{
    uint32_t span = dop_spans_begin(&s->spans, "plan");
    dop_status st = dop_plan_open(path, diag, &s->plan);
    dop_spans_end(&s->spans, span);
    return st;
}

static dop_status
open_opened(dop_session *s, const dop_open_options *o, dop_diag *diag)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    uint32_t threads = o->threads ? o->threads : cores > 0 ? (uint32_t)cores : 1;
    bool *first = NULL;
    verification v = {.s = s};
    v.started = pthread_create(&v.thread, NULL, verify_main, &v) == 0;
    dop_diag mine = {0};
    dop_status st;
    if ((st = open_device(s, o, &mine)) == DOP_OK && (st = open_host(s, o, &mine)) == DOP_OK &&
        (st = choose_first(s, o->first_tokens, &first, &mine)) == DOP_OK)
        st = load(s, o, threads, first, &mine);
    free(first);
    bool loaded = s->memory.n_blocks > 0; /* damaged weights may be why it failed then: that is reported first */
    atomic_store(&v.stop, st != DOP_OK && !loaded);
    if (v.started)
        pthread_join(v.thread, NULL);
    else if (st == DOP_OK || loaded)
        verify_main(&v);
    s->info.upload_ms = dop_spans_length(&s->spans, "upload");
    s->info.verify_ms = dop_spans_length(&s->spans, "digests of the weights");
    bool damaged = v.st != DOP_OK && (st == DOP_OK || loaded);
    if (diag && (damaged || st != DOP_OK))
        *diag = damaged ? v.diag : mine;
    return damaged ? v.st : st;
}

dop_status
dop_session_open(const char *plan_path, const dop_open_options *options, dop_diag *diag, dop_session **out_session)
{
    static const dop_open_options defaults;
    const dop_open_options *o = options ? options : &defaults;
    double start = dop_now_ms();
    dop_status st;
    *out_session = NULL;
    dop_session *s = calloc(1, sizeof *s);
    if (!s)
        return DOP_FAIL(diag, DOP_E_NOMEM, "out of memory");
    s->log = o->log;
    s->no_scoring = o->no_scoring;
    if ((st = open_plan(s, plan_path, diag)) != DOP_OK || (st = open_opened(s, o, diag)) != DOP_OK)
        goto error;
    s->base_allocations = s->device.allocations;
    s->base_recordings = s->device.recordings;
    s->base_submissions = s->replay.submitted;
    s->info.plan = &s->plan;
    s->info.device = &s->device.info.caps;
    s->info.device_bytes = s->memory.total;
    s->info.load_ms = dop_now_ms() - start;
    dop_spans_log(&s->spans, start, &s->log);
    dop_log_printf(&s->log, "load: %.1f ms; pipelines %.1f ms, upload %.1f ms, digests %.1f ms", s->info.load_ms,
                   s->info.pipelines_ms, s->info.upload_ms, s->info.verify_ms);
    if ((st = dop_session_start_loader(s, diag)) == DOP_OK)
        *out_session = s;
error:
    if (st != DOP_OK)
        dop_session_close(s);
    return st;
}

void
dop_session_close(dop_session *session)
{
    if (!session)
        return;
    dop_session_end_loader(session);
    dop_upload_destroy(session->upload);
    /* A device that was only slow has finished meanwhile, and then everything can be given back. */
    if (session->device.lost && session->replay.timeline && dop_replay_is_idle(&session->replay))
        session->device.lost = false;
    dop_replay_destroy(&session->replay);
    dop_pipelines_destroy(&session->pipelines);
    dop_memory_destroy(&session->memory);
    bool lost = session->device.lost;
    dop_device_destroy(&session->device);
    if (lost)
        memset(&session->instance.handle, 0, sizeof session->instance.handle); /* its device still exists */
    dop_instance_destroy(&session->instance);
    dop_sampler_finish(&session->sampler);
    free(session->used.schedules);
    free(session->tokens);
    dop_plan_close(&session->plan);
    free(session);
}

void
dop_session_describe(const dop_session *session, dop_session_info *out_info)
{
    *out_info = session->info;
}

dop_counters
dop_session_counters(const dop_session *session)
{
    /* In this order: a schedule that is put off is counted before it is recorded. */
    uint64_t recordings = session->device.recordings - session->base_recordings, later = session->loader.recordings;
    return (dop_counters){
        .allocations = session->device.allocations - session->base_allocations,
        .recordings = recordings > later ? recordings - later : 0,
        .descriptor_updates = 0,
        .submissions = session->replay.submitted - session->base_submissions,
    };
}

dop_status
dop_device_probe(const char *device, dop_diag *diag, dop_device_caps *out_caps)
{
    dop_instance instance;
    uint32_t index = 0;
    dop_status st = dop_instance_create(diag, &instance);
    if (st != DOP_OK)
        return st;
    st = dop_instance_choose(&instance, device, diag, &index);
    if (st == DOP_OK)
        *out_caps = instance.devices[index].caps;
    dop_instance_destroy(&instance);
    return st;
}
