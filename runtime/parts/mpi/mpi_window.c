/* Transfers rows between ranks of one host through a ring of buffers in shared memory (an MPI shared window).
 *
 * The sender copies a message into the ring, the receiver out of it; MPI would add a copy on each side. It is available
 * as soon as it is written, even if no thread calls MPI. Each rank owns the ring that it receives from. */
#include "runtime/parts/mpi/mpi_internal.h"

#include <sched.h>
#include <string.h>
#include <time.h>

enum { SLOTS = 8 };

/* Ring of messages. Each count is written by one side only, and has cache lines of its own. */
struct dop_mpi_window {
    _Atomic uint64_t sent;
    uint8_t apart[128 - sizeof(uint64_t)];
    _Atomic uint64_t taken;
    uint8_t apart_too[128 - sizeof(uint64_t)];
    uint32_t sizes[SLOTS]; /* by slot: message size in bytes */
    uint8_t rest[4096 - 256 - SLOTS * sizeof(uint32_t)];
    uint8_t slots[SLOTS][DOP_WIRE_MOST];
};

/* Translates a rank of the job to a rank on this host; -1: it is on another host. */
static int
local_rank(const dop_mpi *m, int rank)
{
    MPI_Group all, here;
    int local = MPI_UNDEFINED;
    if (rank < 0 || rank >= (int)m->wire.n || MPI_Comm_group(m->lanes, &all) != MPI_SUCCESS)
        return -1;
    if (MPI_Comm_group(m->host, &here) == MPI_SUCCESS) {
        (void)MPI_Group_translate_ranks(all, 1, &rank, here, &local);
        (void)MPI_Group_free(&here);
    }
    (void)MPI_Group_free(&all);
    return local == MPI_UNDEFINED ? -1 : local;
}

void
dop_mpi_window_make(dop_mpi *mpi)
{
    dop_mpi *m = mpi;
    const int before = local_rank(m, (int)m->wire.rank - 1), after = local_rank(m, (int)m->wire.rank + 1);
    const MPI_Aint size = before >= 0 ? (MPI_Aint)sizeof(dop_mpi_window) : 0;
    void *base = NULL;
    int unit = 0, made, all = 0;
    MPI_Aint there = 0;
    (void)MPI_Comm_set_errhandler(m->host, MPI_ERRORS_RETURN);
    made = MPI_Win_allocate_shared(size, 1, MPI_INFO_NULL, m->host, &base, &m->window) == MPI_SUCCESS;
    if (!made)
        m->window = MPI_WIN_NULL;
    /* If any rank of the host has no window, perhaps for lack of memory, all of them send rows as messages. */
    if (MPI_Allreduce(&made, &all, 1, MPI_INT, MPI_MIN, m->host) != MPI_SUCCESS || !all)
        return;
    (void)MPI_Win_lock_all(MPI_MODE_NOCHECK, m->window);
    if (before >= 0) {
        m->rows_in = base;
        atomic_store(&m->rows_in->sent, 0);
        atomic_store(&m->rows_in->taken, 0);
    }
    (void)MPI_Barrier(m->host);
    if (after >= 0 && MPI_Win_shared_query(m->window, after, &there, &unit, &base) == MPI_SUCCESS)
        m->rows_out = base;
}

void
dop_mpi_window_free(dop_mpi *mpi)
{
    if (mpi->window == MPI_WIN_NULL)
        return;
    (void)MPI_Win_unlock_all(mpi->window);
    (void)MPI_Win_free(&mpi->window);
}

void
dop_mpi_rest(const dop_mpi *mpi, uint64_t looks)
{
    const dop_mpi *m = mpi;
    const struct timespec nap = {.tv_nsec = 20000};
    if (looks > (m->wire.crowded ? 50 : 2000000))
        (void)nanosleep(&nap, NULL);
    else if (m->wire.crowded || looks % 1024 == 1023)
        (void)sched_yield();
}

/* Waits until *count is at least `value`, or a rank is lost. Messages of other lanes make progress meanwhile. */
static dop_status
await_count(dop_mpi *m, const _Atomic uint64_t *count, uint64_t value, dop_diag *diag)
{
    for (uint64_t looks = 0; atomic_load_explicit(count, memory_order_acquire) < value; looks++) {
        int there;
        if (atomic_load(&m->failed))
            return DOP_FAIL(diag, m->code, "%s", m->why);
        if (looks % 64 == 63)
            (void)MPI_Iprobe(MPI_ANY_SOURCE, DOP_MPI_LANES, m->lanes, &there, MPI_STATUS_IGNORE);
        dop_mpi_rest(m, looks);
    }
    return DOP_OK;
}

dop_status
dop_mpi_window_send(dop_mpi *mpi, const void *bytes, size_t size, dop_diag *diag)
{
    dop_mpi_window *w = mpi->rows_out;
    const uint64_t n = atomic_load_explicit(&w->sent, memory_order_relaxed);
    dop_status st = n < SLOTS ? DOP_OK : await_count(mpi, &w->taken, n - SLOTS + 1, diag);
    if (st != DOP_OK)
        return st;
    memcpy(w->slots[n % SLOTS], bytes, size);
    w->sizes[n % SLOTS] = (uint32_t)size;
    atomic_store_explicit(&w->sent, n + 1, memory_order_release);
    return DOP_OK;
}

dop_status
dop_mpi_window_receive(dop_mpi *mpi, dop_diag *diag, const uint8_t **out_bytes, size_t *out_size)
{
    dop_mpi_window *w = mpi->rows_in;
    uint64_t n = atomic_load_explicit(&w->taken, memory_order_relaxed);
    if (mpi->has_slot) /* release the previous message */
        atomic_store_explicit(&w->taken, ++n, memory_order_release);
    mpi->has_slot = false;
    dop_status st = await_count(mpi, &w->sent, n + 1, diag);
    if (st != DOP_OK)
        return st;
    mpi->has_slot = true;
    *out_bytes = w->slots[n % SLOTS];
    *out_size = w->sizes[n % SLOTS];
    return DOP_OK;
}

bool
dop_mpi_window_ready(const dop_mpi *mpi)
{
    const dop_mpi_window *w = mpi->rows_in;
    return atomic_load_explicit(&w->sent, memory_order_acquire) >
           atomic_load_explicit(&w->taken, memory_order_relaxed) + mpi->has_slot;
}
