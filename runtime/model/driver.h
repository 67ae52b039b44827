/* Which process and which thread may use a model.  A process that was forked from the one that opened the model has none of the Vulkan
 * driver's threads, so that every wait would be endless: its calls fail with DOP_E_USAGE, and closing leaves all as it is.  In checked
 * builds (DOPPLER_CHECKED) a call that finds another thread at work on the model fails likewise instead of spoiling its states. */
#ifndef DOPPLER_RUNTIME_MODEL_DRIVER_H
#define DOPPLER_RUNTIME_MODEL_DRIVER_H

#include "base/base.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

/* Zeros: no thread is at work, and any process may use the model. */
typedef struct dop_driver {
    _Atomic uintptr_t thread;
    uint32_t depth; /* calls of this thread within each other; only it reads and writes this */
    pid_t process;  /* id of the process that opened the model; 0: not set */
} dop_driver;

/* True if this process was forked from the one that opened the model. */
static inline bool
dop_driver_is_forked(const dop_driver *d)
{
    return d->process != 0 && d->process != getpid();
}

/* False: another thread is at work, and nothing is changed. */
static inline bool
dop_driver_enter(dop_driver *d)
{
    const uintptr_t self = (uintptr_t)pthread_self();
    uintptr_t none = 0;
    if (atomic_load(&d->thread) != self && !atomic_compare_exchange_strong(&d->thread, &none, self))
        return false;
    d->depth++;
    return true;
}

static inline void
dop_driver_leave(dop_driver *d)
{
    if (--d->depth == 0)
        atomic_store(&d->thread, 0);
}

/* Fits the attribute cleanup. */
static inline void
dop_driver_leave_at_end(dop_driver **d)
{
    dop_driver_leave(*d);
}

#define DOP_REFUSE_FORKED(model, diag)                                                                             \
    if (dop_driver_is_forked(&(model)->loader.driver))                                                             \
    return DOP_FAIL(diag, DOP_E_USAGE,                                                                             \
                    "the model was opened by process %ld, from which this one was forked: open it here, or start " \
                    "processes without fork",                                                                      \
                    (long)(model)->loader.driver.process)

/* At the beginning of a public function that uses a model: the rest of it is this thread's, or it returns DOP_E_USAGE. */
#ifdef DOPPLER_CHECKED
#define DOP_DRIVE(model, diag)                                                                       \
    DOP_REFUSE_FORKED(model, diag);                                                                  \
    if (!dop_driver_enter(&(model)->loader.driver))                                                  \
        return DOP_FAIL(diag, DOP_E_USAGE, "another thread is using this model: one at a time may"); \
    dop_driver *driver_here __attribute__((cleanup(dop_driver_leave_at_end), unused)) = &(model)->loader.driver
#else
#define DOP_DRIVE(model, diag) DOP_REFUSE_FORKED(model, diag)
#endif

#endif
