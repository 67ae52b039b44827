#include "serve/models.h"

#include "base/os/clock.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

typedef enum state {
    ABSENT,  /* not loaded */
    UNMADE,  /* requested; waits to be compiled */
    MAKING,  /* its plan is being found or compiled */
    WANTED,  /* waits to be loaded */
    LOADING, /* being loaded */
    READY,
    DRAINING, /* to be unloaded once it is unused: another model needs its memory, or the device is lost */
    CLOSING   /* being unloaded */
} state;

static const char *const state_names[] = {"unloaded", "compiling", "compiling", "loading",
                                          "loading",  "loaded",    "unloading", "unloading"};

typedef struct waiter {
    struct waiter *next;
    void (*wake)(void *user);
    void *user;
} waiter;

typedef struct model {
    dop_models_entry entry; /* owned copies */
    state state;
    void *opened; /* handle for how.close */
    dop_api *api;
    uint32_t n_users;
    uint64_t bytes;   /* device memory; until the first load, an estimate: the size of the model's files */
    double used_ms;   /* dop_now_ms of the last give_back */
    double since_ms;  /* dop_now_ms when it was loaded; before that, when it was requested */
    double began_ms;  /* dop_now_ms of the last request to load it */
    double failed_ms; /* dop_now_ms of the last failure to load; 0: none */
    double retry_ms;  /* milliseconds after a failure until the next attempt */
    dop_diag diag;    /* reason of the last failure */
    uint32_t ctx;     /* context length of the last load; 0: never loaded */
    waiter *first, *last;
} model;

struct dop_models {
    dop_models_how how;
    model *all; /* owned, [n] */
    size_t n;
    pthread_t thread, maker;
    bool started, makes;  /* loader and compiler threads were started */
    atomic_bool gives_up; /* cancels the compilation in progress */
    pthread_mutex_t lock;
    pthread_cond_t change; /* signals both threads */
    /* Under the lock. */
    bool stopped, ends;
    dop_models_counts counts;
};

enum { RETRY_MS = 3000, RESIDENCE_MS = 1000, TICK_MS = 200 };

/* --- names ---------------------------------------------------------------------------------------------------------------------- */

static bool
has_model_name(const dop_models_entry *e, const char *name)
{
    bool has = strcmp(e->id, name) == 0;
    for (size_t i = 0; i < e->n_aliases && !has; i++)
        has = strcmp(e->aliases[i], name) == 0;
    return has;
}

static model *
find_model_named(dop_models *m, const char *name)
{
    for (size_t i = 0; i < m->n && !name; i++)
        if (m->all[i].state == READY)
            return &m->all[i];
    for (size_t i = 0; i < m->n; i++)
        if (!name || has_model_name(&m->all[i].entry, name))
            return &m->all[i];
    return NULL;
}

static model *
find_api_owner(dop_models *m, const dop_api *api)
{
    for (size_t i = 0; i < m->n; i++)
        if (m->all[i].api == api)
            return &m->all[i];
    return NULL;
}

/* --- waiting ---------------------------------------------------------------------------------------------------------------------- */

/* Under the lock: wakes all waiters of a model. */
static void
wake_model_waiters(model *x)
{
    for (waiter *w = x->first, *next; w; w = next) {
        next = w->next;
        w->wake(w->user);
        free(w);
    }
    x->first = x->last = NULL;
}

static bool
add_model_waiter(model *x, void (*wake)(void *user), void *user)
{
    waiter *w = calloc(1, sizeof *w);
    if (!w)
        return false;
    *w = (waiter){.wake = wake, .user = user};
    if (x->last)
        x->last->next = w;
    else
        x->first = w;
    x->last = w;
    return true;
}

