/* base/parallel: every iteration once, failures that do not depend on timing, teams. */
#include "base/parallel.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST = 1000 };

typedef struct work {
    atomic_uint runs[MOST];
    atomic_uint busy[DOP_MAX_THREADS]; /* workers: never two at once with one number */
    uint32_t n_workers;
    atomic_uint clashes;
    uint32_t fail_from; /* iterations from here on fail */
    useconds_t slow;    /* microseconds that the first failing one takes */
} work;

static dop_status
run(void *user, uint32_t worker, uint32_t i, dop_diag *diag)
{
    work *w = user;
    if (worker >= w->n_workers || atomic_fetch_add(&w->busy[worker], 1) != 0)
        atomic_fetch_add(&w->clashes, 1);
    atomic_fetch_add(&w->runs[i], 1);
    dop_status st = DOP_OK;
    if (i >= w->fail_from) {
        if (i == w->fail_from)
            usleep(w->slow);
        st = DOP_FAIL(diag, DOP_E_INPUT, "iteration %u", i);
    }
    if (worker < DOP_MAX_THREADS)
        atomic_fetch_sub(&w->busy[worker], 1);
    return st;
}

Test(parallel, every_iteration_once)
{
    static const uint32_t counts[] = {0, 1, 2, 63, MOST}, threads[] = {0, 1, 2, 7, 64, 1000};
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
        for (size_t t = 0; t < sizeof threads / sizeof *threads; t++) {
            work w = {.fail_from = UINT32_MAX, .n_workers = threads[t] ? threads[t] : dop_cores()};
            dop_diag diag = {0};
            w.n_workers = w.n_workers > DOP_MAX_THREADS ? DOP_MAX_THREADS : w.n_workers;
            cr_assert_eq(dop_parallel_for(counts[c], threads[t], run, &w, &diag), DOP_OK);
            cr_assert_eq(w.clashes, 0);
            for (uint32_t i = 0; i < MOST; i++)
                cr_assert_eq(w.runs[i], i < counts[c], "%u of %u ran %u times", i, counts[c], w.runs[i]);
        }
}

/* The lowest failing iteration is the slowest one here, and its message is the one that comes back. */
Test(parallel, the_lowest_failure_is_reported)
{
    for (uint32_t threads = 1; threads <= 8; threads++) {
        work w = {.fail_from = 20, .slow = 20000, .n_workers = threads};
        dop_diag diag = {0};
        cr_assert_eq(dop_parallel_for(MOST, threads, run, &w, &diag), DOP_E_INPUT);
        cr_assert_str_eq(diag.message, "iteration 20");
        for (uint32_t i = 0; i < 20; i++)
            cr_assert_eq(w.runs[i], 1);
        cr_assert_eq(w.runs[20 + threads], 0, "none begins after a failure");
        cr_assert_eq(dop_parallel_for(MOST, threads, run, &w, NULL), DOP_E_INPUT);
    }
}

static void
count(void *user, uint32_t member)
{
    atomic_uint *seen = user;
    atomic_fetch_add(&seen[member], 1);
}

Test(parallel, teams)
{
    dop_team team = {.n = 0};
    dop_team_join(&team);
    atomic_uint seen[DOP_MAX_THREADS + 1] = {0};
    uint32_t n = dop_team_start(&team, 1000, count, seen);
    cr_assert_gt(n, 0);
    cr_assert_leq(n, DOP_MAX_THREADS);
    dop_team_join(&team);
    dop_team_join(&team);
    for (uint32_t i = 0; i <= DOP_MAX_THREADS; i++)
        cr_assert_eq(seen[i], i < n);
}

/* Copies of all lengths around what one thread takes, and no byte beside them. */
Test(parallel, copies)
{
    static const size_t lengths[] = {0, 1, (7 << 20) + 3, 8 << 20, (9 << 20) + 5};
    const size_t most = (9 << 20) + 6;
    uint8_t *from = malloc(most), *to = malloc(most);
    for (size_t i = 0; i < most; i++)
        from[i] = (uint8_t)(i * 2654435761u >> 24);
    for (size_t k = 0; k < sizeof lengths / sizeof *lengths; k++) {
        memset(to, 0, most);
        dop_parallel_copy(to, from, lengths[k]);
        cr_assert_eq(memcmp(to, from, lengths[k]), 0, "%zu bytes", lengths[k]);
        cr_assert_eq(to[lengths[k]], 0, "%zu bytes", lengths[k]);
    }
    cr_assert(dop_cores_up_to(1) == 1 && dop_cores_up_to(UINT32_MAX) == dop_cores());
    free(from);
    free(to);
}
