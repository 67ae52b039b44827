/* Watch: a thread of each rank that detects lost ranks. Rank 0 watches all others, and they watch rank 0. */
#include "runtime/parts/mpi/mpi_internal.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    SAY_MS = 500,   /* interval of ALIVE messages */
    LOOK_MS = 100,  /* interval of process checks on this host */
    ENDS_MS = 2500, /* grace period for the program to end after a rank is lost */
    STEP_US = 1000  /* interval of rounds; MPI makes progress in each */
};

double
dop_mpi_now_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* Records that a rank is lost. silent: the rank will not end by itself. */
static void
note_lost_rank(dop_mpi *m, uint32_t rank, dop_status code, bool silent, const char *why)
{
    if (atomic_exchange(&m->failing, true))
        return;
    m->code = code;
    m->told = m->told || (rank == 0 && !silent);
    snprintf(m->why, sizeof m->why, "rank %u on %s%s%s", rank, m->places[rank].host, silent ? " " : ": ", why);
    atomic_store(&m->silent, silent);
    atomic_store(&m->failed, true);
}

static void
receive_signs(dop_mpi *m, dop_mpi_peer *p)
{
    int done = 1;
    while (done && !p->bye) {
        if (p->receive == MPI_REQUEST_NULL && MPI_Irecv(&p->received, sizeof p->received, MPI_BYTE, (int)p->rank, 0,
                                                        m->watching, &p->receive) != MPI_SUCCESS)
            return;
        if (MPI_Test(&p->receive, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS) {
            note_lost_rank(m, p->rank, DOP_E_DEVICE, true, "is lost: the connection to it failed");
            return;
        }
        if (!done)
            return;
        p->heard_ms = dop_mpi_now_ms();
        p->bye = p->received.word == DOP_MPI_BYE;
        p->received.text[sizeof p->received.text - 1] = 0;
        if (p->received.word == DOP_MPI_FAILED)
            note_lost_rank(m, p->rank, (dop_status)p->received.code, false, p->received.text);
        m->told = m->told || p->received.word == DOP_MPI_LOST; /* rank 0 will end all ranks */
    }
}

/* Sends a message to a peer unless the previous one is still in flight. Returns true if it was sent. */
static bool
send_sign(dop_mpi *m, dop_mpi_peer *p, const dop_mpi_sign *sign)
{
    int done = 1;
    if (p->send != MPI_REQUEST_NULL && (MPI_Test(&p->send, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS || !done))
        return false;
    p->sent = *sign;
    const size_t size = sign->word >= DOP_MPI_FAILED ? sizeof *sign : offsetof(dop_mpi_sign, text);
    return MPI_Isend(&p->sent, (int)size, MPI_BYTE, (int)p->rank, 0, m->watching, &p->send) == MPI_SUCCESS;
}

/* Declares a peer lost if its process on this host is gone, or if it was silent for too long. */
static void
check_peer_alive(dop_mpi *m, const dop_mpi_peer *p, double now)
{
    const dop_mpi_place *here = &m->places[m->wire.rank], *there = &m->places[p->rank];
    char why[100];
    if (p->bye)
        return;
    if (strcmp(here->host, there->host) == 0 && kill((pid_t)there->pid, 0) != 0 && errno == ESRCH) {
        note_lost_rank(m, p->rank, DOP_E_DEVICE, true, "has ended: it was killed, or crashed");
    } else if (now - p->heard_ms > m->silence_ms) {
        snprintf(why, sizeof why, "has not answered for %.0f s: it was stopped, or hangs, or its host is gone",
                 m->silence_ms / 1e3);
        note_lost_rank(m, p->rank, DOP_E_DEVICE, true, why);
    }
}

static bool
all_said(const dop_mpi *m)
{
    bool all = true;
    for (uint32_t i = 0; i < m->n_peers; i++)
        all = all && m->peers[i].bye && m->peers[i].said_bye && m->peers[i].send == MPI_REQUEST_NULL;
    return all;
}

void
dop_mpi_watch_say(const dop_mpi *mpi)
{
    const dop_mpi *m = mpi;
    const struct timespec moment = {.tv_sec = 1};
    (void)fflush(NULL);
    if (m->told)
        return;
    if (m->wire.rank <= 1)
        fprintf(stderr, "doppler-exec: error: %s\n", m->why);
    else /* the first rank to abort also ends rank 1, so let it print first */
        (void)nanosleep(&moment, NULL);
}

/* Ends all ranks, after the program has had time to report the loss. */
static void
end_all(dop_mpi *m)
{
    dop_mpi_watch_say(m);
    (void)MPI_Abort(MPI_COMM_WORLD, 1);
    _exit(1);
}

static void
send_signs(dop_mpi *m, bool alive)
{
    const dop_mpi_sign lives = {.word = DOP_MPI_ALIVE}, bye = {.word = DOP_MPI_BYE};
    /* Rank 0 forwards failures of other ranks, because the rest may be waiting for the failed one. It also forwards
     * losses that it detected, so that no rank reports rank 0 as lost when it ends. */
    if (m->wire.rank == 0 && atomic_load(&m->failed) && !m->passed_on) {
        m->passed_on = true;
        m->sign = (dop_mpi_sign){.word = atomic_load(&m->silent) ? DOP_MPI_LOST : DOP_MPI_FAILED, .code = m->code};
        snprintf(m->sign.text, sizeof m->sign.text, "%.900s", m->why);
        atomic_store(&m->has_sign, true);
    }
    const bool failed = atomic_load(&m->has_sign);
    bool said = true;
    for (uint32_t i = 0; i < m->n_peers; i++) {
        dop_mpi_peer *p = &m->peers[i];
        int done;
        if (p->send != MPI_REQUEST_NULL)
            (void)MPI_Test(&p->send, &done, MPI_STATUS_IGNORE);
        if (failed && !p->said_bye && !p->has_sign) {
            p->has_sign = send_sign(m, p, &m->sign);
            said = said && p->has_sign;
        } else if (atomic_load(&m->ending) && !p->said_bye)
            p->said_bye = send_sign(m, p, &bye);
        else if (alive && !p->said_bye)
            (void)send_sign(m, p, &lives);
    }
    if (failed && said)
        atomic_store(&m->has_sign, false);
}

static void *
watch_ranks(void *user)
{
    dop_mpi *m = user;
    double said = 0, looked = 0, lost = 0, patience = ENDS_MS + (m->wire.rank > 0 ? 2000 : 0);
    const struct timespec step = {.tv_nsec = STEP_US * 1000L};
    while (!atomic_load(&m->ending) || !all_said(m)) {
        const double now = dop_mpi_now_ms();
        const bool alive = now - said >= SAY_MS;
        said = alive ? now : said;
        for (uint32_t i = 0; i < m->n_peers; i++)
            receive_signs(m, &m->peers[i]);
        send_signs(m, alive);
        if (now - looked >= LOOK_MS)
            for (uint32_t i = 0; i < m->n_peers; i++)
                check_peer_alive(m, &m->peers[i], now);
        looked = now - looked >= LOOK_MS ? now : looked;
        if (atomic_load(&m->failed)) {
            lost = lost > 0 ? lost : now;
            if (atomic_load(&m->ending) && atomic_load(&m->silent)) {
                send_signs(m, false);
                return NULL; /* dop_mpi_end continues */
            }
            if (now - lost > patience)
                end_all(m);
        }
        (void)nanosleep(&step, NULL);
    }
    return NULL;
}

dop_status
dop_mpi_watch_start(dop_mpi *mpi, dop_diag *diag)
{
    dop_mpi *m = mpi;
    m->n_peers = m->wire.rank == 0 ? m->wire.n - 1 : 1;
    m->peers = calloc(m->n_peers + 1, sizeof *m->peers);
    if (!m->peers)
        return DOP_NO_MEMORY(diag);
    for (uint32_t i = 0; i < m->n_peers; i++)
        m->peers[i] = (dop_mpi_peer){.rank = m->wire.rank == 0 ? i + 1 : 0,
                                     .receive = MPI_REQUEST_NULL,
                                     .send = MPI_REQUEST_NULL,
                                     .heard_ms = dop_mpi_now_ms()};
    m->started = pthread_create(&m->thread, NULL, watch_ranks, m) == 0;
    return m->started ? DOP_OK : DOP_FAIL(diag, DOP_E_NOMEM, "cannot start a thread");
}

void
dop_mpi_watch_end(dop_mpi *mpi)
{
    atomic_store(&mpi->ending, true);
    if (mpi->started)
        (void)pthread_join(mpi->thread, NULL);
}