void
dop_models_forget(dop_models *models, const void *user)
{
    pthread_mutex_lock(&models->lock);
    for (size_t i = 0; i < models->n; i++) {
        model *x = &models->all[i];
        waiter *before = NULL;
        for (waiter *w = x->first, *next; w; w = next) {
            next = w->next;
            if (w->user != user) {
                before = w;
                continue;
            }
            if (before)
                before->next = next;
            else
                x->first = next;
            if (x->last == w)
                x->last = before;
            free(w);
        }
    }
    pthread_mutex_unlock(&models->lock);
}

/* Under the lock: if one model has lost the device, all have, but most have not detected it yet. Each one is
 * unloaded once it is unused. Loading it again opens the device again. */
static void
drain_lost_models(dop_models *m)
{
    bool lost = false;
    dop_diag why;
    for (size_t i = 0; i < m->n && !lost; i++)
        lost = m->all[i].state == READY && dop_engine_is_broken(m->all[i].api->engine, &why);
    for (size_t i = 0; i < m->n && lost; i++)
        if (m->all[i].state == READY)
            m->all[i].state = DRAINING;
    if (lost)
        pthread_cond_broadcast(&m->change);
}

/* Under the lock: begins to compile or load a model. */
static void
request_model(dop_models *m, model *x)
{
    x->state = x->entry.compiled ? UNMADE : WANTED;
    x->since_ms = x->began_ms = dop_now_ms();
    pthread_cond_broadcast(&m->change);
}

/* Under the lock: records a failure to load. The time until the next attempt is at least as long as the failed one
 * took. */
static void
fail_model(model *x, const dop_diag *diag)
{
    const double now = dop_now_ms(), took = now - x->began_ms;
    x->state = ABSENT;
    x->diag = *diag;
    x->failed_ms = now;
    x->retry_ms = took > RETRY_MS ? took : RETRY_MS;
    wake_model_waiters(x);
}

/* --- leases ------------------------------------------------------------------------------------------------------------------------ */

dop_lease
dop_models_take(dop_models *models, const char *name, void (*wake)(void *user), void *user, dop_diag *diag,
                const dop_api **out_api)
{
    dop_lease lease = DOP_LEASE_WAITS;
    *out_api = NULL;
    pthread_mutex_lock(&models->lock);
    drain_lost_models(models);
    model *x = find_model_named(models, name);
    const double now = dop_now_ms();
    if (!x) {
        lease = DOP_LEASE_UNKNOWN;
    } else if (models->stopped) {
        lease = DOP_LEASE_STOPPED;
    } else if (x->state == READY) {
        x->n_users++;
        *out_api = x->api;
        lease = DOP_LEASE_GIVEN;
    } else if (x->state == ABSENT && x->failed_ms > 0 && now - x->failed_ms < x->retry_ms) {
        *diag = x->diag;
        lease = DOP_LEASE_FAILED;
    } else if (!add_model_waiter(x, wake, user)) {
        DOP_NO_MEMORY(diag);
        lease = DOP_LEASE_FAILED;
    } else if (x->state == ABSENT) {
        request_model(models, x);
    }
    pthread_mutex_unlock(&models->lock);
    return lease;
}

void
dop_models_hold(dop_models *models, const dop_api *api)
{
    pthread_mutex_lock(&models->lock);
    find_api_owner(models, api)->n_users++;
    pthread_mutex_unlock(&models->lock);
}

void
dop_models_give_back(dop_models *models, const dop_api *api)
{
    pthread_mutex_lock(&models->lock);
    model *x = find_api_owner(models, api);
    x->used_ms = dop_now_ms();
    if (--x->n_users == 0)
        pthread_cond_broadcast(&models->change);
    pthread_mutex_unlock(&models->lock);
}

const dop_api *
dop_models_peek(dop_models *models)
{
    pthread_mutex_lock(&models->lock);
    model *x = find_model_named(models, NULL);
    const dop_api *api = x && x->state == READY ? x->api : NULL;
    if (api)
        x->n_users++;
    pthread_mutex_unlock(&models->lock);
    return api;
}

