#ifndef DOPPLER_RUNTIME_PARTS_MPI_MPI_INTERNAL_H
#define DOPPLER_RUNTIME_PARTS_MPI_MPI_INTERNAL_H

#include "runtime/parts/mpi/mpi.h"

#include <mpi.h>
#include <pthread.h>
#include <stdatomic.h>

enum { DOP_MPI_LANES = 3 };

/* One direction to or from one rank: a ring of buffers that are in flight or preposted. */
typedef struct dop_mpi_ring {
    uint32_t depth;        /* 0: this direction is not used */
    size_t most;           /* bytes of a buffer */
    uint8_t *buffers;      /* owned, [depth][most] */
    MPI_Request *requests; /* owned, [depth]; receiving: persistent */
    uint32_t next;         /* to be waited for */
    uint32_t held;         /* receiving: the buffer that the caller has; UINT32_MAX: none */
} dop_mpi_ring;

/* Messages between watches.  ALIVE: a sign of life; BYE: the last message of a rank that ends well; FAILED: the sender has failed
 * and ends; LOST: rank 0 has noticed that another rank is lost. */
typedef enum dop_mpi_word { DOP_MPI_ALIVE = 1, DOP_MPI_BYE, DOP_MPI_FAILED, DOP_MPI_LOST } dop_mpi_word;
typedef struct dop_mpi_sign {
    uint32_t word; /* dop_mpi_word */
    uint32_t code; /* FAILED, LOST: dop_status */
    char text[1000];
} dop_mpi_sign;

/* Where a rank runs. */
typedef struct dop_mpi_place {
    char host[64];
    int64_t pid;
} dop_mpi_place;

/* A rank that this one watches: rank 0 all others, the others rank 0. */
typedef struct dop_mpi_peer {
    uint32_t rank;
    MPI_Request receive, send; /* MPI_REQUEST_NULL: none */
    dop_mpi_sign received, sent;
    double heard_ms; /* dop_now_ms when the peer last reported */
    bool bye, said_bye;
    bool has_sign; /* the peer was told of a failure */
} dop_mpi_peer;

typedef struct dop_mpi_window dop_mpi_window; /* mpi_window.c */

struct dop_mpi {
    dop_wire wire;
    MPI_Comm lanes, watching, host; /* host: all ranks on this rank's host */
    MPI_Win window;
    dop_mpi_window *rows_in,
        *rows_out;         /* in `window`: rows from the rank before and to the next one; NULL: they go as messages */
    bool has_slot;         /* the caller has the oldest message of rows_in */
    dop_mpi_place *places; /* owned, [n] */
    dop_mpi_ring (*out)[DOP_MPI_LANES]; /* owned, [n] */
    dop_mpi_ring (*in)[DOP_MPI_LANES];  /* owned, [n] */
    double silence_ms;
    /* The watch. */
    pthread_t thread;
    bool started;
    dop_mpi_peer *peers; /* owned, the watch's */
    uint32_t n_peers;
    _Atomic bool ending;  /* the watch must say goodbye */
    _Atomic bool failed;  /* a rank is lost, and the following are set: */
    _Atomic bool failing; /* the fields that `failed` announces are being set */
    _Atomic bool silent;  /* the lost rank will not end by itself */
    bool told;            /* rank 0 has told this rank of the loss, and reports it itself */
    bool passed_on;       /* rank 0: the other ranks were told of the loss */
    dop_status code;
    char why[1200];
    _Atomic bool has_sign; /* this rank has failed, and the watch must report it: */
    dop_mpi_sign sign;
};

/* mpi_watch.c */
dop_status dop_mpi_watch_start(dop_mpi *mpi, dop_diag *diag);
/* Says goodbye, and waits until all peers have said it. */
void dop_mpi_watch_end(dop_mpi *mpi);
double dop_mpi_now_ms(void);
/* Says why all ranks end, unless another rank does: rank 0, or rank 1 when rank 0 is the one that is lost. */
void dop_mpi_watch_say(const dop_mpi *mpi);

/* mpi_window.c; every rank of a host calls the first two. */
void dop_mpi_window_make(dop_mpi *mpi);
void dop_mpi_window_free(dop_mpi *mpi);
dop_status dop_mpi_window_send(dop_mpi *mpi, const void *bytes, size_t size, dop_diag *diag);
dop_status dop_mpi_window_receive(dop_mpi *mpi, dop_diag *diag, const uint8_t **out_bytes, size_t *out_size);
bool dop_mpi_window_ready(const dop_mpi *mpi);
/* What a thread that waits does between two looks, the first of which is number 0. */
void dop_mpi_rest(const dop_mpi *mpi, uint64_t looks);

#endif
