#include "tools/profile/profile.h"
#include "runtime/model/model.h"
#include "tools/bench/bench.h"
#include "tools/profile/profile_stages.h"
#include "tools/profile/profile_table.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Maximum unread replays per schedule and form; further ones wait for the oldest. The number is large because on
 * some devices reading waits for all work in flight. */
enum { MAX_RING = DOP_PROFILE_RING, MAX_DEPTH = 8 };

/* Command buffer with timestamps, and its queries. */
typedef struct recorded {
    VkCommandBuffer commands;
    VkQueryPool queries;
    uint32_t schedule, n_queries;
    dop_form form;
    uint64_t ticket; /* ticket of the submission with unread timestamps; 0: none */
    uint64_t order;  /* order in which replays acquired command buffers */
} recorded;

/* Simultaneous values of the device and host clocks. */
typedef struct instant {
    uint64_t ticks;
    double host_ms;
} instant;

struct dop_profile_collector {
    dop_model *model;
    dop_profile *profile;
    dop_replay_observer observer;
    VkCommandPool pool;
    recorded *rows;
    size_t n_rows;
    uint64_t n_taken;       /* command buffers acquired so far */
    uint64_t mask;          /* valid bits of a timestamp */
    uint64_t *ticks;        /* owned, [dop_profile.n_times]: device timestamps */
    double *waited_ms;      /* owned, [n_steps]: dop_now_ms by which the host knew that the step was complete */
    size_t open[MAX_DEPTH]; /* indices of open spans */
    uint32_t n_open;
    instant first, last;
    bool failed; /* out of memory */
};

/* Grows the array if item n does not fit. The capacity is n rounded up to a power of two. */
static bool
grow_profile_array(void *array, size_t n, size_t item)
{
    void **p = array;
    if (n != 0 && (n & (n - 1)) != 0)
        return true;
    void *grown = realloc(*p, (n ? 2 * n : 1) * item);
    if (grown)
        *p = grown;
    return grown != NULL;
}

void
dop_profile_begin(dop_profile *profile, const char *name, uint32_t number)
{
    dop_profile_collector *c = profile->collector;
    if (!c || c->n_open == MAX_DEPTH ||
        !grow_profile_array(&profile->spans, profile->n_spans, sizeof *profile->spans)) {
        if (c)
            c->failed = true;
        return;
    }
    profile->spans[profile->n_spans] =
        (dop_profile_span){.name = name, .number = number, .depth = c->n_open, .start_ms = dop_now_ms()};
    c->open[c->n_open++] = profile->n_spans++;
}

void
dop_profile_end(dop_profile *profile)
{
    dop_profile_collector *c = profile->collector;
    if (c && c->n_open > 0)
        profile->spans[c->open[--c->n_open]].end_ms = dop_now_ms();
}

static void
on_begin(void *user, const char *name)
{
    dop_profile_collector *c = user;
    dop_profile_begin(c->profile, name, 0);
}

static void
on_end(void *user)
{
    dop_profile_collector *c = user;
    dop_profile_end(c->profile);
}

/* Reads the timestamps of a finished submission. */
static dop_status
read_queries(dop_profile_collector *c, recorded *r, dop_diag *diag)
{
    dop_profile *p = c->profile;
    r->ticket = 0;
    bool ok = grow_profile_array(&p->steps, p->n_steps, sizeof *p->steps) &&
              grow_profile_array(&c->waited_ms, p->n_steps, sizeof(double));
    size_t first = p->n_times;
    for (uint32_t i = 0; i < r->n_queries && ok; i++) {
        ok = grow_profile_array(&c->ticks, p->n_times, sizeof *c->ticks);
        p->n_times += ok;
    }
    if (!ok)
        return DOP_NO_MEMORY(diag);
    VkResult res =
        vkGetQueryPoolResults(c->model->device.handle, r->queries, 0, r->n_queries, r->n_queries * sizeof(uint64_t),
                              c->ticks + first, sizeof(uint64_t), VK_QUERY_RESULT_64_BIT | VK_QUERY_RESULT_WAIT_BIT);
    if (res != VK_SUCCESS)
        return DOP_VK_FAIL(diag, res, "vkGetQueryPoolResults");
    c->waited_ms[p->n_steps] = dop_now_ms();
    p->steps[p->n_steps++] =
        (dop_profile_step){.schedule = r->schedule, .n_dispatches = r->n_queries - 1, .first_time = first};
    return DOP_OK;
}

