/* Checks that a process and thread may use a model. A forked child has none of the Vulkan driver's threads, so every
 * wait would hang: its calls fail with DOP_E_USAGE, and closing the model there frees nothing. In checked builds
 * (DOPPLER_CHECKED), calls from two threads at once also fail, instead of corrupting the model's states. */
#ifndef DOPPLER_RUNTIME_MODEL_DRIVER_H
#define DOPPLER_RUNTIME_MODEL_DRIVER_H

#include "base/base.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

/* Valid when zeroed: no thread is in a call, and any process may use the model. */
typedef struct dop_driver {
    _Atomic uintptr_t thread;
    uint32_t depth; /* nesting depth of this thread's calls; accessed only by that thread */
    pid_t process;  /* id of the process that opened the model; 0: not set */
} dop_driver;

/* True if this process was forked from the one that opened the model. */
static inline bool
dop_driver_is_forked(const dop_driver *d)
{
    return d->process != 0 && d->process != getpid();
}

/* Enters a call. Returns false, and changes nothing, if another thread is in one. */
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

/* Destructor for __attribute__((cleanup)). */
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

/* Put at the beginning of a public function that uses a model: claims the model for this thread until the function
 * returns, or returns DOP_E_USAGE. */
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
