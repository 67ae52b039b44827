/* Serves several models. A model is loaded when a request names it, and unloaded when it is idle for long or another
 * model needs its memory. A separate thread compiles models, while others are loaded and serve. Requests that wait
 * for a model occupy no thread. */
#ifndef DOPPLER_SERVE_MODELS_H
#define DOPPLER_SERVE_MODELS_H

#include "serve/api/api.h"

#include <stdatomic.h>

/* A model of a catalog. Its members are copied. */
typedef struct dop_models_entry {
    const char *id, *path;
    const char *const *aliases; /* [n_aliases]: additional names */
    size_t n_aliases;
    bool compiled; /* the path is not a plan: `make` is called before each `open` */
} dop_models_entry;

typedef struct dop_models_how {
    /* Opens entries[number]; *out_model is passed to `close`. Both are called by one thread, without a lock. */
    dop_status (*open)(void *user, size_t number, dop_diag *diag, void **out_model, dop_api **out_api);
    void (*close)(void *user, void *model);
    /* Finds or compiles the plan of entries[number], which may take minutes. Runs in its own thread, without a lock,
     * and never while the same entry is opened. Once *stop is set, it soon fails with DOP_E_CANCELLED. It is also
     * called after `open` has failed: DOP_OK then means that opening may succeed now, and a failure is reported to
     * clients. *out_bytes: size of the model's files. NULL: models are never compiled. */
    dop_status (*make)(void *user, size_t number, const atomic_bool *stop, dop_diag *diag, uint64_t *out_bytes);
    void *user;
    uint64_t max_bytes; /* device memory for all models together; 0: no limit */
    double idle_s;      /* seconds after which an unused model is unloaded; 0: never */
} dop_models_how;

/* Creates the catalog. n must be at least 1; duplicate names fail with DOP_E_INPUT. */
dop_status dop_models_create(const dop_models_entry *entries, size_t n, const dop_models_how *how, dop_diag *diag,
                             dop_models **out_models);
/* Unloads all models. Their calls must have ended. Accepts NULL. */
void dop_models_destroy(dop_models *models);

/* Any thread may call the functions below. */

typedef enum dop_lease {
    DOP_LEASE_GIVEN,
    DOP_LEASE_WAITS,   /* not loaded yet: `wake` is called once, when the lease should be requested again */
    DOP_LEASE_UNKNOWN, /* no such model */
    DOP_LEASE_FAILED,  /* the model cannot be loaded: diag has the reason */
    DOP_LEASE_STOPPED  /* the server is shutting down */
} dop_lease;

/* Requests a lease of a model by id or alias. NULL: the first loaded model, or the first of all. A leased model
 * stays loaded until dop_models_give_back. `wake` is called under the catalog's lock. */
dop_lease dop_models_take(dop_models *models, const char *name, void (*wake)(void *user), void *user, dop_diag *diag,
                          const dop_api **out_api);
/* Adds a reference to a model that is already leased. */
void dop_models_hold(dop_models *models, const dop_api *api);
void dop_models_give_back(dop_models *models, const dop_api *api);
/* Cancels the waits registered with `user`. */
void dop_models_forget(dop_models *models, const void *user);

/* Returns any loaded model, with a lease; NULL: none is loaded. */
const dop_api *dop_models_peek(dop_models *models);
/* Called for each model, under the catalog's lock. ctx: context length, 0 until the model was loaded once. api: NULL
 * unless the model is loaded. */
typedef void dop_models_fn(void *user, const dop_models_entry *entry, const char *status, uint32_t ctx,
                           const dop_api *api);
void dop_models_each(dop_models *models, dop_models_fn *fn, void *user);
typedef struct dop_models_counts {
    uint64_t loads, unloads, bytes; /* bytes: device memory of the loaded models */
    dop_metrics gone;               /* accumulated metrics of models that were unloaded */
} dop_models_counts;
dop_models_counts dop_models_count(dop_models *models);
/* Counts an HTTP answer with this status. */
void dop_models_count_answer(dop_models *models, unsigned status);

/* Stops the engines of all models (dop_engine_stop), and refuses requests that wait for a model. */
void dop_models_stop(dop_models *models, double grace_s);
bool dop_models_is_idle(dop_models *models);

#endif
