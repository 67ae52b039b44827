#include "base/parallel.h"

#include <string.h>
#include <unistd.h>

uint32_t
dop_cores(void)
{
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n > 0 ? (uint32_t)n : 1;
}

uint32_t
dop_cores_up_to(uint32_t most)
{
    const uint32_t n = dop_cores();
    return n < most ? n : most;
}

static void *
run_team_member(void *arg)
{
    dop_team *team = arg;
    team->fn(team->user, atomic_fetch_add(&team->next, 1));
    return NULL;
}

uint32_t
dop_team_start(dop_team *team, uint32_t n, dop_team_fn *fn, void *user)
{
    team->fn = fn;
    team->user = user;
    team->n = 0;
    atomic_store(&team->next, 0);
    while (team->n < n && team->n < DOP_MAX_THREADS &&
           pthread_create(&team->threads[team->n], NULL, run_team_member, team) == 0)
        team->n++;
    return team->n;
}

void
dop_team_join(dop_team *team)
{
    while (team->n > 0)
        pthread_join(team->threads[--team->n], NULL);
}

typedef struct loop {
    dop_parallel_fn *fn;
    void *user;
    uint32_t n;
    atomic_uint next; /* next iteration to start */
    atomic_bool stop;
    pthread_mutex_t lock; /* protects failed, status and diag */
    uint32_t failed;      /* lowest failed iteration; UINT32_MAX: none */
    dop_status status;
    dop_diag diag;
} loop;

static void
run_iterations(loop *l, uint32_t worker)
{
    while (!atomic_load(&l->stop)) {
        uint32_t i = atomic_fetch_add(&l->next, 1);
        if (i >= l->n)
            break;
        dop_diag diag = {0};
        dop_status st = l->fn(l->user, worker, i, &diag);
        if (st == DOP_OK)
            continue;
        atomic_store(&l->stop, true);
        pthread_mutex_lock(&l->lock);
        if (i < l->failed) {
            l->failed = i;
            l->status = st;
            l->diag = diag;
        }
        pthread_mutex_unlock(&l->lock);
    }
}

static void
run_member_iterations(void *user, uint32_t member)
{
    run_iterations(user, member + 1); /* the caller is worker 0 */
}

dop_status
dop_parallel_for(uint32_t n, uint32_t n_threads, dop_parallel_fn *fn, void *user, dop_diag *diag)
{
    loop l = {.fn = fn, .user = user, .n = n, .failed = UINT32_MAX};
    dop_team team = {.n = 0};
    if (n_threads == 0)
        n_threads = dop_cores();
    if (n_threads > DOP_MAX_THREADS)
        n_threads = DOP_MAX_THREADS;
    if (n_threads > n)
        n_threads = n;
    if (pthread_mutex_init(&l.lock, NULL) != 0)
        return DOP_FAIL(diag, DOP_E_NOMEM, "cannot make a lock");
    if (n_threads > 1)
        dop_team_start(&team, n_threads - 1, run_member_iterations, &l);
    run_iterations(&l, 0);
    dop_team_join(&team);
    pthread_mutex_destroy(&l.lock);
    if (l.failed != UINT32_MAX && diag)
        *diag = l.diag;
    return l.status;
}

/* Bytes per thread that pay for starting it.  Each thread also handles the page faults of its part. */
enum { COPY_EACH = 2 << 20, COPY_THREADS = 8 };

typedef struct copying {
    uint8_t *to;
    const uint8_t *from;
    size_t n;
} copying;

static dop_status
copy_piece(void *user, uint32_t worker, uint32_t index, dop_diag *diag)
{
    const copying *c = user;
    const size_t at = (size_t)index * COPY_EACH, left = c->n - at;
    (void)worker;
    (void)diag;
    memcpy(c->to + at, c->from + at, left < COPY_EACH ? left : COPY_EACH);
    return DOP_OK;
}

void
dop_parallel_copy(void *to, const void *from, size_t n)
{
    copying c = {to, from, n};
    const size_t pieces = (n + COPY_EACH - 1) / COPY_EACH;
    if (pieces < 4 || pieces > UINT32_MAX ||
        dop_parallel_for((uint32_t)pieces, dop_cores_up_to(COPY_THREADS), copy_piece, &c, NULL) != DOP_OK)
        memcpy(to, from, n);
}