/* Waits for a ticket, then reads all submissions up to it in order. */
static dop_status
read_up_to(dop_profile_collector *c, uint64_t ticket, dop_diag *diag)
{
    dop_model *s = c->model;
    DOP_RETURN_IF_ERROR(dop_device_wait(&s->device, s->replay.timeline, ticket, diag));
    while (true) {
        recorded *oldest = NULL;
        for (size_t i = 0; i < c->n_rows; i++)
            if (c->rows[i].ticket && c->rows[i].ticket <= ticket && (!oldest || c->rows[i].order < oldest->order))
                oldest = &c->rows[i];
        if (!oldest)
            break;
        DOP_RETURN_IF_ERROR(read_queries(c, oldest, diag));
    }
    return DOP_OK;
}

static dop_status
record_timed_commands(dop_profile_collector *c, uint32_t schedule, dop_form form, dop_diag *diag, recorded **out)
{
    const dop_plan_schedule *sched = &c->model->plan.schedules[schedule];
    dop_device *d = &c->model->device;
    if (!grow_profile_array(&c->rows, c->n_rows, sizeof *c->rows))
        return DOP_NO_MEMORY(diag);
    recorded *r = &c->rows[c->n_rows++];
    *r = (recorded){.schedule = schedule, .form = form};
    r->n_queries = 1 + (form == DOP_FORM_BODY ? sched->n_body : sched->n_dispatches);
    VkQueryPoolCreateInfo queries = {
        .sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO,
        .queryType = VK_QUERY_TYPE_TIMESTAMP,
        .queryCount = r->n_queries,
    };
    VkCommandBufferAllocateInfo allocate = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
        .commandPool = c->pool,
        .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
        .commandBufferCount = 1,
    };
    VkResult res = vkCreateQueryPool(d->handle, &queries, NULL, &r->queries);
    if (res == VK_SUCCESS)
        res = vkAllocateCommandBuffers(d->handle, &allocate, &r->commands);
    if (res != VK_SUCCESS)
        return DOP_VK_FAIL(diag, res, "vkCreateQueryPool");
    *out = r;
    return dop_replay_record(&c->model->replay, schedule, form, r->queries, 0, NULL, r->commands, diag);
}

static dop_status
give_timed_commands(void *user, uint32_t schedule, dop_form form, uint64_t ticket, dop_diag *diag, VkCommandBuffer *out)
{
    dop_profile_collector *c = user;
    recorded *free_row = NULL;
    uint64_t oldest = UINT64_MAX, done = 0;
    uint32_t n = 0;
    dop_status st = DOP_OK;
    for (size_t i = 0; i < c->n_rows; i++) {
        recorded *r = &c->rows[i];
        if (r->schedule != schedule || r->form != form)
            continue;
        n++;
        if (!r->ticket)
            free_row = r;
        else if (r->ticket < oldest)
            oldest = r->ticket;
    }
    if (st == DOP_OK && !free_row && n < MAX_RING) {
        dop_profile_begin(c->profile, "record", 0);
        st = record_timed_commands(c, schedule, form, diag, &free_row);
        dop_profile_end(c->profile);
    } else if (st == DOP_OK && !free_row) {
        if (oldest == ticket)
            return DOP_FAIL(diag, DOP_E_USAGE,
                            "--profile takes at most %d steps in one submission: use a smaller --gpu-loop", MAX_RING);
        dop_profile_begin(c->profile, "read times", 0);
        if (vkGetSemaphoreCounterValue(c->model->device.handle, c->model->replay.timeline, &done) != VK_SUCCESS)
            done = 0;
        st = read_up_to(c, done > oldest ? done : oldest, diag);
        dop_profile_end(c->profile);
        for (size_t i = 0; i < c->n_rows; i++)
            if (c->rows[i].schedule == schedule && c->rows[i].form == form && !c->rows[i].ticket)
                free_row = &c->rows[i];
    }
    if (st != DOP_OK)
        return st;
    free_row->ticket = ticket;
    free_row->order = c->n_taken++;
    *out = free_row->commands;
    return DOP_OK;
}