void
dop_models_each(dop_models *models, dop_models_fn *fn, void *user)
{
    pthread_mutex_lock(&models->lock);
    for (size_t i = 0; i < models->n; i++) {
        const model *x = &models->all[i];
        const bool there = x->state == READY || x->state == DRAINING;
        fn(user, &x->entry, x->state == ABSENT && x->failed_ms > 0 ? "failed" : state_names[x->state], x->ctx,
           there ? x->api : NULL);
    }
    pthread_mutex_unlock(&models->lock);
}

dop_models_counts
dop_models_count(dop_models *models)
{
    pthread_mutex_lock(&models->lock);
    const dop_models_counts counts = models->counts;
    pthread_mutex_unlock(&models->lock);
    return counts;
}

void
dop_models_count_answer(dop_models *models, unsigned status)
{
    pthread_mutex_lock(&models->lock);
    if (status / 100 < DOP_METRIC_STATUSES)
        models->counts.gone.answers[status / 100]++;
    pthread_mutex_unlock(&models->lock);
}

void
dop_models_stop(dop_models *models, double grace_s)
{
    pthread_mutex_lock(&models->lock);
    models->stopped = true;
    atomic_store(&models->gives_up, true);
    for (size_t i = 0; i < models->n; i++) {
        model *x = &models->all[i];
        if (x->state == READY || x->state == DRAINING)
            dop_engine_stop(x->api->engine, grace_s);
        wake_model_waiters(x);
    }
    pthread_cond_broadcast(&models->change);
    pthread_mutex_unlock(&models->lock);
}

bool
dop_models_is_idle(dop_models *models)
{
    bool idle = true;
    pthread_mutex_lock(&models->lock);
    for (size_t i = 0; i < models->n; i++) {
        const model *x = &models->all[i];
        idle &= x->state != LOADING && (!x->api || x->state == CLOSING || dop_engine_is_idle(x->api->engine));
    }
    pthread_mutex_unlock(&models->lock);
    return idle;
}

/* --- the loader ----------------------------------------------------------------------------------------------------------------------- */

/* Under the lock, which is released meanwhile: unloads an unused model. */
static void
unload_model(dop_models *m, model *x)
{
    x->state = CLOSING;
    dop_metrics last = dop_engine_metrics(x->api->engine);
    dop_metrics_end(&last);
    pthread_mutex_unlock(&m->lock);
    m->how.close(m->how.user, x->opened);
    pthread_mutex_lock(&m->lock);
    dop_metrics_add(&m->counts.gone, &last);
    m->counts.unloads++;
    m->counts.bytes -= x->bytes;
    x->opened = NULL;
    x->api = NULL;
    x->state = ABSENT;
    if (x->first)
        request_model(m, x);
}

/* Under the lock, which is released meanwhile: loads a model and wakes its waiters. If that fails and the model is
 * compiled, its plan is made again. */
static void
load_wanted_model(dop_models *m, model *x)
{
    dop_diag diag = {0};
    void *opened = NULL;
    dop_api *api = NULL;
    x->state = LOADING;
    pthread_mutex_unlock(&m->lock);
    const dop_status st = m->how.open(m->how.user, (size_t)(x - m->all), &diag, &opened, &api);
    pthread_mutex_lock(&m->lock);
    x->opened = opened;
    x->api = api;
    if (st == DOP_OK) {
        x->state = READY;
        x->failed_ms = 0;
        x->bytes = x->api->facts.device_bytes;
        x->ctx = x->api->facts.ctx;
        x->used_ms = x->since_ms = dop_now_ms();
        m->counts.loads++;
        m->counts.bytes += x->bytes;
        if (m->stopped)
            dop_engine_stop(x->api->engine, 0);
        wake_model_waiters(x);
    } else if (x->entry.compiled) {
        x->state = UNMADE;
        pthread_cond_broadcast(&m->change);
    } else {
        fail_model(x, &diag);
    }
}

/* Returns the loaded model to unload in favor of another one: the least recently used one without users, otherwise
 * the one loaded first. NULL: all models were loaded just now. */
