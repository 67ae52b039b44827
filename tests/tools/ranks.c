/* Ranks under mpirun without a plan, for tests/errors/ranks.sh: messages on every lane, and ranks that are lost.
 *
 *   ranks talk | messages | time | fail | kill | stop | idle-stop | first-kill | first-stop
 *
 * talk: rank 0 says "talked" when everything has come in order; messages: the same without memory between ranks.
 * Otherwise the last rank fails, or is killed or stopped by a signal while rank 0 waits for it (idle-stop: rank 0 waits
 * for nothing); rank 0 says what receive says.  first-...: rank 0 is the one that is lost, and the others wait for its orders. */
#include "runtime/parts/mpi/mpi.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static dop_diag diag;

static void
ok(dop_status st)
{
    if (st == DOP_OK)
        return;
    printf("error: %s\n", diag.message);
    exit(1);
}

static uint8_t
byte_of(uint32_t lane, uint32_t number, size_t i)
{
    return (uint8_t)(lane * 77 + number * 13 + i);
}

static const size_t sizes[] = {0, 1, 100, 4096, 5000, 70000, DOP_WIRE_MOST};
enum { N_SIZES = sizeof sizes / sizeof sizes[0], TIMES = 30 };

static void
send_all(const dop_wire *w, uint32_t to, dop_wire_lane lane)
{
    uint8_t *bytes = malloc(DOP_WIRE_MOST);
    for (uint32_t k = 0; k < TIMES; k++) {
        for (size_t i = 0; i < sizes[k % N_SIZES]; i++)
            bytes[i] = byte_of(lane, k, i);
        ok(w->send(w->user, to, lane, bytes, sizes[k % N_SIZES], &diag));
    }
    free(bytes);
}

static void
receive_all(const dop_wire *w, uint32_t from, dop_wire_lane lane)
{
    for (uint32_t k = 0; k < TIMES; k++) {
        const uint8_t *bytes;
        size_t size;
        ok(w->receive(w->user, from, lane, &diag, &bytes, &size));
        bool same = size == sizes[k % N_SIZES];
        for (size_t i = 0; same && i < size; i++)
            same = bytes[i] == byte_of(lane, k, i);
        if (!same) {
            printf("error: rank %u, lane %d: message %u from rank %u is another one\n", w->rank, lane, k, from);
            exit(1);
        }
    }
}

static void
talk(const dop_wire *w)
{
    if (w->rank == 0) {
        for (uint32_t i = 1; i < w->n; i++)
            send_all(w, i, DOP_LANE_ORDERS);
        send_all(w, 1, DOP_LANE_ROWS);
        for (uint32_t i = 1; i < w->n; i++)
            receive_all(w, i, DOP_LANE_ANSWERS);
        printf("talked\n");
        return;
    }
    receive_all(w, 0, DOP_LANE_ORDERS);
    receive_all(w, w->rank - 1, DOP_LANE_ROWS);
    if (w->rank + 1 < w->n)
        send_all(w, w->rank + 1, DOP_LANE_ROWS);
    send_all(w, 0, DOP_LANE_ANSWERS);
}

/* How long rows of a size take to rank 1, and a word to come back. */
static void
take_time(const dop_wire *w)
{
    enum { ROUNDS = 200 };
    static uint8_t bytes[DOP_WIRE_MOST];
    const uint8_t *got;
    size_t size;
    for (size_t k = 1; k < N_SIZES; k++) {
        struct timespec a, b;
        (void)clock_gettime(CLOCK_MONOTONIC, &a);
        for (uint32_t i = 0; i < ROUNDS && w->rank == 0; i++) {
            ok(w->send(w->user, 1, DOP_LANE_ROWS, bytes, sizes[k], &diag));
            ok(w->receive(w->user, 1, DOP_LANE_ANSWERS, &diag, &got, &size));
        }
        for (uint32_t i = 0; i < ROUNDS && w->rank == 1; i++) {
            ok(w->receive(w->user, 0, DOP_LANE_ROWS, &diag, &got, &size));
            ok(w->send(w->user, 0, DOP_LANE_ANSWERS, bytes, 4, &diag));
        }
        (void)clock_gettime(CLOCK_MONOTONIC, &b);
        if (w->rank == 0)
            printf("%zu bytes: %.1f us\n", sizes[k],
                   ((double)(b.tv_sec - a.tv_sec) * 1e6 + (double)(b.tv_nsec - a.tv_nsec) / 1e3) / ROUNDS);
    }
}

/* The last rank is lost in the way that is asked for. */
static dop_status
lose(const dop_wire *w, const char *how)
{
    const uint8_t *bytes;
    size_t size;
    if (strncmp(how, "first-", 6) == 0) {
        if (w->rank == 0) {
            (void)raise(strcmp(how, "first-kill") == 0 ? SIGKILL : SIGSTOP);
            _exit(1); /* mpirun lets it continue when all are to end */
        }
        return w->receive(w->user, 0, DOP_LANE_ORDERS, &diag, &bytes, &size);
    }
    if (w->rank + 1 == w->n) {
        dop_diag why = {0};
        if (strcmp(how, "fail") == 0)
            w->fail(w->user, (DOP_FAIL(&why, DOP_E_DEVICE, "the device was lost"), &why));
        else
            (void)raise(strcmp(how, "kill") == 0 ? SIGKILL : SIGSTOP);
        return DOP_E_DEVICE;
    }
    if (strcmp(how, "idle-stop") == 0 && w->rank == 0)
        sleep(60);
    return w->receive(w->user, w->rank == 0 ? w->n - 1 : w->rank - 1, w->rank == 0 ? DOP_LANE_ANSWERS : DOP_LANE_ROWS,
                      &diag, &bytes, &size);
}

int
main(int argc, char **argv)
{
    dop_mpi *mpi;
    dop_status st = DOP_OK;
    if (argc < 2)
        return 2;
    (void)signal(SIGTERM, SIG_IGN); /* of mpirun, when a rank is killed: what this one says of it is wanted too */
    const bool messages = strcmp(argv[1], "messages") == 0;
    const dop_mpi_options options = {.silence_s = argc > 2 ? atof(argv[2]) : 0, .messages = messages};
    ok(dop_mpi_start(&options, &diag, &mpi));
    const dop_wire *w = dop_mpi_wire(mpi);
    if (w->n < 2) {
        printf("error: there is one rank, and nobody to talk to\n");
        return 2;
    }
    if (messages || strcmp(argv[1], "talk") == 0)
        talk(w);
    else if (strcmp(argv[1], "time") == 0)
        take_time(w);
    else
        st = lose(w, argv[1]);
    if (st != DOP_OK && w->rank == 0)
        printf("lost: %s\n", diag.message);
    fflush(stdout);
    dop_mpi_end(mpi, st);
    return st == DOP_OK ? 0 : 1;
}