/* Reads both clocks at one instant. Returns false if the device does not support it. */
static bool
read_both_clocks(const dop_profile_collector *c, instant *out)
{
    const dop_device *d = &c->model->device;
    const VkCalibratedTimestampInfoEXT what[2] = {
        {.sType = VK_STRUCTURE_TYPE_CALIBRATED_TIMESTAMP_INFO_EXT, .timeDomain = VK_TIME_DOMAIN_DEVICE_EXT},
        {.sType = VK_STRUCTURE_TYPE_CALIBRATED_TIMESTAMP_INFO_EXT, .timeDomain = VK_TIME_DOMAIN_CLOCK_MONOTONIC_EXT},
    };
    uint64_t values[2], deviation, best = UINT64_MAX;
    for (int i = 0; i < 8 && d->get_calibrated; i++)
        if (d->get_calibrated(d->handle, 2, what, values, &deviation) == VK_SUCCESS && deviation < best) {
            best = deviation;
            out->ticks = values[0];
            out->host_ms = (double)values[1] * 1e-6;
        }
    return best != UINT64_MAX;
}

dop_status
dop_profile_attach(dop_model *model, dop_diag *diag, dop_profile *out_profile)
{
    dop_profile *p = out_profile;
    memset(p, 0, sizeof *p);
    const dop_device_info *info = &model->device.info;
    if (info->timestamp_bits == 0)
        return DOP_FAIL(diag, DOP_E_DEVICE, "%s has no timestamps on its compute queue: --bench works without them",
                        info->caps.name);
    dop_profile_collector *c = calloc(1, sizeof *c);
    if (!c)
        return DOP_NO_MEMORY(diag);
    p->model = model;
    p->collector = c;
    p->floor_gbps = dop_bench_known_floor(info->caps.name);
    dop_model_describe(model, &p->info);
    c->model = model;
    c->profile = p;
    c->mask = info->timestamp_bits >= 64 ? UINT64_MAX : ((uint64_t)1 << info->timestamp_bits) - 1;
    VkCommandPoolCreateInfo pool = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
        .queueFamilyIndex = info->queue_family,
    };
    VkResult res = vkCreateCommandPool(model->device.handle, &pool, NULL, &c->pool);
    if (res != VK_SUCCESS) {
        dop_profile_finish(p);
        return DOP_VK_FAIL(diag, res, "vkCreateCommandPool");
    }
    c->observer = (dop_replay_observer){.user = c, .commands = give_timed_commands, .begin = on_begin, .end = on_end};
    model->replay.observer = &c->observer;
    return DOP_OK;
}

dop_status
dop_profile_start(dop_profile *profile, dop_diag *diag)
{
    dop_profile_collector *c = profile->collector;
    dop_status st = read_up_to(c, c->model->replay.submitted, diag);
    profile->n_spans = profile->n_steps = profile->n_times = 0;
    c->n_open = 0;
    time_t now = time(NULL);
    struct tm utc;
    if (gmtime_r(&now, &utc))
        strftime(profile->date, sizeof profile->date, "%Y-%m-%d %H:%M:%S UTC", &utc);
    profile->calibrated = read_both_clocks(c, &c->first);
    profile->origin_ms = dop_now_ms();
    return st;
}