static model *
choose_unload_victim(dop_models *m, double now_ms)
{
    model *idle = NULL, *oldest = NULL;
    for (size_t i = 0; i < m->n; i++) {
        model *x = &m->all[i];
        if (x->state != READY || now_ms - x->since_ms < RESIDENCE_MS)
            continue;
        if (x->n_users == 0 && (!idle || x->used_ms < idle->used_ms))
            idle = x;
        if (!oldest || x->since_ms < oldest->since_ms)
            oldest = x;
    }
    return idle ? idle : oldest;
}

/* Returns the model that has been in this state for the longest time; NULL: none is. */
static model *
find_longest_in_state(dop_models *m, state in)
{
    model *best = NULL;
    for (size_t i = 0; i < m->n; i++)
        if (m->all[i].state == in && (!best || m->all[i].since_ms < best->since_ms))
            best = &m->all[i];
    return best;
}

/* Loads, unloads or drains one model. Returns false if there was nothing to do. */
static bool
work_on_model(dop_models *m)
{
    const double now = dop_now_ms();
    bool drains = false;
    drain_lost_models(m);
    for (size_t i = 0; i < m->n; i++) {
        model *x = &m->all[i];
        const bool old = x->state == READY && m->how.idle_s > 0 && now - x->used_ms > m->how.idle_s * 1e3;
        if ((x->state == DRAINING || old) && x->n_users == 0) {
            unload_model(m, x);
            return true;
        }
        drains |= x->state == DRAINING;
    }
    model *x = m->stopped ? NULL : find_longest_in_state(m, WANTED);
    if (!x)
        return false;
    if (m->how.max_bytes == 0 || m->counts.bytes == 0 || m->counts.bytes + x->bytes <= m->how.max_bytes) {
        load_wanted_model(m, x);
        return true;
    }
    model *victim = drains ? NULL : choose_unload_victim(m, now);
    if (victim)
        victim->state = DRAINING;
    return victim != NULL;
}

static void *
run_loader(void *models)
{
    dop_models *m = models;
    pthread_mutex_lock(&m->lock);
    while (!m->ends) {
        struct timespec until;
        if (work_on_model(m))
            continue;
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_nsec += TICK_MS * 1000000L;
        until.tv_sec += until.tv_nsec / 1000000000L;
        until.tv_nsec %= 1000000000L;
        (void)pthread_cond_timedwait(&m->change, &m->lock, &until);
    }
    pthread_mutex_unlock(&m->lock);
    return NULL;
}

/* --- the maker ------------------------------------------------------------------------------------------------------------------------ */

/* Under the lock, which is released meanwhile: finds or compiles the plan of a model. */
static void
make_model_plan(dop_models *m, model *x)
{
    dop_diag diag = {0};
    uint64_t bytes = 0;
    x->state = MAKING;
    pthread_mutex_unlock(&m->lock);
    const dop_status st = m->how.make(m->how.user, (size_t)(x - m->all), &m->gives_up, &diag, &bytes);
    pthread_mutex_lock(&m->lock);
    if (st != DOP_OK) {
        fail_model(x, &diag);
        return;
    }
    if (x->ctx == 0) /* never loaded, so the real size is not known */
        x->bytes = bytes;
    x->state = WANTED;
    pthread_cond_broadcast(&m->change);
}

/* Thread function: compiles one model at a time, each on all cores. */
static void *
run_maker(void *models)
{
    enum { NICE = 10 };
    dop_models *m = models;
    /* On Linux, each thread has its own nice value, which its child threads inherit. Serving other models has
     * priority. */
    (void)setpriority(PRIO_PROCESS, (id_t)gettid(), NICE);
    pthread_mutex_lock(&m->lock);
    while (!m->ends) {
        model *x = m->stopped ? NULL : find_longest_in_state(m, UNMADE);
        if (x)
            make_model_plan(m, x);
        else
            pthread_cond_wait(&m->change, &m->lock);
    }
    pthread_mutex_unlock(&m->lock);
    return NULL;
}

