/* Parallel loops and worker threads.
 *
 * dop_parallel_for runs independent iterations and waits for them.  A team is a group of threads that works while its caller continues;
 * its members divide the work themselves. */
#ifndef DOPPLER_BASE_PARALLEL_H
#define DOPPLER_BASE_PARALLEL_H

#include "base/base.h"

#include <pthread.h>
#include <stdatomic.h>

enum { DOP_MAX_THREADS = 64 };

/* Returns the number of cores available to this process, at least 1. */
uint32_t dop_cores(void);
/* Returns dop_cores(), limited to `most`, for work too small for all cores of a large machine. */
uint32_t dop_cores_up_to(uint32_t most);

/* Runs iteration `index` of a loop.  worker: number of the thread, usable as an index of per-thread memory.  Each iteration has its own
 * diag. */
typedef dop_status dop_parallel_fn(void *user, uint32_t worker, uint32_t index, dop_diag *diag);

/* Runs fn for 0 .. n - 1 on up to n_threads threads, including the caller's (0: one per core; at most DOP_MAX_THREADS).  Returns when
 * all are done.  Iterations start in order; none starts after a failure.  Reports the failure with the lowest index, so that messages
 * do not depend on timing. */
dop_status dop_parallel_for(uint32_t n, uint32_t n_threads, dop_parallel_fn *fn, void *user, dop_diag *diag);

/* Like memcpy, with several threads if that is faster. */
void dop_parallel_copy(void *to, const void *from, size_t n);

typedef void dop_team_fn(void *user, uint32_t member);

typedef struct dop_team {
    dop_team_fn *fn;
    void *user;
    atomic_uint next; /* number of the next member to start */
    uint32_t n;       /* number of members that have a thread */
    pthread_t threads[DOP_MAX_THREADS];
} dop_team;

/* Starts up to n members (at most DOP_MAX_THREADS), each on its own thread.  Returns their number, which is lower or 0 if threads
 * cannot be created.  The team must not move until it is joined. */
uint32_t dop_team_start(dop_team *team, uint32_t n, dop_team_fn *fn, void *user);
void dop_team_join(dop_team *team); /* waits for all members; accepts a zeroed or joined team */

#endif
