/* Threads for loops whose iterations are independent.
 *
 * dop_parallel_for is a loop that its caller waits for.  A team is for work that continues while its caller does something
 * else; its members decide how they divide the work. */
#ifndef DOPPLER_BASE_PARALLEL_H
#define DOPPLER_BASE_PARALLEL_H

#include "base/base.h"

#include <pthread.h>
#include <stdatomic.h>

enum { DOP_MAX_THREADS = 64 };

/* Cores that this process may use, at least 1. */
uint32_t dop_cores(void);
/* The same, but at most `most`: threads for work that is too little for all of a large machine's. */
uint32_t dop_cores_up_to(uint32_t most);

/* Iteration `index` of a loop, run by the thread `worker` (below the number of threads; it can index memory per thread).
 * Each iteration has its own diag. */
typedef dop_status dop_parallel_fn(void *user, uint32_t worker, uint32_t index, dop_diag *diag);

/* Runs fn for 0 .. n - 1 on up to n_threads threads (0: one per core; at most DOP_MAX_THREADS), the caller's among them,
 * and returns when all are done.  Iterations begin in order, and none begins after one has failed.  The reported failure is
 * that of the lowest index, so that messages do not depend on timing. */
dop_status dop_parallel_for(uint32_t n, uint32_t n_threads, dop_parallel_fn *fn, void *user, dop_diag *diag);

/* memcpy, by several threads where that is faster. */
void dop_parallel_copy(void *to, const void *from, size_t n);

typedef void dop_team_fn(void *user, uint32_t member);

typedef struct dop_team {
    dop_team_fn *fn;
    void *user;
    atomic_uint next; /* number of the next member that starts */
    uint32_t n;       /* members that have a thread: 0 .. n - 1 */
    pthread_t threads[DOP_MAX_THREADS];
} dop_team;

/* Starts up to n members (at most DOP_MAX_THREADS), each on a thread of its own, and returns how many there are: fewer, or
 * none, when threads cannot be made.  The team must stay where it is until it is joined. */
uint32_t dop_team_start(dop_team *team, uint32_t n, dop_team_fn *fn, void *user);
void dop_team_join(dop_team *team); /* waits for all members; accepts a zeroed team, and one that was joined */

#endif