/* --- the catalog ----------------------------------------------------------------------------------------------------------------------- */

static void
free_models_entry(dop_models_entry *e)
{
    for (size_t i = 0; i < e->n_aliases && e->aliases; i++)
        free((void *)(uintptr_t)e->aliases[i]);
    free((void *)(uintptr_t)e->aliases);
    free((void *)(uintptr_t)e->id);
    free((void *)(uintptr_t)e->path);
}

static bool
copy_models_entry(const dop_models_entry *from, dop_models_entry *to)
{
    const char **names = calloc(from->n_aliases + 1, sizeof *names);
    *to = (dop_models_entry){
        .id = strdup(from->id), .path = strdup(from->path), .aliases = names, .compiled = from->compiled};
    bool good = to->id && to->path && names;
    for (size_t i = 0; i < from->n_aliases && good; i++) {
        good = (names[i] = strdup(from->aliases[i])) != NULL;
        to->n_aliases += good;
    }
    return good;
}

static dop_status
add_models_entry(dop_models *m, const dop_models_entry *from, dop_diag *diag)
{
    struct stat file;
    model *x = &m->all[m->n];
    for (size_t i = 0; i < m->n; i++)
        for (size_t k = 0; k <= from->n_aliases; k++)
            if (has_model_name(&m->all[i].entry, k < from->n_aliases ? from->aliases[k] : from->id))
                return DOP_FAIL(diag, DOP_E_INPUT, "two models have the name \"%s\"",
                                k < from->n_aliases ? from->aliases[k] : from->id);
    m->n++;
    if (!copy_models_entry(from, &x->entry))
        return DOP_NO_MEMORY(diag);
    x->bytes = stat(from->path, &file) == 0 ? (uint64_t)file.st_size : 0;
    return DOP_OK;
}

dop_status
dop_models_create(const dop_models_entry *entries, size_t n, const dop_models_how *how, dop_diag *diag,
                  dop_models **out_models)
{
    dop_models *m = calloc(1, sizeof *m);
    *out_models = m;
    if (!m)
        return DOP_NO_MEMORY(diag);
    m->how = *how;
    pthread_mutex_init(&m->lock, NULL);
    pthread_condattr_t clock;
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&m->change, &clock);
    pthread_condattr_destroy(&clock);
    m->all = calloc(n, sizeof *m->all);
    if (!m->all)
        return DOP_NO_MEMORY(diag);
    for (size_t i = 0; i < n; i++) {
        const dop_status st = add_models_entry(m, &entries[i], diag);
        if (st != DOP_OK)
            return st;
    }
    m->started = pthread_create(&m->thread, NULL, run_loader, m) == 0;
    m->makes = m->started && how->make && pthread_create(&m->maker, NULL, run_maker, m) == 0;
    return m->started && (m->makes || !how->make)
               ? DOP_OK
               : DOP_FAIL(diag, DOP_E_IO, "cannot start a thread for loading models");
}

void
dop_models_destroy(dop_models *models)
{
    dop_models *m = models;
    if (!m)
        return;
    pthread_mutex_lock(&m->lock);
    m->ends = true;
    atomic_store(&m->gives_up, true);
    pthread_cond_broadcast(&m->change);
    pthread_mutex_unlock(&m->lock);
    if (m->started)
        pthread_join(m->thread, NULL);
    if (m->makes)
        pthread_join(m->maker, NULL);
    for (size_t i = 0; i < m->n; i++) {
        model *x = &m->all[i];
        if (x->opened)
            m->how.close(m->how.user, x->opened);
        for (waiter *w = x->first, *next; w; w = next) {
            next = w->next;
            free(w);
        }
        free_models_entry(&x->entry);
    }
    free(m->all);
    pthread_cond_destroy(&m->change);
    pthread_mutex_destroy(&m->lock);
    free(m);
}
