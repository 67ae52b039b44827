/* Threads for loops: work whose parts need not know of each other.
 *
 * dop_parallel_for is the loop that its caller waits for.  A team is for work that goes on while its caller does something
 * else; how its members share the work is their business. */
#ifndef DOPPLER_RUNTIME_PARALLEL_H
#define DOPPLER_RUNTIME_PARALLEL_H

#include "runtime/base.h"

#include <pthread.h>
#include <stdatomic.h>

enum { DOP_MAX_THREADS = 64 };

/* Cores that this process may use, at least 1. */
uint32_t dop_cores(void);

/* Iteration `index` of a loop, by the thread `worker` (below the number of threads; memory of its own can be found by it).
 * diag is the iteration's own. */
typedef dop_status dop_parallel_fn(void *user, uint32_t worker, uint32_t index, dop_diag *diag);

/* Runs fn for 0 .. n - 1 on up to n_threads threads (0: one per core; at most DOP_MAX_THREADS), the caller's among them,
 * and returns when all are done.  Iterations begin in order, and none begins after one has failed.  The failure that is
 * reported is that of the lowest index, so that messages do not depend on timing. */
dop_status dop_parallel_for(uint32_t n, uint32_t n_threads, dop_parallel_fn *fn, void *user, dop_diag *diag);

typedef void dop_team_fn(void *user, uint32_t member);

typedef struct dop_team {
    dop_team_fn *fn;
    void *user;
    atomic_uint next; /* member */
    uint32_t n;       /* members that have a thread: 0 .. n - 1 */
    pthread_t threads[DOP_MAX_THREADS];
} dop_team;

/* Starts up to n members (at most DOP_MAX_THREADS), each on a thread of its own, and returns how many there are: fewer, or
 * none, when threads cannot be made.  The team must stay where it is until it is joined. */
uint32_t dop_team_start(dop_team *team, uint32_t n, dop_team_fn *fn, void *user);
void dop_team_join(dop_team *team); /* waits for all members; accepts a zeroed team, and one that was joined */

#endif