/* Returns the signed difference of two tick counts. Handles the wrap of counters with few bits. */
static double
ticks_since(const dop_profile_collector *c, uint64_t ticks, uint64_t since)
{
    uint64_t ahead = (ticks - since) & c->mask, behind = (since - ticks) & c->mask;
    return ahead <= behind ? (double)ahead : -(double)behind;
}

/* Converts device ticks to the host's clock. With calibration, interpolates between two instants, which corrects an
 * inexact period. Otherwise places a step so that it ends no later than the host knew. */
static dop_status
place_times(dop_profile_collector *c, dop_diag *diag)
{
    dop_profile *p = c->profile;
    p->times = calloc(p->n_times ? p->n_times : 1, sizeof *p->times);
    if (!p->times)
        return DOP_NO_MEMORY(diag);
    double ms_per_tick = (double)c->model->device.info.timestamp_period * 1e-6;
    if (p->calibrated && read_both_clocks(c, &c->last)) {
        double ticks = ticks_since(c, c->last.ticks, c->first.ticks);
        double slope = ticks > 0 ? (c->last.host_ms - c->first.host_ms) / ticks : ms_per_tick;
        if (slope > 0.99 * ms_per_tick && slope < 1.01 * ms_per_tick)
            ms_per_tick = slope;
    } else {
        p->calibrated = false;
        c->first.ticks = p->n_times ? c->ticks[0] : 0;
        c->first.host_ms = 0;
        double offset = 0;
        for (size_t i = 0; i < p->n_steps; i++) {
            const dop_profile_step *s = &p->steps[i];
            double end = ticks_since(c, c->ticks[s->first_time + s->n_dispatches], c->first.ticks) * ms_per_tick;
            double latest = c->waited_ms[i] - end;
            offset = i == 0 || latest < offset ? latest : offset;
        }
        c->first.host_ms = offset;
    }
    for (size_t i = 0; i < p->n_times; i++)
        p->times[i] = c->first.host_ms + ticks_since(c, c->ticks[i], c->first.ticks) * ms_per_tick;
    return DOP_OK;
}

static void
detach_profile(dop_profile *p)
{
    dop_profile_collector *c = p->collector;
    if (!c)
        return;
    dop_device *d = &c->model->device;
    c->model->replay.observer = NULL;
    if (!d->hung) {
        for (size_t i = 0; i < c->n_rows; i++)
            vkDestroyQueryPool(d->handle, c->rows[i].queries, NULL);
        vkDestroyCommandPool(d->handle, c->pool, NULL);
    }
    free(c->rows);
    free(c->ticks);
    free(c->waited_ms);
    free(c);
    p->collector = NULL;
}

dop_status
dop_profile_stop(dop_profile *profile, dop_diag *diag)
{
    dop_profile_collector *c = profile->collector;
    dop_status st = read_up_to(c, c->model->replay.submitted, diag);
    while (c->n_open > 0)
        dop_profile_end(profile);
    if (st == DOP_OK && c->failed)
        st = DOP_NO_MEMORY(diag);
    if (st == DOP_OK)
        st = place_times(c, diag);
    detach_profile(profile);
    if (st == DOP_OK)
        st = dop_profile_cut_stages(profile, diag);
    return st == DOP_OK ? dop_profile_sum_up(profile, diag) : st;
}

void
dop_profile_finish(dop_profile *profile)
{
    if (profile->collector && profile->collector->model->replay.submitted > 0 &&
        !profile->collector->model->device.lost)
        (void)dop_device_wait(&profile->collector->model->device, profile->collector->model->replay.timeline,
                              profile->collector->model->replay.submitted, NULL);
    detach_profile(profile);
    free(profile->spans);
    free(profile->steps);
    free(profile->times);
    free(profile->groups);
    free(profile->totals);
    free(profile->stage_shares);
    memset(profile, 0, sizeof *profile);
}
