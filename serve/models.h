/* Several models behind one server: each is loaded when a request names it, and unloaded when it has not been used for long, or when
 * another one needs its memory.  What has to be compiled first is, by a thread of its own, while others are loaded and serve.  Requests
 * that wait for a model take up no thread. */
#ifndef DOPPLER_SERVE_MODELS_H
#define DOPPLER_SERVE_MODELS_H

#include "serve/api/api.h"

#include <stdatomic.h>

/* A model of a catalog; copied. */
typedef struct dop_models_entry {
    const char *id, *path;
    const char *const *aliases; /* [n_aliases]: further names */
    size_t n_aliases;
    bool compiled; /* the path is no plan: `make` is called before each `open` */
} dop_models_entry;

typedef struct dop_models_how {
    /* Opens entries[number]: *out_model is for `close`.  One thread calls both, and no lock is held. */
    dop_status (*open)(void *user, size_t number, dop_diag *diag, void **out_model, dop_api **out_api);
    void (*close)(void *user, void *model);
    /* Finds or makes the plan of entries[number], which may take minutes, in a thread of its own, without a lock, and never while the
     * same entry is opened.  Once *stop is set, it gives up soon (DOP_E_CANCELLED).  Also called when `open` has failed: DOP_OK then says
     * that it is worth opening again, and a failure is what is told.  *out_bytes: the size of the model's files.  NULL: nothing is
     * compiled. */
    dop_status (*make)(void *user, size_t number, const atomic_bool *stop, dop_diag *diag, uint64_t *out_bytes);
    void *user;
    uint64_t max_bytes; /* of device memory, for all models together; 0: no limit */
    double idle_s;      /* after which an unused model is unloaded; 0: never */
} dop_models_how;

/* n is at least 1; names must differ (DOP_E_INPUT). */
dop_status dop_models_create(const dop_models_entry *entries, size_t n, const dop_models_how *how, dop_diag *diag,
                             dop_models **out_models);
/* Unloads all models, whose calls must have ended.  Accepts NULL. */
void dop_models_destroy(dop_models *models);

/* The rest may be called by any thread. */

typedef enum dop_lease {
    DOP_LEASE_GIVEN,
    DOP_LEASE_WAITS,   /* wake is called once, when it is worth asking again */
    DOP_LEASE_UNKNOWN, /* there is no such model */
    DOP_LEASE_FAILED,  /* it cannot be loaded: diag says why */
    DOP_LEASE_STOPPED  /* the server is shutting down */
} dop_lease;

/* Asks for a model by id or alias; NULL: the first one that is loaded, or the first one.  A model that is given stays loaded until it
 * is given back.  wake is called under the catalog's lock. */
dop_lease dop_models_take(dop_models *models, const char *name, void (*wake)(void *user), void *user, dop_diag *diag,
                          const dop_api **out_api);
/* Takes once more what has been taken. */
void dop_models_hold(dop_models *models, const dop_api *api);
void dop_models_give_back(dop_models *models, const dop_api *api);
/* Whoever waits with this user does so no more. */
void dop_models_forget(dop_models *models, const void *user);

/* Any loaded model, held; NULL: none is. */
const dop_api *dop_models_peek(dop_models *models);
/* Calls a function for each model, under the catalog's lock.  ctx: positions of a sequence, 0 until it was loaded once; api NULL: it is not
 * loaded. */
typedef void dop_models_fn(void *user, const dop_models_entry *entry, const char *status, uint32_t ctx,
                           const dop_api *api);
void dop_models_each(dop_models *models, dop_models_fn *fn, void *user);
typedef struct dop_models_counts {
    uint64_t loads, unloads, bytes; /* bytes: of the models that are loaded */
    dop_metrics gone;               /* what models that are not loaded any more have counted */
} dop_models_counts;
dop_models_counts dop_models_count(dop_models *models);
/* Counts an answer of the server. */
void dop_models_count_answer(dop_models *models, unsigned status);

/* Stops the engines of all models as dop_engine_stop does, and refuses those who wait. */
void dop_models_stop(dop_models *models, double grace_s);
bool dop_models_is_idle(dop_models *models);

#endif
